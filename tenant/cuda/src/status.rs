//! The codes that every function of the API returns, with their names and one phrase each.
//!
//! Rule: inside the library success is `Ok` and [`Status::SUCCESS`] is never an error; [`crate::border`] turns a result
//! into the number that C sees.

use crate::report;
use gridmux_channel::control::ControlCode;
use gridmux_channel::session::CallError;
use gridmux_tenant::{ClientError, CompletionStatus};
use std::ffi::CStr;

/// A result code of the API (`CUresult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

/// The result of a function of the library before it goes out to C.
pub type CudaResult<T = ()> = Result<T, Status>;

/// A code with its name and phrase, both as C strings.
struct Row {
    code: u32,
    name: &'static str,
    phrase: &'static str,
}

macro_rules! statuses {
    ($($name:ident = $code:literal, $phrase:literal;)*) => {
        #[allow(missing_docs, reason = "each constant is explained by its phrase")]
        impl Status {
            $(pub const $name: Self = Self($code);)*
        }

        /// Every code, in ascending order.
        const ROWS: &[Row] = &[$(Row {
            code: $code,
            name: concat!("CUDA_ERROR_", stringify!($name), "\0"),
            phrase: concat!($phrase, "\0"),
        }),*];
    };
}

statuses! {
    SUCCESS = 0, "no error";
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    PROFILER_DISABLED = 5, "profiler disabled";
    PROFILER_NOT_INITIALIZED = 6, "profiler not initialized";
    PROFILER_ALREADY_STARTED = 7, "profiler already started";
    PROFILER_ALREADY_STOPPED = 8, "profiler already stopped";
    STUB_LIBRARY = 34, "stub of the driver library loaded";
    CALL_REQUIRES_NEWER_DRIVER = 36, "call requires a newer driver";
    DEVICE_UNAVAILABLE = 46, "device busy or unavailable";
    MULTICAST_RESOURCE_FULL = 47, "multicast resources exhausted";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    DEVICE_NOT_LICENSED = 102, "device not licensed";
    INVALID_IMAGE = 200, "device kernel image is invalid";
    INVALID_CONTEXT = 201, "invalid device context";
    CONTEXT_ALREADY_CURRENT = 202, "context already current";
    MAP_FAILED = 205, "mapping failed";
    UNMAP_FAILED = 206, "unmapping failed";
    ARRAY_IS_MAPPED = 207, "array is mapped";
    ALREADY_MAPPED = 208, "resource already mapped";
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    ALREADY_ACQUIRED = 210, "resource already acquired";
    NOT_MAPPED = 211, "resource not mapped";
    NOT_MAPPED_AS_ARRAY = 212, "resource not mapped as array";
    NOT_MAPPED_AS_POINTER = 213, "resource not mapped as pointer";
    ECC_UNCORRECTABLE = 214, "uncorrectable ECC error";
    UNSUPPORTED_LIMIT = 215, "limit is not supported on this device";
    CONTEXT_ALREADY_IN_USE = 216, "context in use by another thread";
    PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these devices";
    INVALID_PTX = 218, "PTX code could not be compiled";
    INVALID_GRAPHICS_CONTEXT = 219, "invalid graphics context";
    NVLINK_UNCORRECTABLE = 220, "uncorrectable NVLink error";
    JIT_COMPILER_NOT_FOUND = 221, "PTX compiler library not found";
    UNSUPPORTED_PTX_VERSION = 222, "PTX version is not supported";
    JIT_COMPILATION_DISABLED = 223, "PTX compilation is disabled";
    UNSUPPORTED_EXEC_AFFINITY = 224, "execution affinity is not supported";
    UNSUPPORTED_DEVSIDE_SYNC = 225, "device-side synchronization is not supported";
    CONTAINED = 226, "contained memory error";
    INSUFFICIENT_LOADER_VERSION = 227, "loader too old for this image";
    INVALID_SOURCE = 300, "invalid kernel source";
    FILE_NOT_FOUND = 301, "file not found";
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, "symbol of a shared object not found";
    SHARED_OBJECT_INIT_FAILED = 303, "initialization of a shared object failed";
    OPERATING_SYSTEM = 304, "operating system call failed";
    INVALID_HANDLE = 400, "invalid resource handle";
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    LOSSY_QUERY = 402, "query would lose information";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    LAUNCH_INCOMPATIBLE_TEXTURING = 703, "launch with incompatible texturing";
    PEER_ACCESS_ALREADY_ENABLED = 704, "peer access already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "peer access not enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "primary context is active";
    CONTEXT_IS_DESTROYED = 709, "context is destroyed";
    ASSERT = 710, "device-side assert triggered";
    TOO_MANY_PEERS = 711, "peer resources exhausted";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the memory range is already registered";
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer is not registered host memory";
    HARDWARE_STACK_ERROR = 714, "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "operation not supported on this address space";
    INVALID_PC = 718, "invalid program counter";
    LAUNCH_FAILED = 719, "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch";
    TENSOR_MEMORY_LEAK = 721, "tensor memory was not given back";
    NOT_PERMITTED = 800, "operation not permitted";
    NOT_SUPPORTED = 801, "operation not supported";
    SYSTEM_NOT_READY = 802, "system not yet initialized";
    SYSTEM_DRIVER_MISMATCH = 803, "driver library and service have different versions";
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, "forward compatibility not supported on this device";
    MPS_CONNECTION_FAILED = 805, "connection to the sharing service failed";
    MPS_RPC_FAILURE = 806, "call to the sharing service failed";
    MPS_SERVER_NOT_READY = 807, "sharing service not ready";
    MPS_MAX_CLIENTS_REACHED = 808, "the sharing service has no room for further clients";
    MPS_MAX_CONNECTIONS_REACHED = 809, "the sharing service has no room for further connections";
    MPS_CLIENT_TERMINATED = 810, "the sharing service terminated this client";
    CDP_NOT_SUPPORTED = 811, "launches from the device are not supported";
    CDP_VERSION_MISMATCH = 812, "version mismatch of launches from the device";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "capture failed due to a previous error";
    STREAM_CAPTURE_MERGE = 902, "operation would merge independent captures";
    STREAM_CAPTURE_UNMATCHED = 903, "capture was not begun in this stream";
    STREAM_CAPTURE_UNJOINED = 904, "capture has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, "dependency from uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, "implicit dependency on the legacy stream in a capture";
    CAPTURED_EVENT = 907, "event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, "capture begun in another thread";
    TIMEOUT = 909, "wait operation timed out";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "graph does not fit the executable graph";
    EXTERNAL_DEVICE = 911, "external device failed";
    INVALID_CLUSTER_SIZE = 912, "invalid cluster size";
    FUNCTION_NOT_LOADED = 913, "function not loaded";
    INVALID_RESOURCE_TYPE = 914, "invalid resource type";
    INVALID_RESOURCE_CONFIGURATION = 915, "invalid resource configuration";
    KEY_ROTATION = 916, "key rotation failed";
    STREAM_DETACHED = 917, "stream is detached from its context";
    GRAPH_RECAPTURE_FAILURE = 918, "capture does not fit the graph";
    FABRIC_NOT_READY = 919, "fabric not ready";
    UNKNOWN = 999, "unknown error";
}

impl Status {
    fn row(self) -> Option<&'static Row> {
        let index = ROWS.binary_search_by_key(&self.0, |row| row.code).ok()?;
        ROWS.get(index)
    }

    /// Returns its name, as `CUDA_ERROR_INVALID_VALUE`.
    #[must_use]
    pub fn name(self) -> Option<&'static CStr> {
        if self == Self::SUCCESS {
            return Some(c"CUDA_SUCCESS");
        }
        CStr::from_bytes_with_nul(self.row()?.name.as_bytes()).ok()
    }

    /// Returns what it means, in a phrase.
    #[must_use]
    pub fn phrase(self) -> Option<&'static CStr> {
        CStr::from_bytes_with_nul(self.row()?.phrase.as_bytes()).ok()
    }
}

impl From<&ClientError> for Status {
    /// Returns the code of an error. Every error on its way to the program comes through here, so that the first one
    /// that tells of a lost service is said on stderr.
    fn from(error: &ClientError) -> Self {
        report::lost(error);
        match error {
            ClientError::Call(CallError::Control(refused)) => of_control(refused.code),
            ClientError::Call(CallError::Connect { .. }) => Self::NO_DEVICE,
            ClientError::Call(CallError::Codec(_)) => Self::INVALID_VALUE,
            ClientError::Call(error) if error.is_out_of_mappings() => Self::OUT_OF_MEMORY,
            ClientError::Call(_) | ClientError::Ring(_) | ClientError::DeviceLost(_) => {
                Self::MPS_RPC_FAILURE
            }
            ClientError::Failed {
                status, message, ..
            } => of_completion(*status, message),
            ClientError::NoKernel { .. } | ClientError::NoGlobal { .. } => Self::NOT_FOUND,
            ClientError::Forked { .. } => Self::NOT_INITIALIZED,
            ClientError::Staging(_) => Self::OUT_OF_MEMORY,
            ClientError::Unfit(_) => Self::NOT_SUPPORTED,
            ClientError::AddressTaken { .. } => Self::OUT_OF_MEMORY,
            ClientError::Foreign(_) => Self::INVALID_HANDLE,
            ClientError::UnknownStatus(_) => Self::UNKNOWN,
            ClientError::Refused(_)
            | ClientError::Unaligned { .. }
            | ClientError::TenantName { .. }
            | ClientError::Arguments { .. }
            | ClientError::Block { .. }
            | ClientError::OutOfBounds { .. } => Self::INVALID_VALUE,
        }
    }
}

impl From<ClientError> for Status {
    fn from(error: ClientError) -> Self {
        Self::from(&error)
    }
}

fn of_control(code: ControlCode) -> Status {
    match code {
        ControlCode::BadRequest | ControlCode::BadIova => Status::INVALID_VALUE,
        ControlCode::Version => Status::SYSTEM_DRIVER_MISMATCH,
        ControlCode::NotWelcome | ControlCode::Denied => Status::NOT_PERMITTED,
        ControlCode::Limit | ControlCode::OutOfMemory => Status::OUT_OF_MEMORY,
        ControlCode::NotFound => Status::INVALID_HANDLE,
        ControlCode::BadModule => Status::INVALID_PTX,
        ControlCode::Busy => Status::SYSTEM_NOT_READY,
        ControlCode::DeviceLost => Status::MPS_CLIENT_TERMINATED,
        ControlCode::Internal => Status::UNKNOWN,
        ControlCode::Unsupported => Status::NOT_SUPPORTED,
    }
}

/// Returns the code of an operation that failed on the device. Faults of kernels are told apart by the mediator's text.
fn of_completion(status: CompletionStatus, message: &str) -> Status {
    match status {
        CompletionStatus::Ok => Status::SUCCESS,
        CompletionStatus::MemoryFault if is_misaligned(message) => Status::MISALIGNED_ADDRESS,
        CompletionStatus::BadAddress | CompletionStatus::MemoryFault => Status::ILLEGAL_ADDRESS,
        CompletionStatus::Trap if message.contains("assert") => Status::ASSERT,
        CompletionStatus::Trap | CompletionStatus::Cancelled => Status::LAUNCH_FAILED,
        CompletionStatus::Budget => Status::LAUNCH_TIMEOUT,
        CompletionStatus::BadKernel | CompletionStatus::BadStream => Status::INVALID_HANDLE,
        CompletionStatus::BadShape
        | CompletionStatus::BadArguments
        | CompletionStatus::BadIova
        | CompletionStatus::BadEntry => Status::INVALID_VALUE,
        CompletionStatus::DeviceLost => Status::MPS_CLIENT_TERMINATED,
        CompletionStatus::Internal => Status::UNKNOWN,
    }
}

/// Returns whether the text of a memory fault says that an address was not a multiple of what was accessed there, in
/// the model's words or those of NVIDIA's driver.
fn is_misaligned(message: &str) -> bool {
    message.contains("which is not a multiple of") || message.contains("misaligned")
}

#[cfg(test)]
mod tests {
    use super::{ROWS, Status};

    #[test]
    fn codes_ascend_and_have_names() {
        assert!(ROWS.windows(2).all(|pair| pair[0].code < pair[1].code));
        assert_eq!(Status::SUCCESS.name(), Some(c"CUDA_SUCCESS"));
        assert_eq!(Status(700).name(), Some(c"CUDA_ERROR_ILLEGAL_ADDRESS"));
        assert!(ROWS.iter().all(|row| Status(row.code).name().is_some()));
        assert!(ROWS.iter().all(|row| Status(row.code).phrase().is_some()));
        assert_eq!(Status(12345).name(), None);
    }
}
