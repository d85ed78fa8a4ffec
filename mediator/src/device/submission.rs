//! How launches come to a device one after another.

use gridmux_policy::units::Nanos;

/// How launches come to a device: the thread that submits them takes its time for each, one after another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Submission {
    /// Time that it takes for a launch; 0 where launches do not wait for each other.
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

    /// Returns whether it had nothing to submit for as long as a submission takes, at `now`.
    #[must_use]
    pub fn has_rested(&self, now: Nanos) -> bool {
        self.idle_at + self.each <= now
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Submission;
    use gridmux_policy::units::Nanos;

    #[test]
    fn launches_wait_for_each_other_and_a_thread_that_has_rested_begins_anew() {
        let mut thread = Submission {
            each: Nanos(100),
            ..Submission::default()
        };
        thread.add(Nanos(1_000));
        thread.add(Nanos(1_000));
        assert_eq!(thread.idle_at, Nanos(1_200));
        assert!(!thread.has_rested(Nanos(1_299)) && thread.has_rested(Nanos(1_300)));
        thread.add(Nanos(5_000));
        assert_eq!(thread.idle_at, Nanos(5_100));
        let mut free = Submission::default();
        free.add(Nanos(5_000));
        assert_eq!(
            free,
            Submission::default(),
            "what costs nothing takes no time"
        );
    }
}
