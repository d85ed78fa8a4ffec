//! The profiles of kernels that this host has learnt, and when it sends them to the supervisor.

use gridmux_policy::{Profile, ProfileKey, Profiles};
use std::time::{Duration, Instant};

/// Time between two reports: what a host that is killed loses.
const PAUSE: Duration = Duration::from_secs(10);

/// The store of profiles, and what was said of it.
#[derive(Debug)]
pub(super) struct Learnt {
    profiles: Profiles,
    /// Profiles that the supervisor knows.
    told: Vec<(ProfileKey, Profile)>,
    due: Instant,
}

impl Learnt {
    /// Makes it of a store that is still empty.
    pub(super) fn new(profiles: Profiles) -> Self {
        Self {
            profiles,
            told: Vec::new(),
            due: Instant::now() + PAUSE,
        }
    }

    /// Returns the store.
    pub(super) fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Takes what the supervisor has kept of an earlier host, before anything runs here.
    pub(super) fn take(&mut self, kept: Vec<(ProfileKey, Profile)>) {
        for (key, profile) in &kept {
            self.profiles.tell(*key, *profile);
        }
        self.told = self.profiles.all();
    }

    /// Returns how long it is until a report is due.
    pub(super) fn time_left(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// Returns what is known, if a report is due and says something new.
    pub(super) fn report_if_due(&mut self, now: Instant) -> Option<Vec<(ProfileKey, Profile)>> {
        if now < self.due {
            return None;
        }
        self.due = now + PAUSE;
        self.report()
    }

    /// Returns what is known, if the supervisor does not know it.
    pub(super) fn report(&mut self) -> Option<Vec<(ProfileKey, Profile)>> {
        let all = self.profiles.all();
        if all == self.told {
            return None;
        }
        self.told.clone_from(&all);
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::{Learnt, PAUSE};
    use gridmux_policy::{ProfileKey, Profiles};
    use std::time::{Duration, Instant};

    #[test]
    fn only_what_is_new_is_reported_and_not_too_often() {
        let profiles = Profiles::default();
        let mut learnt = Learnt::new(profiles.clone());
        let start = Instant::now();
        assert!(learnt.time_left(start) <= PAUSE);
        assert_eq!(learnt.report(), None);
        let other = Profiles::default();
        other.set(ProfileKey(1), 100.0);
        learnt.take(other.all());
        assert_eq!(
            (profiles.block_ns(ProfileKey(1)), learnt.report()),
            (Some(100.0), None)
        );
        profiles.set(ProfileKey(2), 200.0);
        assert_eq!(learnt.report_if_due(start), None);
        let later = start + PAUSE + Duration::from_secs(1);
        assert_eq!(learnt.report_if_due(later), Some(profiles.all()));
        assert_eq!(learnt.report_if_due(later + 2 * PAUSE), None, "nothing new");
    }
}
