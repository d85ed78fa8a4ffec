//! Events from the dispatcher to the policy: rows, arrivals, blocks, ends.
//!
//! Rules: what happened to blocks is kept at their launch and told at every arrival, end, plan and timer, one event per
//! launch. A launch arrives when it becomes active: when it is first in its stream, or follows a launch whose last
//! piece is on the device in a single lane, because its blocks wait only from then on. On a virtual clock the arrivals
//! of an instant are told together, in order of client and stream, so that plans do not depend on the order in which
//! the host's threads ran.
//!
//! How much a launch wants is not known before a block of its row has ended: until then it arrives with what it may be
//! given meanwhile, its tenant's share is not measured for it, and the row's counters follow.

use super::rows::{Row, probe};
use super::{Arrival, PolicyFeed};
use crate::dispatch::admission::clients::ClientTable;
use crate::dispatch::admission::operation::{Told, UnreportedBlocks, Work};
use crate::dispatch::ids::OperationRef;
use gridmux_policy::event::Event;
use gridmux_policy::ids::{GroupId, KernelKey, RowId, TenantId};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;

/// Events that name a row anew, at most.
const EVENTS_OF_A_ROW: usize = 2;
/// Weight of the newest value in running means: one in this many.
const MEAN_OF: u64 = 8;

impl PolicyFeed {
    /// Finds or makes the row of a launch, and tells the policy of a new one and of one that was given up for it.
    pub(in crate::dispatch) fn claim_row(
        &mut self,
        tenant: TenantId,
        (key, block): (KernelKey, &BlockShape),
        whole_only: bool,
    ) -> RowId {
        let claimed = self.rows.claim(tenant, key, block, whole_only);
        if let Some(row) = claimed.gone {
            let sent = self.policy.tell(Event::RowGone { row });
            self.rows.quarantine(row, sent);
        }
        if claimed.is_new
            && let Some(row) = self.rows.get_mut(claimed.row)
        {
            let known = self.profiles.as_ref().filter(|_| !row.spill);
            let known = known.and_then(|profiles| profiles.get(row.profile));
            row.predicted_ns = known.map_or(0, |profile| profile.whole_ns());
            self.policy.tell(existence(claimed.row, row));
        }
        claimed.row
    }

    /// Tells the policy that a launch waits for room, and counts its tenant as busy.
    pub(in crate::dispatch) fn announce<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        op: OperationRef,
        now: Nanos,
    ) {
        let Some((tenant, operation)) = clients.operation_mut(op) else {
            return;
        };
        let (stream, sequence, at) = (operation.stream, operation.sequence, operation.admitted);
        let Work::Launch(launch) = &mut operation.work else {
            return;
        };
        if launch.told != Told::Nothing {
            return;
        }
        launch.told = Told::Behind;
        let (row, blocks, is_ready) = (launch.row, launch.left(), launch.after.is_none());
        let mut demand = blocks;
        self.accounts.open(tenant);
        self.count_working(now);
        if let Some(row) = self.rows.get_mut(row) {
            row.open += 1;
            row.waiting += blocks;
            if let Some(account) = self.accounts.get_mut(tenant).filter(|_| row.is_unproven()) {
                // More than this it is not given before a block has ended, so it is kept from nobody else.
                demand = match account.unproven {
                    0 => blocks.min(probe(self.shape.sms).into()),
                    _ => 0,
                };
                account.unproven += 1;
            }
        }
        self.measure(tenant, now);
        if is_ready {
            self.count_as_ready(clients, op, now);
        }
        let launch = sequence;
        let event = Event::Arrive {
            row,
            launch,
            blocks: demand,
            at,
        };
        if self.is_virtual {
            let slot = op.slot;
            self.arrivals.push(Arrival {
                slot,
                stream,
                sequence,
                event,
            });
        } else {
            self.flush_blocks(clients, now);
            self.policy.tell(event);
        }
    }

    /// Counts a launch that was announced among what its tenant could use, now that nothing before it in its stream
    /// holds it up.
    pub(in crate::dispatch) fn count_as_ready<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        op: OperationRef,
        now: Nanos,
    ) {
        if let Some((tenant, _, launch)) = clients.launch_mut(op)
            && launch.told == Told::Behind
        {
            launch.told = Told::Ready;
            let work = (&launch.shape, launch.left());
            self.meter.opened(tenant, work, launch.issued > 0, now);
        }
    }

    /// Takes note of blocks of a row that ended, which resided for `block_ns` on average. From the first one on the
    /// policy knows the row's demand.
    pub(in crate::dispatch) fn note_block<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        id: RowId,
        block_ns: u64,
        now: Nanos,
    ) {
        let Some(row) = self.rows.get_mut(id) else {
            return;
        };
        if !row.is_unproven() {
            row.block_ns = mean(row.block_ns, block_ns);
            return;
        }
        row.block_ns = match row.predicted_ns {
            0 => block_ns,
            predicted_ns => mean(predicted_ns, block_ns),
        };
        // The counters include what arrived at this instant.
        self.tell_arrivals(clients, now);
        self.flush_blocks(clients, now);
        let Some(row) = self.rows.get(id) else {
            return;
        };
        let (tenant, open) = (row.tenant, row.open);
        self.policy.tell(counters(id, row, now));
        if let Some(account) = self.accounts.get_mut(tenant) {
            account.unproven -= open;
        }
        self.measure(tenant, now);
    }

    /// Takes note of a launch that ran into its budget: how long blocks of its row take is unknown again.
    pub(in crate::dispatch) fn doubt_row(&mut self, id: RowId, now: Nanos) {
        let Some(row) = self.rows.get_mut(id) else {
            return;
        };
        // Its profile is of launches that ended.
        row.predicted_ns = 0;
        if row.is_unproven() {
            return;
        }
        (row.block_ns, row.slowest_ns) = (0, 0);
        let (tenant, open) = (row.tenant, row.open);
        if let Some(account) = self.accounts.get_mut(tenant) {
            account.unproven += open;
        }
        self.measure(tenant, now);
    }

    /// Tells the policy that a launch has ended at `at` or was taken back, if it knows of it; returns whether its
    /// tenant has none open any more.
    pub(in crate::dispatch) fn conclude<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        op: OperationRef,
        at: Nanos,
        now: Nanos,
    ) -> bool {
        self.flush_blocks(clients, now);
        let Some((tenant, sequence, launch)) = clients.launch_mut(op) else {
            return false;
        };
        let (row, unstarted) = (launch.row, launch.blocks - launch.started);
        launch.told_before = launch.started;
        match std::mem::take(&mut launch.told) {
            Told::Nothing => return false,
            Told::Behind => {}
            Told::Ready => self.meter.ended(tenant, &launch.shape, unstarted, now),
        }
        if let Some(row) = self.rows.get_mut(row) {
            row.open -= 1;
            row.waiting = row.waiting.saturating_sub(unstarted);
            if let Some(account) = self.accounts.get_mut(tenant).filter(|_| row.is_unproven()) {
                account.unproven -= 1;
            }
        }
        let over = self.accounts.close(tenant, now);
        self.measure(tenant, now);
        self.count_working(now);
        if over {
            self.settle_shares(now);
            self.tell_share(tenant, now);
            // Before its client sees the end, so that who asks after that finds the whole.
            self.publish_share(tenant);
        }
        // On a virtual clock the launch may have arrived at this very instant.
        let before = self.arrivals.len();
        self.arrivals.retain(|arrival| arrival.sequence != sequence);
        if before == self.arrivals.len() {
            let launch = sequence;
            self.policy.tell(Event::Ended { row, launch, at });
        }
        over
    }

    /// Tells the policy of the arrivals of this instant, in order of client and stream.
    pub(in crate::dispatch) fn tell_arrivals<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        now: Nanos,
    ) {
        if self.arrivals.is_empty() {
            return;
        }
        self.flush_blocks(clients, now);
        self.arrivals
            .sort_unstable_by_key(|arrival| (arrival.slot, arrival.stream, arrival.sequence));
        for arrival in self.arrivals.drain(..) {
            self.policy.tell(arrival.event);
        }
    }

    /// Says that nothing more happens at this instant of virtual time, if something did.
    pub(in crate::dispatch) fn close_instant<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        now: Nanos,
    ) {
        if self.policy.is_instant_open() || self.has_arrivals() {
            self.tell_arrivals(clients, now);
            self.flush_blocks(clients, now);
            self.policy.close_instant(now);
        }
    }

    /// Keeps what happened to blocks of a launch until the policy hears of it.
    pub(in crate::dispatch) fn note_blocks<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        op: OperationRef,
        note: impl FnOnce(&mut UnreportedBlocks),
    ) {
        if let Some((_, _, launch)) = clients.launch_mut(op) {
            note(&mut launch.unreported);
            if !std::mem::replace(&mut launch.unreported.listed, true) {
                self.unreported.push(op);
            }
        }
    }

    /// Tells the policy what happened to blocks since it was last told.
    pub(in crate::dispatch) fn flush_blocks<P>(&mut self, clients: &mut ClientTable<P>, at: Nanos) {
        while let Some(op) = self.unreported.pop() {
            let Some((_, sequence, launch)) = clients.launch_mut(op) else {
                continue;
            };
            let unreported = std::mem::take(&mut launch.unreported);
            if unreported.listed {
                self.policy.tell(Event::Blocks {
                    row: launch.row,
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

    /// Names every tenant and row that lives to the policy after events were lost, with the rows' state, as far as
    /// there is room; the rest follows in the next turns, and then that this was all.
    pub(in crate::dispatch) fn resynchronise<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        now: Nanos,
    ) {
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
        self.tell_arrivals(clients, now);
        self.flush_blocks(clients, now);
        let mut next = None;
        for (id, row) in self.rows.iter_from(RowId(from)) {
            if !self.policy.has_room_to_spare(EVENTS_OF_A_ROW) {
                next = Some(id.0);
                break;
            }
            self.policy.tell(existence(id, row));
            self.policy.tell(counters(id, row, now));
        }
        self.resync_from = next;
        if next.is_none() {
            self.policy.end_resync();
        }
    }

    /// Returns whether the policy is being told what lives, after a loss, so that it does not know enough to plan.
    pub(in crate::dispatch) fn is_resynchronising(&self) -> bool {
        self.resync_from.is_some()
    }
}

/// Returns the event that says that a row exists.
fn existence(id: RowId, row: &Row) -> Event {
    Event::RowNew {
        row: id,
        tenant: row.tenant,
        block: row.block,
        profile: row.profile,
        spill: row.spill,
    }
}

/// Returns the event with a row's counters.
fn counters(id: RowId, row: &Row, at: Nanos) -> Event {
    Event::Counters {
        row: id,
        open_launches: row.open,
        live: row.live,
        waiting: row.waiting,
        ended: row.ended,
        at,
    }
}

/// Returns a running mean after one more value.
fn mean(old: u64, new: u64) -> u64 {
    (old * (MEAN_OF - 1) + new) / MEAN_OF
}
