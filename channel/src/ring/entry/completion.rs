//! The 32-byte completion.
//!
//! Every submission gets exactly one, in whatever order they end. The times
//! are those of the device's clock, which is virtual for the SM model.

use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A completion as it stands in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CompletionEntry {
    /// The cookie of the submission.
    pub cookie: u64,
    /// How it ended, a [`CompletionStatus`].
    pub status: u32,
    /// The queue's, zero.
    pub turn: u32,
    /// When the device started on it, nanoseconds of the device's clock.
    pub start_ns: u64,
    /// When the device ended it, nanoseconds of the device's clock.
    pub end_ns: u64,
}

const _: () = assert!(size_of::<CompletionEntry>() == crate::ring::layout::COMPLETION_BYTES);

impl CompletionEntry {
    /// Returns a completion of the submission with `cookie`.
    #[must_use]
    pub fn new(cookie: u64, status: CompletionStatus, start_ns: u64, end_ns: u64) -> Self {
        Self {
            cookie,
            status: status as u32,
            turn: 0,
            start_ns,
            end_ns,
        }
    }

    /// Returns the entry as the words that travel through the queue.
    #[must_use]
    pub fn to_words(self) -> [u64; 4] {
        zerocopy::transmute!(self)
    }

    /// Returns the entry that the words of a queue hold.
    #[must_use]
    pub fn from_words(words: [u64; 4]) -> Self {
        zerocopy::transmute!(words)
    }
}

/// How a submission ended. The text of a failure is asked for with
/// [`crate::control::ControlRequest::LastError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u32)]
pub enum CompletionStatus {
    /// It did what was asked.
    #[error("done")]
    Ok = 0,
    /// The entry means nothing ([`super::BadEntry`]).
    #[error("malformed submission")]
    BadEntry = 1,
    /// No such stream.
    #[error("unknown stream")]
    BadStream = 2,
    /// No such kernel.
    #[error("unknown kernel")]
    BadKernel = 3,
    /// The grid, block or shared memory is zero or over the device's limits.
    #[error("grid, block or shared memory out of range")]
    BadShape = 4,
    /// Parameters are too few, too many, or outside the argument area.
    #[error("kernel parameters refused")]
    BadArguments = 5,
    /// A device address outside the tenant's allocations.
    #[error("device address out of bounds")]
    BadAddress = 6,
    /// A DMA address outside the tenant's mappings, or one without the right.
    #[error("DMA address not mapped")]
    BadIova = 7,
    /// The kernel accessed memory outside its allocations or misaligned.
    #[error("memory fault in the kernel")]
    MemoryFault = 8,
    /// The kernel trapped, failed an assertion or a barrier.
    #[error("the kernel trapped")]
    Trap = 9,
    /// The kernel ran longer than its budget.
    #[error("the kernel exceeded its budget")]
    Budget = 10,
    /// Something before it on the same stream failed.
    #[error("cancelled because an earlier operation of the stream failed")]
    Cancelled = 11,
    /// The device failed; reconnect.
    #[error("the device was lost")]
    DeviceLost = 12,
    /// The mediator failed.
    #[error("internal error of the mediator")]
    Internal = 13,
}

impl CompletionStatus {
    const ALL: [Self; 14] = [
        Self::Ok,
        Self::BadEntry,
        Self::BadStream,
        Self::BadKernel,
        Self::BadShape,
        Self::BadArguments,
        Self::BadAddress,
        Self::BadIova,
        Self::MemoryFault,
        Self::Trap,
        Self::Budget,
        Self::Cancelled,
        Self::DeviceLost,
        Self::Internal,
    ];
}

impl TryFrom<u32> for CompletionStatus {
    type Error = u32;

    /// Gives the raw value back if no status has it.
    fn try_from(raw: u32) -> Result<Self, u32> {
        Self::ALL.get(raw as usize).copied().ok_or(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::CompletionStatus;

    #[test]
    fn statuses_round_trip() {
        for (raw, status) in CompletionStatus::ALL.iter().enumerate() {
            assert_eq!(*status as usize, raw);
        }
        assert_eq!(CompletionStatus::try_from(14), Err(14));
    }
}
