//! Groups of asynchronous copies that a warp has in flight (PTX ISA section 9.7.9.25.3).
//!
//! Copies since the last commit make the open group; a commit closes it and opens the next. Each group knows how many
//! of its copies wait for an answer, and when the last answer came. Groups stand in a ring from the oldest to the
//! open one, so that "all but the newest n" is a stretch of the ring.
//! Rules: groups are the warp's, so that lanes which commit on paths of their own make groups of their own; at most
//! [`GROUPS`] - 1 closed groups are in flight, and a commit waits for the oldest where there would be one more; time
//! is looked up where a warp comes to a wait or an answer to a warp, never from cycle to cycle.

use super::sm::UNKNOWN;
use crate::exec::{GROUP_COMMIT, GROUP_WAIT_ALL};

/// Groups of a warp, the open one included.
const GROUPS: u8 = 16;
/// The same as a length.
const RING: usize = GROUPS as usize;

/// A warp's groups.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CopyGroups {
    /// Copies of each group that have not been answered.
    unanswered: [u32; RING],
    /// When the last copy of each group was there, as far as they have been answered.
    there_at: [u64; RING],
    open: u8,
}

impl CopyGroups {
    /// The group that a copy belongs to which is made now.
    pub(super) fn open(&self) -> u8 {
        self.open
    }

    /// One more copy of the open group waits for an answer.
    pub(super) fn asked(&mut self) {
        self.unanswered[usize::from(self.open)] += 1;
    }

    /// A copy of a group was answered.
    pub(super) fn answered(&mut self, group: u8, at: u64) {
        self.unanswered[usize::from(group)] -= 1;
        self.known(group, at);
    }

    /// A copy of a group is there at `at`, without having waited.
    pub(super) fn known(&mut self, group: u8, at: u64) {
        let there = &mut self.there_at[usize::from(group)];
        *there = (*there).max(at);
    }

    /// The open group is closed.
    pub(super) fn commit(&mut self) {
        self.open = (self.open + 1) % GROUPS;
    }

    /// When a commit or a wait can go on, as its operation says in `aux`; [`UNKNOWN`] while an answer is missing.
    pub(super) fn over_at(&self, aux: u32) -> u64 {
        match aux {
            GROUP_COMMIT => self.latest(1, 1),
            GROUP_WAIT_ALL => self.all_at(),
            newest => self.latest(1, (RING - 1).saturating_sub(newest as usize)),
        }
    }

    /// When all copies are there; [`UNKNOWN`] while an answer is missing.
    pub(super) fn all_at(&self) -> u64 {
        self.latest(0, RING - 1)
    }

    /// The same of the groups that stand so far behind the open one in the ring; the first one is the oldest.
    fn latest(&self, first: usize, last: usize) -> u64 {
        let groups = (first..=last).map(|n| (usize::from(self.open) + n) % RING);
        groups.fold(0, |latest, group| match self.unanswered[group] {
            0 => latest.max(self.there_at[group]),
            _ => UNKNOWN,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{CopyGroups, GROUPS, UNKNOWN};
    use crate::exec::{GROUP_COMMIT, GROUP_WAIT_ALL};

    #[test]
    fn a_wait_is_for_all_but_the_newest_groups() {
        let mut groups = CopyGroups::default();
        groups.asked();
        groups.commit();
        groups.known(groups.open(), 70);
        groups.commit();
        groups.asked();
        assert_eq!(groups.over_at(2), 0, "two of two may be in flight");
        assert_eq!(groups.over_at(1), UNKNOWN);
        groups.answered(0, 100);
        assert_eq!((groups.over_at(1), groups.over_at(0)), (100, 100));
        assert_eq!(groups.over_at(GROUP_WAIT_ALL), UNKNOWN, "the open group");
        groups.answered(2, 90);
        assert_eq!(groups.over_at(GROUP_WAIT_ALL), 100);
    }

    #[test]
    fn a_commit_waits_for_a_place_in_the_ring() {
        let mut groups = CopyGroups::default();
        for _ in 1..GROUPS {
            assert_eq!(groups.over_at(GROUP_COMMIT), 0);
            groups.asked();
            groups.commit();
        }
        assert_eq!(groups.over_at(GROUP_COMMIT), UNKNOWN);
        assert_eq!(groups.over_at(14), UNKNOWN);
        assert_eq!(groups.over_at(15), 0);
        groups.answered(0, 5);
        assert_eq!(groups.over_at(GROUP_COMMIT), 5);
    }
}
