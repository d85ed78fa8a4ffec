//! Graphs: construction, edges, every type of node, copies and updates.

use crate::api::{FillNode, HostNode, KernelNode};
use crate::boxes::Spatial;
use crate::session::{NON_BLOCKING, Session, code, invalid, ok, refused};
use std::ffi::c_void;
use std::ptr::{from_mut, null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

scenarios! {
    graphs: construction edges_and_cycles every_type_of_node clones updates;
}

/// A graph of a session, and what is added to it.
pub(crate) struct Graph<'a> {
    session: &'a Session,
    pub(crate) handle: u64,
}

/// The arguments of a kernel node, as long as it is made.
pub(crate) struct Arguments {
    values: Vec<u64>,
    pointers: Vec<*mut c_void>,
}

impl Arguments {
    pub(crate) fn of(values: &[u64]) -> Self {
        let mut values = values.to_vec();
        let pointers = values.iter_mut().map(|value| from_mut(value).cast());
        let pointers = pointers.collect();
        Self { values, pointers }
    }

    /// Returns a launch of one block of one thread.
    pub(crate) fn node(&mut self, function: u64) -> KernelNode {
        assert_eq!(self.values.len(), self.pointers.len());
        KernelNode {
            function,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            params: self.pointers.as_mut_ptr(),
            extra: null_mut(),
            kernel: 0,
            context: 0,
        }
    }
}

impl<'a> Graph<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        let mut handle = 0;
        ok(session.cuGraphCreate(&mut handle, 0));
        Self { session, handle }
    }

    pub(crate) fn of(session: &'a Session, handle: u64) -> Self {
        Self { session, handle }
    }

    pub(crate) fn kernel(&self, name: &std::ffi::CStr, arguments: &[u64], behind: &[u64]) -> u64 {
        let (mut node, mut arguments) = (0, Arguments::of(arguments));
        let params = arguments.node(self.session.function(name));
        let (nodes, count) = (behind.as_ptr(), behind.len());
        ok(self
            .session
            .cuGraphAddKernelNode_v2(&mut node, self.handle, nodes, count, &params));
        node
    }

    pub(crate) fn empty(&self, behind: &[u64]) -> u64 {
        let mut node = 0;
        let (nodes, count) = (behind.as_ptr(), behind.len());
        ok(self
            .session
            .cuGraphAddEmptyNode(&mut node, self.handle, nodes, count));
        node
    }

    pub(crate) fn fill(&self, to: u64, value: u32, count: usize, behind: &[u64]) -> u64 {
        let mut node = 0;
        let params = fill_of(to, value, count);
        let (nodes, waits) = (behind.as_ptr(), behind.len());
        let context = self.session.context;
        ok(self.session.cuGraphAddMemsetNode(
            &mut node,
            self.handle,
            nodes,
            waits,
            &params,
            context,
        ));
        node
    }

    pub(crate) fn copy(
        &self,
        from: (u64, bool),
        to: (u64, bool),
        bytes: usize,
        behind: &[u64],
    ) -> u64 {
        let (mut node, copy) = (0, Spatial::line(from, to, bytes));
        let (nodes, waits) = (behind.as_ptr(), behind.len());
        let context = self.session.context;
        ok(self
            .session
            .cuGraphAddMemcpyNode(&mut node, self.handle, nodes, waits, &copy, context));
        node
    }

    fn host(&self, function: extern "C" fn(*mut c_void), data: *mut c_void, behind: &[u64]) -> u64 {
        let mut node = 0;
        let params = HostNode {
            function: Some(function),
            data,
        };
        let (nodes, count) = (behind.as_ptr(), behind.len());
        ok(self
            .session
            .cuGraphAddHostNode(&mut node, self.handle, nodes, count, &params));
        node
    }

    pub(crate) fn connect(&self, from: u64, to: u64) -> u32 {
        self.session
            .cuGraphAddDependencies(self.handle, &from, &to, 1)
    }

    pub(crate) fn nodes(&self) -> Vec<u64> {
        let mut count = 0;
        ok(self
            .session
            .cuGraphGetNodes(self.handle, null_mut(), &mut count));
        let mut nodes = vec![0; count];
        ok(self
            .session
            .cuGraphGetNodes(self.handle, nodes.as_mut_ptr(), &mut count));
        if let Some(first) = nodes.first_mut() {
            // Room for none is not asking for their number.
            let mut none = 0;
            invalid(self.session.cuGraphGetNodes(self.handle, first, &mut none));
            invalid(
                self.session
                    .cuGraphGetRootNodes(self.handle, first, &mut none),
            );
            assert_eq!(none, 0);
        }
        nodes
    }

    pub(crate) fn edges(&self) -> Vec<(u64, u64)> {
        let mut count = 0;
        let none = null_mut();
        ok(self
            .session
            .cuGraphGetEdges_v2(self.handle, null_mut(), null_mut(), none, &mut count));
        let (mut from, mut to) = (vec![0; count], vec![0; count]);
        let mut data = vec![[0; 8]; count];
        ok(self.session.cuGraphGetEdges_v2(
            self.handle,
            from.as_mut_ptr(),
            to.as_mut_ptr(),
            data.as_mut_ptr(),
            &mut count,
        ));
        from.into_iter().zip(to).collect()
    }

    pub(crate) fn instantiate(&self) -> u64 {
        let mut executable = 0;
        ok(self
            .session
            .cuGraphInstantiateWithFlags(&mut executable, self.handle, 0));
        executable
    }

    pub(crate) fn refuse(&self) -> u32 {
        let mut executable = 0;
        self.session
            .cuGraphInstantiateWithFlags(&mut executable, self.handle, 0)
    }
}

pub(crate) fn fill_of(to: u64, value: u32, width: usize) -> FillNode {
    FillNode {
        to,
        pitch: 0,
        value,
        element_bytes: 4,
        width,
        height: 1,
    }
}

/// Launches an executable graph and waits for it.
pub(crate) fn run(session: &Session, executable: u64, stream: u64) {
    ok(session.cuGraphLaunch(executable, stream));
    ok(session.cuStreamSynchronize(stream));
}

/// Four kernels in a line, each of which adds one, launched many times, on streams of each kind.
fn construction() {
    let session = Session::start();
    let counter = session.words(&[0]);
    let graph = Graph::new(&session);
    let mut last = Vec::new();
    for _ in 0..4 {
        last = vec![graph.kernel(c"next", &[counter, counter], &last)];
    }
    assert_eq!(graph.nodes().len(), 4);
    assert_eq!(graph.edges().len(), 3);
    let executable = graph.instantiate();
    // What becomes of the graph is nothing to the executable one.
    ok(session.cuGraphDestroy(graph.handle));
    let mut due = 0;
    for stream in [0, 2, session.stream(0), session.stream(NON_BLOCKING)] {
        ok(session.cuGraphUpload(executable, stream));
        for _ in 0..10 {
            ok(session.cuGraphLaunch(executable, stream));
            due += 4;
        }
    }
    ok(session.cuCtxSynchronize());
    // Launches of one executable graph follow each other, whatever the stream.
    assert_eq!(session.read(counter, 1), [due]);
    ok(session.cuGraphLaunch(executable, 0));
    ok(session.cuGraphExecDestroy(executable));
    assert_eq!(session.read(counter, 1), [due + 4]);
    invalid(session.cuGraphLaunch(executable, 0));
}

fn edges_and_cycles() {
    let session = Session::start();
    let graph = Graph::new(&session);
    let [a, b, c] = [graph.empty(&[]), graph.empty(&[]), graph.empty(&[])];
    ok(graph.connect(a, b));
    ok(graph.connect(b, c));
    assert_eq!(graph.edges(), [(a, b), (b, c)]);
    let (mut roots, mut count) = ([0; 3], 3);
    ok(session.cuGraphGetRootNodes(graph.handle, roots.as_mut_ptr(), &mut count));
    assert_eq!(
        (roots, count),
        ([a, 0, 0], 1),
        "what is behind the last is null"
    );
    let (mut waits, mut count) = ([0; 2], 2);
    ok(session.cuGraphNodeGetDependencies(c, waits.as_mut_ptr(), &mut count));
    assert_eq!((waits, count), ([b, 0], 1));
    invalid(graph.connect(a, b));
    invalid(graph.connect(a, a));
    invalid(session.cuGraphRemoveDependencies(graph.handle, &a, &c, 1));
    // A cycle may be made, and not executed or copied.
    ok(graph.connect(c, a));
    invalid(graph.refuse());
    let (mut copy, mut node) = (0, 0);
    invalid(session.cuGraphClone(&mut copy, graph.handle));
    let parent = Graph::new(&session);
    invalid(session.cuGraphAddChildGraphNode(&mut node, parent.handle, null(), 0, graph.handle));
    ok(session.cuGraphRemoveDependencies(graph.handle, &c, &a, 1));
    ok(session.cuGraphExecDestroy(graph.instantiate()));
    // Of several edges of which one is wrong none is made.
    let (from, to) = ([c, a, a], [b, c, a]);
    invalid(session.cuGraphAddDependencies(graph.handle, from.as_ptr(), to.as_ptr(), 3));
    assert_eq!(graph.edges(), [(a, b), (b, c)]);
    // Nodes that are named twice, and edges that carry what cannot be.
    let twice = [a, a];
    invalid(session.cuGraphAddEmptyNode(&mut node, graph.handle, twice.as_ptr(), 2));
    invalid(session.cuGraphAddDependencies_v2(graph.handle, &a, &c, &[1, 0, 1, 0, 0, 0, 0, 0], 1));
    ok(session.cuGraphDestroyNode(b));
    assert_eq!((graph.nodes(), graph.edges()), (vec![a, c], vec![]));
    // A graph does not stand in itself, however it is tried.
    invalid(session.cuGraphAddChildGraphNode(&mut node, graph.handle, null(), 0, graph.handle));
    ok(session.cuGraphDestroy(graph.handle));
}

static CALLS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: *mut c_void) {
    // Relaxed: read after the stream was waited for.
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// Adds ten to each of the words that it is given.
extern "C" fn add_ten(words: *mut c_void) {
    // SAFETY: the scenario passes two words that live until the process ends.
    let words = unsafe { std::slice::from_raw_parts_mut(words.cast::<u32>(), 2) };
    for word in words {
        *word += 10;
    }
}

/// One graph with a node of each type: what the host has between two kernels is read and written when its turn comes.
fn every_type_of_node() {
    let session = Session::start();
    let device = session.words(&[0, 0]);
    let pinned = session.pinned(8);
    let pageable: &'static mut [u32; 2] = Box::leak(Box::new([0; 2]));
    let (start, end) = (session.event(), session.event());
    let graph = Graph::new(&session);
    let address = |words: *mut u32| words.expose_provenance() as u64;
    let host = address(pageable.as_mut_ptr());
    let mut node = 0;
    ok(session.cuGraphAddEventRecordNode(&mut node, graph.handle, null(), 0, start));
    let filled = graph.fill(device, 3, 2, &[node]);
    let next = graph.kernel(c"next", &[device + 4, device], &[filled]);
    let out = graph.copy((device, true), (host, false), 8, &[next]);
    let called = graph.host(add_ten, pageable.as_mut_ptr().cast(), &[out]);
    let back = graph.copy((host, false), (device, true), 8, &[called]);
    let child = Graph::new(&session);
    child.kernel(c"next", &[device, device], &[]);
    let mut inside = 0;
    ok(session.cuGraphAddChildGraphNode(&mut inside, graph.handle, &back, 1, child.handle));
    let to_pinned = graph.copy((device, true), (address(pinned), false), 8, &[inside]);
    let counted = graph.host(count, null_mut(), &[to_pinned]);
    ok(session.cuGraphAddEventRecordNode(&mut node, graph.handle, &counted, 1, end));
    let recorded = node;
    ok(session.cuGraphAddEventWaitNode(&mut node, graph.handle, &recorded, 1, end));
    let kinds: Vec<u32> = graph
        .nodes()
        .into_iter()
        .map(|node| {
            let mut kind = 99;
            ok(session.cuGraphNodeGetType(node, &mut kind));
            kind
        })
        .collect();
    assert_eq!(kinds, [7, 2, 0, 1, 3, 1, 4, 1, 3, 7, 6]);
    let executable = graph.instantiate();
    let stream = session.stream(NON_BLOCKING);
    for round in 1..=3 {
        run(&session, executable, stream);
        // SAFETY: the memory has two words, and the device does not use it now.
        let seen = unsafe { [pinned.read(), pinned.add(1).read()] };
        assert_eq!(seen, [14, 14]);
        // Relaxed: the stream was waited for.
        assert_eq!(CALLS.load(Ordering::Relaxed), round);
    }
    let mut milliseconds = -1.0;
    ok(session.cuEventElapsedTime(&mut milliseconds, start, end));
    assert!(milliseconds >= 0.0);
    // A fill of memory of the host, and a copy between places of it, in order as well.
    let other = Graph::new(&session);
    let filled = other.fill(address(pinned), 7, 1, &[]);
    other.copy((address(pinned), false), (host, false), 8, &[filled]);
    run(&session, other.instantiate(), stream);
    assert_eq!(*pageable, [7, 14]);
    // What the library cannot execute it refuses by name.
    let mut params = [0; 32];
    params[0] = 13;
    let refusal =
        session.cuGraphAddNode_v2(&mut node, graph.handle, null(), null(), 0, &mut params);
    refused(refusal, code::NOT_SUPPORTED);
}

fn clones() {
    let session = Session::start();
    let counter = session.words(&[0]);
    let graph = Graph::new(&session);
    let first = graph.kernel(c"next", &[counter, counter], &[]);
    let inner = Graph::new(&session);
    inner.kernel(c"next", &[counter, counter], &[]);
    let mut child = 0;
    ok(session.cuGraphAddChildGraphNode(&mut child, graph.handle, &first, 1, inner.handle));
    // The node has a copy: what is added now is not in it.
    inner.kernel(c"next", &[counter, counter], &[]);
    let (mut handle, mut found, mut held) = (0, 0, 0);
    ok(session.cuGraphClone(&mut handle, graph.handle));
    let copy = Graph::of(&session, handle);
    ok(session.cuGraphNodeFindInClone(&mut found, first, copy.handle));
    assert!(copy.nodes().contains(&found) && found != first);
    invalid(session.cuGraphNodeFindInClone(&mut found, found, graph.handle));
    ok(session.cuGraphChildGraphNodeGetGraph(child, &mut held));
    assert_eq!(Graph::of(&session, held).nodes().len(), 1);
    // The graph in a node is not the program's to destroy.
    invalid(session.cuGraphDestroy(held));
    // Either may change without the other.
    ok(session.cuGraphDestroyNode(first));
    assert_eq!((graph.nodes().len(), copy.nodes().len()), (1, 2));
    ok(session.cuGraphDestroy(graph.handle));
    invalid(session.cuGraphGetNodes(held, null_mut(), &mut 0));
    run(&session, copy.instantiate(), 0);
    assert_eq!(session.read(counter, 1), [2]);
}

fn updates() {
    let session = Session::start();
    let (one, two) = (session.words(&[0]), session.words(&[0]));
    let graph = Graph::new(&session);
    let kernel = graph.kernel(c"next", &[one, one], &[]);
    let fill = graph.fill(two, 5, 1, &[kernel]);
    let executable = graph.instantiate();
    let next = session.function(c"next");
    let mut arguments = Arguments::of(&[two, one]);
    let params = arguments.node(next);
    ok(session.cuGraphExecKernelNodeSetParams_v2(executable, kernel, &params));
    ok(session.cuGraphNodeSetEnabled(executable, fill, 0));
    let mut enabled = 9;
    ok(session.cuGraphNodeGetEnabled(executable, fill, &mut enabled));
    assert_eq!(enabled, 0);
    run(&session, executable, 0);
    assert_eq!([session.read(one, 1), session.read(two, 1)], [[0], [1]]);
    // The graph's own node is as it was.
    let mut seen = params;
    ok(session.cuGraphKernelNodeGetParams_v2(kernel, &mut seen));
    // SAFETY: the node shows pointers to its arguments, of which there are two of eight bytes.
    let first = unsafe { seen.params.read().cast::<u64>().read_unaligned() };
    assert_eq!((seen.function, first), (next, one));
    // What was shown stays readable when the parameters are set, from these very pointers too.
    ok(session.cuGraphKernelNodeSetParams_v2(kernel, &seen));
    // SAFETY: as above.
    let still = unsafe { seen.params.read().cast::<u64>().read_unaligned() };
    assert_eq!(still, one);
    // A fill of one row may change its size, and no node of another graph can be changed.
    ok(session.cuGraphNodeSetEnabled(executable, fill, 1));
    let context = session.context;
    ok(session.cuGraphExecMemsetNodeSetParams(executable, fill, &fill_of(one, 8, 1), context));
    let other = Graph::new(&session);
    let foreign = other.kernel(c"next", &[one, one], &[]);
    invalid(session.cuGraphExecKernelNodeSetParams_v2(executable, foreign, &params));
    invalid(session.cuGraphNodeSetEnabled(executable, foreign, 1));
    run(&session, executable, 0);
    assert_eq!([session.read(one, 1), session.read(two, 1)], [[8], [1]]);
    // Another graph of the same form takes the place of all parameters.
    other.fill(two, 70, 1, &[foreign]);
    let mut info = [9; 3];
    ok(session.cuGraphExecUpdate_v2(executable, other.handle, &mut info));
    assert_eq!(info[0] & 0xffff_ffff, 0);
    run(&session, executable, 0);
    assert_eq!([session.read(one, 1), session.read(two, 1)], [[9], [70]]);
    // Graphs of another form are refused, with what is to blame, and change nothing.
    let extra = other.empty(&[]);
    refused(
        session.cuGraphExecUpdate_v2(executable, other.handle, &mut info),
        code::UPDATE_FAILURE,
    );
    assert_eq!((info[0] & 0xffff_ffff, info[1]), (2, 0));
    ok(session.cuGraphDestroyNode(extra));
    let [kernel, fill] = other.nodes()[..] else {
        panic!("two nodes are left");
    };
    ok(session.cuGraphRemoveDependencies(other.handle, &kernel, &fill, 1));
    refused(
        session.cuGraphExecUpdate_v2(executable, other.handle, &mut info),
        code::UPDATE_FAILURE,
    );
    assert_eq!((info[0] & 0xffff_ffff, info[1]), (2, fill));
    let types = Graph::new(&session);
    let node = types.empty(&[]);
    types.fill(one, 1, 1, &[node]);
    refused(
        session.cuGraphExecUpdate_v2(executable, types.handle, &mut info),
        code::UPDATE_FAILURE,
    );
    assert_eq!((info[0] & 0xffff_ffff, info[1]), (3, node));
    run(&session, executable, 0);
    assert_eq!([session.read(one, 1), session.read(two, 1)], [[10], [70]]);
}
