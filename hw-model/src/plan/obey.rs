//! The block scheduler of `plan` mode.
//!
//! Between epochs it fills the SMs on which something changed, in turn, one block per `block_interval_cycles`: of the
//! launches at the head of their queues, in the group's dispatch order, the first that may have a block more and fits
//! gets the room. Where the group lends, the first that fits gets it beyond cap and limit, unless one within its own
//! waits for room there. Where a new plan leaves an SM or a tenant with more blocks than it permits, and where lent
//! room is waited for, blocks leave (`leave`).
//!
//! Rules: launches of equal rank go in order of submission; blocks of a launch start in ascending order; a switched
//! block comes back before its launch starts a new one; a block that was started runs to its end somewhere; an SM is
//! looked at again only after something there changed; blocks on their way out hold room, but count towards no cap
//! and no limit.

use super::books::{Books, OnSm};
use super::leave::Areas;
use super::rules::Rules;
use super::{BlockChange, BlockEvent, PlanOptions, block_event};
use crate::config::GpuConfig;
use crate::timing::context_switch::SavedBlock;
use crate::timing::dispatch::{Dispatcher, Placement};
use crate::timing::launches::{LaunchState, Launches};
use crate::timing::sm::Sm;
use gridmux_policy::PlanReader;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::plan::{DispatchOrder, Plan};
use gridmux_policy::shape::{BlockShape, Held, SmUnits};
use std::collections::BTreeMap;

/// A launch that may have blocks to place.
#[derive(Debug, Clone, Copy)]
struct Work {
    eligible_at: u64,
    serial: u64,
    launch: u32,
    row: RowId,
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
    pub(crate) reader: Option<PlanReader>,
    pub(crate) records: bool,
    pub(crate) events: Vec<BlockEvent>,
    pub(super) rules: Rules,
    pub(super) books: Books,
    /// What counts on the SM that is being looked at.
    pub(super) on_sm: OnSm,
    /// SMs that may take a block.
    pub(super) open: Vec<bool>,
    /// SMs on which a block was moved for another one since something ended there.
    pub(super) relocated: Vec<bool>,
    /// Switched blocks, by launch and number.
    saved: BTreeMap<(u32, u64), Box<SavedBlock>>,
    /// When a launch becomes eligible that was passed over.
    wake_at: u64,
    /// When the front end takes the next launch.
    next_launch_at: u64,
    /// SMs on which a cap or limit may be exceeded.
    pub(super) over: Vec<bool>,
    /// A tenant's limit on the device may be exceeded.
    pub(super) over_device: bool,
    pub(super) areas: Areas,
    /// In order of submission.
    work: Vec<Work>,
    /// Places in `work` in order of rank, then of submission.
    by_rank: Vec<(u32, usize)>,
    /// SMs near which the newest plan differs from the one before.
    changed: Vec<bool>,
}

impl Obey {
    pub(crate) fn new(config: &GpuConfig, sms: &[Sm], launches: &Launches) -> Self {
        let count = usize::from(config.sm.count);
        let mut books = Books::default();
        for block in sms.iter().flat_map(Sm::present) {
            books.held_mut(block.tenant).add(&block.counted, 1);
        }
        for (_, launch) in launches.iter() {
            books.row_mut(launch.row).started += launch.next_block;
        }
        Self {
            options: PlanOptions::default(),
            rules: Rules::new(config),
            books,
            on_sm: OnSm::default(),
            reader: None,
            records: false,
            events: Vec::new(),
            open: vec![true; count],
            relocated: vec![false; count],
            saved: BTreeMap::new(),
            wake_at: u64::MAX,
            next_launch_at: 0,
            over: vec![true; count],
            over_device: true,
            areas: Areas::default(),
            work: Vec::new(),
            by_rank: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// Obeys another plan from now on. SMs near which it says what the one before said stay as they are.
    pub(crate) fn replace(&mut self, plan: &Plan, sms: &mut [Sm], now: u64) {
        self.rules.replace(plan, &mut self.changed);
        if !self.changed.contains(&true) {
            return;
        }
        for (at, sm) in sms.iter_mut().enumerate() {
            if self.changed[at] {
                sm.set_quotas(self.rules.weights_on(at), now);
                self.open[at] = true;
                self.relocated[at] = false;
                self.over[at] = true;
            }
        }
        self.over_device = true;
    }

    /// Reads the newest plan, where plans are followed.
    pub(crate) fn follow(&mut self, sms: &mut [Sm], now: u64) {
        let Some(mut reader) = self.reader.take() else {
            return;
        };
        let plan = reader.read();
        if plan.epoch != self.rules.epoch() {
            self.replace(plan, sms, now);
        }
        self.reader = Some(reader);
    }

    /// Marks every SM as one that may take a block.
    pub(crate) fn opened_all(&mut self) {
        self.open.fill(true);
    }

    /// Notes that room came free on an SM. Where it counts for a tenant whose limit on the device had been reached, any
    /// SM may have room for its blocks.
    fn freed(&mut self, sm: usize, tenant: TenantId, counted: &BlockShape) {
        self.open[sm] = true;
        self.release(tenant, counted);
    }

    /// Takes note of a block that no longer counts towards its tenant's limit on the device.
    pub(super) fn release(&mut self, tenant: TenantId, counted: &BlockShape) {
        self.books.held_mut(tenant).remove(counted, 1);
        // Whatever shape its waiting blocks have, they may fit within the limit now, on any SM.
        if self.rules.plan().device_limit(tenant) != SmUnits::MAX {
            self.opened_all();
        }
    }

    /// Takes note of a block that ended.
    pub(crate) fn retired(&mut self, sm: usize, launch: &LaunchState, ran_cycles: u64) {
        self.freed(sm, launch.tenant, &launch.counted);
        self.relocated[sm] = false;
        let (sum, count) = &mut self.books.row_mut(launch.row).ran;
        *sum += ran_cycles;
        *count += 1;
    }

    /// Keeps a block that was switched out, which any SM may take.
    pub(crate) fn saved(&mut self, saved: Box<SavedBlock>) {
        self.saved.insert((saved.launch, saved.linear), saved);
        self.opened_all();
    }

    /// Takes note of a launch that is gone, and of its `n` blocks that counted.
    pub(crate) fn dropped(&mut self, launch: u32, tenant: TenantId, held: &BlockShape, n: u32) {
        self.books.held_mut(tenant).remove(held, n);
        let of_launch = |key: &(u32, u64)| key.0 == launch;
        let keys: Vec<_> = self.saved.keys().copied().filter(of_launch).collect();
        for key in keys {
            if let Some(saved) = self.saved.remove(&key) {
                self.areas.give_back(&saved);
            }
        }
        self.opened_all();
    }

    /// Forgets the starts of a row that is gone.
    pub(crate) fn forget_row(&mut self, row: RowId) {
        *self.books.row_mut(row) = Default::default();
    }

    /// Returns what a tenant's blocks hold that count towards its limit on the device.
    pub(crate) fn held(&self, tenant: TenantId) -> Held {
        self.books.held(tenant)
    }

    /// Returns the first block of a launch that is switched out, if there is one.
    pub(crate) fn saved_block(&self, launch: u32) -> Option<&SavedBlock> {
        self.first_saved(launch).map(|(_, saved)| saved)
    }

    /// Returns how many blocks are switched out.
    pub(crate) fn saved_blocks(&self) -> usize {
        self.saved.len()
    }

    pub(crate) fn record(&mut self, event: BlockEvent) {
        if self.records {
            self.events.push(event);
        }
    }

    /// Returns the cycle in which the next block could be placed, if nothing is freed before.
    pub(crate) fn next_event(&self, dispatcher: &Dispatcher) -> Option<u64> {
        if self.over_device || self.open.contains(&true) || self.over.contains(&true) {
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
        if self.over_device || self.over.contains(&true) {
            self.give_up(config, sms, launches, now);
        }
        let mut time = dispatcher.next_place_at().max(now);
        self.wake(time);
        if !self.open.contains(&true) {
            return;
        }
        self.find_work(dispatcher, launches);
        self.next_launch_at = dispatcher.next_launch_at();
        while time < end {
            self.wake(time);
            let count = sms.len();
            let first = dispatcher.next_sm();
            let found = (0..count).find_map(|step| {
                let sm = (first + step) % count;
                let choice =
                    self.open[sm].then(|| self.choose(sm, config, (sms, launches), time))?;
                self.open[sm] = choice.is_some();
                Some((sm, choice?))
            });
            let Some((sm, choice)) = found else {
                if self.wake_at >= end {
                    return;
                }
                time = self.wake_at;
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
            self.next_launch_at = dispatcher.next_launch_at();
            time = dispatcher.next_place_at().max(time);
        }
    }

    /// Opens every SM where a launch has become eligible that was passed over.
    fn wake(&mut self, time: u64) {
        if time >= self.wake_at {
            self.wake_at = u64::MAX;
            self.opened_all();
        }
    }

    /// Lists the launches with blocks to place in both dispatch orders.
    fn find_work(&mut self, dispatcher: &Dispatcher, launches: &Launches) {
        let work = |launch: u32, eligible_at: Option<u64>| {
            let state = launches.get(launch)?;
            Some(Work {
                eligible_at: eligible_at.or(state.eligible_at).unwrap_or(0),
                serial: state.serial,
                launch,
                row: state.row,
            })
        };
        self.work.clear();
        let heads = dispatcher.candidates();
        self.work
            .extend(heads.filter_map(|(at, launch)| work(launch, Some(at))));
        self.work
            .extend(self.saved.keys().filter_map(|key| work(key.0, None)));
        self.work.sort_unstable_by_key(|w| w.serial);
        self.work.dedup_by_key(|w| w.serial);
        let plan = self.rules.plan();
        self.by_rank.clear();
        let ranked = self.work.iter().map(|w| plan.rank(w.row));
        self.by_rank.extend(ranked.zip(0..));
        self.by_rank.sort_unstable();
    }

    pub(super) fn first_saved(&self, launch: u32) -> Option<(u64, &SavedBlock)> {
        let mut range = self.saved.range((launch, 0)..=(launch, u64::MAX));
        range.next().map(|(key, saved)| (key.1, &**saved))
    }

    /// Returns how many blocks a launch waits with.
    pub(super) fn waiting(&self, index: u32, launch: &LaunchState) -> u64 {
        let saved = self.saved.range((index, 0)..=(index, u64::MAX)).count();
        launch.blocks - launch.next_block + saved as u64
    }

    /// Returns what an SM takes next; notes when something that is not eligible yet was passed over.
    fn choose(
        &mut self,
        sm: usize,
        config: &GpuConfig,
        (sms, launches): (&mut [Sm], &Launches),
        time: u64,
    ) -> Option<Choice> {
        if self.work.is_empty() {
            return None;
        }
        let group = self.rules.group_of(sm);
        let by_rank = self.rules.order(group) == DispatchOrder::Rank;
        self.on_sm.read(&sms[sm]);
        // Who could use the room beyond his own, and who waits for room within his.
        let (mut borrower, mut lender) = (None, None);
        for at in 0..self.work.len() {
            let at = if by_rank { self.by_rank[at].1 } else { at };
            let work = self.work[at];
            let Some(launch) = launches.get(work.launch) else {
                continue;
            };
            let back = self
                .first_saved(work.launch)
                .map(|(linear, saved)| (linear, saved.fits(&sms[sm])));
            if back.is_none() && launch.all_placed() {
                continue;
            }
            let eligible_at = match launch.first_start {
                None => work.eligible_at.max(self.next_launch_at),
                Some(_) => work.eligible_at,
            };
            let may = back.is_some() || self.may_start(launch.row);
            let is_own = self.room_within_limits(group, launch) > 0
                && self.room_below_cap(group, launch.row) > 0;
            if eligible_at > time {
                self.wake_at = self.wake_at.min(eligible_at);
                // It waits for its turn in the front end, and for room.
                if work.eligible_at <= time && may && is_own {
                    lender.get_or_insert(work.launch);
                }
                continue;
            }
            let next = match back {
                Some((linear, _)) => Choice::Restore(work.launch, linear),
                None => Choice::Start(work.launch),
            };
            let fits = back.map_or_else(|| sms[sm].fits(&launch.needs), |(_, fits)| fits);
            match fits {
                true if may && is_own => return Some(next),
                true if may => drop(borrower.get_or_insert(next)),
                false if may && is_own => {
                    self.relocate(sm, sms, launches, launch);
                    lender.get_or_insert(work.launch);
                }
                _ => {}
            }
            if self.rules.head_of_line(group) {
                break;
            }
        }
        match lender {
            _ if !self.rules.lends(group) => None,
            None => borrower,
            Some(launch) => {
                self.take_back(sm, launch, config, (sms, launches), time);
                None
            }
        }
    }

    /// Returns how many blocks more a row's cap permits on the SM that is being looked at.
    pub(super) fn room_below_cap(&self, group: usize, row: RowId) -> u32 {
        let cap = self.rules.plan().cap_on(group, row);
        cap.saturating_sub(self.on_sm.blocks_of(row))
    }

    /// Returns how many blocks more of a launch keep its tenant within its limits on that SM and on the device.
    pub(super) fn room_within_limits(&self, group: usize, launch: &LaunchState) -> u32 {
        let (plan, tenant) = (self.rules.plan(), launch.tenant);
        if plan.limit_place(tenant).is_none() {
            return u32::MAX;
        }
        let room = |held: Held, limit| held.room_within(&self.rules.shape, limit, &launch.counted);
        room(self.on_sm.held(tenant), plan.limit_on(group, tenant))
            .min(room(self.books.held(tenant), plan.device_limit(tenant)))
    }

    fn may_start(&self, row: RowId) -> bool {
        let budget = self.rules.plan().budget(row);
        budget.is_none_or(|most| self.books.row(row).started < most)
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
        let done = launch.all_placed();
        self.books.row_mut(launch.row).started += 1;
        self.books.held_mut(launch.tenant).add(&launch.counted, 1);
        let (row, tenant) = (launch.row, launch.tenant);
        sms[sm].place(launch, index, &shape, block, time);
        self.record(block_event(launch, sm, block, time, BlockChange::Placed));
        dispatcher.started(index, first, done, time);
        self.got_block(row, tenant, done);
    }

    /// Takes note of a row that has got a block, the last one that it waited with if `done`: where it may no longer
    /// wait within its own, any SM may lend.
    fn got_block(&mut self, row: RowId, tenant: TenantId, done: bool) {
        let is_limited = self.rules.plan().device_limit(tenant) != SmUnits::MAX;
        if self.rules.is_lending() && (done || is_limited || !self.may_start(row)) {
            self.opened_all();
        }
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
        self.areas.give_back(&saved);
        let bytes = saved.moved_bytes();
        let change = BlockChange::SwitchedIn { bytes };
        self.record(block_event(launch, sm, key.1, time, change));
        self.books.held_mut(launch.tenant).add(&launch.counted, 1);
        sms[sm].switch_in(saved, launch, time);
        let done = self.waiting(key.0, launch) == 0;
        self.got_block(launch.row, launch.tenant, done);
    }
}
