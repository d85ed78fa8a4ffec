//! The policy's side: events of tenants, rows, launches and shares go to it, and its plan is read here.
//!
//! [`rows`] and [`accounts`] are what the dispatcher knows of a kernel and of a tenant, `tell` makes events of it,
//! `shares` measures, and [`policy_link`] carries events there and plans back.
//!
//! Rules: it knows clients only as a table of operations, and has neither the lanes nor the device; accounts count what
//! the other parts do for a tenant.

pub mod accounting;
pub mod accounts;
pub mod client_accounting;
mod enforce;
mod plan_causes;
pub mod policy_choice;
pub mod policy_link;
#[cfg(not(loom))]
mod policy_thread;
pub mod rows;
mod shares;
mod tell;
pub mod tenant_set;
pub mod why;

pub use enforce::{enforces, samples};

use super::ids::{OperationRef, Slot};
use accounts::Accounts;
use gridmux_policy::event::Event;
use gridmux_policy::ids::TenantId;
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Nanos;
use gridmux_policy::{Profiles, ShareMeter};
use policy_link::PolicyLink;
use rows::{RowTable, TENANTS};

/// An arrival of this instant of virtual time that the policy has not been told of.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    slot: Slot,
    stream: u16,
    sequence: u64,
    event: Event,
}

/// The dispatcher's part that keeps the policy informed.
pub(super) struct PolicyFeed {
    pub(super) policy: PolicyLink,
    pub(super) accounts: Accounts,
    pub(super) rows: RowTable,
    /// Durations of kernels' blocks that are known when a row is new.
    pub(super) profiles: Option<Profiles>,
    pub(super) meter: ShareMeter,
    pub(super) shape: DeviceShape,
    /// Time passes only when the dispatcher permits it.
    is_virtual: bool,
    arrivals: Vec<Arrival>,
    /// Launches with blocks that started or ended and were not reported to the policy yet.
    unreported: Vec<OperationRef>,
    /// Row from which counters are to be sent to the policy.
    resync_from: Option<u32>,
    /// The wake-up time of the policy that was answered last, on a real clock.
    woken_for: Option<Nanos>,
    /// Wall time in nanoseconds, and device time, at which shares were last published.
    published: (u64, Nanos),
    /// The same for what binds tenants.
    published_bindings: (u64, Nanos),
    busy_scratch: Vec<TenantId>,
}

impl PolicyFeed {
    /// Makes the feed of a device, with room for `operations` in its lists.
    pub(super) fn new(
        policy: PolicyLink,
        shape: &DeviceShape,
        is_virtual: bool,
        operations: usize,
    ) -> Self {
        Self {
            policy,
            accounts: Accounts::default(),
            rows: RowTable::default(),
            profiles: None,
            meter: ShareMeter::new(shape),
            shape: *shape,
            is_virtual,
            arrivals: Vec::with_capacity(operations),
            unreported: Vec::with_capacity(operations),
            resync_from: None,
            woken_for: None,
            published: (0, Nanos(0)),
            published_bindings: (0, Nanos(0)),
            busy_scratch: Vec::with_capacity(TENANTS),
        }
    }

    /// Returns whether the policy is about to hear of something, or has not seen all that it was told.
    pub(super) fn is_behind(&self) -> bool {
        !self.policy.is_caught_up() || self.resync_from.is_some()
    }

    /// Returns whether launches that arrived at this instant are still to be told.
    pub(super) fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Frees row ids whose quarantine is over.
    pub(super) fn free_rows(&mut self) {
        if self.rows.has_quarantine() {
            let plan = self.policy.plan();
            let listed = |row| plan.place_of(row).is_some();
            self.rows.release(self.policy.observed(), listed);
        }
    }
}
