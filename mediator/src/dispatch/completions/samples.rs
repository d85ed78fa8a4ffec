//! Launch and completion latency: every completed launch leaves one sample, for eBPF where it is loaded and for the
//! dispatcher's own histograms always.
//!
//! Latencies are device time. *Launch latency* is from submission, which is the launch's admission, to the first
//! block's start; *completion latency* is from submission to the last block's end. The service's own latency, from the
//! tenant's stamp to the hand-over to the device, is wall time and is kept apart.
//!
//! Rules: recording takes no lock, makes no system call and allocates nothing; a full eBPF ring loses the sample for
//! eBPF only, and counts it.

use crate::dispatch::feed::accounting::{TenantCounters, add};
use gridmux_bpf::histogram::{Histogram, bucket_of};
use gridmux_bpf::layout::BUCKETS;
#[cfg(not(loom))]
use gridmux_bpf::{Recorder, Sample};
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::units::Nanos;
use serde::{Deserialize, Serialize};
// Not the shim's: counts that order nothing, so that the loom test need not see them.
use std::sync::atomic::{AtomicU64, Ordering};

/// One completed launch.
#[derive(Debug, Clone, Copy)]
pub struct LaunchSample {
    /// The tenant that launched it.
    pub tenant: TenantId,
    /// The device that ran it.
    pub device: DeviceId,
    /// Launch latency: admission to the first block's start, device time.
    pub submit_to_start: Nanos,
    /// Completion latency: admission to the last block's end, device time.
    pub submit_to_complete: Nanos,
    /// The tenant's stamp to the hand-over to the device, wall time.
    pub wall_submit_to_issue_ns: u64,
}

/// Where samples go.
#[derive(Default)]
pub struct SampleSink {
    #[cfg(not(loom))]
    recorder: Option<Recorder>,
}

impl SampleSink {
    /// Makes a sink that also writes each sample to an eBPF ring, where there is one.
    #[cfg(not(loom))]
    #[must_use]
    pub fn with_recorder(recorder: Option<Recorder>) -> Self {
        Self { recorder }
    }

    /// Records one sample.
    pub fn record(&mut self, counters: &TenantCounters, sample: &LaunchSample) {
        counters.start_latency().add(sample.submit_to_start.0);
        counters.complete_latency().add(sample.submit_to_complete.0);
        #[cfg(not(loom))]
        if let Some(recorder) = &mut self.recorder {
            recorder.record(&Sample {
                tenant: sample.tenant.0,
                device: sample.device.0,
                submit_to_start_ns: Some(sample.submit_to_start.0),
                submit_to_complete_ns: Some(sample.submit_to_complete.0),
                wall_submit_to_start_ns: Some(sample.wall_submit_to_issue_ns),
            });
        }
    }
}

/// A histogram of nanoseconds in atomics, with the buckets that eBPF uses.
#[derive(Debug)]
pub struct LatencyHistogram {
    buckets: Box<[AtomicU64]>,
    /// Least and greatest value: the greatest number and 0 while there is none.
    least_ns: AtomicU64,
    greatest_ns: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::of(&[], (u64::MAX, 0))
    }
}

impl LatencyHistogram {
    /// Makes one with these counts, one per bucket in order, of values from the least to the greatest.
    #[must_use]
    pub fn of(counts: &[u64], (least_ns, greatest_ns): (u64, u64)) -> Self {
        let counts = counts.iter().copied().chain(std::iter::repeat(0));
        Self {
            buckets: counts.take(BUCKETS).map(AtomicU64::new).collect(),
            least_ns: least_ns.into(),
            greatest_ns: greatest_ns.into(),
        }
    }

    /// Returns the least and the greatest value: the greatest number and 0 while there is none.
    #[must_use]
    pub fn range_ns(&self) -> (u64, u64) {
        // Relaxed: each publishes nothing but itself.
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        (read(&self.least_ns), read(&self.greatest_ns))
    }

    /// Returns the count of every bucket, in order.
    pub fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        // Relaxed: a bucket publishes nothing but itself.
        let read = |bucket: &AtomicU64| bucket.load(Ordering::Relaxed);
        self.buckets.iter().map(read)
    }

    /// Adds one value; only the dispatcher does so.
    pub fn add(&self, ns: u64) {
        let (least_ns, greatest_ns) = self.range_ns();
        // Relaxed: each publishes nothing but itself.
        if ns < least_ns {
            self.least_ns.store(ns, Ordering::Relaxed);
        }
        if ns > greatest_ns {
            // Relaxed: as above.
            self.greatest_ns.store(ns, Ordering::Relaxed);
        }
        add(&self.buckets[bucket_of(ns)], 1);
    }

    /// Reads every bucket's count, and the least and the greatest value.
    pub fn read(&self) -> Histogram {
        Histogram::from_counts(self.counts(), self.range_ns())
    }
}

/// Percentiles of launch latency and completion latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyView {
    /// Launches.
    pub count: u64,
    /// Median launch latency, device nanoseconds.
    pub start_p50_ns: Option<u64>,
    /// 99th percentile of the same.
    pub start_p99_ns: Option<u64>,
    /// Median completion latency, device nanoseconds.
    pub complete_p50_ns: Option<u64>,
    /// 99th percentile of the same.
    pub complete_p99_ns: Option<u64>,
}

impl LatencyView {
    /// Takes the percentiles of launch latencies and of completion latencies.
    #[must_use]
    pub fn of(start: &Histogram, complete: &Histogram) -> Self {
        Self {
            count: start.count(),
            start_p50_ns: start.percentile(0.5),
            start_p99_ns: start.percentile(0.99),
            complete_p50_ns: complete.percentile(0.5),
            complete_p99_ns: complete.percentile(0.99),
        }
    }
}
