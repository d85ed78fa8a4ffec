//! Functional execution: a launch to its end without timing.
//!
//! Rules: blocks run one after another in ascending order; the warps of a block take turns, so that one may wait
//! for another; the budget counts warp instructions of the whole launch.

use crate::config::WARP_LANES;
use crate::counters::Counters;
use crate::exec::{
    Access, Block, BlockShape, Direction, Meeting, Op, RangeCache, RawFault, Space, Step,
    Surroundings, Warp,
};
use crate::explain::{deadlock_note, dress};
use crate::fault::{Fault, FaultKind};
use crate::kernel::Kernel;
use crate::launch::Launch;
use crate::memory::Domain;
use crate::report::{Printed, append_printed};

/// Steps of a warp before the next one has its turn.
const TURN: u32 = 1 << 14;

/// Storage that a functional run reuses from block to block and launch to launch.
#[derive(Debug)]
pub(crate) struct Functional {
    block: Block,
    warps: Vec<Warp>,
    ranges: RangeCache,
    access: Access,
}

impl Functional {
    pub(crate) fn new() -> Self {
        Self {
            block: Block::new(),
            warps: Vec::new(),
            ranges: RangeCache::new(),
            access: Access::new(),
        }
    }

    /// Runs all blocks.
    pub(crate) fn run(
        &mut self,
        launch: &Launch<'_>,
        domain: &Domain,
        printed: &mut Vec<Printed>,
    ) -> Result<Counters, Box<Fault>> {
        let kernel = &*launch.kernel;
        let shape = BlockShape {
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            params: launch.params.as_ptr(),
            gridid: launch.tag,
            nsmid: 1,
        };
        let threads = launch.block.iter().product::<u32>();
        let warps = threads.div_ceil(WARP_LANES);
        if self.warps.len() < warps as usize {
            self.warps.resize_with(warps as usize, Warp::default);
        }
        let mut counters = Counters::default();
        let blocks: u64 = launch.grid.iter().map(|n| u64::from(*n)).product();
        for linear in 0..blocks {
            self.block.start(kernel, &shape, linear, 0);
            for (index, warp) in (0..warps).zip(&mut self.warps) {
                warp.start(kernel, index, threads);
            }
            self.run_block(launch, domain, warps, &mut counters, printed)?;
            counters.blocks += 1;
        }
        Ok(counters)
    }

    fn run_block(
        &mut self,
        launch: &Launch<'_>,
        domain: &Domain,
        warps: u32,
        counters: &mut Counters,
        printed: &mut Vec<Printed>,
    ) -> Result<(), Box<Fault>> {
        let kernel = &*launch.kernel;
        let mut ready = self.block.alive();
        let limit = launch.budget.map(|b| b.0);
        while ready != 0 {
            for index in 0..warps {
                if ready >> index & 1 == 0 {
                    continue;
                }
                let step = self.run_warp(index, kernel, domain, counters);
                let meeting = match step {
                    Step::Done => Meeting::Wait,
                    Step::Printed => {
                        if let Some(text) = self.warps[index as usize].take_said() {
                            append_printed(printed, launch.tag, &text);
                        }
                        Meeting::Wait
                    }
                    Step::Ended => {
                        ready &= !(1 << index);
                        self.block.end(index)
                    }
                    Step::Barrier(arrival) => {
                        if arrival.stalled {
                            ready &= !(1 << index);
                        }
                        self.block.arrive(index, &arrival)
                    }
                    Step::Stalled { alive } => {
                        ready &= !(1 << index);
                        self.block.stall(index, alive)
                    }
                    Step::Fault(raw) => return Err(self.explain(raw, index, kernel, domain)),
                };
                match meeting {
                    Meeting::Wait => {}
                    Meeting::Release(released) => ready |= self.resume(released),
                    Meeting::Deadlock => match self.loosen() {
                        0 => {
                            let index = self.block.alive().trailing_zeros();
                            let raw = plain(FaultKind::BarrierDeadlock);
                            let mut fault = self.explain(raw, index, kernel, domain);
                            let warps = self.warps[..warps as usize].iter();
                            fault.note = Some(deadlock_note(&self.block, kernel, warps));
                            return Err(fault);
                        }
                        loosened => ready |= loosened,
                    },
                }
                if let (Some(limit), Some(budget)) = (limit, launch.budget)
                    && counters.warp_instructions > limit
                {
                    let kind = FaultKind::BudgetExceeded {
                        budget_cycles: budget.0,
                    };
                    return Err(self.explain(plain(kind), index, kernel, domain));
                }
            }
        }
        Ok(())
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
                Surroundings {
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
