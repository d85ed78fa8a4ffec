//! The primary context, which all parts of a program share: retained and released by count.

use super::{CUcontext, Context, check_flags};
use crate::api::driver_api;
use crate::border::Out;
use crate::device::{self, CUdevice};
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

driver_api! {
    needs Init;
    7000 cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) => retain;
    7000 cuDevicePrimaryCtxRelease(device: CUdevice) => release;
    11000 cuDevicePrimaryCtxRelease_v2(device: CUdevice) => release;
    7000 cuDevicePrimaryCtxReset(device: CUdevice) => reset;
    11000 cuDevicePrimaryCtxReset_v2(device: CUdevice) => reset;
    7000 cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: c_uint) => set_flags;
    11000 cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) => set_flags;
    7000 cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int) => get_state;
}

/// The device's primary context, if it is active.
#[derive(Debug, Default)]
pub struct Primary {
    context: Option<Arc<Context>>,
    /// The number of times that it was retained and not released.
    retained: u64,
    flags: u32,
}

fn retain(place: Out<CUcontext>, device: CUdevice) -> CudaResult {
    let driver = device::check(device)?;
    let mut primary = driver.primary.lock();
    let context = match &primary.context {
        Some(context) => Arc::clone(context),
        None => {
            let made = Context::new(driver, primary.flags, true)?;
            primary.context = Some(Arc::clone(&made));
            made
        }
    };
    primary.retained += 1;
    place.set(context.handle());
    Ok(())
}

fn release(device: CUdevice) -> CudaResult {
    let driver = device::check(device)?;
    let mut primary = driver.primary.lock();
    primary.retained = primary
        .retained
        .checked_sub(1)
        .ok_or(Status::INVALID_CONTEXT)?;
    let ended = match primary.retained {
        0 => primary.context.take(),
        _ => None,
    };
    drop(primary);
    if let Some(context) = ended {
        context.tear_down(driver);
    }
    Ok(())
}

/// Destroys it whoever retains it; the next to retain it gets a new one.
fn reset(device: CUdevice) -> CudaResult {
    let driver = device::check(device)?;
    let mut primary = driver.primary.lock();
    let ended = primary.context.take();
    primary.retained = 0;
    drop(primary);
    if let Some(context) = ended {
        context.tear_down(driver);
    }
    Ok(())
}

fn set_flags(device: CUdevice, flags: c_uint) -> CudaResult {
    check_flags(flags)?;
    let driver = device::check(device)?;
    let mut primary = driver.primary.lock();
    primary.flags = flags;
    if let Some(context) = &primary.context {
        // Relaxed: a hint.
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}

fn get_state(device: CUdevice, flags: Out<c_uint>, active: Out<c_int>) -> CudaResult {
    let driver = device::check(device)?;
    let primary = driver.primary.lock();
    flags.set(primary.flags);
    active.set(primary.context.is_some().into());
    Ok(())
}
