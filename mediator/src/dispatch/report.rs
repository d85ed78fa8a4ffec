//! Reports of the device: what they mean for pieces, operations, accounting, the policy and the client.

use super::dispatcher::Dispatcher;
use super::ids::OperationId;
use super::ids::Slot;
use super::lanes::{Flight, Released};
use super::message::Notice;
use super::operation::{Operation, Work};
use super::port::TenantPort;
use super::samples::LaunchSample;
use super::window::WINDOW_NS;
use crate::device::{Command, Device, DeviceReport, Outcome, Tag};
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_channel::ring::CompletionStatus;
use gridmux_policy::event::Event;
use gridmux_policy::units::Nanos;

/// Weight of the newest value in running means: one in this many.
const MEAN_OF: u64 = 8;
/// How fast sums over a row's pieces forget: by one part in this many with each piece.
const SUM_OF: u64 = 32;
/// How fast the longest slice of a row is forgotten: by one in this many with each slice.
const LONGEST_OF: u64 = 16;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    pub(super) fn take_reports(&mut self) -> bool {
        let mut worked = false;
        while let Some(report) = self.device.poll() {
            worked = true;
            match report {
                DeviceReport::Placed { tag, blocks, at } => self.placed(tag, blocks, at),
                DeviceReport::Retired {
                    tag,
                    blocks,
                    ran,
                    at,
                } => self.retired(tag, blocks, ran, at),
                DeviceReport::Ended {
                    tag,
                    start,
                    end,
                    outcome,
                } => self.ended(tag, start, end, outcome),
                DeviceReport::Paused { at } => {
                    self.now = self.now.max(at);
                    self.permit_out = false;
                    if self.policy.wake_at().is_some_and(|wake| wake <= at) {
                        self.wake_policy(at);
                    }
                }
            }
        }
        worked
    }

    fn placed(&mut self, tag: Tag, blocks: u32, at: Nanos) {
        self.now = self.now.max(at);
        let Some(held) = self.lanes.get_mut(tag) else {
            return;
        };
        // Copied before it is written: a copy right behind a write waits for it.
        let flight = *held;
        let blocks = blocks.min(flight.blocks - flight.resident);
        held.place(blocks, at);
        let Some(row) = flight.row else {
            return;
        };
        self.meter.placed(flight.tenant, &flight.shape, blocks, at);
        if let Some(row) = self.rows.get_mut(row) {
            row.live += blocks;
            row.waiting = row.waiting.saturating_sub(blocks.into());
        }
        let Some((_, operation)) = self.operation_mut(flight.slot, flight.operation) else {
            return;
        };
        let is_first = operation.first_start.is_none();
        operation.first_start.get_or_insert(at);
        let sequence = operation.sequence;
        if let Work::Launch(launch) = &mut operation.work {
            launch.started += u64::from(blocks);
        }
        self.count_as_ready(flight.slot, flight.operation);
        if flight.preempts && flight.placed == 0 {
            self.note_preemption(self.lanes.level(tag.lane), &flight, at);
        }
        self.note_resumed(flight.slot, flight.operation, at);
        self.note_blocks(flight.slot, flight.operation, |unreported| {
            unreported.started += blocks
        });
        if is_first {
            self.policy.tell(Event::FirstStart {
                row,
                launch: sequence,
                at,
            });
        }
    }

    fn retired(&mut self, tag: Tag, blocks: u32, ran: Nanos, at: Nanos) {
        self.now = self.now.max(at);
        let Some(held) = self.lanes.get_mut(tag) else {
            return;
        };
        let flight = *held;
        let blocks = blocks.min(flight.resident);
        held.retire(blocks, ran, at);
        let uncharged = blocks.min(held.charge);
        held.charge -= uncharged;
        if let Some(account) = self.accounts.get_mut(flight.tenant) {
            account.charged.remove(&flight.shape, uncharged);
        }
        if let Some(row) = flight.row.and_then(|row| self.rows.get_mut(row)) {
            row.charged = row.charged.saturating_sub(uncharged);
        }
        self.count_retired(&flight, blocks, (ran, ran), at);
        let Some(id) = flight.row.filter(|_| blocks > 0) else {
            return;
        };
        let block_ns = (ran.0 / u64::from(blocks)).max(1);
        match self.rows.get_mut(id) {
            Some(row) if row.is_unproven() => self.prove_row(id, block_ns),
            Some(row) => row.block_ns = mean(row.block_ns, block_ns),
            None => {}
        }
    }

    /// Counts blocks that left their SMs: `held` is what their tenant has used, `ran` what they teach of how long
    /// blocks of their kernel last. Those that were killed teach nothing.
    fn count_retired(
        &mut self,
        flight: &Flight,
        blocks: u32,
        (held, ran): (Nanos, Nanos),
        at: Nanos,
    ) {
        if let Some(account) = self.accounts.get(flight.tenant) {
            account.counters.retired(blocks, held);
        }
        self.meter.retired(flight.tenant, &flight.shape, blocks, at);
        if let Some(row) = flight.row.and_then(|row| self.rows.get_mut(row)) {
            row.live = row.live.saturating_sub(blocks);
            row.ended += u64::from(blocks);
        }
        self.note_blocks(flight.slot, flight.operation, |unreported| {
            unreported.ended += blocks;
            unreported.ran_ns += ran.0;
        });
        let ended = flight
            .row
            .and_then(|id| Some((id, self.rows.get(id)?.ended)));
        if let Some((row, ended)) = ended
            && self.policy.reaches_watch(row, ended)
        {
            // On a virtual clock the policy is asked when this instant is complete.
            self.flush_blocks();
        }
    }

    /// Learns from a piece that ended well how long the row's slices take, how much of them resides, and how long
    /// launches take.
    fn learn(&mut self, flight: &Flight, start: Nanos, end: Nanos) {
        self.compare_with_alone(flight);
        let Some(row) = flight.row.and_then(|row| self.rows.get_mut(row)) else {
            return;
        };
        let took = (end - start).0.max(1);
        row.slice_ns = took.max(row.slice_ns - row.slice_ns / LONGEST_OF);
        if let Some(block_ns) = flight.resided_ns.checked_div(flight.blocks.into()) {
            row.note_piece(block_ns, flight.work_ns, WINDOW_NS);
        }
        let waited_ns = (start - flight.charged_from)
            .0
            .saturating_mul(flight.blocks.into());
        let charged_ns = waited_ns.saturating_add(flight.resided_ns);
        let add = |sum: u64, new| (sum - sum / SUM_OF).saturating_add(new);
        row.charged_ns = add(row.charged_ns, charged_ns);
        row.resided_ns = add(row.resided_ns, flight.resided_ns);
        if flight.is_fresh {
            let latency = (start - flight.issued).0.max(1);
            let least = self.launch_ns.map_or(latency, |least| least.min(latency));
            if self.launch_ns.replace(least) != Some(least) {
                let submission = self.device.submission().each;
                self.meter.set_launch_cost(submission, Nanos(least));
            }
        }
    }

    /// Counts how long blocks of a piece took, and how long they take alone where that is known.
    fn compare_with_alone(&self, flight: &Flight) {
        let row = flight.row.and_then(|row| self.rows.get(row));
        let (Some(row), Some(profiles)) = (row.filter(|row| !row.spill), &self.profiles) else {
            return;
        };
        let alone = profiles.get(row.profile).filter(|profile| profile.alone);
        if let (Some(alone), Some(account)) = (alone, self.accounts.get(flight.tenant)) {
            let alone_ns = alone.whole_ns().saturating_mul(flight.blocks.into());
            account
                .counters
                .resided(Nanos(flight.resided_ns), Nanos(alone_ns));
        }
    }

    fn ended(&mut self, tag: Tag, start: Nanos, end: Nanos, outcome: Outcome) {
        self.now = self.now.max(end);
        let Some(released) = self.lanes.release(tag, end) else {
            return;
        };
        self.uncharge(&released);
        let flight = released.flight;
        if flight.resident > 0 {
            // A killed or failed piece: its blocks vanish with it, and have held their SMs until now.
            let held = flight.unreported_at(end);
            self.count_retired(&flight, flight.resident, (held, Nanos::ZERO), end);
        }
        if outcome == Outcome::Done {
            self.learn(&flight, start, end);
        }
        if let Some(row) = flight.row
            && outcome == Outcome::Failed(CompletionStatus::Budget)
        {
            self.doubt_row(row);
        }
        self.unpark(flight.tenant);
        let (slot, id) = (flight.slot, flight.operation);
        let still_there = self.lanes.holds(tag.lane, slot, id);
        let device = self.device_id.0;
        let Some((tenant, operation)) = self.operation_mut(slot, id) else {
            return;
        };
        operation.in_flight -= 1;
        let first = operation.first_start.get_or_insert(start);
        *first = (*first).min(start);
        operation.last_end = operation.last_end.max(end);
        let cookie = operation.cookie;
        let fresh_failure = match outcome {
            Outcome::Failed(status) if operation.status == CompletionStatus::Ok => {
                operation.status = status;
                true
            }
            Outcome::Failed(_) | Outcome::Done | Outcome::Killed => false,
        };
        let sequence = operation.sequence;
        let over = operation.is_over();
        let mut copied = 0;
        match &mut operation.work {
            Work::Launch(launch) => {
                if !still_there {
                    launch.lanes &= !(1 << tag.lane.0);
                }
                let args = ProbeArgs {
                    tenant: tenant.0,
                    device,
                    kernel: launch.handle,
                    seq: sequence,
                    time_ns: end.0,
                };
                probes::slice_end(args, flight.first_block, u64::from(flight.blocks));
            }
            Work::Copy(_) => copied = flight.transfer.map_or(0, |(_, bytes)| bytes),
            _ => {}
        }
        if copied > 0
            && let Some(account) = self.accounts.get(tenant)
        {
            account.counters.copied(copied);
        }
        if fresh_failure {
            self.notify(Notice::Failed { slot, cookie, tag });
            self.kill_flights(slot, Some(id));
        }
        if over {
            self.finish(slot, id);
        } else if !still_there {
            // What is left may be in one lane now, behind which the next launch can go.
            let stream = self.operation_mut(slot, id).map(|(_, o)| o.stream);
            if let Some(stream) = stream {
                self.activate_more(slot, stream);
            }
        }
        self.finish_leave(slot);
    }

    /// Takes a flight's blocks out of what cap and limit count, and counts in full what is first in its lane now.
    fn uncharge(&mut self, released: &Released) {
        let flight = &released.flight;
        if let Some((engine, bytes)) = flight.transfer {
            self.transfers.ended(engine, bytes);
        }
        if let Some(account) = self.accounts.get_mut(flight.tenant) {
            account.charged.remove(&flight.shape, flight.charge);
        }
        if let Some(row) = flight.row.and_then(|row| self.rows.get_mut(row)) {
            row.charged = row.charged.saturating_sub(flight.charge);
            row.cap_reached = false;
        }
        match &released.next {
            Some((next, grew)) => {
                if let Some(account) = self.accounts.get_mut(next.tenant) {
                    account.charged.add(&next.shape, *grew);
                }
                if let Some(row) = next.row.and_then(|row| self.rows.get_mut(row)) {
                    row.charged += grew;
                }
            }
            None => self.accounts.change(flight.tenant, 0, -1),
        }
    }

    /// Kills what a client has on the device, or only what belongs to one operation.
    pub(super) fn kill_flights(&mut self, slot: Slot, only: Option<OperationId>) {
        self.lanes.mark_kills(slot, only);
        self.send_kills();
    }

    /// Hands the device the kills that it has not taken yet. While its command queue is full they stay marked, and the
    /// next turn tries again.
    pub(super) fn send_kills(&mut self) {
        let device = &mut self.device;
        self.lanes
            .send_kills(|tag| device.submit(&Command::Kill(tag), &[]).is_ok());
    }

    /// Tells sample sink and counters of a launch that completed.
    pub(super) fn record(&mut self, slot: Slot, operation: &Operation) {
        let Some(tenant) = self.clients.get(slot).map(|client| client.tenant) else {
            return;
        };
        let kernel = match &operation.work {
            Work::Launch(launch) => launch.handle,
            _ => u32::MAX,
        };
        let start = operation.first_start.unwrap_or(operation.last_end);
        let to_start = start - operation.admitted;
        let to_complete = operation.last_end - operation.admitted;
        let args = ProbeArgs {
            tenant: tenant.0,
            device: self.device_id.0,
            kernel,
            seq: operation.sequence,
            time_ns: operation.last_end.0,
        };
        probes::complete(args, to_start.0, to_complete.0);
        let is_launch = matches!(operation.work, Work::Launch(_));
        if !is_launch || operation.status != CompletionStatus::Ok {
            return;
        }
        let wall_ns = operation
            .issued_wall_ns
            .saturating_sub(operation.submitted_wall_ns);
        if let Some(account) = self.accounts.get(tenant) {
            self.samples.record(
                &account.counters,
                &LaunchSample {
                    tenant,
                    device: self.device_id,
                    submit_to_start: to_start,
                    submit_to_complete: to_complete,
                    wall_submit_to_issue_ns: wall_ns,
                },
            );
        }
    }
}

/// Returns a running mean after one more value.
pub(super) fn mean(old: u64, new: u64) -> u64 {
    (old * (MEAN_OF - 1) + new) / MEAN_OF
}
