//! The forms in which CUDA 12 has what says something of edges: those of CUDA 13 under names that end in `_v2` (`_v3`),
//! and under the plain name older ones, which know no data of edges.
//!
//! Without a place for it the driver refuses to tell of edges that have data (`cudaErrorLossyQuery`), as NVIDIA's does.

use super::{add_edges, dependencies, dependents, edges, remove_edges};
use super::{capture, params};
use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::status::CudaResult;
use params::NodeParams;
use std::ffi::c_uint;

runtime_api! {
    cudaGraphGetEdges_v2(graph: u64, from: *mut u64, to: *mut u64, data: *mut u64, count: *mut usize) => edges;
    cudaGraphGetEdges(graph: u64, from: *mut u64, to: *mut u64, count: *mut usize) => plain_edges;
    cudaGraphNodeGetDependencies_v2(
        node: u64, nodes: *mut u64, data: *mut u64, count: *mut usize,
    ) => dependencies;
    cudaGraphNodeGetDependencies(node: u64, nodes: *mut u64, count: *mut usize) => plain_dependencies;
    cudaGraphNodeGetDependentNodes_v2(
        node: u64, nodes: *mut u64, data: *mut u64, count: *mut usize,
    ) => dependents;
    cudaGraphNodeGetDependentNodes(node: u64, nodes: *mut u64, count: *mut usize) => plain_dependents;
    cudaGraphAddDependencies_v2(
        graph: u64, from: *const u64, to: *const u64, data: *const u64, count: usize,
    ) => add_edges;
    cudaGraphAddDependencies(graph: u64, from: *const u64, to: *const u64, count: usize) => add_plain_edges;
    cudaGraphRemoveDependencies_v2(
        graph: u64, from: *const u64, to: *const u64, data: *const u64, count: usize,
    ) => remove_edges;
    cudaGraphRemoveDependencies(graph: u64, from: *const u64, to: *const u64, count: usize) => remove_plain_edges;
    cudaGraphAddNode_v2(
        node: *mut u64, graph: u64, dependencies: *const u64, data: *const u64, count: usize,
        params: *mut NodeParams,
    ) => params::add;
    cudaGraphAddNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *mut NodeParams,
    ) => add_plain_node;
    cudaStreamGetCaptureInfo_v3(
        stream: u64, status: *mut c_uint, id: *mut u64, graph: *mut u64, dependencies: *mut u64, data: *mut u64,
        count: *mut usize,
    ) | cudaStreamGetCaptureInfo_v3_ptsz => capture::info;
    cudaStreamGetCaptureInfo_v2(
        stream: u64, status: *mut c_uint, id: *mut u64, graph: *mut u64, dependencies: *mut u64, count: *mut usize,
    ) | cudaStreamGetCaptureInfo_v2_ptsz => plain_info;
    cudaStreamGetCaptureInfo(stream: u64, status: *mut c_uint, id: *mut u64)
        | cudaStreamGetCaptureInfo_ptsz => first_info;
    cudaStreamUpdateCaptureDependencies_v2(
        stream: u64, dependencies: *const u64, data: *const u64, count: usize, flags: c_uint,
    ) | cudaStreamUpdateCaptureDependencies_v2_ptsz => capture::update;
    cudaStreamUpdateCaptureDependencies(stream: u64, dependencies: *const u64, count: usize, flags: c_uint)
        | cudaStreamUpdateCaptureDependencies_ptsz => plain_update;
}

fn plain_edges(graph: u64, from: Place<u64>, to: Place<u64>, count: Place<usize>) -> CudaResult {
    edges(graph, from, to, Place::NONE, count)
}

fn plain_dependencies(node: u64, nodes: Place<u64>, count: Place<usize>) -> CudaResult {
    dependencies(node, nodes, Place::NONE, count)
}

fn plain_dependents(node: u64, nodes: Place<u64>, count: Place<usize>) -> CudaResult {
    dependents(node, nodes, Place::NONE, count)
}

fn add_plain_edges(graph: u64, from: Place<u64>, to: Place<u64>, count: usize) -> CudaResult {
    add_edges(graph, from, to, Place::NONE, count)
}

fn remove_plain_edges(graph: u64, from: Place<u64>, to: Place<u64>, count: usize) -> CudaResult {
    remove_edges(graph, from, to, Place::NONE, count)
}

fn add_plain_node(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    asked: Place<NodeParams>,
) -> CudaResult {
    params::add(node, graph, dependencies, Place::NONE, count, asked)
}

fn plain_info(
    default: DefaultStream,
    stream: u64,
    status: Place<c_uint>,
    id: Place<u64>,
    graph: Place<u64>,
    dependencies: Place<u64>,
    count: Place<usize>,
) -> CudaResult {
    let none = Place::NONE;
    capture::info(
        default,
        stream,
        status,
        id,
        graph,
        dependencies,
        none,
        count,
    )
}

fn first_info(
    default: DefaultStream,
    stream: u64,
    status: Place<c_uint>,
    id: Place<u64>,
) -> CudaResult {
    let none = Place::NONE;
    capture::info(default, stream, status, id, none, none, none, Place::NONE)
}

fn plain_update(
    default: DefaultStream,
    stream: u64,
    dependencies: Place<u64>,
    count: usize,
    flags: c_uint,
) -> CudaResult {
    capture::update(default, stream, dependencies, Place::NONE, count, flags)
}
