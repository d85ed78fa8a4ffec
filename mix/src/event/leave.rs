//! Which blocks leave an SM by context switch: those beyond a cap or limit of a new plan, and those that were lent room
//! for which one within its own waits.
//!
//! Rules: beyond a cap the blocks of the youngest launch leave first, beyond a tenant's limit those of the worst rank,
//! then of the youngest launch; the highest numbers of a launch first. Only groups that switch give blocks up; the
//! others wait for their ends. Where the cheapest way is asked for, a block stays that is expected to end sooner than
//! its switch would take. What was lent leaves when its room is waited for, and no more of it than makes that room: the
//! worst rank first, then the youngest launch.

use super::EventExecutor;
use super::place::group_of;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::plan::Preemption;
use gridmux_policy::shape::{Held, SmUnits};
use std::cmp::Reverse;

/// A block that may leave.
#[derive(Debug, Clone, Copy)]
struct Running {
    sm: usize,
    slot: u32,
    block: u64,
    serial: u64,
    row: RowId,
    tenant: TenantId,
    /// Its residence so far.
    ran: u64,
}

impl EventExecutor {
    /// Switches out what is beyond the newest plan's caps and limits, once for each plan.
    pub(super) fn give_up(&mut self) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        for sm in 0..self.sms.len() {
            let group = group_of(self, sm);
            if self.preemption(group).switches() && !self.lends(group) {
                self.give_up_on(sm, group);
            }
        }
        for at in 0..self.plan.limits().len() {
            let limit = self.plan.limits()[at];
            self.give_up_on_device(limit.tenant, limit.device);
        }
    }

    fn preemption(&self, group: usize) -> Preemption {
        let group = self.plan.groups().get(group);
        group.map_or(Preemption::None, |group| group.preemption)
    }

    /// Gives up blocks beyond the caps and limits of one SM.
    fn give_up_on(&mut self, sm: usize, group: usize) {
        let mut running = self.running_on(sm);
        running.sort_by_key(|r| Reverse((r.serial, r.block)));
        running.retain(|r| {
            let beyond = self.sms[sm].blocks_of(r.row) > self.plan.cap_on(group, r.row);
            !(beyond && self.leave(r))
        });
        if self.plan.limits().is_empty() {
            return;
        }
        running.sort_by_key(|r| Reverse((self.plan.rank(r.row), r.serial, r.block)));
        for block in &running {
            let limit = self.plan.limit_on(group, block.tenant);
            let held = self.held_on(sm, block.tenant);
            if limit != SmUnits::MAX && held.dominant(&self.config.shape) > limit {
                self.leave(block);
            }
        }
    }

    /// Gives up blocks beyond a tenant's limit on the device.
    fn give_up_on_device(&mut self, tenant: TenantId, limit: SmUnits) {
        let shape = self.config.shape;
        let beyond = |executor: &Self| executor.held(tenant).dominant(&shape) > limit;
        if limit == SmUnits::MAX || !beyond(self) {
            return;
        }
        let all = 0..self.sms.len();
        let switching = all.filter(|sm| {
            let group = group_of(self, *sm);
            self.preemption(group).switches() && !self.lends(group)
        });
        let mut running: Vec<Running> = switching.flat_map(|sm| self.running_on(sm)).collect();
        running.retain(|r| r.tenant == tenant);
        running.sort_by_key(|r| Reverse((self.plan.rank(r.row), r.serial, r.block)));
        for block in &running {
            if !beyond(self) {
                return;
            }
            self.leave(block);
        }
    }

    /// Switches out blocks beyond caps and limits on an SM that lends, until a launch within its own has room there for
    /// its part of what it waits with. No more SMs do so for it at a time than that takes.
    pub(super) fn take_back(&mut self, sm: usize, group: usize, slot: u32) {
        if !self.preemption(group).switches() {
            return;
        }
        let launch = self.launches.get(slot);
        let (shape, waiting) = (launch.kernel.block, launch.waiting());
        let sms = self.plan.groups()[group].sms.len();
        let part = u32::try_from(waiting.div_ceil(u64::from(sms))).unwrap_or(u32::MAX);
        let part = part
            .min(self.room_below_cap(sm, group, launch.row))
            .min(self.room_within_limits(sm, group, launch));
        let leaving = self.sms.iter().filter(|sm| sm.is_leaving()).count() as u64;
        if leaving * u64::from(part) >= waiting {
            return;
        }
        let mut running = self.running_on(sm);
        running.sort_by_key(|r| Reverse((self.plan.rank(r.row), r.serial, r.block)));
        for block in &running {
            if self.sms[sm].fits_soon(&shape) >= part {
                return;
            }
            if self.is_beyond(group, block) {
                self.leave(block);
            }
        }
    }

    /// Returns whether a block's row is beyond its cap on the SM of that block, or its tenant beyond a limit.
    fn is_beyond(&self, group: usize, block: &Running) -> bool {
        let (plan, shape, tenant) = (&self.plan, &self.config.shape, block.tenant);
        let beyond = |held: Held, limit| limit != SmUnits::MAX && held.dominant(shape) > limit;
        self.sms[block.sm].blocks_of(block.row) > plan.cap_on(group, block.row)
            || beyond(self.held_on(block.sm, tenant), plan.limit_on(group, tenant))
            || beyond(self.held(tenant), plan.device_limit(tenant))
    }

    fn running_on(&self, sm: usize) -> Vec<Running> {
        let cohorts = self.sms[sm].cohorts.iter();
        cohorts
            .flat_map(|cohort| {
                let serial = self.launches.get(cohort.launch).serial;
                cohort.blocks.iter().map(move |resident| Running {
                    sm,
                    slot: cohort.launch,
                    block: resident.block,
                    serial,
                    row: cohort.row,
                    tenant: cohort.tenant,
                    ran: resident.ran(self.now),
                })
            })
            .collect()
    }

    /// Switches a block out, unless it is expected to end sooner; returns whether it leaves.
    fn leave(&mut self, block: &Running) -> bool {
        let shape = self.launches.get(block.slot).kernel.block;
        let bytes = u64::from(shape.registers) * 4 + u64::from(shape.shared_bytes);
        let cycles = self.switch_cycles(bytes);
        let cheapest = self.preemption(group_of(self, block.sm)) == Preemption::Cheapest;
        if cheapest && !self.pays(block, cycles) {
            return false;
        }
        self.sms[block.sm].pass_to(self.now);
        self.sms[block.sm].switch_out(block.slot, block.block, cycles, bytes);
        self.moved.set(block.sm);
        self.release(block.slot);
        true
    }

    /// Returns whether switching a block out and in again costs less than what it probably still has to run (Chimera's
    /// estimate: the mean of its row's ended blocks, less its own time). Without an ended block the switch pays.
    fn pays(&self, block: &Running, cycles: f64) -> bool {
        let book = self.rows.get(block.row.index());
        let Some(mean) = book.and_then(|book| book.ran.checked_div(book.ended)) else {
            return true;
        };
        2.0 * cycles < mean.saturating_sub(block.ran) as f64
    }

    /// Returns how long a context takes to leave or to come back.
    pub(super) fn switch_cycles(&self, bytes: u64) -> f64 {
        bytes as f64 / self.config.contention.context_bytes_per_cycle
    }
}
