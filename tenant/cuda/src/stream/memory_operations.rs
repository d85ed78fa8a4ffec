//! Operations of a stream on single words of memory. Writes are fills and copies of a word; waiting for a value is not
//! there, because nothing but the program's own kernels could look at the word.

use super::{CUstream, DefaultStream, usable_stream};
use crate::api::driver_api;
use crate::graph::capture;
use crate::memory::CUdeviceptr;
use crate::status::{CudaResult, Status};
use gridmux_tenant::Width;
use std::ffi::c_uint;

driver_api! {
    needs Init;
    8000 cuStreamWriteValue32(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint)
        | cuStreamWriteValue32_ptsz => write_32;
    11070 cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint)
        | cuStreamWriteValue32_v2_ptsz => write_32;
    9000 cuStreamWriteValue64(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint)
        | cuStreamWriteValue64_ptsz => write_64;
    11070 cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint)
        | cuStreamWriteValue64_v2_ptsz => write_64;
}

/// The one flag allows the write to overtake others, which it does not.
const NO_BARRIER: c_uint = 1;

fn check(address: CUdeviceptr, bytes: u64, flags: c_uint) -> CudaResult {
    if flags & !NO_BARRIER != 0 || !address.is_multiple_of(bytes) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}

fn write_32(
    default: DefaultStream,
    stream: CUstream,
    address: CUdeviceptr,
    value: u32,
    flags: c_uint,
) -> CudaResult {
    let (driver, _, stream) = usable_stream(default, stream)?;
    check(address, 4, flags)?;
    capture::refuse_in(&stream)?;
    let _held = driver.memory.device_span(address, 4)?;
    stream.submit(driver, |lane| {
        lane.fill_address(address, 4, value, Width::Four).map(Some)
    })?;
    Ok(())
}

fn write_64(
    default: DefaultStream,
    stream: CUstream,
    address: CUdeviceptr,
    value: u64,
    flags: c_uint,
) -> CudaResult {
    let (driver, _, stream) = usable_stream(default, stream)?;
    check(address, 8, flags)?;
    capture::refuse_in(&stream)?;
    let _held = driver.memory.device_span(address, 8)?;
    stream.submit(driver, |lane| {
        lane.copy_to_address(address, &value.to_ne_bytes())
            .map(Some)
    })?;
    Ok(())
}
