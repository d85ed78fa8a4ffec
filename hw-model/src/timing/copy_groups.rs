//! Groups of asynchronous copies that a warp has in flight (PTX ISA section 9.7.9.25.3).
//!
//! Copies since the last commit make the open group; a commit closes it and opens the next. Each group knows how many
//! of its copies wait for an answer, and when the last answer came. Groups stand in a ring from the oldest to the
//! open one, so that "all but the newest n" is a stretch of the ring.
//! Copies that wait have numbers, for what waits for those made before it ([`super::copy_arrivals`]).
//! Rules: groups are the warp's, so that lanes which commit on paths of their own make groups of their own; at most
//! [`GROUPS`] - 1 closed groups are in flight, and a commit waits for the oldest where there would be one more; time
//! is looked up where a warp comes to a wait or an answer to a warp, never from cycle to cycle.

use super::sm::UNKNOWN;
use crate::exec::{GROUP_COMMIT, GROUP_WAIT_ALL};

/// Groups of a warp, the open one included.
const GROUPS: u8 = 16;
/// The same as a length.
const RING: usize = GROUPS as usize;

/// A copy's number among those of its warp that waited for an answer.
pub(super) type CopyNumber = u64;

/// A copy that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copied {
    pub(super) group: u8,
    pub(super) number: CopyNumber,
}

/// A warp's groups.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CopyGroups {
    /// Copies of each group that have not been answered.
    unanswered: [u32; RING],
    /// When the last copy of each group was there, as far as they have been answered.
    there_at: [u64; RING],
    open: u8,
    next: CopyNumber,
}

impl CopyGroups {
    /// Returns the group and number of a copy that is made now.
    pub(super) fn made(&self) -> Copied {
        Copied {
            group: self.open,
            number: self.next,
        }
    }

    /// Notes that the copy that is made now waits for an answer.
    pub(super) fn asked(&mut self) {
        self.unanswered[usize::from(self.open)] += 1;
        self.next += 1;
    }

    /// Notes that a copy was answered.
    pub(super) fn answered(&mut self, copy: Copied, at: u64) {
        self.unanswered[usize::from(copy.group)] -= 1;
        self.known(copy, at);
    }

    /// Notes that a copy is complete at `at`.
    pub(super) fn known(&mut self, copy: Copied, at: u64) {
        let there = &mut self.there_at[usize::from(copy.group)];
        *there = (*there).max(at);
    }

    /// Returns how many copies have not been answered.
    pub(super) fn unanswered(&self) -> u32 {
        self.unanswered.iter().sum()
    }

    /// Returns the number of the next copy that will wait.
    pub(super) fn next(&self) -> CopyNumber {
        self.next
    }

    /// Returns when the last copy is there, as far as they have been answered.
    pub(super) fn known_at(&self) -> u64 {
        self.there_at.iter().copied().max().unwrap_or(0)
    }

    /// Closes the open group.
    pub(super) fn commit(&mut self) {
        self.open = (self.open + 1) % GROUPS;
    }

    /// Returns when a commit or a wait can go on, as its operation says in `aux`; [`UNKNOWN`] while an answer is
    /// missing.
    pub(super) fn over_at(&self, aux: u32) -> u64 {
        match aux {
            GROUP_COMMIT => self.latest(1, 1),
            GROUP_WAIT_ALL => self.all_at(),
            newest => self.latest(1, (RING - 1).saturating_sub(newest as usize)),
        }
    }

    /// Returns when all copies are there; [`UNKNOWN`] while an answer is missing.
    pub(super) fn all_at(&self) -> u64 {
        self.latest(0, RING - 1)
    }

    /// Returns the same of the groups that stand so far behind the open one in the ring; the first one is the oldest.
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
    use super::{Copied, CopyGroups, GROUPS, UNKNOWN};
    use crate::exec::{GROUP_COMMIT, GROUP_WAIT_ALL};

    /// Returns a copy that waits for an answer.
    fn ask(groups: &mut CopyGroups) -> Copied {
        let copy = groups.made();
        groups.asked();
        copy
    }

    #[test]
    fn a_wait_is_for_all_but_the_newest_groups() {
        let mut groups = CopyGroups::default();
        let oldest = ask(&mut groups);
        groups.commit();
        groups.known(groups.made(), 70);
        groups.commit();
        let open = ask(&mut groups);
        assert_eq!(groups.over_at(2), 0, "two of two may be in flight");
        assert_eq!(groups.over_at(1), UNKNOWN);
        groups.answered(oldest, 100);
        assert_eq!((groups.over_at(1), groups.over_at(0)), (100, 100));
        assert_eq!(groups.over_at(GROUP_WAIT_ALL), UNKNOWN, "the open group");
        assert_eq!((groups.unanswered(), groups.known_at()), (1, 100));
        assert!(oldest.number < open.number && open.number < groups.next());
        groups.answered(open, 90);
        assert_eq!(groups.over_at(GROUP_WAIT_ALL), 100);
    }

    #[test]
    fn a_commit_waits_for_a_place_in_the_ring() {
        let mut groups = CopyGroups::default();
        let oldest = groups.made();
        for _ in 1..GROUPS {
            assert_eq!(groups.over_at(GROUP_COMMIT), 0);
            ask(&mut groups);
            groups.commit();
        }
        assert_eq!(groups.over_at(GROUP_COMMIT), UNKNOWN);
        assert_eq!(groups.over_at(14), UNKNOWN);
        assert_eq!(groups.over_at(15), 0);
        groups.answered(oldest, 5);
        assert_eq!(groups.over_at(GROUP_COMMIT), 5);
    }
}
