//! Programs whose launches are recorded; `tests/tests/service/cuda/records.rs` reads what was written.

use crate::session::{LEGACY, NON_BLOCKING, Session, ok};
use std::io::Write;
use std::path::PathBuf;

scenarios! {
    records: launches_of_three_kernels launches_until_it_is_killed a_failure_is_the_copys
        a_long_kernel_holds_no_other_back;
}

/// Four launches of three kernels on three streams, the last of which is not waited for.
fn launches_of_three_kernels() {
    let session = Session::start();
    let words = session.words(&[0; 128]);
    let (one, two) = (session.stream(0), session.stream(NON_BLOCKING));
    ok(session.launch(session.function(c"add"), (4, 32), one, &[words, 128]));
    ok(session.launch(session.function(c"slow"), (1, 64), two, &[words, 50_000, 1]));
    ok(session.cuCtxSynchronize());
    ok(session.launch(session.function(c"small"), (3, 128), LEGACY, &[words]));
    ok(session.launch(session.function(c"add"), (2, 32), one, &[words, 64]));
}

/// Says how many launches it has waited for, and goes on.
fn launches_until_it_is_killed() {
    let session = Session::start();
    let (next, word) = (session.function(c"next"), session.words(&[0]));
    for round in 1.. {
        for _ in 0..100 {
            ok(session.launch(next, (1, 1), 0, &[word, word]));
        }
        ok(session.cuStreamSynchronize(0));
        println!("{}", round * 100);
        std::io::stdout().flush().expect("somebody listens");
    }
}

/// The last of five blocks reads behind the buffer; the copy behind the launch says so, as without recording.
fn a_failure_is_the_copys() {
    let session = Session::start();
    let words = session.words(&[0; 128]);
    ok(session.launch(session.function(c"add"), (5, 32), LEGACY, &[words, 160]));
    let mut read = [0_u32; 4];
    let copied = session.cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), words, 16);
    assert_eq!(copied, crate::session::code::ILLEGAL_ADDRESS);
}

/// More launches than wait for their lines at most, behind one that does not end before their lines are there.
fn a_long_kernel_holds_no_other_back() {
    const ENOUGH: usize = 1000;
    let session = Session::start();
    let file = PathBuf::from(std::env::var_os("GRIDMUX_RECORD").expect("it is recorded"));
    let (one, two) = (session.stream(NON_BLOCKING), session.stream(NON_BLOCKING));
    let (flag, seen, word) = (
        session.words(&[0]),
        session.words(&[0]),
        session.words(&[0]),
    );
    let (watch, next) = (session.function(c"watch"), session.function(c"next"));
    let forever = u64::from(u32::MAX);
    ok(session.launch(watch, (1, 1), one, &[flag, seen, forever]));
    let lines = || std::fs::read_to_string(&file).map_or(0, |text| text.lines().count());
    let mut launches = 0;
    while lines() < ENOUGH {
        assert!(
            launches < 200_000,
            "{} lines after {launches} launches",
            lines()
        );
        for _ in 0..100 {
            ok(session.launch(next, (1, 1), two, &[word, word]));
        }
        launches += 100;
    }
    assert_eq!(session.cuStreamQuery(one), crate::session::code::NOT_READY);
    ok(session.cuMemsetD32Async(flag, 1, 1, two));
    ok(session.cuCtxSynchronize());
    assert_eq!(
        (session.read(seen, 1)[0], session.read(word, 1)[0]),
        (1, launches)
    );
}
