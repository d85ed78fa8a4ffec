//! The device's clock as other threads read it.
//!
//! While the device works, its thread sets the time. While it is idle, its clock may pass with wall time: the clock's
//! word then holds the difference to wall time, and every reader adds the wall time it reads.
//!
//! Rule: one thread writes; a reader sees the time that was set last, or a later one while the clock passes.

use crate::wall_clock::wall_ns;
use gridmux_policy::units::Nanos;
// Not the shim's: the loom test's device is a scripted one.
use std::sync::atomic::{AtomicU64, Ordering};

/// Bit of the word that says that the rest is a difference to wall time.
const PASSES: u64 = 1 << 63;

/// A clock that one thread sets and all may read.
#[derive(Debug, Default)]
pub(super) struct SharedClock(AtomicU64);

impl SharedClock {
    /// Returns the time.
    pub(super) fn now(&self) -> Nanos {
        // Acquire: pairs with the Release in `set` and `pass`; nothing else is read under it.
        let word = self.0.load(Ordering::Acquire);
        match word & PASSES {
            0 => Nanos(word),
            _ => Nanos(word.wrapping_add(wall_ns()) & !PASSES),
        }
    }

    /// Stops the clock at a time.
    pub(super) fn set(&self, now: Nanos) {
        // Release: pairs with the Acquire in `now`.
        self.0.store(now.0 & !PASSES, Ordering::Release);
    }

    /// Lets the clock pass with wall time, from `now` on.
    pub(super) fn pass(&self, now: Nanos) {
        // Release: pairs with the Acquire in `now`.
        let ahead = now.0.wrapping_sub(wall_ns());
        self.0.store(ahead | PASSES, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{Nanos, SharedClock};

    #[test]
    fn a_stopped_clock_stands_and_a_passing_one_goes_on_from_there() {
        let clock = SharedClock::default();
        assert_eq!(clock.now(), Nanos(0));
        clock.set(Nanos(70));
        assert_eq!(clock.now(), Nanos(70));
        clock.pass(Nanos(70));
        let first = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let second = clock.now();
        assert!(first >= Nanos(70) && (second - first) >= Nanos(2_000_000));
        clock.set(second);
        assert_eq!(clock.now(), second);
    }
}
