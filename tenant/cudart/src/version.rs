//! Versions, addresses of the driver's functions, the profiler, and what there is instead of private tables.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of CUDA whose runtime library this stands for: 1000 * major + 10 * minor.
#[cfg(cuda = "13")]
const RUNTIME_VERSION: c_int = 13050;
/// As above.
#[cfg(cuda = "12")]
const RUNTIME_VERSION: c_int = 12090;
/// Asks for the variants for per-thread default streams (`cudaEnablePerThreadDefaultStream`).
const PER_THREAD: u64 = 2;

runtime_api! {
    cudaRuntimeGetVersion(version: *mut c_int) => runtime_version;
    cudaDriverGetVersion(version: *mut c_int) => driver_version;
    cudaGetDriverEntryPoint(name: *const c_char, address: *mut *mut c_void, flags: u64, found: *mut c_uint)
        | cudaGetDriverEntryPoint_ptsz => entry_point;
    cudaGetDriverEntryPointByVersion(
        name: *const c_char, address: *mut *mut c_void, version: c_uint, flags: u64, found: *mut c_uint,
    ) | cudaGetDriverEntryPointByVersion_ptsz => entry_point_by_version;
    cudaProfilerStart() => start_profiler;
    cudaProfilerStop() => stop_profiler;
    cudaGetExportTable(table: *mut *const c_void, id: *const c_void) => export_table;
}

fn runtime_version(version: Place<c_int>) -> CudaResult {
    version.set(RUNTIME_VERSION)
}

/// Tells the driver's version; 0 where there is no driver.
fn driver_version(version: Place<c_int>) -> CudaResult {
    match Driver::get() {
        Err(Status::INSUFFICIENT_DRIVER) => version.set(0),
        Err(status) => Err(status),
        Ok(driver) => driver.cuDriverGetVersion(version),
    }
}

fn entry_point(
    default: DefaultStream,
    name: Place<c_char>,
    address: Place<*mut c_void>,
    flags: u64,
    found: Place<c_uint>,
) -> CudaResult {
    let version = RUNTIME_VERSION.cast_unsigned();
    entry_point_by_version(default, name, address, version, flags, found)
}

/// Asks the driver, for which a name that is not known is no error: it gives null, and the reason in `found`.
fn entry_point_by_version(
    default: DefaultStream,
    name: Place<c_char>,
    address: Place<*mut c_void>,
    version: c_uint,
    flags: u64,
    found: Place<c_uint>,
) -> CudaResult {
    let version = c_int::try_from(version).map_err(|_| Status::INVALID_VALUE)?;
    let flags = match (flags, default) {
        (0, DefaultStream::PerThread) => PER_THREAD,
        _ => flags,
    };
    Driver::get()?.cuGetProcAddress_v2(name, address, version, flags, found)
}

fn start_profiler() -> CudaResult {
    crate::current::ready()?.cuProfilerStart()
}

fn stop_profiler() -> CudaResult {
    crate::current::ready()?.cuProfilerStop()
}

/// Refuses private tables, which are NVIDIA's own.
fn export_table(table: Place<*const c_void>, _: Place<c_void>) -> CudaResult {
    table.set_if(std::ptr::null())?;
    Err(Status::NOT_SUPPORTED)
}
