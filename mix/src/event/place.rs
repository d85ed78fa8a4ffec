//! The block scheduler: fills SMs with what the plan permits.
//!
//! SMs take blocks in turn, one each. Of the launches at the head of their queues, in the group's dispatch order, the
//! first that may have a block more and fits gets the room. Where the group lends, the first that fits gets it beyond
//! cap and limit, unless one within its own waits for room there, for which what was lent leaves ([`super::leave`]).
//!
//! Rules: launches of equal rank go in order of arrival; an SM is looked at again only after something there changed.

use super::EventExecutor;
use super::launches::Launch;
use crate::driver::BlockChange;
use gridmux_policy::ids::{RowId, SmId, TenantId};
use gridmux_policy::plan::{DispatchOrder, Surplus};
use gridmux_policy::shape::{Held, SmUnits};

/// A change of the demand of DRAM that changes no speeds, as part of the demand.
const A_LITTLE: f64 = 0.01;

/// What an SM gets next.
enum Choice {
    /// The next block of the launch in a slot.
    Start(u32),
    /// A switched block of the launch in a slot.
    Restore(u32, u64),
}

impl EventExecutor {
    /// Places what the plan permits now, and computes when something happens next on the SMs where something moved.
    pub(super) fn place(&mut self) {
        self.give_up();
        if self.open.any() {
            self.fill();
        }
        self.share_dram();
        let Self {
            moved,
            sms,
            next_at,
            dram,
            ..
        } = self;
        moved.take(|sm| next_at.set(sm, sms[sm].plan_ahead(*dram)));
    }

    /// Finds what residents demand of DRAM. Where that has changed by more than a little, no SM goes on as before.
    fn share_dram(&mut self) {
        let Self { moved, sms, .. } = self;
        let mut more = 0.0;
        moved.each(|sm| more += sms[sm].more_dram());
        self.demanded += more / self.sms.len() as f64;
        let most = self.demanded.max(self.dram);
        if (self.demanded - self.dram).abs() > A_LITTLE * most {
            self.dram = self.demanded;
            let now = self.now;
            self.sms.iter_mut().for_each(|sm| sm.pass_to(now));
            self.moved.fill();
        }
    }

    /// Gives SMs blocks, until none may take one.
    fn fill(&mut self) {
        let mut from = self.turn;
        while let Some(sm) = self.open.next(from) {
            if self.dispatch_at >= self.next_cycle() {
                return;
            }
            // The last block of a launch makes other launches candidates.
            self.launches.sort(&self.plan, self.now);
            from = (sm + 1) % self.sms.len();
            let Some(choice) = self.choose(sm) else {
                self.open.clear(sm);
                continue;
            };
            self.turn = from;
            match choice {
                Choice::Start(slot) => self.start(sm, slot),
                Choice::Restore(slot, block) => self.restore(sm, slot, block),
            }
        }
    }

    /// Returns what an SM takes next.
    fn choose(&mut self, sm: usize) -> Option<Choice> {
        let group = group_of(self, sm);
        let rules = self.plan.groups().get(group);
        let ranked = rules.is_some_and(|group| group.order == DispatchOrder::Rank);
        let in_line = rules.is_some_and(|group| group.head_of_line);
        // Who could use the room beyond his own, and who waits for room within his.
        let (mut borrower, mut lender) = (None, None);
        for at in 0..self.launches.candidates(ranked).len() {
            let slot = self.launches.candidates(ranked)[at];
            let launch = self.launches.get(slot);
            let row = launch.row;
            let next = match launch.saved.first_key_value() {
                Some((block, _)) => Choice::Restore(slot, *block),
                None => Choice::Start(slot),
            };
            let may = matches!(next, Choice::Restore(..)) || self.may_start(row);
            let is_own = self.room_within_limits(sm, group, launch) > 0
                && self.room_below_cap(sm, group, row) > 0;
            match self.sms[sm].room.holds(&launch.kernel.block) {
                true if may && is_own => return Some(next),
                true if may => drop(borrower.get_or_insert(next)),
                false if may && is_own => drop(lender.get_or_insert(slot)),
                _ => {}
            }
            if in_line {
                break;
            }
        }
        match lender {
            _ if !self.lends(group) => None,
            None => borrower,
            Some(slot) => {
                self.take_back(sm, group, slot);
                None
            }
        }
    }

    /// Returns whether a group lends what nobody within cap and limit can use.
    pub(super) fn lends(&self, group: usize) -> bool {
        let group = self.plan.groups().get(group);
        group.is_some_and(|group| group.surplus == Surplus::Lend)
    }

    /// Returns how many blocks more a row's cap permits on an SM.
    pub(super) fn room_below_cap(&self, sm: usize, group: usize, row: RowId) -> u32 {
        let cap = self.plan.cap_on(group, row);
        cap.saturating_sub(self.sms[sm].blocks_of(row))
    }

    /// Returns what a tenant's blocks hold on an SM.
    pub(super) fn held_on(&self, sm: usize, tenant: TenantId) -> Held {
        let mut held = Held::default();
        for cohort in self.sms[sm].cohorts.iter().filter(|c| c.tenant == tenant) {
            held.add(
                &cohort.shape,
                u32::try_from(cohort.blocks.len()).unwrap_or(u32::MAX),
            );
        }
        held
    }

    /// Returns what a tenant's blocks hold on the device.
    pub(super) fn held(&self, tenant: TenantId) -> Held {
        self.tenants
            .get(tenant.index())
            .copied()
            .unwrap_or_default()
    }

    /// Returns how many blocks more of a launch keep its tenant within its limits on an SM and on the device.
    pub(super) fn room_within_limits(&self, sm: usize, group: usize, launch: &Launch) -> u32 {
        let tenant = launch.tenant;
        if self.plan.limit_place(tenant).is_none() {
            return u32::MAX;
        }
        let shape = &self.config.shape;
        let room = |held: Held, limit| held.room_within(shape, limit, &launch.kernel.block);
        room(self.held_on(sm, tenant), self.plan.limit_on(group, tenant))
            .min(room(self.held(tenant), self.plan.device_limit(tenant)))
    }

    /// Takes note of a launch that has got a block: where it no longer waits within its own, any SM may lend.
    fn got_block(&mut self, slot: u32) {
        let launch = self.launches.get(slot);
        let is_limited = self.plan.device_limit(launch.tenant) != SmUnits::MAX;
        let waits = launch.waiting() > 0 && self.may_start(launch.row);
        if self.is_lending && (is_limited || !waits) {
            self.open.fill();
        }
    }

    fn may_start(&self, row: RowId) -> bool {
        let started = self.rows.get(row.index()).map_or(0, |book| book.started);
        self.plan.budget(row).is_none_or(|most| started < most)
    }

    /// Starts a launch's next block on an SM.
    fn start(&mut self, sm: usize, slot: u32) {
        self.dispatch();
        let launch = self.launches.get_mut(slot);
        let block = launch.started;
        launch.started += 1;
        let done = launch.started == launch.blocks;
        let (row, tenant, shape) = (launch.row, launch.tenant, launch.kernel.block);
        let work = launch.work.work_of(block);
        if done {
            self.launches.stale = true;
            // It may have held up others on any SM.
            self.open.fill();
        }
        self.row(row).started += 1;
        self.tenant(tenant).add(&shape, 1);
        self.got_block(slot);
        let now = self.now;
        let on = (slot, self.launches.get(slot));
        self.sms[sm].pass_to(now);
        self.sms[sm].place(on, block, (work, 0.0), 0);
        self.moved.set(sm);
        self.record(sm, slot, block, BlockChange::Placed);
    }

    /// Brings a switched block back to an SM.
    fn restore(&mut self, sm: usize, slot: u32, block: u64) {
        self.dispatch();
        let launch = self.launches.get_mut(slot);
        let Some(saved) = launch.saved.remove(&block) else {
            return;
        };
        let (tenant, shape) = (launch.tenant, launch.kernel.block);
        self.launches.stale = true;
        self.tenant(tenant).add(&shape, 1);
        self.got_block(slot);
        let delay = self.switch_cycles(saved.bytes);
        let now = self.now;
        let on = (slot, self.launches.get(slot));
        self.sms[sm].pass_to(now);
        self.sms[sm].place(on, block, (saved.work, delay), saved.ran);
        self.moved.set(sm);
        let bytes = saved.bytes;
        self.record(sm, slot, block, BlockChange::SwitchedIn { bytes });
    }

    /// Takes the device's turn to start a block.
    fn dispatch(&mut self) {
        let now = self.now as f64;
        self.dispatch_at = self.dispatch_at.max(now) + self.config.contention.dispatch_cycles;
    }

    /// Returns the time one cycle from now.
    fn next_cycle(&self) -> f64 {
        (self.now + 1) as f64
    }

    /// Returns when the device can start a block again, if some SM may take one.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "times stay below 2^53 cycles and are not negative"
    )]
    pub(super) fn next_dispatch(&self) -> u64 {
        match self.open.any() {
            true => (self.dispatch_at as u64).max(self.now + 1),
            false => u64::MAX,
        }
    }
}

/// Returns the place of an SM's group in the plan; one past the last for an SM that is in none.
pub(super) fn group_of(executor: &EventExecutor, sm: usize) -> usize {
    let plan = &executor.plan;
    let group = plan.group_of(SmId(u16::try_from(sm).unwrap_or(u16::MAX)));
    group.map_or(plan.groups().len(), |group| usize::from(group.0))
}
