//! A block that has begun and not ended: what it holds, and whether it gets anywhere.
//!
//! The warps of a block take turns of a thousand instructions, and a pass gives each of them one. A pass in which every
//! warp that could run only slept or waited for something ([`super::spin`]) got nowhere. Whether warps wait is asked
//! after four passes in which a warp used its whole turn, and then ever more seldom; first after 64 where the kernel has
//! nothing that is made for waiting. A block that was seen to wait is asked in every pass until a warp has used a whole
//! turn again. So a block that never waits is hardly ever watched.
//!
//! Rule: what a block computes does not depend on how its turns are cut.

use super::spin;
use crate::counters::Counters;
use crate::exec::{
    Access, Block, BlockShape, Direction, Meeting, Op, RangeCache, RawFault, Space, Step,
    StepContext, StepOutput, Warp,
};
use crate::explain::{deadlock_note, dress};
use crate::fault::{Fault, FaultKind};
use crate::kernel::Kernel;
use crate::memory::Domain;

/// Steps of a warp before the next one has its turn.
const TURN: u32 = 1 << 10;
/// Passes before one asks first whether warps wait, in a kernel that has instructions made for waiting and in any other one.
const FIRST_WATCHED: (u32, u32) = (4, 64);
/// Most passes from one that asks to the next one.
const SELDOM: u32 = 1 << 12;
/// Warp instructions of a block before another one goes on though nothing says that it waits, in a kernel that has
/// instructions made for waiting and in any other one.
const PATIENCE: (u64, u64) = (1 << 18, 1 << 22);

/// What executes the operations of one block after another.
#[derive(Debug)]
pub(super) struct Engine {
    ranges: RangeCache,
    pub(super) access: Access,
}

/// A block, with storage that is reused for others.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) block: Block,
    pub(super) warps: Vec<Warp>,
    /// Warps of the block.
    count: u32,
    /// Warps that can run; 0 when it has ended.
    ready: u32,
    /// The next warp that has its turn.
    next: u32,
    /// Warps whose last turn got nowhere.
    idle: u32,
    /// Passes until one asks whether warps wait, and how many there are from one that asked to the next; none while
    /// the block waits. Only passes count in which a warp used its whole turn.
    unwatched: u32,
    interval: u32,
    /// Whether this pass asks, and whether a warp has used its whole turn in it.
    is_watched: bool,
    is_full: bool,
    /// Warp instructions since another block had its turn, and after how many another one goes on.
    spent: u64,
    patience: u64,
}

/// What a turn leads to, for the launch.
pub(super) enum Turn {
    /// Nothing.
    Over,
    /// The warp has printed.
    Printed,
    /// The turn failed; no warp of the block moves any more.
    Failed(Box<Fault>),
}

impl Engine {
    pub(super) fn new() -> Self {
        Self {
            ranges: RangeCache::new(),
            access: Access::new(),
        }
    }

    /// Returns what a step needs besides its warp.
    #[inline(always)]
    pub(super) fn context<'a>(
        &'a mut self,
        kernel: &'a Kernel,
        block: &'a Block,
        domain: &'a Domain,
        clock: u64,
    ) -> StepContext<'a> {
        StepContext {
            kernel,
            block: &block.env,
            domain,
            ranges: &mut self.ranges,
            access: &mut self.access,
            log: None,
            clock,
            clock_ns: clock,
        }
    }

    /// Steps one warp until it waits, ends, faults or has had its turn.
    #[inline(always)]
    fn run_warp(
        &mut self,
        (block, warp): (&Block, &mut Warp),
        kernel: &Kernel,
        domain: &Domain,
        counters: &mut Counters,
    ) -> Step {
        let mut rare = Step::Done;
        for _ in 0..TURN {
            let op = &kernel.ops[warp.pc as usize];
            let around = self.context(kernel, block, domain, counters.warp_instructions);
            let stepped = warp.step(op, around, &mut rare);
            counters.warp_instructions += 1;
            counters.thread_instructions += u64::from(stepped.lanes.count_ones());
            counters.divergent_branches += u64::from(stepped.diverged);
            count_access(op, &self.access, counters);
            if !stepped.plain {
                return rare;
            }
        }
        Step::Done
    }
}

impl Seat {
    pub(super) fn new() -> Self {
        Self {
            block: Block::new(),
            warps: Vec::new(),
            count: 0,
            ready: 0,
            next: 0,
            idle: 0,
            unwatched: 0,
            interval: 0,
            is_watched: false,
            is_full: false,
            spent: 0,
            patience: 0,
        }
    }

    /// Starts block `linear` of a launch.
    pub(super) fn start(&mut self, kernel: &Kernel, shape: &BlockShape, linear: u64) {
        let threads = shape.block.iter().product::<u32>();
        self.count = threads.div_ceil(crate::config::WARP_LANES);
        if self.warps.len() < self.count as usize {
            self.warps.resize_with(self.count as usize, Warp::default);
        }
        self.block.start(kernel, shape, linear, 0);
        for (index, warp) in (0..self.count).zip(&mut self.warps) {
            warp.start(kernel, index, threads);
        }
        self.ready = self.block.alive();
        (self.next, self.idle, self.spent) = (0, 0, 0);
        (self.is_watched, self.is_full) = (false, false);
        (self.interval, self.patience) = match kernel.polls {
            true => (FIRST_WATCHED.0, PATIENCE.0),
            false => (FIRST_WATCHED.1, PATIENCE.1),
        };
        self.unwatched = self.interval;
    }

    /// Returns whether the block has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ready == 0
    }

    /// Takes the next warp that can run in this pass; `None` when the pass is over.
    #[inline(always)]
    pub(super) fn next_warp(&mut self) -> Option<u32> {
        while self.next < self.count {
            let index = self.next;
            self.next += 1;
            if self.ready >> index & 1 != 0 {
                return Some(index);
            }
        }
        self.next = 0;
        None
    }

    /// Ends a pass; returns whether the block gets nowhere, or has had more than its part for now.
    pub(super) fn end_pass(&mut self) -> bool {
        let waits = self.ready & !self.idle == 0;
        let is_full = std::mem::take(&mut self.is_full);
        match (self.is_watched, waits) {
            (true, true) => self.interval = 0,
            (true, false) if is_full || self.interval > 0 => {
                self.is_watched = false;
                self.interval = (self.interval * 2).clamp(1, SELDOM);
                self.unwatched = self.interval;
            }
            (false, _) if is_full => {
                self.unwatched = self.unwatched.saturating_sub(1);
                self.is_watched = self.unwatched == 0;
            }
            _ => {}
        }
        waits || self.spent > self.patience
    }

    /// Takes note that another block goes on.
    pub(super) fn set_aside(&mut self) {
        self.spent = 0;
    }

    /// Takes what a warp has printed in its turn.
    pub(super) fn take_output(&mut self, index: u32) -> Option<StepOutput> {
        self.warps[index as usize].take_output()
    }

    /// Gives a warp its turn, and others what that leads to.
    #[inline(always)]
    pub(super) fn take_turn(
        &mut self,
        index: u32,
        engine: &mut Engine,
        (kernel, domain): (&Kernel, &Domain),
        counters: &mut Counters,
    ) -> Turn {
        let before = counters.warp_instructions;
        let on = (&self.block, &mut self.warps[index as usize]);
        let (step, waits) = match self.is_watched {
            false => (engine.run_warp(on, kernel, domain, counters), false),
            true => spin::watch(engine, on, kernel, domain, counters),
        };
        self.spent += counters.warp_instructions - before;
        let bit = 1 << index;
        self.idle &= !bit;
        if waits || matches!(step, Step::Slept) {
            self.idle |= bit;
        }
        let meeting = match step {
            Step::Done => {
                self.is_full |= !waits;
                return Turn::Over;
            }
            Step::Slept => return Turn::Over,
            Step::Printed => return Turn::Printed,
            Step::Ended => {
                self.ready &= !bit;
                self.block.end(index)
            }
            Step::Barrier(arrival) => {
                if arrival.stalled {
                    self.ready &= !bit;
                }
                self.block.arrive(index, &arrival)
            }
            Step::Stalled { alive } => {
                self.ready &= !bit;
                self.block.stall(index, alive)
            }
            Step::Fault(raw) => return Turn::Failed(self.explain(raw, index, kernel, domain)),
        };
        let moved = match meeting {
            Meeting::Wait => 0,
            Meeting::Release(released) => self.resume(released),
            Meeting::Deadlock => match self.loosen() {
                0 => return Turn::Failed(self.deadlock(kernel, domain)),
                loosened => loosened,
            },
        };
        self.ready |= moved;
        self.idle &= !moved;
        Turn::Over
    }

    /// Lets warps go on behind a barrier; those that can run again.
    fn resume(&mut self, released: u32) -> u32 {
        let mut ready = 0;
        for (index, warp) in (0..32).zip(&mut self.warps) {
            if released >> index & 1 != 0 && warp.resume(self.block.released()) {
                self.block.unstall(index);
                ready |= 1 << index;
            }
        }
        ready
    }

    /// Warps in which lanes can go on that wait for lanes at a barrier.
    fn loosen(&mut self) -> u32 {
        let mut ready = 0;
        for (index, warp) in (0..32).zip(&mut self.warps) {
            if self.block.stalled() >> index & 1 != 0 && warp.loosen() {
                self.block.unstall(index);
                ready |= 1 << index;
            }
        }
        ready
    }

    #[cold]
    pub(super) fn explain(
        &self,
        raw: RawFault,
        index: u32,
        kernel: &Kernel,
        domain: &Domain,
    ) -> Box<Fault> {
        let warp = &self.warps[index as usize];
        dress(raw, kernel, &self.block, warp, domain)
    }

    #[cold]
    fn deadlock(&self, kernel: &Kernel, domain: &Domain) -> Box<Fault> {
        let index = self.block.alive().trailing_zeros();
        let raw = plain(FaultKind::BarrierDeadlock);
        let mut fault = self.explain(raw, index, kernel, domain);
        let warps = self.warps[..self.count as usize].iter();
        fault.note = Some(deadlock_note(&self.block, kernel, warps));
        fault
    }
}

/// Returns a fault without an address.
pub(super) fn plain(kind: FaultKind) -> RawFault {
    RawFault {
        kind,
        lane: 0,
        address: None,
    }
}

/// Counts a memory operation by space and direction.
#[inline(always)]
pub(crate) fn count_access(op: &Op, access: &Access, counters: &mut Counters) {
    use crate::exec::Kind;
    if !matches!(op.kind, Kind::Memory | Kind::Copy | Kind::CopyArrival) || access.mask == 0 {
        return;
    }
    match (access.space, access.direction) {
        (Space::Shared, _) => counters.shared_accesses += 1,
        (Space::Global, Direction::Load) => counters.global_loads += 1,
        (Space::Global, Direction::Store) => counters.global_stores += 1,
        (Space::Global, Direction::Atomic) => counters.global_atomics += 1,
        (Space::Local | Space::Constant | Space::Texture, _) => {}
    }
}
