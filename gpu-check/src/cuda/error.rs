//! What the driver answers, as errors.

/// A call that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The library does not have the function.
    #[error("{call}: the driver library has no such function")]
    Missing {
        /// The function.
        call: &'static str,
    },
    /// The driver returned an error.
    #[error("{call}: {name} ({code})")]
    Refused {
        /// The function.
        call: &'static str,
        /// The error's number (`CUresult`).
        code: u32,
        /// The error's name.
        name: String,
    },
}

/// `CUDA_ERROR_NOT_PERMITTED`.
const NOT_PERMITTED: u32 = 800;
/// `CUDA_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: u32 = 801;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: u32 = 600;

impl CudaError {
    /// Returns the driver's code; 0 for a function that is missing.
    #[must_use]
    pub fn code(&self) -> u32 {
        match self {
            Self::Missing { .. } => 0,
            Self::Refused { code, .. } => *code,
        }
    }

    /// Returns whether the driver or the device does not offer what was asked for.
    #[must_use]
    pub fn is_not_offered(&self) -> bool {
        match self {
            Self::Missing { .. } => true,
            Self::Refused { code, .. } => matches!(*code, NOT_PERMITTED | NOT_SUPPORTED),
        }
    }

    /// Returns whether what was asked about has not ended yet.
    #[must_use]
    pub fn is_not_ready(&self) -> bool {
        self.code() == NOT_READY
    }
}
