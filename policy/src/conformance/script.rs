//! A policy that says what it was told to say, at the times it was told, and keeps what it hears.
//!
//! A script is a list of plans in words ([`Say`]): rows are named by the load they belong to, because executors number
//! them. Rules: a plan lists the rows that the policy has heard of and that are not gone; it is made again when rows
//! come or go.

use super::Load;
use crate::event::Event;
use crate::ids::{DeviceId, GroupId, RowId, TenantId};
use crate::plan::{
    Cell, DefaultRow, DispatchOrder, Group, NO_CAP, Plan, PlanRow, Preemption, Stop, TenantLimit,
};
use crate::plan_builder::PlanBuilder;
use crate::policy::Policy;
use crate::shape::{BlockShape, DeviceShape, SmUnits};
use crate::sm_set::SmSet;
use crate::units::Nanos;
use std::num::NonZeroU16;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A group of SMs.
#[derive(Clone, Debug)]
pub struct GroupSay {
    /// Its first SM and the one after its last.
    pub sms: (u16, u16),
    /// The order in which free room is filled.
    pub order: DispatchOrder,
    /// How blocks beyond a cap or limit leave.
    pub preemption: Preemption,
    /// The first in order holds up the rest.
    pub head_of_line: bool,
}

/// A row.
#[derive(Clone, Debug)]
pub struct RowSay {
    /// Place of the load whose row it is.
    pub load: usize,
    /// Its rank.
    pub rank: u32,
    /// How promptly it must be able to stop.
    pub stop: Stop,
    /// Its issue weight on every group.
    pub weight: Option<u16>,
    /// Up to which number its blocks may start.
    pub budget: Option<u64>,
    /// Its cap on each group; the last one counts for the groups that follow.
    pub caps: Vec<u16>,
}

impl RowSay {
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
pub struct LimitSay {
    /// The tenant.
    pub tenant: TenantId,
    /// On the device.
    pub device: SmUnits,
    /// On each SM of each group; the last one counts for the groups that follow.
    pub groups: Vec<SmUnits>,
}

/// A plan in words.
#[derive(Clone, Debug)]
pub struct Say {
    /// When it is to be made.
    pub at: Nanos,
    /// Its groups.
    pub groups: Vec<GroupSay>,
    /// Its rows.
    pub rows: Vec<RowSay>,
    /// Its limits.
    pub limits: Vec<LimitSay>,
    /// Cap of rows that are not listed.
    pub default_cap: u16,
}

impl Say {
    /// Returns a plan that lists nothing, with one group over `sms` SMs in order of rank.
    #[must_use]
    pub fn at(at: Nanos, sms: u16) -> Self {
        Self {
            at,
            groups: vec![GroupSay {
                sms: (0, sms),
                order: DispatchOrder::Rank,
                preemption: Preemption::None,
                head_of_line: false,
            }],
            rows: Vec::new(),
            limits: Vec::new(),
            default_cap: NO_CAP,
        }
    }

    /// Adds a row with the same cap everywhere.
    #[must_use]
    pub fn row(mut self, load: usize, rank: u32, cap: u16) -> Self {
        self.rows.push(RowSay::of(load, rank, cap));
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
        self.limits.push(LimitSay {
            tenant,
            device,
            groups: vec![on_sm],
        });
        self
    }

    /// Changes every group.
    #[must_use]
    pub fn each_group(mut self, change: impl Fn(&mut GroupSay)) -> Self {
        self.groups.iter_mut().for_each(change);
        self
    }
}

/// What the policy heard and said, in order.
#[derive(Clone, Debug)]
pub enum Record {
    /// It heard an event.
    Heard(Event),
    /// It was asked, and made no plan.
    Asked(Nanos),
    /// It made a plan.
    Said(Nanos, Box<Plan>),
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
    says: Vec<Say>,
    /// By load: what tells its row.
    names: Vec<(TenantId, u32)>,
    /// Make the plan again whenever asked, and ask for it this often.
    again: Option<Nanos>,
    known: Vec<Known>,
    /// Place of the plan in force, and whether it has to be made again.
    now: usize,
    stale: bool,
    wake_at: Option<Nanos>,
    records: Sender<Record>,
}

impl Script {
    /// Returns the policy and the end of its records. `says` are in order of time, the first at 0.
    #[must_use]
    pub fn new(
        shape: &DeviceShape,
        says: Vec<Say>,
        loads: &[Load],
        again: Option<Nanos>,
    ) -> (Self, Receiver<Record>) {
        let (records, heard) = channel();
        let script = Self {
            shape: *shape,
            says,
            names: loads.iter().map(|l| (l.tenant, l.block.threads)).collect(),
            again,
            known: Vec::new(),
            now: 0,
            stale: true,
            wake_at: None,
            records,
        };
        (script, heard)
    }

    fn record(&self, record: Record) {
        // The harness outlives the run; what comes after it has no reader.
        let _ = self.records.send(record);
    }

    fn build(&self, standing: &Plan, next: &mut Plan) {
        let say = &self.says[self.now];
        let mut plan = PlanBuilder::new(next, DeviceId(0), &self.shape);
        plan.wake_at(self.wake_at).default_row(DefaultRow {
            cap: say.default_cap,
            stop: Stop::Checked,
        });
        let mut groups: Vec<GroupId> = Vec::new();
        for group in &say.groups {
            groups.push(plan.group(Group {
                sms: SmSet::range(group.sms.0, group.sms.1),
                order: group.order,
                preemption: group.preemption,
                head_of_line: group.head_of_line,
            }));
        }
        let nth = |all: &[u16], n: usize| all[n.min(all.len() - 1)];
        for row in &say.rows {
            let (tenant, threads) = self.names[row.load];
            let named = |known: &&Known| {
                !known.spill && known.tenant == tenant && known.block.threads == threads
            };
            let Some(known) = self.known.iter().find(named) else {
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
        for limit in &say.limits {
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
        self.record(Record::Heard(*event));
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
        while self.says.get(self.now + 1).is_some_and(|say| say.at <= now) {
            self.now += 1;
            self.stale = true;
        }
        let following = self.says.get(self.now + 1).map(|say| say.at);
        let again = self.again.map(|every| now + every);
        self.wake_at = following.into_iter().chain(again).min();
        if !std::mem::take(&mut self.stale) && self.again.is_none() {
            self.record(Record::Asked(now));
            return false;
        }
        self.build(standing, next);
        self.record(Record::Said(now, Box::new(next.clone())));
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake_at
    }
}
