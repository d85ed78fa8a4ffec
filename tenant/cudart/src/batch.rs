//! Copies with attributes, alone and many by one call. The driver's arguments are the same, but for the form of CUDA
//! 12, which tells the number of the copy at fault.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::current::ready;
use crate::status::CudaResult;
use std::ffi::c_void;

runtime_api! {
    #[cfg(cuda = "13")]
    cudaMemcpyBatchAsync(
        to: *const u64, from: *const u64, bytes: *const usize, count: usize, attributes: *mut c_void,
        firsts: *mut usize, kinds: usize, stream: u64,
    ) | cudaMemcpyBatchAsync_ptsz => batch;
    #[cfg(cuda = "12")]
    cudaMemcpyBatchAsync(
        to: *const u64, from: *const u64, bytes: *const usize, count: usize, attributes: *mut c_void,
        firsts: *mut usize, kinds: usize, failed: *mut usize, stream: u64,
    ) | cudaMemcpyBatchAsync_ptsz => batch_that_tells;
    cudaMemcpyWithAttributesAsync(to: u64, from: u64, bytes: usize, attributes: *mut c_void, stream: u64)
        | cudaMemcpyWithAttributesAsync_ptsz => one;
}

#[cfg(cuda = "13")]
#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn batch(
    default: DefaultStream,
    to: Place<u64>,
    from: Place<u64>,
    bytes: Place<usize>,
    count: usize,
    attributes: Place<c_void>,
    firsts: Place<usize>,
    kinds: usize,
    stream: u64,
) -> CudaResult {
    let stream = default.resolve(stream);
    ready()?.cuMemcpyBatchAsync_v2(to, from, bytes, count, attributes, firsts, kinds, stream)
}

#[cfg(cuda = "12")]
#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn batch_that_tells(
    default: DefaultStream,
    to: Place<u64>,
    from: Place<u64>,
    bytes: Place<usize>,
    count: usize,
    attributes: Place<c_void>,
    firsts: Place<usize>,
    kinds: usize,
    failed: Place<usize>,
    stream: u64,
) -> CudaResult {
    let stream = default.resolve(stream);
    ready()?.cuMemcpyBatchAsync(
        to, from, bytes, count, attributes, firsts, kinds, failed, stream,
    )
}

fn one(
    default: DefaultStream,
    to: u64,
    from: u64,
    bytes: usize,
    attributes: Place<c_void>,
    stream: u64,
) -> CudaResult {
    ready()?.cuMemcpyWithAttributesAsync(to, from, bytes, attributes, default.resolve(stream))
}
