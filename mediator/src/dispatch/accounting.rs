//! What is counted of each tenant, in atomics that anybody may read while the dispatcher writes.
//!
//! Rules: only the dispatcher adds; readers take each counter by itself, so a snapshot of several may be torn by
//! one operation. Every access is `Relaxed`: a counter publishes nothing but itself.

use super::samples::LatencyHistogram;
use gridmux_policy::units::Nanos;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one tenant, written by the dispatcher.
#[derive(Debug, Default)]
pub struct TenantCounters {
    submitted: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    slices: AtomicU64,
    blocks: AtomicU64,
    block_ns: AtomicU64,
    bytes_copied: AtomicU64,
    pending: AtomicU64,
    share_bits: AtomicU64,
    shared_busy_ns: AtomicU64,
    start_latency: LatencyHistogram,
    complete_latency: LatencyHistogram,
}

/// A reading of [`TenantCounters`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantUsage {
    /// Operations admitted.
    pub submitted: u64,
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
    /// Share got while all tenants had work (design section 10); `None` before any such interval.
    pub share_got: Option<f64>,
    /// Device time over which all tenants had work.
    pub shared_busy_ns: u64,
}

impl TenantCounters {
    pub(super) fn admitted(&self) {
        self.submitted.fetch_add(1, Relaxed);
        self.pending.fetch_add(1, Relaxed);
    }

    pub(super) fn completed(&self, ok: bool) {
        self.completed.fetch_add(1, Relaxed);
        self.pending.fetch_sub(1, Relaxed);
        if !ok {
            self.failed.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn slice(&self) {
        self.slices.fetch_add(1, Relaxed);
    }

    pub(super) fn retired(&self, blocks: u32, ran: Nanos) {
        self.blocks.fetch_add(u64::from(blocks), Relaxed);
        self.block_ns.fetch_add(ran.0, Relaxed);
    }

    pub(super) fn copied(&self, bytes: u64) {
        self.bytes_copied.fetch_add(bytes, Relaxed);
    }

    pub(super) fn share(&self, share: f64, all_busy: Nanos) {
        self.share_bits.store(share.to_bits(), Relaxed);
        self.shared_busy_ns.store(all_busy.0, Relaxed);
    }

    /// From admission to the first block's start, device time.
    #[must_use]
    pub fn start_latency(&self) -> &LatencyHistogram {
        &self.start_latency
    }

    /// From admission to the last block's end, device time.
    #[must_use]
    pub fn complete_latency(&self) -> &LatencyHistogram {
        &self.complete_latency
    }

    /// Reads every counter.
    #[must_use]
    pub fn read(&self) -> TenantUsage {
        let shared_busy_ns = self.shared_busy_ns.load(Relaxed);
        TenantUsage {
            submitted: self.submitted.load(Relaxed),
            completed: self.completed.load(Relaxed),
            failed: self.failed.load(Relaxed),
            slices: self.slices.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
            block_ns: self.block_ns.load(Relaxed),
            bytes_copied: self.bytes_copied.load(Relaxed),
            pending: self.pending.load(Relaxed),
            share_got: (shared_busy_ns > 0).then(|| f64::from_bits(self.share_bits.load(Relaxed))),
            shared_busy_ns,
        }
    }
}
