//! Words from the host to a running kernel: which ways reach it, how soon, and what they cost the host.
//!
//! One thread watches a word until it has a value. Times are wall time, from the host's call until the watching kernel,
//! which runs by then, is seen to have ended. `nothing to wait for` is the time of a kernel whose word has the value
//! from the start: it counts the launch, which the ways' times do not, so it is no part of these.

use super::Part;
use crate::cuda::{CudaError, Function, Session, Shape};
use crate::kernels::PROBE;
use crate::lab::Lab;
use gridmux_workloads::portable;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

pub(super) const PART: Part = Part {
    name: "visibility",
    about: "which ways of writing a word reach a running kernel, how soon, and at what cost",
    usual_s: 1,
    limit_s: 60,
    run,
};

/// Unit of times by the host's clock.
const WALL: &str = "us (wall)";
/// What the watched word becomes.
const VALUE: u32 = 7;
/// What the kernel notes in place of its turns when it gave up.
const GAVE_UP: u64 = u64::MAX;
/// `CU_MEMHOSTALLOC_DEVICEMAP`.
const MAPPED: u32 = 2;
/// Bytes of the copy that writes have to pass where the device is busy.
const BIG: usize = 8 << 20;

/// What all ways share.
struct WordBench<'a> {
    cuda: &'a Session,
    watch: Function,
    poke: Function,
    word: u64,
    out: u64,
    kernels: u64,
    /// The stream of writes, of the highest priority.
    writes: u64,
    copies: u64,
    /// [`BIG`] bytes of pinned memory; the first word is [`VALUE`].
    pinned: *mut u32,
    /// Device memory that large copies go to.
    big: u64,
    /// How often the kernel looks before it gives up.
    most: u64,
}

/// A way to write a word: given what all ways share and the word's address.
type WordWrite = fn(&WordBench<'_>, u64) -> Result<(), CudaError>;

const WORD_WRITES: [(&str, WordWrite); 5] = [
    ("copy of ordinary memory", |bench, word| {
        bench.copy(word, std::ptr::from_ref(&VALUE))
    }),
    ("copy of pinned memory", |bench, word| {
        bench.copy(word, bench.pinned)
    }),
    ("fill", |bench, word| {
        // SAFETY: the word is the device's.
        unsafe {
            bench
                .cuda
                .api
                .cuMemsetD32Async(word, VALUE, 1, bench.writes)
        }
    }),
    ("stream memory operation", |bench, word| {
        // SAFETY: as above.
        unsafe {
            bench
                .cuda
                .api
                .cuStreamWriteValue32_v2(bench.writes, word, VALUE, 0)
        }
    }),
    ("kernel", |bench, word| {
        let words = [word, u64::from(VALUE)];
        bench
            .cuda
            .launch_words(&bench.poke, Shape::row(1, 1), bench.writes, &words)
    }),
];

impl<'a> WordBench<'a> {
    fn new(lab: &Lab<'a>) -> anyhow::Result<Self> {
        let cuda = lab.cuda;
        let module = cuda.load(&portable(PROBE))?;
        let mut pinned = std::ptr::null_mut();
        // SAFETY: the place lives across the call.
        unsafe { cuda.api.cuMemHostAlloc(&mut pinned, BIG, 0)? };
        let pinned: *mut u32 = pinned.cast();
        // SAFETY: the memory is this program's, and nobody else uses it yet.
        unsafe { pinned.write(VALUE) };
        Ok(Self {
            cuda,
            watch: cuda.function(&module, "watch")?,
            poke: cuda.function(&module, "poke")?,
            word: cuda.zeroed(256)?,
            out: cuda.zeroed(256)?,
            kernels: cuda.stream(0)?,
            writes: cuda.stream(cuda.highest_priority()?)?,
            copies: cuda.stream(0)?,
            pinned,
            big: cuda.alloc(BIG as u64)?,
            most: lab.scale.choose(1 << 17, 1 << 20),
        })
    }

    /// Copies a word from the host.
    fn copy(&self, word: u64, from: *const u32) -> Result<(), CudaError> {
        // SAFETY: what is copied lives as long as the program.
        unsafe {
            self.cuda
                .api
                .cuMemcpyHtoDAsync_v2(word, from.cast(), 4, self.writes)
        }
    }

    /// Starts a kernel that watches a word, and waits until it runs.
    fn start_watching(&self, word: u64) -> anyhow::Result<()> {
        self.cuda.fill(self.out, 0, 24)?;
        let words = [word, u64::from(VALUE), self.most, self.out];
        self.cuda
            .launch_words(&self.watch, Shape::row(1, 1), self.kernels, &words)?;
        while self.cuda.words(self.out, 1)?[0] == 0 {}
        Ok(())
    }

    /// Waits for the kernel's end; returns whether it saw the value.
    fn has_seen(&self) -> anyhow::Result<bool> {
        self.cuda.wait(self.kernels)?;
        Ok(self.cuda.words(self.out + 16, 1)?[0] != GAVE_UP)
    }

    /// Keeps the copy engine busy for a while.
    fn copy_much(&self) -> Result<(), CudaError> {
        for _ in 0..4 {
            // SAFETY: the memory lives as long as the program.
            unsafe {
                self.cuda.api.cuMemcpyHtoDAsync_v2(
                    self.big,
                    self.pinned.cast(),
                    BIG,
                    self.copies,
                )?;
            }
        }
        Ok(())
    }
}

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let bench = WordBench::new(lab)?;
    floor(lab, &bench)?;
    for (name, way) in WORD_WRITES {
        for busy in [false, true] {
            time_to_see(lab, &bench, name, way, busy)?;
        }
    }
    mapped(lab, &bench)
}

/// Tells in which time a kernel that waits for nothing is launched and seen to have ended.
fn floor(lab: &mut Lab<'_>, bench: &WordBench<'_>) -> anyhow::Result<()> {
    let mut took = Vec::new();
    lab.cuda.write(bench.word, &VALUE.to_le_bytes())?;
    for _ in 0..lab.scale.choose(3, 50) {
        let start = Instant::now();
        let words = [bench.word, u64::from(VALUE), bench.most, bench.out];
        lab.cuda
            .launch_words(&bench.watch, Shape::row(1, 1), bench.kernels, &words)?;
        lab.cuda.wait(bench.kernels)?;
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    lab.spread("nothing to wait for: launch to end", took, WALL);
    Ok(())
}

/// Tries one way, on an idle device or beside large copies.
fn time_to_see(
    lab: &mut Lab<'_>,
    bench: &WordBench<'_>,
    name: &str,
    way: WordWrite,
    busy: bool,
) -> anyhow::Result<()> {
    let name = match busy {
        true => format!("{name}, beside large copies"),
        false => name.to_owned(),
    };
    let (mut called, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..lab.scale.choose(1, 30) {
        lab.cuda.fill(bench.word, 0, 4)?;
        bench.start_watching(bench.word)?;
        if busy {
            bench.copy_much()?;
        }
        let start = Instant::now();
        let written = way(bench, bench.word);
        called.push(start.elapsed().as_secs_f64() * 1e6);
        if lab.offered(&name, written)?.is_none() {
            // The kernel never sees a value, so it ends when its patience does.
            lab.cuda.wait(bench.kernels)?;
            return Ok(());
        }
        let saw = bench.has_seen()?;
        seen.push(start.elapsed().as_secs_f64() * 1e6);
        lab.cuda.wait(bench.writes)?;
        lab.cuda.wait(bench.copies)?;
        if !saw {
            judge_seen(lab, &name, false);
            return Ok(());
        }
    }
    judge_seen(lab, &name, true);
    lab.spread(&format!("{name}: the call"), called, WALL);
    lab.spread(&format!("{name}: until it is seen"), seen, WALL);
    Ok(())
}

/// Checks that a running kernel saw what was written.
fn judge_seen(lab: &mut Lab<'_>, name: &str, saw: bool) {
    let why = if saw { "" } else { "it gave up" };
    lab.check(format!("{name}: a running kernel sees it"), saw, why);
}

/// Tries a word in the host's memory that the device sees under an address of its own.
fn mapped(lab: &mut Lab<'_>, bench: &WordBench<'_>) -> anyhow::Result<()> {
    let name = "store to mapped host memory";
    let (mut host, mut address) = (std::ptr::null_mut(), 0);
    // SAFETY: the place lives across the call.
    let allocated = unsafe { lab.cuda.api.cuMemHostAlloc(&mut host, 4096, MAPPED) };
    if lab.offered(name, allocated)?.is_none() {
        return Ok(());
    }
    // SAFETY: as above, and the memory is the driver's.
    let found = unsafe {
        lab.cuda
            .api
            .cuMemHostGetDevicePointer_v2(&mut address, host, 0)
    };
    if lab.offered(name, found)?.is_none() {
        return Ok(());
    }
    // SAFETY: the driver's memory is aligned to pages and lives as long as the program; host and device only look at
    // it by atomic accesses of this word.
    let word = unsafe { AtomicU32::from_ptr(host.cast()) };
    let mut seen = Vec::new();
    for _ in 0..lab.scale.choose(1, 30) {
        // Relaxed: the kernel that looks at it is launched behind this.
        word.store(0, Ordering::Relaxed);
        bench.start_watching(address)?;
        let start = Instant::now();
        // Relaxed: the word is all that the kernel's relaxed loads of the system's scope look at.
        word.store(VALUE, Ordering::Relaxed);
        let saw = bench.has_seen()?;
        seen.push(start.elapsed().as_secs_f64() * 1e6);
        if !saw {
            judge_seen(lab, name, false);
            return Ok(());
        }
    }
    judge_seen(lab, name, true);
    lab.spread(&format!("{name}: until it is seen"), seen, WALL);
    Ok(())
}
