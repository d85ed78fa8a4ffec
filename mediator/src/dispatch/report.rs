//! Reports of the device: what they mean for pieces, operations, accounting, the policy and the client.

use super::admission::clients::ClientTable;
use super::admission::clock::Permit;
use super::admission::message::Notice;
use super::admission::operation::Work;
use super::admission::port::TenantPort;
use super::dispatcher::Dispatcher;
use super::feed::PolicyFeed;
use super::issuer::lanes::{Flight, Released};
use super::issuer::window::WINDOW_NS;
use crate::device::{Device, DeviceReport, Outcome, Residency, Tag};
use gridmux_bpf::probes;
use gridmux_channel::ring::CompletionStatus;
use gridmux_policy::event::Event;
use gridmux_policy::ids::SmId;
use gridmux_policy::shape::Held;
use gridmux_policy::units::Nanos;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    pub(super) fn take_reports(&mut self) -> bool {
        let mut worked = false;
        while let Some(report) = self.issuer.device.poll() {
            worked = true;
            match report {
                DeviceReport::Placed { tag, blocks, at } => self.placed(tag, blocks, at),
                DeviceReport::Retired {
                    tag,
                    blocks,
                    ran,
                    at,
                } => self.retired(tag, blocks, ran, at),
                DeviceReport::BlockEnded {
                    tag,
                    block,
                    sm,
                    start,
                    end,
                } => self.block_ended(tag, (block, sm), (start, end)),
                DeviceReport::Ended {
                    tag,
                    start,
                    end,
                    outcome,
                } => self.ended(tag, (start, end), outcome),
                DeviceReport::Paused { at } => {
                    self.now = self.now.max(at);
                    self.admission.clock.permit = Permit::None;
                    if self.feed.policy.wake_at().is_some_and(|wake| wake <= at) {
                        let clients = &mut self.admission.clients;
                        self.feed.wake_policy(clients, at, self.now);
                    }
                }
            }
        }
        worked
    }

    fn placed(&mut self, tag: Tag, blocks: u32, at: Nanos) {
        self.now = self.now.max(at);
        let (clients, feed) = (&mut self.admission.clients, &mut self.feed);
        let Some(held) = self.issuer.lanes.get_mut(tag) else {
            return;
        };
        // Copied before it is written: a copy right behind a write waits for it.
        let flight = *held;
        let blocks = blocks.min(flight.blocks - flight.placed.min(flight.blocks));
        held.place(blocks, at);
        // Where it is estimated which blocks have started, a gang's turn ends with the launch.
        let is_exact = self.issuer.device.residency() == Residency::Exact;
        let may_have_started = held.is_gang && is_exact;
        let placed = held.placed;
        let Some(row) = flight.row else {
            return;
        };
        feed.meter.placed(flight.tenant, &flight.shape, blocks, at);
        if let Some(row) = feed.rows.get_mut(row) {
            row.live += blocks;
            row.waiting = row.waiting.saturating_sub(blocks.into());
        }
        let Some((_, operation)) = clients.operation_mut(flight.op) else {
            return;
        };
        let is_first = operation.begin(at);
        let launch = operation.sequence;
        let mut gang_has_started = false;
        if let Work::Launch(launch) = &mut operation.work {
            launch.started += u64::from(blocks);
            // Of more blocks than fit, the others start when some have ended.
            gang_has_started = may_have_started && placed >= flight.blocks.min(launch.wave);
        }
        feed.count_as_ready(clients, flight.op, self.now);
        if gang_has_started {
            self.issuer.end_gang(clients, feed, (tag, self.now));
        }
        if flight.preempts && flight.placed == 0 {
            let level = self.issuer.lanes.level(tag.lane);
            self.issuer
                .note_preemption(clients, &feed.accounts, (level, &flight), at);
        }
        self.issuer.note_resumed(clients, flight.op, at);
        feed.note_blocks(clients, flight.op, |unreported| {
            unreported.started += blocks;
        });
        if is_first {
            feed.policy.tell(Event::FirstStart { row, launch, at });
        }
    }

    fn retired(&mut self, tag: Tag, blocks: u32, ran: Nanos, at: Nanos) {
        self.now = self.now.max(at);
        let (clients, feed) = (&mut self.admission.clients, &mut self.feed);
        let Some(held) = self.issuer.lanes.get_mut(tag) else {
            return;
        };
        let flight = *held;
        let blocks = blocks.min(flight.resident);
        held.retire(blocks, ran, at);
        let uncharged = blocks.min(held.charge);
        held.charge -= uncharged;
        if let Some(account) = feed.accounts.get_mut(flight.tenant) {
            account.charged.remove(&flight.shape, uncharged);
        }
        if let Some(row) = flight.row.and_then(|row| feed.rows.get_mut(row)) {
            row.charged = row.charged.saturating_sub(uncharged);
        }
        count_retired(clients, feed, (&flight, blocks), (ran, ran), (at, self.now));
        if let Some(row) = flight.row.filter(|_| blocks > 0) {
            let block_ns = (ran.0 / u64::from(blocks)).max(1);
            feed.note_block(clients, row, block_ns, self.now);
        }
    }

    /// Tells those who trace blocks of one. Nothing else may come of it: what is done does not depend on who looks.
    fn block_ended(&mut self, tag: Tag, (block, sm): (u64, u32), (start, end): (Nanos, Nanos)) {
        let Some(flight) = self.issuer.lanes.get_mut(tag) else {
            return;
        };
        let Some(operation) = self.admission.clients.operation(flight.op) else {
            return;
        };
        let sms = self.feed.shape.sms;
        let on = u16::try_from(sm).ok().filter(|sm| *sm < sms).map(SmId);
        let group = on.and_then(|sm| self.feed.policy.plan().group_of(sm));
        let group = group.map_or(probes::NO_GROUP, |group| group.0.into());
        let args = operation.probe_args(flight.tenant, self.issuer.device_id, end.0);
        let block = flight.first_block.saturating_add(block);
        probes::block(args, sm.into(), block, (end - start).0, group);
    }

    fn ended(&mut self, tag: Tag, (start, end): (Nanos, Nanos), outcome: Outcome) {
        self.now = self.now.max(end);
        let Some(flight) = self.release(tag, (start, end), outcome) else {
            return;
        };
        let op = flight.op;
        let (clients, feed) = (&mut self.admission.clients, &mut self.feed);
        let still_there = self.issuer.lanes.holds(tag.lane, op);
        let Some((tenant, operation)) = clients.operation_mut(op) else {
            return;
        };
        operation.in_flight -= 1;
        operation.end_piece(start, end);
        let fresh_failure = match outcome {
            Outcome::Failed(status) if operation.status == CompletionStatus::Ok => {
                operation.status = status;
                true
            }
            Outcome::Failed(_) | Outcome::Done | Outcome::Killed => false,
        };
        let (over, stream, cookie) = (operation.is_over(), operation.stream, operation.cookie);
        match &mut operation.work {
            Work::Launch(launch) => {
                if !still_there {
                    launch.lanes &= !(1 << tag.lane.0);
                }
                let args = operation.probe_args(tenant, self.issuer.device_id, end.0);
                let (first, blocks) = (flight.first_block, u64::from(flight.blocks));
                let (waited, ran) = (start - flight.issued, end - start);
                probes::slice_end(args, first, blocks, waited.0, ran.0);
            }
            Work::Copy(_) => {
                if let Some((account, (_, bytes))) = feed.accounts.get(tenant).zip(flight.transfer)
                {
                    account.counters.copied(bytes);
                }
            }
            _ => {}
        }
        let slot = op.slot;
        let was_cut = match &operation.work {
            Work::Launch(launch) => {
                operation.status == CompletionStatus::Budget
                    && u64::from(flight.blocks) < launch.blocks
            }
            _ => false,
        };
        let is_copy = matches!(&operation.work, Work::Copy(_));
        if let Some((_, bytes)) = flight.transfer.filter(|_| is_copy)
            && let Some(client) = clients.get(slot)
        {
            client.counters.copied(bytes);
        }
        if fresh_failure {
            let notice = Notice::Failed {
                slot,
                cookie,
                tag,
                was_cut,
            };
            self.admission.outbox.notify(notice);
            self.issuer.kill_flights(slot, Some(op.id));
        }
        if over {
            self.finish(op);
        } else if !still_there {
            self.take_back_if_paused(tenant, op);
            // What is left may be in one lane now, behind which the next launch can go.
            self.activate_more(slot, stream);
        }
        self.finish_leave(slot);
    }

    /// Takes a piece that has ended out of its lane, learns from it, and lets others have its room.
    fn release(
        &mut self,
        tag: Tag,
        (start, end): (Nanos, Nanos),
        outcome: Outcome,
    ) -> Option<Flight> {
        let released = self.issuer.lanes.release(tag)?;
        self.uncharge(&released);
        let (clients, feed) = (&mut self.admission.clients, &mut self.feed);
        let flight = released.flight;
        if flight.resident > 0 {
            // A killed or failed piece: its blocks vanish with it, and have held their SMs until now.
            let ran = (flight.unreported_at(end), Nanos::ZERO);
            count_retired(
                clients,
                feed,
                (&flight, flight.resident),
                ran,
                (end, self.now),
            );
        }
        match (outcome, flight.row) {
            (Outcome::Done, _) => self.learn(&flight, start),
            (Outcome::Failed(CompletionStatus::Budget), Some(row)) => feed.doubt_row(row, self.now),
            _ => {}
        }
        let (clients, feed) = (&mut self.admission.clients, &mut self.feed);
        self.issuer.unpark(clients, feed, flight.tenant);
        self.issuer.unpark_for_lent_room(clients, feed);
        self.issuer.end_gang(clients, feed, (tag, self.now));
        Some(flight)
    }

    /// Learns from a piece that ended well how long the row's blocks take, and how long launches do.
    fn learn(&mut self, flight: &Flight, start: Nanos) {
        if let Some(row) = flight.row {
            let ran = Nanos(flight.resided_ns);
            self.feed.compare_with_alone(row, flight.blocks, ran);
        }
        let Some(row) = flight.row.and_then(|row| self.feed.rows.get_mut(row)) else {
            return;
        };
        if let Some(block_ns) = flight.resided_ns.checked_div(flight.blocks.into()) {
            row.note_piece(block_ns, flight.work_ns, WINDOW_NS);
        }
        if flight.is_fresh {
            let latency_ns = (start - flight.issued).0.max(1);
            if let Some(least) = self.issuer.note_latency(latency_ns) {
                let submission = self.issuer.device.submission().each;
                self.feed.meter.set_launch_cost(submission, Nanos(least));
            }
        }
    }

    /// Takes a flight's blocks out of what cap and limit count, and counts in full what is first in its lane now.
    fn uncharge(&mut self, released: &Released) {
        let (flight, feed) = (&released.flight, &mut self.feed);
        if let Some((engine, bytes)) = flight.transfer {
            self.issuer.transfers.ended(engine, bytes);
        }
        if let Some(account) = feed.accounts.get_mut(flight.tenant) {
            account.charged.remove(&flight.shape, flight.charge);
        }
        if let Some(row) = flight.row.and_then(|row| feed.rows.get_mut(row)) {
            row.charged = row.charged.saturating_sub(flight.charge);
            row.slices -= u32::from(flight.is_fresh);
        }
        match &released.next {
            Some((next, grew)) => {
                if let Some(account) = feed.accounts.get_mut(next.tenant) {
                    account.charged.add(&next.shape, *grew);
                }
                if let Some(row) = next.row.and_then(|row| feed.rows.get_mut(row)) {
                    row.charged += grew;
                }
            }
            None => feed.accounts.change(flight.tenant, 0, -1),
        }
    }
}

/// Counts blocks that left their SMs at `at`: `held` is what their tenant has used, `ran` what they teach of how long
/// blocks of their kernel last. Those that were killed teach nothing.
fn count_retired<P>(
    clients: &mut ClientTable<P>,
    feed: &mut PolicyFeed,
    (flight, blocks): (&Flight, u32),
    (held, ran): (Nanos, Nanos),
    (at, now): (Nanos, Nanos),
) {
    if let Some(account) = feed.accounts.get(flight.tenant) {
        account.counters.retired(blocks, held);
    }
    if let Some(client) = clients.get(flight.op.slot) {
        let mut one = Held::default();
        one.add(&flight.shape, 1);
        let part = one.dominant(&feed.shape);
        client.counters.retired(held, part);
    }
    feed.meter.retired(flight.tenant, &flight.shape, blocks, at);
    let row = flight.row.and_then(|id| Some((id, feed.rows.get_mut(id)?)));
    let ended = row.map(|(id, row)| {
        row.live = row.live.saturating_sub(blocks);
        row.ended += u64::from(blocks);
        (id, row.ended)
    });
    feed.note_blocks(clients, flight.op, |unreported| {
        unreported.ended += blocks;
        unreported.ran_ns += ran.0;
    });
    if let Some((row, ended)) = ended
        && feed.policy.reaches_watch(row, ended)
    {
        // On a virtual clock the policy is asked when this instant is complete.
        feed.flush_blocks(clients, now);
    }
}
