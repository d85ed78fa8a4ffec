//! Sets of tenants whose members are listed: what a turn goes through is as long as the list, however many tenants
//! there are.

use super::rows::TENANTS;
use gridmux_policy::ids::TenantId;

/// A set of tenants. Adding, removing and asking take constant time; nothing is allocated after construction.
#[derive(Debug)]
pub struct TenantSet {
    members: Vec<TenantId>,
    /// By tenant: its place in `members` + 1, 0 for none.
    places: Box<[u16]>,
}

impl Default for TenantSet {
    fn default() -> Self {
        Self {
            members: Vec::with_capacity(TENANTS),
            places: vec![0; TENANTS].into_boxed_slice(),
        }
    }
}

impl TenantSet {
    /// Adds a tenant; one that the service cannot have is left out.
    pub fn insert(&mut self, tenant: TenantId) {
        if let Some(place) = self.places.get_mut(tenant.index()).filter(|p| **p == 0) {
            self.members.push(tenant);
            *place = u16::try_from(self.members.len()).unwrap_or(u16::MAX);
        }
    }

    /// Removes a tenant, whether or not it is a member. The newest member takes its place in the list.
    pub fn remove(&mut self, tenant: TenantId) {
        let place = self.places.get_mut(tenant.index()).map(std::mem::take);
        if let Some(index) = place.and_then(|place| place.checked_sub(1)) {
            self.members.swap_remove(index.into());
            if let Some(moved) = self.members.get(usize::from(index)) {
                self.places[moved.index()] = index + 1;
            }
        }
    }

    /// Takes any member out.
    pub fn pop(&mut self) -> Option<TenantId> {
        let tenant = self.members.pop()?;
        self.places[tenant.index()] = 0;
        Some(tenant)
    }

    /// Returns whether a tenant is a member.
    #[must_use]
    pub fn contains(&self, tenant: TenantId) -> bool {
        self.places
            .get(tenant.index())
            .is_some_and(|place| *place > 0)
    }

    /// Returns the members in no particular order.
    #[must_use]
    pub fn members(&self) -> &[TenantId] {
        &self.members
    }

    /// Returns how many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{TENANTS, TenantSet};
    use gridmux_policy::ids::TenantId;

    #[test]
    fn members_are_listed_once() {
        let mut set = TenantSet::default();
        for number in [3, 1, 2, 3, 1, 9] {
            set.insert(TenantId(number));
        }
        set.insert(TenantId(u32::try_from(TENANTS).unwrap()));
        set.remove(TenantId(3));
        set.remove(TenantId(3));
        set.remove(TenantId(7));
        let mut members: Vec<u32> = set.members().iter().map(|tenant| tenant.0).collect();
        members.sort_unstable();
        assert_eq!(members, [1, 2, 9]);
        assert!(set.contains(TenantId(9)) && !set.contains(TenantId(3)));
        set.insert(TenantId(3));
        let mut popped: Vec<u32> = std::iter::from_fn(|| set.pop()).map(|t| t.0).collect();
        popped.sort_unstable();
        assert_eq!(popped, [1, 2, 3, 9]);
        assert!(set.is_empty());
        set.insert(TenantId(9));
        assert_eq!(set.len(), 1, "one that was popped can come back");
    }
}
