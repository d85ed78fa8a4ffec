//! An operator pauses a tenant, and lets it go on.
//!
//! Nothing more of a paused tenant goes to the device; what was handed over ends. Its submissions are admitted and wait
//! where those wait that have no turn (`issuer/piece.rs`), as many as a client may have admitted and then in its ring.
//!
//! Rules: to the policy a paused tenant is one without launches: those that have not begun are taken back at once, the
//! others when what they have on the device has ended (`report`). When the tenant goes on they arrive anew, with the
//! blocks that are left. An operator comes at any time, so that a run in lockstep is no function of its programs then.

use super::admission::client::Presence;
use super::admission::operation::Told;
use super::admission::port::TenantPort;
use super::dispatcher::Dispatcher;
use super::feed::accounts::TenantState;
use super::ids::OperationRef;
use crate::device::Device;
use gridmux_policy::ids::TenantId;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Has a tenant be paused or go on, if it is not so already.
    pub(super) fn set_tenant_state(&mut self, tenant: TenantId, state: TenantState) {
        if !self.feed.accounts.set_state(tenant, state) {
            return;
        }
        match state {
            TenantState::Paused => self.take_back(tenant),
            TenantState::Running => self.go_on_with(tenant),
        }
        // What this changes belongs to this instant; where the device has no room for that, to the next one.
        let _ = self.stop_clock();
    }

    /// Takes back what the policy was told of a tenant's launches that have nothing on the device.
    pub(super) fn take_back(&mut self, tenant: TenantId) {
        let is_paused = |this: &Self| {
            let account = this.feed.accounts.get(tenant);
            account.is_some_and(|account| account.is_paused())
        };
        self.for_each_active(tenant, |this, op| {
            let clients = &this.admission.clients;
            let idle = clients.operation(op).is_some_and(|o| o.in_flight == 0);
            let launch = clients.launch(op);
            let may_go = |issued: u64| issued == 0 || idle && is_paused(this);
            if launch.is_some_and(|l| l.told != Told::Nothing && may_go(l.issued)) {
                this.conclude(op, this.now);
            }
        });
    }

    /// Takes back a launch of a paused tenant of which nothing is on the device any more.
    pub(super) fn take_back_if_paused(&mut self, tenant: TenantId, op: OperationRef) {
        let account = self.feed.accounts.get(tenant);
        if !account.is_some_and(|account| account.is_paused()) {
            return;
        }
        let operation = self.admission.clients.operation(op);
        if operation.is_some_and(|operation| operation.in_flight == 0) {
            self.conclude(op, self.now);
        }
    }

    /// Tells the policy of a tenant's launches, and has them tried.
    fn go_on_with(&mut self, tenant: TenantId) {
        let is_behind = |account: &super::feed::accounts::Account| account.is_behind();
        // Those wait until no other tenant has a launch open, and the policy is told then.
        if !self.feed.accounts.get(tenant).is_some_and(is_behind) {
            self.for_each_active(tenant, |this, op| {
                let clients = &mut this.admission.clients;
                this.feed.announce(clients, op, this.now);
            });
        }
        let clients = &self.admission.clients;
        self.issuer.unpark(clients, &mut self.feed, tenant);
    }

    /// Calls `act` for each operation of a tenant that is active.
    fn for_each_active(&mut self, tenant: TenantId, mut act: impl FnMut(&mut Self, OperationRef)) {
        let mut places = self.admission.clients.hot_places();
        while let Some(slot) = self.admission.clients.next_hot(&mut places) {
            let client = self.admission.clients.get(slot);
            let Some(client) = client.filter(|client| client.tenant == tenant) else {
                continue;
            };
            if client.presence != Presence::Served {
                continue;
            }
            for number in 0..client.streams.len() {
                let active = |this: &Self, place| {
                    let client = this.admission.clients.get(slot)?;
                    client.streams[number].as_ref()?.active_at(place)
                };
                let mut place = 0;
                while let Some(id) = active(self, place) {
                    place += 1;
                    act(self, OperationRef { slot, id });
                }
            }
        }
    }
}
