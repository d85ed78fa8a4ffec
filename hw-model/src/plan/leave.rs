//! Which blocks leave an SM by context switch: those beyond a cap or limit, where the group lends only while one within
//! its own waits for their room, and those that lie in another one's way.
//!
//! Rules: beyond a cap the blocks of the youngest launch leave first, beyond a tenant's limit those of the worst rank,
//! then of the youngest launch; the highest numbers of a launch first. Only groups that switch give blocks up; the
//! others wait for their ends. Where the cheapest way is asked for, a block stays that is expected to end before its
//! row on the SM could be switched twice. Of what was lent no more leaves than makes the room that is waited for: the
//! worst rank first, then the youngest launch.

use super::obey::Obey;
use crate::config::GpuConfig;
use crate::timing::context_switch::{Running, SavedBlock, context_bytes};
use crate::timing::launches::{LaunchState, Launches};
use crate::timing::sm::Sm;
use gridmux_policy::ids::SmId;
use gridmux_policy::plan::{DispatchOrder, Preemption};
use gridmux_policy::shape::{Held, SmUnits};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Where the next context goes: areas that were given back, by length in lines, and the end of the last one.
#[derive(Debug, Default)]
pub(super) struct Areas {
    free: BTreeMap<u64, Vec<u64>>,
    end: u64,
}

impl Areas {
    fn take(&mut self, lines: u64) -> u64 {
        let area = self.free.get_mut(&lines).and_then(Vec::pop);
        area.unwrap_or_else(|| {
            self.end += lines;
            self.end - lines
        })
    }

    pub(super) fn give_back(&mut self, saved: &SavedBlock) {
        let free = self.free.entry(saved.area_lines()).or_default();
        free.push(saved.area());
    }
}

impl Obey {
    /// Finds blocks beyond caps and limits, and switches them out where the group says so.
    pub(super) fn give_up(
        &mut self,
        config: &GpuConfig,
        sms: &mut [Sm],
        launches: &Launches,
        now: u64,
    ) {
        let mut coming = false;
        for sm in 0..sms.len() {
            if !std::mem::take(&mut self.over[sm]) {
                continue;
            }
            let group = self.rules.group_of(sm);
            if !self.rules.preemption(group).switches() {
                continue;
            }
            if self.rules.lends(group) {
                self.open[sm] = true;
                continue;
            }
            self.give_up_on(sm, config, sms, launches, now);
            // A block that is coming back can leave when it has come.
            self.over[sm] = sms[sm].is_coming_back();
        }
        if std::mem::take(&mut self.over_device) {
            coming |= self.give_up_on_device(config, sms, launches, now);
        }
        self.over_device = coming;
    }

    /// Takes blocks beyond the caps and limits off one SM.
    fn give_up_on(
        &mut self,
        sm: usize,
        config: &GpuConfig,
        sms: &mut [Sm],
        launches: &Launches,
        now: u64,
    ) {
        let group = self.rules.group_of(sm);
        self.on_sm.read(&sms[sm]);
        let mut running: Vec<Running> = sms[sm].running().collect();
        let serial = |r: &Running| launches.get(r.launch).map_or(0, |l| l.serial);
        running.sort_by_key(|r| Reverse((serial(r), r.linear)));
        let mut gone = 0_u64;
        for block in &running {
            let beyond =
                self.on_sm.blocks_of(block.row) > self.rules.plan().cap_on(group, block.row);
            if beyond && self.leaves(config, group, block, now) {
                self.switch_out(sms, sm, block);
                gone |= 1 << block.number;
            }
        }
        if self.rules.plan().limits().is_empty() {
            return;
        }
        let rank = |r: &Running| self.rules.plan().rank(r.row);
        running.sort_by_key(|r| Reverse((rank(r), serial(r), r.linear)));
        for block in &running {
            let limit = self.rules.plan().limit_on(group, block.tenant);
            let held = self.on_sm.held(block.tenant);
            let beyond = limit != SmUnits::MAX && held.dominant(&self.rules.shape) > limit;
            let here = gone >> block.number & 1 == 0;
            if beyond && here && self.leaves(config, group, block, now) {
                self.switch_out(sms, sm, block);
            }
        }
    }

    /// Returns whether blocks beyond tenants' limits on the device; true where more have to leave that are coming back
    /// just now.
    fn give_up_on_device(
        &mut self,
        config: &GpuConfig,
        sms: &mut [Sm],
        launches: &Launches,
        now: u64,
    ) -> bool {
        let shape = self.rules.shape;
        let mut coming = false;
        for at in 0..self.rules.plan().limits().len() {
            let limit = self.rules.plan().limits()[at];
            let beyond =
                |obey: &Self| obey.books.held(limit.tenant).dominant(&shape) > limit.device;
            if limit.device == SmUnits::MAX || !beyond(self) {
                continue;
            }
            let mut running: Vec<(usize, Running)> = Vec::new();
            for (sm, state) in sms.iter().enumerate() {
                let group = self.rules.group_of(sm);
                if self.rules.preemption(group).switches() && !self.rules.lends(group) {
                    let own = state.running().filter(|r| r.tenant == limit.tenant);
                    running.extend(own.map(|r| (sm, r)));
                    coming |= state.is_coming_back();
                }
            }
            let serial = |r: &Running| launches.get(r.launch).map_or(0, |l| l.serial);
            let rank = |r: &Running| self.rules.plan().rank(r.row);
            running.sort_by_key(|(_, r)| Reverse((rank(r), serial(r), r.linear)));
            for (sm, block) in &running {
                if !beyond(self) {
                    break;
                }
                self.on_sm.read(&sms[*sm]);
                if self.leaves(config, self.rules.group_of(*sm), block, now) {
                    self.switch_out(sms, *sm, block);
                }
            }
        }
        coming
    }

    /// Switches out blocks beyond caps and limits on the SM that is being looked at, which lends, until a launch within
    /// its own has room there for its part of what it waits with. No more SMs do so for it at a time than that takes.
    pub(super) fn take_back(
        &mut self,
        sm: usize,
        index: u32,
        config: &GpuConfig,
        (sms, launches): (&mut [Sm], &Launches),
        now: u64,
    ) {
        let group = self.rules.group_of(sm);
        let Some(launch) = launches.get(index) else {
            return;
        };
        if !self.rules.preemption(group).switches() {
            return;
        }
        // What comes just now can leave when it has come.
        self.over[sm] = sms[sm].present().count() > sms[sm].running().count();
        let waiting = self.waiting(index, launch);
        let count = self.rules.plan().groups()[group].sms.len();
        let part = u32::try_from(waiting.div_ceil(u64::from(count))).unwrap_or(u32::MAX);
        let part = part
            .min(self.room_below_cap(group, launch.row))
            .min(self.room_within_limits(group, launch));
        let leaving = sms.iter().filter(|sm| sm.is_leaving()).count() as u64;
        if leaving * u64::from(part) >= waiting {
            return;
        }
        let mut running: Vec<Running> = sms[sm].running().collect();
        let serial = |r: &Running| launches.get(r.launch).map_or(0, |l| l.serial);
        let rank = |r: &Running| self.rules.plan().rank(r.row);
        running.sort_by_key(|r| Reverse((rank(r), serial(r), r.linear)));
        for block in &running {
            if sms[sm].fits_soon(&launch.needs) >= part {
                return;
            }
            if self.is_beyond(group, block) && self.leaves(config, group, block, now) {
                self.switch_out(sms, sm, block);
            }
        }
    }

    /// Returns whether a block's row is beyond its cap on the SM that is being looked at, or its tenant beyond a limit.
    fn is_beyond(&self, group: usize, block: &Running) -> bool {
        let (plan, shape, tenant) = (self.rules.plan(), &self.rules.shape, block.tenant);
        let beyond = |held: Held, limit| limit != SmUnits::MAX && held.dominant(shape) > limit;
        self.on_sm.blocks_of(block.row) > plan.cap_on(group, block.row)
            || beyond(self.on_sm.held(tenant), plan.limit_on(group, tenant))
            || beyond(self.books.held(tenant), plan.device_limit(tenant))
    }

    /// Returns whether a block that is to leave is switched out; it stays where its end is expected before its row on
    /// the SM could be switched twice.
    fn leaves(&self, config: &GpuConfig, group: usize, block: &Running, now: u64) -> bool {
        self.rules.preemption(group) != Preemption::Cheapest || self.pays(config, block, now)
    }

    /// Returns whether switching a block of the SM that is being looked at out and in again takes less than half of
    /// what it may still have to run (Chimera's estimate: the mean of its row's ended blocks, less its own time):
    /// nothing moves for less than twice its cost. Contexts of the SM pass through one engine, so that a block is
    /// taken to take as long as all of its row there. Without an ended block the switch pays.
    fn pays(&self, config: &GpuConfig, block: &Running, now: u64) -> bool {
        let (sum, count) = self.books.row(block.row).ran;
        let Some(mean) = sum.checked_div(count) else {
            return true;
        };
        let left = mean.saturating_sub(now.saturating_sub(block.started));
        let rate = u64::from(config.interconnect.request_bytes_per_cycle).max(1);
        let cost = if self.options.free_switches {
            0
        } else {
            // Half of the port is the engine's.
            let each = 4 * context_bytes(&block.needs) / rate;
            each * u64::from(self.on_sm.blocks_of(block.row).max(1))
        };
        2 * cost < left
    }

    /// Returns where a launch is in a group's dispatch order.
    fn place_in_order(&self, group: usize, launch: &LaunchState) -> (u32, u64) {
        let rank = match self.rules.order(group) {
            DispatchOrder::Rank => self.rules.plan().rank(launch.row),
            DispatchOrder::Arrival => 0,
        };
        (rank, launch.serial)
    }

    /// Moves a block that lies in the way, where there is enough room in sum and not in one piece.
    pub(super) fn relocate(
        &mut self,
        sm: usize,
        sms: &mut [Sm],
        launches: &Launches,
        waiting: &LaunchState,
    ) {
        let group = self.rules.group_of(sm);
        let needs = &waiting.needs;
        if !self.rules.preemption(group).switches()
            || self.relocated[sm]
            || sms[sm].is_leaving()
            || !sms[sm].holds_in_sum(needs)
        {
            return;
        }
        let place = self.place_in_order(group, waiting);
        let victims = sms[sm].running().filter(|r| {
            let of = launches.get(r.launch);
            let first = of.is_some_and(|l| self.place_in_order(group, l) < place);
            sms[sm].would_fit(r.number, needs, first)
        });
        let smallest = victims.min_by_key(|r| (context_bytes(&r.needs), Reverse(r.linear)));
        if let Some(victim) = smallest {
            self.relocated[sm] = true;
            self.switch_out(sms, sm, &victim);
        }
    }

    fn switch_out(&mut self, sms: &mut [Sm], sm: usize, block: &Running) {
        let lines = context_bytes(&block.needs).div_ceil(crate::config::LINE_BYTES);
        let area = self.areas.take(lines);
        sms[sm].switch_out(block.number, area, self.options.free_switches);
        let counted = block.needs.counted();
        self.on_sm.remove(block.row, block.tenant, &counted);
        self.release(block.tenant, &counted);
    }

    /// Switches out the nth running block of an SM: the research interface.
    pub(crate) fn switch_out_nth(&mut self, sms: &mut [Sm], sm: SmId, nth: usize) -> bool {
        let Some(here) = sms.get(sm.index()) else {
            return false;
        };
        let Some(block) = here.running().nth(nth) else {
            return false;
        };
        self.on_sm.read(here);
        self.switch_out(sms, sm.index(), &block);
        true
    }
}
