//! The end of operations and of clients.
//!
//! Rules: what a completion sets free goes at once: the operations of its client that waited for it, and the next of
//! its stream. A client is handed back when nothing of it is on the device.

use super::admission::client::{Presence, Stream};
use super::admission::message::Notice;
use super::admission::operation::{Operation, Work};
use super::admission::port::TenantPort;
use super::dispatcher::Dispatcher;
use super::ids::{OperationRef, Slot};
use crate::device::Device;
use gridmux_channel::ring::CompletionStatus;
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Completes an operation that is over, if its time has come and its client has room for the completion, and lets
    /// the next operation of its stream go.
    pub(super) fn finish(&mut self, op: OperationRef) {
        let mut over = Some(op);
        while let Some(op) = over {
            over = self.finish_one(op);
        }
    }

    /// Completes an operation that is over; returns the next of its stream where that is over, too.
    fn finish_one(&mut self, op: OperationRef) -> Option<OperationRef> {
        let client = self.admission.clients.get_mut(op.slot);
        let client = client.filter(|client| client.is_served())?;
        match self.completions.offer(client, op, self.now, self.turn) {
            Ok(operation) => self.remove(op, &operation?),
            Err(why) => {
                let notice = Notice::Corrupt(op.slot, why);
                self.admission.outbox.notify(notice);
                None
            }
        }
    }

    pub(super) fn finish_if_over(&mut self, op: OperationRef) {
        let operation = self.admission.clients.operation(op);
        if operation.is_some_and(Operation::is_over) {
            self.finish(op);
        }
    }

    /// Tells the policy that a launch has ended or was taken back, and lets those behind the others go where nobody
    /// else has one open.
    pub(super) fn conclude(&mut self, op: OperationRef, at: Nanos) {
        let clients = &mut self.admission.clients;
        if self.feed.conclude(clients, op, at, self.now) {
            self.issuer.unpark_those_behind(clients, &mut self.feed);
        }
    }

    /// Takes a completed operation out of its client's tables; returns the next of its stream where that is over.
    fn remove(&mut self, op: OperationRef, operation: &Operation) -> Option<OperationRef> {
        let (slot, number) = (op.slot, operation.stream);
        self.conclude(op, operation.span().1);
        let client = self.admission.clients.get_mut(slot)?;
        client.operations.remove(op.id);
        if let Work::Launch(launch) = &operation.work {
            client.params.give_back(launch.params);
            self.feed.rows.forget_launch(launch.row);
        }
        if let Some(stream) = client.stream_mut(number) {
            stream.pop();
        }
        let tenant = client.tenant;
        let is_launch = matches!(operation.work, Work::Launch(_));
        let ok = operation.status == CompletionStatus::Ok;
        client.counters.completed(is_launch, ok);
        if let Some(account) = self.feed.accounts.get(tenant) {
            account.counters.completed(ok);
        }
        if is_launch {
            let (start, end) = operation.span();
            self.judge_behaviour(tenant, operation.status, end - start);
        }
        if let Some(account) = self.feed.accounts.get(tenant) {
            let device = self.issuer.device_id;
            self.completions.record(account, device, operation);
        }
        self.release_waits(slot, operation.sequence);
        self.activate_more(slot, number);
        self.settle_streams_and_fences(slot, number);
        let clients = &mut self.admission.clients;
        let stream = clients.get_mut(slot)?.stream_mut(number)?;
        let next = OperationRef {
            slot,
            id: stream.front()?,
        };
        self.feed.count_as_ready(clients, next, self.now);
        let is_over = clients.operation(next).is_some_and(Operation::is_over);
        is_over.then_some(next)
    }

    /// Counts launches that end at their budget, and puts their tenant behind the others or back.
    fn judge_behaviour(&mut self, tenant: TenantId, status: CompletionStatus, ran: Nanos) {
        let Some(account) = self.feed.accounts.get_mut(tenant) else {
            return;
        };
        let was_behind = account.is_behind();
        match status {
            CompletionStatus::Budget => account.ended_at_budget(ran),
            CompletionStatus::Ok => account.ended_in_time(ran),
            _ => return,
        }
        let is_behind = account.is_behind();
        let ends = account.budget_ends;
        account.counters.budget_ends(ends, is_behind);
        match (was_behind, is_behind) {
            (false, true) => {
                self.feed.accounts.behind.insert(tenant);
                self.take_back(tenant);
            }
            (true, false) => {
                self.feed.accounts.behind.remove(tenant);
                let clients = &self.admission.clients;
                self.issuer.unpark(clients, &mut self.feed, tenant);
            }
            _ => {}
        }
    }

    /// Ends the operations of a client that wait for one that completed.
    fn release_waits(&mut self, slot: Slot, sequence: u64) {
        let client = self.admission.clients.get(slot);
        let Some(client) = client.filter(|client| client.waits > 0) else {
            return;
        };
        for number in 0..client.streams.len() {
            let Some(client) = self.admission.clients.get_mut(slot) else {
                return;
            };
            // A wait that is not first in its stream sees that its target is gone when it is activated.
            let Some(id) = client.streams[number].as_ref().and_then(Stream::front) else {
                continue;
            };
            let operation = client.operations.get_mut(id);
            if let Some(Work::Wait { sequence: target }) = operation.map(|o| &mut o.work)
                && *target == sequence
            {
                *target = 0;
                client.waits -= 1;
                self.finish_if_over(OperationRef { slot, id });
            }
        }
    }

    /// Ends the holds of a client that it has released, or whose stream it destroyed; returns whether there were any.
    pub(super) fn release_holds(&mut self, slot: Slot) -> bool {
        let mut worked = false;
        while let Some(client) = self.admission.clients.get_mut(slot)
            && let Some((stream, id)) = client.released_hold()
        {
            worked = true;
            client.held &= !(1 << stream);
            if let Some(operation) = client.operations.get_mut(id) {
                operation.work = Work::Hold { count: 0 };
            }
            self.finish_if_over(OperationRef { slot, id });
        }
        worked
    }

    /// Completes operations whose virtual time has come.
    pub(super) fn finish_deferred(&mut self) -> bool {
        let mut worked = false;
        while let Some((op, sequence)) = self.completions.take_due(self.now) {
            worked = true;
            let operation = self.admission.clients.operation(op);
            if operation.is_some_and(|operation| operation.sequence == sequence) {
                self.finish(op);
            }
        }
        worked
    }

    /// Tries again to hand over completions that found a client's ring full.
    pub(super) fn flush_backlogs(&mut self) -> bool {
        if self.completions.backlogs == 0 {
            return false;
        }
        let mut worked = false;
        let mut places = self.admission.clients.hot_places();
        while let Some(slot) = self.admission.clients.next_hot(&mut places) {
            let Some(client) = self.admission.clients.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut client.backlog) {
                continue;
            }
            self.completions.backlogs -= 1;
            for number in 0..client.streams.len() {
                let Some(client) = self.admission.clients.get(slot) else {
                    break;
                };
                if let Some(id) = client.streams[number].as_ref().and_then(Stream::front) {
                    let before = client.operations.len();
                    self.finish_if_over(OperationRef { slot, id });
                    let after = self.admission.clients.get(slot);
                    worked |= after.map(|client| client.operations.len()) != Some(before);
                }
            }
        }
        worked
    }

    /// Lets a closed stream go that is empty, and answers fences that nothing holds up any more.
    pub(super) fn settle_streams_and_fences(&mut self, slot: Slot, number: u16) {
        let admission = &mut self.admission;
        let Some(client) = admission.clients.get_mut(slot) else {
            return;
        };
        let stream = client.stream_mut(number);
        if stream.is_some_and(|stream| stream.closing && stream.is_empty()) {
            client.streams[usize::from(number)] = None;
            client.postponed = false;
            admission.outbox.notify(Notice::StreamGone(slot, number));
        }
        while let Some(fence) = client.take_met_fence() {
            client.postponed = false;
            admission.outbox.notify(Notice::Fenced(slot, fence));
        }
    }

    /// Stops serving a client and kills what it has in flight.
    pub(super) fn begin_leave(&mut self, slot: Slot) {
        let Some(client) = self.admission.clients.get_mut(slot) else {
            return;
        };
        client.presence = Presence::Leaving;
        self.admission.clients.warm(slot);
        self.issuer.kill_flights(slot, None);
        self.finish_leave(slot);
    }

    /// Hands a leaving client back to the control thread once nothing of it is in flight.
    pub(super) fn finish_leave(&mut self, slot: Slot) {
        let client = self.admission.clients.get(slot);
        let Some(client) = client.filter(|client| client.presence == Presence::Leaving) else {
            return;
        };
        if self.issuer.lanes.held_by(slot) > 0 {
            return;
        }
        let tenant = client.tenant;
        self.completions.abandoned.clear();
        self.completions.abandoned.extend(client.operations.ids());
        while let Some(id) = self.completions.abandoned.pop() {
            let op = OperationRef { slot, id };
            self.conclude(op, self.now);
            if let Some(launch) = self.admission.clients.launch(op) {
                self.feed.rows.forget_launch(launch.row);
            }
            if let Some(account) = self.feed.accounts.get(tenant) {
                account.counters.abandoned();
            }
        }
        let Some(client) = self.admission.clients.remove(slot) else {
            return;
        };
        self.completions.backlogs -= u32::from(client.backlog);
        self.admission.clock.acted(slot);
        // Its entries in the issue queue are recognised as gone by their sequence numbers; parked ones must come there.
        let clients = &self.admission.clients;
        self.issuer.unpark(clients, &mut self.feed, tenant);
        self.admission.outbox.notify(Notice::Gone(slot, client));
    }
}
