//! Threads that race on graphs, their nodes, executable graphs, captures and user objects: what one uses another
//! destroys, and streams are captured while others submit to them.
//!
//! Nothing is asserted of single calls but that their codes are those of the API; afterwards everything works, and
//! every user object was destroyed once.

use crate::api::{FillNode, HostNode};
use crate::graphs::{Arguments, Graph, run};
use crate::session::{NON_BLOCKING, Session, code, ok};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

scenarios! {
    races: on_graphs;
}

const THREADS: u64 = 8;
/// How many calls, or pairs of calls, each thread makes.
const ROUNDS: u32 = 3_000;

/// Handles that all threads see and replace.
#[derive(Debug, Default)]
struct Shared {
    /// Graphs without others inside, and graphs that get copies of those.
    leaves: [AtomicU64; 3],
    parents: [AtomicU64; 2],
    nodes: [AtomicU64; 8],
    executables: [AtomicU64; 4],
    streams: [AtomicU64; 4],
    events: [AtomicU64; 3],
    objects: AtomicU64,
    /// The kernel and the word that nodes work with.
    kernel: u64,
    word: u64,
}

static DESTROYED: AtomicU64 = AtomicU64::new(0);

extern "C" fn destroyed(_: *mut c_void) {
    // Relaxed: the number is all that counts.
    DESTROYED.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn nothing(_: *mut c_void) {}

/// A generator of numbers that look random (xorshift).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap_or(0)
    }

    fn of(&mut self, handles: &[AtomicU64]) -> u64 {
        // Relaxed: any handle will do, also one that is destroyed.
        handles[self.below(handles.len())].load(Ordering::Relaxed)
    }

    fn put(&mut self, handles: &[AtomicU64], handle: u64) -> u64 {
        // Relaxed: as above.
        handles[self.below(handles.len())].swap(handle, Ordering::Relaxed)
    }
}

/// Codes with which calls may be refused, for what another thread destroyed or captures.
#[track_caller]
fn meant(code: u32) {
    const CODES: [u32; 7] = [
        0,
        code::INVALID_VALUE,
        code::INVALID_HANDLE,
        code::ILLEGAL_STATE,
        code::NOT_READY,
        code::NOT_SUPPORTED,
        code::UPDATE_FAILURE,
    ];
    let is_of_captures = (code::CAPTURE_UNSUPPORTED..=code::CAPTURE_WRONG_THREAD).contains(&code);
    assert!(
        CODES.contains(&code) || is_of_captures,
        "code {code} was not meant"
    );
}

impl Shared {
    fn new(session: &Session) -> Self {
        Self {
            kernel: session.function(c"next"),
            word: session.words(&[0]),
            ..Self::default()
        }
    }

    /// Makes a graph, an executable graph, a stream or an event in the place of another.
    fn replace(&self, session: &Session, random: &mut Random) {
        let mut made = 0;
        match random.below(8) {
            0 | 1 => {
                let graphs: &[AtomicU64] = match random.below(2) {
                    0 => &self.leaves,
                    _ => &self.parents,
                };
                ok(session.cuGraphCreate(&mut made, 0));
                meant(session.cuGraphDestroy(random.put(graphs, made)));
            }
            2 => {
                meant(session.cuGraphClone(&mut made, random.of(&self.leaves)));
                meant(session.cuGraphDestroy(random.put(&self.leaves, made)));
            }
            3..6 => {
                let graph = match random.below(2) {
                    0 => random.of(&self.leaves),
                    _ => random.of(&self.parents),
                };
                meant(session.cuGraphInstantiateWithFlags(&mut made, graph, 0));
                meant(session.cuGraphExecDestroy(random.put(&self.executables, made)));
            }
            6 => {
                let flags = u32::try_from(random.below(2)).unwrap_or(0);
                ok(session.cuStreamCreate(&mut made, flags));
                meant(session.cuStreamDestroy_v2(random.put(&self.streams, made)));
            }
            _ => {
                ok(session.cuEventCreate(&mut made, 0));
                meant(session.cuEventDestroy_v2(random.put(&self.events, made)));
            }
        }
    }

    /// Adds a node to a graph, behind another, or an edge, or removes one.
    fn build(&self, session: &Session, random: &mut Random) {
        let (graph, behind) = (random.of(&self.leaves), random.of(&self.nodes));
        let (mut node, count) = (0, random.below(2));
        let added = match random.below(8) {
            0 => session.cuGraphAddEmptyNode(&mut node, graph, &behind, count),
            1 => {
                let mut arguments = Arguments::of(&[self.word, self.word]);
                let params = arguments.node(self.kernel);
                session.cuGraphAddKernelNode_v2(&mut node, graph, &behind, count, &params)
            }
            2 => {
                let params = FillNode {
                    to: self.word,
                    pitch: 0,
                    value: 1,
                    element_bytes: 4,
                    width: 1,
                    height: 1,
                };
                let context = session.context;
                session.cuGraphAddMemsetNode(&mut node, graph, &behind, count, &params, context)
            }
            3 => {
                let params = HostNode {
                    function: Some(nothing),
                    data: null_mut(),
                };
                session.cuGraphAddHostNode(&mut node, graph, &behind, count, &params)
            }
            4 => {
                let event = random.of(&self.events);
                session.cuGraphAddEventRecordNode(&mut node, graph, &behind, count, event)
            }
            5 => {
                let parent = random.of(&self.parents);
                session.cuGraphAddChildGraphNode(&mut node, parent, null(), 0, graph)
            }
            6 => session.cuGraphAddDependencies(graph, &behind, &random.of(&self.nodes), 1),
            _ => session.cuGraphDestroyNode(behind),
        };
        meant(added);
        if node != 0 {
            random.put(&self.nodes, node);
        }
    }

    /// Launches, updates and captures.
    fn execute(&self, session: &Session, random: &mut Random) {
        let (executable, stream) = (random.of(&self.executables), random.of(&self.streams));
        let (node, graph) = (random.of(&self.nodes), random.of(&self.leaves));
        let event = random.of(&self.events);
        match random.below(12) {
            0..3 => meant(session.cuGraphLaunch(executable, stream)),
            3 => meant(session.cuGraphExecUpdate_v2(executable, graph, &mut [0; 3])),
            4 => meant(session.cuGraphNodeSetEnabled(executable, node, 1)),
            5 => {
                let mode = u32::try_from(random.below(3)).unwrap_or(0);
                meant(session.cuStreamBeginCapture_v2(stream, mode));
            }
            6 | 7 => {
                let mut graph = 0;
                meant(session.cuStreamEndCapture(stream, &mut graph));
                meant(session.cuGraphDestroy(graph));
            }
            8 => meant(session.cuEventRecord(event, stream)),
            9 => meant(session.cuStreamWaitEvent(stream, event, 0)),
            10 => meant(session.launch(self.kernel, (1, 1), stream, &[self.word, self.word])),
            _ => self.hold(session, graph),
        }
    }

    /// Gives a graph a user object, or gives the object up.
    fn hold(&self, session: &Session, graph: u64) {
        let mut object = 0;
        ok(session.cuUserObjectCreate(&mut object, null_mut(), Some(destroyed), 1, 1));
        // Relaxed: read when the threads have ended.
        self.objects.fetch_add(1, Ordering::Relaxed);
        let given = session.cuGraphRetainUserObject(graph, object, 1, 1);
        meant(given);
        if given != 0 {
            ok(session.cuUserObjectRelease(object, 1));
        }
    }

    /// Destroys everything; streams first, because a capture holds its graph.
    fn end(&self, session: &Session) {
        let take = |handles: &[AtomicU64], destroy: &dyn Fn(u64) -> u32| {
            for handle in handles {
                // Relaxed: the threads have ended.
                meant(destroy(handle.load(Ordering::Relaxed)));
            }
        };
        take(&self.streams, &|stream| session.cuStreamDestroy_v2(stream));
        take(&self.executables, &|executable| {
            session.cuGraphExecDestroy(executable)
        });
        take(&self.leaves, &|graph| session.cuGraphDestroy(graph));
        take(&self.parents, &|graph| session.cuGraphDestroy(graph));
        take(&self.events, &|event| session.cuEventDestroy_v2(event));
    }
}

fn on_graphs() {
    let session = Session::start();
    let shared = Shared::new(&session);
    std::thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (session, shared) = (&session, &shared);
            scope.spawn(move || {
                ok(session.cuCtxSetCurrent(session.context));
                let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
                for _ in 0..ROUNDS {
                    match random.below(8) {
                        0 => shared.replace(session, &mut random),
                        1..4 => shared.build(session, &mut random),
                        _ => shared.execute(session, &mut random),
                    }
                }
            });
        }
    });
    shared.end(&session);
    ok(session.cuCtxSynchronize());
    let start = Instant::now();
    // Relaxed: the numbers are all that counts.
    while DESTROYED.load(Ordering::Relaxed) != shared.objects.load(Ordering::Relaxed) {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "objects are left"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let (word, stream) = (session.words(&[1]), session.stream(NON_BLOCKING));
    let graph = Graph::new(&session);
    graph.kernel(c"next", &[word, word], &[]);
    run(&session, graph.instantiate(), stream);
    assert_eq!(session.read(word, 1), [2]);
}
