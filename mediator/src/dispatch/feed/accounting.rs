//! The counters of each tenant over all of its clients, in atomics that may be read while the dispatcher writes.
//!
//! Rules: only the dispatcher adds, so that adding is a load and a store and locks no cache line; readers take each
//! counter by itself, so a snapshot of several may be torn by one operation. Every access is `Relaxed`: a counter
//! publishes nothing but itself.

use super::why::{Binding, Why};
use crate::dispatch::completions::samples::LatencyHistogram;
use gridmux_policy::ShareReading;
use gridmux_policy::units::Nanos;
use serde::{Deserialize, Serialize};
// Not the shim's: figures that order nothing, so that the loom test need not see them.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of one tenant, written by the dispatcher.
#[derive(Debug, Default)]
pub struct TenantCounters {
    submitted: AtomicU64,
    launches: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    slices: AtomicU64,
    blocks: AtomicU64,
    block_ns: AtomicU64,
    bytes_copied: AtomicU64,
    pending: AtomicU64,
    abandoned: AtomicU64,
    held_bits: AtomicU64,
    entitled_bits: AtomicU64,
    total_bits: AtomicU64,
    slowdown_bits: AtomicU64,
    /// Residence in company of blocks whose kernel's time alone is known, and what they would have resided for alone.
    known_ns: AtomicU64,
    alone_ns: AtomicU64,
    budget_ends: AtomicU64,
    behind: AtomicBool,
    waiting: AtomicBool,
    /// What binds the tenant, and since when.
    binding: AtomicU64,
    /// Integrals that were counted before these counters began.
    before: ShareReading,
    start_latency: LatencyHistogram,
    complete_latency: LatencyHistogram,
    preemption_latency: LatencyHistogram,
}

/// A reading of [`TenantCounters`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantUsage {
    /// Operations admitted.
    pub submitted: u64,
    /// Launches among them.
    pub launches: u64,
    /// Operations completed, failed ones included.
    pub completed: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Slices handed to the device.
    pub slices: u64,
    /// Thread blocks that ran.
    pub blocks: u64,
    /// Sum of the residence of those blocks, device time.
    pub block_ns: u64,
    /// Bytes copied either way.
    pub bytes_copied: u64,
    /// Operations admitted and not yet completed.
    pub pending: u64,
    /// Operations admitted whose client left, or whose device host was replaced, before they were completed.
    pub abandoned: u64,
    /// Part of what all tenants held, while this one was busy, that it held; `None` before any.
    pub share_got: Option<f64>,
    /// Part of what all tenants held, while this one was busy, that it was entitled to: by its weight, up to what it
    /// could use.
    pub share_entitled: Option<f64>,
    /// SM · nanoseconds of device time that its blocks held, by their dominant share.
    pub held_sm_ns: f64,
    /// SM · nanoseconds of device time that it was entitled to.
    pub entitled_sm_ns: f64,
    /// SM · nanoseconds of device time that the blocks of all tenants held while it was busy.
    pub all_held_sm_ns: f64,
    /// How many times longer its work took while it was busy than it would have alone, since the device's host
    /// started: time in which no other tenant had a launch open is what it would have been alone, the rest is estimated
    /// from what its blocks held and how long they took. `None` before any.
    pub slowdown: Option<f64>,
    /// Launches that ended at their budget, until others that ended in time have run for as long.
    pub budget_ends: u64,
    /// Its launches keep ending at their budget: they run while no other tenant has one open or to come.
    pub is_behind: bool,
    /// It has a launch open and no block on the device, so that its shares say nothing of the present: they are not
    /// measured before a block of it has ended.
    pub is_waiting: bool,
    /// What binds it, and since when.
    pub binding: Binding,
}

impl TenantCounters {
    /// Makes counters that go on from what was counted before, of a tenant with nothing under way; latencies are those
    /// of launch, completion and preemption.
    #[must_use]
    pub fn going_on(usage: &TenantUsage, latencies: [LatencyHistogram; 3]) -> Self {
        let [start_latency, complete_latency, preemption_latency] = latencies;
        let before = ShareReading {
            held: usage.held_sm_ns,
            entitled: usage.entitled_sm_ns,
            total: usage.all_held_sm_ns,
            ..ShareReading::default()
        };
        Self {
            submitted: usage.submitted.into(),
            launches: usage.launches.into(),
            completed: usage.completed.into(),
            failed: usage.failed.into(),
            slices: usage.slices.into(),
            blocks: usage.blocks.into(),
            block_ns: usage.block_ns.into(),
            bytes_copied: usage.bytes_copied.into(),
            abandoned: usage.abandoned.into(),
            held_bits: before.held.to_bits().into(),
            entitled_bits: before.entitled.to_bits().into(),
            total_bits: before.total.to_bits().into(),
            before,
            start_latency,
            complete_latency,
            preemption_latency,
            ..Self::default()
        }
    }

    pub(in crate::dispatch) fn admitted(&self, is_launch: bool) {
        add(&self.submitted, 1);
        add(&self.launches, is_launch.into());
        add(&self.pending, 1);
    }

    pub(in crate::dispatch) fn completed(&self, ok: bool) {
        add(&self.completed, 1);
        take_one(&self.pending);
        if !ok {
            add(&self.failed, 1);
        }
    }

    pub(in crate::dispatch) fn slice(&self) {
        add(&self.slices, 1);
    }

    pub(in crate::dispatch) fn retired(&self, blocks: u32, ran: Nanos) {
        add(&self.blocks, u64::from(blocks));
        add(&self.block_ns, ran.0);
    }

    /// Counts blocks that resided for `ran` in company and would have for `alone` with the device to themselves.
    pub(in crate::dispatch) fn resided(&self, ran: Nanos, alone: Nanos) {
        add(&self.known_ns, ran.0);
        add(&self.alone_ns, alone.0);
    }

    pub(in crate::dispatch) fn copied(&self, bytes: u64) {
        add(&self.bytes_copied, bytes);
    }

    pub(in crate::dispatch) fn share(&self, reading: &ShareReading, is_waiting: bool) {
        // Relaxed: it publishes nothing but itself.
        self.waiting.store(is_waiting, Ordering::Relaxed);
        let ShareReading {
            held,
            entitled,
            total,
            ..
        } = self.before;
        let store = |bits, value: f64| write(bits, value.to_bits());
        store(&self.held_bits, held + reading.held);
        store(&self.entitled_bits, entitled + reading.entitled);
        store(&self.total_bits, total + reading.total);
        let (alone, known) = (read(&self.alone_ns), read(&self.known_ns));
        let block_alone = if known > 0 {
            alone as f64 / known as f64
        } else {
            1.0
        };
        let slowdown = reading.pace.slowdown(block_alone);
        store(&self.slowdown_bits, slowdown.unwrap_or_default());
    }

    pub(in crate::dispatch) fn budget_ends(&self, ends: u32, is_behind: bool) {
        write(&self.budget_ends, ends.into());
        // Relaxed: it publishes nothing but itself.
        self.behind.store(is_behind, Ordering::Relaxed);
    }

    /// Says what binds the tenant from `wall_ns` on, if it is something else than before.
    pub(in crate::dispatch) fn bind(&self, why: Why, wall_ns: u64) {
        let before = Binding::of_word(read(&self.binding));
        if before.why == why && before.since_ns > 0 {
            return;
        }
        let since_ns = wall_ns;
        write(&self.binding, Binding { why, since_ns }.to_word());
    }

    /// Returns whether operations are admitted that have not completed.
    pub(in crate::dispatch) fn has_pending(&self) -> bool {
        read(&self.pending) > 0
    }

    /// Counts an operation of a client that left before it completed.
    pub(in crate::dispatch) fn abandoned(&self) {
        add(&self.abandoned, 1);
        take_one(&self.pending);
    }

    /// Returns launch latencies: from admission to the first block's start, in nanoseconds of device time.
    #[must_use]
    pub fn start_latency(&self) -> &LatencyHistogram {
        &self.start_latency
    }

    /// Returns completion latencies: from admission to the last block's end, in nanoseconds of device time.
    #[must_use]
    pub fn complete_latency(&self) -> &LatencyHistogram {
        &self.complete_latency
    }

    /// Returns preemption latencies: from the decision that others give way to its first block in their room, in
    /// nanoseconds of device time.
    #[must_use]
    pub fn preemption_latency(&self) -> &LatencyHistogram {
        &self.preemption_latency
    }

    /// Reads every counter.
    #[must_use]
    pub fn read(&self) -> TenantUsage {
        let float = |bits: &AtomicU64| f64::from_bits(read(bits));
        let reading = ShareReading {
            held: float(&self.held_bits),
            entitled: float(&self.entitled_bits),
            total: float(&self.total_bits),
            ..ShareReading::default()
        };
        let slowdown = float(&self.slowdown_bits);
        TenantUsage {
            submitted: read(&self.submitted),
            launches: read(&self.launches),
            completed: read(&self.completed),
            failed: read(&self.failed),
            slices: read(&self.slices),
            blocks: read(&self.blocks),
            block_ns: read(&self.block_ns),
            bytes_copied: read(&self.bytes_copied),
            pending: read(&self.pending),
            abandoned: read(&self.abandoned),
            share_got: reading.got(),
            share_entitled: reading.asked(),
            held_sm_ns: reading.held,
            entitled_sm_ns: reading.entitled,
            all_held_sm_ns: reading.total,
            slowdown: (slowdown > 0.0).then_some(slowdown),
            budget_ends: read(&self.budget_ends),
            // Relaxed: both publish nothing but themselves.
            is_behind: self.behind.load(Ordering::Relaxed),
            is_waiting: self.waiting.load(Ordering::Relaxed),
            binding: Binding::of_word(read(&self.binding)),
        }
    }
}

/// Adds to a counter that nobody else writes.
pub(in crate::dispatch) fn add(counter: &AtomicU64, n: u64) {
    write(counter, read(counter).wrapping_add(n));
}

/// Takes one from a counter that nobody else writes.
fn take_one(counter: &AtomicU64) {
    write(counter, read(counter).wrapping_sub(1));
}

pub(super) fn read(counter: &AtomicU64) -> u64 {
    // Relaxed: it publishes nothing but itself.
    counter.load(Ordering::Relaxed)
}

fn write(counter: &AtomicU64, value: u64) {
    // Relaxed: it publishes nothing but itself.
    counter.store(value, Ordering::Relaxed);
}
