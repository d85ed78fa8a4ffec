//! One streaming multiprocessor: what it consists of, and its loop over cycles.
//!
//! A warp is ready, asleep until a known cycle, blocked on memory, or waiting at a barrier. Ready warps stand in
//! bit masks per scheduler and pipeline, so that choosing one is a few mask operations; sleeping warps stand in
//! the wheel; nobody is ever scanned. The life of a block is `resident`; which warp issues, and what that does, is
//! `issue`; what stops a warp is `meeting`; what an access costs is `load_store`; why nobody issued is `stalls`, and
//! at which operation `watch`; what was done is `totals`.
//! Rules: warp slot `w` belongs to scheduler `w % schedulers`; results of an instruction exist functionally at issue
//! (those of global atomic operations at the epoch's end) and for the scoreboard when its latency is over.

use super::cache::Cache;
use super::coalesce::Lines;
use super::context_switch::{Moving, SavedBlock};
use super::copy_arrivals::CopyArrivals;
use super::exchange::Exchange;
use super::fetch::FrontEnd;
use super::hold::Hold;
use super::issue::Arbiter;
use super::launches::Launches;
use super::load_store::{Miss, PendingLoad, Waiter};
use super::memory_system::{Group, Reply, Request, Topology};
use super::pool::Pool;
use super::quota::Quotas;
use super::resident::{Resident, Start, WarpSlot};
use super::room::Room;
use super::watch::Stalls;
use super::wheel::Wheel;
use crate::config::GpuConfig;
use crate::counters::Counters;
use crate::exec::{Access, RangeCache, Said, WriteLog};
use crate::fault::Fault;
use crate::memory::Memory;
use gridmux_policy::ids::RowId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    Printed { launch: u32, said: Said },
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
    pub(super) residents: Vec<Resident>,
    pub(super) free_blocks: u64,
    pub(super) free_warps: u64,
    pub(super) room: Room,
    pub(super) starts: Vec<Start>,
    pub(super) next_age: u64,
    pub(super) newest_launch: u64,
    pub(super) arbiter: Arbiter,
    pub(super) wheel: Wheel,
    /// None where the supply of instructions never limits.
    pub(super) front: Option<FrontEnd>,
    pub(super) ranges: RangeCache,
    pub(super) access: Access,
    pub(super) log: WriteLog,
    pub(super) lines: Lines,
    pub(super) l1: Cache,
    /// Bytes that shared memory takes of L1.
    pub(super) carve_out: u32,
    pub(super) constants: Cache,
    pub(super) textures: Cache,
    /// When the load/store unit takes its next instruction; [`UNKNOWN`] while it waits for a reply or a partition.
    pub(super) unit_free_at: u64,
    /// When the barrier unit has counted the last warp that came to a barrier.
    pub(super) barrier_at: u64,
    /// A line in whose set of L1 every line waits for a fill, which the load/store unit waits for.
    pub(super) crowded: Option<u64>,
    /// What keeps the load/store unit from its next access.
    pub(super) hold: Hold,
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
    pub(super) totals: Counters,
    /// The same by row, sorted.
    pub(super) by_row: Vec<(RowId, Counters)>,
    /// Warp slots that issue no more, because their block is leaving.
    pub(super) held: u64,
    /// Blocks that are leaving.
    pub(super) leaving: u64,
    pub(super) moves: Vec<Moving>,
    pub(super) next_move: u32,
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
            carve_out: 0,
            constants: small(&config.constant),
            textures: small(&config.texture),
            unit_free_at: 0,
            barrier_at: 0,
            crowded: None,
            hold: Hold::default(),
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
            stalls: None,
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

    /// Runs through the epoch.
    pub(crate) fn run(&mut self, epoch: &Epoch<'_>) {
        if self.stalls.is_some() && self.now < epoch.start {
            self.watch_gap(epoch.start - self.now);
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
        self.look_at_hold(epoch);
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
}
