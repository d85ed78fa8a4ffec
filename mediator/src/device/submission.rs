//! How launches come to a device one after another.

use gridmux_policy::units::Nanos;

/// How launches come to a device: the thread that submits them takes its time for each, one after another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Submission {
    /// What it takes for a launch; 0 where launches do not wait for each other.
    pub each: Nanos,
    /// Device time at which it has submitted all that it was given.
    pub idle_at: Nanos,
}

impl Submission {
    /// Takes note of a launch that was handed over at `now`.
    pub fn add(&mut self, now: Nanos) {
        if self.each > Nanos::ZERO {
            self.idle_at = self.idle_at.max(now) + self.each;
        }
    }

    /// Returns the time up to which a launch handed over now would wait behind more than one other: what waits there
    /// goes in the order in which it came, so the rest is better kept where the order can still change.
    #[must_use]
    pub fn full_until(&self) -> Nanos {
        self.idle_at - self.each
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Submission;
    use gridmux_policy::units::Nanos;

    #[test]
    fn one_launch_waits_behind_the_one_that_is_submitted() {
        let mut thread = Submission {
            each: Nanos(100),
            ..Submission::default()
        };
        thread.add(Nanos(1_000));
        assert!(thread.full_until() <= Nanos(1_000), "a second one is taken");
        thread.add(Nanos(1_000));
        assert_eq!(
            (thread.idle_at, thread.full_until()),
            (Nanos(1_200), Nanos(1_100))
        );
        // What is idle begins anew.
        thread.add(Nanos(5_000));
        assert_eq!(thread.idle_at, Nanos(5_100));
        let mut free = Submission::default();
        free.add(Nanos(5_000));
        assert_eq!(
            free,
            Submission::default(),
            "what costs nothing is never full"
        );
    }
}
