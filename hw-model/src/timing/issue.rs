//! Issue: which warp each scheduler takes in a cycle, and what its instruction does to time.
//!
//! Policies: loose round robin; greedy then oldest; two levels (Narasiman et al., MICRO 2011), round robin within a
//! small active set that a warp leaves when it waits for memory or at a barrier. Before each of them comes a warp that
//! was passed over for long ([`super::aging`]).
//! An operation that the real chip would not execute (a move between registers, an address conversion) is folded
//! into the time before the next one: its results are there when its sources are, and it takes no slot.
//! Rules: a scheduler issues from its own warps, at most `sm.issue_width` instructions of one warp a cycle; a unit
//! takes an instruction each initiation interval; of why a warp waits, only the masks are known here.

use super::aging::Aging;
use super::sm::{Epoch, Sm};
use super::stalls::{Cause, Stalled};
use crate::config::{GpuConfig, SchedulerPolicy};
use crate::counters::Counters;
use crate::exec::{
    AUX_FENCE, GROUP_COMMIT, Kind, NONE, Op, Owner, PIPES, Pipe, Step, StepContext, Stepped,
};
use crate::functional::count_access;

/// Most schedulers of an SM.
pub(super) const MAX_SCHEDULERS: usize = 4;
/// Most units of a pipeline in one pool.
pub(crate) const MAX_UNITS: usize = 8;

/// The units of one pipeline that a scheduler can use.
#[derive(Debug, Clone, Copy)]
struct Units {
    free_at: [u64; MAX_UNITS],
    count: u8,
    /// When the first of them is free.
    first: u64,
}

impl Units {
    /// Takes a free unit for `cycles` core cycles from `now` on.
    #[inline(always)]
    fn occupy(&mut self, now: u64, cycles: u64) {
        if self.count == 1 {
            self.first = now + cycles;
            return;
        }
        let count = usize::from(self.count);
        let free = self.free_at[..count].iter().position(|at| *at <= now);
        self.free_at[free.unwrap_or(0)] = now + cycles;
        self.first = self.free_at[..count].iter().copied().min().unwrap_or(0);
    }
}

/// Tells whether the sources of this pipeline's instructions go through the operand collectors, which can be too few.
fn is_collected(pipe: Pipe) -> bool {
    matches!(pipe, Pipe::Int | Pipe::Fp32)
}

/// Ready warps, units and the schedulers' memory.
#[derive(Debug)]
pub(crate) struct Arbiter {
    pub(super) schedulers: usize,
    width: u8,
    policy: SchedulerPolicy,
    /// Warp slots of each scheduler.
    pub(super) slots: [u64; MAX_SCHEDULERS],
    ready: [u64; PIPES],
    /// Waiting warps by [`Cause`].
    pub(super) waiting: [u64; Cause::COUNT],
    sub_cores: bool,
    units: [[Units; PIPES]; MAX_SCHEDULERS],
    /// Operand collectors of the integer and single-precision units.
    collectors: Option<Units>,
    collector_cycles: u64,
    last_issued: [u32; MAX_SCHEDULERS],
    /// Instructions that the load/store unit took.
    turn: u64,
    /// Active set of the two-level policy.
    active: [u64; MAX_SCHEDULERS],
    active_limit: u32,
    aging: [Aging; MAX_SCHEDULERS],
    pub(super) stalled: [Stalled; MAX_SCHEDULERS],
}

impl Arbiter {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        let schedulers = usize::from(config.sm.schedulers);
        let counts = &config.pipelines.units;
        let per_pool = if config.sm.sub_cores {
            config.sm.schedulers
        } else {
            1
        };
        let units = |count: u8| Units {
            free_at: [0; MAX_UNITS],
            count: (count / per_pool).max(1),
            first: 0,
        };
        let mut pool = [units(1); PIPES];
        pool[Pipe::Int as usize] = units(counts.int);
        pool[Pipe::Fp32 as usize] = units(counts.fp32);
        pool[Pipe::Fp64 as usize] = units(counts.fp64);
        pool[Pipe::Sfu as usize] = units(counts.sfu);
        pool[Pipe::Tensor as usize] = units(counts.tensor);
        // Every scheduler has a branch unit of its own.
        pool[Pipe::Control as usize] = units(config.sm.schedulers);
        let mut slots = [0; MAX_SCHEDULERS];
        for slot in 0..64 {
            slots[slot % schedulers] |= 1 << slot;
        }
        Self {
            schedulers,
            width: config.sm.issue_width,
            policy: config.sm.scheduler,
            slots,
            ready: [0; PIPES],
            waiting: [0; Cause::COUNT],
            sub_cores: config.sm.sub_cores,
            units: [pool; MAX_SCHEDULERS],
            collectors: (config.sm.collectors != 0).then_some(Units {
                free_at: [0; MAX_UNITS],
                count: config.sm.collectors,
                first: 0,
            }),
            collector_cycles: u64::from(config.sm.collector_cycles),
            last_issued: [0; MAX_SCHEDULERS],
            turn: 0,
            active: [0; MAX_SCHEDULERS],
            active_limit: config.sm.two_level_active_warps,
            aging: [Aging::new(); MAX_SCHEDULERS],
            stalled: [Stalled::default(); MAX_SCHEDULERS],
        }
    }

    /// Tells whether some warp could issue as far as its registers go.
    pub(super) fn any_ready(&self) -> bool {
        self.ready.iter().any(|mask| *mask != 0)
    }

    /// Returns the slots of the ready warps of all pipelines, one bit each.
    pub(super) fn ready(&self) -> u64 {
        self.ready.iter().fold(0, |all, mask| all | mask)
    }

    pub(super) fn arrived(&mut self, slot: u32) {
        self.left(slot);
    }

    #[inline(always)]
    pub(super) fn now_ready(&mut self, slot: u32, pipe: Pipe) {
        self.forget(slot);
        self.ready[pipe as usize] |= 1 << slot;
    }

    #[inline(always)]
    pub(super) fn waits(&mut self, slot: u32, cause: Cause) {
        self.forget(slot);
        self.waiting[cause as usize] |= 1 << slot;
        if cause == Cause::Memory {
            self.deactivate(slot);
        }
    }

    pub(super) fn at_barrier(&mut self, slot: u32) {
        self.waits(slot, Cause::Barrier);
        self.deactivate(slot);
    }

    /// Removes a warp that is gone from everything that is kept of its slot.
    pub(super) fn left(&mut self, slot: u32) {
        self.forget(slot);
        self.deactivate(slot);
        self.aging[slot as usize & (self.schedulers - 1)].left(slot);
        for ready in &mut self.ready {
            *ready &= !(1 << slot);
        }
    }

    #[inline(always)]
    fn forget(&mut self, slot: u32) {
        for waiting in &mut self.waiting {
            *waiting &= !(1 << slot);
        }
    }

    #[inline(always)]
    fn deactivate(&mut self, slot: u32) {
        self.active[slot as usize & (self.schedulers - 1)] &= !(1 << slot);
    }

    #[inline(always)]
    fn pool(&self, scheduler: usize) -> usize {
        if self.sub_cores { scheduler } else { 0 }
    }

    /// Returns the number of the scheduler that chooses first in a cycle; one that always came first could keep what
    /// all share from the others for ever.
    ///
    /// Sub-cores share the load/store unit alone, so that its instructions move the turn on. Where all units are
    /// shared the cycle decides: multiples of the golden ratio's fraction fall evenly into the schedulers' parts
    /// (H. Weyl, 1916), and do so in every n-th cycle too, in which a unit may be free.
    #[inline(always)]
    fn first(&self, now: u64) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let part = if self.sub_cores {
            self.turn
        } else {
            now.wrapping_mul(GOLDEN) >> 62
        };
        usize::try_from(part & 3).unwrap_or(0) & (self.schedulers - 1)
    }

    /// Takes a unit for an instruction, and a collector where its sources go through one.
    #[inline(always)]
    fn occupy(&mut self, scheduler: usize, op: &Op, now: u64) {
        let (pipe, interval) = (op.pipe, u64::from(op.interval));
        let pool = self.pool(scheduler);
        self.units[pool][pipe as usize].occupy(now, interval);
        if let Some(collectors) = &mut self.collectors
            && is_collected(pipe)
        {
            collectors.occupy(now, self.collector_cycles + u64::from(op.sources));
        }
    }

    /// Returns the core cycle from which a unit of this pipeline is free, and so is a collector where its sources need
    /// one.
    #[inline(always)]
    fn free_at(&self, units: &Units, pipe: usize) -> u64 {
        match &self.collectors {
            Some(collectors) if pipe == Pipe::Int as usize || pipe == Pipe::Fp32 as usize => {
                units.first.max(collectors.first)
            }
            _ => units.first,
        }
    }

    /// Chooses the candidate that issues: a favoured warp whose share is due, else the policy's choice. Notes the
    /// issue.
    #[inline(always)]
    fn choose(
        &mut self,
        scheduler: usize,
        candidates: u64,
        ages: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        // The policy goes on where it was when a favoured warp has had its share.
        let chosen = match self.aging[scheduler].first(candidates) {
            Some(first) => first,
            None => self.by_policy(scheduler, candidates, ages)?,
        };
        if self.aging[scheduler].issued(chosen) {
            let ready = self.ready() & self.slots[scheduler];
            self.aging[scheduler].renew(ready);
        }
        Some(chosen)
    }

    /// Chooses among the candidates by the policy; `None` when the two-level policy has none of them in its active set.
    #[inline(always)]
    fn by_policy(
        &mut self,
        scheduler: usize,
        candidates: u64,
        ages: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        let last = self.last_issued[scheduler];
        let robin = |mask: u64| {
            // The next higher slot, else the lowest.
            let above = mask & (u64::MAX << last << 1);
            (if above != 0 { above } else { mask }).trailing_zeros()
        };
        let chosen = match self.policy {
            SchedulerPolicy::Lrr => robin(candidates),
            SchedulerPolicy::Gto if candidates >> last & 1 != 0 => last,
            SchedulerPolicy::Gto => oldest(candidates, ages),
            SchedulerPolicy::TwoLevel => {
                let mut active = self.active[scheduler];
                let mut others = candidates & !active;
                while others != 0 && active.count_ones() < self.active_limit {
                    active |= 1 << others.trailing_zeros();
                    others &= others - 1;
                }
                self.active[scheduler] = active;
                if candidates & active == 0 {
                    return None;
                }
                robin(candidates & active)
            }
        };
        self.last_issued[scheduler] = chosen;
        Some(chosen)
    }
}

fn oldest(candidates: u64, ages: impl Fn(u32) -> u64) -> u32 {
    let mut rest = candidates;
    let mut best = (u64::MAX, 0);
    while rest != 0 {
        let slot = rest.trailing_zeros();
        rest &= rest - 1;
        best = best.min((ages(slot), slot));
    }
    best.1
}

impl Sm {
    /// Runs all schedulers for one cycle. Returns whether any issued, and the first core cycle in which a unit that
    /// ready warps wait for is free or quotas are renewed; [`u64::MAX`] if there is neither.
    #[inline(always)]
    pub(super) fn cycle(&mut self, epoch: &Epoch<'_>) -> (bool, u64) {
        let (mut issued, mut next) = (false, u64::MAX);
        let (schedulers, first) = (self.arbiter.schedulers, self.arbiter.first(self.now));
        for turn in 0..schedulers {
            let scheduler = (first + turn) & (schedulers - 1);
            let candidates = self.may_issue(scheduler, &mut next);
            let warps = &self.warps;
            let ages = |slot: u32| warps[slot as usize].age;
            let chosen = if candidates == 0 {
                None
            } else {
                self.arbiter.choose(scheduler, candidates, ages)
            };
            let Some(slot) = chosen else {
                self.stalled(scheduler);
                continue;
            };
            issued = true;
            if self.quotas.on {
                let own = self.arbiter.slots[scheduler];
                self.quotas.issued(scheduler, own, slot);
            }
            let pairs = self.arbiter.width == 2;
            self.issue(scheduler, slot, !pairs, epoch);
            if pairs && self.may_issue(scheduler, &mut next) >> slot & 1 != 0 {
                self.issue(scheduler, slot, true, epoch);
                if self.quotas.on {
                    let own = self.arbiter.slots[scheduler];
                    self.quotas.issued(scheduler, own, slot);
                }
            }
        }
        (issued, next)
    }

    /// Returns the ready warps whose pipeline is free and whose kernel may issue, one bit each; lowers `next` to the
    /// core cycle in which others may.
    #[inline(always)]
    fn may_issue(&self, scheduler: usize, next: &mut u64) -> u64 {
        let candidates = self.candidates(scheduler, next);
        if !self.quotas.on {
            return candidates;
        }
        *next = (*next).min(self.quotas.renew_at.max(self.now + 1));
        self.quotas.allow(candidates)
    }

    /// Returns the ready warps whose pipeline is free, one bit each; lowers `next` to the core cycle in which another
    /// pipeline becomes free.
    #[inline(always)]
    fn candidates(&self, scheduler: usize, next: &mut u64) -> u64 {
        let arbiter = &self.arbiter;
        let (mut candidates, slots) = (0, arbiter.slots[scheduler]);
        let units = &arbiter.units[arbiter.pool(scheduler)];
        for (pipe, (ready, units)) in arbiter.ready.iter().zip(units).enumerate() {
            let ready = ready & slots;
            if ready == 0 {
                continue;
            }
            let free_at = if pipe == Pipe::Memory as usize {
                self.lsu.free_at
            } else {
                arbiter.free_at(units, pipe)
            };
            if free_at <= self.now {
                candidates |= ready;
            } else {
                *next = (*next).min(free_at);
            }
        }
        candidates
    }

    /// Executes the warp's next operation and accounts for its time; `last` when the warp issues nothing more in
    /// this cycle.
    fn issue(&mut self, scheduler: usize, slot: u32, last: bool, epoch: &Epoch<'_>) {
        let now = self.now;
        let number = usize::from(self.warps[slot as usize].block);
        let mut rare = Step::Done;
        let operation = self.warps[slot as usize].warp.pc;
        let Some((op, stepped)) = self.step(slot, epoch, &mut rare) else {
            return;
        };
        self.arbiter.ready[op.pipe as usize] &= !(1 << slot);
        let resident = &mut self.residency.blocks[number];
        count(&mut resident.counters, op.pipe, &stepped);
        let entry = &mut self.warps[slot as usize];
        entry.not_before = now + u64::from(last);
        entry.buffer.issued(operation);
        if op.pipe == Pipe::Memory {
            self.arbiter.turn += 1;
        } else {
            self.arbiter.occupy(scheduler, &op, now);
        }
        match op.kind {
            Kind::Memory | Kind::Copy | Kind::CopyArrival => {
                count_access(&op, &self.lsu.access, &mut resident.counters);
                let launch = resident.launch;
                self.time_access(slot, &op, launch, epoch);
                if op.kind == Kind::CopyArrival && stepped.lanes != 0 {
                    self.arrive_after_copies(slot);
                }
            }
            Kind::Parameter => {
                let launch = resident.launch;
                self.time_parameter(slot, &op, launch, epoch);
            }
            Kind::Branch => entry.not_before = now + u64::from(op.latency),
            Kind::Nothing if op.aux & AUX_FENCE != 0 => {
                let mut until = (now + u64::from(op.latency)).max(entry.written_at);
                if !self.log.is_empty() {
                    until = until.max(epoch.end);
                }
                entry.not_before = until;
            }
            Kind::Sleep if stepped.lanes != 0 => {
                let pause = epoch
                    .config
                    .ns_to_cycles(u64::from(self.lsu.access.pause_ns));
                entry.not_before = entry.not_before.max(now + pause);
                entry.slept_until = entry.not_before;
            }
            Kind::CopyGroup if op.aux == GROUP_COMMIT && stepped.lanes != 0 => {
                entry.copies.commit();
            }
            _ => {
                if op.pipe == Pipe::Memory {
                    self.lsu.free_at = now + u64::from(op.interval);
                }
                let done = now + u64::from(op.latency);
                for register in op.writes.iter().take_while(|r| **r != NONE) {
                    entry.ready_at[usize::from(*register)] = done;
                }
            }
        }
        if stepped.plain || matches!(rare, Step::Slept) {
            self.schedule(slot, epoch);
        } else {
            if matches!(rare, Step::Barrier(_)) {
                // The buffer is filled while the warp waits.
                self.supply(slot, epoch);
            }
            self.stop(slot, rare, epoch);
        }
    }

    /// Executes the warp's next operation, and returns it with what it did; `None` when its kernel, launch or memory
    /// domain is gone.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        slot: u32,
        epoch: &Epoch<'_>,
        rare: &mut Step,
    ) -> Option<(Op, Stepped)> {
        let now = self.now;
        if self.clock_ns.0 != now {
            // Once a cycle: it is a division.
            self.clock_ns = (now, epoch.config.cycles_to_ns(now));
        }
        let entry = &mut self.warps[slot as usize];
        let resident = &self.residency.blocks[usize::from(entry.block)];
        let kernel = resident.kernel.as_ref()?;
        let op = &kernel.ops[entry.warp.pc as usize];
        let launch = epoch.launches.get(resident.launch)?;
        let domain = epoch.memory.domain(launch.domain).ok()?;
        self.log.begin(
            now,
            Owner {
                slot,
                generation: entry.generation,
                frame: entry.warp.first_register(),
            },
        );
        let stepped = entry.warp.step(
            op,
            StepContext {
                kernel,
                block: &resident.block.env,
                domain,
                ranges: &mut self.ranges,
                access: &mut self.lsu.access,
                log: Some(&mut self.log),
                clock: now,
                clock_ns: self.clock_ns.1,
            },
            rare,
        );
        Some((*op, stepped))
    }
}

/// Counts an issued instruction.
#[inline(always)]
fn count(counters: &mut Counters, pipe: Pipe, stepped: &Stepped) {
    let threads = u64::from(stepped.lanes.count_ones());
    counters.warp_instructions += 1;
    counters.thread_instructions += threads;
    counters.divergent_branches += u64::from(stepped.diverged);
    *match pipe {
        Pipe::Int => &mut counters.int_threads,
        Pipe::Fp32 => &mut counters.fp32_threads,
        Pipe::Fp64 => &mut counters.fp64_threads,
        Pipe::Sfu => &mut counters.sfu_threads,
        Pipe::Tensor => &mut counters.tensor_threads,
        Pipe::Memory => &mut counters.memory_threads,
        Pipe::Control => &mut counters.control_threads,
    } += threads;
}
