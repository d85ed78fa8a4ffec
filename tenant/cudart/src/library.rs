//! Libraries of kernels that a program loads itself, which are the driver's.

use crate::api::runtime_api;
use crate::border::Place;
use crate::current::{device, ready};
use crate::status::CudaResult;
use std::ffi::{c_char, c_int, c_uint, c_void};

runtime_api! {
    cudaLibraryLoadData(
        library: *mut u64, image: *const c_void, jit: *mut c_int, jit_values: *mut *mut c_void, jit_count: c_uint,
        options: *mut c_int, values: *mut *mut c_void, count: c_uint,
    ) => load;
    cudaLibraryLoadFromFile(
        library: *mut u64, path: *const c_char, jit: *mut c_int, jit_values: *mut *mut c_void, jit_count: c_uint,
        options: *mut c_int, values: *mut *mut c_void, count: c_uint,
    ) => load_file;
    cudaLibraryUnload(library: u64) => unload;
    cudaLibraryGetKernel(kernel: *mut u64, library: u64, name: *const c_char) => get_kernel;
    cudaLibraryGetGlobal(address: *mut u64, bytes: *mut usize, library: u64, name: *const c_char) => get_global;
    cudaLibraryGetManaged(address: *mut u64, bytes: *mut usize, library: u64, name: *const c_char) => get_managed;
    cudaLibraryGetKernelCount(count: *mut c_uint, library: u64) => get_count;
    cudaLibraryEnumerateKernels(kernels: *mut u64, count: c_uint, library: u64) => enumerate;
    cudaKernelSetAttributeForDevice(kernel: u64, attribute: c_int, value: c_int, device: c_int) => set_attribute;
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn load(
    library: Place<u64>,
    image: Place<c_void>,
    jit: Place<c_int>,
    jit_values: Place<*mut c_void>,
    jit_count: c_uint,
    options: Place<c_int>,
    values: Place<*mut c_void>,
    count: c_uint,
) -> CudaResult {
    let driver = ready()?;
    driver.cuLibraryLoadData(
        library, image, jit, jit_values, jit_count, options, values, count,
    )
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn load_file(
    library: Place<u64>,
    path: Place<c_char>,
    jit: Place<c_int>,
    jit_values: Place<*mut c_void>,
    jit_count: c_uint,
    options: Place<c_int>,
    values: Place<*mut c_void>,
    count: c_uint,
) -> CudaResult {
    let driver = ready()?;
    driver.cuLibraryLoadFromFile(
        library, path, jit, jit_values, jit_count, options, values, count,
    )
}

fn unload(library: u64) -> CudaResult {
    ready()?.cuLibraryUnload(library)
}

fn get_kernel(kernel: Place<u64>, library: u64, name: Place<c_char>) -> CudaResult {
    ready()?.cuLibraryGetKernel(kernel, library, name)
}

fn get_global(
    address: Place<u64>,
    bytes: Place<usize>,
    library: u64,
    name: Place<c_char>,
) -> CudaResult {
    ready()?.cuLibraryGetGlobal(address, bytes, library, name)
}

fn get_managed(
    address: Place<u64>,
    bytes: Place<usize>,
    library: u64,
    name: Place<c_char>,
) -> CudaResult {
    ready()?.cuLibraryGetManaged(address, bytes, library, name)
}

fn get_count(count: Place<c_uint>, library: u64) -> CudaResult {
    ready()?.cuLibraryGetKernelCount(count, library)
}

fn enumerate(kernels: Place<u64>, count: c_uint, library: u64) -> CudaResult {
    ready()?.cuLibraryEnumerateKernels(kernels, count, library)
}

fn set_attribute(kernel: u64, attribute: c_int, value: c_int, ordinal: c_int) -> CudaResult {
    let (driver, _) = device()?;
    driver.cuKernelSetAttribute(attribute, value, kernel, ordinal)
}
