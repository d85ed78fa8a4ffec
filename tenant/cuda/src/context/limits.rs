//! Limits and preferences of a context. Caches and shared memory are divided by the device as it likes, so preferences
//! are remembered and otherwise hints, as NVIDIA documents them.

use super::current::current;
use crate::api::driver_api;
use crate::border::Out;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::ffi::{c_int, c_uint};

driver_api! {
    needs Init;
    3010 cuCtxGetLimit(value: *mut usize, limit: c_uint) => get_limit;
    3010 cuCtxSetLimit(limit: c_uint, value: usize) => set_limit;
    3020 cuCtxGetCacheConfig(config: *mut c_uint) => get_cache_config;
    3020 cuCtxSetCacheConfig(config: c_uint) => set_cache_config;
    4020 cuCtxGetSharedMemConfig(config: *mut c_uint) => get_shared_config;
    4020 cuCtxSetSharedMemConfig(config: c_uint) => set_shared_config;
    5050 cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) => priority_range;
    11000 cuCtxResetPersistingL2Cache() => reset_persisting_cache;
}

/// Priorities go from 0 to this, which is the greatest, as on NVIDIA's devices. They are hints: the mediator's policy
/// decides between tenants, and a tenant's streams are served in order of arrival.
pub const GREATEST_PRIORITY: c_int = -5;

/// How many limits there are (`CUlimit`), and what each is at first: stack of a thread, `printf` buffer, heap of
/// `malloc`, depth and number of launches from the device, L2 fetch granularity, persisting L2 cache, three for sharing
/// with a graphics client, and memory of a block. The device decides; values are remembered.
const AT_FIRST: [usize; 11] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0, 0, 0, 0];
/// The stack of a thread, and its greatest size in bytes: the local memory of a thread, by the programming guide's
/// table of compute capabilities.
const STACK: c_uint = 0;
const MOST_STACK: usize = 512 << 10;
/// The buffer of `printf` and the heap of `malloc`.
const PRINTF_BUFFER: c_uint = 1;
const HEAP: c_uint = 2;
/// The depth at which a kernel may wait for one that it launched: devices from compute capability 9.0 on have none.
const SYNC_DEPTH: c_uint = 3;
/// Limits that can be read and not set: shared memory beside a graphics client, and whether there is one.
const READ_ONLY: std::ops::RangeInclusive<c_uint> = 7..=8;
/// The L2 fetch granularity, and its greatest value in bytes.
const FETCH_GRANULARITY: c_uint = 5;
const MOST_FETCHED: usize = 128;

/// Limits and preferences of one context.
#[derive(Debug, Default)]
pub struct Limits(Mutex<Values>);

#[derive(Debug)]
struct Values {
    /// By `CUlimit`.
    limits: [usize; AT_FIRST.len()],
    /// `CUfunc_cache`.
    cache_config: c_uint,
    /// `CUsharedconfig`.
    shared_config: c_uint,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            limits: AT_FIRST,
            cache_config: 0,
            shared_config: 0,
        }
    }
}

/// Succeeds if the device has a limit.
fn check_limit(limit: c_uint) -> CudaResult {
    let (major, _) = Driver::get()?.description.facts.compute_capability;
    match limit {
        SYNC_DEPTH if major >= 9 => Err(Status::UNSUPPORTED_LIMIT),
        _ => Ok(()),
    }
}

fn get_limit(value: Out<usize>, limit: c_uint) -> CudaResult {
    let context = current()?;
    check_limit(limit)?;
    let values = context.limits.0.lock();
    let known = values.limits.get(limit as usize);
    value.set(*known.ok_or(Status::UNSUPPORTED_LIMIT)?);
    Ok(())
}

fn set_limit(limit: c_uint, value: usize) -> CudaResult {
    let context = current()?;
    check_limit(limit)?;
    if READ_ONLY.contains(&limit) {
        return Err(Status::INVALID_VALUE);
    }
    check_room(Driver::get()?, limit, value)?;
    let mut values = context.limits.0.lock();
    let known = values.limits.get_mut(limit as usize);
    *known.ok_or(Status::UNSUPPORTED_LIMIT)? = match limit {
        FETCH_GRANULARITY => value.min(MOST_FETCHED),
        _ => value,
    };
    Ok(())
}

/// Checks that the device has the memory that a limit asks for.
fn check_room(driver: &Driver, limit: c_uint, bytes: usize) -> CudaResult {
    let device_bytes = driver.description.facts.memory_bytes;
    match limit {
        STACK if bytes > MOST_STACK => Err(Status::INVALID_VALUE),
        PRINTF_BUFFER | HEAP if bytes as u64 > device_bytes => Err(Status::OUT_OF_MEMORY),
        _ => Ok(()),
    }
}

fn get_cache_config(config: Out<c_uint>) -> CudaResult {
    config.set(current()?.limits.0.lock().cache_config);
    Ok(())
}

fn set_cache_config(config: c_uint) -> CudaResult {
    let context = current()?;
    if config > 3 {
        return Err(Status::INVALID_VALUE);
    }
    context.limits.0.lock().cache_config = config;
    Ok(())
}

fn get_shared_config(config: Out<c_uint>) -> CudaResult {
    config.set(current()?.limits.0.lock().shared_config);
    Ok(())
}

fn set_shared_config(config: c_uint) -> CudaResult {
    let context = current()?;
    if config > 2 {
        return Err(Status::INVALID_VALUE);
    }
    context.limits.0.lock().shared_config = config;
    Ok(())
}

fn priority_range(least: Option<Out<c_int>>, greatest: Option<Out<c_int>>) -> CudaResult {
    current()?;
    Out::set_if(least.as_ref(), 0);
    Out::set_if(greatest.as_ref(), GREATEST_PRIORITY);
    Ok(())
}

fn reset_persisting_cache() -> CudaResult {
    current().map(drop)
}
