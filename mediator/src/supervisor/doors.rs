//! How many connections the processes of one user may make: a token bucket for each user.
//!
//! A connection costs the service several system calls and a device host a place, so that whoever connects and closes
//! in a loop would keep both busy. The bucket refills with `limits.connects_per_second` and holds four times as many,
//! or as many as there may be clients (`limits.clients`), which a job of many processes may all bring at once.
//!
//! Rules: root has a bucket of its own like everybody else; a connection beyond the bucket is closed unheard; each user
//! is named in the log at most once a second, however many connections are closed.

use crate::bucket::Bucket;
use crate::config::Limits;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Seconds of the rate that a bucket holds.
const BURST_SECONDS: u32 = 4;
/// Users that are remembered.
const USERS: usize = 1024;
/// Least time between two warnings of one user.
const WARNING_PAUSE: Duration = Duration::from_secs(1);

/// The buckets of all users.
#[derive(Debug)]
pub(super) struct Doors {
    per_second: u32,
    /// Clients that a service may have.
    clients: u16,
    buckets: BTreeMap<u32, Door>,
}

#[derive(Debug)]
struct Door {
    /// Connections that may be made.
    bucket: Bucket,
    /// Connections closed since the last warning.
    closed: u64,
    warned_at: Option<Instant>,
}

impl Doors {
    /// Makes full buckets.
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            per_second: limits.connects_per_second,
            clients: limits.clients,
            buckets: BTreeMap::new(),
        }
    }

    /// Obeys other limits from now on; what is in the buckets stays as far as they hold it.
    pub(super) fn set_limits(&mut self, limits: &Limits) {
        (self.per_second, self.clients) = (limits.connects_per_second, limits.clients);
    }

    /// Takes a connection of a user; returns whether it may go on.
    pub(super) fn admit(&mut self, uid: u32, now: Instant) -> bool {
        if !self.buckets.contains_key(&uid) && self.buckets.len() >= USERS {
            self.forget_one(now);
        }
        let (rate, burst) = (f64::from(self.per_second), self.burst());
        let door = self.buckets.entry(uid).or_insert(Door {
            bucket: Bucket::new(burst, now),
            closed: 0,
            warned_at: None,
        });
        if door.bucket.take(1.0, (rate, burst), now) {
            return true;
        }
        door.closed += 1;
        let is_due = |warned: Instant| now.saturating_duration_since(warned) >= WARNING_PAUSE;
        if door.warned_at.is_none_or(is_due) {
            let closed = std::mem::take(&mut door.closed);
            door.warned_at = Some(now);
            tracing::warn!(
                uid,
                closed,
                "too many connections of this user; closed unheard (limits.connects_per_second)"
            );
        }
        false
    }

    /// Makes room for a user: the one that has not come for longest goes, whose bucket is the fullest.
    fn forget_one(&mut self, now: Instant) {
        let oldest = self
            .buckets
            .iter()
            .max_by_key(|(_, door)| now.saturating_duration_since(door.bucket.at()))
            .map(|(uid, _)| *uid);
        if let Some(uid) = oldest {
            self.buckets.remove(&uid);
        }
    }

    fn burst(&self) -> f64 {
        (f64::from(self.per_second) * f64::from(BURST_SECONDS)).max(self.clients.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Doors, USERS};
    use crate::config::Limits;
    use std::time::{Duration, Instant};

    fn limits(connects_per_second: u32) -> Limits {
        Limits {
            connects_per_second,
            clients: 1,
            ..Limits::default()
        }
    }

    #[test]
    fn a_user_gets_a_burst_and_then_the_rate_and_takes_nothing_from_another() {
        let mut doors = Doors::new(&limits(10));
        let start = Instant::now();
        let admitted =
            |doors: &mut Doors, uid, at| (0..100).filter(|_| doors.admit(uid, at)).count();
        assert_eq!(admitted(&mut doors, 1, start), 40);
        assert_eq!(admitted(&mut doors, 2, start), 40);
        assert_eq!(admitted(&mut doors, 1, start), 0);
        let second = start + Duration::from_secs(1);
        assert_eq!(admitted(&mut doors, 1, second), 10);
        let much_later = start + Duration::from_secs(3600);
        assert_eq!(admitted(&mut doors, 1, much_later), 40);
        // Another rate holds from the next connection on.
        doors.set_limits(&limits(1));
        let later = much_later + Duration::from_secs(3600);
        assert_eq!(admitted(&mut doors, 1, later), 4);
    }

    #[test]
    fn there_are_not_more_buckets_than_users_to_remember() {
        let mut doors = Doors::new(&limits(1));
        let start = Instant::now();
        for uid in 0..5000 {
            assert!(doors.admit(uid, start + Duration::from_millis(uid.into())));
        }
        assert_eq!(doors.buckets.len(), USERS);
        assert!(doors.buckets.contains_key(&4999) && !doors.buckets.contains_key(&0));
    }
}
