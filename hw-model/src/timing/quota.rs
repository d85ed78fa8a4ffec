//! Issue quotas of the rows that share an SM (SMK, section 5.4).
//!
//! In each epoch a scheduler may issue `Quota_k × epoch length` instructions of row k, where `Quota_k` is the row's
//! weight over the sum of all. A row that has spent its quota stops; when every row that has warps with a scheduler has
//! spent its own, that scheduler's quotas are renewed, and all are when the epoch is over. Under [`Renewal::WhenSpent`]
//! an epoch has no end, and a row has one quota with all schedulers together: with one for each, warps of a row that
//! may issue would wait at barriers for others of their block that may not, until those of another row that wait in
//! turn for the first row's had issued.
//!
//! Rules: a row that leaves and comes back within an epoch finds what it had left; one that is new to the SM begins
//! an epoch; a row without a weight issues freely; nothing here runs while quotas are off; a plan that repeats the
//! weights that hold does not begin an epoch.

use super::issue::MAX_SCHEDULERS;
use gridmux_policy::ids::RowId;
use gridmux_policy::plan::{QuotaRule, Renewal, Spent};
use std::num::NonZeroU16;
use std::sync::Arc;

/// Class of a row without a weight; its warps issue freely.
const NO_CLASS: u8 = u8::MAX;

/// What a plan says about the issue slots of a group's SMs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) rule: QuotaRule,
    /// By row id.
    pub(crate) rows: Vec<Option<NonZeroU16>>,
}

#[derive(Debug, Clone, Copy)]
struct Class {
    row: RowId,
    weight: u64,
    /// Warp slots that it has.
    slots: u64,
    /// It had a part in the present epoch's division.
    counted: bool,
    /// It issued in the present epoch.
    issued: bool,
    /// By scheduler; the first for all, where a row has one quota.
    left: [u64; MAX_SCHEDULERS],
}

/// Quotas of one SM.
#[derive(Debug)]
pub(super) struct Quotas {
    pub(super) on: bool,
    yields: bool,
    renewal: Renewal,
    schedulers: u64,
    /// A row with a weight issued since quotas were last looked at.
    moves: bool,
    weights: Option<Arc<Weights>>,
    /// Warp slots whose row has spent its quota with their scheduler.
    spent: u64,
    /// Rows that have had warps here since the weights hold.
    classes: Vec<Class>,
    class_of: [u8; 64],
    epoch_cycles: u64,
    pub(super) renew_at: u64,
}

impl Quotas {
    /// Returns no quotas, for an SM with this number of schedulers.
    pub(super) fn new(schedulers: usize) -> Self {
        Self {
            on: false,
            yields: false,
            renewal: Renewal::EachEpoch,
            schedulers: schedulers as u64,
            moves: false,
            weights: None,
            spent: 0,
            classes: Vec::new(),
            class_of: [NO_CLASS; 64],
            epoch_cycles: u64::MAX,
            renew_at: u64::MAX,
        }
    }

    /// Returns whether these are the weights that hold already.
    pub(super) fn holds(&self, weights: Option<&Arc<Weights>>) -> bool {
        match (&self.weights, weights) {
            (None, None) => true,
            (Some(held), Some(new)) => Arc::ptr_eq(held, new) || held == new,
            _ => false,
        }
    }

    /// Sets new weights from now on, or no quotas, and begins an epoch. `present` are the SM's warp slots with their
    /// rows.
    pub(super) fn set(
        &mut self,
        weights: Option<&Arc<Weights>>,
        now: u64,
        present: impl Iterator<Item = (u32, RowId)>,
    ) {
        self.classes.clear();
        self.class_of = [NO_CLASS; 64];
        self.spent = 0;
        self.weights = weights.cloned();
        self.on = weights.is_some();
        let Some(weights) = weights else {
            self.renew_at = u64::MAX;
            return;
        };
        self.yields = weights.rule.spent == Spent::Yields;
        self.renewal = weights.rule.renewal;
        self.epoch_cycles = weights.rule.epoch.0.max(1);
        self.renew_at = now;
        for (slot, row) in present {
            self.arrived(slot, row, now);
        }
    }

    /// Finds a row's class, or makes it one in a place that nothing counts with; [`NO_CLASS`] for a row without a
    /// weight.
    fn class(&mut self, row: RowId) -> u8 {
        let weights = self.weights.as_ref();
        let weight = weights.and_then(|w| *w.rows.get(row.index())?);
        let Some(weight) = weight else {
            return NO_CLASS;
        };
        let mut place = self.classes.iter().position(|c| c.row == row);
        if place.is_none() {
            let class = Class {
                row,
                weight: u64::from(weight.get()),
                slots: 0,
                counted: false,
                issued: false,
                left: [0; MAX_SCHEDULERS],
            };
            if self.classes.len() < usize::from(NO_CLASS) {
                self.classes.push(class);
                place = Some(self.classes.len() - 1);
            } else {
                // An SM has 64 warps, so most of these classes have none.
                place = self.classes.iter().position(|c| c.slots == 0);
                if let Some(place) = place {
                    self.classes[place] = class;
                }
            }
        }
        place.map_or(NO_CLASS, |at| u8::try_from(at).unwrap_or(NO_CLASS))
    }

    /// Notes that a warp of a row takes a slot.
    pub(super) fn arrived(&mut self, slot: u32, row: RowId, now: u64) {
        if !self.on {
            return;
        }
        let class = self.class(row);
        self.class_of[slot as usize & 63] = class;
        if let Some(class) = self.classes.get_mut(usize::from(class)) {
            class.slots |= 1 << slot;
            if !class.counted {
                self.renew_at = self.renew_at.min(now);
            }
        }
    }

    /// Notes that a slot is free again.
    pub(super) fn left(&mut self, slot: u32) {
        let class = std::mem::replace(&mut self.class_of[slot as usize & 63], NO_CLASS);
        if let Some(class) = self.classes.get_mut(usize::from(class)) {
            class.slots &= !(1 << slot);
        }
        self.spent &= !(1 << slot);
    }

    /// Begins an epoch. Where epochs have no end that is done only for a row that is new, and where nothing was issued
    /// since the last time, which an epoch's length ago was.
    pub(super) fn renew(&mut self, now: u64) {
        self.renew_at = now + self.epoch_cycles;
        let moves = std::mem::take(&mut self.moves);
        let is_new = |class: &Class| class.slots != 0 && !class.counted;
        if self.renewal == Renewal::WhenSpent && moves && !self.classes.iter().any(is_new) {
            return;
        }
        self.spent = 0;
        for class in &mut self.classes {
            class.counted = class.slots != 0 || class.issued;
            class.issued = false;
        }
        let all = self.quotas();
        for class in self.classes.iter_mut().filter(|c| c.counted) {
            class.left = [all.of(class); MAX_SCHEDULERS];
        }
    }

    /// Returns the place of a scheduler's quotas, and the slots that they bind; `own` are the scheduler's.
    #[inline]
    fn bound(&self, scheduler: usize, own: u64) -> (usize, u64) {
        match self.renewal {
            Renewal::EachEpoch => (scheduler, own),
            Renewal::WhenSpent => (0, u64::MAX),
        }
    }

    /// Returns how an epoch is divided.
    fn quotas(&self) -> Divided {
        let counted = self.classes.iter().filter(|c| c.counted);
        let slots = match self.renewal {
            Renewal::EachEpoch => self.epoch_cycles,
            Renewal::WhenSpent => self.epoch_cycles * self.schedulers,
        };
        Divided {
            slots,
            weights: counted.map(|c| c.weight).sum::<u64>().max(1),
        }
    }

    /// Returns whether the row of the warp in this slot has spent its quota.
    #[inline]
    pub(super) fn spent(&self, slot: u32) -> bool {
        self.spent >> slot & 1 != 0
    }

    /// Returns which of the candidates may issue.
    #[inline]
    pub(super) fn allow(&self, candidates: u64) -> u64 {
        let within = candidates & !self.spent;
        if within == 0 && self.yields {
            candidates
        } else {
            within
        }
    }

    /// Notes that a warp issued with the scheduler whose slots are `own`.
    pub(super) fn issued(&mut self, scheduler: usize, own: u64, slot: u32) {
        let number = usize::from(self.class_of[slot as usize & 63]);
        let Some(class) = self.classes.get_mut(number) else {
            return;
        };
        class.issued = true;
        self.moves = true;
        let place = match self.renewal {
            Renewal::EachEpoch => scheduler,
            Renewal::WhenSpent => 0,
        };
        class.left[place] = class.left[place].saturating_sub(1);
        if class.left[place] == 0 {
            self.mark(scheduler, own);
        }
    }

    /// Marks the slots of rows whose quota is spent, those that came since too; renews the quotas where all have spent
    /// theirs.
    pub(super) fn mark(&mut self, scheduler: usize, own: u64) {
        let (place, bound) = self.bound(scheduler, own);
        let mut present = self.classes.iter().filter(|c| c.slots & bound != 0);
        if present.all(|c| c.left[place] == 0) {
            let all = self.quotas();
            for class in &mut self.classes {
                class.left[place] = all.of(class);
            }
        }
        self.spent &= !bound;
        for class in self.classes.iter().filter(|c| c.counted) {
            if class.left[place] == 0 {
                self.spent |= class.slots & bound;
            }
        }
    }
}

/// An epoch's issue slots, and the weights that divide them.
struct Divided {
    slots: u64,
    weights: u64,
}

impl Divided {
    /// Returns a row's quota.
    fn of(&self, class: &Class) -> u64 {
        (class.weight * self.slots / self.weights).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Quotas, Weights};
    use gridmux_policy::ids::RowId;
    use gridmux_policy::plan::{QuotaRule, Renewal, Spent};
    use gridmux_policy::units::Cycles;
    use std::num::NonZeroU16;
    use std::sync::Arc;

    fn weights(of: &[u16]) -> Arc<Weights> {
        renewed(of, Renewal::EachEpoch)
    }

    fn renewed(of: &[u16], renewal: Renewal) -> Arc<Weights> {
        Arc::new(Weights {
            rule: QuotaRule {
                epoch: Cycles(7),
                renewal,
                spent: Spent::Stops,
            },
            rows: of.iter().map(|n| NonZeroU16::new(*n)).collect(),
        })
    }

    #[test]
    fn a_spent_row_stops_until_all_have_spent() {
        let (a, b) = (RowId(1), RowId(2));
        let mut quotas = Quotas::new(1);
        quotas.set(Some(&weights(&[0, 2, 5])), 0, [(0, a), (1, b)].into_iter());
        quotas.renew(0);
        for _ in 0..2 {
            assert_eq!(quotas.allow(3), 3);
            quotas.issued(0, 3, 0);
        }
        for _ in 0..5 {
            assert_eq!(quotas.allow(3), 2, "the first row has spent its two");
            quotas.issued(0, 3, 1);
        }
        assert_eq!(quotas.allow(3), 3, "all had spent theirs");
    }

    #[test]
    fn where_epochs_do_not_end_a_spent_row_waits_as_long_as_others_issue() {
        let (a, b) = (RowId(1), RowId(2));
        let mut quotas = Quotas::new(1);
        let all = renewed(&[0, 2, 5], Renewal::WhenSpent);
        quotas.set(Some(&all), 0, [(0, a), (1, b)].into_iter());
        quotas.renew(0);
        quotas.issued(0, 3, 0);
        quotas.issued(0, 3, 0);
        assert_eq!(quotas.renew_at, 7);
        quotas.renew(7);
        quotas.mark(0, 3);
        assert_eq!(quotas.allow(3), 2, "it issued in this epoch");
        quotas.issued(0, 3, 1);
        quotas.renew(14);
        quotas.mark(0, 3);
        assert_eq!(quotas.allow(3), 2, "the other one did");
        quotas.renew(21);
        quotas.mark(0, 3);
        assert_eq!(quotas.allow(3), 3, "nobody did");
        quotas.issued(0, 3, 0);
        quotas.issued(0, 3, 0);
        assert_eq!(quotas.allow(3), 2);
        quotas.left(1);
        quotas.mark(0, 3);
        assert_eq!(quotas.allow(1), 1, "there is nobody to wait for");
    }

    #[test]
    fn where_epochs_do_not_end_a_row_has_one_quota_with_all_schedulers() {
        let (a, b) = (RowId(1), RowId(2));
        let mut quotas = Quotas::new(2);
        let all = renewed(&[0, 2, 5], Renewal::WhenSpent);
        let present = [(0, a), (1, b), (2, a), (3, b)];
        quotas.set(Some(&all), 0, present.into_iter());
        quotas.renew(0);
        let schedulers = [0b0101, 0b1010];
        for _ in 0..2 {
            assert_eq!(quotas.allow(15), 15);
            quotas.issued(0, schedulers[0], 0);
            quotas.issued(1, schedulers[1], 2);
        }
        assert_eq!(quotas.allow(15), 0b1010, "four of 14 are spent");
        for _ in 0..10 {
            assert_eq!(quotas.allow(15), 0b1010);
            quotas.issued(0, schedulers[0], 1);
        }
        assert_eq!(quotas.allow(15), 15, "and so are ten");
    }

    #[test]
    fn a_row_without_a_weight_issues_freely() {
        let (a, free, unlisted) = (RowId(1), RowId(0), RowId(u32::MAX));
        let mut quotas = Quotas::new(1);
        let present = [(0, a), (1, free), (2, unlisted)];
        quotas.set(Some(&weights(&[0, 2, 5])), 0, present.into_iter());
        quotas.renew(0);
        for _ in 0..100 {
            quotas.issued(0, 7, 1);
            quotas.issued(0, 7, 2);
            assert_eq!(quotas.allow(7), 7);
        }
    }

    #[test]
    fn more_rows_than_classes_take_the_places_of_those_that_left() {
        let mut quotas = Quotas::new(1);
        let all = weights(&[1; 1000]);
        quotas.set(Some(&all), 0, std::iter::empty());
        for row in 0..1000 {
            quotas.arrived(row % 8, RowId(row), 0);
            quotas.renew(0);
            quotas.issued(0, 0xff, row % 8);
            let allowed = quotas.allow(1 << (row % 8)) != 0;
            assert_ne!(allowed, quotas.spent(row % 8), "row {row}");
            quotas.left(row % 8);
        }
        assert!(quotas.classes.len() < 256);
        assert!(quotas.holds(Some(&weights(&[1; 1000]))));
    }
}
