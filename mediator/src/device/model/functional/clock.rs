//! The estimated clock: what the device thread adds up, in nanoseconds and fractions.

use crate::device::model::clock::SharedClock;
use gridmux_hw_model::config::GpuConfig;
use gridmux_policy::units::Nanos;

/// The thread's end of the clock.
#[derive(Debug)]
pub(super) struct EstimatedClock {
    now: Nanos,
    /// Part of a nanosecond that has passed.
    fraction: f64,
    core_mhz: f64,
    /// Whether it passes with wall time.
    passes: bool,
}

impl EstimatedClock {
    /// Makes a clock that stands at 0.
    pub(super) fn new(config: &GpuConfig) -> Self {
        Self {
            now: Nanos(0),
            fraction: 0.0,
            core_mhz: f64::from(config.clock.core_mhz.max(1)),
            passes: false,
        }
    }

    /// Returns the time of what was done last.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Adds core cycles.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "whole nanoseconds of a short positive time; the cast saturates"
    )]
    pub(super) fn add(&mut self, cycles: f64, shared: &SharedClock) {
        let ns = self.fraction + cycles * 1000.0 / self.core_mhz;
        let whole = ns as u64;
        self.fraction = ns - whole as f64;
        self.now += Nanos(whole);
        shared.set(self.now);
    }

    /// Lets the clock pass with wall time, because the device is idle.
    pub(super) fn pass(&mut self, shared: &SharedClock) {
        if !std::mem::replace(&mut self.passes, true) {
            shared.pass(self.now);
        }
    }

    /// Stops the clock, because there is something to do; returns whether it was passing with wall time.
    pub(super) fn stop(&mut self, shared: &SharedClock) -> bool {
        if !std::mem::replace(&mut self.passes, false) {
            return false;
        }
        self.now = self.now.max(shared.now());
        shared.set(self.now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{EstimatedClock, SharedClock};
    use gridmux_hw_model::config::GpuConfig;
    use gridmux_policy::units::Nanos;

    #[test]
    fn cycles_add_up_without_loss_and_idle_time_counts() {
        let shared = SharedClock::default();
        let config = GpuConfig::builtin("h200").expect("built in");
        let mut clock = EstimatedClock::new(&config);
        for _ in 0..config.clock.core_mhz {
            clock.add(10.0, &shared);
        }
        assert!(clock.now().0.abs_diff(10_000) <= 1, "{:?}", clock.now());
        assert_eq!(shared.now(), clock.now());
        clock.pass(&shared);
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(clock.stop(&shared), "it passed by itself");
        assert!(!clock.stop(&shared), "it does not any more");
        assert!(clock.now() > Nanos(1_000_000));
    }
}
