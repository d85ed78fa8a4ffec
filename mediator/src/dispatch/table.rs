//! The dispatcher's tenants: a sparse table by slot, and the dense list of the occupied ones in order of slot.

use super::message::Slot;
use super::tenant::TenantSlot;

/// Tenants by slot.
pub struct TenantTable<P> {
    slots: Vec<Option<Box<TenantSlot<P>>>>,
    occupied: Vec<Slot>,
}

impl<P> TenantTable<P> {
    /// A table for slots `0..capacity`.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut slots = Vec::with_capacity(capacity);
        slots.resize_with(capacity, || None);
        Self {
            slots,
            occupied: Vec::with_capacity(capacity),
        }
    }

    /// Occupied slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.occupied.len()
    }

    /// Whether there is no tenant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.occupied.is_empty()
    }

    /// The n-th occupied slot, in order of slot; none once so many tenants have left.
    #[must_use]
    pub fn slot_at(&self, index: usize) -> Option<Slot> {
        self.occupied.get(index).copied()
    }

    /// The tenant at a slot.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut TenantSlot<P>> {
        self.slots.get_mut(usize::from(slot.0))?.as_deref_mut()
    }

    /// The tenant at a slot.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&TenantSlot<P>> {
        self.slots.get(usize::from(slot.0))?.as_deref()
    }

    /// Puts a tenant into a free slot; the control thread numbers slots, so an occupied one is its error and the
    /// newcomer replaces nothing.
    pub fn insert(&mut self, slot: Slot, tenant: Box<TenantSlot<P>>) {
        let Some(place) = self.slots.get_mut(usize::from(slot.0)) else {
            return;
        };
        if place.is_none() {
            *place = Some(tenant);
            let at = self.occupied.partition_point(|s| *s < slot);
            self.occupied.insert(at, slot);
        }
    }

    /// Takes a tenant out.
    pub fn remove(&mut self, slot: Slot) -> Option<Box<TenantSlot<P>>> {
        let tenant = self.slots.get_mut(usize::from(slot.0))?.take()?;
        self.occupied.retain(|s| *s != slot);
        Some(tenant)
    }
}
