//! Executable graphs, which are the driver's, and so is what came of an update.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::current::ready;
use crate::status::CudaResult;
use std::ffi::{c_uint, c_void};

runtime_api! {
    cudaGraphInstantiate(executable: *mut u64, graph: u64, flags: u64) => instantiate;
    cudaGraphInstantiateWithFlags(executable: *mut u64, graph: u64, flags: u64) => instantiate_with_flags;
    cudaGraphExecGetFlags(executable: u64, flags: *mut u64) => get_flags;
    cudaGraphExecDestroy(executable: u64) => destroy;
    cudaGraphExecUpdate(executable: u64, graph: u64, info: *mut c_void) => update;
    cudaGraphNodeSetEnabled(executable: u64, node: u64, enabled: c_uint) => set_enabled;
    cudaGraphNodeGetEnabled(executable: u64, node: u64, enabled: *mut c_uint) => get_enabled;
    cudaGraphUpload(executable: u64, stream: u64) | cudaGraphUpload_ptsz => upload;
    cudaGraphLaunch(executable: u64, stream: u64) | cudaGraphLaunch_ptsz => launch;
    cudaGraphInstantiateWithParams(executable: *mut u64, graph: u64, params: *mut InstantiateParams)
        | cudaGraphInstantiateWithParams_ptsz => instantiate_with_params;
}

fn instantiate(executable: Place<u64>, graph: u64, flags: u64) -> CudaResult {
    ready()?.cuGraphInstantiateWithFlags(executable, graph, flags)
}

fn instantiate_with_flags(executable: Place<u64>, graph: u64, flags: u64) -> CudaResult {
    ready()?.cuGraphInstantiateWithFlags(executable, graph, flags)
}

fn get_flags(executable: u64, flags: Place<u64>) -> CudaResult {
    ready()?.cuGraphExecGetFlags(executable, flags)
}

fn destroy(executable: u64) -> CudaResult {
    ready()?.cuGraphExecDestroy(executable)
}

fn update(executable: u64, graph: u64, info: Place<c_void>) -> CudaResult {
    ready()?.cuGraphExecUpdate_v2(executable, graph, info)
}

fn set_enabled(executable: u64, node: u64, enabled: c_uint) -> CudaResult {
    ready()?.cuGraphNodeSetEnabled(executable, node, enabled)
}

fn get_enabled(executable: u64, node: u64, enabled: Place<c_uint>) -> CudaResult {
    ready()?.cuGraphNodeGetEnabled(executable, node, enabled)
}

fn upload(default: DefaultStream, executable: u64, stream: u64) -> CudaResult {
    ready()?.cuGraphUpload(executable, default.resolve(stream))
}

fn launch(default: DefaultStream, executable: u64, stream: u64) -> CudaResult {
    ready()?.cuGraphLaunch(executable, default.resolve(stream))
}

/// Parameters of an instantiation and what came of it (`cudaGraphInstantiateParams`), as the driver has them.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct InstantiateParams {
    flags: u64,
    upload: u64,
    error: u64,
    result: c_uint,
}

fn instantiate_with_params(
    default: DefaultStream,
    executable: Place<u64>,
    graph: u64,
    params: Place<InstantiateParams>,
) -> CudaResult {
    let asked = params.get()?;
    let mut ours = InstantiateParams {
        upload: default.resolve(asked.upload),
        ..asked
    };
    let made = ready()?.cuGraphInstantiateWithParams(executable, graph, Place::to(&mut ours));
    params.set(InstantiateParams {
        upload: asked.upload,
        ..ours
    })?;
    made
}
