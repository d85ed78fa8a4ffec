//! The way of operations into the issue queue and out of it: first in their stream, parked, taken back, ranked anew.
//!
//! The policy hears that a launch arrived when it is first in its stream, or follows one whose last piece is on the
//! device in a single lane, because its blocks wait only from then on; the event's time is that of admission. What
//! stands further back policies do not see.
//!
//! Rules: an operation is in the queue or parked at its tenant's account, never both. What is parked comes back when
//! something of its tenant ends, with the next round of submissions, or with a plan; of a tenant with nothing on the
//! device, also when room may be lent to it; and a gang, also when another gang's last block has started, or gangs are
//! no longer paused. What waits for another operation takes no place in the queue.

use super::Issuer;
use super::piece::one_lane;
use super::queue::Active;
use crate::device::{Device, Tag};
use crate::dispatch::admission::clients::ClientTable;
use crate::dispatch::admission::operation::{Operation, Work};
use crate::dispatch::admission::port::TenantPort;
use crate::dispatch::feed::PolicyFeed;
use crate::dispatch::feed::policy_link::PolicyLink;
use crate::dispatch::feed::why::Why;
use crate::dispatch::ids::{OperationId, OperationRef, Slot};
use gridmux_channel::ring::CompletionStatus;
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;

/// Tenants for which room that may be lent is looked for when something has ended.
const MOST_TRIED: usize = 4;

impl<D: Device> Issuer<D> {
    /// Puts the next operations of a stream into the issue queue: its first, and behind a launch whose last piece is on
    /// the device in a single lane the launch that follows it.
    pub(in crate::dispatch) fn activate_more<P: TenantPort>(
        &mut self,
        clients: &mut ClientTable<P>,
        feed: &mut PolicyFeed,
        (slot, stream): (Slot, u16),
        now: Nanos,
    ) {
        let depth = self.device.lane_depth();
        while let Some((op, after)) = take_next(clients, slot, stream, depth) {
            self.activate(clients, feed, (op, after), now);
        }
    }

    fn activate<P: TenantPort>(
        &mut self,
        clients: &mut ClientTable<P>,
        feed: &mut PolicyFeed,
        (op, after): (OperationRef, Option<(OperationId, u64)>),
        now: Nanos,
    ) {
        if awaits_another(clients, op) {
            return;
        }
        let Some((tenant, operation)) = clients.operation_mut(op) else {
            return;
        };
        let active = Active {
            rank: 0,
            admitted: operation.admitted,
            slot: op.slot,
            stream: operation.stream,
            sequence: operation.sequence,
            id: op.id,
            tenant,
        };
        if let Work::Launch(launch) = &mut operation.work {
            launch.after = after;
            let account = feed.accounts.get(tenant);
            if !account.is_some_and(|account| account.is_behind() || account.is_paused()) {
                feed.announce(clients, op, now);
            }
        }
        feed.accounts.change(tenant, 1, 0);
        self.enqueue(clients, &feed.policy, active);
    }

    fn enqueue<P>(&mut self, clients: &ClientTable<P>, policy: &PolicyLink, active: Active) {
        let operation = clients.operation(active.op());
        match operation.and_then(|operation| operation.work.engine()) {
            Some(engine) => self.transfers.push(engine, active),
            None => {
                let rank = rank_of(clients, policy, &active);
                self.queue.push(Active { rank, ..active });
            }
        }
    }

    /// Takes the first operation out of the queue for good.
    pub(in crate::dispatch) fn dequeue(&mut self, feed: &mut PolicyFeed, active: Active) {
        self.queue.pop();
        feed.accounts.change(active.tenant, -1, 0);
    }

    /// Takes the first operation out of the queue until something of its tenant ends, a round ends or a plan comes.
    pub(in crate::dispatch) fn park(&mut self, feed: &mut PolicyFeed, active: Active, why: Why) {
        self.queue.pop();
        feed.accounts.park(active, why);
    }

    /// Puts what is parked at an account back into the queue.
    pub(in crate::dispatch) fn unpark<P>(
        &mut self,
        clients: &ClientTable<P>,
        feed: &mut PolicyFeed,
        tenant: TenantId,
    ) {
        while let Some(active) = feed.accounts.unpark(tenant) {
            self.enqueue(clients, &feed.policy, active);
        }
    }

    /// Puts back what tenants have parked that have nothing on the device, where the plan lends room: something has
    /// ended, so that there may be some for them now. Each time a few of them have their turn.
    pub(in crate::dispatch) fn unpark_for_lent_room<P>(
        &mut self,
        clients: &ClientTable<P>,
        feed: &mut PolicyFeed,
    ) {
        if !self.lends(feed) {
            return;
        }
        for _ in 0..MOST_TRIED {
            self.tried = self.tried.wrapping_add(1);
            let parked = feed.accounts.parked.members();
            let Some(at) = self.tried.checked_rem(parked.len()) else {
                return;
            };
            let tenant = parked[at];
            let account = feed.accounts.get(tenant);
            if account.is_some_and(|account| account.lanes == 0) {
                self.unpark(clients, feed, tenant);
            }
        }
    }

    /// Puts back what tenants have parked that wait until no other has a launch open or to come.
    pub(in crate::dispatch) fn unpark_those_behind<P>(
        &mut self,
        clients: &ClientTable<P>,
        feed: &mut PolicyFeed,
    ) {
        for place in 0..feed.accounts.behind.len() {
            let tenant = feed.accounts.behind.members()[place];
            self.unpark(clients, feed, tenant);
        }
    }

    /// Ends the turn of a gang, if it has one, and puts back what tenants have parked that wait for it.
    pub(in crate::dispatch) fn end_gang<P>(
        &mut self,
        clients: &ClientTable<P>,
        feed: &mut PolicyFeed,
        (tag, now): (Tag, Nanos),
    ) {
        if self.gang.end(tag, now) {
            self.unpark_gangs(clients, feed);
        }
    }

    /// Puts back what those tenants have parked whose gangs wait for their turn.
    pub(in crate::dispatch) fn unpark_gangs<P>(
        &mut self,
        clients: &ClientTable<P>,
        feed: &mut PolicyFeed,
    ) {
        while let Some(tenant) = feed.accounts.gangs.pop() {
            self.unpark(clients, feed, tenant);
        }
    }

    /// Orders the queue after the plan that stands, and puts back all that is parked.
    pub(in crate::dispatch) fn follow_plan<P>(
        &mut self,
        clients: &ClientTable<P>,
        feed: &mut PolicyFeed,
    ) {
        while let Some(tenant) = feed.accounts.parked.pop() {
            self.unpark(clients, feed, tenant);
        }
        self.queue
            .rank_anew(|active| rank_of(clients, &feed.policy, active));
    }

    /// Forgets what a tenant that is gone has queued: it would count against the account of one that comes back under
    /// the number.
    pub(in crate::dispatch) fn forget_tenant(&mut self, feed: &mut PolicyFeed, tenant: TenantId) {
        let queued = self.queue.remove(tenant) + self.transfers.remove(tenant);
        let queued = i32::try_from(queued).unwrap_or(i32::MAX);
        feed.accounts.change(tenant, -queued, 0);
    }
}

/// Counts the next operation of a stream as active, if it may go; returns it, and the id and sequence number of the one
/// before it, which is on the device.
fn take_next<P>(
    clients: &mut ClientTable<P>,
    slot: Slot,
    stream: u16,
    depth: usize,
) -> Option<(OperationRef, Option<(OperationId, u64)>)> {
    let client = clients.get_mut(slot)?;
    let operations = &client.operations;
    let queue = client.streams.get_mut(usize::from(stream))?.as_mut()?;
    let (id, active) = queue.next()?;
    let last = queue.last_active();
    let before = last.and_then(|last| Some((last, operations.get(last)?)));
    if active > 0 {
        let is_launch = matches!(operations.get(id)?.work, Work::Launch(_));
        let follows = is_launch && before.is_some_and(|(_, before)| leaves_one_lane(before));
        if active >= depth || !follows {
            return None;
        }
    }
    queue.activate_next();
    let after = before.map(|(last, before)| (last, before.sequence));
    Some((OperationRef { slot, id }, after))
}

/// Returns whether all that is left of a launch is on the device in one lane.
fn leaves_one_lane(operation: &Operation) -> bool {
    operation.status == CompletionStatus::Ok
        && operation.is_issued()
        && one_lane(operation).is_some()
}

/// Returns whether an operation waits for another one that has not completed, or for its client. Such a one takes no
/// place in the issue queue: what it waits for ends it.
fn awaits_another<P: TenantPort>(clients: &mut ClientTable<P>, op: OperationRef) -> bool {
    let Some(client) = clients.get_mut(op.slot) else {
        return false;
    };
    let Some(operation) = client.operations.get(op.id) else {
        return false;
    };
    let work = match operation.work {
        Work::Wait { sequence } => {
            if client.operations.holds(sequence) {
                return true;
            }
            // Its target completed before the wait became the first of its stream.
            client.waits -= u16::from(sequence != 0);
            Work::Wait { sequence: 0 }
        }
        Work::Hold { .. } if client.may_end(operation) => Work::Hold { count: 0 },
        Work::Hold { .. } => {
            let stream = operation.stream;
            client.held |= 1 << stream;
            return true;
        }
        _ => return false,
    };
    if let Some(operation) = client.operations.get_mut(op.id) {
        operation.work = work;
    }
    false
}

/// Returns the place of an operation in the plan's order, plus 1; 0 for what takes no room on an SM.
fn rank_of<P>(clients: &ClientTable<P>, policy: &PolicyLink, active: &Active) -> u32 {
    let launch = clients.launch(active.op());
    launch.map_or(0, |launch| policy.rank(launch.row).saturating_add(1))
}
