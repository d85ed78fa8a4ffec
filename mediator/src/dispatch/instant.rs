//! The phases of one instant of virtual time in lockstep.
//!
//! While nobody runs and no time passes, what clients have written stands still. So an instant goes round by round:
//!
//! 1. **Hold**: wait until no client runs ([`super::clock`]).
//! 2. **Deliver**: hand every client all of its completions at once, so that it sees none of them or all, and begin
//!    again: they run.
//! 3. **Admit**: take what was submitted, client by client in order of slots.
//! 4. **Settle**: tell the policy of the arrivals in order of client and stream, wait for its plan, issue, and give the
//!    permit to let time pass, unless something completed meanwhile.
//!
//! Rules: nothing of a round depends on the order in which the host's threads ran: rows get their numbers, launches
//! their order and the policy its events by slot and stream. What a client does that said that it thinks, or whose hold
//! has run out, is taken when it is found.

use super::dispatcher::Dispatcher;
use super::ids::Slot;
use super::port::TenantPort;
use crate::device::Device;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Goes through the phases as far as can be gone now; returns whether something was done.
    pub(super) fn go_through_instant(&mut self) -> bool {
        if self.permit_out {
            let _ = self.hear_doorbells();
            return self.admit_all();
        }
        let held = self
            .clock
            .judge(&mut self.clients, self.now, self.wall_now_ns);
        self.publish_expired();
        if held {
            return false;
        }
        // What came before a client said that it waits is here by now: what the control thread promised it (a stream, a
        // charge), and the bells of clients that said that they run.
        let mut heard = self.take_messages();
        while self.hear_doorbells() {
            heard = true;
        }
        if heard
            && self
                .clock
                .judge(&mut self.clients, self.now, self.wall_now_ns)
        {
            return true;
        }
        if self.deliver() {
            return true;
        }
        let mut worked = self.admit_in_order();
        self.resynchronise();
        if self.is_instant_settled() {
            worked |= self.issue();
            worked |= self.give_permit();
        }
        worked
    }

    /// Hands every client that something of completed all of its completions.
    fn deliver(&mut self) -> bool {
        let delivered = !self.undelivered.is_empty();
        while let Some(slot) = self.undelivered.pop() {
            if let Some(client) = self.clients.get_mut(slot) {
                client.undelivered = false;
                client.seen = self.turn;
                client.port.wake();
                self.clock.acted(slot);
            }
        }
        delivered
    }

    /// Admits what was submitted, as far as there is room for it, in order of slots.
    fn admit_in_order(&mut self) -> bool {
        let now = self.now;
        let mut slots = std::mem::take(&mut self.slot_scratch);
        slots.clear();
        slots.extend((0..self.clients.hot()).filter_map(|index| self.clients.hot_at(index)));
        slots.retain(|slot| {
            self.clients.get_mut(*slot).is_some_and(|client| {
                client.has_released()
                    || client.has_room() && client.ready_at <= now && client.port.has_work()
            })
        });
        self.quiet_rings = self.clients.hot();
        slots.sort_unstable();
        let mut admitted = false;
        for slot in &slots {
            admitted |= self.release_holds(*slot);
            // The client's table bounds it.
            admitted |= self.admit_from(*slot, usize::MAX) > 0;
        }
        self.slot_scratch = slots;
        admitted
    }

    /// Notes that something of a client completed, to be delivered.
    pub(super) fn note_undelivered(&mut self, slot: Slot) {
        if let Some(client) = self.clients.get_mut(slot)
            && !std::mem::replace(&mut client.undelivered, true)
        {
            self.undelivered.push(slot);
        }
    }
}
