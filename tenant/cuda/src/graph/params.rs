//! Nodes of any type, described by one structure that says which.
//!
//! Nodes that wait for and signal semaphores of other APIs, batches of operations on words, conditional nodes and
//! batches of copies are refused by name.

use super::action::{Action, Kind};
use super::executable::{CUgraphExec, Executable};
use super::topology::EdgeData;
use super::work::child::{Child, ChildParams};
use super::work::copy::{CopyMemory, CopyParams};
use super::work::empty::Empty;
use super::work::event::{Record, RecordParams, Wait};
use super::work::fill::{FillMemory, FillParams2};
use super::work::host::{Host, HostParams2};
use super::work::kernel::{KernelParams2, LaunchKernel};
use super::work::memory::{Allocate, AllocateParams, Free};
use super::work::{self, Behind, kernel};
use super::{CUgraph, CUgraphNode, Graph, Node};
use crate::api::driver_api;
use crate::border::{In, Out};
use crate::driver::Driver;
use crate::event::{CUevent, Event};
use crate::registry::Object;
use crate::report::{self, Missed};
use crate::status::{CudaResult, Status};
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Arc;

driver_api! {
    needs Init;
    12020 cuGraphAddNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *mut NodeParams,
    ) => add_plain;
    12030 cuGraphAddNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, data: *const EdgeData,
        count: usize, params: *mut NodeParams,
    ) => add;
    13040 cuGraphAddNode_v3(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, data: *const EdgeData,
        count: usize, params: *mut NodeParams,
    ) => add;
    12020 cuGraphNodeSetParams(node: CUgraphNode, params: *mut NodeParams) => set;
    13040 cuGraphNodeSetParams_v2(node: CUgraphNode, params: *mut NodeParams) => set;
    13020 cuGraphNodeGetParams(node: CUgraphNode, params: *mut NodeParams) => get;
    12020 cuGraphExecNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *mut NodeParams) => update;
}

/// The parameters of a node of any type (`CUgraphNodeParams`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeParams {
    kind: c_uint,
    reserved: [c_uint; 3],
    of: AnyParams,
    end: u64,
}

/// The parameters of one type, as the number in front says.
#[repr(C)]
#[derive(Clone, Copy)]
union AnyParams {
    kernel: KernelParams2,
    copy: CopyParams,
    fill: FillParams2,
    host: HostParams2,
    child: ChildParams,
    wait: CUevent,
    record: RecordParams,
    allocate: AllocateParams,
    free: u64,
    words: [u64; 29],
}

const _: () = assert!(size_of::<NodeParams>() == 256);

impl NodeParams {
    fn check(&self) -> CudaResult {
        match self.reserved == [0; 3] && self.end == 0 {
            true => Ok(()),
            false => Err(Status::INVALID_VALUE),
        }
    }

    /// Makes what a node of a graph does.
    fn action(&self, graph: &Graph) -> CudaResult<Arc<dyn Action>> {
        self.check()?;
        let of = &self.of;
        // SAFETY: (all blocks) the program fills in the parameters of the type that it names; every value of these
        // structures of numbers and pointers is one, but for functions, which the program must pass as they are.
        Ok(match self.kind {
            kind if kind == Kind::Kernel as c_uint => {
                // SAFETY: as above.
                Arc::new(LaunchKernel::new(unsafe { &of.kernel }, BTreeMap::new())?)
            }
            kind if kind == Kind::Memcpy as c_uint => {
                // SAFETY: as above.
                let params = unsafe { of.copy };
                if params.flags != 0 || params.reserved != 0 {
                    return Err(Status::INVALID_VALUE);
                }
                CopyMemory::new(params.copy, params.context)?
            }
            kind if kind == Kind::Memset as c_uint => {
                // SAFETY: as above.
                let params = unsafe { of.fill };
                FillMemory::new(params.fill, params.context)?
            }
            kind if kind == Kind::Host as c_uint => {
                // SAFETY: as above.
                Host::new(unsafe { of.host }.call)?
            }
            kind if kind == Kind::Graph as c_uint => {
                // SAFETY: as above.
                let params = unsafe { of.child };
                let child = Graph::find(Driver::get()?, params.graph)?;
                Child::new(graph, &child, params.ownership)?
            }
            kind if kind == Kind::Empty as c_uint => Arc::new(Empty),
            kind if kind == Kind::WaitEvent as c_uint => {
                // SAFETY: as above.
                Arc::new(Wait(event(unsafe { of.wait })?))
            }
            kind if kind == Kind::EventRecord as c_uint => {
                // SAFETY: as above.
                Arc::new(Record(event(unsafe { of.record }.event)?))
            }
            kind if kind == Kind::MemAlloc as c_uint => {
                // SAFETY: as above.
                Allocate::new(unsafe { &of.allocate })?
            }
            kind if kind == Kind::MemFree as c_uint => {
                // SAFETY: as above.
                Free::new(graph, unsafe { of.free })?
            }
            kind => return Err(refused(kind)),
        })
    }

    /// Writes what a node does.
    fn of(action: &Arc<dyn Action>) -> CudaResult<Self> {
        let words = AnyParams { words: [0; 29] };
        let mut params = Self {
            kind: action.kind() as c_uint,
            reserved: [0; 3],
            of: words,
            end: 0,
        };
        let of = &mut params.of;
        match action.kind() {
            Kind::Kernel => of.kernel = action.of::<LaunchKernel>()?.params(),
            Kind::Memcpy => of.copy = action.of::<CopyMemory>()?.params(),
            Kind::Memset => of.fill = action.of::<FillMemory>()?.params(),
            Kind::Host => {
                of.host = HostParams2 {
                    call: action.of::<Host>()?.params(),
                    sync_mode: 0,
                    context: 0,
                }
            }
            Kind::Graph => {
                of.child = ChildParams {
                    graph: action.of::<Child>()?.graph().handle(),
                    ownership: work::child::MOVED,
                }
            }
            Kind::Empty => {}
            Kind::WaitEvent => of.wait = action.of::<Wait>()?.0.handle(),
            Kind::EventRecord => {
                let event = action.of::<Record>()?.0.handle();
                of.record = RecordParams { event, context: 0 }
            }
            Kind::MemAlloc => of.allocate = action.of::<Allocate>()?.params(),
            Kind::MemFree => of.free = action.of::<Free>()?.address(),
        }
        Ok(params)
    }
}

fn event(handle: CUevent) -> CudaResult<Arc<Event>> {
    Event::find(Driver::get()?, handle)
}

/// Says once which type of node is not there.
fn refused(kind: c_uint) -> Status {
    let name = match kind {
        8 => "EXT_SEMAS_SIGNAL",
        9 => "EXT_SEMAS_WAIT",
        12 => "BATCH_MEM_OP",
        13 => "CONDITIONAL",
        14 => "MEMCPY_BATCH",
        17 => "EXTERNAL_ENGINE",
        18 => "FABRIC_CPY_BATCH",
        _ => return Status::INVALID_VALUE,
    };
    let node = format!("cuGraphAddNode of CU_GRAPH_NODE_TYPE_{name}");
    report::missed(&node, Missed::Called);
    Status::NOT_SUPPORTED
}

fn add_plain(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    params: Out<NodeParams>,
) -> CudaResult {
    let data = std::ptr::null();
    add(place, graph, dependencies, data, count, params)
}

fn add(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    nodes: *const CUgraphNode,
    data: *const EdgeData,
    count: usize,
    params: Out<NodeParams>,
) -> CudaResult {
    let mut asked = params.get_at(0);
    let action = asked.action(&graph)?;
    let allocated = action.as_a::<Allocate>().map(Allocate::address);
    let child = action.child().cloned();
    let added = work::add(&place, &graph, Behind { nodes, data, count }, action);
    if let Err(status) = added {
        if let Some(child) = child {
            child.forget();
        }
        return Err(status);
    }
    if let Some(address) = allocated {
        asked.of.allocate.address = address;
        params.set(asked);
    }
    Ok(())
}

/// Sets a node's parameters; a kernel's attributes stay, and memory nodes cannot be changed.
fn set(node: Arc<Node>, params: Out<NodeParams>) -> CudaResult {
    let params = params.get_at(0);
    let kind = node.action()?.kind();
    if kind as c_uint != params.kind {
        return Err(Status::INVALID_VALUE);
    }
    match kind {
        Kind::MemAlloc | Kind::MemFree => Err(Status::NOT_SUPPORTED),
        Kind::Kernel => {
            params.check()?;
            // SAFETY: the parameters are those of a kernel.
            kernel::set(node, In(unsafe { params.of.kernel }))
        }
        _ => {
            let before = node.action()?;
            if let Some(own) = before.child() {
                params.check()?;
                // SAFETY: the parameters are those of a graph inside of a node.
                let child = unsafe { params.of.child }.graph;
                // The graph inside of the node is not one that it could get.
                if child == own.handle() {
                    return Err(Status::INVALID_VALUE);
                }
            }
            node.set_action(params.action(&node.graph)?)
        }
    }
}

fn get(node: Arc<Node>, params: Out<NodeParams>) -> CudaResult {
    params.set(NodeParams::of(&node.action()?)?);
    Ok(())
}

fn update(executable: Arc<Executable>, node: Arc<Node>, params: Out<NodeParams>) -> CudaResult {
    let params = params.get_at(0);
    let kind = node.action()?.kind();
    if kind as c_uint != params.kind {
        return Err(Status::INVALID_VALUE);
    }
    match kind {
        Kind::MemAlloc | Kind::MemFree => Err(Status::NOT_SUPPORTED),
        Kind::Graph => {
            params.check()?;
            // SAFETY: the parameters are those of a graph inside of a node.
            let child = unsafe { params.of.child }.graph;
            executable.replace_child(&node, &*Graph::find(Driver::get()?, child)?)
        }
        _ => executable.replace(&node, params.action(&node.graph)?),
    }
}
