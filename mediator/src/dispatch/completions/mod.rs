//! Completions on their way to clients: what waits for its time, for room in a ring, or for the client to be woken.
//!
//! Rules: an operation completes once, when nothing of it is left; on a virtual clock not before it has cost its client
//! time ([`OPERATION_NS`]). In lockstep its client sees that later ([`super::instant`]). A completion that finds the
//! ring full waits, and with it its stream.

pub mod samples;

use super::admission::client::{ClientSlot, Mail, Presence};
use super::admission::clients::{CLIENTS, ClientTable};
use super::admission::clock::{OPERATION_NS, Timing, VirtualClock};
use super::admission::operation::{Operation, Stage, Work};
use super::admission::port::TenantPort;
use super::feed::accounts::Account;
use super::ids::{OPERATIONS_PER_CLIENT, OperationId, OperationRef, Slot};
use gridmux_bpf::probes;
use gridmux_channel::ring::queue::Corrupt;
use gridmux_channel::ring::{CompletionEntry, CompletionStatus, PushError};
use gridmux_policy::ids::DeviceId;
use gridmux_policy::units::Nanos;
use samples::{LaunchSample, SampleSink};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An operation that is over and completes at a later time. Those of one time complete by client, stream and place in
/// the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Deferred {
    due: Nanos,
    slot: Slot,
    stream: u16,
    sequence: u64,
    id: OperationId,
}

/// The dispatcher's part that hands completions to clients.
pub(super) struct Completions {
    timing: Timing,
    /// Operations that are over and wait for the time at which they may complete.
    deferred: BinaryHeap<Reverse<Deferred>>,
    /// Clients with completions that they do not see yet.
    undelivered: Vec<Slot>,
    /// Clients with completions of this turn.
    unwoken: Vec<Slot>,
    /// How many clients have a completion that did not fit into their ring.
    pub(super) backlogs: u32,
    samples: SampleSink,
    /// Operations of a client that leaves.
    pub(super) abandoned: Vec<OperationId>,
}

impl Completions {
    /// Makes the part, with room for `operations` that wait for their time.
    pub(super) fn new(timing: Timing, samples: SampleSink, operations: usize) -> Self {
        Self {
            timing,
            deferred: BinaryHeap::with_capacity(operations),
            undelivered: Vec::with_capacity(CLIENTS),
            unwoken: Vec::with_capacity(CLIENTS),
            backlogs: 0,
            samples,
            abandoned: Vec::with_capacity(OPERATIONS_PER_CLIENT),
        }
    }

    /// Puts the completion of an operation that is over into its client's ring, if its time has come, it is the first
    /// of its stream, and there is room; returns the operation as it completed.
    ///
    /// # Errors
    /// The client broke the ring's protocol, and is cut off.
    pub(super) fn offer<P: TenantPort>(
        &mut self,
        client: &mut ClientSlot<P>,
        op: OperationRef,
        now: Nanos,
        turn: u64,
    ) -> Result<Option<Operation>, Corrupt> {
        let OperationRef { slot, id } = op;
        let Some(operation) = client.operations.get_mut(id) else {
            return Ok(None);
        };
        let is_new = operation.end();
        let due = operation.admitted + Nanos(OPERATION_NS);
        if self.timing.is_virtual() && now < due {
            if is_new {
                self.deferred.push(Reverse(Deferred {
                    due,
                    slot,
                    stream: operation.stream,
                    sequence: operation.sequence,
                    id,
                }));
            }
            return Ok(None);
        }
        let mut operation = *operation;
        if let Stage::Over { start, end } = &mut operation.stage {
            if self.timing.is_virtual() {
                *end = (*end).max(due);
            }
            // What does nothing on the device, as a copy of no bytes, ends when its turn comes, not when it was
            // admitted.
            if start.is_none() {
                *end = (*end).max(now);
            }
        }
        let stream = client.stream_mut(operation.stream);
        if stream.is_none_or(|stream| stream.front() != Some(id)) {
            // The one before it has not completed: its completion ring is full, or its time has not come.
            return Ok(None);
        }
        let (start, end) = operation.span();
        let entry = CompletionEntry::new(operation.cookie, operation.status, start.0, end.0);
        match client.port.complete(entry) {
            Ok(()) => {}
            Err(PushError::Corrupt(why)) => {
                client.presence = Presence::CutOff;
                client.port.close();
                return Err(why);
            }
            Err(_) => {
                self.backlogs += u32::from(!std::mem::replace(&mut client.backlog, true));
                return Ok(None);
            }
        }
        let (mail, list) = match self.timing {
            Timing::Lockstep => (Mail::Undelivered, &mut self.undelivered),
            Timing::Real | Timing::Live => {
                client.seen = turn;
                (Mail::Unwoken, &mut self.unwoken)
            }
        };
        if std::mem::replace(&mut client.mail, mail) == Mail::None {
            list.push(slot);
        }
        Ok(Some(operation))
    }

    /// Returns when the next operation completes that waits for its time.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.deferred.peek().map(|entry| entry.0.due)
    }

    /// Takes the next operation whose time has come, and its sequence number.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<(OperationRef, u64)> {
        self.next_due().filter(|due| *due <= now)?;
        let Reverse(Deferred {
            slot, id, sequence, ..
        }) = self.deferred.pop()?;
        Some((OperationRef { slot, id }, sequence))
    }

    /// Returns whether a client has completions that it does not see yet.
    pub(super) fn has_undelivered(&self) -> bool {
        !self.undelivered.is_empty()
    }

    /// Hands every client that something of completed all of its completions; returns whether there was one.
    pub(super) fn deliver<P: TenantPort>(
        &mut self,
        clients: &mut ClientTable<P>,
        clock: &mut VirtualClock,
        turn: u64,
    ) -> bool {
        let delivered = self.has_undelivered();
        while let Some(slot) = self.undelivered.pop() {
            if let Some(client) = clients.get_mut(slot) {
                client.mail = Mail::None;
                client.seen = turn;
                client.port.wake();
                clock.acted(slot);
            }
        }
        delivered
    }

    /// Wakes the clients that have completions of this turn: together, because looking whether one sleeps waits until
    /// all that was written before is visible.
    pub(super) fn wake_clients<P: TenantPort>(&mut self, clients: &mut ClientTable<P>) {
        while let Some(slot) = self.unwoken.pop() {
            if let Some(client) = clients.get_mut(slot) {
                client.mail = Mail::None;
                client.port.wake();
            }
        }
    }

    /// Tells probes, counters and sample sink of an operation that completed.
    pub(super) fn record(&mut self, account: &Account, device: DeviceId, operation: &Operation) {
        let tenant = account.id;
        let (start, end) = operation.span();
        let (to_start, to_complete) = (start - operation.admitted, end - operation.admitted);
        let args = operation.probe_args(tenant, device, end.0);
        let (is_launch, blocks) = match &operation.work {
            Work::Launch(launch) => (true, launch.blocks),
            _ => (false, 0),
        };
        let status = operation.status as u64;
        probes::complete(args, to_start.0, to_complete.0, blocks, status);
        if !is_launch || operation.status != CompletionStatus::Ok {
            return;
        }
        let wall_ns = operation
            .issued_wall_ns
            .saturating_sub(operation.submitted_wall_ns);
        self.samples.record(
            &account.counters,
            &LaunchSample {
                tenant,
                device,
                submit_to_start: to_start,
                submit_to_complete: to_complete,
                wall_submit_to_issue_ns: wall_ns,
            },
        );
    }
}
