//! The exported functions, with the parameters of their C declarations.

use crate::compile;
use crate::real::{Code, FlowCallback, INTERNAL_ERROR, Program, Real, Strings};
#[cfg(cuda = "13")]
use std::ffi::c_uint;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a function on the real compiler and returns its code.
fn guard(act: impl FnOnce(&Real) -> Code) -> Code {
    let done = catch_unwind(AssertUnwindSafe(|| Real::get().map(act)));
    done.ok().flatten().unwrap_or(INTERNAL_ERROR)
}

/// Exports functions: those that are passed on as they are, and those that have a Rust function.
macro_rules! nvrtc_api {
    ($($(#[$when:meta])? $symbol:ident($($arg:ident: $type:ty),* $(,)?) $(=> $function:path)?;)*) => {$(
        $(#[$when])?
        #[doc = concat!("`", stringify!($symbol), "` of NVRTC.")]
        ///
        /// # Safety
        /// What its C declaration asks of the arguments.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($arg: $type),*) -> Code {
            guard(|real| {
                // SAFETY: the program calls this function as its C declaration asks.
                unsafe { nvrtc_api!(@call real $symbol [$($function)?] $($arg),*) }
            })
        }
    )*};
    (@call $real:ident $symbol:ident [] $($arg:ident),*) => { $real.$symbol($($arg),*) };
    (@call $real:ident $symbol:ident [$function:path] $($arg:ident),*) => { $function($real, $($arg),*) };
}

nvrtc_functions!(nvrtc_api);

/// `nvrtcGetErrorString` of NVRTC.
#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetErrorString(code: Code) -> *const c_char {
    match catch_unwind(Real::get) {
        Ok(Some(real)) => real.error_string(code),
        _ => c"NVRTC_ERROR_INTERNAL_ERROR".as_ptr(),
    }
}
