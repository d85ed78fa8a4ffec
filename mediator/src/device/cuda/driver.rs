//! The CUDA driver as the rest of this backend sees it: errors as values, the context, and what starts them.
//!
//! Rules: the driver is loaded at run time, so that gridmux builds and starts everywhere; [`start`] is the first call
//! and everything else may rely on it. An error names the driver's function. A **refusal** concerns one call; every
//! other error means that the context is lost for good (CUDA's "sticky" errors), and with it everything in it.

use crate::device::DeviceError;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute, CUresult};
use gridmux_channel::ring::CompletionStatus;

/// An error of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {code:?}")]
pub(super) struct CudaError {
    /// The driver's function.
    pub(super) call: &'static str,
    /// Its answer.
    pub(super) code: CUresult,
}

/// Turns a driver's answer into a result.
pub(super) fn check(call: &'static str, code: CUresult) -> Result<(), CudaError> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(CudaError { call, code }),
    }
}

/// Returns the same for cudarc's wrappers.
pub(super) fn wrapped<T>(
    call: &'static str,
    result: Result<T, result::DriverError>,
) -> Result<T, CudaError> {
    result.map_err(|error| CudaError {
        call,
        code: error.0,
    })
}

/// The driver's call that puts an event into a stream.
pub(super) const EVENT_RECORD: &str = "cuEventRecord";

impl CudaError {
    /// Returns whether only this call was refused and the context goes on. Without its event nobody can tell when an
    /// operation ends, so that a refused event counts as a loss.
    pub(super) fn is_refusal(self) -> bool {
        use CUresult as R;
        let is_refused = matches!(
            self.code,
            R::CUDA_ERROR_INVALID_VALUE
                | R::CUDA_ERROR_OUT_OF_MEMORY
                | R::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                | R::CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING
                | R::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
                | R::CUDA_ERROR_INVALID_CLUSTER_SIZE
                | R::CUDA_ERROR_NOT_SUPPORTED
                | R::CUDA_ERROR_NOT_PERMITTED
        );
        is_refused && self.call != EVENT_RECORD
    }

    /// Returns what a tenant is told of an operation that ended so.
    pub(super) fn status(self) -> CompletionStatus {
        use CUresult as R;
        match self.code {
            R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC => CompletionStatus::MemoryFault,
            R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_LAUNCH_FAILED => CompletionStatus::Trap,
            R::CUDA_ERROR_LAUNCH_TIMEOUT => CompletionStatus::Budget,
            R::CUDA_ERROR_OUT_OF_MEMORY => CompletionStatus::Internal,
            _ if self.is_refusal() => CompletionStatus::BadShape,
            _ => CompletionStatus::DeviceLost,
        }
    }
}

impl From<CudaError> for DeviceError {
    fn from(error: CudaError) -> Self {
        Self::Backend(error.to_string())
    }
}

/// Loads and starts the driver, and finds the GPU with this number.
///
/// # Errors
/// [`DeviceError::NoDevice`], with what to do about it.
pub(super) fn start(ordinal: &str) -> Result<CUdevice, DeviceError> {
    // SAFETY: this only tries to load the library; NVIDIA's has no constructor that could be at odds with us.
    if !unsafe { sys::is_culib_present() } {
        return Err(DeviceError::NoDevice(
            "no CUDA driver (libcuda.so.1) on this machine; install NVIDIA's driver, or use --device model:h200".into(),
        ));
    }
    prepare_environment();
    let unusable = |error: CudaError| {
        DeviceError::NoDevice(format!(
            "the CUDA driver does not start ({error}); see nvidia-smi, or use --device model:h200"
        ))
    };
    wrapped("cuInit", result::init()).map_err(unusable)?;
    let count = wrapped("cuDeviceGetCount", result::device::get_count()).map_err(unusable)?;
    let number: i32 = ordinal.parse().ok().filter(|n| (0..count).contains(n)).ok_or_else(|| {
        DeviceError::NoDevice(format!(
            "there is no GPU cuda:{ordinal}; this machine has {count} (numbered from 0, CUDA_VISIBLE_DEVICES applied)"
        ))
    })?;
    wrapped("cuDeviceGet", result::device::get(number)).map_err(unusable)
}

/// Settings that the driver reads from the environment when it starts. What the operator set is kept.
fn prepare_environment() {
    // Eager loading: a kernel that is loaded at its first launch would stop the device then.
    // As many hardware queues as lanes: with the default of 8, lanes would wait for one another.
    for (name, value) in [
        ("CUDA_MODULE_LOADING", "EAGER"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "32"),
    ] {
        if std::env::var_os(name).is_none() {
            // SAFETY: a device host opens its device before it starts any thread, and Rust code reads the
            // environment only under the standard library's lock; so no one reads it unlocked meanwhile.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// Returns one figure of a device; 0 when this driver does not know it.
pub(super) fn attribute(device: CUdevice, which: CUdevice_attribute) -> u32 {
    // SAFETY: `device` came from `cuDeviceGet`.
    let value = unsafe { result::device::get_attribute(device, which) };
    value
        .ok()
        .and_then(|value| u32::try_from(value).ok())
        .unwrap_or(0)
}

/// The context that everything of this process lives in.
#[derive(Clone, Copy)]
pub(super) struct Context(CUcontext);

// SAFETY: a context may be made current on any thread, and on several (CUDA driver API, "Context Management").
unsafe impl Send for Context {}
// SAFETY: as above; the handle itself is never written.
unsafe impl Sync for Context {}

impl Context {
    /// Takes the device's primary context. It is kept until the process ends.
    pub(super) fn retain(device: CUdevice) -> Result<Self, CudaError> {
        use sys::CUctx_flags_enum as Flags;
        // Local memory that was grown for one kernel is kept: shrinking it stops the device. Waiting blocks rather
        // than spins: only control paths wait.
        let flags =
            Flags::CU_CTX_LMEM_RESIZE_TO_MAX as u32 | Flags::CU_CTX_SCHED_BLOCKING_SYNC as u32;
        // SAFETY: `device` came from `cuDeviceGet`.
        let set = unsafe { sys::cuDevicePrimaryCtxSetFlags_v2(device, flags) };
        check("cuDevicePrimaryCtxSetFlags", set)?;
        // SAFETY: as above.
        let context = wrapped("cuDevicePrimaryCtxRetain", unsafe {
            result::primary_ctx::retain(device)
        })?;
        let context = Self(context);
        context.bind()?;
        Ok(context)
    }

    /// Makes it current on this thread, as every other call needs.
    pub(super) fn bind(self) -> Result<(), CudaError> {
        // SAFETY: the context is retained until the process ends.
        wrapped("cuCtxSetCurrent", unsafe {
            result::ctx::set_current(self.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{CUresult, CompletionStatus, CudaError, EVENT_RECORD, start, sys};
    use crate::device::DeviceError;

    fn error(code: CUresult) -> CudaError {
        CudaError {
            call: "cuLaunchKernel",
            code,
        }
    }

    #[test]
    fn errors_name_the_call_and_the_code() {
        let text = error(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS).to_string();
        assert_eq!(text, "cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS");
    }

    #[test]
    fn only_refusals_leave_the_context_alive() {
        let refused = error(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        assert!(refused.is_refusal());
        assert_eq!(refused.status(), CompletionStatus::BadShape);
        let unmarked = CudaError {
            call: EVENT_RECORD,
            ..error(CUresult::CUDA_ERROR_NOT_SUPPORTED)
        };
        assert!(!unmarked.is_refusal());
        for (code, status) in [
            (
                CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                CompletionStatus::MemoryFault,
            ),
            (CUresult::CUDA_ERROR_ASSERT, CompletionStatus::Trap),
            (
                CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
                CompletionStatus::DeviceLost,
            ),
            (CUresult::CUDA_ERROR_UNKNOWN, CompletionStatus::DeviceLost),
        ] {
            assert!(!error(code).is_refusal(), "{code:?}");
            assert_eq!(error(code).status(), status, "{code:?}");
        }
    }

    #[test]
    fn a_machine_without_the_gpu_says_what_to_do() {
        // SAFETY: as in `start`.
        let has_driver = unsafe { sys::is_culib_present() };
        // No machine has this one, so that the test says something with a driver as well.
        let Err(DeviceError::NoDevice(text)) = start("9999") else {
            panic!("cuda:9999 was found");
        };
        let hint = if has_driver {
            "cuda:9999"
        } else {
            "libcuda.so.1"
        };
        assert!(text.contains(hint) || text.contains("nvidia-smi"), "{text}");
    }
}
