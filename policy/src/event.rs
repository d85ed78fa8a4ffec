//! What executors tell the policy.
//!
//! Events are aggregated: one per slice, chunk or tick and never one per block where several
//! blocks shared a fate. They say what happened, stock hardware's surprises included, and never
//! what to do about it. Each queue belongs to one device, so an event does not repeat it.
//!
//! Rules: times never run backwards within a queue by more than a policy can ignore (they are
//! clamped to the newest seen); after [`Event::Lost`] the executor sends one [`Event::Counters`]
//! for each live kernel, from which accounting resynchronises.

use crate::ids::{GroupId, KernelId, TenantId};
use crate::shape::BlockShape;
use crate::units::Nanos;

/// One thing that happened on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A launch was admitted; its blocks wait.
    Arrive {
        /// The standing row it runs under.
        kernel: KernelId,
        /// Whose it is.
        tenant: TenantId,
        /// Sequence number of the launch, unique for the device.
        launch: u64,
        /// How many blocks its grid has.
        blocks: u64,
        /// What each block takes.
        block: BlockShape,
        /// When it was admitted.
        at: Nanos,
    },
    /// `n` blocks were handed to the device, or started where the device says so.
    Placed {
        /// The row.
        kernel: KernelId,
        /// The launch they belong to.
        launch: u64,
        /// How many.
        n: u32,
        /// When.
        at: Nanos,
    },
    /// `n` blocks ended (a slice on stock hardware, whose blocks are reported together).
    Retired {
        /// The row.
        kernel: KernelId,
        /// The launch they belong to.
        launch: u64,
        /// How many.
        n: u32,
        /// The sum of the times that each of them was resident, in nanoseconds.
        ran_sum_ns: u64,
        /// When the executor saw the end.
        at: Nanos,
    },
    /// Every block of the launch has ended, or the launch was cancelled.
    Ended {
        /// The row.
        kernel: KernelId,
        /// The launch.
        launch: u64,
        /// When.
        at: Nanos,
    },
    /// The row had blocks to start, but holds as many as its cap permits.
    CapReached {
        /// The row.
        kernel: KernelId,
        /// When.
        at: Nanos,
    },
    /// Blocks came to an SM whose row is full and left again without work (worker form).
    Bounced {
        /// The row.
        kernel: KernelId,
        /// The group of the SM that turned them away.
        group: GroupId,
        /// How many.
        n: u32,
        /// When.
        at: Nanos,
    },
    /// The kernel could not take the form that the row assumes and runs in a coarser one.
    Degraded {
        /// The row.
        kernel: KernelId,
        /// When.
        at: Nanos,
    },
    /// `n` events were dropped because the queue was full.
    Lost {
        /// How many.
        n: u64,
    },
    /// A kernel's totals since it was numbered: the truth after [`Event::Lost`].
    Counters {
        /// The row.
        kernel: KernelId,
        /// Launches that arrived and have not ended.
        open_launches: u32,
        /// Blocks that arrived and were not placed.
        waiting: u64,
        /// Blocks that were placed and have not retired.
        in_flight: u32,
        /// The sum of the times that retired blocks were resident, in nanoseconds.
        ran_total_ns: u64,
        /// When the counters were read.
        at: Nanos,
    },
    /// A tenant was admitted, or its weight changed.
    TenantJoined {
        /// Who.
        tenant: TenantId,
        /// Its weight relative to the others'; 0 counts as 1.
        weight: u32,
    },
    /// A tenant is gone, and its kernels with it.
    TenantLeft {
        /// Who.
        tenant: TenantId,
    },
    /// The device failed; everything in flight is gone.
    DeviceLost,
    /// The plan's wake-up time has come.
    Timer {
        /// When.
        at: Nanos,
    },
}

impl Event {
    /// When it happened, where the event has a time.
    #[must_use]
    pub fn at(&self) -> Option<Nanos> {
        match *self {
            Self::Arrive { at, .. }
            | Self::Placed { at, .. }
            | Self::Retired { at, .. }
            | Self::Ended { at, .. }
            | Self::CapReached { at, .. }
            | Self::Bounced { at, .. }
            | Self::Degraded { at, .. }
            | Self::Counters { at, .. }
            | Self::Timer { at } => Some(at),
            Self::Lost { .. }
            | Self::TenantJoined { .. }
            | Self::TenantLeft { .. }
            | Self::DeviceLost => None,
        }
    }
}

// Two events share a pair of cache lines: the queue moves 64 bytes an event.
const _: () = assert!(size_of::<Event>() <= 64);
