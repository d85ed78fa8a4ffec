//! What a run of a workload reports.

use super::closed_loop::Timings;
use crate::units::counted;
use gridmux_policy::metrics::Percentiles;
use serde::Serialize;

/// The result line.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Name of the tenant.
    pub(super) name: String,
    /// Name of the workload.
    pub(super) workload: &'static str,
    /// Its size; `elements` says more.
    pub(super) size: gridmux_workloads::Size,
    /// Elements of one launch.
    pub(super) elements: u32,
    /// Seed of its inputs.
    pub(super) seed: u64,
    /// Launches that ended.
    pub(super) launches: u64,
    /// Streams they went over.
    pub(super) streams: u16,
    /// Whether the outputs of every stream are what the host reference expects.
    pub(super) verified: bool,
    /// The first difference, if they are not.
    pub(super) mismatch: Option<String>,
    /// Device it ran on.
    pub(super) device: String,
    /// The clock of the times: `virtual` for a modelled device, else `device`.
    pub(super) clock: &'static str,
    /// The start of the first launch, in device nanoseconds.
    pub(super) first_start_ns: u64,
    /// The end of the last launch, in device nanoseconds.
    pub(super) last_end_ns: u64,
    /// Launch latency: from a launch's submission to the start of its first block, device nanoseconds; without the
    /// first launch of each stream, whose submission no completion dates.
    pub(super) launch_latency_ns: Percentiles,
    /// Completion latency: from a launch's submission to the end of its last block, device nanoseconds; of the same
    /// launches.
    pub(super) completion_latency_ns: Percentiles,
    /// The completion latency once more, by the name that it had before.
    pub(super) latency_ns: Percentiles,
    /// From a launch's first block to its end, device nanoseconds.
    pub(super) run_ns: Percentiles,
}

impl Report {
    /// Fills in the times.
    pub(super) fn with_timings(self, timings: Timings) -> Self {
        let completion_latency_ns = Percentiles::of(timings.completion_latency_ns);
        Self {
            first_start_ns: timings.first_start_ns.unwrap_or(0),
            last_end_ns: timings.last_end_ns,
            launch_latency_ns: Percentiles::of(timings.launch_latency_ns),
            completion_latency_ns,
            latency_ns: completion_latency_ns,
            run_ns: Percentiles::of(timings.run_ns),
            ..self
        }
    }

    /// Returns it as text for people.
    pub(super) fn text(&self) -> String {
        let result = match &self.mismatch {
            None => "verified".to_owned(),
            Some(mismatch) => format!("WRONG: {mismatch}"),
        };
        format!(
            "{}: {} of {} ({} elements) over {} on {}: {result}\n\
             {} ns from first start to last end, {} ({} clock)",
            self.name,
            counted(self.launches, "launch"),
            self.workload,
            self.elements,
            counted(self.streams.into(), "stream"),
            self.device,
            self.last_end_ns.saturating_sub(self.first_start_ns),
            self.latencies(),
            self.clock,
        )
    }

    fn latencies(&self) -> String {
        let shown = |of: Percentiles| Some(format!("p50 {} ns p99 {} ns", of.p50?, of.p99?));
        let launch = shown(self.launch_latency_ns);
        match launch.zip(shown(self.completion_latency_ns)) {
            Some((launch, completion)) => {
                let of = match self.streams {
                    1 => "without its first launch".to_owned(),
                    streams => format!("without the first launch of each of {streams} streams"),
                };
                format!("launch latency {launch}, completion latency {completion}, {of}")
            }
            None => "latencies not measured: they need two launches of a stream".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Percentiles;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let made = Percentiles::of((1..=200).rev().collect());
        assert_eq!(
            (made.p50, made.p99, made.max),
            (Some(100), Some(198), Some(200))
        );
        let one = Percentiles::of(vec![7]);
        assert_eq!((one.p50, one.p99), (Some(7), Some(7)));
        assert_eq!(Percentiles::of(Vec::new()).p50, None);
    }
}
