//! SMK-P: every SM is partitioned by dominant-resource fairness, with tenant weights.
//!
//! Source: SMK (Wang et al., HPCA 2016) section 5.3.2, Figures 6 to 8. The paper treats kernels
//! alike; here tenants have weights. A tenant's part is a limit over all of its rows, per SM of each
//! group: whichever of its kernels run, together they hold no more, and each of them may use all of
//! it. With one kernel a tenant this is the paper's cap.
//!
//! Phases of a replan:
//! 1. [`share_control::rebase`]: who had too much, who too little;
//! 2. [`Partitioner::partition`]: fill part after part of the device, lowest weighted level first;
//! 3. parts that came out alike become one group of the plan. Free room goes to the better class
//!    first, then to the tenant that is owed most, then by arrival.
//!
//! A tenant stays a participant for a grace after its last launch ended, because a closed-loop
//! tenant submits again at once and its part would oscillate otherwise. A tenant that is the only
//! participant has no limit, gives nothing up and may be handed to the device ahead of time.

use crate::book::{Book, RowRecord, TenantRecord};
use crate::class::Class;
use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, GroupId, RowId, SmId, TenantId};
use crate::partition::{Claim, Demand, MOST_PARTS, Partitioner};
use crate::plan::{
    Cell, DefaultRow, DispatchOrder, Group, NO_CAP, Plan, PlanRow, Preemption, Stop, Surplus,
    TenantLimit,
};
use crate::plan_builder::PlanBuilder;
use crate::policy::{Policy, PolicyInfo};
use crate::shape::{BlockShape, DeviceShape, Held, SmUnits, max_residency};
use crate::share_control::{self, Balance};
use crate::sm_set::SmSet;
use crate::units::Nanos;
use std::ops::Range;

/// The policy's name.
pub const NAME: &str = "smk-p";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "each SM is partitioned by weighted dominant-resource fairness",
    source: "SMK section 5.3.2, Figures 6 to 8; weights and share control are ours",
    promises_weights: true,
    weights: "a tenant's share of the dominant resource is in proportion, whatever kernels it has",
    class: "room that is free goes to the better class first",
    is_oracle: false,
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::GroupLimit,
        Element::Order,
        Element::Preemption,
        Element::Stop,
        Element::Surplus,
    ],
    make: |device, shape, _| Box::new(SmkP::new(device, shape)),
};

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For how long a tenant without work keeps its part.
    pub grace: Nanos,
    /// What becomes of room that nobody within his part can use. Where it is lent, shares are measured and held at
    /// the weights; where it stays empty the partition is the paper's, and nothing is done about what blocks are too
    /// coarse for.
    pub surplus: Surplus,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace: Nanos(20_000),
            surplus: Surplus::Lend,
        }
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
    /// When the controller last looked. Plans for arrivals and ends in between do not put its next look off.
    looked: Nanos,
    /// The standing plan corrects an imbalance, so it is wrong once that is gone.
    correcting: bool,
    scratch: Scratch,
}

/// Tables of a replan, kept so that replanning allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    /// Active tenants in dispatch order: class, excess and number.
    order: Vec<(Class, f64, TenantId)>,
    /// Participants in dispatch order.
    tenants: Vec<TenantId>,
    claims: Vec<Claim>,
    demands: Vec<Demand>,
    partitioner: Partitioner,
    /// Groups: the first part that came out so, and the SMs of all parts alike.
    groups: Vec<(usize, SmSet)>,
    /// A tenant's limit on each group.
    limits: Vec<SmUnits>,
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
            looked: Nanos::ZERO,
            correcting: false,
            scratch: Scratch::default(),
        }
    }

    /// Returns whether shares are held at the weights.
    fn holds_shares(&self) -> bool {
        self.settings.surplus == Surplus::Lend
    }

    /// Lists the participants in dispatch order and what they demand.
    fn participants(&mut self, balance: &Balance) {
        let corrects = self.holds_shares() && self.correcting;
        let (book, scratch) = (&self.book, &mut self.scratch);
        scratch.order.clear();
        let excess = |tenant: &TenantRecord| tenant.excess_per_weight(balance.now);
        let active = book.active().map(|t| (t.class, excess(t), t.id));
        scratch.order.extend(active);
        scratch.order.sort_unstable_by(|one, other| {
            let excess = one.1.total_cmp(&other.1);
            one.0.cmp(&other.0).then(excess).then(one.2.cmp(&other.2))
        });
        scratch.tenants.clear();
        scratch.claims.clear();
        scratch.demands.clear();
        for (_, _, id) in &scratch.order {
            let Some(tenant) = book.tenant(*id) else {
                continue;
            };
            let (claim, before) = (scratch.claims.len(), scratch.demands.len());
            for (_, row) in book.rows_of(tenant).filter(|(_, row)| row.works) {
                if max_residency(&self.shape, &row.block) > 0 {
                    scratch.demands.push(Demand {
                        claim,
                        block: row.block,
                        blocks: row.demand.max(1),
                    });
                }
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
            scratch.tenants.push(*id);
        }
    }

    /// Partitions the device and groups the parts that came out alike. SMs are numbered through the
    /// parts in order.
    fn partition(&mut self) {
        let scratch = &mut self.scratch;
        let (claims, demands) = (&scratch.claims, &scratch.demands);
        let done = &mut scratch.partitioner;
        done.partition(&self.shape, claims, demands, MOST_PARTS);
        scratch.groups.clear();
        let mut from = 0;
        for (part, &sms) in done.parts().iter().enumerate() {
            let alike = |(first, _): &(usize, SmSet)| done.caps(*first) == done.caps(part);
            let place = scratch.groups.iter().position(alike).unwrap_or_else(|| {
                scratch.groups.push((part, SmSet::empty()));
                scratch.groups.len() - 1
            });
            for sm in from..from + sms {
                scratch.groups[place].1.insert(SmId(sm));
            }
            from += sms;
        }
    }

    fn build(&mut self, balance: &Balance, standing: &Plan, next: &mut Plan) {
        self.participants(balance);
        let alone = self.scratch.tenants.len() < 2;
        match alone {
            true => {
                self.scratch.groups.clear();
                let all = (0, SmSet::first(self.shape.sms));
                self.scratch.groups.push(all);
            }
            false => self.partition(),
        }
        let mut plan = PlanBuilder::new(next, self.device, &self.shape);
        plan.wake_at(self.wake_at).default_row(DefaultRow {
            cap: 1,
            stop: Stop::Checked,
        });
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
        if !alone {
            let place = plan.limit(TenantLimit {
                tenant: id,
                device: SmUnits::MAX,
            });
            for (group, limit) in limits() {
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
                plan.cell(group, place, Cell::capped(known.1));
            }
        }
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
        for (first, _) in &scratch.groups {
            let caps = &scratch.partitioner.caps(*first)[demands.clone()];
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

    /// Returns when the controller should look again, or a grace ends.
    fn next_wake(&self, balance: &Balance, now: Nanos) -> Option<Nanos> {
        let tick = self.holds_shares() && self.book.active().nth(1).is_some();
        let tenants = self.book.active();
        let idle_tenant = tenants.clone().filter(|tenant| tenant.open_launches == 0);
        let rows = tenants.flat_map(|tenant| self.book.rows_of(tenant));
        let idle_row = rows.filter(|(_, row)| row.works && row.open_launches == 0);
        let grace = idle_tenant
            .map(|tenant| tenant.last_open)
            .chain(idle_row.map(|(_, row)| row.last_open))
            .min()
            .map(|last| last + self.settings.grace);
        let tick = tick.then(|| self.looked + balance.tick());
        [tick, grace]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.max(now + Nanos(1)))
    }
}

impl Policy for SmkP {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        self.book.advance(now);
        self.book.expire(self.settings.grace);
        let changed = self.book.take_demand_changed();
        let due = self.wake_at.is_some_and(|at| now >= at);
        if due || !self.planned {
            self.looked = now;
        }
        if self.planned && !changed && !due {
            return false;
        }
        let balance = share_control::rebase(&mut self.book, self.shape.sms, now);
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
        self.wake_at
    }
}
