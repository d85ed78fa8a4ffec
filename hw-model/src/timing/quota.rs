//! Issue quotas of the kernels that share an SM (SMK, section 5.4).
//!
//! In each epoch a scheduler may issue `Quota_k × epoch length` instructions of kernel k, where `Quota_k` is the
//! kernel's weight over the sum of all. A kernel that has spent its quota stops; when every kernel that has warps
//! here has spent its own, or the epoch is over, all quotas are renewed.
//! Rules: a kernel that leaves and comes back within an epoch finds what it had left; one that is new to the SM
//! begins an epoch; a weight of zero counts as one; nothing here runs while quotas are off.

use super::issue::MAX_SCHEDULERS;
use gridmux_policy::ids::KernelId;

/// Who has no class of its own; such a warp issues freely.
const NO_CLASS: u8 = u8::MAX;

#[derive(Debug, Clone, Copy)]
struct Class {
    kernel: KernelId,
    weight: u64,
    /// Warp slots that it has.
    slots: u64,
    /// It had a part in the present epoch's division.
    counted: bool,
    /// It issued in the present epoch.
    issued: bool,
    left: [u64; MAX_SCHEDULERS],
}

/// Quotas of one SM.
#[derive(Debug)]
pub(super) struct Quotas {
    pub(super) on: bool,
    yields: bool,
    /// Warp slots whose kernel has spent its quota with their scheduler.
    spent: u64,
    classes: Vec<Class>,
    class_of: [u8; 64],
    default_weight: u16,
    epoch_cycles: u64,
    pub(super) renew_at: u64,
}

impl Quotas {
    pub(super) fn new() -> Self {
        Self {
            on: false,
            yields: false,
            spent: 0,
            classes: Vec::new(),
            class_of: [NO_CLASS; 64],
            default_weight: 1,
            epoch_cycles: u64::MAX,
            renew_at: u64::MAX,
        }
    }

    /// New weights from now on; an epoch begins. `present` are the SM's warp slots with their kernels.
    pub(super) fn set(
        &mut self,
        weights: &QuotaWeights<'_>,
        now: u64,
        present: impl Iterator<Item = (u32, KernelId)>,
    ) {
        self.classes.clear();
        self.class_of = [NO_CLASS; 64];
        self.spent = 0;
        self.on = weights.on;
        self.yields = weights.yields;
        self.default_weight = weights.default_weight;
        self.epoch_cycles = weights.epoch_cycles.max(1);
        if !self.on {
            self.renew_at = u64::MAX;
            return;
        }
        for (kernel, weight) in weights.rows {
            self.add(*kernel, *weight);
        }
        self.renew_at = now;
        for (slot, kernel) in present {
            self.arrived(slot, kernel, now);
        }
    }

    fn add(&mut self, kernel: KernelId, weight: u16) -> u8 {
        let class = u8::try_from(self.classes.len()).unwrap_or(NO_CLASS);
        if class != NO_CLASS {
            self.classes.push(Class {
                kernel,
                weight: u64::from(weight.max(1)),
                slots: 0,
                counted: false,
                issued: false,
                left: [0; MAX_SCHEDULERS],
            });
        }
        class
    }

    /// A warp of a kernel takes a slot.
    pub(super) fn arrived(&mut self, slot: u32, kernel: KernelId, now: u64) {
        if !self.on {
            return;
        }
        let found = self.classes.iter().position(|c| c.kernel == kernel);
        let class = match found {
            Some(at) => u8::try_from(at).unwrap_or(NO_CLASS),
            None => self.add(kernel, self.default_weight),
        };
        self.class_of[slot as usize & 63] = class;
        if let Some(class) = self.classes.get_mut(usize::from(class)) {
            class.slots |= 1 << slot;
            if !class.counted {
                self.renew_at = self.renew_at.min(now);
            }
        }
    }

    /// A slot is free again.
    pub(super) fn left(&mut self, slot: u32) {
        let class = std::mem::replace(&mut self.class_of[slot as usize & 63], NO_CLASS);
        if let Some(class) = self.classes.get_mut(usize::from(class)) {
            class.slots &= !(1 << slot);
        }
        self.spent &= !(1 << slot);
    }

    /// An epoch begins.
    pub(super) fn renew(&mut self, now: u64) {
        self.renew_at = now + self.epoch_cycles;
        self.spent = 0;
        for class in &mut self.classes {
            class.counted = class.slots != 0 || class.issued;
            class.issued = false;
        }
        let sum = self.sum();
        for class in self.classes.iter_mut().filter(|c| c.counted) {
            class.left = [quota(class.weight, sum, self.epoch_cycles); MAX_SCHEDULERS];
        }
    }

    fn sum(&self) -> u64 {
        let counted = self.classes.iter().filter(|c| c.counted);
        counted.map(|c| c.weight).sum::<u64>().max(1)
    }

    /// The kernel of the warp in this slot has spent its quota.
    #[inline]
    pub(super) fn spent(&self, slot: u32) -> bool {
        self.spent >> slot & 1 != 0
    }

    /// Which of the candidates may issue.
    #[inline]
    pub(super) fn allow(&self, candidates: u64) -> u64 {
        let within = candidates & !self.spent;
        if within == 0 && self.yields {
            candidates
        } else {
            within
        }
    }

    /// A warp issued with the scheduler whose slots are `own`.
    pub(super) fn issued(&mut self, scheduler: usize, own: u64, slot: u32) {
        let number = usize::from(self.class_of[slot as usize & 63]);
        let Some(class) = self.classes.get_mut(number) else {
            return;
        };
        class.issued = true;
        class.left[scheduler] = class.left[scheduler].saturating_sub(1);
        if class.left[scheduler] != 0 {
            return;
        }
        let present = |c: &&Class| c.slots & own != 0;
        if self
            .classes
            .iter()
            .filter(present)
            .all(|c| c.left[scheduler] == 0)
        {
            let sum = self.sum();
            for class in &mut self.classes {
                class.left[scheduler] = quota(class.weight, sum, self.epoch_cycles);
            }
            self.spent &= !own;
        }
        self.mark(scheduler, own);
    }

    /// Slots that came to a kernel whose quota is spent are marked with the others.
    pub(super) fn mark(&mut self, scheduler: usize, own: u64) {
        for class in self.classes.iter().filter(|c| c.counted) {
            if class.left[scheduler] == 0 {
                self.spent |= class.slots & own;
            }
        }
    }
}

fn quota(weight: u64, sum: u64, epoch_cycles: u64) -> u64 {
    (weight * epoch_cycles / sum).max(1)
}

/// What a plan says about an SM's issue slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaWeights<'a> {
    pub(crate) on: bool,
    /// A kernel that has spent its quota issues where nobody else can, instead of stopping.
    pub(crate) yields: bool,
    pub(crate) rows: &'a [(KernelId, u16)],
    pub(crate) default_weight: u16,
    pub(crate) epoch_cycles: u64,
}

#[cfg(test)]
mod tests {
    use super::{QuotaWeights, Quotas};
    use gridmux_policy::ids::KernelId;

    #[test]
    fn a_spent_kernel_stops_until_all_have_spent() {
        let (a, b) = (KernelId(1), KernelId(2));
        let mut quotas = Quotas::new();
        let weights = QuotaWeights {
            on: true,
            yields: false,
            rows: &[(a, 2), (b, 5)],
            default_weight: 1,
            epoch_cycles: 7,
        };
        quotas.set(&weights, 0, [(0, a), (1, b)].into_iter());
        quotas.renew(0);
        for _ in 0..2 {
            assert_eq!(quotas.allow(3), 3);
            quotas.issued(0, 3, 0);
        }
        for _ in 0..5 {
            assert_eq!(quotas.allow(3), 2, "the first kernel has spent its two");
            quotas.issued(0, 3, 1);
        }
        assert_eq!(quotas.allow(3), 3, "all had spent theirs");
    }
}
