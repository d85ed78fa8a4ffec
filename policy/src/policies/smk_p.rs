//! SMK-P: every SM is partitioned by dominant-resource fairness, with tenant weights.
//!
//! Source: SMK (Wang et al., HPCA 2016) section 5.3.2, Figures 6 to 8. The paper treats kernels alike; here tenants
//! have weights. A tenant's part is a limit over all of its rows, per SM of each group: whichever of its kernels run,
//! together they hold no more, and each of them may use all of it. With one kernel a tenant this is the paper's cap.
//!
//! [`NAME`] holds shares at the weights and lends what nobody within his part can use. [`STRICT`] is the paper's own:
//! the same partition on every SM, whatever tenants can use of it, and nothing lent. Two other policies are this one
//! with other settings ([`super::smk`], [`super::smk_pw`]).
//!
//! Phases of a replan:
//! 1. [`share_control::rebase`]: who had too much, who too little;
//! 2. [`Partitioner::partition`]: fill part after part of the device, lowest weighted level first;
//! 3. parts that came out alike become one group of the plan. Free room goes to the better class first, then to the
//!    tenant that is behind by the longest time, then by arrival; but before a better class to who is behind while
//!    that is far ahead ([`Balance::place`]);
//! 4. where issue slots are partitioned too, rows that are profiled have SMs to themselves, and the others' weights
//!    follow from the profiles ([`IssueProfiler`]).
//!
//! Where nothing is lent, a participant may have no block on any SM, because its blocks fit on none beside others' or
//! an SM has too few slots; the paper says nothing of that. Such participants take **turns** ([`TURN`]) with the
//! others: whoever is behind comes first when the device is partitioned anew.
//!
//! A tenant stays a participant for a grace after its last launch ended: a closed-loop tenant submits again at once.
//! The only participant has no limit, gives nothing up and may be handed to the device ahead of time.

use crate::book::{Book, RowRecord, TenantRecord};
use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, GroupId, RowId, SmId, TenantId};
use crate::issue_profile::{self, IssueProfiler, due, quotas};
use crate::partition::{Claim, Demand, MOST_PARTS, Partitioner};
use crate::plan::{
    Cell, DefaultRow, DispatchOrder, Group, NO_CAP, Plan, PlanRow, Preemption, QuotaRule, Renewal,
    Stop, Surplus, TenantLimit,
};
use crate::plan_builder::PlanBuilder;
use crate::policy::{NO_CLASS, Policy, PolicyInfo, Samples};
use crate::shape::{BlockShape, DeviceShape, Held, SmUnits, max_residency};
use crate::share_control::{self, Balance, Place};
use crate::sm_set::SmSet;
use crate::units::Nanos;
use std::num::NonZeroU16;
use std::ops::Range;

/// The policy's name.
pub const NAME: &str = "smk-p";
/// Name of the paper's own.
pub const STRICT: &str = "smk-p-strict";
/// How long those have whose turn it is: some hundred times what it takes to move an SM's contexts.
const TURN: Nanos = Nanos(1_000_000);
/// Elements of its plans. The last one is not of the paper's own, which lends nothing.
const USES: &[Element] = &[
    Element::Cap,
    Element::DeviceLimit,
    Element::GroupLimit,
    Element::Order,
    Element::Preemption,
    Element::Stop,
    Element::Surplus,
];
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "each SM is partitioned by weighted dominant-resource fairness",
    source: "SMK section 5.3.2, Figures 6 to 8; weights and share control are ours",
    paper: "SMK 2016",
    promises_weights: true,
    weights: "a tenant's share of the dominant resource is in proportion, whatever kernels it has",
    class: "free room goes to the better class first, but if that is far ahead, to who is behind",
    is_oracle: false,
    samples: Samples::Unused,
    uses: USES,
    make: |device, shape, _| Box::new(SmkP::new(device, shape)),
};

/// What the paper's own is.
pub const STRICT_INFO: PolicyInfo = PolicyInfo {
    name: STRICT,
    summary: "each SM is partitioned alike by dominant-resource fairness; what nobody can use stays empty",
    source: "SMK section 5.3.2, Figures 6 to 8; weights are ours",
    promises_weights: false,
    weights: "a tenant's part of each SM is in proportion, as far as whole blocks allow",
    class: NO_CLASS,
    uses: USES.split_at(USES.len() - 1).0,
    make: |device, shape, _| {
        let strict = Settings {
            surplus: Surplus::Idle,
            extent: Extent::Alike,
            ..Settings::DEFAULT
        };
        Box::new(SmkP::with_settings(device, shape, strict))
    },
    ..INFO
};

/// What is partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// SMs, each by itself, so that what blocks are too coarse for averages out over them, among what tenants can use.
    Dithered,
    /// One SM, and all others alike (SMK, Figure 6).
    Alike,
    /// The device as if it were one SM: limits bind on it, on no SM.
    Device,
}

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For how long a tenant without work keeps its part.
    pub grace: Nanos,
    /// What becomes of room that nobody within his part can use. Where it is lent, shares are measured and held at
    /// the weights; where it stays empty the partition is the paper's, and nothing is done about what blocks are too
    /// coarse for.
    pub surplus: Surplus,
    /// What is partitioned; only where SMs are, each by itself, are shares held.
    pub extent: Extent,
    /// Profiles from which issue slots are partitioned, if they are.
    pub quotas: Option<issue_profile::Settings>,
}

impl Settings {
    /// The default: shares are held at the weights.
    pub const DEFAULT: Self = Self {
        grace: Nanos(20_000),
        surplus: Surplus::Lend,
        extent: Extent::Dithered,
        quotas: None,
    };
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Weighted dominant-resource-fair partition of each SM.
#[derive(Debug)]
pub struct SmkP {
    device: DeviceId,
    shape: DeviceShape,
    settings: Settings,
    book: Book,
    planned: bool,
    wake_at: Option<Nanos>,
    /// When the partition is made anew for those that the standing one gives no block; none where there are none.
    turn_ends: Option<Nanos>,
    /// When the controller last looked. Plans for arrivals and ends in between do not put its next look off.
    looked: Nanos,
    /// By what that look of several tenants' shares came later than it was due.
    late: Nanos,
    /// The standing plan corrects an imbalance, so it is wrong once that is gone.
    correcting: bool,
    profiler: Option<IssueProfiler>,
    scratch: Scratch,
}

/// Who has a group of SMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// All participants, as the part of that number came out.
    Part(usize),
    /// A row that is profiled.
    Row(RowId),
}

/// Tables of a replan, kept so that replanning allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    /// Active tenants in dispatch order.
    order: Vec<Place>,
    /// Participants in dispatch order.
    tenants: Vec<TenantId>,
    claims: Vec<Claim>,
    demands: Vec<Demand>,
    /// The row of each demand.
    rows: Vec<RowId>,
    partitioner: Partitioner,
    /// Groups: those that rows have to themselves, and then the first part that came out so, with the SMs of all parts
    /// alike.
    groups: Vec<(Holder, SmSet)>,
    /// A tenant's limit on each group.
    limits: Vec<SmUnits>,
    /// Group by group, the issue weight of each demand.
    weights: Vec<Option<NonZeroU16>>,
    /// What each demand is due of the issue slots.
    due: Vec<f64>,
    /// Rows that may be profiled, in order of their numbers.
    profilable: Vec<RowId>,
}

impl SmkP {
    /// Returns the policy for one device with default settings.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self::with_settings(device, shape, Settings::default())
    }

    /// Returns the policy for one device.
    #[must_use]
    pub fn with_settings(device: DeviceId, shape: &DeviceShape, settings: Settings) -> Self {
        Self {
            device,
            shape: *shape,
            settings,
            book: Book::new(shape),
            planned: false,
            wake_at: None,
            turn_ends: None,
            looked: Nanos::ZERO,
            late: Nanos::ZERO,
            correcting: false,
            profiler: settings
                .quotas
                .map(|profiles| IssueProfiler::new(profiles, shape.sms)),
            scratch: Scratch::default(),
        }
    }

    /// Returns the policy with issue slots partitioned by rates that were given ([`IssueProfiler::given`]).
    pub(super) fn with_issue_rates(mut self, rates: &[f64]) -> Self {
        self.profiler = Some(IssueProfiler::given(rates, self.shape.sms));
        self
    }

    /// Returns whether shares are held at the weights.
    fn holds_shares(&self) -> bool {
        self.settings.surplus == Surplus::Lend && self.settings.extent == Extent::Dithered
    }

    /// Lists the participants in dispatch order and what they demand.
    fn participants(&mut self, balance: &Balance) {
        let corrects = self.holds_shares() && self.correcting;
        let (book, scratch) = (&self.book, &mut self.scratch);
        scratch.order.clear();
        let place = |tenant: &TenantRecord| balance.place(tenant, corrects);
        scratch.order.extend(book.active().map(place));
        scratch.order.sort_unstable_by(Place::compare);
        scratch.tenants.clear();
        scratch.claims.clear();
        scratch.demands.clear();
        scratch.rows.clear();
        for place in &scratch.order {
            let id = place.tenant;
            let Some(tenant) = book.tenant(id) else {
                continue;
            };
            let (claim, before) = (scratch.claims.len(), scratch.demands.len());
            let rows = book.rows_of(tenant);
            for (id, row) in rows.filter(|(_, row)| book.shares(row)) {
                scratch.rows.push(id);
                scratch.demands.push(Demand {
                    claim,
                    block: row.block,
                    blocks: match self.settings.extent {
                        Extent::Alike => u64::MAX,
                        Extent::Dithered | Extent::Device => row.demand.max(1),
                    },
                });
            }
            if scratch.demands.len() == before {
                // Nothing of it fits on this device, or its rows are gone.
                continue;
            }
            let start = match corrects {
                true => balance.start_level(tenant),
                false => 0.0,
            };
            scratch.claims.push(Claim {
                weight: tenant.weight,
                start,
            });
            scratch.tenants.push(id);
        }
    }

    /// Partitions the device and groups the parts that came out alike. SMs are numbered through the
    /// parts in order; the first ones belong to rows that are profiled.
    fn partition(&mut self) {
        let scratch = &mut self.scratch;
        let (claims, demands) = (&scratch.claims, &scratch.demands);
        let done = &mut scratch.partitioner;
        match self.settings.extent {
            Extent::Dithered => done.partition(&self.shape, claims, demands, MOST_PARTS),
            Extent::Alike => done.partition(&self.shape, claims, demands, 1),
            Extent::Device => done.partition(&self.shape.as_one_sm(), claims, demands, 1),
        }
        scratch.groups.clear();
        let profiled = self.profiler.iter().flat_map(IssueProfiler::rows);
        for (sm, row) in (0..).zip(profiled) {
            let own = (Holder::Row(row), SmSet::range(sm, sm + 1));
            scratch.groups.push(own);
        }
        let own = u16::try_from(scratch.groups.len()).unwrap_or(u16::MAX);
        if self.settings.extent == Extent::Device {
            let all = (Holder::Part(0), SmSet::range(own, self.shape.sms));
            scratch.groups.push(all);
            return;
        }
        let mut from = 0;
        for (part, &sms) in done.parts().iter().enumerate() {
            let alike = |(holder, _): &(Holder, SmSet)| match *holder {
                Holder::Part(first) => done.caps(first) == done.caps(part),
                Holder::Row(_) => false,
            };
            for sm in (from..from + sms).filter(|sm| *sm >= own) {
                let place = scratch.groups.iter().position(alike).unwrap_or_else(|| {
                    scratch.groups.push((Holder::Part(part), SmSet::empty()));
                    scratch.groups.len() - 1
                });
                scratch.groups[place].1.insert(SmId(sm));
            }
            from += sms;
        }
    }

    /// Finds the issue weights of rows on each group: none of a row whose rate is not known, nor where fewer than two
    /// are known.
    fn weigh(&mut self) {
        let scratch = &mut self.scratch;
        scratch.weights.clear();
        let demands = scratch.demands.len();
        for (holder, _) in &scratch.groups {
            let from = scratch.weights.len();
            scratch.weights.resize(from + demands, None);
            let (Some(profiler), Holder::Part(part)) = (&self.profiler, *holder) else {
                continue;
            };
            let caps = scratch.partitioner.caps(part);
            scratch.due.clear();
            let rates = scratch.rows.iter().map(|row| profiler.rate(*row));
            let held = rates.map(Option::unwrap_or_default).zip(caps);
            let dues = held.map(|(rate, held)| due(rate, *held));
            scratch.due.extend(dues);
            if scratch.due.iter().filter(|due| **due > 0.0).count() < 2 {
                continue;
            }
            let quotas = scratch.due.iter().zip(quotas(&scratch.due));
            let known = scratch.weights[from..].iter_mut().zip(quotas);
            for (weight, (_, quota)) in known.filter(|(_, (due, _))| **due > 0.0) {
                *weight = weight_of(quota);
            }
        }
    }

    fn build(&mut self, balance: &Balance, standing: &Plan, next: &mut Plan) {
        self.participants(balance);
        let alone = self.book.is_alone();
        self.turn_ends = None;
        match alone {
            true => {
                self.scratch.groups.clear();
                let all = (Holder::Part(0), SmSet::first(self.shape.sms));
                self.scratch.groups.push(all);
                self.scratch.weights.clear();
            }
            false => {
                self.partition();
                self.weigh();
                let waits =
                    self.settings.surplus == Surplus::Idle && self.scratch.partitioner.leaves_out();
                self.turn_ends = waits.then(|| balance.now + TURN);
            }
        }
        let mut plan = PlanBuilder::new(next, self.device, &self.shape);
        plan.wake_at(earliest(self.wake_at, self.turn_ends))
            .default_row(DefaultRow {
                cap: 1,
                stop: Stop::Checked,
            });
        if self.profiler.is_some() {
            plan.quota(QuotaRule {
                renewal: Renewal::WhenSpent,
                ..QuotaRule::default()
            });
        }
        for (_, sms) in &self.scratch.groups {
            plan.group(Group {
                sms: *sms,
                order: DispatchOrder::Rank,
                preemption: match alone {
                    true => Preemption::None,
                    false => Preemption::Switch,
                },
                head_of_line: false,
                surplus: self.settings.surplus,
            });
        }
        let mut from = 0;
        for claim in 0..self.scratch.tenants.len() {
            let demands = &self.scratch.demands[from..];
            let own = demands.iter().take_while(|d| d.claim == claim).count();
            self.find_limits(alone, from..from + own);
            self.add_tenant(&mut plan, claim, alone);
            from += own;
        }
        let block = |row: RowId| {
            let record = self.book.row(row);
            record.map_or_else(BlockShape::default, |record| record.block)
        };
        plan.finish(standing, block)
            .expect("parts cover the device once, and each row and tenant is listed once");
    }

    /// Adds a tenant's limit and rows.
    fn add_tenant(&self, plan: &mut PlanBuilder<'_>, claim: usize, alone: bool) {
        let id = self.scratch.tenants[claim];
        let Some(tenant) = self.book.tenant(id) else {
            return;
        };
        let limits = || (0..).map(GroupId).zip(&self.scratch.limits);
        let whole = self.settings.extent == Extent::Device;
        if !alone {
            let place = plan.limit(TenantLimit {
                tenant: id,
                device: match whole {
                    true => self.scratch.limits[0],
                    false => SmUnits::MAX,
                },
            });
            for (group, limit) in limits().filter(|_| !whole) {
                plan.group_limit(group, place, *limit);
            }
        }
        for (row, record) in self.book.rows_of(tenant) {
            let listed = PlanRow {
                row,
                tenant: id,
                rank: u32::try_from(claim).unwrap_or(u32::MAX),
                stop: match alone {
                    true => Stop::Ahead,
                    false => Stop::Checked,
                },
                budget: None,
            };
            let place = match record.works {
                true => plan.row(listed, Cell::default()),
                false => plan.standby_row(listed, Cell::default()),
            };
            let most = max_residency(&self.shape, &record.block);
            let mut known = (SmUnits(0), self.cap_within(record, most, SmUnits(0)));
            for (group, limit) in limits() {
                if known.0 != *limit {
                    known = (*limit, self.cap_within(record, most, *limit));
                }
                let cap = match self.scratch.groups[usize::from(group.0)].0 {
                    Holder::Row(own) if own != row => 0,
                    _ if whole && !alone => NO_CAP,
                    Holder::Row(_) | Holder::Part(_) => known.1,
                };
                let weight = self.weight_on(group, row);
                plan.cell(group, place, Cell { cap, weight });
            }
        }
    }

    /// Returns a row's issue weight on a group.
    fn weight_on(&self, group: GroupId, row: RowId) -> Option<NonZeroU16> {
        if self.scratch.weights.is_empty() {
            return None;
        }
        let demand = self.scratch.rows.iter().position(|own| *own == row)?;
        let at = usize::from(group.0) * self.scratch.rows.len() + demand;
        *self.scratch.weights.get(at)?
    }

    /// Finds what a tenant's rows hold together on an SM of each group.
    fn find_limits(&mut self, alone: bool, demands: Range<usize>) {
        let scratch = &mut self.scratch;
        scratch.limits.clear();
        if alone {
            scratch.limits.resize(scratch.groups.len(), SmUnits::MAX);
            return;
        }
        let rows = &scratch.demands[demands.clone()];
        let (mut known, mut limit): (&[u16], _) = (&[], SmUnits(0));
        for (holder, _) in &scratch.groups {
            let first = match *holder {
                Holder::Part(first) => first,
                Holder::Row(own) => {
                    let is_own = scratch.rows[demands.clone()].contains(&own);
                    let whole = if is_own { SmUnits::ONE } else { SmUnits(0) };
                    scratch.limits.push(whole);
                    continue;
                }
            };
            let caps = &scratch.partitioner.caps(first)[demands.clone()];
            if caps != known {
                let mut held = Held::default();
                for (demand, cap) in rows.iter().zip(caps) {
                    held.add(&demand.block, (*cap).into());
                }
                (known, limit) = (caps, held.dominant(&self.shape));
            }
            scratch.limits.push(limit);
        }
    }

    /// Returns as many blocks of a row as its tenant's limit permits on an SM, `most` at most.
    fn cap_within(&self, row: &RowRecord, most: u16, limit: SmUnits) -> u16 {
        match (row.spill, limit) {
            (true, _) => NO_CAP,
            (false, SmUnits(0)) => 0,
            (false, limit) => {
                let within = Held::default().room_within(&self.shape, limit, &row.block);
                u16::try_from(within).unwrap_or(most).min(most)
            }
        }
    }

    /// Lets the profiler go on, if there is one; returns whether the plan follows.
    fn profile(&mut self, now: Nanos) -> bool {
        let Some(profiler) = &mut self.profiler else {
            return false;
        };
        let (book, rows) = (&self.book, &mut self.scratch.profilable);
        rows.clear();
        let shares = |(_, row): &(RowId, &RowRecord)| book.shares(row) && !row.spill;
        rows.extend(book.rows().filter(shares).map(|(row, _)| row));
        // A tenant that is alone shares nothing.
        let alone = book.is_alone();
        profiler.step(now, if alone { &[] } else { rows })
    }

    /// Returns when the controller should look again, a grace ends, or profiles go on.
    fn next_wake(&self, balance: &Balance, now: Nanos) -> Option<Nanos> {
        let tick = self.holds_shares() && self.book.active().nth(1).is_some();
        let tick = tick.then(|| self.looked + balance.tick());
        let profile = self.profiler.as_ref().and_then(IssueProfiler::wake_at);
        [tick, self.book.grace_end(self.settings.grace), profile]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.max(now + Nanos(1)))
    }
}

/// Returns the earlier of two times, if there is one.
fn earliest(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    one.into_iter().chain(other).min()
}

/// Returns a quota as an issue weight, in parts of 10,000: an epoch's length in cycles.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a quota is at most 1"
)]
fn weight_of(quota: f64) -> Option<NonZeroU16> {
    let parts = (quota * 10_000.0).round();
    let weight = NonZeroU16::new((parts as u16).max(1));
    weight.filter(|_| parts.is_finite())
}

impl Policy for SmkP {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
        let profiler = self.profiler.as_mut();
        profiler.into_iter().for_each(|it| it.observe(event));
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        self.book.advance(now);
        self.book.expire(self.settings.grace);
        let changed = self.book.take_demand_changed();
        let due = self.wake_at.is_some_and(|at| now >= at);
        if due || !self.planned {
            let tick = self.wake_at.filter(|_| !self.book.is_alone());
            self.late = tick.map_or(Nanos::ZERO, |at| now - at);
            self.looked = now;
        }
        let profiled = self.profile(now);
        let turn = self.turn_ends.is_some_and(|at| now >= at);
        let changed = changed || profiled || turn;
        let launches = self.book.take_changed();
        if self.planned && !changed && !due {
            // Where no tick comes, the end of a launch is when its tenant's grace begins.
            if launches && !self.holds_shares() {
                self.wake_at = earliest(self.wake_at, self.book.grace_end(self.settings.grace));
            }
            return false;
        }
        let balance = share_control::rebase(&mut self.book, self.shape.sms, now, self.late);
        self.wake_at = self.next_wake(&balance, now);
        let off = balance.is_off();
        if self.planned && !changed && !off && !self.correcting {
            return false;
        }
        self.book.planned();
        self.correcting = off;
        self.build(&balance, standing, next);
        !(std::mem::replace(&mut self.planned, true) && next.says_the_same(standing))
    }

    fn wake_at(&self) -> Option<Nanos> {
        earliest(self.wake_at, self.turn_ends)
    }
}
