//! Events, whose handles are the driver's.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::current::ready;
use crate::status::CudaResult;
use std::ffi::c_uint;

runtime_api! {
    cudaEventCreate(event: *mut u64) => create;
    cudaEventCreateWithFlags(event: *mut u64, flags: c_uint) => create_with_flags;
    cudaEventDestroy(event: u64) => destroy;
    cudaEventRecord(event: u64, stream: u64) | cudaEventRecord_ptsz => record;
    cudaEventRecordWithFlags(event: u64, stream: u64, flags: c_uint)
        | cudaEventRecordWithFlags_ptsz => record_with_flags;
    cudaEventQuery(event: u64) => query;
    cudaEventSynchronize(event: u64) => synchronize;
    cudaEventElapsedTime(milliseconds: *mut f32, start: u64, end: u64) => elapsed;
    #[cfg(cuda = "12")]
    cudaEventElapsedTime_v2(milliseconds: *mut f32, start: u64, end: u64) => elapsed;
}

fn create(event: Place<u64>) -> CudaResult {
    create_with_flags(event, 0)
}

fn create_with_flags(event: Place<u64>, flags: c_uint) -> CudaResult {
    ready()?.cuEventCreate(event, flags)
}

fn destroy(event: u64) -> CudaResult {
    ready()?.cuEventDestroy_v2(event)
}

fn record(default: DefaultStream, event: u64, stream: u64) -> CudaResult {
    ready()?.cuEventRecord(event, default.resolve(stream))
}

fn record_with_flags(default: DefaultStream, event: u64, stream: u64, flags: c_uint) -> CudaResult {
    ready()?.cuEventRecordWithFlags(event, default.resolve(stream), flags)
}

fn query(event: u64) -> CudaResult {
    ready()?.cuEventQuery(event)
}

fn synchronize(event: u64) -> CudaResult {
    ready()?.cuEventSynchronize(event)
}

fn elapsed(milliseconds: Place<f32>, start: u64, end: u64) -> CudaResult {
    ready()?.cuEventElapsedTime_v2(milliseconds, start, end)
}
