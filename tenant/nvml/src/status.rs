//! The codes of the API (`nvmlReturn_t`).

use std::ffi::{CStr, c_char};

/// A code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

/// What a function comes to.
pub type NvmlResult<T = ()> = Result<T, Status>;

#[allow(missing_docs, reason = "the names are those of the API")]
impl Status {
    pub const UNINITIALIZED: Self = Self(1);
    pub const INVALID_ARGUMENT: Self = Self(2);
    pub const NOT_SUPPORTED: Self = Self(3);
    pub const NO_PERMISSION: Self = Self(4);
    pub const NOT_FOUND: Self = Self(6);
    pub const INSUFFICIENT_SIZE: Self = Self(7);
    pub const DRIVER_NOT_LOADED: Self = Self(9);
    pub const ARGUMENT_VERSION_MISMATCH: Self = Self(25);
    pub const UNKNOWN: Self = Self(999);
}

/// Codes and their texts.
const TEXTS: [(u32, &CStr); 9] = [
    (0, c"success"),
    (Status::UNINITIALIZED.0, c"nvmlInit was not called"),
    (Status::INVALID_ARGUMENT.0, c"an argument is invalid"),
    (Status::NOT_SUPPORTED.0, c"the device does not have this"),
    (Status::NO_PERMISSION.0, c"this is not the program's to set"),
    (Status::NOT_FOUND.0, c"there is no such device"),
    (Status::INSUFFICIENT_SIZE.0, c"the buffer is too small"),
    (
        Status::DRIVER_NOT_LOADED.0,
        c"there is no CUDA driver library, or it finds no device",
    ),
    (
        Status::ARGUMENT_VERSION_MISMATCH.0,
        c"the structure is of another version",
    ),
];

/// Returns the text of a code, that of an unknown error for any other.
#[must_use]
pub fn text(code: u32) -> *const c_char {
    let known = TEXTS.iter().find(|(known, _)| *known == code);
    known.map_or(c"unknown error", |(_, text)| text).as_ptr()
}
