//! Functional execution: a launch to its end without timing, at once or a part at a time.
//!
//! Rules: blocks run one after another in ascending order; the warps of a block take turns, so that one may wait
//! for another; the budget counts warp instructions of the whole launch. How a run is cut into parts changes nothing
//! of what it computes, unless something else writes its memory meanwhile.

use crate::config::WARP_LANES;
use crate::counters::Counters;
use crate::exec::{
    Access, Block, BlockShape, Direction, Meeting, Op, RangeCache, RawFault, Space, Step,
    StepContext, Warp,
};
use crate::explain::{deadlock_note, dress};
use crate::fault::{Fault, FaultKind};
use crate::kernel::Kernel;
use crate::launch::Launch;
use crate::memory::{Domain, DomainId};
use crate::report::{Printed, append_printed};
use std::sync::Arc;

/// Steps of a warp before the next one has its turn.
const TURN: u32 = 1 << 10;
/// What starting a block counts against the length of a part, in warp instructions.
const BLOCK_START: u64 = 32;
/// Bytes that a print looks at or makes, for which a part is one warp instruction shorter.
const PRINTED_BYTES: u64 = 4;

/// Local memory that is kept for the next run, in bytes.
const KEPT_LOCAL_BYTES: usize = 1 << 20;
/// Registers of each warp that are kept for the next run, in bytes.
const KEPT_WARP_BYTES: usize = 64 << 10;

/// Storage that a functional run reuses from block to block and launch to launch.
#[derive(Debug)]
pub(crate) struct Functional {
    block: Block,
    warps: Vec<Warp>,
    ranges: RangeCache,
    access: Access,
}

/// A launch that runs without timing, a part at a time ([`Gpu::begin_functional`](crate::Gpu::begin_functional)).
#[derive(Debug)]
pub struct FunctionalRun {
    tag: u64,
    domain: DomainId,
    kernel: Arc<Kernel>,
    grid: [u32; 3],
    block: [u32; 3],
    /// SMs of the GPU, which kernels read as `%nsmid`; all blocks run on the first.
    sms: u32,
    dynamic_shared_bytes: u32,
    params: Vec<u8>,
    budget: Option<u64>,
    /// Blocks of the grid, and those that have begun.
    blocks: u64,
    begun: u64,
    /// Warps of a block.
    warps: u32,
    /// Warps of the block at hand that can run; 0 when none has begun or it has ended.
    ready: u32,
    /// The next warp that has its turn.
    next: u32,
    counters: Counters,
    /// What the part at hand did beside its instructions, in warp instructions.
    charged: u64,
    storage: Functional,
}

// SAFETY: the raw pointers inside a run (register slots, shared and local memory, parameters) point into buffers that
// the same run owns and that do not move when it does; nothing outside keeps a copy.
unsafe impl Send for FunctionalRun {}

impl Functional {
    pub(crate) fn new() -> Self {
        Self {
            block: Block::new(),
            warps: Vec::new(),
            ranges: RangeCache::new(),
            access: Access::new(),
        }
    }
}

impl FunctionalRun {
    /// Makes a run of a launch that was checked, on a GPU with `sms` SMs.
    pub(crate) fn new(launch: &Launch<'_>, sms: u32, mut storage: Functional) -> Self {
        let threads = launch.block.iter().product::<u32>();
        let warps = threads.div_ceil(WARP_LANES);
        if storage.warps.len() < warps as usize {
            storage.warps.resize_with(warps as usize, Warp::default);
        }
        Self {
            tag: launch.tag,
            domain: launch.domain,
            kernel: Arc::clone(&launch.kernel),
            grid: launch.grid,
            block: launch.block,
            sms,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            params: launch.params.to_vec(),
            budget: launch.budget.map(|budget| budget.0),
            blocks: launch.grid.iter().map(|n| u64::from(*n)).product(),
            begun: 0,
            warps,
            ready: 0,
            next: 0,
            counters: Counters::default(),
            charged: 0,
            storage,
        }
    }

    /// Returns the launch's tag.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// Returns the memory domain that the launch sees.
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.domain
    }

    /// Returns the kernel's name.
    pub(crate) fn kernel_name(&self) -> &str {
        &self.kernel.name
    }

    /// Returns what the launch did so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the storage, to be used by another run.
    pub(crate) fn into_storage(mut self) -> Functional {
        self.storage.block.trim(KEPT_LOCAL_BYTES);
        for warp in &mut self.storage.warps {
            warp.trim(KEPT_WARP_BYTES);
        }
        self.storage
    }

    /// Runs until about `most` warp instructions were executed, or all blocks have ended; returns whether they have.
    pub(crate) fn step(
        &mut self,
        domain: &Domain,
        most: u64,
        printed: &mut Vec<Printed>,
    ) -> Result<bool, Box<Fault>> {
        let kernel = Arc::clone(&self.kernel);
        self.charged = 0;
        let mut until = self.counters.warp_instructions.saturating_add(most);
        loop {
            if self.ready == 0 {
                if self.begun == self.blocks {
                    return Ok(true);
                }
                if self.done() >= until {
                    return Ok(false);
                }
                until = until.saturating_sub(BLOCK_START);
                self.start_block();
            }
            if !self.run_block(&kernel, domain, until, printed)? {
                return Ok(false);
            }
            self.counters.blocks += 1;
        }
    }

    /// Returns the warp instructions done so far, with what counts as such in the part at hand.
    fn done(&self) -> u64 {
        let done = self.counters.warp_instructions;
        done.saturating_add(self.charged)
    }

    fn start_block(&mut self) {
        let threads = self.block.iter().product::<u32>();
        let shape = BlockShape {
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            params: self.params.as_ptr(),
            gridid: self.tag,
            workspace: 0,
            nsmid: self.sms,
        };
        let Functional { block, warps, .. } = &mut self.storage;
        block.start(&self.kernel, &shape, self.begun, 0);
        for (index, warp) in (0..self.warps).zip(warps) {
            warp.start(&self.kernel, index, threads);
        }
        self.ready = block.alive();
        self.next = 0;
        self.begun += 1;
    }

    /// Runs the block at hand until it ends, or until `until` warp instructions of the launch were executed; returns
    /// whether it has ended.
    fn run_block(
        &mut self,
        kernel: &Kernel,
        domain: &Domain,
        until: u64,
        printed: &mut Vec<Printed>,
    ) -> Result<bool, Box<Fault>> {
        while self.ready != 0 {
            while self.next < self.warps {
                if self.done() >= until {
                    // The last warp may have ended with warps behind it that ended before.
                    return Ok(self.ready == 0);
                }
                let index = self.next;
                self.next += 1;
                if self.ready >> index & 1 != 0 {
                    self.take_turn(index, kernel, domain, printed)?;
                }
            }
            self.next = 0;
        }
        Ok(true)
    }

    /// Gives a warp its turn, and others what that leads to.
    fn take_turn(
        &mut self,
        index: u32,
        kernel: &Kernel,
        domain: &Domain,
        printed: &mut Vec<Printed>,
    ) -> Result<(), Box<Fault>> {
        let step = self
            .storage
            .run_warp(index, kernel, domain, &mut self.counters);
        let storage = &mut self.storage;
        let meeting = match step {
            Step::Done => Meeting::Wait,
            Step::Printed => {
                if let Some(said) = storage.warps[index as usize].take_output() {
                    append_printed(printed, self.tag, self.domain, &said);
                    self.charged = self.charged.saturating_add(said.work / PRINTED_BYTES);
                }
                Meeting::Wait
            }
            Step::Ended => {
                self.ready &= !(1 << index);
                storage.block.end(index)
            }
            Step::Barrier(arrival) => {
                if arrival.stalled {
                    self.ready &= !(1 << index);
                }
                storage.block.arrive(index, &arrival)
            }
            Step::Stalled { alive } => {
                self.ready &= !(1 << index);
                storage.block.stall(index, alive)
            }
            Step::Fault(raw) => return Err(storage.explain(raw, index, kernel, domain)),
        };
        match meeting {
            Meeting::Wait => {}
            Meeting::Release(released) => self.ready |= storage.resume(released),
            Meeting::Deadlock => match storage.loosen() {
                0 => return Err(self.deadlock(domain)),
                loosened => self.ready |= loosened,
            },
        }
        match self.budget {
            Some(budget) if self.counters.warp_instructions > budget => {
                let kind = FaultKind::InstructionBudgetExceeded {
                    budget_instructions: budget,
                };
                Err(self.storage.explain(plain(kind), index, kernel, domain))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn deadlock(&self, domain: &Domain) -> Box<Fault> {
        let (storage, kernel) = (&self.storage, &*self.kernel);
        let index = storage.block.alive().trailing_zeros();
        let raw = plain(FaultKind::BarrierDeadlock);
        let mut fault = storage.explain(raw, index, kernel, domain);
        let warps = storage.warps[..self.warps as usize].iter();
        fault.note = Some(deadlock_note(&storage.block, kernel, warps));
        fault
    }
}

impl Functional {
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

    /// Steps one warp until it waits, ends, faults or has had its turn.
    fn run_warp(
        &mut self,
        index: u32,
        kernel: &Kernel,
        domain: &Domain,
        counters: &mut Counters,
    ) -> Step {
        let warp = &mut self.warps[index as usize];
        let mut rare = Step::Done;
        for _ in 0..TURN {
            let op = &kernel.ops[warp.pc as usize];
            let stepped = warp.step(
                op,
                StepContext {
                    kernel,
                    block: &self.block.env,
                    domain,
                    ranges: &mut self.ranges,
                    access: &mut self.access,
                    log: None,
                    clock: counters.warp_instructions,
                    clock_ns: counters.warp_instructions,
                },
                &mut rare,
            );
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

    #[cold]
    fn explain(&self, raw: RawFault, index: u32, kernel: &Kernel, domain: &Domain) -> Box<Fault> {
        let warp = &self.warps[index as usize];
        dress(raw, kernel, &self.block, warp, domain)
    }
}

fn plain(kind: FaultKind) -> RawFault {
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
