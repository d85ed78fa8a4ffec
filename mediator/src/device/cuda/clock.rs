//! From the GPU's event times to the device's clock.
//!
//! The device's clock is the host's monotonic time since the device was opened. CUDA tells only the time between two
//! events, in milliseconds as an `f32`, so its rounding grows with the distance: 4 ns within 100 ms, a quarter of a
//! millisecond after an hour; and the GPU's oscillator is not the host's. An **anchor** is an event whose time on our
//! clock is known. Every [`RENEW_AFTER`] a new one is recorded, and its time is the old anchor's and what passed since,
//! corrected to lie where the host saw it happen: after it was asked for, and before its end was seen.
//!
//! Rule: this file is arithmetic; `queues` records and asks.

use gridmux_policy::units::Nanos;

/// Age at which an anchor is replaced.
pub(super) const RENEW_AFTER: Nanos = Nanos(100_000_000);

/// An event of known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Anchor {
    /// When it happened.
    pub(super) at: Nanos,
}

impl Anchor {
    /// Returns the time `elapsed_ms` after (or, below zero, before) the anchor, and never later than `now`.
    pub(super) fn time(self, elapsed_ms: f32, now: Nanos) -> Nanos {
        let elapsed_ns = milliseconds(elapsed_ms.abs());
        let time = if elapsed_ms < 0.0 {
            self.at.0.saturating_sub(elapsed_ns.0)
        } else {
            self.at.0.saturating_add(elapsed_ns.0)
        };
        Nanos(time.min(now.0))
    }

    /// Returns the next anchor, recorded between `asked` and `seen`, `elapsed_ms` after this one by the GPU's own
    /// account.
    pub(super) fn next(self, elapsed_ms: f32, asked: Nanos, seen: Nanos) -> Self {
        let at = self.time(elapsed_ms, seen);
        Self {
            at: Nanos(at.0.max(asked.0)),
        }
    }

    /// Returns whether it is time for a new one.
    pub(super) fn is_old(self, now: Nanos) -> bool {
        now.0.saturating_sub(self.at.0) > RENEW_AFTER.0
    }
}

/// Milliseconds as CUDA counts them; what is not a positive number counts as none.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the conversion saturates, and not-a-number becomes 0"
)]
pub(super) fn milliseconds(milliseconds: f32) -> Nanos {
    Nanos((f64::from(milliseconds) * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::{Anchor, milliseconds};
    use gridmux_policy::units::Nanos;

    const ANCHOR: Anchor = Anchor {
        at: Nanos(5_000_000),
    };

    #[test]
    fn times_lie_around_the_anchor_and_never_ahead_of_now() {
        let now = Nanos(9_000_000);
        assert_eq!(ANCHOR.time(1.5, now), Nanos(6_500_000));
        assert_eq!(ANCHOR.time(-1.5, now), Nanos(3_500_000));
        assert_eq!(ANCHOR.time(-50.0, now), Nanos(0));
        assert_eq!(ANCHOR.time(50.0, now), now);
    }

    #[test]
    fn a_new_anchor_follows_the_gpu_within_what_the_host_saw() {
        let (asked, seen) = (Nanos(7_000_000), Nanos(8_000_000));
        assert_eq!(ANCHOR.next(2.5, asked, seen).at, Nanos(7_500_000));
        assert_eq!(
            ANCHOR.next(1.0, asked, seen).at,
            asked,
            "a slow oscillator is corrected"
        );
        assert_eq!(ANCHOR.next(9.0, asked, seen).at, seen, "and a fast one");
    }

    #[test]
    fn an_anchor_grows_old() {
        assert!(!ANCHOR.is_old(Nanos(105_000_000)));
        assert!(ANCHOR.is_old(Nanos(105_000_001)));
    }

    #[test]
    fn nonsense_is_no_time() {
        assert_eq!(milliseconds(f32::NAN), Nanos(0));
        assert_eq!(milliseconds(-1.0), Nanos(0));
        assert_eq!(milliseconds(0.001), Nanos(1000));
    }
}
