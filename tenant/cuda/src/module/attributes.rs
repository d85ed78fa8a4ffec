//! What is told of a kernel, and the little that can be set.

use super::Function;
use crate::api::driver_api;
use crate::attribute::function;
use crate::border::{NotNull, Out};
use crate::driver::Driver;
use crate::module::CUfunction;
use crate::status::{CudaResult, Status};
use gridmux_tenant::KernelInfo;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Attributes that concern clusters of blocks, which the device does not have.
const CLUSTERS: std::ops::RangeInclusive<c_int> =
    function::CLUSTER_SIZE_MUST_BE_SET..=function::CLUSTER_SCHEDULING_POLICY_PREFERENCE;

driver_api! {
    needs Init;
    2020 cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: CUfunction) => get_attribute;
    9000 cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int) => set_attribute;
    3000 cuFuncSetCacheConfig(function: CUfunction, config: c_uint) => set_cache_config;
    4020 cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint) => set_shared_config;
    12030 cuFuncGetName(name: *mut *const c_char, function: CUfunction) => get_name;
    12040 cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize)
        => get_param_info;
    13020 cuFuncGetParamCount(function: CUfunction, count: *mut usize) => get_param_count;
    12040 cuFuncIsLoaded(state: *mut c_uint, function: CUfunction) => is_loaded;
    12040 cuFuncLoad(function: CUfunction) => load;
}

/// Returns how much dynamic shared memory a launch may ask for as long as the program allows no more.
pub(super) fn dynamic_at_first(driver: &Driver, info: &KernelInfo) -> u32 {
    let without_asking = driver.description.facts.default_shared_bytes_per_block;
    without_asking.saturating_sub(info.static_shared_bytes)
}

/// Returns the value of a function's attribute.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: there is no such attribute.
pub(crate) fn attribute(function: &Function, attribute: c_int) -> CudaResult<c_int> {
    let info = function.info();
    let value = match attribute {
        function::MAX_THREADS_PER_BLOCK => info.max_threads,
        function::SHARED_SIZE_BYTES => info.static_shared_bytes,
        function::CONST_SIZE_BYTES => info.const_bytes,
        function::LOCAL_SIZE_BYTES => info.local_bytes,
        function::NUM_REGS => info.registers,
        // What is compiled is the PTX's own architecture, because it is not compiled further here.
        function::PTX_VERSION | function::BINARY_VERSION => info.ptx_version,
        function::CACHE_MODE_CA => 0,
        // relaxed: a number of its own, which orders nothing.
        function::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            function.dynamic_shared_bytes.load(Ordering::Relaxed)
        }
        // relaxed: as above.
        function::PREFERRED_SHARED_MEMORY_CARVEOUT => {
            return Ok(function.carveout.load(Ordering::Relaxed));
        }
        cluster if CLUSTERS.contains(&cluster) => 0,
        _ => return Err(Status::INVALID_VALUE),
    };
    Ok(c_int::try_from(value).unwrap_or(c_int::MAX))
}

/// Sets a function's attribute.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: none that can be set, or more shared memory than a block can have.
pub(crate) fn set(function: &Function, attribute: c_int, value: c_int) -> CudaResult {
    match attribute {
        function::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            let value = u32::try_from(value).map_err(|_| Status::INVALID_VALUE)?;
            if value > function.info().max_dynamic_shared_bytes {
                return Err(Status::INVALID_VALUE);
            }
            // relaxed: a number of its own, which orders nothing.
            function
                .dynamic_shared_bytes
                .store(value, Ordering::Relaxed);
            Ok(())
        }
        // A hint, which is remembered.
        function::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
            // relaxed: as above.
            function.carveout.store(value, Ordering::Relaxed);
            Ok(())
        }
        cluster if CLUSTERS.contains(&cluster) => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Returns where a parameter stands and its size, in bytes.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: there are not so many.
pub(crate) fn param(function: &Function, index: usize) -> CudaResult<(usize, usize)> {
    let param = function
        .info()
        .params
        .get(index)
        .ok_or(Status::INVALID_VALUE)?;
    Ok((param.offset as usize, param.size as usize))
}

fn get_attribute(value: Out<c_int>, which: c_int, function: Arc<Function>) -> CudaResult {
    value.set(attribute(&function, which)?);
    Ok(())
}

fn set_attribute(function: Arc<Function>, attribute: c_int, value: c_int) -> CudaResult {
    set(&function, attribute, value)
}

fn set_cache_config(_: Arc<Function>, config: c_uint) -> CudaResult {
    if config > 3 {
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}

fn set_shared_config(_: Arc<Function>, config: c_uint) -> CudaResult {
    if config > 2 {
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}

fn get_name(name: Out<*const c_char>, NotNull(function): NotNull<Function>) -> CudaResult {
    name.set(function.name().as_ptr());
    Ok(())
}

fn get_param_info(
    NotNull(function): NotNull<Function>,
    index: usize,
    offset: Out<usize>,
    size: Option<Out<usize>>,
) -> CudaResult {
    let (start, len) = param(&function, index)?;
    offset.set(start);
    Out::set_if(size.as_ref(), len);
    Ok(())
}

fn get_param_count(NotNull(function): NotNull<Function>, count: Out<usize>) -> CudaResult {
    count.set(function.info().params.len());
    Ok(())
}

fn is_loaded(state: Out<c_uint>, _: Arc<Function>) -> CudaResult {
    const LOADED: c_uint = 1;
    state.set(LOADED);
    Ok(())
}

fn load(_: Arc<Function>) -> CudaResult {
    Ok(())
}
