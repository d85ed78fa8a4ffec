//! Executable graphs: made of a graph, launched, updated.
//!
//! An executable graph has its nodes level by level: those of the graph, and inside of a node those of the graph that
//! it holds. A launch goes through them in an order that the edges allow, on the stream that it names, in one
//! submission that nothing of other threads comes between, and behind the launch before. Branches do not run side by
//! side: what programs may count on is the order of edges, and this order is one of those.
//!
//! Rule: the lock of an executable graph is held while a launch is submitted; the stream's is taken under it.

use super::action::{Action, Launching, Site, Step};
use super::capture;
use super::leftovers;
use super::topology::{Edge, EdgeData, NodeId};
use super::user_object::References;
use super::work::child::Child;
use super::work::empty::Empty;
use super::{CUgraph, CUgraphNode, Graph, Holder, Node, new_id};
use crate::api::driver_api;
use crate::border::Out;
use crate::driver::Driver;
use crate::registry::{Handle, Object, Registry};
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, usable_stream};
use gridmux_tenant::Mark;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{c_char, c_uint};
use std::sync::{Arc, LazyLock};

/// An executable graph as C holds it.
pub type CUgraphExec = Handle<Executable>;

static EXECUTABLES: LazyLock<Registry<Executable>> = LazyLock::new(Registry::default);

/// Flags (`CUgraphInstantiate_flags`): what an earlier launch allocated is freed first, the graph is uploaded at once,
/// it may be launched from the device, priorities are those of nodes.
const AUTO_FREE: u64 = 1;
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
const NODE_PRIORITY: u64 = 8;

/// An executable graph.
#[derive(Debug)]
pub struct Executable {
    handle: CUgraphExec,
    id: u32,
    flags: u64,
    /// Locked by updates, which are a file of their own.
    pub(super) state: Mutex<State>,
}

/// What an executable graph consists of.
#[derive(Debug)]
pub(super) struct State {
    pub(super) root: Level,
    /// Objects of the program's that live as long as the graph.
    pub(super) users: Vec<References>,
    /// Says to the graph that it was made of that it is there.
    _instance: Arc<()>,
    /// The end of the last launch.
    pub(super) last: Option<Mark>,
}

/// The nodes of one graph.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// In the order of their making.
    pub(super) nodes: Vec<Item>,
    /// In an order that the edges allow.
    order: Vec<usize>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Item {
    /// The node of the graph.
    pub(super) original: CUgraphNode,
    pub(super) action: Arc<dyn Action>,
    pub(super) is_enabled: bool,
    /// The nodes that it waits for, in ascending order, and what the edges carry.
    pub(super) dependencies: Vec<(usize, EdgeData)>,
    /// Those of the graph that it holds.
    pub(super) child: Option<Level>,
}

impl Object for Executable {
    const KIND: u8 = 23;
    const UNKNOWN: Status = Status::INVALID_VALUE;

    fn registry(_: &Driver) -> &Registry<Self> {
        &EXECUTABLES
    }
}

driver_api! {
    needs Init;
    10000 cuGraphInstantiate(
        executable: *mut CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, log: *mut c_char, bytes: usize,
    ) => instantiate_logged;
    11000 cuGraphInstantiate_v2(
        executable: *mut CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, log: *mut c_char, bytes: usize,
    ) => instantiate_logged;
    11040 cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: u64)
        => instantiate_with_flags;
    12000 cuGraphInstantiateWithParams(
        executable: *mut CUgraphExec, graph: CUgraph, params: *mut InstantiateParams,
    ) | cuGraphInstantiateWithParams_ptsz => instantiate_with_params;
    12000 cuGraphExecGetFlags(executable: CUgraphExec, flags: *mut u64) => get_flags;
    13010 cuGraphExecGetId(executable: CUgraphExec, id: *mut c_uint) => get_id;
    11010 cuGraphUpload(executable: CUgraphExec, stream: CUstream) | cuGraphUpload_ptsz => upload;
    10000 cuGraphLaunch(executable: CUgraphExec, stream: CUstream) | cuGraphLaunch_ptsz => launch;
    10000 cuGraphExecDestroy(executable: CUgraphExec) => destroy;
}

/// Parameters of an instantiation and what came of it (`CUDA_GRAPH_INSTANTIATE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct InstantiateParams {
    flags: u64,
    upload: CUstream,
    error: CUgraphNode,
    result: c_uint,
}

/// Why a graph cannot be instantiated (`CUgraphInstantiateResult`), with the code and the node that is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    result: c_uint,
    status: Status,
    node: CUgraphNode,
}

impl Fault {
    fn new(status: Status) -> Self {
        const ERROR: c_uint = 1;
        Self {
            result: ERROR,
            status,
            node: CUgraphNode::NULL,
        }
    }

    fn at(result: c_uint, node: CUgraphNode) -> Self {
        Self {
            result,
            status: Status::INVALID_VALUE,
            node,
        }
    }
}

impl Level {
    /// Copies the nodes of a graph, with the objects of the program's that go with them.
    fn of(graph: &Graph, users: &mut Vec<References>) -> Result<Self, Fault> {
        const INVALID_STRUCTURE: c_uint = 2;
        let body = graph.lock();
        users.extend(body.users.iter().cloned());
        let order = body.topology.order();
        let order = order.map_err(|id| Fault::at(INVALID_STRUCTURE, body.handle_of(id)))?;
        let places: HashMap<NodeId, usize> = body
            .topology
            .nodes()
            .enumerate()
            .map(|(index, (id, _))| (id, index))
            .collect();
        let mut nodes: Vec<Item> = Vec::with_capacity(places.len());
        for (id, place) in body.topology.nodes() {
            let waits = body.topology.dependencies(id).iter();
            let mut dependencies: Vec<_> =
                waits.map(|(from, data)| (places[from], *data)).collect();
            dependencies.sort_by_key(|(index, _)| *index);
            let action = place.action.instantiated();
            nodes.push(Item {
                original: place.handle,
                action: action.unwrap_or_else(|| Arc::clone(&place.action)),
                is_enabled: true,
                dependencies,
                child: None,
            });
        }
        let order = order.iter().map(|id| places[id]).collect();
        drop(body);
        for item in &mut nodes {
            if let Some(child) = item.action.child() {
                item.child = Some(Self::of(child, users)?);
            }
        }
        Ok(Self { nodes, order })
    }

    /// Returns the node that was made of a node of the graph, at whatever level.
    pub(super) fn find(&mut self, original: CUgraphNode) -> Option<&mut Item> {
        for item in &mut self.nodes {
            if item.original == original {
                return Some(item);
            }
            let inside = item.child.as_mut().and_then(|child| child.find(original));
            if inside.is_some() {
                return inside;
            }
        }
        None
    }

    /// Checks a launch of every node that is enabled, in an order that the edges allow.
    fn prepare(&self, launching: &Launching, steps: &mut Vec<Step>) -> CudaResult {
        for index in &self.order {
            let item = &self.nodes[*index];
            match &item.child {
                Some(child) => child.prepare(launching, steps)?,
                None if item.is_enabled => {
                    steps.extend(Arc::clone(&item.action).prepare(launching)?);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Returns the first node that cannot be launched from the device, and whether there is one that does anything.
    fn for_device(&self) -> Result<bool, CUgraphNode> {
        let mut acts = false;
        for item in &self.nodes {
            let kind = item.action.kind();
            acts |= match &item.child {
                Some(child) => child.for_device()?,
                None if kind.is_for_devices() => true,
                None => return Err(item.original),
            };
        }
        Ok(acts)
    }

    /// Makes a graph of it, in which nodes that are disabled do nothing.
    fn graph(&self, parent: &Graph) -> CudaResult<Arc<Graph>> {
        let graph = Graph::new(Holder::Node)?;
        graph.set_level(parent.level() + 1);
        let filled = self.fill(&graph);
        filled.inspect_err(|_| graph.forget())?;
        Ok(graph)
    }

    fn fill(&self, graph: &Arc<Graph>) -> CudaResult {
        let mut ids = Vec::with_capacity(self.nodes.len());
        for item in &self.nodes {
            let action: Arc<dyn Action> = match &item.child {
                Some(child) => {
                    let inside = child.graph(graph)?;
                    let action = Child::of(graph, Arc::clone(&inside));
                    action.inspect_err(|_| inside.forget())?
                }
                None if !item.is_enabled => Arc::new(Empty),
                None => {
                    let copied = item.action.copied()?;
                    copied.unwrap_or_else(|| Arc::clone(&item.action))
                }
            };
            ids.push(graph.add(action, &[])?.id);
        }
        let mut body = graph.lock();
        for (item, to) in self.nodes.iter().zip(&ids) {
            for (from, data) in &item.dependencies {
                body.topology.connect(Edge {
                    from: ids[*from],
                    to: *to,
                    data: *data,
                });
            }
        }
        Ok(())
    }
}

impl State {
    /// Makes one of a graph.
    fn of(graph: &Graph) -> Result<Self, Fault> {
        let instance = {
            let body = graph.lock();
            let is_taken = body.has_memory() && Arc::strong_count(&body.instances) > 1;
            if body.is_capturing || is_taken {
                return Err(Fault::new(Status::INVALID_VALUE));
            }
            Arc::clone(&body.instances)
        };
        let mut users = Vec::new();
        let root = Level::of(graph, &mut users)?;
        Ok(Self {
            root,
            users,
            _instance: instance,
            last: None,
        })
    }
}

/// Reads a graph as an executable one has it, for an update.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: it has a cycle.
pub(super) fn read(graph: &Graph) -> CudaResult<(Level, Vec<References>)> {
    let mut users = Vec::new();
    let root = Level::of(graph, &mut users).map_err(|fault| fault.status)?;
    Ok((root, users))
}

fn instantiate(graph: &Graph, flags: u64) -> Result<Arc<Executable>, Fault> {
    const UNSUPPORTED_NODE: c_uint = 3;
    let known = AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY;
    let for_device = flags & DEVICE_LAUNCH != 0;
    if flags & !known != 0 || for_device && flags & AUTO_FREE != 0 {
        return Err(Fault::new(Status::INVALID_VALUE));
    }
    let state = State::of(graph)?;
    if for_device {
        let acts = state.root.for_device();
        let acts = acts.map_err(|node| Fault::at(UNSUPPORTED_NODE, node))?;
        if !acts {
            return Err(Fault::new(Status::INVALID_VALUE));
        }
    }
    let made = EXECUTABLES.add(|handle| Executable {
        handle,
        id: new_id(),
        flags: flags & !UPLOAD,
        state: Mutex::new(state),
    });
    made.map_err(Fault::new)
}

/// Instantiates with a log, which says nothing but the end of the text, and the node that is to blame.
fn instantiate_logged(
    place: Out<CUgraphExec>,
    graph: Arc<Graph>,
    error: Option<Out<CUgraphNode>>,
    log: Option<Out<c_char>>,
    bytes: usize,
) -> CudaResult {
    if let Some(log) = log.filter(|_| bytes > 0) {
        log.set(0);
    }
    match instantiate(&graph, 0) {
        Ok(executable) => {
            Out::set_if(error.as_ref(), CUgraphNode::NULL);
            place.set(executable.handle);
            Ok(())
        }
        Err(fault) => {
            Out::set_if(error.as_ref(), fault.node);
            Err(fault.status)
        }
    }
}

fn instantiate_with_flags(place: Out<CUgraphExec>, graph: Arc<Graph>, flags: u64) -> CudaResult {
    if flags & UPLOAD != 0 {
        // There is no stream to upload it in.
        return Err(Status::INVALID_VALUE);
    }
    let executable = instantiate(&graph, flags).map_err(|fault| fault.status)?;
    place.set(executable.handle);
    Ok(())
}

fn instantiate_with_params(
    default: DefaultStream,
    place: Out<CUgraphExec>,
    graph: Arc<Graph>,
    params: Out<InstantiateParams>,
) -> CudaResult {
    let asked = params.get_at(0);
    let made = instantiate(&graph, asked.flags).and_then(|executable| {
        if asked.flags & UPLOAD == 0 {
            return Ok(executable);
        }
        match upload(default, Arc::clone(&executable), asked.upload) {
            Ok(()) => Ok(executable),
            Err(status) => {
                let _ = EXECUTABLES.remove(executable.handle);
                Err(Fault::new(status))
            }
        }
    });
    let (result, error) = match &made {
        Ok(_) => (0, CUgraphNode::NULL),
        Err(fault) => (fault.result, fault.node),
    };
    params.set(InstantiateParams {
        error,
        result,
        ..asked
    });
    place.set(made.map_err(|fault| fault.status)?.handle);
    Ok(())
}

fn get_flags(executable: Arc<Executable>, flags: Out<u64>) -> CudaResult {
    flags.set(executable.flags);
    Ok(())
}

fn get_id(executable: Arc<Executable>, id: Out<c_uint>) -> CudaResult {
    id.set(executable.id);
    Ok(())
}

/// Uploads nothing, because launches submit every node; a stream that cannot be used is refused.
fn upload(default: DefaultStream, _: Arc<Executable>, stream: CUstream) -> CudaResult {
    let (_, _, stream) = usable_stream(default, stream)?;
    match capture::of(&stream)? {
        None => Ok(()),
        Some(_) => Err(Status::STREAM_CAPTURE_UNSUPPORTED),
    }
}

fn launch(default: DefaultStream, executable: Arc<Executable>, stream: CUstream) -> CudaResult {
    let (driver, context, stream) = usable_stream(default, stream)?;
    driver.collect_leftovers();
    let mut state = executable.state.lock();
    if let Some(captured) = capture::of(&stream)? {
        let parent = captured.capture.graph();
        let child = state.root.graph(parent)?;
        child.lock().users.clone_from(&state.users);
        let action = Child::of(parent, Arc::clone(&child));
        let added = action.and_then(|action| captured.add(action));
        return added.map(drop).inspect_err(|_| child.forget());
    }
    let launching = Launching {
        driver,
        frees_first: executable.flags & AUTO_FREE != 0,
    };
    let mut steps = Vec::new();
    state.root.prepare(&launching, &mut steps)?;
    let site = Site {
        driver,
        context: &context,
        stream: &stream,
    };
    let before = state.last;
    let mut last = None;
    let submitted = stream.submit(driver, |lane| {
        if let Some(before) = before {
            lane.wait_mark(before)?;
        }
        for step in steps {
            last = step(site, lane)?.or(last);
        }
        Ok(last)
    });
    state.last = last.or(before);
    submitted.map_err(Status::from)
}

impl Executable {
    /// Lets the node that was made of a node of the graph do something else. What parameters do not say stays, as the
    /// attributes of a kernel.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it was made of no such node, is of another type, or what it does cannot change so.
    pub fn replace(&self, node: &Node, action: Arc<dyn Action>) -> CudaResult {
        let mut state = self.state.lock();
        let last = state.last;
        let item = state.root.find(node.handle()).ok_or(Self::UNKNOWN)?;
        if item.action.kind() != action.kind() || item.action.accepts(&*action).is_err() {
            return Err(Status::INVALID_VALUE);
        }
        let action = item.action.replaced(action)?;
        let before = std::mem::replace(&mut item.action, action);
        drop(state);
        leftovers::keep(last, before);
        Driver::get()?.collect_leftovers();
        Ok(())
    }
}

/// Takes an executable graph from the program; what launches still use of it goes when they have ended.
fn destroy(executable: CUgraphExec) -> CudaResult {
    let driver = Driver::get()?;
    let executable = EXECUTABLES.remove(executable)?;
    let last = executable.state.lock().last;
    leftovers::keep(last, executable);
    driver.collect_leftovers();
    Ok(())
}
