//! Events from the dispatcher to the policy: rows, arrivals, blocks, shares, ends.
//!
//! Rules: what happened to blocks is kept at their launch and told at every arrival, end, plan and timer, one event per
//! launch. A launch arrives when it becomes active: when it is first in its stream, or follows a launch whose last
//! piece is on the device in a single lane, because its blocks wait only from then on. On a virtual clock the arrivals
//! of an instant are told together, in order of client and stream, so that plans do not depend on the order in which
//! the host's threads ran.
//!
//! How much a launch wants is not known before a block of its row has ended: until then it arrives with what it may be
//! given meanwhile, its tenant's share is not measured for it, and the row's counters follow.

use super::dispatcher::{Arrival, Dispatcher};
use super::ids::OperationId;
use super::ids::Slot;
use super::operation::{Operation, Told, UnreportedBlocks, Work};
use super::port::TenantPort;
use super::report::mean;
use super::rows::Row;
use super::window;
use crate::device::Device;
use gridmux_policy::event::Event;
use gridmux_policy::ids::{GroupId, KernelKey, RowId, TenantId};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;

/// Events that name a row anew, at most.
const EVENTS_OF_A_ROW: usize = 3;
/// Shares are settled at most once in this time for each tenant that was busy.
const SETTLE_NS: u64 = 500;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Finds or makes the row of a launch, and tells the policy of a new one and of one that was given up for it.
    pub(super) fn claim_row(
        &mut self,
        tenant: TenantId,
        key: KernelKey,
        block: &BlockShape,
        whole_only: bool,
    ) -> RowId {
        let claimed = self.rows.claim(tenant, key, block, whole_only);
        if let Some(row) = claimed.gone {
            let sent = self.policy.tell(Event::RowGone { row });
            self.rows.quarantine(row, sent);
        }
        if claimed.is_new {
            self.predict_row(claimed.row);
            self.tell_row(claimed.row);
        }
        claimed.row
    }

    /// Takes from the kernel's profile how long blocks of a new row last.
    fn predict_row(&mut self, id: RowId) {
        let (Some(profiles), Some(row)) = (&self.profiles, self.rows.get_mut(id)) else {
            return;
        };
        let known = profiles.get(row.profile).filter(|_| !row.spill);
        row.predicted_ns = known.map_or(0, |profile| profile.whole_ns());
    }

    fn tell_row(&mut self, id: RowId) {
        let Some(row) = self.rows.get(id) else {
            return;
        };
        let whole_only = row.whole_only;
        let event = new_row(id, row);
        self.policy.tell(event);
        if whole_only {
            let at = self.now;
            self.policy.tell(Event::Degraded { row: id, at });
        }
    }

    /// Tells the policy that a launch waits for room, and counts its tenant as busy.
    pub(super) fn announce(&mut self, slot: Slot, id: OperationId) {
        let now = self.now;
        let Some((tenant, operation)) = self.operation_mut(slot, id) else {
            return;
        };
        let Work::Launch(launch) = &mut operation.work else {
            return;
        };
        if launch.told != Told::Nothing {
            return;
        }
        launch.told = Told::Behind;
        let (row, blocks, is_ready) = (launch.row, launch.blocks, launch.after.is_none());
        let (stream, sequence, admitted) =
            (operation.stream, operation.sequence, operation.admitted);
        let mut demand = blocks;
        self.accounts.open(tenant);
        if let Some(row) = self.rows.get_mut(row) {
            row.open += 1;
            row.waiting += blocks;
            if let Some(account) = self.accounts.get_mut(tenant).filter(|_| row.is_unproven()) {
                // More than this it is not given before a block has ended, so it is kept from nobody else.
                demand = match account.unproven {
                    0 => blocks.min(window::probe(self.shape.sms).into()),
                    _ => 0,
                };
                account.unproven += 1;
            }
        }
        self.measure(tenant, now);
        if is_ready {
            self.count_as_ready(slot, id);
        }
        let event = Event::Arrive {
            row,
            launch: sequence,
            blocks: demand,
            at: admitted,
        };
        let arrival = Arrival {
            slot,
            stream,
            sequence,
            event,
        };
        if self.device.has_virtual_clock() {
            self.arrivals.push(arrival);
        } else {
            self.flush_blocks();
            self.policy.tell(event);
        }
    }

    /// Counts a launch that was announced among what its tenant could use, now that nothing before it in its stream
    /// holds it up.
    pub(super) fn count_as_ready(&mut self, slot: Slot, id: OperationId) {
        let now = self.now;
        let Some((tenant, operation)) = self.operation_mut(slot, id) else {
            return;
        };
        let Work::Launch(launch) = &mut operation.work else {
            return;
        };
        if launch.told == Told::Behind {
            launch.told = Told::Ready;
            let (shape, blocks, is_submitted) = (launch.shape, launch.blocks, launch.issued > 0);
            self.meter
                .opened(tenant, (&shape, blocks), is_submitted, now);
        }
    }

    /// Measures a tenant's shares while it has a launch open whose demand is known.
    fn measure(&mut self, tenant: TenantId, now: Nanos) {
        let measured = self.accounts.get(tenant).is_some_and(|a| a.is_measured());
        self.meter.set_busy(tenant, measured, now);
    }

    /// Takes note of the first block of a row that ended, after `block_ns`: from now on the policy knows its demand.
    pub(super) fn prove_row(&mut self, id: RowId, block_ns: u64) {
        // The counters include what arrived at this instant.
        self.tell_arrivals();
        self.flush_blocks();
        let at = self.now;
        let Some(row) = self.rows.get_mut(id) else {
            return;
        };
        row.block_ns = match row.predicted_ns {
            0 => block_ns,
            predicted_ns => mean(predicted_ns, block_ns),
        };
        let (tenant, open_launches) = (row.tenant, row.open);
        self.policy.tell(Event::Counters {
            row: id,
            open_launches,
            live: row.live,
            waiting: row.waiting,
            ended: row.ended,
            at,
        });
        if let Some(account) = self.accounts.get_mut(tenant) {
            account.unproven -= open_launches;
        }
        self.measure(tenant, at);
    }

    /// Takes note of a launch that ran into its budget: how long blocks of its row take is unknown again.
    pub(super) fn doubt_row(&mut self, id: RowId) {
        let now = self.now;
        let Some(row) = self.rows.get_mut(id).filter(|row| !row.is_unproven()) else {
            return;
        };
        // Its profile is of launches that ended.
        (row.block_ns, row.slowest_ns, row.predicted_ns) = (0, 0, 0);
        let (tenant, open) = (row.tenant, row.open);
        if let Some(account) = self.accounts.get_mut(tenant) {
            account.unproven += open;
        }
        self.measure(tenant, now);
    }

    /// Tells the policy that a launch has ended or was taken back, if it knows of it.
    pub(super) fn conclude(&mut self, slot: Slot, id: OperationId, at: Nanos) {
        self.flush_blocks();
        let now = self.now;
        let Some((tenant, operation)) = self.operation_mut(slot, id) else {
            return;
        };
        let sequence = operation.sequence;
        let Work::Launch(launch) = &mut operation.work else {
            return;
        };
        let (row, unstarted, shape) = (launch.row, launch.blocks - launch.started, launch.shape);
        match std::mem::take(&mut launch.told) {
            Told::Nothing => return,
            Told::Behind => {}
            Told::Ready => self.meter.ended(tenant, &shape, unstarted, now),
        }
        if let Some(row) = self.rows.get_mut(row) {
            row.open -= 1;
            row.waiting = row.waiting.saturating_sub(unstarted);
            if let Some(account) = self.accounts.get_mut(tenant).filter(|_| row.is_unproven()) {
                account.unproven -= 1;
            }
        }
        let over = self.accounts.close(tenant);
        self.measure(tenant, now);
        if over {
            self.settle_shares(now);
            self.tell_share(tenant);
            // Before its client sees the end, so that who asks after that finds the whole.
            self.publish_share(tenant);
            self.unpark_those_behind();
        }
        // On a virtual clock the launch may have arrived at this very instant.
        let told = self.arrivals.len();
        self.arrivals.retain(|arrival| arrival.sequence != sequence);
        if told == self.arrivals.len() {
            self.policy.tell(Event::Ended {
                row,
                launch: sequence,
                at,
            });
        }
    }

    /// Tells the policy of the arrivals of this instant, in order of client and stream.
    pub(super) fn tell_arrivals(&mut self) {
        if self.arrivals.is_empty() {
            return;
        }
        self.flush_blocks();
        self.arrivals
            .sort_unstable_by_key(|arrival| (arrival.slot, arrival.stream, arrival.sequence));
        for arrival in self.arrivals.drain(..) {
            self.policy.tell(arrival.event);
        }
    }

    /// Keeps what happened to blocks of a launch until it is told.
    pub(super) fn note_blocks(
        &mut self,
        slot: Slot,
        id: OperationId,
        note: impl FnOnce(&mut UnreportedBlocks),
    ) {
        let Some((_, operation)) = self.operation_mut(slot, id) else {
            return;
        };
        let Work::Launch(launch) = &mut operation.work else {
            return;
        };
        note(&mut launch.unreported);
        if !std::mem::replace(&mut launch.unreported.listed, true) {
            self.unreported.push((slot, id));
        }
    }

    /// Tells the policy what happened to blocks since it was last told.
    pub(super) fn flush_blocks(&mut self) {
        let at = self.now;
        while let Some((slot, id)) = self.unreported.pop() {
            let Some((_, operation)) = self.operation_mut(slot, id) else {
                continue;
            };
            let sequence = operation.sequence;
            let Work::Launch(launch) = &mut operation.work else {
                continue;
            };
            let unreported = std::mem::take(&mut launch.unreported);
            let row = launch.row;
            if unreported.listed {
                self.policy.tell(Event::Blocks {
                    row,
                    group: GroupId::UNKNOWN,
                    launch: sequence,
                    started: unreported.started,
                    ended: unreported.ended,
                    ran_ns: unreported.ran_ns,
                    at,
                });
            }
        }
    }

    /// Divides what blocks held until now among those who were busy, where that was not done just now: it looks at each
    /// of them.
    pub(super) fn settle_shares(&mut self, at: Nanos) {
        let soon = SETTLE_NS.saturating_mul(self.meter.unsettled() as u64);
        if (at - self.meter.settled()).0 < soon {
            return self.meter.advance(at);
        }
        self.meter.settle(at);
    }

    /// Tells the policy what a tenant held and was entitled to.
    pub(super) fn tell_share(&mut self, tenant: TenantId) {
        let reading = self.meter.read(tenant);
        let at = self.now;
        self.policy.tell(Event::Share {
            tenant,
            held: reading.held,
            entitled: reading.entitled,
            at,
        });
    }

    /// Wakes the policy at the time it asked for: with the shares of every busy tenant.
    pub(super) fn wake_policy(&mut self, at: Nanos) {
        self.flush_blocks();
        self.settle_shares(at);
        self.busy_scratch.clear();
        let busy = self.accounts.busy.members();
        self.busy_scratch.extend_from_slice(busy);
        // So that events do not depend on the order in which tenants became busy within an instant.
        self.busy_scratch.sort_unstable();
        while let Some(tenant) = self.busy_scratch.pop() {
            self.tell_share(tenant);
        }
        // On a virtual clock the instant gets one timer, when nothing more happens in it: were there two, how often the
        // policy replans would depend on whether it was quick enough to see them apart.
        match self.device.has_virtual_clock() {
            true => self.policy.open_instant(),
            false => _ = self.policy.tell(Event::Timer { at }),
        }
    }

    /// Names every tenant and row that lives to the policy after events were lost, with the rows' state, as far as
    /// there is room; the rest follows in the next turns, and then that this was all.
    pub(super) fn resynchronise(&mut self) {
        if self.policy.take_resync() {
            self.resync_from = Some(0);
            for account in self.accounts.iter() {
                self.policy.tell(Event::Tenant {
                    tenant: account.id,
                    weight: account.weight,
                    class: account.class,
                });
            }
        }
        let Some(from) = self.resync_from else {
            return;
        };
        // Counters contain what has not been told yet, which must not be counted once more behind them.
        self.tell_arrivals();
        self.flush_blocks();
        let at = self.now;
        let mut next = None;
        let (rows, policy) = (&self.rows, &mut self.policy);
        for (id, row) in rows.iter_from(RowId(from)) {
            if !policy.has_room_to_spare(EVENTS_OF_A_ROW) {
                next = Some(id.0);
                break;
            }
            policy.tell(new_row(id, row));
            if row.whole_only {
                policy.tell(Event::Degraded { row: id, at });
            }
            policy.tell(Event::Counters {
                row: id,
                open_launches: row.open,
                live: row.live,
                waiting: row.waiting,
                ended: row.ended,
                at,
            });
        }
        self.resync_from = next;
        if next.is_none() {
            self.policy.end_resync();
        }
    }

    /// Returns an operation and the tenant of its client.
    pub(super) fn operation_mut(
        &mut self,
        slot: Slot,
        id: OperationId,
    ) -> Option<(TenantId, &mut Operation)> {
        let client = self.clients.get_mut(slot)?;
        Some((client.tenant, client.operations.get_mut(id)?))
    }
}

fn new_row(id: RowId, row: &Row) -> Event {
    Event::RowNew {
        row: id,
        tenant: row.tenant,
        block: row.block,
        profile: row.profile,
        spill: row.spill,
    }
}
