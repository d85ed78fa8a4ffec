//! How domains and allocations are named, and why a memory operation is refused.
//!
//! Rule: a message says what was asked for, what there is, and what lies nearest.

use std::fmt;

/// A protection domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(pub u32);

/// A live allocation, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// First address.
    pub start: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

impl Allocation {
    /// Returns one past the last address.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes, self.start)
    }
}

/// How a message names the allocation nearest to a bad address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nearest(pub Option<Allocation>);

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(allocation) => write!(f, "the nearest allocation is {allocation}"),
            None => f.write_str("nothing is allocated"),
        }
    }
}

/// Why a memory operation was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MemoryError {
    /// The domain does not exist (any more).
    #[error("there is no memory domain {}", .0.0)]
    NoDomain(DomainId),
    /// Nothing can be allocated with zero bytes.
    #[error("an allocation of zero bytes was asked for; ask for at least one")]
    ZeroBytes,
    /// The domain's limit would be exceeded, or its window is too fragmented.
    #[error("{asked} bytes do not fit: {used} of {limit} bytes are in use; free something first")]
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The domain's limit.
        limit: u64,
    },
    /// The access leaves every allocation.
    #[error("{bytes} bytes at {address:#x} lie outside every allocation; {nearest}")]
    OutOfBounds {
        /// First address of the access.
        address: u64,
        /// Its length.
        bytes: u64,
        /// What lies nearest.
        nearest: Nearest,
    },
    /// The address to be freed is not the start of an allocation, or was freed before.
    #[error("{address:#x} is not the start of a live allocation, so it cannot be freed; {nearest}")]
    NotAllocated {
        /// The address.
        address: u64,
        /// What lies nearest.
        nearest: Nearest,
    },
    /// Others have the memory mapped, so that it cannot be borrowed.
    #[error("the memory at {address:#x} is shared with other processes; copy its bytes instead")]
    Shared {
        /// The address.
        address: u64,
    },
    /// Files' ranges and physical memory of all domains have taken as many mappings of the process as they may.
    #[error(
        "files and physical memory have all {most} mappings that there are for them; unmap something first"
    )]
    Mappings {
        /// How many there are.
        most: u64,
    },
    /// The host refuses the window, or to map a file in one.
    #[error("the host cannot map {bytes} bytes of device memory: {reason}")]
    Host {
        /// Size of the window or the range.
        bytes: u64,
        /// What the host said.
        reason: String,
    },
}

/// Returns a refusal of a range.
pub(super) fn bad(address: u64, bytes: u64) -> MemoryError {
    MemoryError::OutOfBounds {
        address,
        bytes,
        nearest: Nearest(None),
    }
}
