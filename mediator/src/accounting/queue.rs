//! Use that is not in the database yet: by minute and identity.
//!
//! Rule: it has at most [`MOST`] entries. Where that is not enough it loses who used something and when, and never how
//! much, as long as there are no more tenants than a service may have.

use super::amounts::Amounts;
use super::identity::Identity;
use super::interval::Level;
use std::collections::BTreeMap;

/// Most entries: all clients that there may be, for an hour.
const MOST: usize = 1 << 16;

/// Use that waits to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    entries: BTreeMap<(u64, Identity), Amounts>,
}

impl Queue {
    /// Adds what was used in the minute of `at`, in seconds since 1970.
    pub fn add(&mut self, at: u64, identity: &Identity, amounts: &Amounts) {
        self.add_within(at, identity, amounts, MOST);
    }

    fn add_within(&mut self, at: u64, identity: &Identity, amounts: &Amounts, most: usize) {
        if amounts.is_nothing() {
            return;
        }
        let mut key = (Level::Minute.start_of(at), identity.clone());
        if self.entries.len() >= most && !self.entries.contains_key(&key) {
            self.fold(Level::Hour);
            if self.entries.len() >= most {
                self.fold(Level::Month);
            }
            key.1 = identity.folded();
        }
        self.entries.entry(key).or_default().add(amounts);
    }

    /// Puts users and control groups of a tenant together, and minutes into longer intervals.
    fn fold(&mut self, level: Level) {
        for ((at, identity), amounts) in std::mem::take(&mut self.entries) {
            let key = (level.start_of(at), identity.folded());
            self.entries.entry(key).or_default().add(&amounts);
        }
    }

    /// Adds what another one holds.
    pub fn merge(&mut self, other: Self) {
        for ((at, identity), amounts) in other.entries {
            self.add(at, &identity, &amounts);
        }
    }

    /// Returns whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns each entry: the beginning of its minute, who, and how much.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Identity, &Amounts)> {
        let entries = self.entries.iter();
        entries.map(|((at, identity), amounts)| (*at, identity, amounts))
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;
    use crate::accounting::{Amounts, Identity};

    fn launches(count: u64) -> Amounts {
        Amounts {
            launches: count,
            ..Amounts::default()
        }
    }

    #[test]
    fn the_same_minute_and_identity_is_one_entry_and_nothing_is_none() {
        let identity = Identity::new("a", 1, None);
        let mut queue = Queue::default();
        queue.add(60, &identity, &Amounts::default());
        assert!(queue.is_empty());
        for at in [60, 61, 119, 120] {
            queue.add(at, &identity, &launches(1));
        }
        let held: Vec<_> = queue
            .iter()
            .map(|(at, _, all)| (at, all.launches))
            .collect();
        assert_eq!(held, [(60, 3), (120, 1)]);
        let mut other = Queue::default();
        other.add(125, &identity, &launches(4));
        queue.merge(other);
        assert_eq!(queue.iter().map(|(.., all)| all.launches).sum::<u64>(), 8);
        assert_eq!(queue.iter().count(), 2);
    }

    #[test]
    fn what_is_too_much_loses_detail_and_no_amount() {
        let mut queue = Queue::default();
        for step in 0..10_000 {
            let tenant = format!("t{}", step % 5);
            let user = u32::try_from(step).unwrap();
            let identity = Identity::new(&tenant, user, Some("/x"));
            queue.add_within(step * 977, &identity, &launches(1), 64);
            assert!(queue.entries.len() <= 64 + 5, "{}", queue.entries.len());
        }
        assert_eq!(
            queue.iter().map(|(.., all)| all.launches).sum::<u64>(),
            10_000
        );
        let tenants = queue.iter().map(|(_, who, _)| &*who.tenant);
        assert_eq!(tenants.collect::<std::collections::BTreeSet<_>>().len(), 5);
    }
}
