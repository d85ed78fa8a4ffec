//! The phases of one instant of virtual time in lockstep, and when time may pass.
//!
//! While nobody runs and no time passes, what clients have written stands still. So an instant goes round by round:
//!
//! 1. **Hold**: wait until no client runs ([`super::admission::clock`]).
//! 2. **Deliver**: hand every client all of its completions at once, so that it sees none of them or all, and begin
//!    again: they run.
//! 3. **Admit**: take what was submitted, client by client in order of slots.
//! 4. **Settle**: tell the policy of the arrivals in order of client and stream, wait for its plan, issue, and give the
//!    permit to let time pass, unless something completed meanwhile.
//!
//! Rules: nothing of a round depends on the order in which the host's threads ran: rows get their numbers, launches
//! their order and the policy its events by slot and stream. What a client does that said that it thinks, or whose hold
//! has run out, is taken when it is found.

use super::admission::clock::{Permit, Timing};
use super::admission::port::TenantPort;
use super::dispatcher::Dispatcher;
use crate::device::{Command, Device};
use gridmux_policy::units::Nanos;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Goes through the phases as far as can be gone now; returns whether something was done.
    pub(super) fn go_through_instant(&mut self) -> bool {
        if self.admission.clock.passes() {
            let _ = self.hear_doorbells();
            return self.admit_all();
        }
        if self.is_held_by_client() {
            return false;
        }
        // What came before a client said that it waits is here by now: what the control thread promised it (a stream, a
        // charge), and the bells of clients that said that they run.
        let mut heard = self.take_messages();
        while self.hear_doorbells() {
            heard = true;
        }
        if heard && self.is_held_by_client() {
            return true;
        }
        let admission = &mut self.admission;
        let (clients, clock) = (&mut admission.clients, &mut admission.clock);
        if self.completions.deliver(clients, clock, self.turn) {
            return true;
        }
        let mut worked = self.admit_in_order();
        self.feed
            .resynchronise(&mut self.admission.clients, self.now);
        if self.is_instant_settled() {
            worked |= self.issue();
            worked |= self.give_permit();
        }
        worked
    }

    /// Returns whether a client holds the clock, and publishes how often one did for the longest time permitted.
    fn is_held_by_client(&mut self) -> bool {
        let admission = &mut self.admission;
        let clients = &mut admission.clients;
        let held = admission.clock.judge(clients, self.now, self.wall_now_ns);
        let expired = admission.clock.expired();
        admission.outbox.link.show_expired(expired);
        held
    }

    /// Returns whether no time passes, all that was found is admitted, and the policy has seen the events of the
    /// instant.
    pub(super) fn is_settled(&mut self) -> bool {
        if self.admission.clock.timing() == Timing::Real {
            return true;
        }
        let is_busy = self.admission.clock.passes() || self.admission.more_to_admit;
        !is_busy && self.is_instant_settled()
    }

    /// Tells the policy what happened at this instant of virtual time; returns whether it has seen that, and its plan
    /// is the one to issue under.
    ///
    /// The policy hears of arrivals in order of client and stream and replans once per instant, so that its plans
    /// depend on virtual time alone and not on the order in which the host's threads happened to run.
    fn is_instant_settled(&mut self) -> bool {
        let clients = &mut self.admission.clients;
        // While a loss is made good the policy does not know enough to plan.
        if self.feed.is_resynchronising() {
            return false;
        }
        self.feed.close_instant(clients, self.now);
        if !self.feed.policy.catch_up() {
            return false;
        }
        if self.feed.policy.refresh() {
            self.issuer.follow_plan(clients, &mut self.feed);
        }
        if self.admission.clock.timing() == Timing::Lockstep {
            self.feed.free_rows();
        }
        true
    }

    /// Lets virtual time pass once nobody has anything to add at this instant.
    pub(super) fn give_permit(&mut self) -> bool {
        let clock = &self.admission.clock;
        let is_virtual = clock.timing().is_virtual();
        if !is_virtual || clock.passes() || self.admission.more_to_admit {
            return false;
        }
        // A kill takes effect at the instant at which it was decided, unless time passes already, however late the
        // device's queue has room for it. A launch that came behind one that was issued just now arrives at this
        // instant.
        if self.issuer.lanes.has_kills_due() || self.feed.has_arrivals() {
            return false;
        }
        // What was issued just now may have told the policy something: its answer belongs to this instant too, and so
        // does the answer of a client to what completed.
        let policy = &mut self.feed.policy;
        let is_open = policy.is_instant_open() || !policy.catch_up();
        if is_open || self.completions.has_undelivered() {
            return false;
        }
        let submits = self.issuer.submits_next(&self.feed.accounts, self.now);
        let accounts = &self.feed.accounts;
        let waits_ends = [
            accounts.quiet_at(self.now),
            self.issuer.gang.waits_until(accounts, self.now),
        ];
        let awaited = [self.completions.next_due(), clock.ready(), submits];
        let awaited = awaited.into_iter().chain(waits_ends);
        let awaited = awaited.flatten().min();
        let wake = policy.wake_at().filter(|wake| *wake > self.now);
        // With nothing on the device, a launch that the plan gives no room waits for the policy.
        let waits_for_plan = !self.feed.accounts.busy.is_empty() && wake.is_some();
        if !self.issuer.lanes.any_busy() && awaited.is_none() && !waits_for_plan {
            return false;
        }
        let until = [awaited, wake].into_iter().flatten().min();
        let until = until.unwrap_or(Nanos(u64::MAX));
        let command = Command::PassTime { until };
        let passes = self.issuer.device.submit(&command, &[]).is_ok();
        if passes {
            self.admission.clock.permit = Permit::Given;
        }
        passes
    }
}
