//! Attributes of kernels, and occupancy: how many blocks of a kernel an SM holds.

use crate::api::runtime_api;
use crate::border::Place;
use crate::current::{device, ready};
use crate::driver::Driver;
use crate::registration;
use crate::status::{CudaResult, Status};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// A kernel's attributes (`cudaFuncAttributes`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct FunctionAttributes {
    shared_bytes: usize,
    constant_bytes: usize,
    local_bytes: usize,
    most_threads: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode: c_int,
    most_dynamic_bytes: c_int,
    carveout: c_int,
    clusters: [c_int; 6],
    reserved: [c_int; 16],
}

const _: () = assert!(size_of::<FunctionAttributes>() == 144);

/// Numbers of the driver's attributes (`CUfunction_attribute`).
mod attribute {
    pub(super) const MOST_THREADS: i32 = 0;
    pub(super) const SHARED_BYTES: i32 = 1;
    pub(super) const CONSTANT_BYTES: i32 = 2;
    pub(super) const LOCAL_BYTES: i32 = 3;
    pub(super) const REGISTERS: i32 = 4;
    pub(super) const PTX_VERSION: i32 = 5;
    pub(super) const BINARY_VERSION: i32 = 6;
    pub(super) const CACHE_MODE: i32 = 7;
    pub(super) const MOST_DYNAMIC_BYTES: i32 = 8;
    pub(super) const CARVEOUT: i32 = 9;
}

runtime_api! {
    cudaFuncGetAttributes(attributes: *mut FunctionAttributes, stub: *const c_void) => get_attributes;
    cudaFuncSetAttribute(stub: *const c_void, attribute: c_int, value: c_int) => set_attribute;
    cudaFuncSetCacheConfig(stub: *const c_void, config: c_int) => set_cache_config;
    cudaFuncSetSharedMemConfig(stub: *const c_void, config: c_int) => set_shared_config;
    cudaFuncGetName(name: *mut *const c_char, stub: *const c_void) => get_name;
    cudaFuncGetParamCount(stub: *const c_void, count: *mut usize) => get_param_count;
    cudaFuncGetParamInfo(stub: *const c_void, index: usize, offset: *mut usize, bytes: *mut usize) => get_param_info;
    cudaGetFuncBySymbol(function: *mut u64, stub: *const c_void) => get_function;
    cudaGetKernel(kernel: *mut u64, stub: *const c_void) => get_kernel;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, stub: *const c_void, block: c_int, dynamic_bytes: usize,
    ) => occupancy;
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, stub: *const c_void, block: c_int, dynamic_bytes: usize, flags: c_uint,
    ) => occupancy_with_flags;
    cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, stub: *const c_void, blocks: c_int, block: c_int,
    ) => available_dynamic;
}

/// Returns the driver, the device and the kernel of a stub.
fn kernel(stub: Place<c_void>) -> CudaResult<(&'static Driver, c_int, u64)> {
    let (driver, device) = device()?;
    Ok((
        driver,
        device,
        registration::known_kernel(driver, stub.as_ptr().addr())?,
    ))
}

fn get_attributes(place: Place<FunctionAttributes>, stub: Place<c_void>) -> CudaResult {
    let (driver, device, kernel) = kernel(stub)?;
    let get = |attribute| {
        let mut value = 0;
        driver.cuKernelGetAttribute(Place::to(&mut value), attribute, kernel, device)?;
        Ok(value)
    };
    let bytes = |attribute| get(attribute).map(|value| usize::try_from(value).unwrap_or(0));
    place.set(FunctionAttributes {
        shared_bytes: bytes(attribute::SHARED_BYTES)?,
        constant_bytes: bytes(attribute::CONSTANT_BYTES)?,
        local_bytes: bytes(attribute::LOCAL_BYTES)?,
        most_threads: get(attribute::MOST_THREADS)?,
        registers: get(attribute::REGISTERS)?,
        ptx_version: get(attribute::PTX_VERSION)?,
        binary_version: get(attribute::BINARY_VERSION)?,
        cache_mode: get(attribute::CACHE_MODE)?,
        most_dynamic_bytes: get(attribute::MOST_DYNAMIC_BYTES)?,
        carveout: get(attribute::CARVEOUT)?,
        ..FunctionAttributes::default()
    })
}

/// Sets an attribute, whose number is the driver's.
fn set_attribute(stub: Place<c_void>, attribute: c_int, value: c_int) -> CudaResult {
    let (driver, device, kernel) = kernel(stub)?;
    driver.cuKernelSetAttribute(attribute, value, kernel, device)
}

fn set_cache_config(stub: Place<c_void>, config: c_int) -> CudaResult {
    let (driver, device, kernel) = kernel(stub)?;
    driver.cuKernelSetCacheConfig(kernel, config, device)
}

/// Takes a size of banks, which no device since compute capability 3.x has a choice of.
fn set_shared_config(stub: Place<c_void>, config: c_int) -> CudaResult {
    kernel(stub)?;
    match config {
        0..=2 => Ok(()),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn get_name(name: Place<*const c_char>, stub: Place<c_void>) -> CudaResult {
    let (driver, _, kernel) = kernel(stub)?;
    driver.cuKernelGetName(name, kernel)
}

fn get_param_count(stub: Place<c_void>, count: Place<usize>) -> CudaResult {
    let (driver, _, kernel) = kernel(stub)?;
    driver.cuKernelGetParamCount(kernel, count)
}

fn get_param_info(
    stub: Place<c_void>,
    index: usize,
    offset: Place<usize>,
    bytes: Place<usize>,
) -> CudaResult {
    let (driver, _, kernel) = kernel(stub)?;
    driver.cuKernelGetParamInfo(kernel, index, offset, bytes)
}

fn get_function(place: Place<u64>, stub: Place<c_void>) -> CudaResult {
    let (driver, _, kernel) = kernel(stub)?;
    driver.cuKernelGetFunction(place, kernel)
}

fn get_kernel(place: Place<u64>, stub: Place<c_void>) -> CudaResult {
    place.set(kernel(stub)?.2)
}

fn occupancy(
    blocks: Place<c_int>,
    stub: Place<c_void>,
    block: c_int,
    dynamic_bytes: usize,
) -> CudaResult {
    occupancy_with_flags(blocks, stub, block, dynamic_bytes, 0)
}

fn occupancy_with_flags(
    blocks: Place<c_int>,
    stub: Place<c_void>,
    block: c_int,
    dynamic_bytes: usize,
    flags: c_uint,
) -> CudaResult {
    let driver = ready()?;
    let kernel = registration::known_kernel(driver, stub.as_ptr().addr())?;
    driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks,
        kernel,
        block,
        dynamic_bytes,
        flags,
    )
}

fn available_dynamic(
    bytes: Place<usize>,
    stub: Place<c_void>,
    blocks: c_int,
    block: c_int,
) -> CudaResult {
    let driver = ready()?;
    let kernel = registration::known_kernel(driver, stub.as_ptr().addr())?;
    driver.cuOccupancyAvailableDynamicSMemPerBlock(bytes, kernel, blocks, block)
}
