//! What launches cost the host's processor, so that one that is expensive to model ends before it takes minutes.
//!
//! The processor time of the device thread is shared out over the launches in proportion to the warp instructions that
//! each of them issued meanwhile ([`Gpu::launch_cost`]); where none issued any, equally. A launch that has cost more
//! than its budget is to be killed.
//!
//! Rule: when a launch is killed depends on the host; virtual time and results of the others do not depend on it
//! otherwise.

use gridmux_hw_model::Gpu;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time after which it is shared out.
const PERIOD: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Cost {
    tag: u64,
    instructions: u64,
    spent: Duration,
}

/// The costs of the launches in flight.
#[derive(Debug)]
pub(super) struct CpuBudget {
    most: Duration,
    costs: Vec<Cost>,
    shared_out: Duration,
}

impl CpuBudget {
    /// Makes a budget of `most` processor time for each launch.
    pub(super) fn new(most: Duration) -> Self {
        Self {
            most,
            costs: Vec::with_capacity(128),
            shared_out: Duration::ZERO,
        }
    }

    /// Takes note of a launch.
    pub(super) fn add(&mut self, tag: u64) {
        self.costs.push(Cost {
            tag,
            instructions: 0,
            spent: Duration::ZERO,
        });
    }

    /// Forgets a launch that has ended.
    pub(super) fn remove(&mut self, tag: u64) {
        self.costs.retain(|cost| cost.tag != tag);
    }

    /// Shares out the processor time that passed, now and then; returns a launch that has cost too much, with what it
    /// cost.
    pub(super) fn check(&mut self, gpu: &mut Gpu) -> Option<(u64, Duration)> {
        let now = processor_time();
        let passed = now.saturating_sub(self.shared_out);
        if passed < PERIOD {
            return None;
        }
        self.shared_out = now;
        let mut issued = 0;
        for cost in &self.costs {
            let total = gpu.launch_cost(cost.tag);
            issued += total.saturating_sub(cost.instructions);
        }
        let launches = u32::try_from(self.costs.len()).unwrap_or(u32::MAX).max(1);
        let mut over = None;
        for cost in &mut self.costs {
            let total = gpu.launch_cost(cost.tag);
            let own = total.saturating_sub(cost.instructions);
            cost.instructions = total;
            cost.spent += match issued {
                0 => passed / launches,
                issued => share(passed, own, issued),
            };
            if cost.spent > self.most && over.is_none() {
                over = Some((cost.tag, cost.spent));
            }
        }
        over
    }
}

/// `own / all` of a time.
fn share(time: Duration, own: u64, all: u64) -> Duration {
    let ns = time.as_nanos() * u128::from(own) / u128::from(all);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
