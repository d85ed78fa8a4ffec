//! The issue pass: which operations go to the device now, in what order.
//!
//! Rules: copies and fills go first ([`super::issuer::transfers`]); launches go in the order of the queue, and in
//! rounds while the device is slow to take them (`issuer/submission.rs`); under a strict head of line nothing overtakes
//! a launch, but a gang while gangs are paused (`issuer/gang.rs`).

use super::admission::port::TenantPort;
use super::dispatcher::Dispatcher;
use super::ids::Slot;
use super::issuer::Attempt;
use super::issuer::queue::Active;
use super::issuer::transfers::Engine;
use crate::device::Device;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Hands over what can go now; returns whether anything was done.
    pub(super) fn issue(&mut self) -> bool {
        let mut worked = self.issue_transfers();
        let clients = &self.admission.clients;
        if self.feed.accounts.has_become_quiet(self.now) {
            self.issuer.unpark_those_behind(clients, &mut self.feed);
        }
        let accounts = &self.feed.accounts;
        if self.issuer.gang.lets_gangs_go(accounts, self.now) {
            self.issuer.unpark_gangs(clients, &mut self.feed);
        }
        self.issuer
            .begin_rounds_after_rest(clients, &mut self.feed, self.now);
        loop {
            worked |= self.issue_queued();
            let clients = &self.admission.clients;
            if self.issuer.is_submitting(self.now)
                || !self.issuer.begin_round(clients, &mut self.feed)
            {
                return worked;
            }
        }
    }

    /// Issues what is in the queue, as far as it can go in this round.
    fn issue_queued(&mut self) -> bool {
        let mut worked = false;
        while let Some(active) = self.issuer.queue.first() {
            match self.is_issued(active) {
                Some(false) => match self.try_issue(active) {
                    Attempt::Issued => worked = true,
                    Attempt::DeviceFull(why) => {
                        self.issuer.held_by = why;
                        break;
                    }
                    Attempt::Blocked(why) if self.holds_up_others(active) => {
                        self.issuer.held_by = why;
                        break;
                    }
                    Attempt::Blocked(why) | Attempt::NotItsTurn(why) => {
                        self.issuer.park(&mut self.feed, active, why);
                    }
                },
                over => {
                    self.issuer.dequeue(&mut self.feed, active);
                    worked |= over.is_some();
                    self.let_next_go(over, active);
                }
            }
        }
        worked
    }

    /// Returns whether nothing overtakes a launch that is first in the queue and cannot go.
    fn holds_up_others(&self, active: Active) -> bool {
        self.feed.policy.is_head_of_line() && active.rank > 0
    }

    /// Hands over what the engines have room for; returns whether anything was done.
    fn issue_transfers(&mut self) -> bool {
        let mut worked = false;
        for engine in Engine::ALL {
            while let Some(active) = self.issuer.transfers.first(engine) {
                match self.is_issued(active) {
                    Some(false) if !self.issuer.transfers.has_room(engine) => break,
                    Some(false) => match self.try_issue(active) {
                        Attempt::Issued => worked = true,
                        Attempt::DeviceFull(_) => break,
                        Attempt::Blocked(why) | Attempt::NotItsTurn(why) => {
                            self.issuer.transfers.pop(engine);
                            self.feed.accounts.park(active, why);
                        }
                    },
                    over => {
                        self.issuer.transfers.pop(engine);
                        self.feed.accounts.change(active.tenant, -1, 0);
                        worked |= over.is_some();
                        self.let_next_go(over, active);
                    }
                }
            }
        }
        worked
    }

    /// Returns whether nothing of an operation is left to issue; `None` when it is gone.
    fn is_issued(&self, active: Active) -> Option<bool> {
        let client = self.admission.clients.get(active.slot);
        let client = client.filter(|client| client.is_served())?;
        let operation = client.operations.get(active.id)?;
        (operation.sequence == active.sequence).then(|| operation.is_issued())
    }

    fn try_issue(&mut self, active: Active) -> Attempt {
        let clients = &mut self.admission.clients;
        self.issuer
            .try_issue(clients, &mut self.feed, active, self.now)
    }

    /// Lets what follows an operation go of which nothing is left to issue, unless it is gone.
    fn let_next_go(&mut self, over: Option<bool>, active: Active) {
        if over.is_some() {
            self.activate_more(active.slot, active.stream);
            self.finish_if_over(active.op());
        }
    }

    /// Puts the next operations of a stream into the issue queue.
    pub(super) fn activate_more(&mut self, slot: Slot, stream: u16) {
        let clients = &mut self.admission.clients;
        self.issuer
            .activate_more(clients, &mut self.feed, (slot, stream), self.now);
    }
}
