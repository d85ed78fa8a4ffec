//! Capture of streams into graphs: across streams, what a program is told of it, and the rules.

use crate::graphs::{Graph, run};
use crate::session::{LEGACY, NON_BLOCKING, Session, code, invalid, ok, refused};
use std::ffi::c_void;
use std::ptr::{from_mut, null, null_mut};

scenarios! {
    captures: two_streams what_a_program_is_told allocations broken_rules wrong_ends modes the_legacy_stream;
}

const GLOBAL: u32 = 0;
const THREAD: u32 = 1;
const RELAXED: u32 = 2;

fn begin(session: &Session, stream: u64, mode: u32) {
    ok(session.cuStreamBeginCapture_v2(stream, mode));
}

#[track_caller]
fn end<'a>(session: &'a Session, stream: u64) -> Graph<'a> {
    let mut graph = 0;
    ok(session.cuStreamEndCapture(stream, &mut graph));
    Graph::of(session, graph)
}

/// Ends a capture that was invalidated.
#[track_caller]
fn end_invalid(session: &Session, stream: u64) {
    let mut graph = 1;
    refused(
        session.cuStreamEndCapture(stream, &mut graph),
        code::CAPTURE_INVALIDATED,
    );
    assert_eq!(graph, 0);
    assert_eq!(status(session, stream), 0);
}

#[track_caller]
fn status(session: &Session, stream: u64) -> u32 {
    let mut status = 9;
    ok(session.cuStreamIsCapturing(stream, &mut status));
    status
}

fn next(session: &Session, stream: u64, to: u64, from: u64) -> u32 {
    session.launch(session.function(c"next"), (1, 1), stream, &[to, from])
}

extern "C" fn add_one(word: *mut c_void) {
    // SAFETY: the scenario passes a word that lives until the process ends.
    unsafe { *word.cast::<u32>() += 1 };
}

/// A diamond over two streams: everything that streams take is captured, nothing is executed before the launch.
fn two_streams() {
    let session = Session::start();
    let (first, second) = (session.stream(NON_BLOCKING), session.stream(0));
    let (fork, join) = (session.event(), session.event());
    let words = session.words(&[0, 0, 0]);
    let pinned = session.pinned(12);
    let called: &'static mut u32 = Box::leak(Box::new(0));
    begin(&session, first, GLOBAL);
    ok(session.cuMemsetD32Async(words, 5, 1, first));
    ok(session.cuEventRecord(fork, first));
    ok(session.cuStreamWaitEvent(second, fork, 0));
    assert_eq!([status(&session, first), status(&session, second)], [1, 1]);
    ok(next(&session, first, words + 4, words));
    ok(next(&session, second, words + 8, words));
    ok(session.cuLaunchHostFunc(second, Some(add_one), from_mut(called).cast()));
    ok(session.cuEventRecord(join, second));
    ok(session.cuStreamWaitEvent(first, join, 0));
    ok(session.cuMemcpyDtoHAsync_v2(pinned.cast(), words, 12, first));
    let graph = end(&session, first);
    assert_eq!([status(&session, first), status(&session, second)], [0, 0]);
    let nodes = graph.nodes();
    let [filled, left, right, host, copy] = nodes[..] else {
        panic!("{nodes:?}");
    };
    let mut edges = graph.edges();
    edges.sort_unstable();
    let mut due = [
        (filled, left),
        (filled, right),
        (right, host),
        (left, copy),
        (host, copy),
    ];
    due.sort_unstable();
    assert_eq!(edges, due);
    assert_eq!(session.read(words, 3), [0; 3], "nothing was executed");
    let executable = graph.instantiate();
    for _ in 0..2 {
        run(&session, executable, second);
    }
    // SAFETY: the memory has three words, and the device does not use it now.
    let seen = unsafe { [pinned.read(), pinned.add(1).read(), pinned.add(2).read()] };
    assert_eq!((seen, *called), ([5, 6, 6], 2));
    // A launch in a capture becomes a node with the graph.
    begin(&session, first, GLOBAL);
    ok(session.cuGraphLaunch(executable, first));
    ok(session.cuGraphLaunch(executable, first));
    let outer = end(&session, first);
    assert_eq!((outer.nodes().len(), outer.edges().len()), (2, 1));
    run(&session, outer.instantiate(), first);
    assert_eq!(*called, 4);
    // Both streams execute what they are given again.
    ok(next(&session, second, words, words));
    assert_eq!(session.read(words, 1), [6]);
}

fn what_a_program_is_told() {
    let session = Session::start();
    let stream = session.stream(NON_BLOCKING);
    let word = session.words(&[0]);
    let (mut state, mut id, mut graph, mut count) = (9, 0, 0, 9);
    let mut waits = null();
    ok(session.cuStreamGetCaptureInfo_v2(
        stream, &mut state, &mut id, &mut graph, &mut waits, &mut count,
    ));
    assert_eq!((state, id), (0, 0));
    refused(
        session.cuStreamUpdateCaptureDependencies(stream, null(), 0, 1),
        code::ILLEGAL_STATE,
    );
    begin(&session, stream, RELAXED);
    refused(
        session.cuStreamBeginCapture_v2(stream, RELAXED),
        code::ILLEGAL_STATE,
    );
    ok(next(&session, stream, word, word));
    ok(session.cuStreamGetCaptureInfo_v2(
        stream, &mut state, &mut id, &mut graph, &mut waits, &mut count,
    ));
    assert!(state == 1 && id != 0 && count == 1);
    // SAFETY: the library shows as many handles, until the next call for the stream.
    let tail = unsafe { waits.read() };
    let captured = Graph::of(&session, graph);
    assert_eq!(captured.nodes(), [tail]);
    // The program adds a node of its own, and lets the stream go on behind it.
    let own = captured.empty(&[tail]);
    ok(session.cuStreamUpdateCaptureDependencies(stream, &own, 1, 1));
    invalid(session.cuStreamUpdateCaptureDependencies(stream, &own, 1, 2));
    ok(next(&session, stream, word, word));
    // While it is captured the graph is not the program's.
    invalid(session.cuGraphDestroy(graph));
    let mut executable = 0;
    invalid(session.cuGraphInstantiateWithFlags(&mut executable, graph, 0));
    let ended = end(&session, stream);
    assert_eq!(ended.handle, graph);
    let nodes = ended.nodes();
    assert_eq!(ended.edges(), [(nodes[0], nodes[1]), (nodes[1], nodes[2])]);
    // A capture may go on where a graph ends.
    let more = session.cuStreamBeginCaptureToGraph(stream, graph, &nodes[2], null(), 1, GLOBAL);
    ok(more);
    ok(next(&session, stream, word, word));
    assert_eq!(end(&session, stream).handle, graph);
    assert_eq!(ended.edges().len(), 3);
    run(&session, ended.instantiate(), stream);
    assert_eq!(session.read(word, 1), [3]);
    // Events: a node of its own where the flag asks for one.
    let event = session.event();
    ok(session.cuEventRecord(event, stream));
    begin(&session, stream, GLOBAL);
    ok(session.cuStreamWaitEvent(stream, event, 1));
    ok(session.cuEventRecordWithFlags(event, stream, 1));
    let kinds = end(&session, stream).nodes().into_iter().map(|node| {
        let mut kind = 0;
        ok(session.cuGraphNodeGetType(node, &mut kind));
        kind
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [6, 7]);
    joined_streams_stay_joined(&session, stream, word);
}

/// What the program gives the origin to wait for instead undoes no joining, and joins nothing either.
fn joined_streams_stay_joined(session: &Session, stream: u64, word: u64) {
    let (other, event) = (session.stream(NON_BLOCKING), session.event());
    for joins in [true, false] {
        begin(session, stream, GLOBAL);
        ok(session.cuEventRecord(event, stream));
        ok(session.cuStreamWaitEvent(other, event, 0));
        ok(next(session, other, word, word));
        if joins {
            ok(session.cuEventRecord(event, other));
            ok(session.cuStreamWaitEvent(stream, event, 0));
        }
        ok(session.cuStreamUpdateCaptureDependencies(stream, null(), 0, 1));
        ok(next(session, stream, word, word));
        if joins {
            let graph = end(session, stream);
            assert_eq!((graph.nodes().len(), graph.edges().len()), (2, 0));
        } else {
            let mut graph = 0;
            refused(
                session.cuStreamEndCapture(stream, &mut graph),
                code::CAPTURE_UNJOINED,
            );
        }
    }
}

fn allocations() {
    let session = Session::start();
    let stream = session.stream(NON_BLOCKING);
    let out = session.words(&[0]);
    let (mut inside, mut kept) = (0, 0);
    // Nothing is null, in a capture and outside of one.
    ok(session.cuMemAllocAsync(&mut inside, 0, stream));
    assert_eq!(inside, 0);
    begin(&session, stream, GLOBAL);
    ok(session.cuMemAllocAsync(&mut inside, 0, stream));
    assert_eq!(inside, 0);
    ok(session.cuMemFreeAsync(inside, stream));
    ok(session.cuMemAllocAsync(&mut inside, 64, stream));
    ok(session.cuMemAllocAsync(&mut kept, 64, stream));
    ok(session.cuMemsetD32Async(inside, 3, 16, stream));
    ok(session.cuMemcpyDtoDAsync_v2(kept, inside, 64, stream));
    ok(session.cuMemcpyDtoDAsync_v2(out, inside, 4, stream));
    ok(session.cuMemFreeAsync(inside, stream));
    invalid(session.cuMemFreeAsync(out, stream));
    let executable = end(&session, stream).instantiate();
    run(&session, executable, stream);
    assert_eq!(session.read(out, 1), [3]);
    assert_eq!(session.read(kept, 1), [3]);
    // What its own graph gives back nobody else does.
    invalid(session.cuMemFreeAsync(inside, stream));
    invalid(session.cuGraphLaunch(executable, stream));
    ok(session.cuMemFreeAsync(kept, stream));
    run(&session, executable, stream);
}

fn broken_rules() {
    let session = Session::start();
    let [stream, other, third] = [(); 3].map(|()| session.stream(NON_BLOCKING));
    let (event, outside) = (session.event(), session.event());
    let word = session.words(&[0]);
    ok(session.cuEventRecord(outside, third));
    let mut graph = 1;
    refused(
        session.cuStreamEndCapture(stream, &mut graph),
        code::ILLEGAL_STATE,
    );
    // Asking for what was not executed.
    for broken in [
        Session::query as fn(&Session, u64) -> u32,
        Session::synchronize,
        Session::wait_for_all,
        Session::callback,
    ] {
        begin(&session, stream, RELAXED);
        refused(broken(&session, stream), code::CAPTURE_UNSUPPORTED);
        assert_eq!(status(&session, stream), 2);
        refused(
            next(&session, stream, word, word),
            code::CAPTURE_INVALIDATED,
        );
        end_invalid(&session, stream);
    }
    // Asking an event of a capture, which stays one of it.
    begin(&session, stream, GLOBAL);
    ok(session.cuEventRecord(event, stream));
    refused(session.cuEventQuery(event), code::CAPTURED_EVENT);
    end_invalid(&session, stream);
    refused(
        session.cuStreamWaitEvent(other, event, 0),
        code::CAPTURED_EVENT,
    );
    refused(session.cuEventSynchronize(event), code::CAPTURED_EVENT);
    ok(session.cuEventRecord(event, stream));
    ok(session.cuEventSynchronize(event));
    // Waiting for what was recorded outside.
    begin(&session, stream, GLOBAL);
    refused(
        session.cuStreamWaitEvent(stream, outside, 0),
        code::CAPTURE_ISOLATION,
    );
    end_invalid(&session, stream);
    // Two captures that would become one.
    begin(&session, stream, GLOBAL);
    begin(&session, other, GLOBAL);
    ok(session.cuEventRecord(event, other));
    refused(
        session.cuStreamWaitEvent(stream, event, 0),
        code::CAPTURE_MERGE,
    );
    end_invalid(&session, stream);
    end_invalid(&session, other);
}

/// The end: on the stream where it began, behind what others did, on the thread where it began.
fn wrong_ends() {
    let session = Session::start();
    let [stream, other] = [(); 2].map(|()| session.stream(NON_BLOCKING));
    let (event, word, mut graph) = (session.event(), session.words(&[0]), 1);
    begin(&session, stream, GLOBAL);
    ok(session.cuEventRecord(event, stream));
    ok(session.cuStreamWaitEvent(other, event, 0));
    refused(
        session.cuStreamEndCapture(other, &mut graph),
        code::CAPTURE_UNMATCHED,
    );
    ok(next(&session, other, word, word));
    refused(
        session.cuStreamEndCapture(stream, &mut graph),
        code::CAPTURE_UNJOINED,
    );
    assert_eq!((graph, status(&session, other)), (0, 0));
    begin(&session, stream, THREAD);
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            ok(session.cuCtxSetCurrent(session.context));
            let mut graph = 0;
            session.cuStreamEndCapture(stream, &mut graph)
        });
        let ended = ended.join().expect("the thread ends");
        refused(ended, code::CAPTURE_WRONG_THREAD);
    });
    ok(session.cuGraphDestroy(end(&session, stream).handle));
    // A stream that is destroyed ends what began on it.
    begin(&session, stream, GLOBAL);
    ok(session.cuEventRecord(event, stream));
    ok(session.cuStreamWaitEvent(other, event, 0));
    ok(session.cuStreamDestroy_v2(stream));
    assert_eq!(status(&session, other), 0);
    ok(next(&session, other, word, word));
    ok(session.cuStreamSynchronize(other));
    assert_eq!(session.read(word, 1), [1]);
}

impl Session {
    fn query(&self, stream: u64) -> u32 {
        self.cuStreamQuery(stream)
    }

    fn synchronize(&self, stream: u64) -> u32 {
        self.cuStreamSynchronize(stream)
    }

    fn wait_for_all(&self, _: u64) -> u32 {
        self.cuCtxSynchronize()
    }

    fn callback(&self, stream: u64) -> u32 {
        extern "C" fn nothing(_: u64, _: u32, _: *mut c_void) {}
        self.cuStreamAddCallback(stream, Some(nothing), null_mut(), 0)
    }
}

/// Allocates in another thread, whose mode is as given.
fn allocates_elsewhere(session: &Session, mode: u32) -> u32 {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let (mut mode, mut address) = (mode, 0);
            ok(session.cuCtxSetCurrent(session.context));
            ok(session.cuThreadExchangeStreamCaptureMode(&mut mode));
            assert_eq!(mode, GLOBAL, "a thread's mode at first");
            session.cuMemAlloc_v2(&mut address, 64)
        });
        done.join().expect("the thread ends")
    })
}

/// Which captures forbid unsafe calls, and where.
fn modes() {
    let session = Session::start();
    let stream = session.stream(NON_BLOCKING);
    let mut mode = 3;
    invalid(session.cuThreadExchangeStreamCaptureMode(&mut mode));
    invalid(session.cuStreamBeginCapture_v2(stream, 3));
    let refusal = code::CAPTURE_UNSUPPORTED;
    for (captures, own, others, due) in [
        (GLOBAL, GLOBAL, GLOBAL, [refusal, refusal]),
        (GLOBAL, THREAD, THREAD, [refusal, 0]),
        (GLOBAL, RELAXED, RELAXED, [0, 0]),
        (THREAD, GLOBAL, GLOBAL, [refusal, 0]),
        (RELAXED, GLOBAL, GLOBAL, [0, 0]),
    ] {
        for (here, due) in [true, false].into_iter().zip(due) {
            begin(&session, stream, captures);
            let mut address = 0;
            let mut mode = own;
            ok(session.cuThreadExchangeStreamCaptureMode(&mut mode));
            let got = match here {
                true => session.cuMemAlloc_v2(&mut address, 64),
                false => allocates_elsewhere(&session, others),
            };
            ok(session.cuThreadExchangeStreamCaptureMode(&mut mode));
            assert_eq!(mode, own);
            assert_eq!(got, due, "{captures}, {own}, {others}, here: {here}");
            match due {
                0 => ok(session.cuGraphDestroy(end(&session, stream).handle)),
                _ => end_invalid(&session, stream),
            }
        }
    }
}

fn the_legacy_stream() {
    let session = Session::start();
    let (blocking, free) = (session.stream(0), session.stream(NON_BLOCKING));
    let word = session.words(&[0]);
    for legacy in [0, LEGACY] {
        refused(
            session.cuStreamBeginCapture_v2(legacy, RELAXED),
            code::CAPTURE_UNSUPPORTED,
        );
        begin(&session, blocking, RELAXED);
        let mut state = 0;
        // Asking harms nothing; using it does.
        refused(
            session.cuStreamIsCapturing(legacy, &mut state),
            code::CAPTURE_IMPLICIT,
        );
        assert_eq!(status(&session, blocking), 1);
        refused(next(&session, legacy, word, word), code::CAPTURE_IMPLICIT);
        end_invalid(&session, blocking);
        // A stream that does not wait for it is nothing to it.
        begin(&session, free, RELAXED);
        assert_eq!(status(&session, legacy), 0);
        ok(next(&session, legacy, word, word));
        assert_eq!(session.read(word, 1).len(), 1);
        ok(session.cuGraphDestroy(end(&session, free).handle));
    }
    assert_eq!(session.read(word, 1), [2]);
}
