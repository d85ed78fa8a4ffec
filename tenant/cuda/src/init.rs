//! Initialisation and version.

use crate::api::driver_api;
use crate::border::Out;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint};

/// The version of CUDA whose driver API this is: 13.5.
pub const DRIVER_VERSION: u32 = 13050;

driver_api! {
    needs Nothing;
    2000 cuInit(flags: c_uint) => init;
    2020 cuDriverGetVersion(version: *mut c_int) => driver_version;
}

fn init(flags: c_uint) -> CudaResult {
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    Driver::init()
}

fn driver_version(version: Out<c_int>) -> CudaResult {
    version.set(c_int::try_from(DRIVER_VERSION).unwrap_or(c_int::MAX));
    Ok(())
}
