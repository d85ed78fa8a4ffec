//! The functions of NVRTC that return a code, once for both who exports them and who calls the real ones.

/// Passes the list of functions to a macro, each with the parameters of its C declaration and the Rust function that it
/// has, if it is not passed on as it is; what only one version of CUDA has stands behind `#[cfg(cuda = …)]`.
macro_rules! nvrtc_functions {
    ($for_all:ident) => {
        $for_all! {
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
    };
}
