//! Memory that is allocated and given back in the order of streams. Pools are the driver's, and so are the structures
//! that describe them, which have the same layout in both APIs.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::current::ready;
use crate::status::CudaResult;
use std::ffi::{c_int, c_uint, c_void};

runtime_api! {
    cudaMallocAsync(address: *mut u64, bytes: usize, stream: u64) | cudaMallocAsync_ptsz => allocate;
    cudaMallocFromPoolAsync(address: *mut u64, bytes: usize, pool: u64, stream: u64)
        | cudaMallocFromPoolAsync_ptsz => allocate_from;
    cudaFreeAsync(address: u64, stream: u64) | cudaFreeAsync_ptsz => free;
    cudaDeviceGetDefaultMemPool(pool: *mut u64, device: c_int) => get_default;
    cudaDeviceGetMemPool(pool: *mut u64, device: c_int) => get;
    cudaDeviceSetMemPool(device: c_int, pool: u64) => set;
    cudaMemGetDefaultMemPool(pool: *mut u64, location: *mut c_void, kind: c_uint) => get_default_at;
    cudaMemGetMemPool(pool: *mut u64, location: *mut c_void, kind: c_uint) => get_at;
    cudaMemSetMemPool(location: *mut c_void, kind: c_uint, pool: u64) => set_at;
    cudaMemPoolCreate(pool: *mut u64, properties: *const c_void) => create;
    cudaMemPoolDestroy(pool: u64) => destroy;
    cudaMemPoolTrimTo(pool: u64, keep: usize) => trim;
    cudaMemPoolGetAttribute(pool: u64, attribute: c_int, value: *mut c_void) => get_attribute;
    cudaMemPoolSetAttribute(pool: u64, attribute: c_int, value: *mut c_void) => set_attribute;
    cudaMemPoolGetAccess(flags: *mut c_uint, pool: u64, location: *mut c_void) => get_access;
    cudaMemPoolSetAccess(pool: u64, access: *const c_void, count: usize) => set_access;
}

fn allocate(default: DefaultStream, address: Place<u64>, bytes: usize, stream: u64) -> CudaResult {
    ready()?.cuMemAllocAsync(address, bytes, default.resolve(stream))
}

fn allocate_from(
    default: DefaultStream,
    address: Place<u64>,
    bytes: usize,
    pool: u64,
    stream: u64,
) -> CudaResult {
    ready()?.cuMemAllocFromPoolAsync(address, bytes, pool, default.resolve(stream))
}

fn free(default: DefaultStream, address: u64, stream: u64) -> CudaResult {
    ready()?.cuMemFreeAsync(address, default.resolve(stream))
}

fn get_default(pool: Place<u64>, device: c_int) -> CudaResult {
    ready()?.cuDeviceGetDefaultMemPool(pool, device)
}

fn get(pool: Place<u64>, device: c_int) -> CudaResult {
    ready()?.cuDeviceGetMemPool(pool, device)
}

fn set(device: c_int, pool: u64) -> CudaResult {
    ready()?.cuDeviceSetMemPool(device, pool)
}

fn get_default_at(pool: Place<u64>, location: Place<c_void>, kind: c_uint) -> CudaResult {
    ready()?.cuMemGetDefaultMemPool(pool, location, kind)
}

fn get_at(pool: Place<u64>, location: Place<c_void>, kind: c_uint) -> CudaResult {
    ready()?.cuMemGetMemPool(pool, location, kind)
}

fn set_at(location: Place<c_void>, kind: c_uint, pool: u64) -> CudaResult {
    ready()?.cuMemSetMemPool(location, kind, pool)
}

fn create(pool: Place<u64>, properties: Place<c_void>) -> CudaResult {
    ready()?.cuMemPoolCreate(pool, properties)
}

fn destroy(pool: u64) -> CudaResult {
    ready()?.cuMemPoolDestroy(pool)
}

fn trim(pool: u64, keep: usize) -> CudaResult {
    ready()?.cuMemPoolTrimTo(pool, keep)
}

fn get_attribute(pool: u64, attribute: c_int, value: Place<c_void>) -> CudaResult {
    ready()?.cuMemPoolGetAttribute(pool, attribute, value)
}

fn set_attribute(pool: u64, attribute: c_int, value: Place<c_void>) -> CudaResult {
    ready()?.cuMemPoolSetAttribute(pool, attribute, value)
}

fn get_access(flags: Place<c_uint>, pool: u64, location: Place<c_void>) -> CudaResult {
    ready()?.cuMemPoolGetAccess(flags, pool, location)
}

fn set_access(pool: u64, access: Place<c_void>, count: usize) -> CudaResult {
    ready()?.cuMemPoolSetAccess(pool, access, count)
}
