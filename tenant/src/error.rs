//! What can go wrong for a tenant, in words that say what to do.

use gridmux_channel::memory::MemoryError;
use gridmux_channel::ring::{BadEntry, CompletionStatus, HostState, RingError};
use gridmux_channel::session::CallError;
use thiserror::Error;

/// Why the device is lost to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Lost {
    /// The device failed.
    #[error("it failed")]
    Failed,
    /// The operator took the tenant out of the service's configuration.
    #[error("this tenant is no more in the service's configuration")]
    Removed,
    /// The service was stopped.
    #[error("the service was stopped")]
    Stopped,
    /// The mediator closed the connection or the channel, or is gone.
    #[error("the mediator closed the connection")]
    Closed,
    /// Nothing is pending any more, and what was waited for has not come.
    #[error("a completion never came")]
    Missing,
}

/// An operation of the client that failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// A command or request on the control connection failed; a refusal
    /// carries the mediator's text.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The rings cannot be used.
    #[error(transparent)]
    Ring(RingError),
    /// The mediator lost the device, was stopped, or is gone: everything on the device is lost.
    #[error("all that was on the device is lost: {0}; connect again and start over")]
    DeviceLost(Lost),
    /// An operation ended with an error.
    #[error("{operation}: {message}")]
    Failed {
        /// The operation that was submitted.
        operation: &'static str,
        /// The status with which it ended.
        status: CompletionStatus,
        /// The mediator's text.
        message: String,
    },
    /// The mediator completed with a status that this build does not know.
    #[error("completion status {0} is unknown; update the client")]
    UnknownStatus(u32),
    /// The module has no such kernel.
    #[error("the module has no kernel `{name}`; it has: {available}")]
    NoKernel {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        available: String,
    },
    /// The module has no such variable.
    #[error("the module has no variable `{name}`; it has: {available}")]
    NoGlobal {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        available: String,
    },
    /// An operation that makes no sense; nothing was submitted.
    #[error(transparent)]
    Refused(BadEntry),
    /// Device memory that cannot hold values of a type.
    #[error(
        "memory at {address:#x} cannot hold values of {type_name}: it needs a size and an alignment to {align}"
    )]
    Unaligned {
        /// The device address.
        address: u64,
        /// The type's alignment in bytes.
        align: u64,
        /// The type's name.
        type_name: &'static str,
    },
    /// A tenant's name that no tenant can have.
    #[error("a tenant's name has 1 to {most} bytes, `{name}` has {has}", has = name.len())]
    TenantName {
        /// The name.
        name: String,
        /// The most bytes of a name.
        most: usize,
    },
    /// The arguments do not fit the kernel's parameters.
    #[error("kernel `{kernel}`: {problem}")]
    Arguments {
        /// The kernel's name.
        kernel: String,
        /// The value that does not fit.
        problem: String,
    },
    /// A block dimension over what can be expressed.
    #[error("kernel `{kernel}`: a block of {x} x {y} x {z} threads is over any device's limit")]
    Block {
        /// The kernel's name.
        kernel: String,
        /// Threads in x.
        x: u32,
        /// Threads in y.
        y: u32,
        /// Threads in z.
        z: u32,
    },
    /// A range outside a buffer.
    #[error("{len} bytes at offset {offset} are outside the buffer of {size} bytes")]
    OutOfBounds {
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// The buffer's size in bytes.
        size: u64,
    },
    /// A buffer, stream or module of another connection.
    #[error("the {0} belongs to another connection; make it anew after reconnecting")]
    Foreign(&'static str),
    /// The process is a child, made by `fork`, of the one that connected.
    #[error(
        "this connection belongs to process {process}; a child made by fork must connect for itself"
    )]
    Forked {
        /// The process that connected.
        process: u32,
    },
    /// Memory of the program's that kernels cannot be given access to.
    #[error("this memory cannot be mapped for kernels: {0}")]
    Unfit(&'static str),
    /// The addresses that the device gives are in use in this process.
    #[error(
        "this process has something at {address:#x}, where memory shared with the device belongs: {why}"
    )]
    AddressTaken {
        /// The address.
        address: u64,
        /// What the system said.
        why: String,
    },
    /// Memory for staging could not be had.
    #[error("staging memory: {0}")]
    Staging(#[from] MemoryError),
}

impl ClientError {
    /// Returns whether the connection ended because its tenant was taken out of the service's configuration.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        matches!(self, Self::DeviceLost(Lost::Removed))
    }

    /// Returns whether the connection is of no more use: [`crate::Gpu::reconnect`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::DeviceLost(_) | Self::Call(CallError::Closed | CallError::Socket(_)) => true,
            Self::Failed { status, .. } => *status == CompletionStatus::DeviceLost,
            _ => false,
        }
    }

    /// Returns the status with which the device or the mediator ended an operation, if it is that which failed.
    #[must_use]
    pub fn status(&self) -> Option<CompletionStatus> {
        match self {
            Self::Failed { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl From<RingError> for ClientError {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Closed(HostState::DeviceLost) => Self::DeviceLost(Lost::Failed),
            RingError::Closed(HostState::Removed) => Self::DeviceLost(Lost::Removed),
            RingError::Closed(HostState::Stopped) => Self::DeviceLost(Lost::Stopped),
            RingError::Closed(_) => Self::DeviceLost(Lost::Closed),
            other => Self::Ring(other),
        }
    }
}
