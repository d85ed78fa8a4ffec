//! The way of operations into the issue queue and out of it: first in their stream, parked, taken back, ranked anew.
//!
//! The policy hears that a launch arrived when it is first in its stream, or follows one whose last piece is on the
//! device in a single lane, because its blocks wait only from then on; the event's time is that of admission. What
//! stands further back policies do not see.
//!
//! Rules: an operation is in the queue or parked at its tenant's account, never both. What is parked comes back when
//! something of its tenant ends, with the next round of submissions, or with a plan; what waits for another operation
//! takes no place in the queue.

use super::dispatcher::Dispatcher;
use super::ids::OperationId;
use super::ids::Slot;
use super::issue::one_lane;
use super::operation::{Operation, Work};
use super::port::TenantPort;
use super::queue::Active;
use super::transfers::Engine;
use crate::device::Device;
use gridmux_channel::ring::CompletionStatus;
use gridmux_policy::ids::TenantId;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Puts the next operations of a stream into the issue queue: its first, and behind a launch whose last piece is on
    /// the device in a single lane the launch that follows it.
    pub(super) fn activate_more(&mut self, slot: Slot, stream: u16) {
        loop {
            let depth = self.device.lane_depth();
            let Some(client) = self.clients.get_mut(slot) else {
                return;
            };
            let Some(queue) = client.stream_mut(stream) else {
                return;
            };
            let Some((id, active)) = queue.next() else {
                return;
            };
            let last = queue.last_active();
            if active > 0 {
                let before = last.and_then(|last| client.operations.get(last));
                let next = client.operations.get(id);
                let follows = before.is_some_and(leaves_one_lane)
                    && next.is_some_and(|n| matches!(n.work, Work::Launch(_)));
                if active >= depth || !follows {
                    return;
                }
            }
            let after = last.and_then(|last| Some((last, client.operations.get(last)?.sequence)));
            let Some(queue) = client.stream_mut(stream) else {
                return;
            };
            queue.activate_next();
            self.activate(slot, id, after);
        }
    }

    fn activate(&mut self, slot: Slot, id: OperationId, after: Option<(OperationId, u64)>) {
        if self.awaits_another(slot, id) {
            return;
        }
        let Some((tenant, operation)) = self.operation_mut(slot, id) else {
            return;
        };
        let engine = operation.work.engine();
        let mut row = None;
        if let Work::Launch(launch) = &mut operation.work {
            launch.after = after;
            row = Some(launch.row);
        }
        let active = Active {
            rank: 0,
            admitted: operation.admitted,
            slot,
            stream: operation.stream,
            sequence: operation.sequence,
            id,
            tenant,
        };
        let behind = self.accounts.get(tenant).is_some_and(|a| a.is_behind());
        if row.is_some() && !behind {
            self.announce(slot, id);
        }
        self.accounts.change(tenant, 1, 0);
        if let Some(engine) = engine {
            return self.transfers.push(engine, active);
        }
        let rank = row.map_or(0, |row| self.policy.rank(row).saturating_add(1));
        self.queue.push(Active { rank, ..active });
    }

    /// Returns whether an operation waits for another one that has not completed, or for its client. Such a one takes
    /// no place in the issue queue: [`Self::release_waits`] ends it, or [`Self::release_holds`].
    fn awaits_another(&mut self, slot: Slot, id: OperationId) -> bool {
        let Some(client) = self.clients.get_mut(slot) else {
            return false;
        };
        let sequence = match client.operations.get(id) {
            Some(Operation {
                work: Work::Wait { sequence },
                ..
            }) => *sequence,
            Some(Operation {
                work: Work::Hold { .. },
                ..
            }) => return self.is_held_up(slot, id),
            _ => return false,
        };
        if client.operations.holds(sequence) {
            return true;
        }
        // Its target completed before the wait became the first of its stream.
        client.waits -= u16::from(sequence != 0);
        if let Some(operation) = client.operations.get_mut(id) {
            operation.work = Work::Wait { sequence: 0 };
        }
        false
    }

    /// Returns whether a hold that became the first of its stream waits for its client; else it is over.
    fn is_held_up(&mut self, slot: Slot, id: OperationId) -> bool {
        let Some(client) = self.clients.get_mut(slot) else {
            return false;
        };
        let Some(operation) = client.operations.get(id).copied() else {
            return false;
        };
        if !client.may_end(&operation) {
            client.held |= 1 << operation.stream;
            return true;
        }
        if let Some(operation) = client.operations.get_mut(id) {
            operation.work = Work::Hold { count: 0 };
        }
        false
    }

    /// Takes the first operation out of the queue for good.
    pub(super) fn dequeue(&mut self, active: Active) {
        self.queue.pop();
        self.accounts.change(active.tenant, -1, 0);
    }

    /// Takes the first operation out of the queue until something of its tenant ends, a round ends or a plan
    /// comes.
    pub(super) fn park(&mut self, active: Active) {
        self.queue.pop();
        self.accounts.park(active);
    }

    /// Puts what is parked at an account back into the queue.
    pub(super) fn unpark(&mut self, tenant: TenantId) {
        while let Some(active) = self.accounts.unpark(tenant) {
            match self.engine_of(&active) {
                Some(engine) => self.transfers.push(engine, active),
                None => {
                    let rank = self.rank_of(&active);
                    self.queue.push(Active { rank, ..active });
                }
            }
        }
    }

    /// Puts back what tenants have parked that wait until no other has a launch open.
    pub(super) fn unpark_those_behind(&mut self) {
        for place in 0..self.accounts.behind.len() {
            let tenant = self.accounts.behind.members()[place];
            self.unpark(tenant);
        }
    }

    /// Orders the queue after the plan that the turn begins with, and puts back all that is parked.
    pub(super) fn follow_plan(&mut self) {
        while let Some(tenant) = self.accounts.parked.pop() {
            self.unpark(tenant);
        }
        let (clients, policy) = (&self.clients, &self.policy);
        self.queue.rank_anew(|active| {
            let operation = clients
                .get(active.slot)
                .and_then(|c| c.operations.get(active.id));
            match operation.map(|operation| &operation.work) {
                Some(Work::Launch(launch)) => policy.rank(launch.row).saturating_add(1),
                _ => 0,
            }
        });
    }

    /// Returns what moves the bytes of an operation, if it is a copy or fill.
    fn engine_of(&self, active: &Active) -> Option<Engine> {
        let client = self.clients.get(active.slot)?;
        client.operations.get(active.id)?.work.engine()
    }

    fn rank_of(&self, active: &Active) -> u32 {
        let client = self.clients.get(active.slot);
        match client
            .and_then(|c| c.operations.get(active.id))
            .map(|o| &o.work)
        {
            Some(Work::Launch(launch)) => self.policy.rank(launch.row).saturating_add(1),
            _ => 0,
        }
    }
}

/// Returns whether all that is left of a launch is on the device in one lane.
fn leaves_one_lane(operation: &Operation) -> bool {
    operation.status == CompletionStatus::Ok
        && operation.is_issued()
        && one_lane(operation).is_some()
}
