//! What a [`super::Driver`] needs of an executor that lets virtual time pass.
//!
//! Rules: an engine obeys the newest plan from the instant at which it was set; it tells everything that happened until
//! `now` before more time passes; launches are named by the driver's numbers.

use gridmux_policy::blocks::{BlockEvent, Standing};
use gridmux_policy::event::Event;
use gridmux_policy::ids::{GroupId, ProfileKey, RowId, SmId};
use gridmux_policy::plan::Plan;
use gridmux_policy::policy::Watch;
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::units::{Cycles, Nanos};
use std::sync::Arc;

/// An executor on virtual time, idle when the driver takes it.
pub trait Engine {
    /// A kernel; two launches run the same one if they hold the same [`Arc`].
    type Kernel;
    /// A launch that a tenant asks for.
    type Submission;
    /// What a launch did.
    type Counters;
    /// Why a launch is refused when it is submitted.
    type Refusal;
    /// Why a launch did not end in good order.
    type Failure;

    /// Returns the device.
    fn shape(&self) -> DeviceShape;

    /// Returns the present time.
    fn now(&self) -> Cycles;

    /// Returns a time or duration in nanoseconds.
    fn time(&self, at: Cycles) -> Nanos;

    /// Returns the first cycle at or after a time.
    fn cycle(&self, at: Nanos) -> Cycles;

    /// Returns what is known of a launch before it arrives.
    ///
    /// # Errors
    /// Why it cannot run, whatever else does.
    fn describe(
        &self,
        submission: &Self::Submission,
    ) -> Result<Described<Self::Kernel>, Self::Refusal>;

    /// Returns the name under which profiles of a kernel are kept.
    fn profile(&self, kernel: &Self::Kernel, block: &BlockShape) -> ProfileKey;

    /// Obeys a plan from now on. The first one is set before any launch.
    fn set_plan(&mut self, plan: &Plan);

    /// Admits a launch under a row; its blocks wait from now on.
    ///
    /// # Errors
    /// Why it cannot run; it leaves no trace.
    fn launch(
        &mut self,
        number: u64,
        standing: Standing,
        submission: &Self::Submission,
    ) -> Result<(), Self::Failure>;

    /// Drops a launch that has arrived and not ended; no further event names it.
    fn kill(&mut self, number: u64);

    /// Forgets what was counted for a row that has no open launch.
    fn forget_row(&mut self, row: RowId);

    /// Lets time pass until a cycle, at most until a launch has ended or the watched row has ended as many blocks as
    /// the watch says. May come back earlier, and may pass the cycle by as much as it cannot divide. Returns the
    /// launches that ended, in order of time.
    fn advance(&mut self, until: Cycles, watch: Option<Watch>) -> Vec<Ending<Self>>;

    /// Takes what happened to blocks since the last call, in any order.
    fn take_blocks(&mut self) -> Vec<BlockEvent>;

    /// Returns what the blocks of each row did on each SM since the row was made; nothing where the engine does not
    /// count it.
    fn samples(&self) -> Vec<RowSample>;
}

/// What is known of a launch before it arrives.
#[derive(Debug)]
pub struct Described<K> {
    /// Its kernel.
    pub kernel: Arc<K>,
    /// What each block takes.
    pub block: BlockShape,
    /// Number of its blocks.
    pub blocks: u64,
    /// Its tenant's queue: launches of one run one after another, in order of arrival.
    pub queue: u64,
}

/// A launch that ended.
#[derive(Debug)]
pub struct Ending<E: Engine + ?Sized> {
    /// Its number.
    pub number: u64,
    /// When it ended.
    pub at: Cycles,
    /// What it did, or why it did not end in good order.
    pub result: Result<E::Counters, E::Failure>,
}

/// What the blocks of one row did on one SM since the row was made; the terms of [`Event::Sample`]
/// and [`Event::Instructions`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowSample {
    /// SM.
    pub sm: SmId,
    /// Row.
    pub row: RowId,
    /// Cycles since the engine was made.
    pub cycles: u64,
    /// Sum of the residences of its blocks.
    pub block_cycles: u64,
    /// Warp instructions issued.
    pub issued: u64,
    /// Cycles without an issue while a warp of the row waited for memory, the mean of the SM's schedulers.
    pub memory_stalls: u64,
    /// Sectors that missed in L1.
    pub l1_misses: u64,
    /// Sectors that missed in L2.
    pub l2_misses: u64,
    /// Bytes read from and written to DRAM.
    pub dram_bytes: u64,
    /// Loads from global memory and atomic operations on it, in warp instructions.
    pub loads: u64,
    /// Accesses to global memory, stores included.
    pub accesses: u64,
    /// Lines that these touched.
    pub lines: u64,
    /// Sectors of them that L1 had.
    pub l1_hits: u64,
    /// Sectors of them that L2 had.
    pub l2_hits: u64,
    /// Accesses to shared memory.
    pub shared: u64,
    /// Warp instructions of special functions.
    pub special: u64,
}

impl RowSample {
    /// Adds another SM's counts of the same row.
    pub(super) fn add(&mut self, other: &Self) {
        self.cycles += other.cycles;
        self.block_cycles += other.block_cycles;
        self.issued += other.issued;
        self.memory_stalls += other.memory_stalls;
        self.l1_misses += other.l1_misses;
        self.l2_misses += other.l2_misses;
        self.dram_bytes += other.dram_bytes;
        self.loads += other.loads;
        self.accesses += other.accesses;
        self.lines += other.lines;
        self.l1_hits += other.l1_hits;
        self.l2_hits += other.l2_hits;
        self.shared += other.shared;
        self.special += other.special;
    }

    /// Returns the counts as events of a group.
    pub(super) fn events(&self, group: GroupId) -> [Event; 2] {
        let sample = Event::Sample {
            row: self.row,
            group,
            cycles: self.cycles,
            block_cycles: self.block_cycles,
            issued: self.issued,
            memory_stalls: self.memory_stalls,
            l1_misses: self.l1_misses,
            l2_misses: self.l2_misses,
            dram_bytes: self.dram_bytes,
        };
        let instructions = Event::Instructions {
            row: self.row,
            group,
            loads: self.loads,
            accesses: self.accesses,
            lines: self.lines,
            l1_hits: self.l1_hits,
            l2_hits: self.l2_hits,
            shared: self.shared,
            special: self.special,
        };
        [sample, instructions]
    }
}
