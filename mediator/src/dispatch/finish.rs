//! The end of operations and of clients.
//!
//! Rules: an operation completes once, when nothing of it is left; on a virtual clock not before it has cost its client
//! time ([`OPERATION_NS`]). In lockstep its client sees that later ([`super::instant`]). A completion that finds the
//! ring full waits, and with it its stream. A client is handed back when nothing of it is on the device.

use super::clock::OPERATION_NS;
use super::dispatcher::{DeferredCompletion, Dispatcher};
use super::ids::OperationId;
use super::ids::Slot;
use super::message::Notice;
use super::operation::{Operation, Told, Work};
use super::port::TenantPort;
use crate::device::Device;
use gridmux_channel::ring::{CompletionEntry, CompletionStatus, PushError};
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;
use std::cmp::Reverse;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Completes an operation that is over, if its time has come and its client has room for the completion, and lets
    /// the next operation of its stream go.
    pub(super) fn finish(&mut self, slot: Slot, id: OperationId) {
        let (timed, lockstep) = (self.device.has_virtual_clock(), self.in_lockstep());
        let now = self.now;
        let Some(client) = self.clients.get_mut(slot).filter(|client| !client.leaving) else {
            return;
        };
        let Some(operation) = client.operations.get_mut(id) else {
            return;
        };
        let due = operation.admitted + Nanos(OPERATION_NS);
        if timed && now < due {
            if !std::mem::replace(&mut operation.deferred, true) {
                let sequence = operation.sequence;
                let stream = operation.stream;
                self.deferred.push(Reverse(DeferredCompletion {
                    due,
                    slot,
                    stream,
                    sequence,
                    id,
                }));
            }
            return;
        }
        if timed {
            operation.last_end = operation.last_end.max(due);
        }
        let mut operation = *operation;
        // What does nothing on the device, as a copy of no bytes, ends when its turn comes, not when it was admitted.
        if operation.first_start.is_none() {
            operation.last_end = operation.last_end.max(now);
        }
        let stream = client.stream_mut(operation.stream);
        if stream.is_none_or(|stream| stream.front() != Some(id)) {
            // The one before it has not completed: its completion ring is full, or its time has not come.
            return;
        }
        match client.port.complete(completion(&operation)) {
            Ok(()) => {}
            Err(PushError::Corrupt(why)) => {
                client.leaving = true;
                client.port.close();
                self.notify(Notice::Corrupt(slot, why));
                return;
            }
            Err(_) => {
                self.backlogs += u32::from(!std::mem::replace(&mut client.backlog, true));
                return;
            }
        }
        if lockstep {
            self.note_undelivered(slot);
        } else {
            if !std::mem::replace(&mut client.unwoken, true) {
                self.unwoken.push(slot);
            }
            client.seen = self.turn;
        }
        self.remove(slot, id, &operation);
    }

    /// Takes a completed operation out of its client's tables.
    fn remove(&mut self, slot: Slot, id: OperationId, operation: &Operation) {
        self.conclude(slot, id, operation.last_end);
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        client.operations.remove(id);
        if let Work::Launch(launch) = &operation.work {
            client.params.give_back(launch.params);
            self.rows.forget_launch(launch.row);
        }
        if let Some(stream) = client.stream_mut(operation.stream) {
            stream.pop();
        }
        let tenant = client.tenant;
        let ok = operation.status == CompletionStatus::Ok;
        if let Some(account) = self.accounts.get(tenant) {
            account.counters.completed(ok);
        }
        if matches!(operation.work, Work::Launch(_)) {
            self.judge_behaviour(tenant, operation.status);
        }
        self.record(slot, operation);
        self.release_waits(slot, operation.sequence);
        self.activate_more(slot, operation.stream);
        let next = self.clients.get(slot).and_then(|client| {
            let stream = client.streams[usize::from(operation.stream)].as_ref()?;
            stream.front()
        });
        if let Some(next) = next {
            self.count_as_ready(slot, next);
            self.finish_if_over(slot, next);
        }
        self.settle_streams_and_fences(slot, operation.stream);
    }

    /// Counts launches that end at their budget, and puts their tenant behind the others or back.
    fn judge_behaviour(&mut self, tenant: TenantId, status: CompletionStatus) {
        let Some(account) = self.accounts.get_mut(tenant) else {
            return;
        };
        let was_behind = account.is_behind();
        match status {
            CompletionStatus::Budget => account.budget_ends = account.budget_ends.saturating_add(1),
            CompletionStatus::Ok => account.budget_ends = 0,
            _ => return,
        }
        account
            .counters
            .budget_ends(account.budget_ends, account.is_behind());
        let is_behind = account.is_behind();
        match (was_behind, is_behind) {
            (false, true) => {
                self.accounts.behind.insert(tenant);
                self.take_back(tenant);
            }
            (true, false) => {
                self.accounts.behind.remove(tenant);
                self.unpark(tenant);
            }
            _ => {}
        }
    }

    /// Takes back what the policy was told of a tenant's launches that have not begun.
    fn take_back(&mut self, tenant: TenantId) {
        for index in 0..self.clients.hot() {
            let Some(slot) = self.clients.hot_at(index) else {
                break;
            };
            let Some(client) = self.clients.get(slot).filter(|c| c.tenant == tenant) else {
                continue;
            };
            for stream in 0..client.streams.len() {
                self.take_back_stream(slot, stream);
            }
        }
    }

    /// Takes back what the policy was told of a stream's launches that have not begun.
    fn take_back_stream(&mut self, slot: Slot, stream: usize) {
        let mut place = 0;
        while let Some(client) = self.clients.get(slot)
            && let Some(id) = client.streams[stream]
                .as_ref()
                .and_then(|s| s.active_at(place))
        {
            place += 1;
            let work = client.operations.get(id).map(|operation| &operation.work);
            if matches!(work, Some(Work::Launch(launch)) if launch.told != Told::Nothing && launch.issued == 0)
            {
                self.conclude(slot, id, self.now);
            }
        }
    }

    /// Ends the operations of a client that wait for one that completed.
    fn release_waits(&mut self, slot: Slot, sequence: u64) {
        let Some(client) = self.clients.get_mut(slot).filter(|client| client.waits > 0) else {
            return;
        };
        for stream in 0..client.streams.len() {
            let Some(client) = self.clients.get_mut(slot) else {
                return;
            };
            // A wait that is not first in its stream sees that its target is gone when it is activated.
            let front = client.streams[stream].as_ref().and_then(|s| s.front());
            let Some(id) = front else {
                continue;
            };
            let Some(operation) = client.operations.get_mut(id) else {
                continue;
            };
            if let Work::Wait { sequence: target } = &mut operation.work
                && *target == sequence
            {
                *target = 0;
                client.waits -= 1;
                self.finish_if_over(slot, id);
            }
        }
    }

    /// Ends the holds of a client that it has released, or whose stream it destroyed; returns whether there were any.
    pub(super) fn release_holds(&mut self, slot: Slot) -> bool {
        let mut worked = false;
        while let Some(client) = self.clients.get_mut(slot)
            && let Some((stream, id)) = client.released_hold()
        {
            worked = true;
            client.held &= !(1 << stream);
            if let Some(operation) = client.operations.get_mut(id) {
                operation.work = Work::Hold { count: 0 };
            }
            self.finish_if_over(slot, id);
        }
        worked
    }

    /// Completes operations whose virtual time has come.
    pub(super) fn finish_deferred(&mut self) -> bool {
        let mut worked = false;
        while let Some(Reverse(deferred)) = self.deferred.peek().copied() {
            let DeferredCompletion {
                slot, sequence, id, ..
            } = deferred;
            if deferred.due > self.now {
                break;
            }
            self.deferred.pop();
            worked = true;
            if let Some((_, operation)) = self.operation_mut(slot, id)
                && operation.sequence == sequence
            {
                operation.deferred = false;
                self.finish(slot, id);
            }
        }
        worked
    }

    /// Wakes the clients that have completions of this turn: together, because looking whether one sleeps waits until
    /// all that was written before is visible.
    pub(super) fn wake_clients(&mut self) {
        while let Some(slot) = self.unwoken.pop() {
            if let Some(client) = self.clients.get_mut(slot) {
                client.unwoken = false;
                client.port.wake();
            }
        }
    }

    /// Tries again to hand over completions that found a client's ring full.
    pub(super) fn flush_backlogs(&mut self) -> bool {
        if self.backlogs == 0 {
            return false;
        }
        let mut worked = false;
        for index in 0..self.clients.hot() {
            let Some(slot) = self.clients.hot_at(index) else {
                break;
            };
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut client.backlog) {
                continue;
            }
            self.backlogs -= 1;
            for stream in 0..client.streams.len() {
                let Some(client) = self.clients.get(slot) else {
                    break;
                };
                let front = client.streams[stream].as_ref().and_then(|s| s.front());
                if let Some(id) = front {
                    let before = client.operations.len();
                    self.finish_if_over(slot, id);
                    let after = self.clients.get(slot).map(|c| c.operations.len());
                    worked |= after != Some(before);
                }
            }
        }
        worked
    }

    /// Lets a closed stream go that is empty, and answers fences that nothing holds up any more.
    pub(super) fn settle_streams_and_fences(&mut self, slot: Slot, stream: u16) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let gone = client
            .stream_mut(stream)
            .is_some_and(|stream| stream.closing && stream.is_empty());
        if gone {
            client.streams[usize::from(stream)] = None;
            client.postponed = false;
        }
        let mut fenced = None;
        if !client.fences.is_empty() {
            let held = client.operations.ids();
            let sequences = held.filter_map(|id| Some(client.operations.get(id)?.sequence));
            let oldest = sequences.min();
            let met = |fence: &(u64, u64)| oldest.is_none_or(|oldest| oldest >= fence.1);
            if let Some(place) = client.fences.iter().position(met) {
                fenced = Some(client.fences.remove(place).0);
                client.postponed = false;
            }
        }
        if gone {
            self.notify(Notice::StreamGone(slot, stream));
        }
        if let Some(fence) = fenced {
            self.notify(Notice::Fenced(slot, fence));
            self.settle_streams_and_fences(slot, stream);
        }
    }

    /// Stops serving a client and kills what it has in flight.
    pub(super) fn begin_leave(&mut self, slot: Slot) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        client.leaving = true;
        client.told_to_leave = true;
        self.clients.warm(slot);
        self.kill_flights(slot, None);
        self.finish_leave(slot);
    }

    /// Hands a leaving client back to the control thread once nothing of it is in flight.
    pub(super) fn finish_leave(&mut self, slot: Slot) {
        let told = self.clients.get(slot).is_some_and(|c| c.told_to_leave);
        if !told || self.lanes.held_by(slot) > 0 {
            return;
        }
        let Some(client) = self.clients.get(slot) else {
            return;
        };
        let tenant = client.tenant;
        self.held_ids.clear();
        self.held_ids.extend(client.operations.ids());
        while let Some(id) = self.held_ids.pop() {
            self.conclude(slot, id, self.now);
            if let Some((_, operation)) = self.operation_mut(slot, id)
                && let Work::Launch(launch) = &operation.work
            {
                let row = launch.row;
                self.rows.forget_launch(row);
            }
            if let Some(account) = self.accounts.get(tenant) {
                account.counters.abandoned();
            }
        }
        let Some(client) = self.clients.remove(slot) else {
            return;
        };
        self.backlogs -= u32::from(client.backlog);
        self.clock.acted(slot);
        // Its entries in the issue queue are recognised as gone by their sequence numbers; parked ones must come there.
        self.unpark(tenant);
        self.notify(Notice::Gone(slot, client));
    }
}

fn completion(operation: &Operation) -> CompletionEntry {
    let start = operation.first_start.unwrap_or(operation.last_end);
    CompletionEntry::new(
        operation.cookie,
        operation.status,
        start.0,
        operation.last_end.0,
    )
}
