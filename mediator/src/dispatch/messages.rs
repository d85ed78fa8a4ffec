//! Messages of the control thread: tenants, clients, and the kernels, streams and mappings of each client.
//!
//! Rules: the control thread checks limits before it sends; a message about a client that is gone is dropped.

use super::admission::Service;
use super::admission::clock::{OPERATION_NS, Timing};
use super::admission::message::{Message, Notice};
use super::admission::port::TenantPort;
use super::dispatcher::Dispatcher;
use crate::device::Device;
use gridmux_policy::event::Event;
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    pub(super) fn take_messages(&mut self) -> bool {
        // Cheaper than to try: this is asked before each admission.
        if self.admission.outbox.link.messages.is_empty() {
            return false;
        }
        let mut worked = false;
        while let Some(message) = self.admission.outbox.link.messages.pop() {
            worked = true;
            self.handle_message(message);
        }
        worked
    }

    fn handle_message(&mut self, message: Message<P>) {
        match message {
            Message::Tenant(account) => {
                let (tenant, weight, class) = (account.id, account.weight, account.class);
                let state = account.state;
                if let Some(known) = self.feed.accounts.set(account) {
                    self.admission.outbox.notify(Notice::Known(known));
                }
                self.feed.meter.set_weight(tenant, weight, self.now);
                self.feed.policy.tell(Event::Tenant {
                    tenant,
                    weight,
                    class,
                });
                self.set_tenant_state(tenant, state);
            }
            Message::TenantGone(tenant) => self.forget_tenant(tenant),
            Message::Join(slot, client) => {
                self.admission.clock.acted(slot);
                if let Err(client) = self.admission.clients.insert(slot, client) {
                    self.admission.outbox.notify(Notice::Gone(slot, client));
                }
            }
            Message::Leave(slot) => self.begin_leave(slot),
            Message::Fence(slot, fence) => {
                let next = self.admission.sequence + 1;
                match self.admission.clients.get_mut(slot) {
                    Some(client) if !client.operations.is_empty() => {
                        client.fences.push((fence, next));
                    }
                    _ => self.admission.outbox.notify(Notice::Fenced(slot, fence)),
                }
            }
            Message::ReadRows(mut readings) => {
                self.issuer.read_rows(&self.feed, &mut readings, self.now);
                self.admission.outbox.notify(Notice::Rows(readings));
            }
            // Said again, it waits for nothing more.
            Message::Stop => {
                self.admission.service = match self.admission.service {
                    Service::Open => Service::Stopping,
                    Service::Stopping | Service::CutOff => Service::CutOff,
                };
            }
            other => self.handle_table_message(other),
        }
    }

    /// Forgets a tenant without clients: its account, its rows, and what it held. Should it come back, it begins anew.
    fn forget_tenant(&mut self, tenant: TenantId) {
        self.feed.meter.remove(tenant, self.now);
        let sent = self.feed.policy.tell(Event::TenantGone { tenant });
        self.feed.rows.forget_tenant(tenant, sent);
        self.issuer.forget_tenant(&mut self.feed, tenant);
        if let Some(account) = self.feed.accounts.remove(tenant) {
            self.admission.outbox.notify(Notice::Known(account));
        }
    }

    fn handle_table_message(&mut self, message: Message<P>) {
        let now = self.now;
        let (Message::AddKernel(slot, ..)
        | Message::RemoveKernel(slot, _)
        | Message::AddStream(slot, _)
        | Message::RemoveStream(slot, _)
        | Message::AddMapping(slot, _)
        | Message::RemoveMapping(slot, _)
        | Message::Charge(slot)
        | Message::Postponed(slot)) = message
        else {
            return;
        };
        let Some(client) = self.admission.clients.get_mut(slot) else {
            return;
        };
        match message {
            Message::AddKernel(_, handle, kernel) => {
                let kernels = &mut client.kernels;
                while kernels.len() <= handle as usize && kernels.len() < kernels.capacity() {
                    kernels.push(None);
                }
                if let Some(place) = kernels.get_mut(handle as usize) {
                    *place = Some(kernel);
                }
            }
            Message::RemoveKernel(_, handle) => {
                if let Some(place) = client.kernels.get_mut(handle as usize) {
                    *place = None;
                }
            }
            Message::AddStream(_, number) => {
                if let Some(place) = client.streams.get_mut(usize::from(number)) {
                    place.get_or_insert_default().closing = false;
                }
            }
            Message::RemoveStream(_, number) => {
                if let Some(stream) = client.stream_mut(number) {
                    stream.closing = true;
                }
                // Nothing may hold a stream open that its client has given up.
                self.release_holds(slot);
                self.settle_streams_and_fences(slot, number);
            }
            // The control thread keeps to the limit, so there is always room.
            Message::AddMapping(_, mapping)
                if client.mappings.len() < client.mappings.capacity() =>
            {
                client.mappings.push(mapping);
            }
            Message::AddMapping(..) => {}
            Message::RemoveMapping(_, buffer) => client.mappings.retain(|m| m.buffer != buffer),
            // Live, nobody holds the clock, so there is nothing to make up for.
            Message::Charge(_) if self.admission.clock.timing() == Timing::Lockstep => {
                let cost = Nanos(OPERATION_NS);
                client.ready_at = client.ready_at.max(now) + cost;
                self.admission.clock.acted(slot);
            }
            // What it waits for may be there already.
            Message::Postponed(_) => client.postponed = client.has_ending(),
            _ => {}
        }
    }
}
