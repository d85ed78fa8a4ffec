//! Streams, whose handles are the driver's.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::current::ready;
use crate::status::CudaResult;
use std::ffi::{c_int, c_uint, c_void};

runtime_api! {
    cudaStreamCreate(stream: *mut u64) => create;
    cudaStreamCreateWithFlags(stream: *mut u64, flags: c_uint) => create_with_flags;
    cudaStreamCreateWithPriority(stream: *mut u64, flags: c_uint, priority: c_int) => create_with_priority;
    cudaStreamDestroy(stream: u64) => destroy;
    cudaStreamSynchronize(stream: u64) | cudaStreamSynchronize_ptsz => synchronize;
    cudaStreamQuery(stream: u64) | cudaStreamQuery_ptsz => query;
    cudaStreamWaitEvent(stream: u64, event: u64, flags: c_uint) | cudaStreamWaitEvent_ptsz => wait_event;
    cudaStreamGetPriority(stream: u64, priority: *mut c_int) | cudaStreamGetPriority_ptsz => get_priority;
    cudaStreamGetFlags(stream: u64, flags: *mut c_uint) | cudaStreamGetFlags_ptsz => get_flags;
    cudaStreamGetId(stream: u64, id: *mut u64) | cudaStreamGetId_ptsz => get_id;
    cudaStreamGetDevice(stream: u64, device: *mut c_int) | cudaStreamGetDevice_ptsz => get_device;
    cudaStreamIsCapturing(stream: u64, state: *mut c_int) | cudaStreamIsCapturing_ptsz => is_capturing;
    cudaStreamCopyAttributes(to: u64, from: u64) | cudaStreamCopyAttributes_ptsz => copy_attributes;
    cudaStreamGetAttribute(stream: u64, attribute: c_int, value: *mut c_void)
        | cudaStreamGetAttribute_ptsz => get_attribute;
    cudaStreamSetAttribute(stream: u64, attribute: c_int, value: *const c_void)
        | cudaStreamSetAttribute_ptsz => set_attribute;
    cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) => exchange_capture_mode;
    cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) => priority_range;
    cudaCtxResetPersistingL2Cache() => reset_persisting;
}

fn create(stream: Place<u64>) -> CudaResult {
    create_with_priority(stream, 0, 0)
}

fn create_with_flags(stream: Place<u64>, flags: c_uint) -> CudaResult {
    create_with_priority(stream, flags, 0)
}

fn create_with_priority(stream: Place<u64>, flags: c_uint, priority: c_int) -> CudaResult {
    ready()?.cuStreamCreateWithPriority(stream, flags, priority)
}

fn destroy(stream: u64) -> CudaResult {
    ready()?.cuStreamDestroy_v2(stream)
}

fn synchronize(default: DefaultStream, stream: u64) -> CudaResult {
    ready()?.cuStreamSynchronize(default.resolve(stream))
}

fn query(default: DefaultStream, stream: u64) -> CudaResult {
    ready()?.cuStreamQuery(default.resolve(stream))
}

fn wait_event(default: DefaultStream, stream: u64, event: u64, flags: c_uint) -> CudaResult {
    ready()?.cuStreamWaitEvent(default.resolve(stream), event, flags)
}

fn get_priority(default: DefaultStream, stream: u64, priority: Place<c_int>) -> CudaResult {
    ready()?.cuStreamGetPriority(default.resolve(stream), priority)
}

fn get_flags(default: DefaultStream, stream: u64, flags: Place<c_uint>) -> CudaResult {
    ready()?.cuStreamGetFlags(default.resolve(stream), flags)
}

fn get_id(default: DefaultStream, stream: u64, id: Place<u64>) -> CudaResult {
    ready()?.cuStreamGetId(default.resolve(stream), id)
}

fn get_device(default: DefaultStream, stream: u64, device: Place<c_int>) -> CudaResult {
    ready()?.cuStreamGetDevice(default.resolve(stream), device)
}

fn is_capturing(default: DefaultStream, stream: u64, state: Place<c_int>) -> CudaResult {
    ready()?.cuStreamIsCapturing(default.resolve(stream), state)
}

fn copy_attributes(default: DefaultStream, to: u64, from: u64) -> CudaResult {
    ready()?.cuStreamCopyAttributes(default.resolve(to), default.resolve(from))
}

fn get_attribute(
    default: DefaultStream,
    stream: u64,
    attribute: c_int,
    value: Place<c_void>,
) -> CudaResult {
    ready()?.cuStreamGetAttribute(default.resolve(stream), attribute, value)
}

fn set_attribute(
    default: DefaultStream,
    stream: u64,
    attribute: c_int,
    value: Place<c_void>,
) -> CudaResult {
    ready()?.cuStreamSetAttribute(default.resolve(stream), attribute, value)
}

fn exchange_capture_mode(mode: Place<c_int>) -> CudaResult {
    ready()?.cuThreadExchangeStreamCaptureMode(mode)
}

fn priority_range(least: Place<c_int>, greatest: Place<c_int>) -> CudaResult {
    ready()?.cuCtxGetStreamPriorityRange(least, greatest)
}

fn reset_persisting() -> CudaResult {
    ready()?.cuCtxResetPersistingL2Cache()
}
