//! Rules broken by hand, to show that the suite notices.
//!
//! [`Breaking`] stands between an executor and the policy of a case: the executor obeys another plan than the one that
//! was made, or the policy hears something else than what happened. To the suite both look like an executor that
//! breaks the rule.

use crate::event::Event;
use crate::ids::RowId;
use crate::plan::{Cell, DispatchOrder, Group, NO_CAP, Plan, Stop, Surplus};
use crate::plan_builder::PlanBuilder;
use crate::policy::{Policy, Watch};
use crate::shape::{BlockShape, DeviceShape};
use crate::units::Nanos;
use std::collections::BTreeMap;

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// Plans are obeyed as if each cap were one higher.
    Caps,
    /// Ranks are turned around.
    Ranks,
    /// The row that was made last goes first, whatever the plan's order.
    Order,
    /// Tenants have no limits.
    Limits,
    /// Budgets begin anew with each plan.
    Budgets,
    /// Rows run ahead without a cap, whatever the plan says.
    Stops,
    /// What is to be lent stays empty, and the other way round.
    Surplus,
    /// Issue weights are turned around: each row gets 64 less its own.
    Weights,
    /// Every third event of blocks is left out.
    Blocks,
    /// Shares are of the whole device.
    Shares,
}

/// Breaks a rule between an executor and a policy.
pub struct Breaking {
    inner: Box<dyn Policy>,
    breach: Breach,
    shape: DeviceShape,
    /// Events heard.
    heard: u64,
    /// Starts by row.
    started: BTreeMap<RowId, u64>,
}

impl Breaking {
    /// Returns a policy that says what `inner` says, but for one rule.
    #[must_use]
    pub fn new(inner: Box<dyn Policy>, breach: Breach, shape: &DeviceShape) -> Self {
        Self {
            inner,
            breach,
            shape: *shape,
            heard: 0,
            started: BTreeMap::new(),
        }
    }

    /// Makes the plan one that breaks the rule if it is obeyed.
    fn spoil(&self, plan: &mut Plan) {
        let said = plan.clone();
        let mut builder = PlanBuilder::new(plan, said.device, &self.shape);
        builder
            .wake_at(said.wake_at)
            .default_row(said.default_row())
            .quota(said.quota);
        let groups: Vec<_> = said
            .groups()
            .iter()
            .map(|group| {
                let order = match self.breach {
                    Breach::Order => DispatchOrder::Rank,
                    _ => group.order,
                };
                let surplus = match (self.breach, group.surplus) {
                    (Breach::Surplus, Surplus::Idle) => Surplus::Lend,
                    (Breach::Surplus, Surplus::Lend) => Surplus::Idle,
                    (_, surplus) => surplus,
                };
                builder.group(Group {
                    order,
                    surplus,
                    ..*group
                })
            })
            .collect();
        for (place, row) in said.rows().iter().enumerate() {
            let mut row = *row;
            match self.breach {
                Breach::Ranks => row.rank = 10_u32.saturating_sub(row.rank),
                Breach::Order => row.rank = u32::MAX - 1 - row.row.0,
                Breach::Budgets => {
                    let started = self.started.get(&row.row).copied().unwrap_or(0);
                    row.budget = row.budget.map(|more| started + more);
                }
                Breach::Stops => row.stop = Stop::Ahead,
                _ => {}
            }
            let at = builder.standby_row(row, Cell::default());
            for (n, group) in groups.iter().enumerate() {
                builder.cell(*group, at, self.cell(said.cell(n, place)));
            }
        }
        if self.breach != Breach::Limits {
            for (place, limit) in said.limits().iter().enumerate() {
                let at = builder.limit(*limit);
                for (n, group) in groups.iter().enumerate() {
                    builder.group_limit(*group, at, said.group_limit(n, place));
                }
            }
        }
        let none = Plan::default();
        let done = builder.finish(&none, |_| BlockShape::default());
        done.expect("as good as the one before");
    }

    fn cell(&self, mut cell: Cell) -> Cell {
        match self.breach {
            Breach::Caps if cell.cap > 0 => cell.cap = cell.cap.saturating_add(1),
            Breach::Stops => cell.cap = NO_CAP,
            Breach::Weights => {
                let turned = |weight: std::num::NonZeroU16| 64_u16.saturating_sub(weight.get());
                cell.weight = cell.weight.map(turned).and_then(std::num::NonZeroU16::new);
            }
            _ => {}
        }
        cell
    }
}

impl Policy for Breaking {
    fn observe(&mut self, event: &Event) {
        self.heard += 1;
        if let Event::Blocks { row, started, .. } = *event {
            *self.started.entry(row).or_default() += u64::from(started);
        }
        match (self.breach, *event) {
            (Breach::Blocks, Event::Blocks { .. }) if self.heard.is_multiple_of(3) => {}
            (
                Breach::Shares,
                Event::Share {
                    tenant,
                    held,
                    entitled,
                    at,
                },
            ) => self.inner.observe(&Event::Share {
                tenant,
                held: held * 1.1,
                entitled,
                at,
            }),
            _ => self.inner.observe(event),
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let made = self.inner.replan(now, standing, next);
        if made {
            self.spoil(next);
        }
        made
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
    }

    fn watch(&self) -> Option<Watch> {
        self.inner.watch()
    }
}
