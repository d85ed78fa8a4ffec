//! Host functions and callbacks: when they run, what stands behind them, and what they may not do.
#![allow(
    clippy::disallowed_types,
    reason = "a program of its own, which has no dispatcher"
)]

use crate::session::{LEGACY, NON_BLOCKING, PER_THREAD, Session, code, invalid, ok, refused};
use parking_lot::{Condvar, Mutex};
use std::ffi::c_void;
use std::ptr::{from_ref, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

scenarios! {
    host_functions: order_in_their_stream many_at_once calls_into_the_library_are_refused their_stream_is_destroyed
        across_streams_by_events the_legacy_stream_waits after_a_fault bad_arguments;
}

/// What functions have done, in order, and a gate that some wait for.
#[derive(Debug, Default)]
struct Shared {
    log: Mutex<Vec<u32>>,
    is_open: Mutex<bool>,
    opened: Condvar,
    is_in_one: AtomicBool,
    overlaps: AtomicU32,
}

impl Shared {
    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }

    fn log(&self) -> Vec<u32> {
        self.log.lock().clone()
    }
}

/// What a function is given: what it writes down, whether it waits for the gate, and a word that it reads instead.
#[derive(Debug)]
struct Task {
    shared: &'static Shared,
    says: u32,
    waits: bool,
    reads: Option<u64>,
}

fn shared() -> &'static Shared {
    Box::leak(Box::default())
}

/// Returns a task that lives as long as the process, because a function may come late.
fn task(shared: &'static Shared, says: u32) -> *mut c_void {
    leak(Task {
        shared,
        says,
        waits: false,
        reads: None,
    })
}

/// Returns one that waits for the gate first.
fn gated(shared: &'static Shared, says: u32) -> *mut c_void {
    leak(Task {
        shared,
        says,
        waits: true,
        reads: None,
    })
}

fn leak(task: Task) -> *mut c_void {
    from_ref(Box::leak(Box::new(task))).cast_mut().cast()
}

extern "C" fn act(data: *mut c_void) {
    // SAFETY: every function of these scenarios is given a task that is never dropped.
    let task = unsafe { &*data.cast::<Task>() };
    let shared = task.shared;
    // Relaxed: functions that ran at the same time would see each other sooner or later, which is enough.
    if shared.is_in_one.swap(true, Ordering::Relaxed) {
        shared.overlaps.fetch_add(1, Ordering::Relaxed);
    }
    if task.waits {
        let mut is_open = shared.is_open.lock();
        shared.opened.wait_while(&mut is_open, |is_open| !*is_open);
    }
    let says = task.reads.map_or(task.says, |address| {
        let word = std::ptr::with_exposed_provenance::<u32>(usize::try_from(address).unwrap());
        // SAFETY: the address is that of a word in pinned memory, which no copy writes meanwhile.
        unsafe { word.read_volatile() }
    });
    shared.log.lock().push(says);
    // Relaxed: as above.
    shared.is_in_one.store(false, Ordering::Relaxed);
}

fn order_in_their_stream() {
    let session = Session::start();
    let slow = session.function(c"slow");
    let (word, pinned) = (session.words(&[0]), session.pinned(64));
    let pinned_at = pinned.expose_provenance() as u64;
    for stream in [
        0,
        LEGACY,
        PER_THREAD,
        session.stream(0),
        session.stream(NON_BLOCKING),
    ] {
        let shared = shared();
        for round in 1..=20 {
            ok(session.launch(slow, (1, 32), stream, &[word, 2_000, round]));
            ok(session.cuMemcpyDtoHAsync_v2(pinned.cast(), word, 4, stream));
            // Reads what the copy before has written, which the next round's overwrites.
            let reads = leak(Task {
                shared,
                says: 0,
                waits: false,
                reads: Some(pinned_at),
            });
            ok(session.cuLaunchHostFunc(stream, Some(act), reads));
        }
        ok(session.cuStreamSynchronize(stream));
        assert_eq!(
            shared.log(),
            (1..=20).collect::<Vec<_>>(),
            "stream {stream:#x}"
        );
    }
    // What stands behind a function begins after it.
    let shared = shared();
    let (flag, seen) = (session.words(&[0]), session.words(&[9]));
    let (stream, other) = (session.stream(NON_BLOCKING), session.stream(NON_BLOCKING));
    ok(session.cuLaunchHostFunc(stream, Some(act), gated(shared, 1)));
    ok(session.launch(session.function(c"next"), (1, 1), stream, &[seen, flag]));
    ok(session.cuMemsetD32Async(flag, 41, 1, other));
    ok(session.cuStreamSynchronize(other));
    refused(session.cuStreamQuery(stream), code::NOT_READY);
    assert!(shared.log().is_empty());
    shared.open();
    ok(session.cuStreamSynchronize(stream));
    assert_eq!((shared.log(), session.read(seen, 1)), (vec![1], vec![42]));
}

fn many_at_once() {
    const EACH: u32 = 250;
    let session = Session::start();
    let next = session.function(c"next");
    let word = session.words(&[0; 8]);
    let streams: [u64; 8] =
        std::array::from_fn(|index| session.stream(u32::try_from(index % 2).unwrap()));
    let shared = shared();
    for round in 0..EACH {
        for (place, stream) in (0..).zip(streams) {
            let says = place * EACH + round;
            ok(session.launch(
                next,
                (1, 1),
                stream,
                &[word + 4 * u64::from(place), word + 4 * u64::from(place)],
            ));
            match round % 2 {
                0 => ok(session.cuLaunchHostFunc(stream, Some(act), task(shared, says))),
                _ => ok(session.cuStreamAddCallback(stream, Some(called), task(shared, says), 0)),
            }
        }
    }
    ok(session.cuCtxSynchronize());
    let log = shared.log();
    for place in 0..8 {
        let own: Vec<u32> = log
            .iter()
            .copied()
            .filter(|says| says / EACH == place)
            .collect();
        assert_eq!(own, (place * EACH..(place + 1) * EACH).collect::<Vec<_>>());
    }
    assert_eq!(session.read(word, 8), [EACH; 8]);
    // Relaxed: all have returned before the synchronisation did.
    assert_eq!(shared.overlaps.load(Ordering::Relaxed), 0, "one at a time");
}

extern "C" fn called(_: u64, status: u32, data: *mut c_void) {
    assert_eq!(status, 0);
    act(data);
}

static INSIDE: OnceLock<Session> = OnceLock::new();
static CODES: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Calls what a function may not call, and what it may.
extern "C" fn call(data: *mut c_void) {
    let session = INSIDE.get().expect("it was set before");
    let stream = data.expose_provenance() as u64;
    let (mut made, mut free, mut version, mut name) = (0, 0, 0, std::ptr::null());
    let mut own = [0u32];
    let codes = [
        session.cuMemAlloc_v2(&mut made, 64),
        session.cuStreamSynchronize(stream),
        session.cuCtxSynchronize(),
        session.cuStreamQuery(stream),
        session.cuMemGetInfo_v2(&mut free, null_mut()),
        session.cuMemcpyDtoH_v2(own.as_mut_ptr().cast(), 8, 4),
        session.cuLaunchHostFunc(stream, Some(call), data),
        session.launch(8, (1, 1), stream, &[]),
        session.cuStreamDestroy_v2(stream),
        session.cuInit(0),
        session.cuDriverGetVersion(&mut version),
        session.cuGetErrorName(0, &mut name),
    ];
    assert_eq!((made, free), (0, 0));
    CODES.lock().extend(codes);
}

fn calls_into_the_library_are_refused() {
    let session = INSIDE.get_or_init(Session::start);
    let stream = session.stream(0);
    let data = std::ptr::with_exposed_provenance_mut(usize::try_from(stream).unwrap());
    ok(session.cuLaunchHostFunc(stream, Some(call), data));
    ok(session.cuStreamSynchronize(stream));
    let codes = std::mem::take(&mut *CODES.lock());
    assert_eq!(codes[..9], [code::NOT_PERMITTED; 9]);
    assert_eq!(
        codes[9..],
        [0; 3],
        "what needs no initialisation is permitted"
    );
    // Outside everything works.
    let word = session.words(&[1]);
    ok(session.launch(session.function(c"next"), (1, 1), stream, &[word, word]));
    ok(session.cuStreamSynchronize(stream));
    assert_eq!(session.read(word, 1), [2]);
    ok(session.cuStreamDestroy_v2(stream));
}

fn their_stream_is_destroyed() {
    let session = Session::start();
    let next = session.function(c"next");
    let word = session.words(&[0]);
    for flags in [0, NON_BLOCKING] {
        let shared = shared();
        let stream = session.stream(flags);
        session.write(word, &[0]);
        ok(session.cuLaunchHostFunc(stream, Some(act), gated(shared, 1)));
        ok(session.launch(next, (1, 1), stream, &[word, word]));
        ok(session.cuStreamAddCallback(stream, Some(called), task(shared, 2), 0));
        ok(session.cuStreamDestroy_v2(stream));
        refused(
            session.cuLaunchHostFunc(stream, Some(act), task(shared, 3)),
            code::INVALID_HANDLE,
        );
        assert_eq!(shared.log(), []);
        shared.open();
        // Destroying a stream takes none of its work away.
        ok(session.cuCtxSynchronize());
        assert_eq!((shared.log(), session.read(word, 1)), (vec![1, 2], vec![1]));
    }
}

fn across_streams_by_events() {
    let session = Session::start();
    let (one, two) = (session.stream(NON_BLOCKING), session.stream(NON_BLOCKING));
    for round in 0..20 {
        let (shared, event) = (shared(), session.event());
        ok(session.cuLaunchHostFunc(one, Some(act), gated(shared, 1)));
        ok(session.cuEventRecord(event, one));
        ok(session.cuStreamWaitEvent(two, event, 0));
        ok(session.cuLaunchHostFunc(two, Some(act), task(shared, 2)));
        ok(session.cuEventRecord(event, two));
        ok(session.cuStreamWaitEvent(one, event, 0));
        ok(session.cuStreamAddCallback(one, Some(called), task(shared, 3), 0));
        refused(session.cuEventQuery(event), code::NOT_READY);
        refused(session.cuStreamQuery(two), code::NOT_READY);
        assert_eq!(shared.log(), []);
        shared.open();
        match round % 2 {
            0 => ok(session.cuEventSynchronize(event)),
            _ => ok(session.cuStreamSynchronize(two)),
        }
        assert_eq!(shared.log()[..2], [1, 2]);
        ok(session.cuStreamSynchronize(one));
        assert_eq!(shared.log(), [1, 2, 3]);
        ok(session.cuEventDestroy_v2(event));
    }
}

fn the_legacy_stream_waits() {
    let session = Session::start();
    let (blocking, other, free) = (
        session.stream(0),
        session.stream(0),
        session.stream(NON_BLOCKING),
    );
    let next = session.function(c"next");
    let (word, beside) = (session.words(&[0]), session.words(&[5]));
    let shared = shared();
    ok(session.cuLaunchHostFunc(blocking, Some(act), gated(shared, 1)));
    ok(session.launch(next, (1, 1), 0, &[word, word]));
    ok(session.cuLaunchHostFunc(LEGACY, Some(act), task(shared, 2)));
    ok(session.cuLaunchHostFunc(other, Some(act), task(shared, 3)));
    // A stream that does not wait for the legacy one: its kernel runs while the function waits.
    ok(session.launch(next, (1, 1), free, &[beside, beside]));
    ok(session.cuStreamSynchronize(free));
    for stream in [blocking, 0, other] {
        refused(session.cuStreamQuery(stream), code::NOT_READY);
    }
    shared.open();
    ok(session.cuStreamSynchronize(other));
    assert_eq!(shared.log(), [1, 2, 3]);
    assert_eq!(
        (session.read(word, 1), session.read(beside, 1)),
        (vec![1], vec![6])
    );
}

static STATUSES: Mutex<Vec<(u64, u32)>> = Mutex::new(Vec::new());

extern "C" fn note(stream: u64, status: u32, _: *mut c_void) {
    STATUSES.lock().push((stream, status));
}

fn after_a_fault() {
    let session = Session::start();
    let stream = session.stream(NON_BLOCKING);
    let shared = shared();
    ok(session.cuStreamAddCallback(stream, Some(note), null_mut(), 0));
    ok(session.launch(session.function(c"poke"), (1, 1), stream, &[8]));
    ok(session.cuLaunchHostFunc(stream, Some(act), task(shared, 1)));
    ok(session.cuStreamAddCallback(stream, Some(note), null_mut(), 0));
    refused(session.cuStreamSynchronize(stream), code::ILLEGAL_ADDRESS);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while STATUSES.lock().len() < 2 {
        assert!(
            std::time::Instant::now() < deadline,
            "the second callback never came"
        );
        std::thread::yield_now();
    }
    assert_eq!(
        *STATUSES.lock(),
        [(stream, 0), (stream, code::ILLEGAL_ADDRESS)]
    );
    assert_eq!(
        shared.log(),
        [],
        "a host function is not called after a fault"
    );
    refused(
        session.cuLaunchHostFunc(stream, Some(act), task(shared, 2)),
        code::ILLEGAL_ADDRESS,
    );
}

fn bad_arguments() {
    let session = Session::start();
    let stream = session.stream(0);
    let shared = shared();
    invalid(session.cuLaunchHostFunc(stream, None, null_mut()));
    invalid(session.cuStreamAddCallback(stream, None, null_mut(), 0));
    invalid(session.cuStreamAddCallback(stream, Some(called), task(shared, 1), 1));
    refused(
        session.cuLaunchHostFunc(0x1234_5678, Some(act), task(shared, 1)),
        code::INVALID_HANDLE,
    );
    refused(
        session.cuStreamAddCallback(session.event(), Some(called), task(shared, 1), 0),
        code::INVALID_HANDLE,
    );
    ok(session.cuCtxSynchronize());
    assert_eq!(shared.log(), []);
}
