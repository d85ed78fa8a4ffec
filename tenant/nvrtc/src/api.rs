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

/// Declares functions: those that are passed on as they are, and those that have a Rust function; what only one version
/// of CUDA has stands behind `#[cfg(cuda = …)]`.
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

nvrtc_api! {
    nvrtcVersion(major: *mut c_int, minor: *mut c_int);
    nvrtcGetNumSupportedArchs(count: *mut c_int);
    nvrtcGetSupportedArchs(numbers: *mut c_int);
    nvrtcCreateProgram(
        program: *mut Program, source: *const c_char, name: *const c_char, count: c_int, headers: Strings,
        names: Strings,
    );
    nvrtcDestroyProgram(program: *mut Program) => compile::destroy;
    nvrtcCompileProgram(program: Program, count: c_int, options: Strings) => compile::compile;
    nvrtcGetPTXSize(program: Program, bytes: *mut usize);
    nvrtcGetPTX(program: Program, text: *mut c_char);
    nvrtcGetCUBINSize(program: Program, bytes: *mut usize) => compile::code_size;
    nvrtcGetCUBIN(program: Program, code: *mut c_char) => compile::code;
    nvrtcGetLTOIRSize(program: Program, bytes: *mut usize);
    nvrtcGetLTOIR(program: Program, code: *mut c_char);
    nvrtcGetOptiXIRSize(program: Program, bytes: *mut usize);
    nvrtcGetOptiXIR(program: Program, code: *mut c_char);
    #[cfg(cuda = "13")]
    nvrtcGetTileIRSize(program: Program, bytes: *mut usize);
    #[cfg(cuda = "13")]
    nvrtcGetTileIR(program: Program, code: *mut c_char);
    #[cfg(cuda = "12")]
    nvrtcGetNVVMSize(program: Program, bytes: *mut usize);
    #[cfg(cuda = "12")]
    nvrtcGetNVVM(program: Program, code: *mut c_char);
    nvrtcGetProgramLogSize(program: Program, bytes: *mut usize);
    nvrtcGetProgramLog(program: Program, text: *mut c_char);
    nvrtcAddNameExpression(program: Program, expression: *const c_char);
    nvrtcGetLoweredName(program: Program, expression: *const c_char, name: *mut *const c_char);
    nvrtcGetPCHHeapSize(bytes: *mut usize);
    nvrtcSetPCHHeapSize(bytes: usize);
    nvrtcGetPCHCreateStatus(program: Program);
    nvrtcGetPCHHeapSizeRequired(program: Program, bytes: *mut usize);
    nvrtcSetFlowCallback(program: Program, callback: FlowCallback, payload: *mut c_void);
    #[cfg(cuda = "13")]
    nvrtcInstallBundledHeaders(path: *const c_char, flags: c_uint, error: *mut *const c_char);
    #[cfg(cuda = "13")]
    nvrtcGetBundledHeadersInfo(info: *mut c_void, error: *mut *const c_char);
    #[cfg(cuda = "13")]
    nvrtcRemoveBundledHeaders(path: *const c_char, error: *mut *const c_char);
}

/// `nvrtcGetErrorString` of NVRTC.
#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetErrorString(code: Code) -> *const c_char {
    match catch_unwind(Real::get) {
        Ok(Some(real)) => real.error_string(code),
        _ => c"NVRTC_ERROR_INTERNAL_ERROR".as_ptr(),
    }
}
