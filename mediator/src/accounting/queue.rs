//! Use that is not in the database yet: by minute and identity.
//!
//! Rule: it has at most [`MOST`] entries, and one for each tenant. Where that is not enough it loses who used something
//! and when, first of the tenants that have most entries, and never how much.

use super::amounts::Amounts;
use super::identity::Identity;
use super::interval::Level;
use std::collections::{BTreeMap, HashMap};

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
            self.make_room(most);
            if self.entries.len() >= most {
                key.1 = identity.folded();
            }
        }
        self.entries.entry(key).or_default().add(amounts);
    }

    /// Puts users and control groups of tenants together, and minutes into longer intervals, until a tenth is free.
    fn make_room(&mut self, most: usize) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (_, identity) in self.entries.keys() {
            *counts.entry(identity.tenant.clone()).or_default() += 1;
        }
        let mut tenants: Vec<(String, usize)> = counts.into_iter().collect();
        tenants.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for level in [Level::Hour, Level::Month] {
            for (tenant, _) in &tenants {
                if self.entries.len() <= most - most.div_ceil(10) {
                    return;
                }
                self.fold(tenant, level);
            }
        }
    }

    fn fold(&mut self, tenant: &str, level: Level) {
        let of_tenant =
            |(_, identity): &(u64, Identity), _: &mut Amounts| identity.tenant == tenant;
        let folded: Vec<_> = self.entries.extract_if(.., of_tenant).collect();
        for ((at, identity), amounts) in folded {
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

    #[test]
    fn who_has_most_loses_detail_first() {
        let mut queue = Queue::default();
        let quiet: Vec<Identity> = (0..20)
            .map(|user| Identity::new("quiet", user, None))
            .collect();
        for identity in &quiet {
            queue.add_within(60, identity, &launches(1), 64);
        }
        for step in 0..1000 {
            let identity = Identity::new("loud", step, None);
            queue.add_within(60, &identity, &launches(1), 64);
        }
        let users = queue.iter().filter(|(_, who, _)| who.tenant == "quiet");
        assert_eq!(users.filter(|(_, who, _)| who.user.is_some()).count(), 20);
        assert_eq!(
            queue.iter().map(|(.., all)| all.launches).sum::<u64>(),
            1020
        );
    }
}
