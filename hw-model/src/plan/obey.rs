//! The block scheduler of `plan` mode.
//!
//! Between epochs it fills the SMs on which something changed, in turn, one block per `block_interval_cycles`: of the
//! launches at the head of their queues, in the group's fill order, the first that may have a block more and fits
//! gets the room. Where a new plan leaves an SM with more blocks than a cap, blocks leave by context switch if the
//! group says so, the highest numbers first.
//! Rules: blocks of a launch start in ascending order; a switched block comes back before its launch starts a new
//! one; a block that was started runs to its end somewhere; an SM is looked at again only after something there
//! changed; blocks on their way out hold room, but count towards no cap.

use super::rules::Rules;
use super::{BlockChange, BlockEvent, PlanNote, PlanOptions, Spent};
use crate::config::GpuConfig;
use crate::timing::context_switch::{Running, SavedBlock, context_bytes};
use crate::timing::dispatch::{Dispatcher, Placement};
use crate::timing::launches::{LaunchState, Launches};
use crate::timing::quota::QuotaWeights;
use crate::timing::sm::Sm;
use gridmux_policy::ids::{KernelId, SmId};
use gridmux_policy::plan::{Fill, GiveUp, Plan};
use gridmux_policy::publish::PlanReader;
use gridmux_policy::units::Cycles;
use std::collections::BTreeMap;

/// A launch that may have blocks to place.
#[derive(Debug, Clone, Copy)]
struct Work {
    eligible_at: u64,
    serial: u64,
    launch: u32,
    kernel: KernelId,
}

/// What an SM gets next.
enum Choice {
    Start(u32),
    Restore(u32, u64),
}

/// The block scheduler and what it remembers.
#[derive(Debug)]
pub(crate) struct Obey {
    pub(crate) options: PlanOptions,
    pub(crate) notes: Vec<PlanNote>,
    pub(crate) reader: Option<PlanReader>,
    pub(crate) records: bool,
    pub(crate) events: Vec<BlockEvent>,
    rules: Rules,
    /// SMs that may take a block.
    open: Vec<bool>,
    /// SMs on which a block was moved for another one since something ended there.
    relocated: Vec<bool>,
    /// Switched blocks, by launch and number.
    saved: BTreeMap<(u32, u64), Box<SavedBlock>>,
    /// When a launch becomes eligible that was passed over.
    wake_at: u64,
    /// Caps may be exceeded somewhere.
    over: bool,
    /// Where the next context goes: areas that were given back, by length in lines, and the end of the last one.
    areas: BTreeMap<u64, Vec<u64>>,
    areas_end: u64,
    /// Cycles and number of ended blocks, by row.
    ran: BTreeMap<KernelId, (u64, u64)>,
    work: Vec<Work>,
    /// Orders of `work`, by group.
    orders: Vec<Vec<usize>>,
}

impl Obey {
    pub(crate) fn new(config: &GpuConfig, plan: &Plan) -> Self {
        let mut notes = Vec::new();
        let sms = usize::from(config.sm.count);
        Self {
            options: PlanOptions::default(),
            rules: Rules::new(config, plan, &mut notes),
            notes,
            reader: None,
            records: false,
            events: Vec::new(),
            open: vec![true; sms],
            relocated: vec![false; sms],
            saved: BTreeMap::new(),
            wake_at: u64::MAX,
            over: true,
            areas: BTreeMap::new(),
            areas_end: 0,
            ran: BTreeMap::new(),
            work: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// Obeys another plan from now on.
    pub(crate) fn replace(&mut self, config: &GpuConfig, plan: &Plan, sms: &mut [Sm], now: u64) {
        self.notes.clear();
        self.rules = Rules::new(config, plan, &mut self.notes);
        self.apply_weights(sms, now);
        self.opened_all();
        self.relocated.fill(false);
        self.over = true;
    }

    /// Reads the newest plan, where plans are followed.
    pub(crate) fn follow(&mut self, config: &GpuConfig, sms: &mut [Sm], now: u64) {
        let Some(mut reader) = self.reader.take() else {
            return;
        };
        let plan = reader.read();
        if plan.epoch != self.rules.epoch {
            self.replace(config, plan, sms, now);
        }
        self.reader = Some(reader);
    }

    /// Gives the SMs the quotas that follow from the plan's issue weights.
    pub(crate) fn apply_weights(&self, sms: &mut [Sm], now: u64) {
        for (group, _) in self.rules.groups.iter().enumerate() {
            let (rows, on) = self.rules.weights(group);
            let weights = QuotaWeights {
                on,
                yields: self.options.spent == Spent::Yields,
                rows: &rows,
                default_weight: self.rules.default_weight(),
                epoch_cycles: self.options.quota_epoch.0,
            };
            let numbered = sms.iter_mut().zip(&self.rules.group_of);
            for (sm, _) in numbered.filter(|(_, of)| **of == group) {
                sm.set_quotas(&weights, now);
            }
        }
    }

    /// A launch came or went.
    pub(crate) fn opened_all(&mut self) {
        self.open.fill(true);
    }

    /// A block ended.
    pub(crate) fn retired(&mut self, sm: usize, kernel: KernelId, ran_cycles: u64) {
        self.open[sm] = true;
        self.relocated[sm] = false;
        let (sum, count) = self.ran.entry(kernel).or_default();
        *sum += ran_cycles;
        *count += 1;
    }

    /// A block was switched out. Its place may be on any SM.
    pub(crate) fn saved(&mut self, saved: Box<SavedBlock>) {
        self.saved.insert((saved.launch, saved.linear), saved);
        self.opened_all();
    }

    /// A launch is gone.
    pub(crate) fn dropped(&mut self, launch: u32) {
        let of_launch = |key: &(u32, u64)| key.0 == launch;
        let keys: Vec<_> = self.saved.keys().copied().filter(of_launch).collect();
        for key in keys {
            if let Some(saved) = self.saved.remove(&key) {
                self.give_area_back(&saved);
            }
        }
        self.opened_all();
    }

    /// A block of a launch that is on no SM.
    pub(crate) fn saved_block(&self, launch: u32) -> Option<&SavedBlock> {
        self.first_saved(launch).map(|(_, saved)| saved)
    }

    /// Blocks that are on no SM.
    pub(crate) fn saved_blocks(&self) -> usize {
        self.saved.len()
    }

    pub(crate) fn record(&mut self, event: BlockEvent) {
        if self.records {
            self.events.push(event);
        }
    }

    /// When the next block could be placed, if nothing is freed before.
    pub(crate) fn next_event(&self, dispatcher: &Dispatcher) -> Option<u64> {
        if self.open.contains(&true) || self.over {
            return Some(dispatcher.next_place_at());
        }
        (self.wake_at != u64::MAX).then_some(self.wake_at.max(dispatcher.next_place_at()))
    }

    /// Switches out and places what the plan says between `now` and `end`.
    pub(crate) fn place(
        &mut self,
        config: &GpuConfig,
        dispatcher: &mut Dispatcher,
        (sms, launches): (&mut [Sm], &mut Launches),
        (now, end): (u64, u64),
        placed: &mut Vec<Placement>,
    ) {
        if std::mem::take(&mut self.over) {
            self.give_up(config, sms, launches, now);
        }
        let mut time = dispatcher.next_place_at().max(now);
        if time >= self.wake_at {
            self.opened_all();
        }
        if !self.open.contains(&true) {
            return;
        }
        self.find_work(dispatcher, launches);
        while time < end {
            self.wake_at = u64::MAX;
            let count = sms.len();
            let first = dispatcher.next_sm();
            let found = (0..count).find_map(|step| {
                let sm = (first + step) % count;
                let choice = self.open[sm].then(|| self.choose(sm, sms, launches, time))?;
                self.open[sm] = choice.is_some();
                Some((sm, choice?))
            });
            let Some((sm, choice)) = found else {
                if self.wake_at >= end {
                    return;
                }
                time = self.wake_at;
                self.opened_all();
                continue;
            };
            match choice {
                Choice::Start(launch) => {
                    self.start(sm, launch, time, sms, launches, dispatcher);
                    placed.push(Placement { launch, at: time });
                }
                Choice::Restore(launch, linear) => {
                    self.restore(sm, (launch, linear), time, sms, launches)
                }
            }
            dispatcher.placed_at(sm, count, time);
            time = dispatcher.next_place_at().max(time);
        }
    }

    /// Launches with blocks to place, in each group's fill order.
    fn find_work(&mut self, dispatcher: &Dispatcher, launches: &Launches) {
        self.work.clear();
        for (eligible_at, launch) in dispatcher.candidates() {
            self.add_work(eligible_at, launch, launches);
        }
        let mut last = None;
        let saved: Vec<u32> = self.saved.keys().map(|key| key.0).collect();
        for launch in saved {
            let known = self.work.iter().any(|w| w.launch == launch);
            if last != Some(launch) && !known {
                let at = launches.get(launch).and_then(|l| l.eligible_at);
                self.add_work(at.unwrap_or(0), launch, launches);
            }
            last = Some(launch);
        }
        self.work
            .sort_unstable_by_key(|w| (w.eligible_at, w.serial));
        self.orders.clear();
        for (number, group) in self.rules.groups.iter().enumerate() {
            let mut order: Vec<usize> = (0..self.work.len()).collect();
            if group.fill == Fill::RowOrder {
                order.sort_by_key(|at| self.rules.right(number, self.work[*at].kernel).rank);
            }
            self.orders.push(order);
        }
    }

    fn add_work(&mut self, eligible_at: u64, launch: u32, launches: &Launches) {
        if let Some(state) = launches.get(launch) {
            self.work.push(Work {
                eligible_at,
                serial: state.serial,
                launch,
                kernel: state.row,
            });
        }
    }

    fn first_saved(&self, launch: u32) -> Option<(u64, &SavedBlock)> {
        let mut range = self.saved.range((launch, 0)..=(launch, u64::MAX));
        range.next().map(|(key, saved)| (key.1, &**saved))
    }

    /// What an SM takes next; notes when something that is not eligible yet was passed over.
    fn choose(
        &mut self,
        sm: usize,
        sms: &mut [Sm],
        launches: &Launches,
        time: u64,
    ) -> Option<Choice> {
        let number = self.rules.group_of[sm];
        for at in 0..self.orders[number].len() {
            let work = self.work[self.orders[number][at]];
            let Some(launch) = launches.get(work.launch) else {
                continue;
            };
            let back = self
                .first_saved(work.launch)
                .map(|(linear, saved)| (linear, saved.fits(&sms[sm])));
            if back.is_none() && launch.all_placed() {
                continue;
            }
            if work.eligible_at > time {
                self.wake_at = self.wake_at.min(work.eligible_at);
                continue;
            }
            let right = self.rules.right(number, work.kernel);
            let group = &self.rules.groups[number];
            let below = sms[sm].count_of(work.kernel) < u32::from(right.limits.cap);
            let budget = right.limits.budget;
            let may_start = budget.is_none_or(|most| group.started[right.rank] < most);
            match back {
                Some((linear, true)) if below => return Some(Choice::Restore(work.launch, linear)),
                None if below && may_start && sms[sm].fits(&launch.needs) => {
                    return Some(Choice::Start(work.launch));
                }
                _ if below && group.switches() && (back.is_some() || may_start) => {
                    self.relocate(sm, sms, launches, launch);
                }
                _ => {}
            }
            if self.rules.groups[number].head_of_line {
                return None;
            }
        }
        None
    }

    /// Where a launch stands in a group's fill order.
    fn place_in_order(&self, group: usize, launch: &LaunchState) -> (usize, Option<u64>, u64) {
        let rank = match self.rules.groups[group].fill {
            Fill::RowOrder => self.rules.right(group, launch.row).rank,
            Fill::Arrival => 0,
        };
        (rank, launch.eligible_at, launch.serial)
    }

    /// Room is there in sum and not in one piece: a block that lies in the way is moved.
    fn relocate(&mut self, sm: usize, sms: &mut [Sm], launches: &Launches, waiting: &LaunchState) {
        let needs = &waiting.needs;
        if self.relocated[sm] || sms[sm].is_leaving() || !sms[sm].holds_in_sum(needs) {
            return;
        }
        let group = self.rules.group_of[sm];
        let place = self.place_in_order(group, waiting);
        let victims = sms[sm].running().filter(|r| {
            let of = launches.get(r.launch);
            let first = of.is_some_and(|l| self.place_in_order(group, l) < place);
            sms[sm].would_fit(r.number, needs, first)
        });
        let smallest =
            victims.min_by_key(|r| (context_bytes(&r.needs), std::cmp::Reverse(r.linear)));
        if let Some(victim) = smallest {
            self.relocated[sm] = true;
            self.switch_out(sms, sm, &victim);
        }
    }

    fn start(
        &mut self,
        sm: usize,
        index: u32,
        time: u64,
        sms: &mut [Sm],
        launches: &mut Launches,
        dispatcher: &mut Dispatcher,
    ) {
        let nsmid = u32::try_from(sms.len()).unwrap_or(u32::MAX);
        let (Some(shape), Some(launch)) = (launches.shape(index, nsmid), launches.get_mut(index))
        else {
            return;
        };
        let block = launch.next_block;
        launch.next_block += 1;
        let first = launch.first_start.is_none();
        launch.first_start.get_or_insert(time);
        let number = self.rules.group_of[sm];
        let right = self.rules.right(number, launch.row);
        let started = &mut self.rules.groups[number].started[right.rank];
        *started = started.saturating_add(1);
        sms[sm].place(launch, index, &shape, block, time);
        let event = event(launch.tag, launch.row, sm, block, time, BlockChange::Placed);
        let done = launch.all_placed();
        self.record(event);
        dispatcher.started(index, first, done);
    }

    fn restore(
        &mut self,
        sm: usize,
        key: (u32, u64),
        time: u64,
        sms: &mut [Sm],
        launches: &Launches,
    ) {
        let (Some(saved), Some(launch)) = (self.saved.remove(&key), launches.get(key.0)) else {
            return;
        };
        self.give_area_back(&saved);
        let bytes = saved.moved_bytes();
        let change = BlockChange::SwitchedIn { bytes };
        self.record(event(launch.tag, launch.row, sm, key.1, time, change));
        sms[sm].switch_in(saved, launch.row, time);
    }

    /// Finds blocks beyond their caps, and switches them out where the group says so.
    fn give_up(&mut self, config: &GpuConfig, sms: &mut [Sm], launches: &Launches, now: u64) {
        for sm in 0..sms.len() {
            let number = self.rules.group_of[sm];
            if !self.rules.groups[number].switches() {
                continue;
            }
            let cheapest = self.rules.groups[number].give_up == GiveUp::Cheapest;
            let mut running: Vec<Running> = sms[sm].running().collect();
            let serial = |launch| launches.get(launch).map_or(0, |l| l.serial);
            running.sort_by_key(|r| std::cmp::Reverse((serial(r.launch), r.linear)));
            for block in running {
                let cap = u32::from(self.rules.right(number, block.kernel).limits.cap);
                if sms[sm].count_of(block.kernel) <= cap {
                    continue;
                }
                if !cheapest || self.pays(config, &block, now) {
                    self.switch_out(sms, sm, &block);
                }
            }
            // A block that is coming back can leave when it has come.
            self.over |= sms[sm].is_coming_back();
        }
    }

    /// Switching a block out and in again costs less than what it probably still has to run (Chimera's estimate:
    /// the mean of its kernel's ended blocks, less its own time). Without an ended block the switch pays.
    fn pays(&self, config: &GpuConfig, block: &Running, now: u64) -> bool {
        let Some((sum, count)) = self.ran.get(&block.kernel) else {
            return true;
        };
        let left = (sum / count).saturating_sub(now.saturating_sub(block.started));
        let rate = u64::from(config.interconnect.request_bytes_per_cycle).max(1);
        let cost = if self.options.free_switches {
            0
        } else {
            // Half of the port is the engine's.
            4 * context_bytes(&block.needs) / rate
        };
        cost < left
    }

    fn switch_out(&mut self, sms: &mut [Sm], sm: usize, block: &Running) {
        let lines = context_bytes(&block.needs).div_ceil(crate::config::LINE_BYTES);
        let area = self.areas.get_mut(&lines).and_then(Vec::pop);
        let area = area.unwrap_or_else(|| {
            self.areas_end += lines;
            self.areas_end - lines
        });
        sms[sm].switch_out(block.number, area, self.options.free_switches);
    }

    /// The research interface: the nth running block of an SM leaves.
    pub(crate) fn switch_out_nth(&mut self, sms: &mut [Sm], sm: SmId, nth: usize) -> bool {
        let Some(here) = sms.get(sm.index()) else {
            return false;
        };
        let Some(block) = here.running().nth(nth) else {
            return false;
        };
        self.switch_out(sms, sm.index(), &block);
        true
    }

    fn give_area_back(&mut self, saved: &SavedBlock) {
        let free = self.areas.entry(saved.area_lines()).or_default();
        free.push(saved.area());
    }
}

fn event(
    tag: u64,
    kernel: KernelId,
    sm: usize,
    block: u64,
    at: u64,
    change: BlockChange,
) -> BlockEvent {
    BlockEvent {
        at: Cycles(at),
        sm: SmId(u16::try_from(sm).unwrap_or(u16::MAX)),
        kernel,
        tag,
        block,
        change,
    }
}
