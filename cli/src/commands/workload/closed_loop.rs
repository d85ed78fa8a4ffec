//! The closed loop: one launch in flight on each stream, the next one as soon as it ends.
//!
//! Rule: nothing but the loop itself stands between a completion and the next submission, because in lockstep a
//! modelled device's clock stands still meanwhile.

use super::lane::Lane;
use crate::failure::Failure;
use gridmux_tenant::{ClientError, Gpu};

/// The times of the launches, in nanoseconds of the device's clock.
#[derive(Debug, Default)]
pub(super) struct Timings {
    /// The start of the first launch.
    pub(super) first_start_ns: Option<u64>,
    /// The end of the last launch.
    pub(super) last_end_ns: u64,
    /// From a launch's start to its end.
    pub(super) run_ns: Vec<u64>,
    /// Launch latency: from a launch's submission to the start of its first block. It was submitted at the end of the
    /// launch before on the same stream; the first launch of a stream has none.
    pub(super) launch_latency_ns: Vec<u64>,
    /// Completion latency: from the same submission to the end of its last block.
    pub(super) completion_latency_ns: Vec<u64>,
}

/// Runs `launches` launches over the lanes; `progress` hears how many have ended.
pub(super) fn run(
    gpu: &Gpu,
    lanes: &mut [Lane<'_>],
    launches: u64,
    mut progress: impl FnMut(u64) -> Result<(), Failure>,
) -> Result<Timings, Failure> {
    let expected = usize::try_from(launches).unwrap_or(usize::MAX).min(1 << 20);
    let mut timings = Timings::default();
    timings.run_ns.reserve(expected);
    timings.launch_latency_ns.reserve(expected);
    timings.completion_latency_ns.reserve(expected);
    let mut unsubmitted = launches;
    let mut ended = 0;
    for lane in lanes.iter_mut() {
        submit(lane, &mut unsubmitted)?;
    }
    while ended < launches {
        let before = ended;
        for lane in lanes.iter_mut() {
            let Some(timing) = lane.take_ended()? else {
                continue;
            };
            submit(lane, &mut unsubmitted)?;
            timings.note(
                lane.last_end_ns.replace(timing.end_ns),
                timing.start_ns,
                timing.end_ns,
            );
            ended += 1;
        }
        if ended == before && !gpu.wait_any()? {
            return Err(Failure::new(
                "launches are missing: nothing is in flight, but not all have ended",
            ));
        }
        if ended > before {
            progress(ended)?;
        }
    }
    Ok(timings)
}

fn submit(lane: &mut Lane<'_>, unsubmitted: &mut u64) -> Result<(), ClientError> {
    if *unsubmitted > 0 && !lane.is_busy() {
        *unsubmitted -= 1;
        lane.submit()?;
    }
    Ok(())
}

impl Timings {
    fn note(&mut self, previous_end_ns: Option<u64>, start_ns: u64, end_ns: u64) {
        self.first_start_ns = Some(
            self.first_start_ns
                .map_or(start_ns, |first| first.min(start_ns)),
        );
        self.last_end_ns = self.last_end_ns.max(end_ns);
        self.run_ns.push(end_ns.saturating_sub(start_ns));
        if let Some(previous) = previous_end_ns {
            let launch_latency_ns = start_ns.saturating_sub(previous);
            let completion_latency_ns = end_ns.saturating_sub(previous);
            self.launch_latency_ns.push(launch_latency_ns);
            self.completion_latency_ns.push(completion_latency_ns);
        }
    }
}
