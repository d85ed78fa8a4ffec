//! Blocks that are on an SM: their room, their warps' slots, their start and their end.
//!
//! Room is taken when the block scheduler reserves it; the block itself starts in the SM's own part of the epoch, and
//! its room is free when its last warp has ended, when it was moved, or when its launch is dropped.
//!
//! L1 and the caches of constants and textures are not coherent: what a launch reads there must not be older than the
//! launches and copies before it. They are emptied between dependent grids (PTX ISA, cache operators: «the driver must
//! invalidate global L1 cache lines between dependent grids of parallel threads»), and when a launch comes to an SM
//! that has run dry (GPGPU-Sim's `gpgpu_flush_l1_cache`). Launches of different streams that share an SM, as slices of
//! one kernel do, share its caches too. Where L1 and shared memory share one memory, the blocks' shared memory decides
//! how much of it is cache. Rules: a slot's generation changes whenever its warp does, so that an
//! answer for an earlier warp of the slot is recognised as such; a resident without a kernel has room and has not
//! started, or is coming back.

use super::copy_groups::CopyGroups;
use super::fetch::Buffer;
use super::launches::LaunchState;
use super::room::{BlockSite, FreeResources};
use super::sm::{Epoch, Sm, SmEvent};
use crate::config::{GpuConfig, WARP_LANES};
use crate::counters::Counters;
use crate::exec::{Block, BlockShape, Warp};
use crate::kernel::Kernel;
use crate::occupancy::BlockNeeds;
use gridmux_policy::ids::{RowId, TenantId};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Ready,
    Asleep,
    /// A register it needs is on its way from memory.
    Blocked,
    AtBarrier,
    /// Its block is leaving; it could go on otherwise.
    Held,
    /// Ended or faulted; the slot is free when its block is.
    Stopped,
}

#[derive(Debug)]
pub(super) struct WarpSlot {
    pub(super) warp: Warp,
    pub(super) state: State,
    pub(super) block: u8,
    /// Tells a slot's present warp from earlier ones.
    pub(super) generation: u32,
    pub(super) wake_at: u64,
    /// Its instruction buffer, where the front end is modelled.
    pub(super) buffer: Buffer,
    /// Earliest issue of the next operation, apart from registers.
    pub(super) not_before: u64,
    /// End of its last `nanosleep`.
    pub(super) slept_until: u64,
    /// Cycle in which its writes to global memory are complete.
    pub(super) written_at: u64,
    pub(super) copies: CopyGroups,
    /// Cycle in which each register and predicate has its value.
    pub(super) ready_at: Vec<u64>,
    /// Order of arrival, for the oldest-first policy.
    pub(super) age: u64,
}

#[derive(Debug)]
pub(super) struct Resident {
    pub(super) block: Block,
    pub(super) kernel: Option<Arc<Kernel>>,
    pub(super) launch: u32,
    /// Number in its grid.
    pub(super) linear: u64,
    /// The plan's row that it runs under.
    pub(super) row: RowId,
    /// The tenant that it belongs to.
    pub(super) tenant: TenantId,
    pub(super) needs: BlockNeeds,
    /// Where its registers and shared memory lie.
    pub(super) place: BlockSite,
    pub(super) started: u64,
    /// Cycles that it was resident before it came back.
    pub(super) ran_cycles: u64,
    /// Warp slot of each warp of the block.
    pub(super) slots: [u8; 32],
    pub(super) counters: Counters,
}

/// A block that has its room since `at` and starts in the SM's next epoch; its first warp issues `launch.block_cycles`
/// later, the others `launch.warp_cycles` apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) resident: usize,
    pub(super) launch: u32,
    pub(super) shape: BlockShape,
    pub(super) linear: u64,
    pub(super) at: u64,
}

/// The blocks that are on an SM.
#[derive(Debug)]
pub(super) struct Residency {
    /// One for each block that an SM can hold, taken or not.
    pub(super) blocks: Vec<Resident>,
    /// Numbers of free blocks, one bit each.
    free_blocks: u64,
    /// Free warp slots, one bit each.
    free_warps: u64,
    /// What of registers, shared memory, warps and blocks is free.
    pub(super) room: FreeResources,
    /// Blocks that have room and start in the next epoch.
    pub(super) starts: Vec<Start>,
    /// When the next warp's first instruction may issue at the earliest (`launch.warp_cycles`).
    next_warp_at: u64,
    /// Age of the next warp that arrives.
    next_age: u64,
    /// The newest launch that had a block here.
    newest_launch: u64,
}

impl Residency {
    pub(super) fn new(config: &GpuConfig) -> Self {
        let mask = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
        Self {
            blocks: (0..config.sm.max_blocks).map(|_| Resident::new()).collect(),
            free_blocks: mask(config.sm.max_blocks),
            free_warps: mask(config.warps_per_sm()),
            room: FreeResources::new(config),
            starts: Vec::with_capacity(32),
            next_warp_at: 0,
            next_age: 0,
            newest_launch: 0,
        }
    }

    /// Returns the numbers of the blocks that are taken, one bit each.
    pub(super) fn taken(&self) -> u64 {
        !self.free_blocks & (u64::MAX >> (64 - self.blocks.len()))
    }

    /// Returns whether no block has started here and not ended.
    fn is_dry(&self) -> bool {
        self.blocks.iter().all(|r| r.kernel.is_none())
    }

    /// Takes the room of a block that fits; returns its number.
    pub(super) fn take(
        &mut self,
        needs: &BlockNeeds,
        launch: u32,
        (row, tenant): (RowId, TenantId),
        linear: u64,
    ) -> usize {
        let number = self.free_blocks.trailing_zeros() as usize;
        self.free_blocks &= !(1 << number);
        let resident = &mut self.blocks[number];
        resident.place = self.room.take(needs);
        resident.launch = launch;
        resident.row = row;
        resident.tenant = tenant;
        resident.linear = linear;
        resident.needs = *needs;
        number
    }
}

impl Sm {
    /// Returns the blocks that are resident.
    pub(crate) fn resident_blocks(&self) -> u32 {
        u32::try_from(self.residency.blocks.len()).unwrap_or(0) - self.residency.room.blocks()
    }

    /// Returns whether a block of these needs fits, its registers and its shared memory each in one piece.
    pub(crate) fn fits(&self, needs: &BlockNeeds) -> bool {
        self.residency.room.fits(needs)
    }

    /// Reserves room for a block that fits, which starts at `at`, not before the SM's time.
    pub(crate) fn place(
        &mut self,
        launch: &LaunchState,
        index: u32,
        shape: &BlockShape,
        linear: u64,
        at: u64,
    ) {
        let number = self
            .residency
            .take(&launch.needs, index, (launch.row, launch.tenant), linear);
        self.residency.starts.push(Start {
            resident: number,
            launch: index,
            shape: *shape,
            linear,
            at,
        });
        self.status.starts = true;
    }

    pub(super) fn start(&mut self, start: &Start, launch: &LaunchState, epoch: &Epoch<'_>) {
        if launch.serial > self.residency.newest_launch {
            self.residency.newest_launch = launch.serial;
            if launch.is_dependent || self.residency.is_dry() {
                self.caches.empty(epoch.config.l1.flush_at_launch);
            }
        }
        self.carve_out(epoch);
        let number = start.resident;
        let needs = launch.needs;
        let apart = u64::from(epoch.config.launch.warp_cycles);
        let mut at = start.at + u64::from(epoch.config.launch.block_cycles);
        at = at.max(self.residency.next_warp_at);
        let resident = &mut self.residency.blocks[number];
        resident.block.start(
            &launch.kernel,
            &start.shape,
            start.linear,
            u32::from(self.id),
        );
        resident.kernel = Some(launch.kernel.clone());
        resident.started = start.at;
        resident.ran_cycles = 0;
        resident.counters = Counters::default();
        for warp in 0..needs.warps {
            let slot = self.take_slot(number, warp, launch, at);
            let entry = &mut self.warps[slot as usize];
            entry.warp.start(&launch.kernel, warp, launch.threads);
            self.schedule(slot, epoch);
            at += apart;
        }
        if apart != 0 {
            self.residency.next_warp_at = at;
        }
    }

    /// Sizes L1 by the shared memory that blocks have.
    pub(super) fn carve_out(&mut self, epoch: &Epoch<'_>) {
        let (used, is_dry) = (self.residency.room.shared_in_use(), self.residency.is_dry());
        self.caches.carve_out(&epoch.config.l1, used, is_dry);
    }

    /// Takes a slot for a warp of a block, which goes on at `at`.
    pub(super) fn take_slot(
        &mut self,
        number: usize,
        warp: u32,
        launch: &LaunchState,
        at: u64,
    ) -> u32 {
        let slot = self.residency.free_warps.trailing_zeros();
        self.residency.free_warps &= !(1 << slot);
        self.residency.blocks[number].slots[warp as usize] = u8::try_from(slot).unwrap_or(0);
        let entry = &mut self.warps[slot as usize];
        entry.block = u8::try_from(number).unwrap_or(0);
        entry.generation = entry.generation.wrapping_add(1);
        entry.not_before = at;
        entry.slept_until = 0;
        entry.written_at = 0;
        entry.copies = CopyGroups::default();
        entry.buffer = Buffer::default();
        entry.age = self.residency.next_age;
        self.residency.next_age += 1;
        let registers = usize::from(launch.kernel.slots) + usize::from(launch.kernel.predicates);
        entry.ready_at.clear();
        entry.ready_at.resize(registers, 0);
        self.arbiter.arrived(slot);
        self.quotas.arrived(slot, launch.row, self.now);
        slot
    }

    /// Removes every block of a launch at `now`; nothing is reported, but what they did here stays counted.
    pub(crate) fn drop_launch(&mut self, launch: u32, now: u64) {
        if !self.context_switches.moves.is_empty() {
            self.drop_moves(launch, now);
        }
        let of_launch = |s: &Start| s.launch == launch;
        while let Some(at) = self.residency.starts.iter().position(of_launch) {
            let start = self.residency.starts.remove(at);
            self.give_room_back(start.resident);
        }
        let taken = !self.residency.free_blocks;
        for number in 0..self.residency.blocks.len() {
            let resident = &self.residency.blocks[number];
            if taken >> number & 1 != 0 && resident.kernel.is_some() && resident.launch == launch {
                let (row, done) = (resident.row, self.done_here(number, now));
                self.count_towards_totals(row, &done);
                self.free(number);
            }
        }
    }

    pub(super) fn retire(&mut self, number: usize) {
        let at = self.now + 1;
        let mut counters = self.done_here(number, at);
        counters.blocks = 1;
        let resident = &self.residency.blocks[number];
        let row = resident.row;
        self.events.push(SmEvent::Retired {
            launch: resident.launch,
            linear: resident.linear,
            at,
            counters,
            ran_cycles: resident.ran_cycles + counters.block_cycles,
        });
        self.count_towards_totals(row, &counters);
        self.free(number);
    }

    pub(super) fn free(&mut self, number: usize) {
        let resident = &mut self.residency.blocks[number];
        resident.kernel = None;
        for slot in &resident.slots[..resident.needs.warps as usize] {
            let slot = u32::from(*slot);
            self.residency.free_warps |= 1 << slot;
            self.arbiter.left(slot);
            self.arrivals.left(slot);
            self.context_switches.held &= !(1 << slot);
            if self.quotas.on {
                self.quotas.left(slot);
            }
            let entry = &mut self.warps[slot as usize];
            entry.state = State::Free;
            entry.generation = entry.generation.wrapping_add(1);
        }
        self.give_room_back(number);
    }

    pub(super) fn give_room_back(&mut self, number: usize) {
        self.residency.free_blocks |= 1 << number;
        self.context_switches.leaving &= !(1 << number);
        let resident = &self.residency.blocks[number];
        self.residency
            .room
            .give_back(&resident.needs, resident.place);
    }

    /// Counters of the launch that a warp belongs to.
    pub(super) fn counters_of(&mut self, slot: u32) -> &mut Counters {
        let block = usize::from(self.warps[slot as usize].block);
        &mut self.residency.blocks[block].counters
    }
}

impl WarpSlot {
    pub(super) fn new() -> Self {
        Self {
            warp: Warp::default(),
            state: State::Free,
            block: 0,
            generation: 0,
            wake_at: 0,
            buffer: Buffer::default(),
            not_before: 0,
            slept_until: 0,
            written_at: 0,
            copies: CopyGroups::default(),
            ready_at: Vec::new(),
            age: 0,
        }
    }
}

impl Resident {
    pub(super) fn new() -> Self {
        Self {
            block: Block::new(),
            kernel: None,
            launch: u32::MAX,
            linear: 0,
            row: RowId(0),
            tenant: TenantId(0),
            ran_cycles: 0,
            needs: BlockNeeds {
                warps: 0,
                registers: 0,
                shared_bytes: 0,
            },
            place: BlockSite::default(),
            started: 0,
            slots: [0; WARP_LANES as usize],
            counters: Counters::default(),
        }
    }
}
