//! Benchmarks of the rings, one JSON line per benchmark on standard output.
//!
//! Both ends run on threads pinned to two processors; the memory is the same
//! memfd, mapped once by each end, as two processes would. Every benchmark
//! measures its floor in the same run, alternating with it in rounds, and
//! prints medians over the rounds, because machines are noisy:
//!
//! - `ring_round_trip`: one submission and its completion, both ends spinning,
//!   p50 in nanoseconds; the floor is a bare cache-line ping-pong.
//! - `ring_throughput`: submissions published one by one, in millions a
//!   second; the floor is a bare counter handed over the same way, one store
//!   and one 64-byte slot per item, with neither checks nor doorbell.
//!
//! A name given as an argument runs only the benchmarks that contain it.

use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::ring::host::HostRings;
use gridmux_channel::ring::{
    CompletionEntry, CompletionStatus, Launch, Operation, PushError, RingLayout, SubmissionEntry,
};
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

const ROUNDS: usize = 25;
const ROUND_TRIPS: usize = 5_000;
const SUBMISSIONS: u64 = 300_000;

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let wanted = |name: &str| filter.as_deref().is_none_or(|filter| name.contains(filter));
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        eprintln!("SKIPPED: the ring benchmarks need two processors, this machine has {cpus}");
        return;
    }
    if wanted("ring_round_trip") {
        round_trip();
    }
    if wanted("ring_throughput") {
        throughput();
    }
}

fn round_trip() {
    let (mut floors, mut values) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floors.push(ping_pong_p50());
        values.push(ring_p50());
    }
    let (floor, value) = (median(floors), median(values));
    println!(
        "{{\"name\":\"ring_round_trip\",\"value\":{value:.0},\"unit\":\"ns\",\
         \"better\":\"lower\",\"floor\":{floor:.0},\"ratio\":{:.2},\
         \"peer\":{{\"iceoryx2 0.10 request-response, polling\":1920}}}}",
        value / floor
    );
}

fn throughput() {
    let (mut floors, mut values) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floors.push(bare_rate());
        values.push(ring_rate());
    }
    let (floor, value) = (median(floors), median(values));
    println!(
        "{{\"name\":\"ring_throughput\",\"value\":{value:.2},\"unit\":\"M/s\",\
         \"better\":\"higher\",\"floor\":{floor:.2},\"ratio\":{:.2},\"peer\":null}}",
        value / floor
    );
}

fn pair() -> (HostRings, ClientRings) {
    let host = HostRings::create(RingLayout::default()).expect("ring memory");
    let memfd = host.memfd().try_clone_to_owned().expect("descriptor");
    let doorbell = host.doorbell().try_clone_to_owned().expect("descriptor");
    let client = ClientRings::map(&memfd, doorbell).expect("mapping");
    (host, client)
}

fn launch(cookie: u64) -> SubmissionEntry {
    let launch = Launch {
        kernel: 1,
        grid: [64, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        args_offset: 0,
        args_len: 0,
        is_cooperative: false,
    };
    SubmissionEntry::new(Operation::Launch(launch), 0, cookie, 0)
}

/// Measures one cache line there and back, nothing else.
fn ping_pong_p50() -> f64 {
    #[repr(align(128))]
    struct Line(AtomicU64);
    let lines = Arc::new([Line(AtomicU64::new(0)), Line(AtomicU64::new(0))]);
    let theirs = lines.clone();
    let echo = thread::spawn(move || {
        pin(1);
        for i in 1..=ROUND_TRIPS as u64 {
            // Acquire: pairs with the Release store of line 0 below.
            while theirs[0].0.load(Ordering::Acquire) != i {
                spin_loop();
            }
            // Release: pairs with the Acquire load of line 1 below.
            theirs[1].0.store(i, Ordering::Release);
        }
    });
    pin(0);
    let samples = (1..=ROUND_TRIPS as u64).map(|i| {
        let start = Instant::now();
        // Release: pairs with the echo's Acquire load.
        lines[0].0.store(i, Ordering::Release);
        // Acquire: pairs with the echo's Release store.
        while lines[1].0.load(Ordering::Acquire) != i {
            spin_loop();
        }
        nanos(start)
    });
    let samples = samples.collect();
    echo.join().expect("the echo thread");
    median(samples)
}

/// Measures a submission there and a completion back, each with its wake-up check.
fn ring_p50() -> f64 {
    let (mut host, mut client) = pair();
    let echo = thread::spawn(move || {
        pin(1);
        for _ in 0..ROUND_TRIPS {
            let entry = loop {
                if let Some(entry) = host.pop().expect("an honest tenant") {
                    break entry;
                }
                spin_loop();
            };
            let done = CompletionEntry::new(entry.cookie(), CompletionStatus::Ok, 1, 2);
            host.push_completion(done).expect("room");
            host.wake_if_parked();
        }
    });
    pin(0);
    let samples = (0..ROUND_TRIPS as u64).map(|cookie| {
        let start = Instant::now();
        client.push(&launch(cookie)).expect("room");
        let done = loop {
            if let Some(done) = client.pop_completion().expect("an honest mediator") {
                break done;
            }
            spin_loop();
        };
        assert_eq!(done.cookie, cookie);
        nanos(start)
    });
    let samples = samples.collect();
    echo.join().expect("the echo thread");
    median(samples)
}

/// Submissions one by one; the mediator answers a batch of what it found.
fn ring_rate() -> f64 {
    let (mut host, mut client) = pair();
    let ready = Arc::new(AtomicBool::new(false));
    let theirs = ready.clone();
    let drain = thread::spawn(move || {
        pin(1);
        // Release: pairs with the Acquire load before the start.
        theirs.store(true, Ordering::Release);
        let mut taken = 0;
        while taken < SUBMISSIONS {
            let before = taken;
            while let Some(entry) = host.pop().expect("an honest tenant") {
                let done = CompletionEntry::new(entry.cookie(), CompletionStatus::Ok, 1, 2);
                host.push_completion(done).expect("room");
                taken += 1;
            }
            if taken == before {
                spin_loop();
            } else {
                host.wake_if_parked();
            }
        }
    });
    pin(0);
    // Acquire: pairs with the Release store of the draining thread.
    while !ready.load(Ordering::Acquire) {
        spin_loop();
    }
    let start = Instant::now();
    let mut seen = 0;
    for cookie in 0..SUBMISSIONS {
        while client.push(&launch(cookie)) == Err(PushError::Full) {
            seen += take_all(&mut client);
        }
    }
    while seen < SUBMISSIONS {
        seen += take_all(&mut client);
    }
    let rate = SUBMISSIONS as f64 * 1e3 / nanos(start);
    drain.join().expect("the draining thread");
    rate
}

fn take_all(client: &mut ClientRings) -> u64 {
    let mut taken = 0;
    while client
        .pop_completion()
        .expect("an honest mediator")
        .is_some()
    {
        taken += 1;
    }
    if taken == 0 {
        spin_loop();
    }
    taken
}

/// 64-byte items through the simplest queue there is, without completions.
fn bare_rate() -> f64 {
    const SLOTS: usize = 1024;
    #[repr(align(128))]
    struct Index(AtomicU64);
    struct Bare {
        head: Index,
        tail: Index,
        slots: Vec<[AtomicU64; 8]>,
    }
    let slots = (0..SLOTS)
        .map(|_| std::array::from_fn(|_| AtomicU64::new(0)))
        .collect();
    let bare = Arc::new(Bare {
        head: Index(AtomicU64::new(0)),
        tail: Index(AtomicU64::new(0)),
        slots,
    });
    let theirs = bare.clone();
    let drain = thread::spawn(move || {
        pin(1);
        let (mut head, mut sum) = (0, 0u64);
        while (head as u64) < SUBMISSIONS {
            // Acquire: pairs with the Release store of `tail`.
            while theirs.tail.0.load(Ordering::Acquire) == head as u64 {
                spin_loop();
            }
            for word in &theirs.slots[head % SLOTS] {
                // relaxed: the index orders them.
                sum = sum.wrapping_add(word.load(Ordering::Relaxed));
            }
            head += 1;
            // Release: pairs with the Acquire load of `head`.
            theirs.head.0.store(head as u64, Ordering::Release);
        }
        sum
    });
    pin(0);
    let start = Instant::now();
    let mut head = 0;
    for tail in 0..SUBMISSIONS {
        while tail - head >= SLOTS as u64 {
            // Acquire: pairs with the Release store of `head`.
            head = bare.head.0.load(Ordering::Acquire);
        }
        let slot = usize::try_from(tail).unwrap_or(0) % SLOTS;
        for word in &bare.slots[slot] {
            // relaxed: the index orders them.
            word.store(tail, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire load of `tail`.
        bare.tail.0.store(tail + 1, Ordering::Release);
    }
    let sum = drain.join().expect("the draining thread");
    let rate = SUBMISSIONS as f64 * 1e3 / nanos(start);
    assert_ne!(sum, 0);
    rate
}

/// Pins the calling thread to one processor of those it may run on.
fn pin(index: usize) {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::sync::OnceLock;
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    let this = nix::unistd::Pid::from_raw(0);
    let allowed = ALLOWED.get_or_init(|| {
        let set = sched_getaffinity(this).expect("affinity");
        (0..CpuSet::count())
            .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
            .collect()
    });
    let mut set = CpuSet::new();
    set.set(allowed[index]).expect("a processor");
    // Where pinning is not permitted the figures are noisier, not wrong.
    let _ = sched_setaffinity(this, &set);
}

fn nanos(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
