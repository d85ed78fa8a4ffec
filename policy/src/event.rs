//! What executors tell the policy.
//!
//! Events say what happened, stock hardware's surprises included, and never what to do about it.
//! Blocks are aggregated: one [`Event::Blocks`] per row, group and launch, with what happened since
//! the last one, flushed at every arrival, end and plan. Each queue belongs to one device, so an
//! event does not repeat it.
//!
//! Rules:
//! - Times never run backwards within a queue by more than a policy can ignore (they are clamped to
//!   the newest seen).
//! - A tenant's [`Event::Tenant`] precedes its rows. A row's [`Event::RowNew`] precedes every other event of the row,
//!   and nothing follows its [`Event::RowGone`].
//! - Shares are cumulative, so a lost [`Event::Share`] is made good by the next.
//! - After [`Event::Lost`] the executor sends [`Event::Tenant`], [`Event::RowNew`] and
//!   [`Event::Counters`] of everything that lives, from which accounting resynchronises, and then
//!   [`Event::Resynced`]. What is not named again by then is gone.

use crate::class::Class;
use crate::ids::{GroupId, ProfileKey, RowId, TenantId};
use crate::shape::BlockShape;
use crate::units::Nanos;

/// One thing that happened on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A tenant exists, or its weight or class changed.
    Tenant {
        /// The tenant.
        tenant: TenantId,
        /// Its weight relative to the others'; 0 counts as 1.
        weight: u32,
        /// Its class.
        class: Class,
    },
    /// A tenant is gone, and its rows with it.
    TenantGone {
        /// The tenant.
        tenant: TenantId,
    },
    /// A row exists.
    RowNew {
        /// The row.
        row: RowId,
        /// The tenant that it belongs to.
        tenant: TenantId,
        /// What each block takes; for a spill row, whose launches differ, what its first one takes.
        block: BlockShape,
        /// Under which name profiles of its kernel are kept.
        profile: ProfileKey,
        /// It takes launches for which its tenant has no row left: no cap binds it, the tenant's
        /// limit does.
        spill: bool,
    },
    /// A row is gone: no launch of it is open, and no plan is to list it any more.
    RowGone {
        /// The row.
        row: RowId,
    },
    /// A launch was admitted; its blocks wait.
    Arrive {
        /// The row that it runs under.
        row: RowId,
        /// Sequence number of the launch, unique for the device.
        launch: u64,
        /// How many blocks its grid has; fewer, or none, where it is not to get more before a block of its row has
        /// ended: [`Event::Counters`] of the row follow then.
        blocks: u64,
        /// When it was admitted.
        at: Nanos,
    },
    /// The first block of a launch started.
    FirstStart {
        /// The row.
        row: RowId,
        /// The launch.
        launch: u64,
        /// Device time at which that block started.
        at: Nanos,
    },
    /// What blocks of one launch did on one group since the last such event of theirs.
    Blocks {
        /// The row.
        row: RowId,
        /// The group of the plan in force whose SMs hold them; [`GroupId::UNKNOWN`] where the
        /// executor cannot tell.
        group: GroupId,
        /// The launch.
        launch: u64,
        /// Blocks that started. A block that comes back after a context switch does not start again.
        started: u32,
        /// Blocks that ended.
        ended: u32,
        /// Sum of the residences of the blocks that ended, in nanoseconds.
        ran_ns: u64,
        /// The end of the interval.
        at: Nanos,
    },
    /// What a tenant's blocks have held, and what it was entitled to, since it exists, both in
    /// SM · nanoseconds ([`crate::ShareMeter`]).
    Share {
        /// The tenant.
        tenant: TenantId,
        /// Time integral of the dominant share that its blocks held.
        held: f64,
        /// Time integral of its weight's part of what all busy tenants held, while it was busy.
        entitled: f64,
        /// The end of the integrals.
        at: Nanos,
    },
    /// Every block of the launch has ended, or the launch was cancelled.
    Ended {
        /// The row.
        row: RowId,
        /// The launch.
        launch: u64,
        /// Device time of the end.
        at: Nanos,
    },
    /// What the blocks of a row did on a group's SMs since it exists, where the executor can count it.
    Sample {
        /// The row.
        row: RowId,
        /// The group.
        group: GroupId,
        /// Cycles since the device was made, summed over the SMs on which the row has had blocks: of two samples the
        /// difference is the time between them.
        cycles: u64,
        /// Sum of the residences of its blocks, in cycles.
        block_cycles: u64,
        /// Warp instructions issued.
        issued: u64,
        /// Cycles without an issue while a warp of the row waited for memory, the mean of an SM's schedulers.
        memory_stalls: u64,
        /// Sectors that missed in L1.
        l1_misses: u64,
        /// Sectors that missed in L2.
        l2_misses: u64,
        /// Bytes read from and written to DRAM.
        dram_bytes: u64,
    },
    /// Which instructions the blocks of a row issued on a group's SMs since it exists, where the executor can count
    /// them. It follows the row's [`Event::Sample`] of the group.
    Instructions {
        /// The row.
        row: RowId,
        /// The group.
        group: GroupId,
        /// Those whose warp waits for global memory: loads and atomic operations.
        loads: u64,
        /// Accesses to global memory, stores included.
        accesses: u64,
        /// Lines that these touched.
        lines: u64,
        /// Sectors of them that L1 had.
        l1_hits: u64,
        /// Sectors of them that L2 had.
        l2_hits: u64,
        /// Accesses to shared memory.
        shared: u64,
        /// Instructions of special functions.
        special: u64,
    },
    /// `n` events were dropped because the queue was full.
    Lost {
        /// Number of events dropped.
        n: u64,
    },
    /// Everything that lives has been named since the last [`Event::Lost`].
    Resynced,
    /// A live row's present state: the truth after [`Event::Lost`], and when how much a row wants becomes known after
    /// its launches arrived with less.
    Counters {
        /// The row.
        row: RowId,
        /// Launches that arrived and have not ended.
        open_launches: u32,
        /// Blocks that have started and not ended.
        live: u32,
        /// Blocks that arrived and have not started.
        waiting: u64,
        /// Blocks that have ended since the row was made; [`crate::Watch::ended`] counts them.
        ended: u64,
        /// When the counters were read.
        at: Nanos,
    },
    /// The plan's wake-up time has come, or an instant of virtual time is complete.
    Timer {
        /// Device time now.
        at: Nanos,
    },
}

impl Event {
    /// Returns when it happened, where the event has a time.
    #[must_use]
    pub fn at(&self) -> Option<Nanos> {
        match *self {
            Self::Arrive { at, .. }
            | Self::FirstStart { at, .. }
            | Self::Blocks { at, .. }
            | Self::Share { at, .. }
            | Self::Ended { at, .. }
            | Self::Counters { at, .. }
            | Self::Timer { at } => Some(at),
            Self::Tenant { .. }
            | Self::TenantGone { .. }
            | Self::RowNew { .. }
            | Self::RowGone { .. }
            | Self::Sample { .. }
            | Self::Instructions { .. }
            | Self::Lost { .. }
            | Self::Resynced => None,
        }
    }
}

// The queue moves 64 bytes an event: one cache line.
const _: () = assert!(size_of::<Event>() <= 64);
