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
    /// A launch has other arguments than its kernel takes; the driver was not asked.
    #[error("a launch with arguments of {given:?} bytes, and the kernel takes {due:?}")]
    Arguments {
        /// Bytes of each of the kernel's parameters.
        due: Vec<usize>,
        /// Bytes of each argument.
        given: Vec<usize>,
    },
    /// An argument is larger than a launch takes; the driver was not asked.
    #[error("a launch with an argument of {bytes} bytes, which is too large")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

/// `CUDA_ERROR_NOT_PERMITTED`.
const NOT_PERMITTED: u32 = 800;
/// `CUDA_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: u32 = 801;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: u32 = 600;

impl CudaError {
    /// Returns the driver's code; 0 where the driver was not asked.
    #[must_use]
    pub fn code(&self) -> u32 {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Missing { .. } | Self::Arguments { .. } | Self::TooLarge { .. } => 0,
        }
    }

    /// Returns whether the driver or the device does not offer what was asked for.
    #[must_use]
    pub fn is_not_offered(&self) -> bool {
        match self {
            Self::Missing { .. } => true,
            Self::Refused { code, .. } => matches!(*code, NOT_PERMITTED | NOT_SUPPORTED),
            Self::Arguments { .. } | Self::TooLarge { .. } => false,
        }
    }

    /// Returns whether what was asked about has not ended yet.
    #[must_use]
    pub fn is_not_ready(&self) -> bool {
        self.code() == NOT_READY
    }
}
