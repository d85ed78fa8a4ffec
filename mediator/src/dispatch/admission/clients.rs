//! The dispatcher's clients: a table by slot, and the short lists of those that a turn looks at.
//!
//! A client is **hot** while it has something admitted or did something lately: its ring is looked at in every turn.
//! One that was quiet for a while becomes **cold**: its doorbell is armed, and it is looked at again when that rings.
//! So a turn costs as much as there are hot clients, however many are connected.
//!
//! Rules: a client is hot from its arrival on. After a doorbell is armed the ring is looked at once more, behind a
//! barrier, so that no submission is missed; a client rings it, too, when it says that it runs again. Nothing is
//! allocated after construction.

use super::client::ClientSlot;
use super::operation::{LaunchWork, Operation, Work};
use super::port::TenantPort;
use crate::dispatch::ids::{OperationRef, Slot};
use gridmux_channel::ring::TenantState;
use gridmux_policy::ids::TenantId;
use std::ops::Range;

/// Clients at once.
pub const CLIENTS: usize = if cfg!(loom) { 2 } else { 1024 };

/// Clients by slot.
pub struct ClientTable<P> {
    slots: Vec<Option<Box<ClientSlot<P>>>>,
    hot: Vec<Slot>,
    is_hot: Box<[bool]>,
    occupied: usize,
}

impl<P> Default for ClientTable<P> {
    fn default() -> Self {
        let mut slots = Vec::with_capacity(CLIENTS);
        slots.resize_with(CLIENTS, || None);
        Self {
            slots,
            hot: Vec::with_capacity(CLIENTS),
            is_hot: vec![false; CLIENTS].into_boxed_slice(),
            occupied: 0,
        }
    }
}

impl<P> ClientTable<P> {
    /// Returns how many clients there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.occupied
    }

    /// Returns whether there is no client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Returns the client at a slot.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut ClientSlot<P>> {
        self.slots.get_mut(usize::from(slot.0))?.as_deref_mut()
    }

    /// Returns the client at a slot.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&ClientSlot<P>> {
        self.slots.get(usize::from(slot.0))?.as_deref()
    }

    /// Returns an operation that is still held, and its client's tenant.
    pub fn operation_mut(&mut self, op: OperationRef) -> Option<(TenantId, &mut Operation)> {
        let client = self.get_mut(op.slot)?;
        Some((client.tenant, client.operations.get_mut(op.id)?))
    }

    /// Returns an operation that is still held.
    #[must_use]
    pub fn operation(&self, op: OperationRef) -> Option<&Operation> {
        self.get(op.slot)?.operations.get(op.id)
    }

    /// Returns a launch that is still held, with its client's tenant and its sequence number.
    pub fn launch_mut(&mut self, op: OperationRef) -> Option<(TenantId, u64, &mut LaunchWork)> {
        match self.operation_mut(op)? {
            (
                tenant,
                Operation {
                    work: Work::Launch(launch),
                    sequence,
                    ..
                },
            ) => Some((tenant, *sequence, launch)),
            _ => None,
        }
    }

    /// Returns a launch that is still held.
    #[must_use]
    pub fn launch(&self, op: OperationRef) -> Option<&LaunchWork> {
        match &self.operation(op)?.work {
            Work::Launch(launch) => Some(launch),
            _ => None,
        }
    }

    /// Puts a client into a free slot; the control thread numbers slots, so an occupied one is its error and the
    /// newcomer is handed back.
    pub fn insert(
        &mut self,
        slot: Slot,
        client: Box<ClientSlot<P>>,
    ) -> Result<(), Box<ClientSlot<P>>> {
        match self.slots.get_mut(usize::from(slot.0)) {
            Some(place) if place.is_none() => {
                *place = Some(client);
                self.occupied += 1;
                self.warm(slot);
                Ok(())
            }
            _ => Err(client),
        }
    }

    /// Takes a client out.
    pub fn remove(&mut self, slot: Slot) -> Option<Box<ClientSlot<P>>> {
        let client = self.slots.get_mut(usize::from(slot.0))?.take()?;
        self.occupied -= 1;
        if std::mem::take(&mut self.is_hot[usize::from(slot.0)]) {
            self.hot.retain(|other| *other != slot);
        }
        Some(client)
    }

    /// Makes a client hot.
    pub fn warm(&mut self, slot: Slot) {
        let Some(hot) = self.is_hot.get_mut(usize::from(slot.0)) else {
            return;
        };
        if self.slots[usize::from(slot.0)].is_some() && !std::mem::replace(hot, true) {
            self.hot.push(slot);
        }
    }

    /// Returns how many clients are hot.
    #[must_use]
    pub fn hot(&self) -> usize {
        self.hot.len()
    }

    /// Calls `act` for every hot client.
    pub fn for_each_hot(&mut self, mut act: impl FnMut(&mut ClientSlot<P>)) {
        for slot in &self.hot {
            if let Some(client) = self.slots[usize::from(slot.0)].as_deref_mut() {
                act(client);
            }
        }
    }

    /// Returns the n-th hot client; none once that many have left or cooled.
    #[must_use]
    pub fn hot_at(&self, index: usize) -> Option<Slot> {
        self.hot.get(index).copied()
    }

    /// Returns the places of the hot clients, for [`Self::next_hot`].
    #[must_use]
    pub fn hot_places(&self) -> Range<usize> {
        0..self.hot()
    }

    /// Returns the hot client at the next of these places; none behind the last, or once that many have left or cooled.
    pub fn next_hot(&self, places: &mut Range<usize>) -> Option<Slot> {
        self.hot_at(places.next()?)
    }
}

impl<P: TenantPort> ClientTable<P> {
    /// Makes clients cold that have nothing admitted and were last seen before turn `before`: announces to each that
    /// its doorbell is wanted, runs `barrier` once, and keeps those hot whose ring has something after that, or all if
    /// the barrier fails. In lockstep one that says that it runs stays hot, too, because it holds the clock. Returns
    /// how many became cold.
    pub fn cool(&mut self, before: u64, lockstep: bool, barrier: impl FnOnce() -> bool) -> usize {
        let slots = &mut self.slots;
        let mut announced = 0;
        for slot in &self.hot {
            if let Some(client) = quiet(slots, *slot, before) {
                client.port.arm();
                announced += 1;
            }
        }
        if announced == 0 {
            return 0;
        }
        let ordered = barrier();
        let is_hot = &mut self.is_hot;
        let count = self.hot.len();
        self.hot.retain(|slot| {
            let Some(client) = quiet(slots, *slot, before) else {
                return true;
            };
            let holds = lockstep && client.port.state() == TenantState::Running;
            if !ordered || holds || client.port.has_work() {
                client.port.disarm();
                return true;
            }
            is_hot[usize::from(slot.0)] = false;
            false
        });
        count - self.hot.len()
    }
}

/// Returns the client of a slot if it may become cold.
fn quiet<P>(
    slots: &mut [Option<Box<ClientSlot<P>>>],
    slot: Slot,
    before: u64,
) -> Option<&mut ClientSlot<P>> {
    let client = slots[usize::from(slot.0)].as_deref_mut()?;
    let quiet = client.seen < before && client.operations.is_empty() && client.is_served();
    quiet.then_some(client)
}
