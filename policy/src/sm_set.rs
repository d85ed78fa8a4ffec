//! A set of SMs as a bitset of 1,024.
//!
//! Plans name SMs by group, so a set is copied, never allocated.

use crate::ids::SmId;
use serde::{Serialize, Serializer};

/// How many SMs a set can name.
pub const MAX_SMS: u16 = 1024;

/// A set of SMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SmSet([u64; MAX_SMS as usize / 64]);

impl SmSet {
    /// No SM.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// SMs `from..to`.
    #[must_use]
    pub fn range(from: u16, to: u16) -> Self {
        (from..to.min(MAX_SMS)).map(SmId).collect()
    }

    /// Returns the first `count` SMs.
    #[must_use]
    pub fn first(count: u16) -> Self {
        Self::range(0, count)
    }

    /// Adds an SM. SMs from [`MAX_SMS`] up cannot be named and are ignored.
    pub fn insert(&mut self, sm: SmId) {
        if let Some(word) = self.0.get_mut(sm.index() / 64) {
            *word |= 1 << (sm.0 % 64);
        }
    }

    /// Returns whether the SM is in the set.
    #[must_use]
    #[inline]
    pub fn contains(&self, sm: SmId) -> bool {
        self.0
            .get(sm.index() / 64)
            .is_some_and(|word| word >> (sm.0 % 64) & 1 == 1)
    }

    /// Returns how many SMs are in the set.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns whether no SM is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Returns the SMs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = SmId> + '_ {
        (0_u16..).step_by(64).zip(self.0).flat_map(|(first, word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(SmId(first + u16::try_from(bit).unwrap_or(0)))
            })
        })
    }
}

impl FromIterator<SmId> for SmSet {
    fn from_iter<I: IntoIterator<Item = SmId>>(sms: I) -> Self {
        let mut set = Self::empty();
        for sm in sms {
            set.insert(sm);
        }
        set
    }
}

impl Serialize for SmSet {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::SmSet;
    use crate::ids::SmId;

    #[test]
    fn sets_hold_what_was_put_in() {
        let set: SmSet = [SmId(3), SmId(1023), SmId(64)].into_iter().collect();
        assert_eq!(set.len(), 3);
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [SmId(3), SmId(64), SmId(1023)]
        );
        assert!(!set.contains(SmId(2)) && !set.contains(SmId(2000)));
        assert_eq!(SmSet::first(132).len(), 132);
    }
}
