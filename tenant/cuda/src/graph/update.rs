//! Changes to executable graphs: parameters of nodes, nodes switched off and on, the graph inside of a node, and all
//! parameters at once, from a graph of the same form.
//!
//! A graph is of the same form if its nodes, in the order of their making, are of the same types and wait for the same
//! others. An update changes everything or nothing.

use super::action::Refusal;
use super::executable::{CUgraphExec, Executable, Level, read};
use super::leftovers;
use super::work::copy::CopyMemory;
use super::work::event::{Record, Wait};
use super::work::fill::{FillMemory, FillParams};
use super::work::host::{Host, HostParams};
use super::work::kernel::{KernelParams, KernelParams2, LaunchKernel};
use super::{CUgraph, CUgraphNode, Graph, Node};
use crate::api::driver_api;
use crate::border::{In, Out};
use crate::context::CUcontext;
use crate::driver::Driver;
use crate::event::{CUevent, Event};
use crate::memory::boxes::CUDA_MEMCPY3D;
use crate::registry::Object;
use crate::status::{CudaResult, Status};
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Arc;

driver_api! {
    needs Init;
    10020 cuGraphExecUpdate(
        executable: CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, result: *mut c_uint,
    ) => update_plain;
    12000 cuGraphExecUpdate_v2(executable: CUgraphExec, graph: CUgraph, info: *mut UpdateInfo) => update;
    10010 cuGraphExecKernelNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const KernelParams)
        => plain_kernel;
    12000 cuGraphExecKernelNodeSetParams_v2(
        executable: CUgraphExec, node: CUgraphNode, params: *const KernelParams2,
    ) => kernel;
    10020 cuGraphExecMemcpyNodeSetParams(
        executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMCPY3D, context: CUcontext,
    ) => copy;
    10020 cuGraphExecMemsetNodeSetParams(
        executable: CUgraphExec, node: CUgraphNode, params: *const FillParams, context: CUcontext,
    ) => fill;
    10020 cuGraphExecHostNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const HostParams)
        => host;
    11010 cuGraphExecChildGraphNodeSetParams(executable: CUgraphExec, node: CUgraphNode, graph: CUgraph) => child;
    11010 cuGraphExecEventRecordNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent)
        => event_record;
    11010 cuGraphExecEventWaitNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent)
        => event_wait;
    11060 cuGraphNodeSetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: c_uint) => set_enabled;
    11060 cuGraphNodeGetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint) => get_enabled;
}

/// What came of an update (`CUgraphExecUpdateResultInfo`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UpdateInfo {
    result: c_uint,
    error: CUgraphNode,
    error_from: CUgraphNode,
}

/// Why an update is refused, the node that is to blame and the dependency of it, each null if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused {
    why: Refusal,
    node: CUgraphNode,
    from: CUgraphNode,
}

impl Refused {
    fn at(why: Refusal, node: CUgraphNode) -> Self {
        Self {
            why,
            node,
            from: CUgraphNode::NULL,
        }
    }
}

/// Succeeds if the nodes of `new` may take the place of those of `old`.
fn check(old: &Level, new: &Level) -> Result<(), Refused> {
    if old.nodes.len() != new.nodes.len() {
        return Err(Refused::at(Refusal::TopologyChanged, CUgraphNode::NULL));
    }
    for (old, item) in old.nodes.iter().zip(&new.nodes) {
        if old.action.kind() != item.action.kind() {
            return Err(Refused::at(Refusal::NodeTypeChanged, item.original));
        }
        if old.dependencies != item.dependencies {
            let other = item
                .dependencies
                .iter()
                .find(|dependency| !old.dependencies.contains(dependency));
            let is_longer = old.dependencies.len() != item.dependencies.len();
            let from = other.filter(|_| !is_longer);
            let from = from.map(|(index, _)| new.nodes[*index].original);
            return Err(Refused {
                why: Refusal::TopologyChanged,
                node: item.original,
                from: from.unwrap_or(CUgraphNode::NULL),
            });
        }
        let accepted = old.action.accepts(&*item.action);
        accepted.map_err(|why| Refused::at(why, item.original))?;
        if let (Some(old), Some(new)) = (&old.child, &item.child) {
            check(old, new)?;
        }
    }
    Ok(())
}

/// Puts what the nodes of `new` do in the place of what those of `old` did, and that in theirs.
fn exchange(old: &mut Level, new: &mut Level) {
    for (old, new) in old.nodes.iter_mut().zip(&mut new.nodes) {
        std::mem::swap(&mut old.action, &mut new.action);
        if let (Some(old), Some(new)) = (&mut old.child, &mut new.child) {
            exchange(old, new);
        }
    }
}

/// Updates a whole executable graph.
fn run(executable: &Executable, graph: &Graph) -> Result<(), Refused> {
    let failed = |_| Refused::at(Refusal::Error, CUgraphNode::NULL);
    let driver = Driver::get().map_err(failed)?;
    let (mut new, mut users) = read(graph).map_err(failed)?;
    let mut state = executable.state.lock();
    check(&state.root, &new)?;
    exchange(&mut state.root, &mut new);
    std::mem::swap(&mut state.users, &mut users);
    let last = state.last;
    drop(state);
    leftovers::keep(last, (new, users));
    driver.collect_leftovers();
    Ok(())
}

fn update_plain(
    executable: Arc<Executable>,
    graph: Arc<Graph>,
    error: Option<Out<CUgraphNode>>,
    result: Out<c_uint>,
) -> CudaResult {
    let info = run(&executable, &graph);
    Out::set_if(
        error.as_ref(),
        info.err().map_or(CUgraphNode::NULL, |refused| refused.node),
    );
    result.set(info.err().map_or(0, |refused| refused.why as c_uint));
    info.map_err(|_| Status::GRAPH_EXEC_UPDATE_FAILURE)
}

fn update(executable: Arc<Executable>, graph: Arc<Graph>, place: Out<UpdateInfo>) -> CudaResult {
    let done = run(&executable, &graph);
    let refused = done.err();
    place.set(UpdateInfo {
        result: refused.map_or(0, |refused| refused.why as c_uint),
        error: refused.map_or(CUgraphNode::NULL, |refused| refused.node),
        error_from: refused.map_or(CUgraphNode::NULL, |refused| refused.from),
    });
    done.map_err(|_| Status::GRAPH_EXEC_UPDATE_FAILURE)
}

impl Executable {
    /// Lets the node that was made of a node of the graph execute what another graph of the same form does.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it was made of no such node, the node holds no graph, or the graph is of another
    /// form.
    pub fn replace_child(&self, node: &Node, graph: &Graph) -> CudaResult {
        let (mut new, users) = read(graph)?;
        let mut state = self.state.lock();
        let last = state.last;
        let item = state.root.find(node.handle()).ok_or(Self::UNKNOWN)?;
        let child = item.child.as_mut().ok_or(Status::INVALID_VALUE)?;
        check(child, &new).map_err(|_| Status::INVALID_VALUE)?;
        exchange(child, &mut new);
        // Those of the graph inside before are kept: others of this one may be the same.
        state.users.extend(users);
        drop(state);
        leftovers::keep(last, new);
        Driver::get()?.collect_leftovers();
        Ok(())
    }
}

fn plain_kernel(
    executable: Arc<Executable>,
    node: Arc<Node>,
    In(params): In<KernelParams>,
) -> CudaResult {
    kernel(executable, node, In(params.whole()))
}

fn kernel(
    executable: Arc<Executable>,
    node: Arc<Node>,
    In(params): In<KernelParams2>,
) -> CudaResult {
    let action = LaunchKernel::new(&params, BTreeMap::new())?;
    executable.replace(&node, Arc::new(action))
}

fn copy(
    executable: Arc<Executable>,
    node: Arc<Node>,
    In(params): In<CUDA_MEMCPY3D>,
    context: CUcontext,
) -> CudaResult {
    executable.replace(&node, CopyMemory::new(params, context)?)
}

fn fill(
    executable: Arc<Executable>,
    node: Arc<Node>,
    In(params): In<FillParams>,
    context: CUcontext,
) -> CudaResult {
    executable.replace(&node, FillMemory::new(params, context)?)
}

fn host(executable: Arc<Executable>, node: Arc<Node>, In(params): In<HostParams>) -> CudaResult {
    executable.replace(&node, Host::new(params)?)
}

/// Lets a node of an executable graph execute what another graph of the same form does.
fn child(executable: Arc<Executable>, node: Arc<Node>, graph: Arc<Graph>) -> CudaResult {
    executable.replace_child(&node, &graph)
}

fn event_record(executable: Arc<Executable>, node: Arc<Node>, event: Arc<Event>) -> CudaResult {
    executable.replace(&node, Arc::new(Record(event)))
}

fn event_wait(executable: Arc<Executable>, node: Arc<Node>, event: Arc<Event>) -> CudaResult {
    executable.replace(&node, Arc::new(Wait(event)))
}

/// Switches a node off or on.
fn set_enabled(executable: Arc<Executable>, node: Arc<Node>, enabled: c_uint) -> CudaResult {
    let mut state = executable.state.lock();
    let item = state.root.find(node.handle()).ok_or(Executable::UNKNOWN)?;
    if !item.action.kind().can_be_disabled() {
        return Err(Status::INVALID_VALUE);
    }
    item.is_enabled = enabled != 0;
    Ok(())
}

fn get_enabled(executable: Arc<Executable>, node: Arc<Node>, enabled: Out<c_uint>) -> CudaResult {
    let mut state = executable.state.lock();
    let item = state.root.find(node.handle()).ok_or(Executable::UNKNOWN)?;
    if !item.action.kind().can_be_disabled() {
        return Err(Status::INVALID_VALUE);
    }
    enabled.set(item.is_enabled.into());
    Ok(())
}
