//! Graphs and nodes as the program handles them: made, copied, asked, destroyed.

use super::work::child::Child;
use super::{CUgraph, CUgraphNode, Graph, Holder, NODES, Node};
use crate::api::driver_api;
use crate::border::Out;
use crate::context::current::current;
use crate::registry::Object;
use crate::status::{CudaResult, Status};
use std::ffi::c_uint;
use std::sync::Arc;

driver_api! {
    needs Init;
    10000 cuGraphCreate(graph: *mut CUgraph, flags: c_uint) => create;
    10000 cuGraphDestroy(graph: CUgraph) => destroy;
    10000 cuGraphClone(copy: *mut CUgraph, original: CUgraph) => make_copy;
    10000 cuGraphNodeFindInClone(found: *mut CUgraphNode, original: CUgraphNode, copy: CUgraph) => find_in_copy;
    10000 cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint) => get_type;
    10000 cuGraphDestroyNode(node: CUgraphNode) => destroy_node;
    10000 cuGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: *mut CUgraph) => child_of;
    13010 cuGraphGetId(graph: CUgraph, id: *mut c_uint) => get_id;
    13010 cuGraphNodeGetContainingGraph(node: CUgraphNode, graph: *mut CUgraph) => graph_of;
    13010 cuGraphNodeGetLocalId(node: CUgraphNode, id: *mut c_uint) => local_id;
    13010 cuGraphNodeGetToolsId(node: CUgraphNode, id: *mut u64) => tools_id;
}

fn create(place: Out<CUgraph>, flags: c_uint) -> CudaResult {
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    place.set(Graph::new(Holder::Program)?.handle());
    Ok(())
}

/// Destroys a graph; one inside a node, or that is being captured, is not the program's to destroy.
fn destroy(graph: Arc<Graph>) -> CudaResult {
    {
        let body = graph.lock();
        if body.holder != Holder::Program || body.is_capturing {
            return Err(Status::INVALID_VALUE);
        }
    }
    graph.forget();
    Ok(())
}

fn make_copy(place: Out<CUgraph>, original: Arc<Graph>) -> CudaResult {
    place.set(original.copied(Holder::Program)?.handle());
    Ok(())
}

fn find_in_copy(place: Out<CUgraphNode>, original: Arc<Node>, copy: Arc<Graph>) -> CudaResult {
    let body = copy.lock();
    let mut nodes = body.topology.nodes();
    let found = nodes.find(|(_, node)| node.original == original.handle());
    let (_, node) = found.ok_or(Status::INVALID_VALUE)?;
    place.set(node.handle);
    Ok(())
}

fn get_type(node: Arc<Node>, kind: Out<c_uint>) -> CudaResult {
    kind.set(node.action()?.kind() as c_uint);
    Ok(())
}

/// Removes a node with its edges.
fn destroy_node(node: Arc<Node>) -> CudaResult {
    let mut body = node.graph.lock();
    if body.has_memory() || body.is_capturing {
        return Err(Status::NOT_SUPPORTED);
    }
    let place = body.topology.remove(node.id).ok_or(Node::UNKNOWN)?;
    drop(body);
    let _ = NODES.remove(node.handle());
    if let Some(child) = place.action.child() {
        child.forget();
    }
    Ok(())
}

fn child_of(node: Arc<Node>, place: Out<CUgraph>) -> CudaResult {
    let child = node.action()?.of::<Child>()?;
    place.set(child.graph().handle());
    Ok(())
}

fn get_id(graph: Arc<Graph>, id: Out<c_uint>) -> CudaResult {
    id.set(graph.id());
    Ok(())
}

fn graph_of(node: Arc<Node>, place: Out<CUgraph>) -> CudaResult {
    place.set(node.graph.handle());
    Ok(())
}

fn local_id(node: Arc<Node>, id: Out<c_uint>) -> CudaResult {
    id.set(node.id.0);
    Ok(())
}

fn tools_id(node: Arc<Node>, id: Out<u64>) -> CudaResult {
    id.set(u64::from(node.graph.id()) << 32 | u64::from(node.id.0));
    Ok(())
}

/// Returns the handle of a context that a node names, or of the current one for null.
///
/// # Errors
/// [`Status::INVALID_CONTEXT`]: there is none.
pub(super) fn context_or_current(
    context: crate::context::CUcontext,
) -> CudaResult<crate::context::CUcontext> {
    if context.is_null() {
        return Ok(current()?.handle());
    }
    let driver = crate::driver::Driver::get()?;
    Ok(driver.contexts.get(context)?.handle())
}
