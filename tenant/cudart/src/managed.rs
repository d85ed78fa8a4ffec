//! Managed memory, and what the program says of it.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::current::ready;
use crate::status::CudaResult;
use std::ffi::{c_int, c_uint, c_void};

/// A place for memory (`cudaMemLocation`), as the driver has it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Location {
    kind: c_int,
    id: c_int,
}

runtime_api! {
    cudaMallocManaged(address: *mut u64, bytes: usize, flags: c_uint) => allocate;
    #[cfg(cuda = "13")]
    cudaMemAdvise(address: u64, bytes: usize, advice: c_int, location: Location) => advise;
    #[cfg(cuda = "12")]
    cudaMemAdvise(address: u64, bytes: usize, advice: c_int, device: c_int) => advise_device;
    #[cfg(cuda = "12")]
    cudaMemAdvise_v2(address: u64, bytes: usize, advice: c_int, location: Location) => advise;
    #[cfg(cuda = "13")]
    cudaMemPrefetchAsync(address: u64, bytes: usize, location: Location, flags: c_uint, stream: u64)
        | cudaMemPrefetchAsync_ptsz => prefetch;
    #[cfg(cuda = "12")]
    cudaMemPrefetchAsync(address: u64, bytes: usize, device: c_int, stream: u64)
        | cudaMemPrefetchAsync_ptsz => prefetch_to_device;
    #[cfg(cuda = "12")]
    cudaMemPrefetchAsync_v2(address: u64, bytes: usize, location: Location, flags: c_uint, stream: u64)
        | cudaMemPrefetchAsync_v2_ptsz => prefetch;
    cudaMemRangeGetAttribute(
        data: *mut c_void, data_bytes: usize, attribute: c_int, address: u64, bytes: usize,
    ) => get_attribute;
    cudaMemRangeGetAttributes(
        data: *mut *mut c_void, data_bytes: *mut usize, attributes: *mut c_int, count: usize, address: u64,
        bytes: usize,
    ) => get_attributes;
    cudaStreamAttachMemAsync(stream: u64, address: u64, bytes: usize, flags: c_uint)
        | cudaStreamAttachMemAsync_ptsz => attach;
}

fn allocate(address: Place<u64>, bytes: usize, flags: c_uint) -> CudaResult {
    ready()?.cuMemAllocManaged(address, bytes, flags)
}

fn advise(address: u64, bytes: usize, advice: c_int, location: Location) -> CudaResult {
    ready()?.cuMemAdvise_v2(address, bytes, advice, location)
}

fn prefetch(
    default: DefaultStream,
    address: u64,
    bytes: usize,
    location: Location,
    flags: c_uint,
    stream: u64,
) -> CudaResult {
    let stream = default.resolve(stream);
    ready()?.cuMemPrefetchAsync_v2(address, bytes, location, flags, stream)
}

#[cfg(cuda = "12")]
fn advise_device(address: u64, bytes: usize, advice: c_int, device: c_int) -> CudaResult {
    ready()?.cuMemAdvise(address, bytes, advice, device)
}

#[cfg(cuda = "12")]
fn prefetch_to_device(
    default: DefaultStream,
    address: u64,
    bytes: usize,
    device: c_int,
    stream: u64,
) -> CudaResult {
    let stream = default.resolve(stream);
    ready()?.cuMemPrefetchAsync(address, bytes, device, stream)
}

fn get_attribute(
    data: Place<c_void>,
    data_bytes: usize,
    attribute: c_int,
    address: u64,
    bytes: usize,
) -> CudaResult {
    ready()?.cuMemRangeGetAttribute(data, data_bytes, attribute, address, bytes)
}

fn get_attributes(
    data: Place<*mut c_void>,
    data_bytes: Place<usize>,
    attributes: Place<c_int>,
    count: usize,
    address: u64,
    bytes: usize,
) -> CudaResult {
    ready()?.cuMemRangeGetAttributes(data, data_bytes, attributes, count, address, bytes)
}

fn attach(
    default: DefaultStream,
    stream: u64,
    address: u64,
    bytes: usize,
    flags: c_uint,
) -> CudaResult {
    let stream = default.resolve(stream);
    ready()?.cuStreamAttachMemAsync(stream, address, bytes, flags)
}
