//! A policy that publishes given plans at given times.
//!
//! A script is a list of such plans ([`PlanSpec`]), whose rows are named by the load they belong to, because executors
//! number them. Rules: a plan lists the rows that the policy has heard of and that are not gone; it is made again when
//! rows come or go.

use super::{Load, PolicyLog, Tapped};
use crate::event::Event;
use crate::ids::{DeviceId, GroupId, RowId, TenantId};
use crate::plan::{
    Cell, DefaultRow, DispatchOrder, Group, NO_CAP, Plan, PlanRow, Preemption, Stop, Surplus,
    TenantLimit,
};
use crate::plan_builder::PlanBuilder;
use crate::policy::{Policy, Watch};
use crate::shape::{BlockShape, DeviceShape, SmUnits};
use crate::sm_set::SmSet;
use crate::units::Nanos;
use std::num::NonZeroU16;

/// A group of SMs.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    /// Its first SM and the one after its last.
    pub sms: (u16, u16),
    /// The order in which free room is filled.
    pub order: DispatchOrder,
    /// How blocks beyond a cap or limit leave.
    pub preemption: Preemption,
    /// The first in order holds up the rest.
    pub head_of_line: bool,
    /// What becomes of room that nobody within cap and limit can use.
    pub surplus: Surplus,
}

/// A row.
#[derive(Clone, Debug)]
pub struct RowSpec {
    /// Place of the load whose row it is.
    pub load: usize,
    /// Its rank.
    pub rank: u32,
    /// How promptly it must be able to stop.
    pub stop: Stop,
    /// Its issue weight on every group.
    pub weight: Option<u16>,
    /// Number of its blocks that may start, counted since the row was made; `None` is no limit.
    pub budget: Option<u64>,
    /// Its cap on each group; the last one counts for the groups that follow.
    pub caps: Vec<u16>,
}

impl RowSpec {
    /// Returns a row with the same cap everywhere.
    #[must_use]
    pub fn of(load: usize, rank: u32, cap: u16) -> Self {
        Self {
            load,
            rank,
            stop: Stop::Checked,
            weight: None,
            budget: None,
            caps: vec![cap],
        }
    }
}

/// A tenant's limit.
#[derive(Clone, Debug)]
pub struct LimitSpec {
    /// The tenant.
    pub tenant: TenantId,
    /// What its blocks may hold on the device together.
    pub device: SmUnits,
    /// What they may hold on each SM of each group; the last one counts for the groups that follow.
    pub groups: Vec<SmUnits>,
}

/// A plan to be made at a given time.
#[derive(Clone, Debug)]
pub struct PlanSpec {
    /// Device time at which it is to be made.
    pub at: Nanos,
    /// Its groups.
    pub groups: Vec<GroupSpec>,
    /// Its rows.
    pub rows: Vec<RowSpec>,
    /// Its limits.
    pub limits: Vec<LimitSpec>,
    /// Cap of rows that are not listed.
    pub default_cap: u16,
    /// The load whose row is watched, and its count of ended blocks.
    pub watch: Option<(usize, u64)>,
}

impl PlanSpec {
    /// Returns a plan that lists nothing, with one group over `sms` SMs in order of rank.
    #[must_use]
    pub fn at(at: Nanos, sms: u16) -> Self {
        Self {
            at,
            groups: vec![GroupSpec {
                sms: (0, sms),
                order: DispatchOrder::Rank,
                preemption: Preemption::None,
                head_of_line: false,
                surplus: Surplus::Idle,
            }],
            rows: Vec::new(),
            limits: Vec::new(),
            default_cap: NO_CAP,
            watch: None,
        }
    }

    /// Adds a row with the same cap everywhere.
    #[must_use]
    pub fn row(mut self, load: usize, rank: u32, cap: u16) -> Self {
        self.rows.push(RowSpec::of(load, rank, cap));
        self
    }

    /// Gives the row that was added last a budget.
    #[must_use]
    pub fn budget(mut self, budget: Option<u64>) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.budget = budget;
        }
        self
    }

    /// Adds a tenant's limits.
    #[must_use]
    pub fn limit(mut self, tenant: TenantId, device: SmUnits, on_sm: SmUnits) -> Self {
        self.limits.push(LimitSpec {
            tenant,
            device,
            groups: vec![on_sm],
        });
        self
    }

    /// Changes every group.
    #[must_use]
    pub fn each_group(mut self, change: impl Fn(&mut GroupSpec)) -> Self {
        self.groups.iter_mut().for_each(change);
        self
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    row: RowId,
    tenant: TenantId,
    block: BlockShape,
    spill: bool,
}

/// The policy.
#[derive(Debug)]
pub struct Script {
    shape: DeviceShape,
    specs: Vec<PlanSpec>,
    /// By load: the tenant and the threads per block by which its row is recognised.
    names: Vec<(TenantId, u32)>,
    /// Make the plan again whenever asked, and ask for it this often.
    again: Option<Nanos>,
    known: Vec<Known>,
    /// Place of the plan in force, and whether it has to be made again.
    now: usize,
    stale: bool,
    wake_at: Option<Nanos>,
}

impl Script {
    /// Returns the policy with its log. `specs` are in order of time, the first at 0.
    #[must_use]
    pub fn logged(
        shape: &DeviceShape,
        specs: Vec<PlanSpec>,
        loads: &[Load],
        again: Option<Nanos>,
    ) -> (Box<Tapped>, PolicyLog) {
        Tapped::new(Box::new(Self {
            shape: *shape,
            specs,
            names: loads.iter().map(|l| (l.tenant, l.block.threads)).collect(),
            again,
            known: Vec::new(),
            now: 0,
            stale: true,
            wake_at: None,
        }))
    }

    /// Returns the row of a load, once the policy has heard of it.
    fn row_of(&self, load: usize) -> Option<&Known> {
        let (tenant, threads) = self.names[load];
        let named = |known: &&Known| {
            !known.spill && known.tenant == tenant && known.block.threads == threads
        };
        self.known.iter().find(named)
    }

    fn build(&self, standing: &Plan, next: &mut Plan) {
        let spec = &self.specs[self.now];
        let mut plan = PlanBuilder::new(next, DeviceId(0), &self.shape);
        plan.wake_at(self.wake_at).default_row(DefaultRow {
            cap: spec.default_cap,
            stop: Stop::Checked,
        });
        let mut groups: Vec<GroupId> = Vec::new();
        for group in &spec.groups {
            groups.push(plan.group(Group {
                sms: SmSet::range(group.sms.0, group.sms.1),
                order: group.order,
                preemption: group.preemption,
                head_of_line: group.head_of_line,
                surplus: group.surplus,
            }));
        }
        let nth = |all: &[u16], n: usize| all[n.min(all.len() - 1)];
        for row in &spec.rows {
            let tenant = self.names[row.load].0;
            let Some(known) = self.row_of(row.load) else {
                continue;
            };
            let listed = PlanRow {
                row: known.row,
                tenant,
                rank: row.rank,
                stop: row.stop,
                budget: row.budget,
            };
            // Standby: the joint fit must not touch the caps that the case worked out.
            let place = plan.standby_row(listed, Cell::default());
            for (n, group) in groups.iter().enumerate() {
                let cell = Cell {
                    cap: nth(&row.caps, n),
                    weight: row.weight.and_then(NonZeroU16::new),
                };
                plan.cell(*group, place, cell);
            }
        }
        for known in self.known.iter().filter(|known| known.spill) {
            let listed = PlanRow {
                row: known.row,
                tenant: known.tenant,
                rank: u32::MAX - 1,
                stop: Stop::Checked,
                budget: None,
            };
            plan.standby_row(listed, Cell::capped(NO_CAP));
        }
        for limit in &spec.limits {
            let place = plan.limit(TenantLimit {
                tenant: limit.tenant,
                device: limit.device,
            });
            for (n, group) in groups.iter().enumerate() {
                let last = limit.groups.len() - 1;
                plan.group_limit(*group, place, limit.groups[n.min(last)]);
            }
        }
        plan.finish(standing, |_| BlockShape::default())
            .expect("a script names each row once and covers the device");
    }
}

impl Policy for Script {
    fn observe(&mut self, event: &Event) {
        match *event {
            Event::RowNew {
                row,
                tenant,
                block,
                spill,
                ..
            } => {
                let new = Known {
                    row,
                    tenant,
                    block,
                    spill,
                };
                let again =
                    |known: &Known| (known.row, known.tenant, known.block) == (row, tenant, block);
                if !self.known.iter().any(again) {
                    self.known.retain(|known| known.row != row);
                    self.known.push(new);
                    self.stale = true;
                }
            }
            Event::RowGone { row } => {
                self.known.retain(|known| known.row != row);
                self.stale = true;
            }
            Event::TenantGone { tenant } => self.known.retain(|known| known.tenant != tenant),
            _ => {}
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        while self
            .specs
            .get(self.now + 1)
            .is_some_and(|spec| spec.at <= now)
        {
            self.now += 1;
            self.stale = true;
        }
        let following = self.specs.get(self.now + 1).map(|spec| spec.at);
        let again = self.again.map(|every| now + every);
        self.wake_at = following.into_iter().chain(again).min();
        if !std::mem::take(&mut self.stale) && self.again.is_none() {
            return false;
        }
        self.build(standing, next);
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake_at
    }

    fn watch(&self) -> Option<Watch> {
        let (load, ended) = self.specs[self.now].watch?;
        let row = self.row_of(load)?.row;
        Some(Watch { row, ended })
    }
}
