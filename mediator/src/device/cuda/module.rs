//! Loading a module: PTX through the driver's compiler, then its kernels by name.
//!
//! Rules: a refusal carries the compiler's own log. Everything a launch needs is asked for here, so that a launch asks
//! for nothing; dynamic shared memory is allowed up to the device's maximum at once, because changing it at a launch
//! would be a call more on the hot path.

use super::arguments::{Place, Places, places};
use super::driver::{CudaError, check};
use super::tables::Function;
use crate::device::{CompiledKernel, DeviceError, KernelAttributes, LoadedGlobal};
use cudarc::driver::sys::{
    self, CUfunction, CUfunction_attribute, CUjit_option, CUmodule, CUresult,
};
use std::ffi::{CString, c_void};
use std::ptr;

/// Room for what the compiler says.
const LOG_BYTES: usize = 16 << 10;

/// A loaded module.
pub(super) struct Module(CUmodule);

// SAFETY: a module handle may be used on any thread whose context is current (CUDA driver API, "Module Management").
unsafe impl Send for Module {}
// SAFETY: as above; the handle itself is never written.
unsafe impl Sync for Module {}

/// Attributes of a kernel, as the driver gives them.
pub(super) struct FunctionFacts {
    /// Its handle.
    pub(super) function: Function,
    /// Registers per thread.
    pub(super) registers: u32,
    /// Static shared memory.
    pub(super) static_shared_bytes: u32,
    /// Most threads of a block.
    pub(super) max_threads: u32,
    /// Attributes that its tenant may know besides.
    pub(super) attributes: KernelAttributes,
    /// Where its parameters stand in a launch's.
    pub(super) places: Places,
    /// Why it cannot be launched, if so.
    pub(super) unusable: Option<String>,
}

impl FunctionFacts {
    /// Returns those of a kernel without an entry: it is malformed or refused.
    fn of_unusable(kernel: &CompiledKernel) -> Self {
        let why = kernel.unusable();
        Self {
            function: Function(ptr::null_mut()),
            registers: 0,
            static_shared_bytes: 0,
            max_threads: 0,
            attributes: KernelAttributes::default(),
            places: Places::default(),
            unusable: Some(why.unwrap_or_else(|| "it is not in the module's text".to_owned())),
        }
    }
}

impl Module {
    /// Compiles and loads PTX into the current context. May take seconds and stop the device.
    ///
    /// # Errors
    /// [`DeviceError::Load`] with the compiler's log.
    pub(super) fn load(ptx: &[u8]) -> Result<Self, DeviceError> {
        let image = CString::new(ptx)
            .map_err(|error| DeviceError::Load(format!("the PTX holds a zero byte: {error}")))?;
        let mut log = vec![0_u8; LOG_BYTES];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The size goes in place of a pointer (CUDA driver API, `CUjit_option`).
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            ptr::without_provenance_mut(LOG_BYTES),
        ];
        let mut module = ptr::null_mut();
        // SAFETY: the image ends with a zero byte, and the two options are given with a buffer and its size, which
        // live through the call; the driver keeps neither.
        let loaded = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                image.as_ptr().cast::<c_void>(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        check("cuModuleLoadDataEx", loaded).map_err(|error| {
            let length = log.iter().position(|byte| *byte == 0).unwrap_or(LOG_BYTES);
            let log = String::from_utf8_lossy(&log[..length]);
            DeviceError::Load(format!("{error}\n{}", log.trim_end()).trim_end().to_owned())
        })?;
        Ok(Self(module))
    }

    /// Finds a kernel and readies it for launches with up to `most_shared_bytes` of shared memory.
    ///
    /// # Errors
    /// The driver's, as when the module has no such kernel.
    pub(super) fn function(
        &self,
        kernel: &CompiledKernel,
        most_shared_bytes: u32,
    ) -> Result<FunctionFacts, DeviceError> {
        let Some(entry) = kernel.entry() else {
            return Ok(FunctionFacts::of_unusable(kernel));
        };
        let name = &*entry.name;
        let missing =
            |error: &dyn std::fmt::Display| DeviceError::Load(format!("kernel {name}: {error}"));
        let name_z = CString::new(name).map_err(|error| missing(&error))?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, since only `unload` unloads it and takes it by value; the name ends with zero.
        let found = unsafe { sys::cuModuleGetFunction(&raw mut function, self.0, name_z.as_ptr()) };
        check("cuModuleGetFunction", found).map_err(|error| missing(&error))?;
        let ask = |which| attribute(function, which).map_err(|error| missing(&error));
        use CUfunction_attribute as A;
        let static_shared_bytes = ask(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let dynamic = most_shared_bytes.saturating_sub(static_shared_bytes);
        let which = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let value = i32::try_from(dynamic).unwrap_or(i32::MAX);
        // SAFETY: `function` was just found in a loaded module.
        let set = check("cuFuncSetAttribute", unsafe {
            sys::cuFuncSetAttribute(function, which, value)
        });
        set.map_err(|error| missing(&error))?;
        let places = places(&kernel.kernel, entry);
        let mismatch = check_sizes(function, &places).map_err(|error| missing(&error))?;
        let opaque = kernel.kernel.params.iter().any(|param| param.opaque);
        let opaque = opaque.then(|| {
            "a parameter is of an opaque type, as `.texref`, which no launch can pass".to_owned()
        });
        Ok(FunctionFacts {
            function: Function(function),
            registers: ask(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            static_shared_bytes,
            max_threads: ask(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            attributes: KernelAttributes {
                local_bytes: ask(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
                const_bytes: ask(A::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
                max_dynamic_shared_bytes: dynamic,
                ptx_version: ask(A::CU_FUNC_ATTRIBUTE_PTX_VERSION)?,
            },
            places,
            unusable: opaque.or(mismatch),
        })
    }

    /// Finds a variable; `None` if the driver's compiler left it out because nothing uses it.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn global(&self, name: &str) -> Result<Option<LoadedGlobal>, DeviceError> {
        let name_z = CString::new(name)
            .map_err(|error| DeviceError::Load(format!("variable {name}: {error}")))?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: as in `function`; both results live through the call.
        let found = unsafe {
            sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, self.0, name_z.as_ptr())
        };
        if found == CUresult::CUDA_ERROR_NOT_FOUND {
            return Ok(None);
        }
        check("cuModuleGetGlobal", found)?;
        Ok(Some(LoadedGlobal {
            name: name.to_owned(),
            address,
            bytes: bytes as u64,
            is_managed: false,
        }))
    }

    /// Unloads it. May stop the device.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn unload(self) -> Result<(), CudaError> {
        // SAFETY: the caller holds the only handle, and operations in flight hold one each, so no kernel of it runs.
        check("cuModuleUnload", unsafe { sys::cuModuleUnload(self.0) })
    }

    /// Returns a module that is none, for tests of the bookkeeping around it.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self(ptr::null_mut())
    }
}

/// Returns how the sizes of a kernel's parameters differ between the driver and its text, if they do: the driver would
/// read past the bytes of a launch. Drivers before CUDA 12.4 do not say.
fn check_sizes(function: CUfunction, places: &[Place]) -> Result<Option<String>, CudaError> {
    // SAFETY: the symbol is only looked for.
    let known = unsafe { sys::culib().get::<*const c_void>(b"cuFuncGetParamInfo\0") };
    if known.is_err() {
        return Ok(None);
    }
    // The one behind the last is none.
    let due = places.iter().map(|place| Some(place.bytes as usize));
    for (index, due) in due.chain([None]).enumerate() {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: `cuFuncGetParamInfo` was found above; the caller found `function` in a loaded module; both results
        // live through the call.
        let got =
            unsafe { sys::cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut bytes) };
        let has = match got {
            CUresult::CUDA_ERROR_INVALID_VALUE => None,
            code => check("cuFuncGetParamInfo", code).map(|()| Some(bytes))?,
        };
        if has != due {
            let size = |size: Option<usize>| size.map_or("none".to_owned(), |n| n.to_string());
            let (has, due) = (size(has), size(due));
            let text =
                format!("parameter {index} has {has} bytes for the driver and {due} by its text");
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn attribute(function: CUfunction, which: CUfunction_attribute) -> Result<u32, CudaError> {
    let mut value = 0;
    // SAFETY: the caller found `function` in a loaded module; `value` lives through the call.
    let got = unsafe { sys::cuFuncGetAttribute(&raw mut value, which, function) };
    check("cuFuncGetAttribute", got)?;
    Ok(u32::try_from(value).unwrap_or(0))
}
