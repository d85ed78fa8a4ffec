//! What each thread works on, and its last error.
//!
//! Rules: a thread works in the driver's context that is current to it; where none is, or one that a reset ended, the
//! primary one of the device that it chose, the first one at first, becomes current. An error stays the thread's last
//! one until it is asked for; one of the device stays until a reset, of whichever thread.

use crate::border::Place;
use crate::driver::Driver;
use crate::registration;
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    static LAST: Cell<Noted> = const { Cell::new(Noted::NONE) };
}

/// An error of a thread's.
#[derive(Debug, Clone, Copy)]
struct Noted {
    status: Status,
    /// How many resets there had been when the call began that met it.
    resets: u64,
}

impl Noted {
    const NONE: Self = Self {
        status: Status::SUCCESS,
        resets: 0,
    };

    /// Returns whether it stays though it is asked for: what was met before a reset does no more.
    fn is_sticky(self) -> bool {
        self.status.is_sticky() && self.resets == resets()
    }
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
/// How often a device was reset.
static RESETS: AtomicU64 = AtomicU64::new(0);

/// Returns how often a device was reset.
pub fn resets() -> u64 {
    // Acquire: pairs with the Release in `reset`, behind which the list of contexts that were ended has the last one.
    RESETS.load(Ordering::Acquire)
}

/// Returns the driver, with a context current to the thread.
///
/// # Errors
/// There is no driver or no device.
pub fn ready() -> CudaResult<&'static Driver> {
    let driver = Driver::get()?;
    if current(driver)?.is_none() {
        enter(driver, DEVICE.get())?;
    }
    Ok(driver)
}

/// Returns the context that is current to the thread, unless a reset ended it.
///
/// # Errors
/// The driver's.
fn current(driver: &Driver) -> CudaResult<Option<u64>> {
    let mut context = 0;
    driver.cuCtxGetCurrent(Place::to(&mut context))?;
    Ok(Some(context).filter(|context| *context != 0 && !is_ended(*context)))
}

/// Returns whether a reset ended a context.
fn is_ended(context: u64) -> bool {
    resets() > 0 && PRIMARY.lock().ended.contains(&context)
}

/// Ends everything on the thread's device: its primary context, which the next need makes anew, errors that were that
/// context's, and what was loaded for the program, whose variables begin anew. A binary stays loaded if the program was
/// told where managed variables of it are, because it goes on using these addresses.
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
    // Release: pairs with the Acquire in `resets`.
    RESETS.fetch_add(1, Ordering::Release);
    drop(primary);
    registration::unload(driver);
    LAST.set(Noted::NONE);
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

/// Returns the device that the thread works on, or would; no context is made.
///
/// # Errors
/// There is no driver; the driver's.
pub fn device_number() -> CudaResult<c_int> {
    let driver = Driver::get()?;
    let mut device = chosen();
    if current(driver)?.is_some() {
        driver.cuCtxGetDevice(Place::to(&mut device))?;
    }
    Ok(device)
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

/// Takes note of an error of a call that began after so many resets. That something has not ended is none.
pub fn note(status: Status, resets: u64) {
    if status != Status::NOT_READY && !LAST.get().is_sticky() {
        LAST.set(Noted { status, resets });
    }
}

/// Returns the thread's last error, without one of a device that was reset meanwhile.
fn last() -> Noted {
    let last = LAST.get();
    match last.status.is_sticky() && !last.is_sticky() {
        true => Noted::NONE,
        false => last,
    }
}

/// `cudaGetLastError` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> u32 {
    let last = last();
    if !last.is_sticky() {
        LAST.set(Noted::NONE);
    }
    last.status.0
}

/// `cudaPeekAtLastError` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> u32 {
    last().status.0
}
