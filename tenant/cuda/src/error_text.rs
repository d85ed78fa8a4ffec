//! Names and texts of codes.

use crate::api::driver_api;
use crate::border::Out;
use crate::status::{CudaResult, Status};
use std::ffi::{CStr, c_char};

driver_api! {
    needs Nothing;
    6000 cuGetErrorString(code: u32, text: *mut *const c_char) => error_string;
    6000 cuGetErrorName(code: u32, name: *mut *const c_char) => error_name;
}

fn error_string(code: u32, text: Out<*const c_char>) -> CudaResult {
    answer(Status(code).phrase(), &text)
}

fn error_name(code: u32, name: Out<*const c_char>) -> CudaResult {
    answer(Status(code).name(), &name)
}

/// Writes a text; null, with an error, for an unknown code, as documented.
fn answer(found: Option<&'static CStr>, place: &Out<*const c_char>) -> CudaResult {
    place.set(found.map_or(std::ptr::null(), CStr::as_ptr));
    found.map(|_| ()).ok_or(Status::INVALID_VALUE)
}
