//! Fills of device memory with a byte.

use crate::api::{DefaultStream, runtime_api};
use crate::current::ready;
use crate::driver::Driver;
use crate::memory::{Extent, Pitched};
use crate::status::{CudaResult, Status};
use std::ffi::c_int;

runtime_api! {
    cudaMemset(to: u64, value: c_int, bytes: usize) | cudaMemset_ptds => fill;
    cudaMemsetAsync(to: u64, value: c_int, bytes: usize, stream: u64) | cudaMemsetAsync_ptsz => fill_async;
    cudaMemset2D(to: u64, pitch: usize, value: c_int, width: usize, height: usize) | cudaMemset2D_ptds => planar;
    cudaMemset2DAsync(to: u64, pitch: usize, value: c_int, width: usize, height: usize, stream: u64)
        | cudaMemset2DAsync_ptsz => planar_async;
    cudaMemset3D(to: Pitched, value: c_int, extent: Extent) | cudaMemset3D_ptds => spatial;
    cudaMemset3DAsync(to: Pitched, value: c_int, extent: Extent, stream: u64)
        | cudaMemset3DAsync_ptsz => spatial_async;
}

/// Returns the byte, the last one of the number.
fn byte(value: c_int) -> u8 {
    value.to_le_bytes()[0]
}

fn fill(default: DefaultStream, to: u64, value: c_int, bytes: usize) -> CudaResult {
    let driver = ready()?;
    match default {
        _ if bytes == 0 => Ok(()),
        DefaultStream::Legacy => driver.cuMemsetD8_v2(to, byte(value), bytes),
        DefaultStream::PerThread => driver.cuMemsetD8_v2_ptds(to, byte(value), bytes),
    }
}

fn fill_async(
    default: DefaultStream,
    to: u64,
    value: c_int,
    bytes: usize,
    stream: u64,
) -> CudaResult {
    let driver = ready()?;
    if bytes == 0 {
        return Ok(());
    }
    driver.cuMemsetD8Async(to, byte(value), bytes, default.resolve(stream))
}

/// When a fill ends for the program.
#[derive(Clone, Copy)]
enum When {
    /// Before the call returns, where the program sees the memory without a copy.
    AtOnce(DefaultStream),
    /// In the order of a stream.
    InStream(u64),
}

/// Fills rows.
fn rows(
    driver: &Driver,
    (to, pitch): (u64, usize),
    value: c_int,
    (width, height): (usize, usize),
    when: When,
) -> CudaResult {
    let value = byte(value);
    match when {
        _ if width == 0 || height == 0 => Ok(()),
        When::AtOnce(DefaultStream::Legacy) => {
            driver.cuMemsetD2D8_v2(to, pitch, value, width, height)
        }
        When::AtOnce(DefaultStream::PerThread) => {
            driver.cuMemsetD2D8_v2_ptds(to, pitch, value, width, height)
        }
        When::InStream(stream) => driver.cuMemsetD2D8Async(to, pitch, value, width, height, stream),
    }
}

fn planar(
    default: DefaultStream,
    to: u64,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> CudaResult {
    rows(
        ready()?,
        (to, pitch),
        value,
        (width, height),
        When::AtOnce(default),
    )
}

fn planar_async(
    default: DefaultStream,
    to: u64,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    stream: u64,
) -> CudaResult {
    rows(
        ready()?,
        (to, pitch),
        value,
        (width, height),
        When::InStream(default.resolve(stream)),
    )
}

fn spatial(default: DefaultStream, to: Pitched, value: c_int, extent: Extent) -> CudaResult {
    planes(to, value, extent, When::AtOnce(default))
}

fn spatial_async(
    default: DefaultStream,
    to: Pitched,
    value: c_int,
    extent: Extent,
    stream: u64,
) -> CudaResult {
    planes(to, value, extent, When::InStream(default.resolve(stream)))
}

/// Fills as many planes, one behind the other; in one go where no rows lie between them.
fn planes(to: Pitched, value: c_int, extent: Extent, when: When) -> CudaResult {
    let driver = ready()?;
    if extent.height == to.height || extent.depth == 1 {
        let height = extent
            .height
            .checked_mul(extent.depth)
            .ok_or(Status::INVALID_VALUE)?;
        return rows(
            driver,
            (to.start, to.pitch),
            value,
            (extent.width, height),
            when,
        );
    }
    let plane = (to.pitch as u64).checked_mul(to.height as u64);
    for n in 0..extent.depth as u64 {
        let offset = plane.and_then(|plane| plane.checked_mul(n));
        let start = offset.and_then(|offset| to.start.checked_add(offset));
        let start = start.ok_or(Status::INVALID_VALUE)?;
        rows(
            driver,
            (start, to.pitch),
            value,
            (extent.width, extent.height),
            when,
        )?;
    }
    Ok(())
}
