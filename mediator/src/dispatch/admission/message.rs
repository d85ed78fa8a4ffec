//! The messages between the control thread and the dispatcher.
//!
//! Rules: messages go through bounded lock-free queues; whatever a message carries was allocated by the control
//! thread and comes back to it ([`Notice::Gone`]) to be freed, because the dispatcher frees nothing.

use super::client::{ClientKernel, ClientSlot, Mapping};
use crate::device::{BufferId, Tag};
use crate::dispatch::feed::accounts::Account;
use crate::dispatch::ids::Slot;
use crate::dispatch::issuer::reading::RowReadings;
use gridmux_channel::ring::queue::Corrupt;
use gridmux_channel::ring::{BadEntry, CompletionStatus};
use gridmux_launch::boxes::ShapeError;
use gridmux_policy::ids::TenantId;

/// From the control thread to the dispatcher.
pub enum Message<P> {
    /// A tenant exists, or its weight or class changed.
    Tenant(Box<Account>),
    /// A tenant is no longer configured and has no client left.
    TenantGone(TenantId),
    /// A client joins at a slot that the control thread knows to be free.
    Join(Slot, Box<ClientSlot<P>>),
    /// A client leaves: drop its queue, kill what runs, then say [`Notice::Gone`].
    Leave(Slot),
    /// A kernel becomes known under the next handle, or under a freed one.
    AddKernel(Slot, u32, ClientKernel),
    /// A kernel handle ends.
    RemoveKernel(Slot, u32),
    /// A stream is made.
    AddStream(Slot, u16),
    /// A stream ends once it is empty; until [`Notice::StreamGone`] its number stays taken.
    RemoveStream(Slot, u16),
    /// A buffer becomes known.
    AddMapping(Slot, Mapping),
    /// A buffer is forgotten.
    RemoveMapping(Slot, BufferId),
    /// Asks for [`Notice::Fenced`] with this number once everything that was admitted of the client has ended.
    Fence(Slot, u64),
    /// A control operation was served: on a virtual clock it costs its client time.
    Charge(Slot),
    /// A control operation waits until the client's next fence is reached or one of its streams is gone: till then the
    /// client does not hold the virtual clock, though it runs.
    Postponed(Slot),
    /// Asks for the next rows, as [`Notice::Rows`].
    ReadRows(Box<RowReadings>),
    /// Ends the dispatcher once nothing is on the device; nothing is admitted any more. Said a second time, it ends the
    /// dispatcher at once.
    Stop,
}

/// From the dispatcher to the control thread.
pub enum Notice<P> {
    /// A client is gone; its slot is free and nothing of it is in flight.
    Gone(Slot, Box<ClientSlot<P>>),
    /// An account that the dispatcher has no use for: its tenant was known already, or is gone. To be freed.
    Known(Box<Account>),
    /// Answer to [`Message::ReadRows`].
    Rows(Box<RowReadings>),
    /// A client broke the ring protocol and must lose its channel.
    Corrupt(Slot, Corrupt),
    /// A stream is empty and gone; its number is free.
    StreamGone(Slot, u16),
    /// Everything that was admitted of the client before the fence has ended.
    Fenced(Slot, u64),
    /// An operation failed on the device; the text is at the device under the tag.
    Failed {
        /// The client.
        slot: Slot,
        /// Its name for the operation.
        cookie: u64,
        /// The device's name for it.
        tag: Tag,
        /// It is a launch that ended at its budget, and ran in pieces until then.
        was_cut: bool,
    },
    /// An operation was refused before it reached the device.
    Refused {
        /// The client.
        slot: Slot,
        /// Its name for the operation.
        cookie: u64,
        /// Why the operation was refused.
        reason: Refusal,
    },
}

/// Why a submission never reached the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A reserved field is not zero.
    #[error("a reserved field of the submission is not zero")]
    Reserved,
    /// Unknown operation code.
    #[error("operation code {0} is unknown")]
    Opcode(u8),
    /// A field of the submission that makes no sense.
    #[error(transparent)]
    Form(BadEntry),
    /// No such stream.
    #[error("stream {0} does not exist; make one first, or use stream 0")]
    Stream(u16),
    /// No such kernel handle.
    #[error("kernel handle {0} does not exist; get one by loading a module")]
    Kernel(u32),
    /// A kernel that the device cannot run; the control thread knows why.
    #[error("the kernel behind handle {0} cannot run on this device")]
    Unusable(u32),
    /// A grid or block of a shape that no device takes.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// More threads than the kernel or the device takes.
    #[error("a block of {threads} threads is more than the {limit} that this kernel takes")]
    Threads {
        /// Threads of the block.
        threads: u32,
        /// Most that it may have.
        limit: u32,
    },
    /// 2^32 blocks and more cannot be counted by a slice.
    #[error("a grid of 2^32 blocks or more cannot be sliced, and is refused")]
    TooManyBlocks,
    /// Too few or too many parameter bytes.
    #[error("the kernel takes {wants} bytes of parameters, the launch has {has}")]
    Params {
        /// Number that the kernel takes.
        wants: u32,
        /// Number that the launch has.
        has: u32,
    },
    /// Parameters outside the argument area.
    #[error("parameters at {offset}+{len} lie outside the argument area")]
    ArgumentArea {
        /// Offset.
        offset: u32,
        /// Length.
        len: u32,
    },
    /// More shared memory than an SM has.
    #[error("a block wants {wants} bytes of shared memory, it may have {has}")]
    SharedMemory {
        /// Number that the block asks for.
        wants: u64,
        /// Number that there is.
        has: u64,
    },
    /// A block that no SM can hold.
    #[error("a block of {threads} threads with {registers} registers does not fit on an SM")]
    DoesNotFit {
        /// Threads, in whole warps.
        threads: u32,
        /// Registers, in allocation units.
        registers: u32,
    },
    /// A cooperative launch whose blocks the device does not hold all at once.
    #[error(
        "the {blocks} blocks of a cooperative launch do not reside at once: the device holds {most}"
    )]
    NotAtOnce {
        /// Blocks of the grid.
        blocks: u64,
        /// Blocks that the device holds.
        most: u32,
    },
    /// A copy outside every mapped buffer.
    #[error("copy of {bytes} bytes at I/O address {iova:#x} lies outside every mapped buffer")]
    Mapping {
        /// I/O virtual address.
        iova: u64,
        /// Length.
        bytes: u64,
    },
}

impl Refusal {
    /// Returns the status of the completion.
    #[must_use]
    pub fn status(self) -> CompletionStatus {
        match self {
            Self::Opcode(_) | Self::Reserved | Self::Form(_) => CompletionStatus::BadEntry,
            Self::Stream(_) => CompletionStatus::BadStream,
            Self::Kernel(_) | Self::Unusable(_) => CompletionStatus::BadKernel,
            Self::Shape(_)
            | Self::TooManyBlocks
            | Self::Threads { .. }
            | Self::SharedMemory { .. }
            | Self::DoesNotFit { .. }
            | Self::NotAtOnce { .. } => CompletionStatus::BadShape,
            Self::Params { .. } | Self::ArgumentArea { .. } => CompletionStatus::BadArguments,
            Self::Mapping { .. } => CompletionStatus::BadIova,
        }
    }
}
