//! Admission: from a client's submission entry to an operation in one of its streams.
//!
//! Rules: a refused submission still takes its place in its stream (or in stream 0, when it names none of its own), so
//! that completions come in the order that the client expects. On a virtual clock nothing is admitted while time
//! passes: the clock is stopped first, so that every submission is dated with the time at which it can be acted upon.

use super::admission::Service;
use super::admission::client::{ClientSlot, Presence};
use super::admission::clock::Permit;
use super::admission::message::Notice;
use super::admission::operation::{Operation, Stage, Work};
use super::admission::port::TenantPort;
use super::dispatcher::Dispatcher;
use super::ids::Slot;
use crate::device::{Command, Device, LANES};
use gridmux_bpf::probes;
use gridmux_channel::ring::{CompletionStatus, SubmissionEntry};
use gridmux_policy::units::Nanos;

/// Submissions admitted of one client in one turn, so that no client can keep the dispatcher to itself.
const ADMIT_PER_TURN: usize = 32;
/// Rings looked at in one turn; the next turn goes on behind them. As many as there are lanes: what else is admitted in
/// this turn waits anyway.
const RINGS_PER_TURN: usize = LANES;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Looks at the rings of every hot client.
    pub(super) fn admit_all(&mut self) -> bool {
        let mut worked = false;
        self.admission.more_to_admit = false;
        for _ in 0..self.admission.clients.hot().min(RINGS_PER_TURN) {
            let admission = &mut self.admission;
            // Admission looks at the messages, so a client may leave, and the list shrink, while we go along it.
            let Some(slot) = admission.clients.hot_at(admission.next_ring).or_else(|| {
                admission.next_ring = 0;
                admission.clients.hot_at(0)
            }) else {
                break;
            };
            admission.next_ring += 1;
            let found = match admission.clock.passes() {
                true => self.stop_clock_for(slot),
                false => self.release_holds(slot) | (self.admit_from(slot, ADMIT_PER_TURN) > 0),
            };
            let quiet = &mut self.admission.quiet_rings;
            *quiet = if found { 0 } else { *quiet + 1 };
            worked |= found;
        }
        worked
    }

    /// Admits what was submitted, as far as there is room for it, in order of slots.
    pub(super) fn admit_in_order(&mut self) -> bool {
        let (now, admission) = (self.now, &mut self.admission);
        let mut slots = std::mem::take(&mut admission.slot_scratch);
        slots.clear();
        let hot = admission.clients.hot();
        slots.extend((0..hot).filter_map(|index| admission.clients.hot_at(index)));
        slots.retain(|slot| {
            let client = admission.clients.get_mut(*slot);
            client.is_some_and(|client| has_submitted(client, now))
        });
        admission.quiet_rings = hot;
        slots.sort_unstable();
        let mut admitted = false;
        for slot in &slots {
            admitted |= self.release_holds(*slot);
            // The client's table bounds it.
            admitted |= self.admit_from(*slot, usize::MAX) > 0;
        }
        self.admission.slot_scratch = slots;
        admitted
    }

    /// Asks for the end of a permit when a client has submitted something.
    fn stop_clock_for(&mut self, slot: Slot) -> bool {
        let now = self.now;
        let client = self.admission.clients.get_mut(slot);
        client.is_some_and(|client| has_submitted(client, now)) && self.stop_clock()
    }

    /// Asks for the end of a permit; returns whether there was one and it was not asked for before.
    pub(super) fn stop_clock(&mut self) -> bool {
        let permit = &mut self.admission.clock.permit;
        let stops =
            *permit == Permit::Given && self.issuer.device.submit(&Command::Pause, &[]).is_ok();
        if stops {
            *permit = Permit::Recalled;
        }
        stops
    }

    /// Admits what a client has submitted, at most `most` submissions; returns how many.
    fn admit_from(&mut self, slot: Slot, most: usize) -> usize {
        if self.admission.service != Service::Open {
            return 0;
        }
        let mut admitted = 0;
        while admitted < most {
            let Some(client) = self.admission.clients.get_mut(slot) else {
                break;
            };
            if !client.has_room() || client.ready_at > self.now {
                break;
            }
            let domain = client.domain;
            match client.port.pop() {
                Ok(Some(entry)) => {
                    client.seen = self.turn;
                    // What the control thread promised the client before it submitted this (a stream, a mapping, a
                    // kernel) may have arrived after this turn's look at the messages; so may the news that it has
                    // left and that another one has its slot.
                    self.take_messages();
                    let client = self.admission.clients.get_mut(slot);
                    if client.is_some_and(|client| client.domain == domain) {
                        self.admit(slot, &entry);
                    }
                }
                Ok(None) => return admitted,
                Err(error) => {
                    client.presence = Presence::CutOff;
                    client.port.close();
                    self.admission.outbox.notify(Notice::Corrupt(slot, error));
                    break;
                }
            }
            admitted += 1;
        }
        self.admission.more_to_admit |= admitted == most;
        admitted
    }

    fn admit(&mut self, slot: Slot, entry: &SubmissionEntry) {
        let (now, cookie) = (self.now, entry.cookie());
        let admission = &mut self.admission;
        let work = admission.decode(&mut self.feed, (slot, entry));
        admission.sequence += 1;
        admission.clock.acted(slot);
        let (work, status) = match work {
            Ok(work) => (work, CompletionStatus::Ok),
            Err(reason) => {
                let notice = Notice::Refused {
                    slot,
                    cookie,
                    reason,
                };
                admission.outbox.notify(notice);
                (Work::Marker, reason.status())
            }
        };
        let sequence = admission.sequence;
        // The messages before it may have taken the client out.
        let Some(client) = admission.clients.get_mut(slot) else {
            return;
        };
        let stream = match client.stream_mut(entry.stream()) {
            Some(stream) if !stream.closing => entry.stream(),
            _ => 0,
        };
        let operation = Operation {
            stream,
            sequence,
            cookie,
            client: client.number,
            // The stamp is the client's and may lie: it is never later than now.
            submitted_wall_ns: entry.submit_ns().min(self.wall_now_ns),
            issued_wall_ns: 0,
            admitted: now,
            stage: Stage::Waiting,
            in_flight: 0,
            status,
            work,
        };
        // `has_room` was asked before the entry was taken.
        let Some(id) = client.operations.insert(&operation) else {
            return;
        };
        if let Some(queue) = client.stream_mut(stream) {
            queue.push(id);
        }
        client.waits += u16::from(matches!(work, Work::Wait { .. }));
        let tenant = client.tenant;
        if let Some(account) = self.feed.accounts.get(tenant) {
            let is_launch = matches!(work, Work::Launch(_));
            account.counters.admitted(is_launch);
            self.feed.accounts.watched.insert(tenant);
        }
        let args = |time_ns| operation.probe_args(tenant, self.issuer.device_id, time_ns);
        probes::submit(args(operation.submitted_wall_ns));
        probes::admit(args(now.0));
        self.activate_more(slot, stream);
    }
}

/// Returns whether a client has something that may be admitted at `now`, or has released a hold.
fn has_submitted<P: TenantPort>(client: &mut ClientSlot<P>, now: Nanos) -> bool {
    let may_submit = client.has_room() && client.ready_at <= now;
    client.has_released() || may_submit && client.port.has_work()
}
