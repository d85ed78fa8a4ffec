//! What each thread works on, and its last error.
//!
//! Rules: a thread works in the driver's context that is current to it; where none is, the primary one of the device
//! that it chose, the first one at first, becomes current. An error stays the thread's last one until it is asked for;
//! one of the device stays for good.

use crate::border::Place;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::c_int;

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    static LAST: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// Primary contexts that were retained, by device: once in a process, so that they live as long as it does.
static RETAINED: Mutex<Vec<(c_int, u64)>> = Mutex::new(Vec::new());

/// Returns the driver, with a context current to the thread.
///
/// # Errors
/// There is no driver or no device.
pub fn ready() -> CudaResult<&'static Driver> {
    let driver = Driver::get()?;
    let mut context = 0;
    driver.cuCtxGetCurrent(Place::to(&mut context))?;
    if context == 0 {
        enter(driver, DEVICE.get())?;
    }
    Ok(driver)
}

/// Returns the driver and the device that the thread works on.
///
/// # Errors
/// As [`ready`].
pub fn device() -> CudaResult<(&'static Driver, c_int)> {
    let driver = ready()?;
    let mut device = 0;
    driver.cuCtxGetDevice(Place::to(&mut device))?;
    Ok((driver, device))
}

/// Returns the device that the thread chose; no context is made.
pub fn chosen() -> c_int {
    DEVICE.get()
}

/// Makes the primary context of a device current.
///
/// # Errors
/// [`Status::INVALID_DEVICE`]; the driver's.
pub fn choose(device: c_int) -> CudaResult {
    let driver = Driver::get()?;
    let mut count = 0;
    driver.cuDeviceGetCount(Place::to(&mut count))?;
    if !(0..count).contains(&device) {
        return Err(Status::INVALID_DEVICE);
    }
    enter(driver, device)?;
    DEVICE.set(device);
    Ok(())
}

fn enter(driver: &Driver, device: c_int) -> CudaResult {
    let mut retained = RETAINED.lock();
    let known = retained.iter().find(|(of, _)| *of == device);
    let context = match known {
        Some((_, context)) => *context,
        None => {
            let mut context = 0;
            driver.cuDevicePrimaryCtxRetain(Place::to(&mut context), device)?;
            retained.push((device, context));
            context
        }
    };
    drop(retained);
    driver.cuCtxSetCurrent(context)
}

/// Takes note of an error. That something has not ended is none.
pub fn note(status: Status) {
    if status != Status::NOT_READY && !LAST.get().is_sticky() {
        LAST.set(status);
    }
}

/// `cudaGetLastError` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> u32 {
    let last = LAST.get();
    if !last.is_sticky() {
        LAST.set(Status::SUCCESS);
    }
    last.0
}

/// `cudaPeekAtLastError` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> u32 {
    LAST.get().0
}
