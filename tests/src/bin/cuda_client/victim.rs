//! Programs that end in the middle of something: killed by a signal, left by `exit`, or robbed of their service.

use crate::session::{NON_BLOCKING, Session, code, ok};
use std::io::Write;

scenarios! {
    victim: works_until_it_is_killed leaves_everything_behind shows_an_address loses_its_service
        is_taken_out;
}

/// Says something to whoever started the program.
fn say(text: &str) {
    println!("{text}");
    std::io::stdout().flush().expect("somebody listens");
}

/// Does one round of everything that leaves something in the service.
fn round(session: &Session) {
    let (stream, event) = (session.stream(NON_BLOCKING), session.event());
    let device = session.alloc(3 << 20);
    let pinned = session.pinned(1 << 20);
    let mut pooled = 0;
    ok(session.cuMemAllocAsync(&mut pooled, 2 << 20, stream));
    ok(session.cuMemcpyHtoDAsync_v2(device, pinned.cast(), 1 << 20, stream));
    ok(session.cuMemcpyDtoDAsync_v2(pooled, device, 1 << 20, stream));
    let module = session.load();
    let slow = session.function_of(module, c"slow");
    ok(session.launch(slow, (8, 32), stream, &[device, 2000, 1]));
    ok(session.cuEventRecord(event, stream));
    ok(session.cuMemFreeAsync(pooled, stream));
    ok(session.cuStreamSynchronize(stream));
    ok(session.cuModuleUnload(module));
    ok(session.cuMemFreeHost(pinned.cast()));
    ok(session.cuMemFree_v2(device));
    ok(session.cuEventDestroy_v2(event));
    ok(session.cuStreamDestroy_v2(stream));
}

fn works_until_it_is_killed() {
    let session = Session::start();
    say("works");
    loop {
        round(&session);
    }
}

/// Ends without giving anything back, with a kernel that runs.
fn leaves_everything_behind() {
    let session = Session::start();
    let stream = session.stream(0);
    let device = session.alloc(3 << 20);
    session.pinned(1 << 20);
    let mut pooled = 0;
    ok(session.cuMemAllocAsync(&mut pooled, 2 << 20, stream));
    let slow = session.function(c"slow");
    ok(session.launch(slow, (8, 32), stream, &[device, 1_000_000, 1]));
    std::process::exit(0);
}

/// Tells where its memory stands, and waits to be killed; writes what the memory holds when it is told to.
fn shows_an_address() {
    let session = Session::start();
    let device = session.words(&[11; 1024]);
    say(&format!("{device},4096"));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
    assert_eq!(
        session.read(device, 1024),
        [11; 1024],
        "another process changed it"
    );
}

/// Waits for a long kernel until it is lost with the service; returns the kernel, its argument and its stream.
fn loses_a_kernel(session: &Session) -> (u64, u64, u64) {
    let stream = session.stream(0);
    let device = session.words(&[0]);
    let slow = session.function(c"slow");
    ok(session.launch(slow, (1, 32), stream, &[device, 100_000_000, 1]));
    say("runs");
    let lost = session.cuStreamSynchronize(stream);
    assert!(lost != 0 && lost != code::NOT_READY, "{lost}");
    (slow, device, stream)
}

/// Loses its tenant while a kernel runs, and checks that the wait for the kernel ends with an error.
fn is_taken_out() {
    loses_a_kernel(&Session::start());
}

/// The service goes while a kernel runs: every call returns, with an error.
fn loses_its_service() {
    let session = Session::start();
    let (slow, device, stream) = loses_a_kernel(&session);
    let (mut made, mut free) = (0, 0);
    for _ in 0..3 {
        assert_ne!(session.cuCtxSynchronize(), 0);
        assert_ne!(session.cuMemAlloc_v2(&mut made, 64), 0);
        assert_ne!(session.cuMemGetInfo_v2(&mut free, std::ptr::null_mut()), 0);
        assert_ne!(session.cuStreamCreate(&mut made, 0), 0);
        assert_ne!(session.launch(slow, (1, 32), stream, &[device, 1, 1]), 0);
        assert_ne!(
            session.cuMemcpyHtoD_v2(device, [0u32].as_ptr().cast(), 4),
            0
        );
    }
    let _ = session.cuCtxDestroy_v2(session.context);
}
