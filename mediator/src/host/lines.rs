//! Limits the rate of log lines that each user's clients cause.
//!
//! A client that connects and leaves in a loop, or loads modules whose kernels each deserve a line, would fill the log
//! otherwise. What is left out is counted, and the count is said with the next line that is not.

use crate::bucket::Bucket;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

/// Lines of one user each second in the long run, and at once.
const LINES_PER_SECOND: f64 = 2.0;
const BURST_LINES: f64 = 1000.0;
/// Users that are remembered.
const USERS: usize = 1024;

/// The lines of all users. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Rc<RefCell<BTreeMap<u32, User>>>);

#[derive(Debug)]
struct User {
    lines: Bucket,
    left_out: u64,
}

impl Lines {
    /// Returns whether a line about a client of a user may be written.
    pub(super) fn may_say(&self, uid: u32) -> bool {
        let (may, left_out) = self.ask(uid, Instant::now());
        if left_out > 0 {
            tracing::info!(
                uid,
                left_out,
                "lines about clients of this user were left out"
            );
        }
        may
    }

    /// Returns whether a line may be written, and how many before it were not, if it may.
    fn ask(&self, uid: u32, now: Instant) -> (bool, u64) {
        let mut users = self.0.borrow_mut();
        if users.len() >= USERS && !users.contains_key(&uid) {
            let oldest = users.iter().min_by_key(|(_, user)| user.lines.at());
            let oldest = oldest.map(|(uid, _)| *uid);
            oldest.and_then(|uid| users.remove(&uid));
        }
        let user = users.entry(uid).or_insert_with(|| User {
            lines: Bucket::new(BURST_LINES, now),
            left_out: 0,
        });
        let may = user.lines.take(1.0, (LINES_PER_SECOND, BURST_LINES), now);
        match may {
            true => (true, std::mem::take(&mut user.left_out)),
            false => {
                user.left_out += 1;
                (false, 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use std::time::{Duration, Instant};

    #[test]
    fn a_user_has_so_many_lines_and_another_has_his_own() {
        let (lines, now) = (Lines::default(), Instant::now());
        let said = (0..1500).filter(|_| lines.ask(7, now).0).count();
        assert_eq!(said, 1000);
        assert_eq!(lines.ask(8, now), (true, 0));
        let later = now + Duration::from_secs(1);
        assert_eq!(lines.ask(7, later), (true, 500));
        assert_eq!(lines.ask(7, later), (true, 0));
        assert_eq!(lines.ask(7, later), (false, 0));
    }
}
