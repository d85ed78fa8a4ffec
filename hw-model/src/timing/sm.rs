//! One streaming multiprocessor: resident blocks, warp schedulers, scoreboard, pipelines.
//!
//! A warp is ready, asleep until a known cycle, blocked on memory, or waiting at a barrier. Ready warps stand in
//! bit masks per scheduler and pipeline, so that choosing one is a few mask operations; sleeping warps stand in
//! the wheel; nobody is ever scanned. A warp's next operation is looked at once, when the one before was issued.
//! Rules: warp slot `w` belongs to scheduler `w % schedulers`; a scheduler issues at most one warp instruction a
//! cycle; results of an instruction exist functionally at issue and for the scoreboard when its latency is over.

use super::cache::Cache;
use super::coalesce::Lines;
use super::launches::{LaunchState, Launches};
use super::load_store::{Miss, PendingLoad, Waiter};
use super::memory_system::Request;
use super::pool::Pool;
use super::wheel::{HORIZON, Wheel};
use crate::config::{GpuConfig, SchedulerPolicy, WARP_LANES};
use crate::counters::Counters;
use crate::exec::{
    Access, Block, BlockShape, Kind, Meeting, NONE, PIPES, Pipe, RangeCache, RawFault, Step,
    Surroundings, Warp,
};
use crate::fault::{Fault, FaultKind};
use crate::functional::count_access;
use crate::kernel::Kernel;
use crate::memory::Memory;
use crate::occupancy::BlockNeeds;
use std::sync::Arc;

/// Scoreboard time of a register whose load is on its way.
pub(super) const UNKNOWN: u64 = u64::MAX;
const MAX_SCHEDULERS: usize = 4;

/// What an SM tells about an epoch.
#[derive(Debug)]
pub(crate) enum SmEvent {
    /// A block ended.
    Retired {
        launch: u32,
        at: u64,
        counters: Counters,
    },
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
    /// Ended or faulted; the slot is free when its block is.
    Stopped,
}

#[derive(Debug)]
pub(super) struct WarpSlot {
    pub(super) warp: Warp,
    pub(super) state: State,
    block: u8,
    /// Tells a slot's present warp from earlier ones.
    pub(super) generation: u32,
    wake_at: u64,
    /// Earliest issue of the next operation, apart from registers.
    pub(super) not_before: u64,
    /// When each register and predicate is there.
    pub(super) ready_at: Vec<u64>,
    /// Order of arrival, for the oldest-first policy.
    age: u64,
}

#[derive(Debug)]
pub(super) struct Resident {
    pub(super) block: Block,
    pub(super) kernel: Option<Arc<Kernel>>,
    pub(super) launch: u32,
    needs: BlockNeeds,
    started: u64,
    /// Warp slot of each warp of the block.
    pub(super) slots: [u8; 32],
    counters: Counters,
}

/// Room that is left on an SM.
#[derive(Debug, Clone, Copy)]
struct Room {
    blocks: u32,
    warps: u32,
    registers: u32,
    shared_bytes: u32,
}

/// What an SM reads while it runs through an epoch.
pub(crate) struct Epoch<'a> {
    pub(crate) config: &'a GpuConfig,
    pub(crate) memory: &'a Memory,
    pub(crate) launches: &'a Launches,
    /// One past its last cycle.
    pub(crate) end: u64,
}

/// The SM.
#[derive(Debug)]
pub(crate) struct Sm {
    pub(super) id: u16,
    pub(super) now: u64,
    schedulers: usize,
    policy: SchedulerPolicy,
    pub(super) warps: Vec<WarpSlot>,
    pub(super) residents: Vec<Resident>,
    pub(super) free_blocks: u64,
    free_warps: u64,
    room: Room,
    next_age: u64,
    newest_launch: u64,
    ready: [[u64; PIPES]; MAX_SCHEDULERS],
    pipe_free_at: [[u64; PIPES]; MAX_SCHEDULERS],
    last_issued: [u32; MAX_SCHEDULERS],
    wheel: Wheel,
    ranges: RangeCache,
    pub(super) access: Access,
    pub(super) lines: Lines,
    pub(super) l1: Cache,
    /// When the load/store unit takes its next instruction.
    pub(super) unit_free_at: u64,
    /// When the port to the interconnect is free.
    pub(super) port_free_at: u64,
    pub(super) pending: Pool<PendingLoad>,
    pub(super) misses: Pool<Miss>,
    pub(super) waiters: Pool<Waiter>,
    pub(super) misses_in_flight: u32,
    /// Known times at which a miss register becomes free, soonest first.
    pub(super) fills: std::collections::BinaryHeap<std::cmp::Reverse<u64>>,
    pub(super) requests: Vec<Request>,
    pub(super) events: Vec<SmEvent>,
}

impl Sm {
    pub(crate) fn new(config: &GpuConfig, id: u16) -> Self {
        let warps = config.warps_per_sm() as usize;
        let mask = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
        Self {
            id,
            now: 0,
            schedulers: usize::from(config.sm.schedulers),
            policy: config.sm.scheduler,
            warps: (0..warps).map(|_| WarpSlot::new()).collect(),
            residents: (0..config.sm.max_blocks).map(|_| Resident::new()).collect(),
            free_blocks: mask(config.sm.max_blocks),
            free_warps: mask(config.warps_per_sm()),
            room: Room {
                blocks: config.sm.max_blocks,
                warps: config.warps_per_sm(),
                registers: config.sm.registers,
                shared_bytes: config.sm.shared_bytes,
            },
            next_age: 0,
            newest_launch: 0,
            ready: [[0; PIPES]; MAX_SCHEDULERS],
            pipe_free_at: [[0; PIPES]; MAX_SCHEDULERS],
            last_issued: [0; MAX_SCHEDULERS],
            wheel: Wheel::new(),
            ranges: RangeCache::new(),
            access: Access::new(),
            lines: Lines::new(),
            l1: Cache::new(config.l1.bytes, config.l1.ways),
            unit_free_at: 0,
            port_free_at: 0,
            pending: Pool::new(),
            misses: Pool::new(),
            waiters: Pool::new(),
            misses_in_flight: 0,
            fills: std::collections::BinaryHeap::with_capacity(1024),
            requests: Vec::with_capacity(256),
            events: Vec::with_capacity(64),
        }
    }

    /// Requests of the epoch, to be taken away.
    pub(crate) fn requests(&mut self) -> &mut Vec<Request> {
        &mut self.requests
    }

    /// Events of the epoch, to be taken away.
    pub(crate) fn events(&mut self) -> &mut Vec<SmEvent> {
        &mut self.events
    }

    /// Blocks that are resident.
    pub(crate) fn resident_blocks(&self) -> u32 {
        u32::try_from(self.residents.len()).unwrap_or(0) - self.room.blocks
    }

    /// Time has come to `now` without anything happening here since.
    pub(crate) fn begin(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// A block of these needs fits.
    pub(crate) fn fits(&self, needs: &BlockNeeds) -> bool {
        self.room.blocks >= 1
            && self.room.warps >= needs.warps
            && self.room.registers >= needs.registers
            && self.room.shared_bytes >= needs.shared_bytes
    }

    /// First cycle at which something can happen without new replies or blocks.
    pub(crate) fn next_event(&self) -> Option<u64> {
        if self.ready.iter().flatten().any(|mask| *mask != 0) {
            return Some(self.now);
        }
        self.wheel.next(self.now)
    }

    /// Starts a block that fits, at `at`, which is not before the SM's time.
    pub(crate) fn place(
        &mut self,
        launch: &LaunchState,
        index: u32,
        shape: &BlockShape,
        linear: u64,
        at: u64,
    ) {
        if launch.serial > self.newest_launch {
            // L1 is not coherent, so every new kernel starts with it empty.
            self.newest_launch = launch.serial;
            self.l1.invalidate();
        }
        let number = self.free_blocks.trailing_zeros() as usize;
        self.free_blocks &= !(1 << number);
        let needs = launch.needs;
        self.room.blocks -= 1;
        self.room.warps -= needs.warps;
        self.room.registers -= needs.registers;
        self.room.shared_bytes -= needs.shared_bytes;
        let resident = &mut self.residents[number];
        resident
            .block
            .start(&launch.kernel, shape, linear, u32::from(self.id));
        resident.kernel = Some(launch.kernel.clone());
        resident.launch = index;
        resident.needs = needs;
        resident.started = at;
        resident.counters = Counters::default();
        for warp in 0..needs.warps {
            let slot = self.free_warps.trailing_zeros();
            self.free_warps &= !(1 << slot);
            self.residents[number].slots[warp as usize] = u8::try_from(slot).unwrap_or(0);
            let entry = &mut self.warps[slot as usize];
            entry.warp.start(&launch.kernel, warp, launch.threads);
            entry.block = u8::try_from(number).unwrap_or(0);
            entry.generation = entry.generation.wrapping_add(1);
            entry.not_before = at;
            entry.age = self.next_age;
            self.next_age += 1;
            let registers =
                usize::from(launch.kernel.slots) + usize::from(launch.kernel.predicates);
            entry.ready_at.clear();
            entry.ready_at.resize(registers, 0);
            self.schedule(slot);
        }
    }

    /// Removes every block of a launch; nothing is reported.
    pub(crate) fn drop_launch(&mut self, launch: u32) {
        let taken = !self.free_blocks;
        for number in 0..self.residents.len() {
            if taken >> number & 1 != 0 && self.residents[number].launch == launch {
                self.free(number);
            }
        }
    }

    /// Runs to the epoch's end.
    pub(crate) fn run(&mut self, epoch: &Epoch<'_>) {
        while self.now < epoch.end {
            let now = self.now;
            let mut woken = self.wheel.take(now);
            while woken != 0 {
                let slot = woken.trailing_zeros();
                woken &= woken - 1;
                self.wake(slot);
            }
            let mut issued = false;
            let mut next = u64::MAX;
            for scheduler in 0..self.schedulers {
                let candidates = self.candidates(scheduler, &mut next);
                if candidates != 0 {
                    let slot = self.choose(scheduler, candidates);
                    self.issue(scheduler, slot, epoch);
                    issued = true;
                }
            }
            self.now = if issued {
                now + 1
            } else {
                let sleeper = self.wheel.next(now + 1).unwrap_or(u64::MAX);
                next.min(sleeper).min(epoch.end).max(now + 1)
            };
        }
    }

    /// Ready warps whose pipeline is free; lowers `next` to when another pipeline becomes free.
    #[inline(always)]
    fn candidates(&self, scheduler: usize, next: &mut u64) -> u64 {
        let mut candidates = 0;
        for pipe in 0..PIPES {
            let ready = self.ready[scheduler][pipe];
            let free_at = if pipe == Pipe::Memory as usize {
                self.unit_free_at
            } else {
                self.pipe_free_at[scheduler][pipe]
            };
            if free_at <= self.now {
                candidates |= ready;
            } else if ready != 0 {
                *next = (*next).min(free_at);
            }
        }
        candidates
    }

    #[inline(always)]
    fn choose(&mut self, scheduler: usize, candidates: u64) -> u32 {
        let last = self.last_issued[scheduler];
        let chosen = match self.policy {
            SchedulerPolicy::Lrr => {
                // The next higher slot, else the lowest.
                let above = candidates & (u64::MAX << last << 1);
                (if above != 0 { above } else { candidates }).trailing_zeros()
            }
            SchedulerPolicy::Gto if candidates >> last & 1 != 0 => last,
            SchedulerPolicy::Gto => self.oldest(candidates),
        };
        self.last_issued[scheduler] = chosen;
        chosen
    }

    fn oldest(&self, candidates: u64) -> u32 {
        let mut rest = candidates;
        let mut best = (u64::MAX, 0);
        while rest != 0 {
            let slot = rest.trailing_zeros();
            rest &= rest - 1;
            best = best.min((self.warps[slot as usize].age, slot));
        }
        best.1
    }

    /// Executes the warp's next operation and accounts for its time.
    fn issue(&mut self, scheduler: usize, slot: u32, epoch: &Epoch<'_>) {
        let now = self.now;
        let entry = &mut self.warps[slot as usize];
        let resident = &mut self.residents[usize::from(entry.block)];
        let Some(kernel) = &resident.kernel else {
            return;
        };
        let op = &kernel.ops[entry.warp.pc as usize];
        let Some(launch) = epoch.launches.get(resident.launch) else {
            return;
        };
        let Ok(domain) = epoch.memory.domain(launch.domain) else {
            return;
        };
        self.ready[scheduler][op.pipe as usize] &= !(1 << slot);
        let stepped = entry.warp.step(
            op,
            Surroundings {
                kernel,
                block: &resident.block.env,
                domain,
                ranges: &mut self.ranges,
                access: &mut self.access,
                clock: now,
                clock_ns: epoch.config.cycles_to_ns(now),
            },
        );
        let counters = &mut resident.counters;
        counters.warp_instructions += 1;
        counters.thread_instructions += u64::from(stepped.lanes.count_ones());
        counters.divergent_branches += u64::from(stepped.diverged);
        entry.not_before = now + 1;
        if op.pipe != Pipe::Memory {
            self.pipe_free_at[scheduler][op.pipe as usize] = now + u64::from(op.interval);
        }
        match op.kind {
            Kind::Memory => {
                count_access(op, &self.access, counters);
                let (op, launch) = (*op, resident.launch);
                self.time_access(slot, &op, launch, epoch);
            }
            Kind::Branch => entry.not_before = now + u64::from(op.latency),
            _ => {
                if op.pipe == Pipe::Memory {
                    self.unit_free_at = now + u64::from(op.interval);
                }
                let done = now + u64::from(op.latency);
                for register in op.writes.iter().take_while(|r| **r != NONE) {
                    entry.ready_at[usize::from(*register)] = done;
                }
            }
        }
        match stepped.step {
            Step::Done => self.schedule(slot),
            step => self.stop(slot, step, epoch),
        }
    }

    /// A step after which the warp does not simply go on.
    fn stop(&mut self, slot: u32, step: Step, epoch: &Epoch<'_>) {
        let entry = &mut self.warps[slot as usize];
        let number = usize::from(entry.block);
        let resident = &mut self.residents[number];
        let index = entry.warp.index;
        let meeting = match step {
            Step::Done => return,
            Step::Barrier(arrival) => {
                entry.state = State::AtBarrier;
                resident.counters.barriers += 1;
                let meeting = resident.block.arrive(index, &arrival);
                if !arrival.stalled {
                    self.schedule(slot);
                }
                meeting
            }
            Step::Stalled { alive } => {
                entry.state = State::AtBarrier;
                resident.block.stall(index, alive)
            }
            Step::Ended => {
                entry.state = State::Stopped;
                let meeting = resident.block.end(index);
                if resident.block.alive() == 0 {
                    self.retire(number);
                    return;
                }
                meeting
            }
            Step::Fault(raw) => {
                entry.state = State::Stopped;
                self.report_fault(number, slot, raw, epoch);
                return;
            }
        };
        match meeting {
            Meeting::Wait => {}
            Meeting::Release(warps) => {
                self.resume(number, warps, |warp, block| warp.resume(block.released()));
            }
            Meeting::Deadlock => {
                let resident = &self.residents[number];
                let waiting = resident.block.alive().trailing_zeros() as usize & 31;
                let slot = u32::from(resident.slots[waiting]);
                let stalled = resident.block.stalled();
                if !self.resume(number, stalled, |warp, _| warp.loosen()) {
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
    ) -> bool {
        let mut any = false;
        while warps != 0 {
            let index = warps.trailing_zeros();
            warps &= warps - 1;
            let resident = &mut self.residents[number];
            let slot = u32::from(resident.slots[index as usize]);
            if go_on(&mut self.warps[slot as usize].warp, &resident.block) {
                resident.block.unstall(index);
                self.schedule(slot);
                any = true;
            }
        }
        any
    }

    fn retire(&mut self, number: usize) {
        let resident = &mut self.residents[number];
        let at = self.now + 1;
        resident.counters.blocks = 1;
        resident.counters.block_cycles = at - resident.started;
        self.events.push(SmEvent::Retired {
            launch: resident.launch,
            at,
            counters: resident.counters,
        });
        self.free(number);
    }

    fn free(&mut self, number: usize) {
        let resident = &mut self.residents[number];
        resident.kernel = None;
        self.free_blocks |= 1 << number;
        self.room.blocks += 1;
        self.room.warps += resident.needs.warps;
        self.room.registers += resident.needs.registers;
        self.room.shared_bytes += resident.needs.shared_bytes;
        for slot in &resident.slots[..resident.needs.warps as usize] {
            let bit = 1_u64 << slot;
            self.free_warps |= bit;
            for ready in self.ready.iter_mut().flatten() {
                *ready &= !bit;
            }
            let entry = &mut self.warps[usize::from(*slot)];
            entry.state = State::Free;
            entry.generation = entry.generation.wrapping_add(1);
        }
    }

    /// Counters of the launch that a warp belongs to.
    pub(super) fn counters_of(&mut self, slot: u32) -> &mut Counters {
        let block = usize::from(self.warps[slot as usize].block);
        &mut self.residents[block].counters
    }

    /// The wheel named a warp; its bit may be stale.
    #[inline(always)]
    fn wake(&mut self, slot: u32) {
        let entry = &self.warps[slot as usize];
        if entry.state != State::Asleep {
            return;
        }
        if entry.wake_at > self.now {
            self.wheel
                .insert(entry.wake_at.min(self.now + HORIZON), slot);
            return;
        }
        self.make_ready(slot);
    }

    #[inline(always)]
    fn make_ready(&mut self, slot: u32) {
        let entry = &mut self.warps[slot as usize];
        let Some(kernel) = &self.residents[usize::from(entry.block)].kernel else {
            return;
        };
        entry.state = State::Ready;
        let pipe = kernel.ops[entry.warp.pc as usize].pipe;
        self.ready[slot as usize % self.schedulers][pipe as usize] |= 1 << slot;
    }

    /// Finds out when the warp's next operation can issue.
    #[inline(always)]
    pub(super) fn schedule(&mut self, slot: u32) {
        let entry = &mut self.warps[slot as usize];
        let Some(kernel) = &self.residents[usize::from(entry.block)].kernel else {
            return;
        };
        let op = &kernel.ops[entry.warp.pc as usize];
        let mut at = entry.not_before.max(self.now);
        for register in op.waits.iter().take_while(|r| **r != NONE) {
            at = at.max(entry.ready_at[usize::from(*register)]);
        }
        if at == UNKNOWN {
            entry.state = State::Blocked;
        } else if at <= self.now + 1 && at == self.now {
            self.make_ready(slot);
        } else {
            entry.state = State::Asleep;
            entry.wake_at = at;
            self.wheel.insert(at.min(self.now + HORIZON), slot);
        }
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
            not_before: 0,
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
            needs: BlockNeeds {
                warps: 0,
                registers: 0,
                shared_bytes: 0,
            },
            started: 0,
            slots: [0; WARP_LANES as usize],
            counters: Counters::default(),
        }
    }
}
