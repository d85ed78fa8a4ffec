//! What blocks say of themselves: when each started and ended, by the device's timer, and on which SM.
//!
//! A [`Stamper`] is a kernel whose blocks each take a given time and leave a [`Stamp`]; [`Stamps`] is the memory that
//! they leave it in. The functions below read off stamps what a part asks: how many blocks an SM held at once, which
//! share of the device somebody had, how far into a kernel another one's first block came.

use crate::cuda::session::REGISTERS;
use crate::cuda::{CudaError, Function, Module, Node, Session, Shape};
use crate::kernels::{Successor, stamping};
use gridmux_workloads::portable;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bytes that a block writes.
pub const STAMP_BYTES: u64 = 24;

/// What a block has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// When it started, in nanoseconds of the device's timer.
    pub start: u64,
    /// When it was about to end.
    pub end: u64,
    /// Its SM.
    pub sm: u64,
}

/// Device memory for stamps; it is given back with the value.
#[derive(Debug)]
pub struct Stamps<'a> {
    cuda: &'a Session,
    /// Where the first one is written to.
    pub address: u64,
    count: u64,
}

impl<'a> Stamps<'a> {
    /// Allocates memory for a number of stamps.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(cuda: &'a Session, count: u64) -> Result<Self, CudaError> {
        let address = cuda.zeroed(count * STAMP_BYTES)?;
        Ok(Self {
            cuda,
            address,
            count,
        })
    }

    /// Returns where the stamp of that number is written to.
    #[must_use]
    pub const fn at(&self, number: u64) -> u64 {
        self.address + number * STAMP_BYTES
    }

    /// Forgets all stamps.
    ///
    /// # Errors
    /// The driver's.
    pub fn clear(&self) -> Result<(), CudaError> {
        self.cuda.fill(self.address, 0, self.count * STAMP_BYTES)
    }

    /// Reads the stamps that blocks have written, in the order of their places.
    ///
    /// # Errors
    /// The driver's.
    pub fn read(&self) -> anyhow::Result<Vec<Stamp>> {
        let words = self
            .cuda
            .words(self.address, usize::try_from(3 * self.count)?)?;
        let stamps = words.chunks_exact(3).map(|words| Stamp {
            start: words[0],
            end: words[1],
            sm: words[2],
        });
        // No block ends at the timer's beginning.
        Ok(stamps.filter(|stamp| stamp.end != 0).collect())
    }
}

impl Drop for Stamps<'_> {
    fn drop(&mut self) {
        // Behind an error of the device nothing can be given back, and the part's process ends soon.
        drop(self.cuda.free(self.address));
    }
}

/// Blocks of a launch of a [`Stamper`].
#[derive(Debug, Clone, Copy)]
pub struct Blocks {
    /// How many.
    pub count: u32,
    /// Threads of each.
    pub threads: u32,
    /// Dynamic shared memory of each in bytes.
    pub shared_bytes: u32,
    /// The least time that one takes, in nanoseconds.
    pub ns: u64,
    /// How much longer one may take, which its number decides, in nanoseconds, below 2^48.
    pub spread_ns: u64,
}

impl Blocks {
    /// Returns blocks that take half of a time to one and a half, in microseconds, so that their ends lie scattered.
    #[must_use]
    pub const fn scattered(count: u32, threads: u32, us: u64) -> Self {
        Self {
            count,
            threads,
            shared_bytes: 0,
            ns: us * 500,
            spread_ns: us * 1000,
        }
    }

    /// Returns as many blocks of the same kind.
    #[must_use]
    pub const fn times(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// Returns the same blocks with that much dynamic shared memory each.
    #[must_use]
    pub const fn with_shared(self, shared_bytes: u32) -> Self {
        Self {
            shared_bytes,
            ..self
        }
    }

    /// Waits, on an idle device, until blocks of this kind that have just been launched have begun to end: so long as
    /// one takes at most, and some for the launch. It looks at the clock, as a sleep lasts tens of microseconds longer.
    pub fn pause_until_some_end(self) {
        const LAUNCH: Duration = Duration::from_micros(30);
        let start = Instant::now();
        while start.elapsed() < Duration::from_nanos(self.ns + self.spread_ns) + LAUNCH {
            std::hint::spin_loop();
        }
    }

    const fn shape(self) -> Shape {
        Shape {
            shared_bytes: self.shared_bytes,
            ..Shape::row(self.count, self.threads)
        }
    }

    /// Returns the parameters of a launch that writes to these places.
    fn words(self, out: u64) -> [u64; 4] {
        // A look at the timer takes longer than a nanosecond.
        [out, self.ns, self.spread_ns, self.ns + self.spread_ns]
    }
}

/// A kernel whose blocks leave stamps.
#[derive(Debug)]
pub struct Stamper<'a> {
    cuda: &'a Session,
    module: Option<Module>,
    /// The kernel.
    pub function: Function,
}

impl<'a> Stamper<'a> {
    /// Loads the kernel that keeps that many registers beside its own.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(cuda: &'a Session, kept: u32, successor: Successor) -> anyhow::Result<Self> {
        Self::of(cuda, &stamping(kept, successor), "stamp")
    }

    /// Loads the kernel whose blocks read memory again and again, as `reread` in `kernels/stamp.ptx`.
    ///
    /// # Errors
    /// The driver's.
    pub fn rereading(cuda: &'a Session) -> anyhow::Result<Self> {
        Self::of(cuda, &stamping(0, Successor::AtEnd), "reread")
    }

    fn of(cuda: &'a Session, text: &str, name: &str) -> anyhow::Result<Self> {
        let module = cuda.load(&portable(text))?;
        let function = cuda.function(&module, name)?;
        cuda.allow_shared(&function, cuda.most_shared()?)?;
        Ok(Self {
            cuda,
            module: Some(module),
            function,
        })
    }

    /// Launches blocks whose stamps are written from `out` on.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self, blocks: Blocks, stream: u64, out: u64) -> Result<(), CudaError> {
        let words = blocks.words(out);
        self.cuda
            .launch_words(&self.function, blocks.shape(), stream, &words)
    }

    /// Launches blocks so that they may start before the launch in front of theirs on the stream has ended.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch_early(&self, blocks: Blocks, stream: u64, out: u64) -> Result<(), CudaError> {
        let (api, words) = (&self.cuda.api, blocks.words(out));
        self.function
            .launch_early(api, blocks.shape(), stream, &words)
    }

    /// Returns how many registers a thread of the kernel has, as the driver has compiled it.
    ///
    /// # Errors
    /// The driver's.
    pub fn registers(&self) -> Result<i32, CudaError> {
        self.cuda.function_attribute(&self.function, REGISTERS)
    }

    /// Returns the same launch as a node of a graph.
    #[must_use]
    pub fn node(&self, blocks: Blocks, out: u64) -> Node<'_> {
        Node {
            function: &self.function,
            shape: blocks.shape(),
            words: blocks.words(out).to_vec(),
        }
    }

    /// Returns how many of such blocks an SM holds at most.
    ///
    /// # Errors
    /// The driver's.
    pub fn per_sm(&self, blocks: Blocks) -> Result<u32, CudaError> {
        self.cuda
            .blocks_per_sm(&self.function, blocks.threads, blocks.shared_bytes)
    }
}

impl Drop for Stamper<'_> {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // As for stamps.
            drop(self.cuda.unload(module));
        }
    }
}

/// Returns when the first block started.
#[must_use]
pub fn first_start(stamps: &[Stamp]) -> Option<u64> {
    stamps.iter().map(|stamp| stamp.start).min()
}

/// Returns how many of the blocks one SM held at once, at most.
#[must_use]
pub fn most_on_an_sm(stamps: &[Stamp]) -> u32 {
    let mut by_sm: BTreeMap<u64, Vec<Stamp>> = BTreeMap::new();
    for stamp in stamps {
        by_sm.entry(stamp.sm).or_default().push(*stamp);
    }
    let of_sms = by_sm.values().map(|stamps| most_at_once(stamps));
    of_sms.max().unwrap_or(0)
}

/// Returns how many of the blocks were on the device at once, at most. One that ends when another one starts was not
/// beside it.
#[must_use]
pub fn most_at_once(stamps: &[Stamp]) -> u32 {
    let changes = stamps
        .iter()
        .flat_map(|stamp| [(stamp.start, 1), (stamp.end, -1)]);
    let mut changes: Vec<(u64, i32)> = changes.collect();
    changes.sort_unstable();
    let sums = changes.iter().scan(0, |now: &mut i32, (_, change)| {
        *now += change;
        Some(*now)
    });
    sums.max().unwrap_or(0).max(0).unsigned_abs()
}

/// Returns where a moment lies in the starts of a kernel's blocks: 0 is the first one's, 1 the last one's.
#[must_use]
pub fn place_in_starts(stamps: &[Stamp], moment: u64) -> Option<f64> {
    let first = first_start(stamps)?;
    let last = stamps.iter().map(|stamp| stamp.start).max()?;
    let span = last.saturating_sub(first).max(1);
    Some(apart(moment, first) / float(span))
}

/// Returns how many of the blocks were on the device, on average, in each of `windows` equal parts of a time.
#[must_use]
pub fn resident(stamps: &[Stamp], (begin, end): (u64, u64), windows: usize) -> Vec<f64> {
    let span = end.saturating_sub(begin).max(1);
    let edge = |window: usize| begin + span * window as u64 / windows as u64;
    let within = |window: usize| {
        let (from, to) = (edge(window), edge(window + 1));
        let parts = stamps
            .iter()
            .map(|stamp| stamp.end.min(to).saturating_sub(stamp.start.max(from)));
        float(parts.sum()) / float(to.saturating_sub(from).max(1))
    };
    (0..windows).map(within).collect()
}

/// Returns by how many nanoseconds a moment lies behind another one.
#[must_use]
pub fn apart(moment: u64, other: u64) -> f64 {
    moment.wrapping_sub(other).cast_signed() as f64
}

/// Returns a length of time in nanoseconds as a figure.
#[must_use]
pub fn float(ns: u64) -> f64 {
    ns as f64
}

#[cfg(test)]
mod tests {
    use super::{Stamp, most_on_an_sm, place_in_starts, resident};

    const fn stamp(start: u64, end: u64, sm: u64) -> Stamp {
        Stamp { start, end, sm }
    }

    #[test]
    fn a_block_that_ends_when_another_starts_is_not_beside_it() {
        let stamps = [stamp(0, 10, 0), stamp(10, 20, 0), stamp(5, 15, 1)];
        assert_eq!(most_on_an_sm(&stamps), 1);
        let stamps = [stamp(0, 11, 0), stamp(10, 20, 0), stamp(10, 30, 0)];
        assert_eq!(most_on_an_sm(&stamps), 3);
        assert_eq!(most_on_an_sm(&[]), 0);
    }

    #[test]
    fn residency_counts_the_part_of_a_block_that_lies_in_a_window() {
        let stamps = [stamp(0, 15, 0), stamp(10, 20, 1), stamp(30, 40, 1)];
        assert_eq!(resident(&stamps, (0, 20), 2), [1.0, 1.5]);
        assert_eq!(resident(&stamps, (20, 30), 1), [0.0]);
    }

    #[test]
    fn a_moment_lies_between_the_first_start_and_the_last() {
        let stamps = [stamp(100, 150, 0), stamp(300, 350, 0)];
        assert_eq!(place_in_starts(&stamps, 150), Some(0.25));
        assert_eq!(place_in_starts(&stamps, 320), Some(1.1));
        assert_eq!(place_in_starts(&[], 0), None);
    }
}
