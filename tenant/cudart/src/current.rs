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
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    static LAST: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// The primary contexts of a process.
struct Primary {
    /// Those that were retained, by device: once, so that they live as long as the process or until a reset.
    retained: Vec<(c_int, u64)>,
    /// Those that a reset ended, which may still be current to other threads.
    ended: Vec<u64>,
}

static PRIMARY: Mutex<Primary> = Mutex::new(Primary {
    retained: Vec::new(),
    ended: Vec::new(),
});
/// A context was ended by a reset.
static WAS_RESET: AtomicBool = AtomicBool::new(false);

/// Returns the driver, with a context current to the thread.
///
/// # Errors
/// There is no driver or no device.
pub fn ready() -> CudaResult<&'static Driver> {
    let driver = Driver::get()?;
    let mut context = 0;
    driver.cuCtxGetCurrent(Place::to(&mut context))?;
    if context == 0 || is_ended(context) {
        enter(driver, DEVICE.get())?;
    }
    Ok(driver)
}

/// Returns whether a reset ended a context.
fn is_ended(context: u64) -> bool {
    // Acquire: pairs with the Release in `reset`, behind which the list has the context.
    WAS_RESET.load(Ordering::Acquire) && PRIMARY.lock().ended.contains(&context)
}

/// Ends everything on the thread's device: its primary context, which the next need makes anew, and an error that was
/// that context's.
///
/// # Errors
/// The driver's.
pub fn reset() -> CudaResult {
    let (driver, device) = device()?;
    // What faulted ends as well.
    let _ = driver.cuCtxSynchronize();
    // First this: what a thread retained before, it would keep although it ends.
    driver.cuDevicePrimaryCtxReset_v2(device)?;
    let mut primary = PRIMARY.lock();
    let of_device = primary.retained.iter().position(|(of, _)| *of == device);
    let ended = of_device.map(|at| primary.retained.swap_remove(at).1);
    primary.ended.extend(ended);
    // Release: pairs with the Acquire in `is_ended`.
    WAS_RESET.store(true, Ordering::Release);
    drop(primary);
    LAST.set(Status::SUCCESS);
    driver.cuCtxSetCurrent(0)
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
    driver.cuCtxSetCurrent(retain(driver, device)?)
}

/// Returns the primary context of a device, which the process keeps from now on.
///
/// # Errors
/// The driver's.
pub fn retain(driver: &Driver, device: c_int) -> CudaResult<u64> {
    let mut primary = PRIMARY.lock();
    let known = primary.retained.iter().find(|(of, _)| *of == device);
    let context = match known {
        Some((_, context)) => *context,
        None => {
            let mut context = 0;
            driver.cuDevicePrimaryCtxRetain(Place::to(&mut context), device)?;
            primary.retained.push((device, context));
            // A driver may give the same handle again.
            primary.ended.retain(|ended| *ended != context);
            context
        }
    };
    Ok(context)
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
