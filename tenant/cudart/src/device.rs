//! Devices: how many, which one a thread works on, what they have, and their limits.

use crate::api::runtime_api;
use crate::border::Place;
use crate::current::{self, choose, chosen, device, ready};
use crate::driver::Driver;
use crate::properties::DeviceProperties;
#[cfg(cuda = "12")]
use crate::properties::OldDeviceProperties;
use crate::status::{CudaResult, Status};
use std::ffi::{c_char, c_int, c_uint};

runtime_api! {
    cudaGetDeviceCount(count: *mut c_int) => get_count;
    cudaGetDevice(device: *mut c_int) => get;
    cudaSetDevice(device: c_int) => set;
    cudaInitDevice(device: c_int, device_flags: c_uint, flags: c_uint) => init;
    cudaSetValidDevices(devices: *mut c_int, count: c_int) => set_valid;
    cudaChooseDevice(device: *mut c_int, properties: *const DeviceProperties) => choose_by_properties;
    cudaGetDeviceFlags(flags: *mut c_uint) => get_flags;
    cudaSetDeviceFlags(flags: c_uint) => set_flags;
    cudaDeviceSynchronize() => synchronize;
    cudaDeviceReset() => current::reset;
    #[cfg(cuda = "12")]
    cudaThreadSynchronize() => synchronize;
    #[cfg(cuda = "12")]
    cudaThreadExit() => current::reset;
    #[cfg(cuda = "12")]
    cudaThreadGetLimit(value: *mut usize, limit: c_int) => get_limit;
    #[cfg(cuda = "12")]
    cudaThreadSetLimit(limit: c_int, value: usize) => set_limit;
    #[cfg(cuda = "12")]
    cudaThreadGetCacheConfig(config: *mut c_int) => get_cache_config;
    #[cfg(cuda = "12")]
    cudaThreadSetCacheConfig(config: c_int) => set_cache_config;
    #[cfg(cuda = "12")]
    cudaSetDoubleForDevice(number: *mut f64) => convert_double;
    #[cfg(cuda = "12")]
    cudaSetDoubleForHost(number: *mut f64) => convert_double;
    cudaDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) => get_attribute;
    #[cfg(cuda = "13")]
    cudaGetDeviceProperties(properties: *mut DeviceProperties, device: c_int) => get_properties;
    #[cfg(cuda = "12")]
    cudaGetDeviceProperties_v2(properties: *mut DeviceProperties, device: c_int) => get_properties;
    #[cfg(cuda = "12")]
    cudaGetDeviceProperties(properties: *mut OldDeviceProperties, device: c_int) => get_old_properties;
    cudaDeviceGetLimit(value: *mut usize, limit: c_int) => get_limit;
    cudaDeviceSetLimit(limit: c_int, value: usize) => set_limit;
    cudaDeviceGetCacheConfig(config: *mut c_int) => get_cache_config;
    cudaDeviceSetCacheConfig(config: c_int) => set_cache_config;
    cudaDeviceGetSharedMemConfig(config: *mut c_int) => get_shared_config;
    cudaDeviceSetSharedMemConfig(config: c_int) => set_shared_config;
    cudaDeviceGetPCIBusId(text: *mut c_char, bytes: c_int, device: c_int) => get_pci;
    cudaDeviceGetByPCIBusId(device: *mut c_int, text: *const c_char) => get_by_pci;
    cudaDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) => can_access_peer;
    cudaDeviceGetP2PAttribute(value: *mut c_int, attribute: c_int, device: c_int, peer: c_int) => peer_attribute;
}

/// Tells how many there are: none is an error of its own.
fn get_count(count: Place<c_int>) -> CudaResult {
    let found = Driver::get();
    if found.is_err() {
        count.set(0)?;
    }
    found?.cuDeviceGetCount(count)
}

fn get(place: Place<c_int>) -> CudaResult {
    place.set(current::device_number()?)
}

fn set(device: c_int) -> CudaResult {
    choose(device)
}

fn init(device: c_int, device_flags: c_uint, flags: c_uint) -> CudaResult {
    /// The device's flags are to be set (`cudaInitDeviceFlagsAreValid`).
    const HAS_FLAGS: c_uint = 1;
    let driver = Driver::get()?;
    let mut checked = 0;
    driver.cuDeviceGet(Place::to(&mut checked), device)?;
    match flags {
        0 => {}
        HAS_FLAGS => driver.cuDevicePrimaryCtxSetFlags_v2(checked, device_flags)?,
        _ => return Err(Status::INVALID_VALUE),
    }
    current::retain(driver, checked).map(drop)
}

/// Takes the devices that a program would work on, of which there are no more than the system has; which one that is
/// follows from the order of their numbers here.
fn set_valid(devices: Place<c_int>, count: c_int) -> CudaResult {
    let driver = Driver::get()?;
    let mut most = 0;
    driver.cuDeviceGetCount(Place::to(&mut most))?;
    if !(0..=most).contains(&count) || count > 0 && devices.is_none() {
        return Err(Status::INVALID_VALUE);
    }
    let mut listed = devices;
    for _ in 0..count {
        if !(0..most).contains(&listed.get()?) {
            return Err(Status::INVALID_DEVICE);
        }
        listed = listed.next();
    }
    Ok(())
}

/// Tells the first device, which is as good as any where all are the same.
fn choose_by_properties(device: Place<c_int>, wanted: Place<DeviceProperties>) -> CudaResult {
    Driver::get()?;
    match wanted.is_none() {
        true => Err(Status::INVALID_VALUE),
        false => device.set(0),
    }
}

fn get_flags(flags: Place<c_uint>) -> CudaResult {
    let (driver, device) = device()?;
    driver.cuDevicePrimaryCtxGetState(device, flags, Place::to(&mut 0))
}

fn set_flags(flags: c_uint) -> CudaResult {
    Driver::get()?.cuDevicePrimaryCtxSetFlags_v2(chosen(), flags)
}

fn synchronize() -> CudaResult {
    ready()?.cuCtxSynchronize()
}

fn get_attribute(value: Place<c_int>, attribute: c_int, device: c_int) -> CudaResult {
    Driver::get()?.cuDeviceGetAttribute(value, attribute, device)
}

fn get_limit(value: Place<usize>, limit: c_int) -> CudaResult {
    ready()?.cuCtxGetLimit(value, limit)
}

fn set_limit(limit: c_int, value: usize) -> CudaResult {
    ready()?.cuCtxSetLimit(limit, value)
}

fn get_cache_config(config: Place<c_int>) -> CudaResult {
    ready()?.cuCtxGetCacheConfig(config)
}

fn set_cache_config(config: c_int) -> CudaResult {
    ready()?.cuCtxSetCacheConfig(config)
}

fn get_shared_config(config: Place<c_int>) -> CudaResult {
    ready()?.cuCtxGetSharedMemConfig(config)
}

fn set_shared_config(config: c_int) -> CudaResult {
    ready()?.cuCtxSetSharedMemConfig(config)
}

fn get_pci(text: Place<c_char>, bytes: c_int, device: c_int) -> CudaResult {
    Driver::get()?.cuDeviceGetPCIBusId(text, bytes, device)
}

fn get_by_pci(device: Place<c_int>, text: Place<c_char>) -> CudaResult {
    Driver::get()?.cuDeviceGetByPCIBusId(device, text)
}

fn can_access_peer(can: Place<c_int>, device: c_int, peer: c_int) -> CudaResult {
    Driver::get()?.cuDeviceCanAccessPeer(can, device, peer)
}

fn peer_attribute(value: Place<c_int>, attribute: c_int, device: c_int, peer: c_int) -> CudaResult {
    Driver::get()?.cuDeviceGetP2PAttribute(value, attribute, device, peer)
}

fn get_properties(place: Place<DeviceProperties>, device: c_int) -> CudaResult {
    place.set(DeviceProperties::of(Driver::get()?, device)?)
}

#[cfg(cuda = "12")]
fn get_old_properties(place: Place<OldDeviceProperties>, device: c_int) -> CudaResult {
    place.set(DeviceProperties::of(Driver::get()?, device)?.old())
}

/// Leaves a number as it is: devices that compute with less than double precision are not known to any CUDA 12.
#[cfg(cuda = "12")]
fn convert_double(number: Place<f64>) -> CudaResult {
    match number.is_none() {
        true => Err(Status::INVALID_VALUE),
        false => Ok(()),
    }
}
