//! Device memory: allocation, release, and how much there is.

use super::map::Memory;
use super::{CUdeviceptr, graph, take, virtual_memory};
use crate::api::driver_api;
use crate::border::Out;
use crate::context::current::usable;
use crate::driver::Driver;
use crate::graph::capture;
use crate::status::{CudaResult, Status};
use std::ffi::c_uint;

/// Rows of pitched memory begin at multiples of this many bytes.
const PITCH_BYTES: usize = 512;

/// What an allocation is rounded up to. NVIDIA's driver gives no less, so that a kernel that reads or writes a little
/// behind the end of an array harms nothing there, and programs do so unnoticed.
const GRANULE_BYTES: u64 = 512;

driver_api! {
    needs Init;
    3020 cuMemGetInfo_v2(free: *mut usize, total: *mut usize) => get_info;
    3020 cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) => allocate;
    3020 cuMemAllocPitch_v2(
        address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element_bytes: c_uint,
    ) => allocate_pitched;
    3020 cuMemFree_v2(address: CUdeviceptr) => free;
    3020 cuMemGetAddressRange_v2(base: *mut CUdeviceptr, bytes: *mut usize, address: CUdeviceptr) => get_range;
}

fn get_info(free: Option<Out<usize>>, total: Option<Out<usize>>) -> CudaResult {
    let (driver, _) = usable()?;
    let info = driver.gpu.memory_info()?;
    Out::set_if(
        free.as_ref(),
        usize::try_from(info.free_bytes).unwrap_or(usize::MAX),
    );
    Out::set_if(
        total.as_ref(),
        usize::try_from(info.total_bytes).unwrap_or(usize::MAX),
    );
    Ok(())
}

fn allocate(place: Out<CUdeviceptr>, bytes: usize) -> CudaResult {
    let (driver, context) = usable()?;
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    capture::check_unsafe()?;
    let bytes = bytes as u64;
    let whole = bytes.checked_next_multiple_of(GRANULE_BYTES);
    let buffer = driver.allocate(whole.ok_or(Status::OUT_OF_MEMORY)?)?;
    let start = buffer.address();
    driver
        .memory
        .add_to(&context, start, bytes, Memory::Device(buffer))?;
    place.set(start);
    Ok(())
}

/// Returns the bytes from row to row and those of all rows.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: nothing, or elements of a size that there is not; [`Status::OUT_OF_MEMORY`].
pub fn pitched(width: usize, height: usize, element_bytes: c_uint) -> CudaResult<(usize, usize)> {
    if width == 0 || height == 0 || ![4, 8, 16].contains(&element_bytes) {
        return Err(Status::INVALID_VALUE);
    }
    let row = width.checked_next_multiple_of(PITCH_BYTES);
    let row = row.ok_or(Status::INVALID_VALUE)?;
    let bytes = row.checked_mul(height).ok_or(Status::OUT_OF_MEMORY)?;
    Ok((row, bytes))
}

fn allocate_pitched(
    place: Out<CUdeviceptr>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element_bytes: c_uint,
) -> CudaResult {
    let (row, bytes) = pitched(width, height, element_bytes)?;
    allocate(place, bytes)?;
    pitch.set(row);
    Ok(())
}

/// Gives memory back when all that was submitted before has ended. Null is no error, as documented.
fn free(address: CUdeviceptr) -> CudaResult {
    let driver = Driver::get()?;
    if address == 0 {
        return Ok(());
    }
    capture::check_unsafe()?;
    if let Ok(memory) = graph::find(driver, address) {
        // It may be used by what was submitted; only then is it nobody's.
        usable()?.1.synchronize(driver)?;
        return memory.release();
    }
    let is_allocation = |memory: &Memory| {
        matches!(
            memory,
            Memory::Device(_) | Memory::Pooled(_) | Memory::Managed(_)
        )
    };
    let (range, context) = take(driver, address, Status::INVALID_VALUE, is_allocation)?;
    if let Memory::Pooled(block) = &range.memory {
        block.given_back();
    }
    drop(range);
    context.check(driver)
}

fn get_range(
    base: Option<Out<CUdeviceptr>>,
    bytes: Option<Out<usize>>,
    address: CUdeviceptr,
) -> CudaResult {
    let (driver, _) = usable()?;
    let range = driver.memory.find(address).ok_or(Status::NOT_FOUND)?;
    let (start, size) = virtual_memory::piece(&range, address);
    Out::set_if(base.as_ref(), start);
    Out::set_if(bytes.as_ref(), usize::try_from(size).unwrap_or(usize::MAX));
    Ok(())
}
