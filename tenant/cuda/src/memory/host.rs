//! Host memory for copies: pinned memory that the library makes, and the program's own that it registers.
//!
//! The device copies to and from pinned memory directly, and kernels reach it at the addresses that it has here.
//! Registered memory is copied through the staging memory like any other. Kernels reach it from when it is registered
//! as mapped, or else from when the program has asked for its device address, and not at its address here
//! (`CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM` is 0).

use super::lease::Lease;
use super::map::{Memory, PinnedRange, Range, Registered};
use super::{CUdeviceptr, take};
use crate::api::driver_api;
use crate::border::{self, Out};
use crate::context::Context;
use crate::context::current::usable;
use crate::driver::Driver;
use crate::graph::capture;
use crate::report;
use crate::status::{CudaResult, Status};
use gridmux_tenant::ClientError;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

/// Flags of pinned memory: all contexts, mapped for the device, write-combined.
const ALLOC_FLAGS: c_uint = 7;
/// Flags of registered memory: all contexts, mapped, of a device, read-only.
const REGISTER_FLAGS: c_uint = 15;
const DEVICE_MAP: c_uint = 2;
const OF_A_DEVICE: c_uint = 4;
const READ_ONLY: c_uint = 8;

driver_api! {
    needs Init;
    2020 cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint) => allocate;
    3020 cuMemAllocHost_v2(memory: *mut *mut c_void, bytes: usize) => allocate_plain;
    2000 cuMemFreeHost(memory: *mut c_void) => free;
    2030 cuMemHostGetFlags(flags: *mut c_uint, memory: *mut c_void) => get_flags;
    3020 cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, memory: *mut c_void, flags: c_uint)
        => device_pointer;
    4000 cuMemHostRegister(memory: *mut c_void, bytes: usize, flags: c_uint) => register;
    6050 cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint) => register;
    4000 cuMemHostUnregister(memory: *mut c_void) => unregister;
}

fn allocate(place: Out<*mut c_void>, bytes: usize, flags: c_uint) -> CudaResult {
    let (driver, context) = usable()?;
    if flags & !ALLOC_FLAGS != 0 {
        return Err(Status::INVALID_VALUE);
    }
    capture::check_unsafe()?;
    if bytes == 0 {
        place.set(std::ptr::null_mut());
        return Ok(());
    }
    let start = make(driver, &context, bytes as u64, flags, None)?;
    place.set(border::pointer(start).cast());
    Ok(())
}

/// Makes pinned memory, of a pool if there is a lease, and returns its address.
///
/// # Errors
/// [`Status::OUT_OF_MEMORY`].
pub(super) fn make(
    driver: &Driver,
    context: &Context,
    bytes: u64,
    flags: c_uint,
    lease: Option<Lease>,
) -> CudaResult<u64> {
    let memory = driver.gpu.pinned(bytes);
    let memory = memory.inspect_err(report::out_of_memory)?;
    let start = memory.as_ptr().expose_provenance() as u64;
    let range = PinnedRange {
        memory,
        flags,
        lease,
    };
    let memory = Memory::Pinned(range);
    driver.memory.add_to(context, start, bytes, memory)?;
    Ok(start)
}

fn allocate_plain(place: Out<*mut c_void>, bytes: usize) -> CudaResult {
    allocate(place, bytes, 0)
}

fn free(memory: *mut c_void) -> CudaResult {
    let driver = Driver::get()?;
    if memory.is_null() {
        return Ok(());
    }
    capture::check_unsafe()?;
    let is_pinned =
        |memory: &Memory| matches!(memory, Memory::Pinned(pinned) if pinned.lease.is_none());
    // It goes when everything that was submitted has ended.
    take(
        driver,
        memory.addr() as u64,
        Status::INVALID_VALUE,
        is_pinned,
    )
    .map(drop)
}

fn get_flags(flags: Out<c_uint>, memory: *mut c_void) -> CudaResult {
    let (driver, _) = usable()?;
    let range = driver.memory.find(memory.addr() as u64);
    match range.as_ref().map(|range| &range.memory) {
        Some(
            Memory::Pinned(PinnedRange { flags: asked, .. })
            | Memory::Registered(Registered { flags: asked, .. }),
        ) => {
            flags.set(*asked);
            Ok(())
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Returns where kernels reach host memory. Registered memory gets other pages with the same bytes, as it is registered
/// or as it is asked about for the first time, so that other threads must let it alone meanwhile.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: it is no such memory; [`Status::NOT_SUPPORTED`]: kernels do not reach it, which is said
/// on stderr; [`Status::OUT_OF_MEMORY`].
pub fn device_address(driver: &Driver, address: u64) -> CudaResult<CUdeviceptr> {
    let range = driver.memory.find(address).ok_or(Status::INVALID_VALUE)?;
    let offset = range.offset(address);
    match &range.memory {
        Memory::Pinned(pinned) => match pinned.memory.device_address() {
            Ok(start) => Ok(start + offset),
            Err(why) => {
                report::say(format_args!(
                    "kernels do not reach this pinned memory: {why}"
                ));
                Err(Status::NOT_SUPPORTED)
            }
        },
        Memory::Registered(registered) => {
            let start = adopt(driver, &range, registered).map_err(|failure| match failure {
                Failure::Device(error) => {
                    report::say(format_args!(
                        "kernels do not reach registered memory: {error}"
                    ));
                    Status::from(error)
                }
                Failure::Library(status) => status,
            })?;
            Ok(start + offset)
        }
        memory if memory.advices().is_some() => Ok(address),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Why kernels do not reach registered memory.
enum Failure {
    /// The memory is not such, or the device cannot.
    Device(ClientError),
    /// Something of the library's own.
    Library(Status),
}

/// Lets kernels reach registered memory, unless they do already, and returns its device address.
fn adopt(driver: &Driver, range: &Range, registered: &Registered) -> Result<u64, Failure> {
    let mut known = registered.adopted.lock();
    if let Some(adopted) = known.as_ref() {
        return Ok(adopted.device_address());
    }
    // SAFETY: the program registered the memory, which stays where it is until it unregisters it, and lets it alone in
    // the calls that register it, ask for its device address and unregister it, as is documented of this library.
    let adopted = unsafe { driver.gpu.adopt(border::pointer(range.start), range.bytes) };
    let adopted = adopted.map_err(Failure::Device)?;
    let (start, adopted) = (adopted.device_address(), Arc::new(adopted));
    let memory = Memory::Mapped(Arc::clone(&adopted));
    let added = driver.memory.add(start, range.bytes, range.context, memory);
    added.map_err(Failure::Library)?;
    *known = Some(adopted);
    Ok(start)
}

fn device_pointer(place: Out<CUdeviceptr>, memory: *mut c_void, flags: c_uint) -> CudaResult {
    let (driver, _) = usable()?;
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    place.set(device_address(driver, memory.addr() as u64)?);
    Ok(())
}

fn register(memory: *mut c_void, bytes: usize, flags: c_uint) -> CudaResult {
    let (driver, context) = usable()?;
    let start = memory.addr() as u64;
    if memory.is_null()
        || bytes == 0
        || flags & !REGISTER_FLAGS != 0
        || !border::has_ends(start, bytes as u64)
    {
        return Err(Status::INVALID_VALUE);
    }
    // Of its attributes the device has neither that for memory of other devices nor that for memory that is only read.
    if flags & (OF_A_DEVICE | READ_ONLY) != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    capture::check_unsafe()?;
    let memory = Memory::Registered(Registered {
        flags,
        ..Registered::default()
    });
    driver
        .memory
        .add_to(&context, start, bytes as u64, memory)?;
    // Now, while no other thread knows that the memory is registered; who asks for the device address later may have
    // threads that write to it. Where kernels cannot reach it the program learns that when it asks.
    if flags & DEVICE_MAP != 0
        && let Some(range) = driver.memory.find(start)
        && let Memory::Registered(registered) = &range.memory
    {
        let _ = adopt(driver, &range, registered);
    }
    Ok(())
}

fn unregister(memory: *mut c_void) -> CudaResult {
    let driver = Driver::get()?;
    if memory.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    capture::check_unsafe()?;
    let is_registered = |memory: &Memory| matches!(memory, Memory::Registered(_));
    // What is known and was not registered from there on is a bad argument, anything else was never registered.
    let unknown = match driver.memory.find(memory.addr() as u64) {
        Some(_) => Status::INVALID_VALUE,
        None => Status::HOST_MEMORY_NOT_REGISTERED,
    };
    let (range, _) = take(driver, memory.addr() as u64, unknown, is_registered)?;
    if let Memory::Registered(registered) = &range.memory
        && let Some(adopted) = registered.adopted.lock().take()
    {
        let is_mapped = |memory: &Memory| matches!(memory, Memory::Mapped(_));
        drop(driver.memory.remove(adopted.device_address(), is_mapped));
    }
    Ok(())
}
