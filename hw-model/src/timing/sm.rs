//! One streaming multiprocessor: resident blocks, their room, and the loop over cycles.
//!
//! A warp is ready, asleep until a known cycle, blocked on memory, or waiting at a barrier. Ready warps stand in
//! bit masks per scheduler and pipeline, so that choosing one is a few mask operations; sleeping warps stand in
//! the wheel; nobody is ever scanned. Which warp issues, and what that does, is `issue`; what an access costs is
//! `load_store`; why nobody issued is `stalls`.
//! Rules: warp slot `w` belongs to scheduler `w % schedulers`; room is taken when the block scheduler reserves it,
//! the block itself starts in the SM's own part of the epoch; results of an instruction exist functionally at issue
//! (those of global atomic operations at the epoch's end) and for the scoreboard when its latency is over.
//! Length: the life of a block on its SM, from its start to its end, is one state machine.

use super::cache::Cache;
use super::coalesce::Lines;
use super::context_switch::{Moving, SavedBlock};
use super::copy_arrivals::CopyArrivals;
use super::copy_groups::CopyGroups;
use super::exchange::Exchange;
use super::fetch::{Buffer, FrontEnd};
use super::issue::Arbiter;
use super::launches::{LaunchState, Launches};
use super::load_store::{Miss, PendingLoad, Waiter};
use super::memory_system::{Reply, Request, Topology};
use super::pool::Pool;
use super::quota::{QuotaWeights, Quotas};
use super::room::{Place, Room};
use super::wheel::Wheel;
use crate::config::{GpuConfig, WARP_LANES};
use crate::counters::Counters;
use crate::exec::{Access, Block, BlockShape, Meeting, RangeCache, RawFault, Step, Warp, WriteLog};
use crate::fault::{Fault, FaultKind};
use crate::kernel::Kernel;
use crate::memory::Memory;
use crate::occupancy::BlockNeeds;
use gridmux_policy::ids::KernelId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Scoreboard time of a register whose load is on its way.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// What an SM tells about an epoch.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each block"
)]
pub(crate) enum SmEvent {
    /// A block ended.
    Retired {
        launch: u32,
        linear: u64,
        at: u64,
        counters: Counters,
        /// Cycles that it was resident, on all SMs that it was on.
        ran_cycles: u64,
    },
    /// A block was switched out.
    Saved {
        at: u64,
        counters: Counters,
        saved: Box<SavedBlock>,
    },
    /// Lanes printed.
    Printed { launch: u32, text: String },
    /// A launch faulted.
    Faulted {
        launch: u32,
        at: u64,
        fault: Box<Fault>,
    },
}

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
    /// When what it wrote to global memory is there.
    pub(super) written_at: u64,
    pub(super) copies: CopyGroups,
    /// When each register and predicate is there.
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
    pub(super) row: KernelId,
    pub(super) needs: BlockNeeds,
    /// Where its registers and shared memory lie.
    pub(super) place: Place,
    pub(super) started: u64,
    /// Cycles that it was resident before it came back.
    pub(super) ran_cycles: u64,
    /// Warp slot of each warp of the block.
    pub(super) slots: [u8; 32],
    pub(super) counters: Counters,
}

/// A block that has its room and starts in the SM's next epoch.
#[derive(Debug, Clone, Copy)]
struct Start {
    resident: usize,
    launch: u32,
    shape: BlockShape,
    linear: u64,
    at: u64,
}

/// What an SM reads while it runs through an epoch, and where its requests go.
#[derive(Clone, Copy)]
pub(crate) struct Epoch<'a> {
    pub(crate) config: &'a GpuConfig,
    pub(crate) memory: &'a Memory,
    pub(crate) launches: &'a Launches,
    pub(crate) topology: &'a Topology,
    pub(crate) requests: &'a Exchange<Request>,
    pub(crate) replies: &'a Exchange<Reply>,
    /// First cycle.
    pub(crate) start: u64,
    /// One past its last cycle.
    pub(crate) end: u64,
}

/// What the GPU must know of an SM between epochs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Status {
    /// First cycle at which something can happen here without new blocks.
    pub(crate) next_at: u64,
    /// Groups of partitions that it sent requests to, one bit each.
    pub(crate) sent: u32,
    /// Groups that have replies for it, one bit each.
    pub(crate) answered: u32,
    /// It wrote to global memory.
    pub(crate) wrote: bool,
    /// It has events to report.
    pub(crate) events: bool,
    /// It has blocks to start.
    pub(crate) starts: bool,
    /// Cycles of the last epoch in which it issued, a measure of the host's work.
    pub(crate) busy_cycles: u32,
}

/// The SM.
#[derive(Debug)]
pub(crate) struct Sm {
    pub(super) id: u16,
    pub(super) now: u64,
    /// A cycle, and the same time in nanoseconds.
    pub(super) clock_ns: (u64, u64),
    pub(super) warps: Vec<WarpSlot>,
    pub(super) residents: Vec<Resident>,
    pub(super) free_blocks: u64,
    free_warps: u64,
    pub(super) room: Room,
    starts: Vec<Start>,
    next_age: u64,
    newest_launch: u64,
    pub(super) arbiter: Arbiter,
    pub(super) wheel: Wheel,
    /// None where the supply of instructions never limits.
    pub(super) front: Option<FrontEnd>,
    pub(super) ranges: RangeCache,
    pub(super) access: Access,
    pub(super) log: WriteLog,
    pub(super) lines: Lines,
    pub(super) l1: Cache,
    pub(super) constants: Cache,
    pub(super) textures: Cache,
    /// When the load/store unit takes its next instruction; [`UNKNOWN`] while it waits for a reply.
    pub(super) unit_free_at: u64,
    /// A line in whose set of L1 every line waits for a fill, which the load/store unit waits for.
    pub(super) crowded: Option<u64>,
    /// When the port to the interconnect is free.
    pub(super) port_free_at: u64,
    /// When the port from the interconnect is free.
    reply_port_free_at: u64,
    /// Replies on their way, by arrival.
    inbox: BinaryHeap<Reverse<(u64, u32, u32, u8)>>,
    pub(super) pending: Pool<PendingLoad>,
    pub(super) misses: Pool<Miss>,
    pub(super) waiters: Pool<Waiter>,
    pub(super) misses_in_flight: u32,
    pub(super) next_request: u32,
    pub(super) arrivals: CopyArrivals,
    pub(super) status: Status,
    pub(super) events: Vec<SmEvent>,
    /// What blocks that ended here did, over all launches.
    totals: Counters,
    /// The same by row, sorted.
    by_row: Vec<(KernelId, Counters)>,
    /// Warp slots that issue no more, because their block is leaving.
    pub(super) held: u64,
    /// Blocks that are leaving.
    pub(super) leaving: u64,
    pub(super) moves: Vec<Moving>,
    pub(super) next_move: u32,
    pub(super) quotas: Quotas,
}

// SAFETY: the raw pointers inside point into buffers that the same `Sm` owns, or at parameters that stay while their
// launch does; one thread at a time has the SM.
unsafe impl Send for Sm {}

impl Sm {
    pub(crate) fn new(config: &GpuConfig, id: u16) -> Self {
        let warps = config.warps_per_sm() as usize;
        let mask = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
        let small = |c: &crate::config::SmallCache| Cache::new(c.bytes, c.ways);
        Self {
            id,
            now: 0,
            clock_ns: (0, 0),
            warps: (0..warps).map(|_| WarpSlot::new()).collect(),
            residents: (0..config.sm.max_blocks).map(|_| Resident::new()).collect(),
            free_blocks: mask(config.sm.max_blocks),
            free_warps: mask(config.warps_per_sm()),
            room: Room::new(config),
            starts: Vec::with_capacity(32),
            next_age: 0,
            newest_launch: 0,
            arbiter: Arbiter::new(config),
            wheel: Wheel::new(),
            front: config.fetch.as_ref().map(FrontEnd::new),
            ranges: RangeCache::new(),
            access: Access::new(),
            log: WriteLog::new(),
            lines: Lines::new(),
            l1: Cache::new(config.l1.bytes, config.l1.ways),
            constants: small(&config.constant),
            textures: small(&config.texture),
            unit_free_at: 0,
            crowded: None,
            port_free_at: 0,
            reply_port_free_at: 0,
            inbox: BinaryHeap::with_capacity(512),
            pending: Pool::new(),
            misses: Pool::new(),
            waiters: Pool::new(),
            misses_in_flight: 0,
            next_request: 0,
            arrivals: CopyArrivals::new(),
            status: Status {
                next_at: u64::MAX,
                ..Status::default()
            },
            events: Vec::with_capacity(64),
            totals: Counters::default(),
            by_row: Vec::new(),
            held: 0,
            leaving: 0,
            moves: Vec::new(),
            next_move: 0,
            quotas: Quotas::new(),
        }
    }

    /// What the GPU must know between epochs.
    pub(crate) fn status(&mut self) -> &mut Status {
        &mut self.status
    }

    /// Writes of the epoch, to be applied.
    pub(crate) fn log(&mut self) -> &mut WriteLog {
        &mut self.log
    }

    /// Events of the epoch, to be taken away.
    pub(crate) fn events(&mut self) -> &mut Vec<SmEvent> {
        &mut self.events
    }

    /// What blocks that ended here did, over all launches.
    pub(crate) fn totals(&self) -> &Counters {
        &self.totals
    }

    /// Blocks that are resident.
    pub(crate) fn resident_blocks(&self) -> u32 {
        u32::try_from(self.residents.len()).unwrap_or(0) - self.room.blocks()
    }

    /// A block of these needs fits, its registers and its shared memory each in one piece.
    pub(crate) fn fits(&self, needs: &BlockNeeds) -> bool {
        self.room.fits(needs)
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
        let number = self.take_room(&launch.needs, index, launch.row, linear);
        self.starts.push(Start {
            resident: number,
            launch: index,
            shape: *shape,
            linear,
            at,
        });
        self.status.starts = true;
    }

    /// Takes the room of a block that fits; gives its number.
    pub(super) fn take_room(
        &mut self,
        needs: &BlockNeeds,
        launch: u32,
        row: KernelId,
        linear: u64,
    ) -> usize {
        let number = self.free_blocks.trailing_zeros() as usize;
        self.free_blocks &= !(1 << number);
        let resident = &mut self.residents[number];
        resident.place = self.room.take(needs);
        resident.launch = launch;
        resident.row = row;
        resident.linear = linear;
        resident.needs = *needs;
        number
    }

    /// Block numbers that are taken.
    pub(super) fn taken_blocks(&self) -> u64 {
        !self.free_blocks & (u64::MAX >> (64 - self.residents.len()))
    }

    fn start(&mut self, start: &Start, launch: &LaunchState, epoch: &Epoch<'_>) {
        if launch.serial > self.newest_launch {
            self.newest_launch = launch.serial;
            if epoch.config.l1.flush_at_launch {
                self.l1.invalidate();
            }
            // Constants and textures may have been written by a copy since.
            self.constants.invalidate();
            self.textures.invalidate();
        }
        let number = start.resident;
        let needs = launch.needs;
        let resident = &mut self.residents[number];
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
            let slot = self.take_slot(number, warp, launch, start.at);
            let entry = &mut self.warps[slot as usize];
            entry.warp.start(&launch.kernel, warp, launch.threads);
            self.schedule(slot, epoch);
        }
    }

    /// Takes a slot for a warp of a block, which goes on at `at`.
    pub(super) fn take_slot(
        &mut self,
        number: usize,
        warp: u32,
        launch: &LaunchState,
        at: u64,
    ) -> u32 {
        let slot = self.free_warps.trailing_zeros();
        self.free_warps &= !(1 << slot);
        self.residents[number].slots[warp as usize] = u8::try_from(slot).unwrap_or(0);
        let entry = &mut self.warps[slot as usize];
        entry.block = u8::try_from(number).unwrap_or(0);
        entry.generation = entry.generation.wrapping_add(1);
        entry.not_before = at;
        entry.slept_until = 0;
        entry.written_at = 0;
        entry.copies = CopyGroups::default();
        entry.buffer = Buffer::default();
        entry.age = self.next_age;
        self.next_age += 1;
        let registers = usize::from(launch.kernel.slots) + usize::from(launch.kernel.predicates);
        entry.ready_at.clear();
        entry.ready_at.resize(registers, 0);
        self.arbiter.arrived(slot);
        self.quotas.arrived(slot, launch.row, self.now);
        slot
    }

    /// New issue quotas.
    pub(crate) fn set_quotas(&mut self, weights: &QuotaWeights<'_>, now: u64) {
        let (residents, warps) = (&self.residents, &self.warps);
        let taken = (0..).zip(warps).filter(|(_, w)| w.state != State::Free);
        let present = taken.map(|(slot, w)| (slot, residents[usize::from(w.block)].row));
        self.quotas.set(weights, now, present);
    }

    /// What the blocks of each row did here so far, running ones included; `now` is the device's time.
    pub(crate) fn sample(&self, now: u64) -> Vec<(KernelId, Counters)> {
        let mut rows = self.by_row.clone();
        let mut taken = self.taken_blocks();
        while taken != 0 {
            let number = taken.trailing_zeros() as usize;
            taken &= taken - 1;
            let done = self.done_here(number, now);
            add_row(&mut rows, self.residents[number].row, &done);
        }
        rows
    }

    /// What was done here under a row is counted for the SM and for the row.
    pub(super) fn count_towards_totals(&mut self, row: KernelId, counters: &Counters) {
        self.totals += *counters;
        add_row(&mut self.by_row, row, counters);
    }

    /// What a block that is here has done here until `now`.
    pub(super) fn done_here(&self, number: usize, now: u64) -> Counters {
        let resident = &self.residents[number];
        let mut counters = resident.counters;
        counters.block_cycles = now.saturating_sub(resident.started);
        counters.warp_cycles = counters.block_cycles * u64::from(resident.needs.warps);
        counters
    }

    /// Removes every block of a launch at `now`; nothing is reported, but what they did here stays counted.
    pub(crate) fn drop_launch(&mut self, launch: u32, now: u64) {
        if !self.moves.is_empty() {
            self.drop_moves(launch, now);
        }
        let of_launch = |s: &Start| s.launch == launch;
        while let Some(at) = self.starts.iter().position(of_launch) {
            let start = self.starts.remove(at);
            self.give_room_back(start.resident);
        }
        let taken = !self.free_blocks;
        for number in 0..self.residents.len() {
            let resident = &self.residents[number];
            if taken >> number & 1 != 0 && resident.kernel.is_some() && resident.launch == launch {
                let (row, done) = (resident.row, self.done_here(number, now));
                self.count_towards_totals(row, &done);
                self.free(number);
            }
        }
    }

    /// Runs through the epoch.
    pub(crate) fn run(&mut self, epoch: &Epoch<'_>) {
        self.now = self.now.max(epoch.start);
        self.begin(epoch);
        self.status.busy_cycles = 0;
        while self.now < epoch.end {
            let now = self.now;
            let mut woken = self.wheel.take(now);
            while woken != 0 {
                let slot = woken.trailing_zeros();
                woken &= woken - 1;
                self.wake(slot);
            }
            if self.arrivals.next_at() <= now {
                self.arrive(epoch);
            }
            let (issued, next) = self.cycle(epoch);
            if issued {
                self.status.busy_cycles += 1;
                self.now = now + 1;
            } else {
                let sleeper = self.wheel.next(now + 1).unwrap_or(u64::MAX);
                let other = sleeper.min(self.arrivals.next_at()).min(epoch.end);
                self.now = next.min(other).max(now + 1);
                self.stalled_more(self.now - now - 1);
            }
        }
        let status = &mut self.status;
        status.wrote = !self.log.is_empty();
        status.events = !self.events.is_empty();
        status.next_at = if self.arbiter.any_ready() {
            self.now
        } else {
            let reply = self.inbox.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let sleeper = self.wheel.next(self.now).unwrap_or(u64::MAX);
            sleeper.min(reply).min(self.arrivals.next_at())
        };
        if !self.moves.is_empty() {
            let next = self.next_move_at();
            self.status.next_at = self.status.next_at.min(next);
        }
    }

    /// What came about since the last epoch: results, replies, new blocks.
    fn begin(&mut self, epoch: &Epoch<'_>) {
        if !self.log.is_empty() {
            if self.log.has_results() {
                for outcome in self.log.outcomes() {
                    let entry = &mut self.warps[outcome.owner.slot as usize];
                    if entry.generation == outcome.owner.generation {
                        entry.warp.commit(&outcome);
                    }
                }
            }
            self.log.clear();
        }
        let mut groups = std::mem::take(&mut self.status.answered);
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            // SAFETY: in this half of the epoch the boxes to this SM are this call's own.
            let replies = unsafe { epoch.replies.of(group, usize::from(self.id)) };
            for reply in replies.drain(..) {
                let key = (reply.at, reply.number, reply.miss, reply.sectors);
                self.inbox.push(Reverse(key));
            }
        }
        let network = &epoch.config.interconnect;
        let rate = u64::from(network.reply_bytes_per_cycle);
        let header = u64::from(network.header_bytes);
        while let Some(Reverse((at, _, miss, sectors))) = self.inbox.peek().copied() {
            if at >= epoch.end {
                break;
            }
            self.inbox.pop();
            let turn = self.reply_port_free_at.max(at);
            let bytes = u64::from(sectors.count_ones()) * crate::config::SECTOR_BYTES;
            self.reply_port_free_at = turn + (header + bytes).div_ceil(rate);
            self.fill(miss, turn, epoch);
        }
        if std::mem::take(&mut self.status.starts) {
            let mut starts = std::mem::take(&mut self.starts);
            for start in starts.drain(..) {
                if let Some(launch) = epoch.launches.get(start.launch) {
                    self.start(&start, launch, epoch);
                }
            }
            self.starts = starts;
        }
        if !self.moves.is_empty() {
            // A block leaves when its copies are there, and with them its arrivals.
            self.arrive(epoch);
            self.move_contexts(epoch);
        }
        self.quotas_begin(epoch.start);
    }

    /// Quotas at an epoch's beginning: new slots of kernels that have spent theirs are marked.
    fn quotas_begin(&mut self, now: u64) {
        if !self.quotas.on {
            return;
        }
        if self.quotas.renew_at <= now {
            self.quotas.renew(now);
        }
        for scheduler in 0..self.arbiter.schedulers {
            self.quotas.mark(scheduler, self.arbiter.slots[scheduler]);
        }
    }

    /// A step after which the warp does not simply go on.
    pub(super) fn stop(&mut self, slot: u32, step: Step, epoch: &Epoch<'_>) {
        let entry = &mut self.warps[slot as usize];
        let number = usize::from(entry.block);
        let resident = &mut self.residents[number];
        let index = entry.warp.index;
        let meeting = match step {
            Step::Done => return,
            Step::Barrier(arrival) => {
                entry.state = State::AtBarrier;
                self.arbiter.at_barrier(slot);
                resident.counters.barriers += 1;
                let meeting = resident.block.arrive(index, &arrival);
                if !arrival.stalled {
                    self.schedule(slot, epoch);
                }
                meeting
            }
            Step::Stalled { alive } => {
                entry.state = State::AtBarrier;
                self.arbiter.at_barrier(slot);
                resident.block.stall(index, alive)
            }
            Step::Printed => {
                if let Some(text) = entry.warp.take_said() {
                    let launch = resident.launch;
                    self.events.push(SmEvent::Printed { launch, text });
                }
                self.schedule(slot, epoch);
                return;
            }
            Step::Ended => {
                entry.state = State::Stopped;
                self.arbiter.left(slot);
                let meeting = resident.block.end(index);
                if resident.block.alive() == 0 {
                    self.retire(number);
                    return;
                }
                meeting
            }
            Step::Fault(raw) => {
                entry.state = State::Stopped;
                self.arbiter.left(slot);
                self.report_fault(number, slot, raw, epoch);
                return;
            }
        };
        match meeting {
            Meeting::Wait => {}
            Meeting::Release(warps) => {
                self.resume(
                    number,
                    warps,
                    |warp, block| warp.resume(block.released()),
                    epoch,
                );
            }
            Meeting::Deadlock => {
                let resident = &self.residents[number];
                let waiting = resident.block.alive().trailing_zeros() as usize & 31;
                let slot = u32::from(resident.slots[waiting]);
                let stalled = resident.block.stalled();
                if !self.resume(number, stalled, |warp, _| warp.loosen(), epoch) {
                    let raw = RawFault {
                        kind: FaultKind::BarrierDeadlock,
                        lane: 0,
                        address: None,
                    };
                    self.report_fault(number, slot, raw, epoch);
                }
            }
        }
    }

    /// Schedules those of a block's `warps` that can go on again, as `go_on` finds; false when none can.
    fn resume(
        &mut self,
        number: usize,
        mut warps: u32,
        go_on: impl Fn(&mut Warp, &Block) -> bool,
        epoch: &Epoch<'_>,
    ) -> bool {
        let mut any = false;
        while warps != 0 {
            let index = warps.trailing_zeros();
            warps &= warps - 1;
            let resident = &mut self.residents[number];
            let slot = u32::from(resident.slots[index as usize]);
            if go_on(&mut self.warps[slot as usize].warp, &resident.block) {
                resident.block.unstall(index);
                self.schedule(slot, epoch);
                any = true;
            }
        }
        any
    }

    fn retire(&mut self, number: usize) {
        let at = self.now + 1;
        let mut counters = self.done_here(number, at);
        counters.blocks = 1;
        let resident = &self.residents[number];
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
        let resident = &mut self.residents[number];
        resident.kernel = None;
        for slot in &resident.slots[..resident.needs.warps as usize] {
            let slot = u32::from(*slot);
            self.free_warps |= 1 << slot;
            self.arbiter.left(slot);
            self.arrivals.left(slot);
            self.held &= !(1 << slot);
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
        self.free_blocks |= 1 << number;
        self.leaving &= !(1 << number);
        let resident = &self.residents[number];
        self.room.give_back(&resident.needs, resident.place);
    }

    /// Counters of the launch that a warp belongs to.
    pub(super) fn counters_of(&mut self, slot: u32) -> &mut Counters {
        let block = usize::from(self.warps[slot as usize].block);
        &mut self.residents[block].counters
    }
}

/// Adds to a row's counters; rows are sorted.
pub(crate) fn add_row(rows: &mut Vec<(KernelId, Counters)>, row: KernelId, counters: &Counters) {
    match rows.binary_search_by_key(&row, |(kernel, _)| *kernel) {
        Ok(at) => rows[at].1 += *counters,
        Err(at) => rows.insert(at, (row, *counters)),
    }
}

impl WarpSlot {
    fn new() -> Self {
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
    fn new() -> Self {
        Self {
            block: Block::new(),
            kernel: None,
            launch: u32::MAX,
            linear: 0,
            row: KernelId(0),
            ran_cycles: 0,
            needs: BlockNeeds {
                warps: 0,
                registers: 0,
                shared_bytes: 0,
            },
            place: Place::default(),
            started: 0,
            slots: [0; WARP_LANES as usize],
            counters: Counters::default(),
        }
    }
}
