//! Graphs: handles, edges and user objects are the driver's, and so are the structures that say what an edge carries.
//!
//! What differs from the driver is how kernels and copies are named: [`nodes`] and [`params`] translate them.

pub mod capture;
#[cfg(cuda = "12")]
pub mod cuda12;
pub mod executable;
pub mod nodes;
pub mod params;
pub mod simple;

use crate::api::runtime_api;
use crate::border::Place;
use crate::current::ready;
use crate::driver::HostFunction;
use crate::status::CudaResult;
use std::ffi::{c_char, c_uint, c_void};

runtime_api! {
    cudaGraphCreate(graph: *mut u64, flags: c_uint) => create;
    cudaGraphDestroy(graph: u64) => destroy;
    cudaGraphClone(copy: *mut u64, original: u64) => make_copy;
    cudaGraphNodeFindInClone(found: *mut u64, original: u64, copy: u64) => find_in_copy;
    cudaGraphNodeGetType(node: u64, kind: *mut c_uint) => get_type;
    cudaGraphDestroyNode(node: u64) => destroy_node;
    cudaGraphGetId(graph: u64, id: *mut c_uint) => get_id;
    cudaGraphExecGetId(executable: u64, id: *mut c_uint) => executable_id;
    cudaGraphNodeGetContainingGraph(node: u64, graph: *mut u64) => graph_of;
    cudaGraphNodeGetLocalId(node: u64, id: *mut c_uint) => local_id;
    cudaGraphNodeGetToolsId(node: u64, id: *mut u64) => tools_id;
    cudaGraphDebugDotPrint(graph: u64, path: *const c_char, flags: c_uint) => draw;
    cudaGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut usize) => all_nodes;
    cudaGraphGetRootNodes(graph: u64, nodes: *mut u64, count: *mut usize) => root_nodes;
    #[cfg(cuda = "13")]
    cudaGraphGetEdges(graph: u64, from: *mut u64, to: *mut u64, data: *mut u64, count: *mut usize) => edges;
    #[cfg(cuda = "13")]
    cudaGraphNodeGetDependencies(node: u64, nodes: *mut u64, data: *mut u64, count: *mut usize) => dependencies;
    #[cfg(cuda = "13")]
    cudaGraphNodeGetDependentNodes(node: u64, nodes: *mut u64, data: *mut u64, count: *mut usize) => dependents;
    #[cfg(cuda = "13")]
    cudaGraphAddDependencies(
        graph: u64, from: *const u64, to: *const u64, data: *const u64, count: usize,
    ) => add_edges;
    #[cfg(cuda = "13")]
    cudaGraphRemoveDependencies(
        graph: u64, from: *const u64, to: *const u64, data: *const u64, count: usize,
    ) => remove_edges;
    cudaUserObjectCreate(
        object: *mut u64, data: *mut c_void, destructor: HostFunction, count: c_uint, flags: c_uint,
    ) => create_object;
    cudaUserObjectRetain(object: u64, count: c_uint) => retain_object;
    cudaUserObjectRelease(object: u64, count: c_uint) => release_object;
    cudaGraphRetainUserObject(graph: u64, object: u64, count: c_uint, flags: c_uint) => retain_for_graph;
    cudaGraphReleaseUserObject(graph: u64, object: u64, count: c_uint) => release_of_graph;
}

fn create(graph: Place<u64>, flags: c_uint) -> CudaResult {
    ready()?.cuGraphCreate(graph, flags)
}

fn destroy(graph: u64) -> CudaResult {
    ready()?.cuGraphDestroy(graph)
}

fn make_copy(copy: Place<u64>, original: u64) -> CudaResult {
    ready()?.cuGraphClone(copy, original)
}

fn find_in_copy(found: Place<u64>, original: u64, copy: u64) -> CudaResult {
    ready()?.cuGraphNodeFindInClone(found, original, copy)
}

fn get_type(node: u64, kind: Place<c_uint>) -> CudaResult {
    ready()?.cuGraphNodeGetType(node, kind)
}

fn destroy_node(node: u64) -> CudaResult {
    ready()?.cuGraphDestroyNode(node)
}

fn get_id(graph: u64, id: Place<c_uint>) -> CudaResult {
    ready()?.cuGraphGetId(graph, id)
}

fn executable_id(executable: u64, id: Place<c_uint>) -> CudaResult {
    ready()?.cuGraphExecGetId(executable, id)
}

fn graph_of(node: u64, graph: Place<u64>) -> CudaResult {
    ready()?.cuGraphNodeGetContainingGraph(node, graph)
}

fn local_id(node: u64, id: Place<c_uint>) -> CudaResult {
    ready()?.cuGraphNodeGetLocalId(node, id)
}

fn tools_id(node: u64, id: Place<u64>) -> CudaResult {
    ready()?.cuGraphNodeGetToolsId(node, id)
}

fn draw(graph: u64, path: Place<c_char>, flags: c_uint) -> CudaResult {
    ready()?.cuGraphDebugDotPrint(graph, path, flags)
}

fn all_nodes(graph: u64, nodes: Place<u64>, count: Place<usize>) -> CudaResult {
    ready()?.cuGraphGetNodes(graph, nodes, count)
}

fn root_nodes(graph: u64, nodes: Place<u64>, count: Place<usize>) -> CudaResult {
    ready()?.cuGraphGetRootNodes(graph, nodes, count)
}

fn edges(
    graph: u64,
    from: Place<u64>,
    to: Place<u64>,
    data: Place<u64>,
    count: Place<usize>,
) -> CudaResult {
    ready()?.cuGraphGetEdges_v2(graph, from, to, data, count)
}

fn dependencies(node: u64, nodes: Place<u64>, data: Place<u64>, count: Place<usize>) -> CudaResult {
    ready()?.cuGraphNodeGetDependencies_v2(node, nodes, data, count)
}

fn dependents(node: u64, nodes: Place<u64>, data: Place<u64>, count: Place<usize>) -> CudaResult {
    ready()?.cuGraphNodeGetDependentNodes_v2(node, nodes, data, count)
}

fn add_edges(
    graph: u64,
    from: Place<u64>,
    to: Place<u64>,
    data: Place<u64>,
    count: usize,
) -> CudaResult {
    ready()?.cuGraphAddDependencies_v2(graph, from, to, data, count)
}

fn remove_edges(
    graph: u64,
    from: Place<u64>,
    to: Place<u64>,
    data: Place<u64>,
    count: usize,
) -> CudaResult {
    ready()?.cuGraphRemoveDependencies_v2(graph, from, to, data, count)
}

fn create_object(
    object: Place<u64>,
    data: Place<c_void>,
    destructor: HostFunction,
    count: c_uint,
    flags: c_uint,
) -> CudaResult {
    ready()?.cuUserObjectCreate(object, data, destructor, count, flags)
}

fn retain_object(object: u64, count: c_uint) -> CudaResult {
    ready()?.cuUserObjectRetain(object, count)
}

fn release_object(object: u64, count: c_uint) -> CudaResult {
    ready()?.cuUserObjectRelease(object, count)
}

fn retain_for_graph(graph: u64, object: u64, count: c_uint, flags: c_uint) -> CudaResult {
    ready()?.cuGraphRetainUserObject(graph, object, count, flags)
}

fn release_of_graph(graph: u64, object: u64, count: c_uint) -> CudaResult {
    ready()?.cuGraphReleaseUserObject(graph, object, count)
}
