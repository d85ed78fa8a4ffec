//! What tenants hold and are entitled to: measured, told to the policy, and published.

use super::PolicyFeed;
use crate::dispatch::admission::clients::ClientTable;
use gridmux_policy::event::Event;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::units::Nanos;

/// Shares are settled at most once in this time for each tenant that was busy.
const SETTLE_NS: u64 = 500;
/// Wall time between two publications of shares.
const PUBLISH_WALL_NS: u64 = 5_000_000;
/// The same in device time, where that is virtual and may pass faster.
const PUBLISH_NS: u64 = 100_000;

impl PolicyFeed {
    /// Measures a tenant's shares while it has a launch open whose demand is known.
    pub(super) fn measure(&mut self, tenant: TenantId, now: Nanos) {
        let measured = self.accounts.get(tenant).is_some_and(|a| a.is_measured());
        self.meter.set_busy(tenant, measured, now);
    }

    /// Tells the meter how many tenants have a launch open.
    pub(super) fn count_working(&mut self, now: Nanos) {
        self.meter.set_working(self.accounts.busy.len(), now);
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
    pub(super) fn tell_share(&mut self, tenant: TenantId, at: Nanos) {
        let reading = self.meter.read(tenant);
        self.policy.tell(Event::Share {
            tenant,
            held: reading.held,
            entitled: reading.entitled,
            at,
        });
    }

    /// Counts for how long `blocks` of a row resided in company, and how long they do alone where that is known.
    pub(in crate::dispatch) fn compare_with_alone(&self, row: RowId, blocks: u32, ran: Nanos) {
        if !self.meter.is_company() {
            return;
        }
        let row = self.rows.get(row).filter(|row| !row.spill);
        let (Some(row), Some(profiles)) = (row, &self.profiles) else {
            return;
        };
        let alone = profiles.get(row.profile).filter(|profile| profile.alone);
        if let (Some(alone), Some(account)) = (alone, self.accounts.get(row.tenant)) {
            let alone_ns = alone.whole_ns().saturating_mul(blocks.into());
            account.counters.resided(ran, Nanos(alone_ns));
        }
    }

    /// Publishes what a tenant held and was entitled to.
    pub(in crate::dispatch) fn publish_share(&mut self, tenant: TenantId) {
        if let Some(account) = self.accounts.get(tenant) {
            let waits = account.open > 0 && self.meter.held_now(tenant).blocks() == 0;
            account
                .counters
                .share(&self.meter.read_settled(tenant), waits);
        }
    }

    /// Publishes, when it is time, what every busy tenant held and was entitled to. Those that have none open any more
    /// were published when their last launch ended.
    pub(in crate::dispatch) fn publish_shares(&mut self, wall_ns: u64, now: Nanos) {
        if !self.is_time_after(self.published, (wall_ns, now)) {
            return;
        }
        self.published = (wall_ns, now);
        for place in 0..self.accounts.busy.len() {
            let tenant = self.accounts.busy.members()[place];
            self.publish_share(tenant);
        }
    }

    /// Returns whether it is time to publish what binds tenants, and takes that for done.
    pub(in crate::dispatch) fn is_time_for_bindings(&mut self, wall_ns: u64, now: Nanos) -> bool {
        let is_time = self.is_time_after(self.published_bindings, (wall_ns, now));
        if is_time {
            self.published_bindings = (wall_ns, now);
        }
        is_time
    }

    /// Returns whether a publication is due at a wall time and a device time, after one at others.
    fn is_time_after(&self, before: (u64, Nanos), (wall_ns, now): (u64, Nanos)) -> bool {
        let soon = self.is_virtual && (now - before.1).0 >= PUBLISH_NS;
        soon || wall_ns.saturating_sub(before.0) >= PUBLISH_WALL_NS
    }

    /// Wakes the policy on a real clock when the time that it asked for has come, once for each such time; returns
    /// whether it did. (A virtual clock does so when it pauses.)
    pub(in crate::dispatch) fn wake_policy_in_time<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        now: Nanos,
    ) -> bool {
        let due = self.policy.wake_at().filter(|wake| *wake <= now);
        let Some(wake) = due.filter(|wake| self.woken_for != Some(*wake)) else {
            return false;
        };
        self.woken_for = Some(wake);
        self.wake_policy(clients, now, now);
        true
    }

    /// Wakes the policy at the time it asked for: with the shares of every busy tenant.
    pub(in crate::dispatch) fn wake_policy<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        at: Nanos,
        now: Nanos,
    ) {
        self.flush_blocks(clients, now);
        self.settle_shares(at);
        self.busy_scratch.clear();
        let busy = self.accounts.busy.members();
        self.busy_scratch.extend_from_slice(busy);
        // So that events do not depend on the order in which tenants became busy within an instant.
        self.busy_scratch.sort_unstable();
        while let Some(tenant) = self.busy_scratch.pop() {
            self.tell_share(tenant, now);
        }
        // On a virtual clock the instant gets one timer, when nothing more happens in it: were there two, how often the
        // policy replans would depend on whether it was quick enough to see them apart.
        match self.is_virtual {
            true => self.policy.open_instant(),
            false => _ = self.policy.tell(Event::Timer { at }),
        }
    }
}
