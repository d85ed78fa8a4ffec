//! What binds each tenant that has something submitted: judged and published ([`super::feed::why`]).
//!
//! Rules: it looks at those that have something submitted, or had when it last looked, and at nobody else; it changes
//! nothing that others decide by.

use super::admission::port::TenantPort;
use super::dispatcher::Dispatcher;
use super::feed::accounts::Account;
use super::feed::why::Why;
use crate::device::Device;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Publishes what binds tenants, if it is time for that.
    pub(super) fn publish_bindings_in_time(&mut self) {
        if self.feed.is_time_for_bindings(self.wall_now_ns, self.now) {
            self.publish_bindings();
        }
    }

    /// Publishes what binds each tenant.
    pub(super) fn publish_bindings(&mut self) {
        let mut place = 0;
        while let Some(tenant) = self.feed.accounts.watched.members().get(place).copied() {
            let why = self.feed.accounts.get(tenant).map(|account| {
                let why = self.judge(account);
                account.counters.bind(why, self.wall_now_ns);
                why
            });
            match why {
                // Another one has its place now.
                None | Some(Why::Idle) => self.feed.accounts.watched.remove(tenant),
                Some(_) => place += 1,
            }
        }
    }

    fn judge(&self, account: &Account) -> Why {
        let why = self.reason(account);
        // A tenant that has nothing on the SMs although nothing holds it back waits for the room of others.
        let is_waiting = account.open > 0 && self.feed.meter.held_now(account.id).blocks() == 0;
        let others = self.feed.accounts.busy.len() > 1;
        match why {
            Why::Nothing if is_waiting && others => Why::Order,
            why => why,
        }
    }

    fn reason(&self, account: &Account) -> Why {
        if account.is_paused() {
            return Why::Paused;
        }
        if !account.counters.has_pending() {
            return Why::Idle;
        }
        if account.queued == 0 {
            return match account.lanes {
                0 => Why::Streams,
                _ => Why::Nothing,
            };
        }
        if !account.parked.is_empty() {
            return account.why;
        }
        match self.issuer.queue.first() {
            // Copies and fills have queues of their own.
            None => Why::Queues,
            Some(first) if first.tenant == account.id => self.issuer.held_by,
            Some(_) => self.issuer.held_by.behind_it(),
        }
    }
}
