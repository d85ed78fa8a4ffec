//! Preemption latencies as a histogram of Prometheus.
//!
//! Rules: a tenant of whom nobody gave way has no series. The bounds are the powers of two of nanoseconds from a
//! microsecond to 17 s, less one, so that no bin of ours is divided; the sum is taken from the bins, of which each is
//! at most an eighth wider than its least value.

use super::exposition::{Labels, labels};
use gridmux_bpf::Histogram;
use gridmux_mediator::link::TenantStatistics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt;

/// Exponents of the least and the greatest bound.
const BOUNDS: std::ops::RangeInclusive<usize> = 10..=34;
const HELP: &str = "From when a launch went above those of other tenants to its first block there, in device time.";

/// The preemption latencies of all tenants that have any.
#[derive(Debug)]
pub(super) struct Preemptions(Vec<(Labels, Histogram)>);

impl Preemptions {
    /// Takes them from a reading.
    pub(super) fn of(tenants: &[TenantStatistics]) -> Self {
        let all = tenants
            .iter()
            .map(|tenant| (labels(tenant), tenant.preemption.histogram()));
        Self(all.filter(|(_, histogram)| histogram.count() > 0).collect())
    }
}

impl Collector for Preemptions {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (name, unit) = ("preemption_latency", Unit::Seconds);
        let mut family =
            encoder.encode_descriptor(name, HELP, Some(&unit), MetricType::Histogram)?;
        for (labels, histogram) in &self.0 {
            let count = histogram.count();
            let sum = histogram.mean_ns().unwrap_or(0.0) * count as f64 / 1e9;
            let mut series = family.encode_family(labels)?;
            series.encode_histogram::<NoLabelSet>(sum, count, &buckets(histogram), None)?;
        }
        Ok(())
    }
}

/// Returns the upper bound of each bucket in seconds, with how many values are in it and in no lower one.
fn buckets(histogram: &Histogram) -> Vec<(f64, u64)> {
    let by_power = histogram.log2();
    let (lowest, highest) = (*BOUNDS.start(), *BOUNDS.end());
    let bounded = BOUNDS.map(|exponent| {
        let least = if exponent == lowest { 0 } else { exponent - 1 };
        let count = by_power[least..exponent].iter().sum();
        (((1u64 << exponent) - 1) as f64 / 1e9, count)
    });
    let rest = (f64::INFINITY, by_power[highest..].iter().sum());
    bounded.chain([rest]).collect()
}

#[cfg(test)]
mod tests {
    use super::{Preemptions, buckets};
    use gridmux_bpf::Histogram;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn a_tenants_series_is_cumulative_and_ends_with_all_values() {
        let mut histogram = Histogram::default();
        for ns in [1500, 3_000_000, 3_000_000] {
            histogram.add(ns);
        }
        let mut registry = Registry::with_prefix("gridmux");
        let labels = vec![("tenant".to_owned(), "a".to_owned())];
        registry.register_collector(Box::new(Preemptions(vec![(labels, histogram)])));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let series = |le: &str, count: u64| {
            let name = "gridmux_preemption_latency_seconds";
            let line = format!("\n{name}_bucket{{le=\"{le}\",tenant=\"a\"}} {count}\n");
            assert!(text.contains(&line), "{line}: {text}");
        };
        series("0.000001023", 0);
        series("0.000002047", 1);
        series("0.004194303", 3);
        series("+Inf", 3);
        assert!(text.contains("_seconds_count{tenant=\"a\"} 3\n"), "{text}");
    }

    #[test]
    fn every_value_is_in_the_first_bucket_that_has_room_for_it() {
        let mut histogram = Histogram::default();
        for ns in [0, 1023, 1024, 5_000_000, 1 << 40] {
            histogram.add(ns);
        }
        let buckets = buckets(&histogram);
        let filled: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).collect();
        let bounds = [1023.0, 2047.0, 8_388_607.0, f64::INFINITY];
        for ((bound, count), (expected, values)) in
            filled.iter().zip(bounds.iter().zip([2, 1, 1, 1]))
        {
            assert!(
                (bound * 1e9 - expected).abs() < 1e-3 || bound == expected,
                "{bound}"
            );
            assert_eq!(*count, values);
        }
        assert_eq!(filled.len(), bounds.len());
        assert!(buckets.is_sorted_by(|(a, _), (b, _)| a < b));
    }
}
