//! What the tenants of a device host hold and may hold, each where the others can see it: how much one may have depends
//! on what is left and on what is kept for others ([`Shared`]).

use super::parts::{Holder, Shared};
use crate::config::Limits;
use crate::device::{DeviceControl, DomainId, HostMappings};
use crate::dispatch::accounts::TenantState;
use crate::dispatch::why::{Binding, Why};
use crate::link::TenantFacts;
use crate::page::monotonic_ns;
use gridmux_policy::Class;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The configuration of a tenant as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// Weight of its share.
    pub(super) weight: u32,
    /// Kind of service that it asks for.
    pub(super) class: Class,
    /// Device memory that its clients may hold together, in bytes.
    pub(super) memory_limit_bytes: u64,
    /// Most clients of it at once.
    pub(super) clients_limit: u16,
    /// Whether an operator has paused it.
    pub(super) state: TenantState,
}

impl From<&TenantFacts> for Terms {
    fn from(facts: &TenantFacts) -> Self {
        Self {
            weight: facts.weight,
            class: facts.class,
            memory_limit_bytes: facts.memory_limit_bytes,
            clients_limit: facts.clients_limit,
            state: facts.state,
        }
    }
}

/// What all tenants hold, and the limits that are the same for each of them.
#[derive(Debug, Default)]
pub(super) struct Common {
    pub(super) limits: RefCell<Limits>,
    /// By number.
    pub(super) holdings: RefCell<BTreeMap<u32, Rc<Holding>>>,
}

impl Common {
    /// Returns how much of something one tenant may hold, which `own` limits, beside all others. `of` says what a
    /// tenant holds and how much it may.
    pub(super) fn most_for(
        &self,
        number: u32,
        shared: Shared,
        own: u64,
        of: impl Fn(&Holding) -> (u64, u64),
    ) -> u64 {
        let holder = |holding: &Holding| {
            let (held, limit) = of(holding);
            let limit = if holding.is_removed.get() { 0 } else { limit };
            Holder { held, limit }
        };
        let holdings = self.holdings.borrow();
        let others = holdings.iter().filter(|(other, _)| **other != number);
        let others: Vec<_> = others.map(|(_, holding)| holder(holding)).collect();
        shared.most_for(own, &others)
    }
}

/// What the configuration says of a tenant, and what its clients hold.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) terms: Cell<Terms>,
    /// The tenant is configured no more.
    pub(super) is_removed: Cell<bool>,
    /// The memory of each of its clients.
    pub(super) domains: RefCell<Vec<DomainId>>,
    /// Bytes of the host's memory that the modules of its clients take.
    pub(super) modules: Cell<u64>,
    /// Descriptors that its clients hold.
    pub(super) descriptors: Cell<u64>,
    /// The device memory that it was refused and has not got since: how much, and from when on.
    pub(super) refused: Cell<Option<Refused>>,
}

/// Device memory that was refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    /// How much, in bytes.
    bytes: u64,
    /// When the first of such requests was refused, in nanoseconds of the machine's monotonic clock.
    since_ns: u64,
}

impl Holding {
    /// Takes note of a request for device memory.
    pub(super) fn note_request(&self, bytes: u64, is_granted: bool) {
        let since_ns = match self.refused.get() {
            Some(before) => before.since_ns,
            None => monotonic_ns(),
        };
        let refused = Refused { bytes, since_ns };
        self.refused.set((!is_granted).then_some(refused));
    }

    /// Returns what binds the tenant: what the dispatcher says, or, where nothing of what it has submitted waits,
    /// device memory that it was refused and would be refused still, of which it may have `limit` bytes.
    pub(super) fn binding(&self, said: Binding, used: u64, limit: impl FnOnce() -> u64) -> Binding {
        let has_clients = !self.domains.borrow().is_empty();
        let refused = self.refused.get().filter(|_| has_clients);
        let refused = refused.filter(|refused| used.saturating_add(refused.bytes) > limit());
        self.refused.set(refused);
        match (refused, said.why) {
            (Some(refused), Why::Idle | Why::Nothing | Why::Streams) => Binding {
                why: Why::Memory,
                since_ns: refused.since_ns,
            },
            _ => said,
        }
    }

    /// Returns the device memory that all clients hold, in bytes.
    pub(super) fn memory_used(&self, device: &dyn DeviceControl) -> u64 {
        match self.domains.borrow().as_slice() {
            [] => 0,
            domains => device.used_bytes_of(domains),
        }
    }
    /// Returns what all clients have of this process's mappings.
    pub(super) fn host_mappings(&self, device: &dyn DeviceControl) -> HostMappings {
        match self.domains.borrow().as_slice() {
            [] => HostMappings::default(),
            domains => device.host_mappings_of(domains),
        }
    }
}
