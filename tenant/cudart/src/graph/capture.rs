//! Capture of streams into graphs, by the driver.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::current::ready;
use crate::status::CudaResult;
use std::ffi::c_uint;

runtime_api! {
    cudaStreamBeginCapture(stream: u64, mode: c_uint) | cudaStreamBeginCapture_ptsz => begin;
    cudaStreamBeginCaptureToGraph(
        stream: u64, graph: u64, dependencies: *const u64, data: *const u64, count: usize, mode: c_uint,
    ) | cudaStreamBeginCaptureToGraph_ptsz => begin_to_graph;
    cudaStreamEndCapture(stream: u64, graph: *mut u64) | cudaStreamEndCapture_ptsz => end;
    #[cfg(cuda = "13")]
    cudaStreamGetCaptureInfo(
        stream: u64, status: *mut c_uint, id: *mut u64, graph: *mut u64, dependencies: *mut u64, data: *mut u64,
        count: *mut usize,
    ) | cudaStreamGetCaptureInfo_ptsz => info;
    #[cfg(cuda = "13")]
    cudaStreamUpdateCaptureDependencies(
        stream: u64, dependencies: *const u64, data: *const u64, count: usize, flags: c_uint,
    ) | cudaStreamUpdateCaptureDependencies_ptsz => update;
}

fn begin(default: DefaultStream, stream: u64, mode: c_uint) -> CudaResult {
    ready()?.cuStreamBeginCapture_v2(default.resolve(stream), mode)
}

fn begin_to_graph(
    default: DefaultStream,
    stream: u64,
    graph: u64,
    dependencies: Place<u64>,
    data: Place<u64>,
    count: usize,
    mode: c_uint,
) -> CudaResult {
    ready()?.cuStreamBeginCaptureToGraph(
        default.resolve(stream),
        graph,
        dependencies,
        data,
        count,
        mode,
    )
}

fn end(default: DefaultStream, stream: u64, graph: Place<u64>) -> CudaResult {
    ready()?.cuStreamEndCapture(default.resolve(stream), graph)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
pub(super) fn info(
    default: DefaultStream,
    stream: u64,
    status: Place<c_uint>,
    id: Place<u64>,
    graph: Place<u64>,
    dependencies: Place<u64>,
    data: Place<u64>,
    count: Place<usize>,
) -> CudaResult {
    ready()?.cuStreamGetCaptureInfo_v3(
        default.resolve(stream),
        status,
        id,
        graph,
        dependencies,
        data,
        count,
    )
}

pub(super) fn update(
    default: DefaultStream,
    stream: u64,
    dependencies: Place<u64>,
    data: Place<u64>,
    count: usize,
    flags: c_uint,
) -> CudaResult {
    ready()?.cuStreamUpdateCaptureDependencies_v2(
        default.resolve(stream),
        dependencies,
        data,
        count,
        flags,
    )
}
