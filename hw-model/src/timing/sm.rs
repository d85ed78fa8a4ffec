//! One streaming multiprocessor: what it consists of, and its loop over cycles.
//!
//! A warp is ready, asleep until a known cycle, blocked on memory, or waiting at a barrier. Ready warps stand in
//! bit masks per scheduler and pipeline, so that choosing one is a few mask operations; sleeping warps stand in
//! the wheel; nobody is ever scanned. The life of a block is `resident`; which warp issues, and what that does, is
//! `issue`; what stops a warp is `meeting`; what an access costs is `load_store`, what waits for memory `lsu`, what
//! leaves and arrives `port`; the caches are `caches`, code is `fetch`; a block that leaves with its context is
//! `context_switch`; why nobody issued is `stalls`, and at which operation `watch`; what was done is `totals`.
//! Rules: warp slot `w` belongs to scheduler `w % schedulers`; results of an instruction exist functionally at issue
//! (those of global atomic operations at the epoch's end) and for the scoreboard when its latency is over.

use super::caches::Caches;
use super::context_switch::{ContextSwitches, SavedBlock};
use super::copy_arrivals::CopyArrivals;
use super::exchange::Exchange;
use super::fetch::FrontEnd;
use super::issue::Arbiter;
use super::launches::Launches;
use super::lsu::LoadStoreUnit;
use super::memory_system::{Group, Reply, Request, Topology};
use super::port::Port;
use super::quota::Quotas;
use super::resident::{Residency, WarpSlot};
use super::totals::Totals;
use super::watch::Stalls;
use super::wheel::Wheel;
use crate::config::GpuConfig;
use crate::counters::Counters;
use crate::exec::{RangeCache, StepOutput, WriteLog};
use crate::fault::Fault;
use crate::memory::Memory;

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
    Printed { launch: u32, said: StepOutput },
    /// A launch faulted.
    Faulted {
        launch: u32,
        at: u64,
        fault: Box<Fault>,
    },
}

/// What an SM reads while it runs through an epoch, and where its requests go.
#[derive(Clone, Copy)]
pub(crate) struct Epoch<'a> {
    pub(crate) config: &'a GpuConfig,
    pub(crate) memory: &'a Memory,
    pub(crate) launches: &'a Launches,
    pub(crate) topology: &'a Topology,
    /// What serves the requests, as the last epoch left it.
    pub(crate) groups: &'a [Group],
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
    /// The blocks, and the room that they have.
    pub(super) residency: Residency,
    pub(super) arbiter: Arbiter,
    pub(super) wheel: Wheel,
    /// None where the supply of instructions never limits.
    pub(super) front: Option<FrontEnd>,
    pub(super) ranges: RangeCache,
    pub(super) log: WriteLog,
    /// L1 and the caches of constants and textures.
    pub(super) caches: Caches,
    /// The load/store unit.
    pub(super) lsu: LoadStoreUnit,
    /// The way to the interconnect and back.
    pub(super) port: Port,
    /// When the barrier unit has counted the last warp that came to a barrier.
    pub(super) barrier_at: u64,
    pub(super) arrivals: CopyArrivals,
    pub(super) status: Status,
    pub(super) events: Vec<SmEvent>,
    /// Counters of blocks that are gone.
    pub(super) totals: Totals,
    /// Blocks that leave with their context, or come back.
    pub(super) context_switches: ContextSwitches,
    pub(super) quotas: Quotas,
    /// Where warps stall, if anybody asked.
    pub(super) stalls: Option<Box<Stalls>>,
}

// SAFETY: the raw pointers inside point into buffers that the same `Sm` owns, or at parameters that stay while their
// launch does; one thread at a time has the SM.
unsafe impl Send for Sm {}

impl Sm {
    pub(crate) fn new(config: &GpuConfig, id: u16) -> Self {
        let warps = config.warps_per_sm() as usize;
        Self {
            id,
            now: 0,
            clock_ns: (0, 0),
            warps: (0..warps).map(|_| WarpSlot::new()).collect(),
            residency: Residency::new(config),
            arbiter: Arbiter::new(config),
            wheel: Wheel::new(),
            front: config.fetch.as_ref().map(FrontEnd::new),
            ranges: RangeCache::new(),
            log: WriteLog::new(),
            caches: Caches::new(config),
            lsu: LoadStoreUnit::new(),
            port: Port::new(),
            barrier_at: 0,
            arrivals: CopyArrivals::new(),
            status: Status {
                next_at: u64::MAX,
                ..Status::default()
            },
            events: Vec::with_capacity(64),
            totals: Totals::default(),
            context_switches: ContextSwitches::default(),
            quotas: Quotas::new(usize::from(config.sm.schedulers)),
            stalls: None,
        }
    }

    /// Returns what the GPU must know between epochs.
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

    /// Runs through the epoch.
    pub(crate) fn run(&mut self, epoch: &Epoch<'_>) {
        if self.now < epoch.start {
            self.asleep(epoch.start - self.now);
        }
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
            let sleeper = self.wheel.next(self.now).unwrap_or(u64::MAX);
            sleeper
                .min(self.port.next_at())
                .min(self.arrivals.next_at())
        };
        if !self.context_switches.moves.is_empty() {
            let next = self.next_move_at();
            self.status.next_at = self.status.next_at.min(next);
        }
    }

    /// Takes in what came about since the last epoch: results, replies, new blocks.
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
            replies.drain(..).for_each(|reply| self.port.expect(&reply));
        }
        self.look_at_hold(epoch);
        let network = &epoch.config.interconnect;
        while let Some((miss, turn)) = self.port.receive(network, epoch.end) {
            self.fill(miss, turn, epoch);
        }
        if std::mem::take(&mut self.status.starts) {
            let mut starts = std::mem::take(&mut self.residency.starts);
            for start in starts.drain(..) {
                if let Some(launch) = epoch.launches.get(start.launch) {
                    self.start(&start, launch, epoch);
                }
            }
            self.residency.starts = starts;
        }
        if !self.context_switches.moves.is_empty() {
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
}
