//! Launch latency: every completed launch leaves one sample, for eBPF where it is loaded and for the dispatcher's own
//! histogram always.
//!
//! Latencies are device time (design section 10): from admission to the first block's start, and to the last block's
//! end. The service's own latency, from the tenant's stamp to the hand-over to the device, is wall time and is kept
//! apart.
//!
//! Rules: recording takes no lock, makes no system call and allocates nothing; a full eBPF ring loses the sample for
//! eBPF only, and counts it.

use super::accounting::TenantCounters;
use gridmux_bpf::latency::{Recorder, Sample};
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::units::Nanos;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Linear steps per power of two.
const STEPS: usize = 8;
/// Buckets: 2^0 … 2^63, in steps.
const BUCKETS: usize = 64 * STEPS;

/// One completed launch.
#[derive(Debug, Clone, Copy)]
pub struct LaunchSample {
    /// Whose.
    pub tenant: TenantId,
    /// Where.
    pub device: DeviceId,
    /// Admission to first block, device time.
    pub submit_to_start: Nanos,
    /// Admission to last block's end, device time.
    pub submit_to_complete: Nanos,
    /// The tenant's stamp to the hand-over to the device, wall time.
    pub wall_submit_to_issue_ns: u64,
}

/// Where samples go.
#[derive(Default)]
pub struct SampleSink {
    recorder: Option<Recorder>,
}

impl SampleSink {
    /// Samples go to this eBPF ring as well.
    #[must_use]
    pub fn with_recorder(recorder: Option<Recorder>) -> Self {
        Self { recorder }
    }

    /// Records one sample.
    pub fn record(&mut self, counters: &TenantCounters, sample: &LaunchSample) {
        counters.start_latency().add(sample.submit_to_start.0);
        counters.complete_latency().add(sample.submit_to_complete.0);
        if let Some(recorder) = &mut self.recorder {
            recorder.record(&Sample {
                tenant: sample.tenant.0,
                device: sample.device.0,
                submit_to_start_ns: sample.submit_to_start.0,
                submit_to_complete_ns: sample.submit_to_complete.0,
                wall_submit_to_issue_ns: sample.wall_submit_to_issue_ns,
            });
        }
    }
}

/// A histogram of nanoseconds, eight linear steps per power of two, in atomics.
#[derive(Debug)]
pub struct LatencyHistogram {
    buckets: Box<[AtomicU64]>,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl LatencyHistogram {
    /// Adds one value. Relaxed: a bucket publishes nothing but itself.
    pub fn add(&self, ns: u64) {
        self.buckets[bucket_of(ns)].fetch_add(1, Relaxed);
    }

    /// The value below which that part of the samples lies, interpolated within its bucket.
    #[must_use]
    pub fn percentile(&self, part: f64) -> Option<f64> {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
        let target = part.clamp(0.0, 1.0) * total as f64;
        let mut below = 0.0;
        for (index, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
            let count = count as f64;
            if below + count >= target {
                let (low, high) = bounds_of(index);
                return Some(low + (high - low) * ((target - below) / count));
            }
            below += count;
        }
        None
    }

    /// Samples so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }
}

/// Percentiles of launch latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyView {
    /// Launches.
    pub count: u64,
    /// Median from admission to first block, device nanoseconds.
    pub start_p50_ns: f64,
    /// 99th percentile of the same.
    pub start_p99_ns: f64,
    /// Median from admission to last block's end, device nanoseconds.
    pub complete_p50_ns: f64,
    /// 99th percentile of the same.
    pub complete_p99_ns: f64,
}

impl LatencyView {
    /// Reads a tenant's histograms.
    #[must_use]
    pub fn of(counters: &TenantCounters) -> Self {
        let (start, complete) = (counters.start_latency(), counters.complete_latency());
        Self {
            count: start.count(),
            start_p50_ns: start.percentile(0.5).unwrap_or(0.0),
            start_p99_ns: start.percentile(0.99).unwrap_or(0.0),
            complete_p50_ns: complete.percentile(0.5).unwrap_or(0.0),
            complete_p99_ns: complete.percentile(0.99).unwrap_or(0.0),
        }
    }
}

fn bucket_of(ns: u64) -> usize {
    let power = ns.max(1).ilog2() as usize;
    let step = if power >= 3 { (ns >> (power - 3)) as usize & (STEPS - 1) } else { 0 };
    power * STEPS + step
}

#[allow(clippy::cast_precision_loss, reason = "bounds of a bucket need no more than 53 bits")]
fn bounds_of(index: usize) -> (f64, f64) {
    let (power, step) = (index / STEPS, index % STEPS);
    let base = (power as f64).exp2();
    let width = if power >= 3 { base / STEPS as f64 } else { base };
    let low = base + width * step as f64;
    (low, low + width)
}

#[cfg(test)]
mod tests {
    use super::{LatencyHistogram, bounds_of, bucket_of};

    #[test]
    fn every_value_lies_in_its_bucket() {
        for ns in (0..64).map(|p| 1_u64 << p).flat_map(|v| [v, v + v / 3, v + v / 2]) {
            let (low, high) = bounds_of(bucket_of(ns));
            #[allow(clippy::cast_precision_loss)]
            let ns = ns as f64;
            assert!(low <= ns && ns <= high, "{ns} not in {low}..{high}");
        }
    }

    #[test]
    fn percentiles_are_within_a_step() {
        let histogram = LatencyHistogram::default();
        for value in 1..=10_000 {
            histogram.add(value);
        }
        let p50 = histogram.percentile(0.5).unwrap();
        let p99 = histogram.percentile(0.99).unwrap();
        assert!((p50 - 5_000.0).abs() < 5_000.0 / 8.0, "{p50}");
        assert!((p99 - 9_900.0).abs() < 9_900.0 / 8.0, "{p99}");
    }
}
