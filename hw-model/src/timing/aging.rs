//! Aging: a warp that its scheduler has passed over for long gets a share of the issue slots for a while.
//!
//! Greedy-then-oldest and the two-level policy promise a warp nothing. Older warps that spin on a word in shared memory
//! are ready again and again, so that a younger one which is to write that word would never issue; on a chip it does
//! (PTX ISA section 3.1 promises that threads go on). Schedulers that rank by priority mend this by aging
//! (Silberschatz et al., Operating System Concepts, section 5.3.4). Here a warp that was ready and issued nothing while
//! the scheduler issued [`PERIOD`] instructions is favoured for the next [`PERIOD`]: after every [`SHARE`] instructions
//! of others it issues first. Favoured warps follow one another in the order of their slots.
//! Rules: one warp of a scheduler is favoured at a time, so that the policy decides at least `1 - 1 / SHARE` of all
//! issues, evenly over time; time is counted in issues, so that cycles in which nobody issues cost nothing.

/// Instructions that a scheduler issues between two looks at who was passed over: more than a warp that is only
/// unlucky waits for, so that the policies keep their character.
const PERIOD: u32 = 1 << 14;
/// A favoured warp comes first after this number of issues of others.
const SHARE: u32 = 16;

/// A scheduler's record of the warps that it passes over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aging {
    /// Slots that issued nothing in this period.
    unserved: u64,
    /// Issues until the period's end.
    left: u32,
    /// The slot that has a share now, as a mask; zero when none does.
    favoured: u64,
    /// Issues for which it has not had its share.
    due: u32,
    /// The slot that was favoured last.
    last: u32,
}

impl Aging {
    pub(super) const fn new() -> Self {
        Self {
            unserved: u64::MAX,
            left: PERIOD,
            favoured: 0,
            due: 0,
            last: 0,
        }
    }

    /// Returns the candidate that comes before all others, if there is one.
    #[inline(always)]
    pub(super) fn first(&self, candidates: u64) -> Option<u32> {
        let first = candidates & self.favoured;
        (first != 0 && self.due >= SHARE).then(|| first.trailing_zeros())
    }

    /// Takes note of an issue of the slot; returns whether the period ends with it.
    #[inline(always)]
    pub(super) fn issued(&mut self, slot: u32) -> bool {
        let own = 1 << slot;
        self.unserved &= !own;
        self.due = if self.favoured == own {
            self.due.saturating_sub(SHARE)
        } else {
            self.due + 1
        };
        self.left -= 1;
        self.left == 0
    }

    /// Begins a new period, before which the slots in `ready` were ready.
    #[cold]
    pub(super) fn renew(&mut self, ready: u64) {
        let passed_over = ready & self.unserved;
        *self = Self {
            last: self.last,
            ..Self::new()
        };
        if passed_over != 0 {
            // The next higher slot, else the lowest.
            let above = passed_over & (u64::MAX << self.last << 1);
            self.last = if above != 0 { above } else { passed_over }.trailing_zeros();
            self.favoured = 1 << self.last;
        }
    }

    /// Forgets the slot's warp, which is gone.
    #[inline(always)]
    pub(super) fn left(&mut self, slot: u32) {
        self.favoured &= !(1 << slot);
    }
}

#[cfg(test)]
mod tests {
    use super::{Aging, PERIOD, SHARE};

    /// Issues of each slot in a period in which all four are ready and a policy prefers slot 0.
    fn period(aging: &mut Aging) -> [u32; 4] {
        let mut issues = [0; 4];
        loop {
            let slot = aging.first(0b1111).unwrap_or(0);
            issues[slot as usize] += 1;
            if aging.issued(slot) {
                aging.renew(0b1111);
                return issues;
            }
        }
    }

    #[test]
    fn those_who_were_passed_over_take_turns_at_a_share() {
        let mut aging = Aging::new();
        assert_eq!(period(&mut aging), [PERIOD, 0, 0, 0]);
        for favoured in [1, 2, 3, 1, 2] {
            let issues = period(&mut aging);
            assert_eq!(issues.iter().sum::<u32>(), PERIOD);
            let share = PERIOD / (SHARE + 1);
            assert!(issues[favoured].abs_diff(share) <= 1, "{issues:?}");
            assert_eq!(issues[0] + issues[favoured], PERIOD);
        }
    }

    #[test]
    fn nobody_is_favoured_who_is_not_ready_or_gone() {
        let mut aging = Aging::new();
        aging.issued(0);
        aging.renew(0b1);
        assert_eq!(aging.favoured, 0, "slot 0 issued");
        aging.renew(0b10);
        for _ in 0..SHARE {
            assert_eq!(aging.first(0b11), None);
            aging.issued(0);
        }
        assert_eq!(aging.first(0b11), Some(1));
        assert_eq!(aging.first(0b01), None, "it is not ready");
        aging.left(1);
        assert_eq!(aging.first(0b11), None);
    }
}
