//! Streams and events: what waits for what, shown by results that would differ.

use crate::session::{LEGACY, NON_BLOCKING, PER_THREAD, Session, code, invalid, ok, refused};

scenarios! {
    streams: what_waits_for_the_legacy_stream work_on_one_stream_is_in_order queries_and_kinds
        more_streams_than_the_service_has each_thread_has_its_own;
    events: waits_across_streams times_and_queries;
}

/// More rounds than a test waits for: who gets so far was not woken.
const LONG: u64 = 100_000_000;
/// Rounds enough that what is submitted behind would be done, if it did not wait.
const WHILE: u64 = 100_000;

/// Returns whether `second` runs while `first` does: a kernel on `first` looks at a flag, and one on `second` sets it.
fn overlaps(session: &Session, first: u64, second: u64, rounds: u64) -> bool {
    let (flag, seen) = (session.words(&[0]), session.words(&[9]));
    ok(session.cuCtxSynchronize());
    ok(session.launch(
        session.function(c"watch"),
        (1, 1),
        first,
        &[flag, seen, rounds],
    ));
    ok(session.launch(session.function(c"slow"), (1, 1), second, &[flag, 1, 1]));
    ok(session.cuCtxSynchronize());
    let seen = session.read(seen, 1)[0];
    assert!(seen <= 1 && session.read(flag, 1) == [1]);
    seen == 1
}

fn what_waits_for_the_legacy_stream() {
    let session = Session::start();
    let (blocking, other) = (session.stream(0), session.stream(0));
    let (free, free_too) = (session.stream(NON_BLOCKING), session.stream(NON_BLOCKING));
    // Those that wait for each other do not meet.
    for (first, second) in [
        (0, blocking),
        (blocking, 0),
        (LEGACY, blocking),
        (0, PER_THREAD),
        (PER_THREAD, LEGACY),
        (0, 0),
        (free, free),
    ] {
        assert!(
            !overlaps(&session, first, second, WHILE),
            "{first:#x}, then {second:#x}"
        );
    }
    // Those that do not wait run at the same time.
    for (first, second) in [
        (0, free),
        (free, 0),
        (blocking, other),
        (blocking, free),
        (free, free_too),
        (PER_THREAD, blocking),
    ] {
        assert!(
            overlaps(&session, first, second, LONG),
            "{first:#x}, then {second:#x}"
        );
    }
}

fn work_on_one_stream_is_in_order() {
    let session = Session::start();
    let next = session.function(c"next");
    let counter = session.words(&[0]);
    let streams = [
        0,
        PER_THREAD,
        session.stream(0),
        session.stream(NON_BLOCKING),
    ];
    for (index, stream) in (0..).zip(streams) {
        for _ in 0..100 {
            ok(session.launch(next, (1, 1), stream, &[counter, counter]));
        }
        ok(session.cuStreamSynchronize(stream));
        assert_eq!(session.read(counter, 1), [100 * (index + 1)]);
    }
    // The legacy stream in between orders blocking streams that never wait for each other.
    session.write(counter, &[0]);
    let (one, two) = (session.stream(0), session.stream(0));
    for _ in 0..50 {
        for stream in [one, 0, two, 0] {
            ok(session.launch(next, (1, 1), stream, &[counter, counter]));
        }
    }
    assert_eq!(
        session.read(counter, 1),
        [200],
        "the copy waits for all of them"
    );
    // A copy without a stream waits for blocking streams, in both directions.
    for round in 0..10u32 {
        ok(session.cuMemsetD32Async(counter, round, 1, one));
        ok(session.launch(
            session.function(c"slow"),
            (1, 32),
            one,
            &[counter, 5000, 1000 + u64::from(round)],
        ));
        assert_eq!(session.read(counter, 1), [1000 + round]);
    }
}

fn queries_and_kinds() {
    let session = Session::start();
    let (flag, seen) = (session.words(&[0]), session.words(&[0]));
    let (stream, other) = (session.stream(0), session.stream(NON_BLOCKING));
    let event = session.event();
    ok(session.cuStreamQuery(stream));
    ok(session.cuEventQuery(event));
    ok(session.launch(
        session.function(c"watch"),
        (1, 1),
        stream,
        &[flag, seen, LONG],
    ));
    ok(session.cuEventRecord(event, stream));
    for _ in 0..20 {
        refused(session.cuStreamQuery(stream), code::NOT_READY);
        refused(session.cuEventQuery(event), code::NOT_READY);
        refused(session.cuStreamQuery(0), code::NOT_READY);
        ok(session.cuStreamQuery(other));
    }
    ok(session.cuMemsetD32Async(flag, 1, 1, other));
    ok(session.cuEventSynchronize(event));
    ok(session.cuStreamQuery(stream));
    ok(session.cuStreamQuery(0));
    assert_eq!(session.read(seen, 1), [1]);

    let (mut least, mut greatest) = (9, 9);
    ok(session.cuCtxGetStreamPriorityRange(&mut least, &mut greatest));
    assert!(least == 0 && greatest < 0);
    for (asked, due) in [(-1, -1), (0, 0), (5, 0), (-1000, greatest)] {
        let (mut made, mut priority, mut flags) = (0, 9, 9);
        ok(session.cuStreamCreateWithPriority(&mut made, NON_BLOCKING, asked));
        ok(session.cuStreamGetPriority(made, &mut priority));
        ok(session.cuStreamGetFlags(made, &mut flags));
        assert_eq!((priority, flags), (due, NON_BLOCKING));
        ok(session.cuStreamDestroy_v2(made));
    }
    let (mut none, mut context, mut id, mut other_id) = (0, 0, 0, 0);
    invalid(session.cuStreamCreate(&mut none, 2));
    ok(session.cuStreamGetCtx(stream, &mut context));
    assert_eq!(context, session.context);
    ok(session.cuStreamGetId(stream, &mut id));
    ok(session.cuStreamGetId(0, &mut other_id));
    assert_ne!(id, other_id);
    for default in [0, LEGACY, PER_THREAD] {
        refused(session.cuStreamDestroy_v2(default), code::INVALID_HANDLE);
    }
}

fn more_streams_than_the_service_has() {
    let session = Session::start();
    let next = session.function(c"next");
    let words = session.words(&[0; 200]);
    for _ in 0..3 {
        let streams: Vec<u64> = (0..200).map(|index| session.stream(index % 2)).collect();
        for (index, stream) in (0..).zip(&streams) {
            let word = words + 4 * index;
            ok(session.launch(next, (1, 1), *stream, &[word, word]));
        }
        // Destroying them does not take their work away.
        for stream in streams {
            ok(session.cuStreamDestroy_v2(stream));
        }
    }
    ok(session.cuCtxSynchronize());
    assert_eq!(session.read(words, 200), [3; 200]);
}

fn each_thread_has_its_own() {
    let session = Session::start();
    let next = session.function(c"next");
    let words = session.words(&[0; 8]);
    let id = |session: &Session| {
        let mut id = 0;
        ok(session.cuStreamGetId(PER_THREAD, &mut id));
        id
    };
    // More threads than the service has streams, one after another.
    let mut ids = std::collections::HashSet::from([id(&session)]);
    for round in 0..10 {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|index| {
                    let session = &session;
                    scope.spawn(move || {
                        ok(session.cuCtxSetCurrent(session.context));
                        let word = words + 4 * index;
                        for _ in 0..10 {
                            ok(session.launch(next, (1, 1), PER_THREAD, &[word, word]));
                        }
                        ok(session.cuStreamSynchronize(PER_THREAD));
                        id(session)
                    })
                })
                .collect();
            for thread in threads {
                assert!(ids.insert(thread.join().unwrap()), "round {round}");
            }
        });
    }
    assert_eq!(session.read(words, 8), [100; 8]);
}

fn waits_across_streams() {
    let session = Session::start();
    let (slow, next) = (session.function(c"slow"), session.function(c"next"));
    let (one, two) = (session.stream(NON_BLOCKING), session.stream(NON_BLOCKING));
    let (word, copy) = (session.words(&[0]), session.words(&[0]));
    let event = session.event();
    // One that was never recorded makes nobody wait.
    ok(session.cuStreamWaitEvent(two, event, 0));
    for round in 1..=20 {
        ok(session.launch(slow, (1, 32), one, &[word, 20_000, round * 10]));
        ok(session.cuEventRecord(event, one));
        ok(session.cuStreamWaitEvent(two, event, 0));
        ok(session.launch(next, (1, 1), two, &[copy, word]));
        // And back, so that the next round does not change the word too early.
        ok(session.cuEventRecord(event, two));
        ok(session.cuStreamWaitEvent(one, event, 0));
        if round % 5 == 0 {
            ok(session.cuEventSynchronize(event));
            assert_eq!(u64::from(session.read(copy, 1)[0]), round * 10 + 1);
        }
    }
    // A wait is for what the event stood for when it was called.
    let (flag, seen) = (session.words(&[0]), session.words(&[0]));
    ok(session.cuEventRecord(event, two));
    ok(session.cuStreamWaitEvent(one, event, 0));
    ok(session.launch(session.function(c"watch"), (1, 1), two, &[flag, seen, LONG]));
    ok(session.cuEventRecord(event, two));
    ok(session.launch(slow, (1, 1), one, &[flag, 1, 1]));
    ok(session.cuCtxSynchronize());
    assert_eq!(session.read(seen, 1), [1]);
    // Destroyed while it is waited for.
    ok(session.launch(slow, (1, 32), one, &[word, 20_000, 500]));
    ok(session.cuEventRecord(event, one));
    ok(session.cuStreamWaitEvent(two, event, 0));
    ok(session.cuEventDestroy_v2(event));
    ok(session.launch(next, (1, 1), two, &[copy, word]));
    ok(session.cuStreamSynchronize(two));
    assert_eq!(session.read(copy, 1), [501]);
    invalid(session.cuStreamWaitEvent(two, session.event(), 2));
}

fn times_and_queries() {
    let session = Session::start();
    let slow = session.function(c"slow");
    let out = session.words(&[0]);
    let (start, end) = (session.event(), session.event());
    let mut time = -1.0;
    refused(
        session.cuEventElapsedTime(&mut time, start, end),
        code::INVALID_HANDLE,
    );
    let mut time_of = |rounds| {
        ok(session.cuEventRecord(start, 0));
        ok(session.launch(slow, (1, 32), 0, &[out, rounds, 1]));
        ok(session.cuEventRecord(end, 0));
        let early = session.cuEventElapsedTime(&mut time, start, end);
        assert!(early == 0 || early == code::NOT_READY, "{early}");
        ok(session.cuEventSynchronize(end));
        ok(session.cuEventElapsedTime(&mut time, start, end));
        let mut again = -1.0;
        ok(session.cuEventElapsedTime(&mut again, start, end));
        assert!(time.to_bits() == again.to_bits(), "{time} and {again}");
        let mut back = 0.0;
        ok(session.cuEventElapsedTime(&mut back, end, start));
        assert!(back <= 0.0 && (back + time).abs() < f32::EPSILON);
        time
    };
    // Twenty times the work takes at least five times as long; the shortest is mostly the start of a launch. While the
    // device is idle its clock is the host's, so a busy host may add to any of them.
    let mut times = [0.0; 3];
    let holds = (0..10).any(|_| {
        times = [20_000, 400_000, 8_000_000].map(&mut time_of);
        times[0] > 0.0 && times[1] > times[0] && times[2] > 5.0 * times[1]
    });
    assert!(holds, "{times:?}");
    let mut untimed = 0;
    ok(session.cuEventCreate(&mut untimed, 2));
    ok(session.cuEventRecord(untimed, 0));
    ok(session.cuEventSynchronize(untimed));
    refused(
        session.cuEventElapsedTime(&mut time, start, untimed),
        code::INVALID_HANDLE,
    );
    for flags in [8, 4, u32::MAX] {
        invalid(session.cuEventCreate(&mut untimed, flags));
    }
    // An event belongs to its context.
    session.new_context();
    refused(session.cuEventRecord(start, 0), code::INVALID_HANDLE);
}
