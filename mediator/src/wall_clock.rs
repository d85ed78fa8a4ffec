//! The host's clocks, in nanoseconds.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns wall time in nanoseconds, on the clock that clients stamp submissions with (`CLOCK_MONOTONIC`).
#[must_use]
pub fn wall_ns() -> u64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}

/// Returns the time of a clock that always exists, in nanoseconds.
pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
