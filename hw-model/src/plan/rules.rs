//! A plan as the block scheduler reads it, by SM.
//!
//! Rules: whatever a plan says, only SMs that exist are looked up; rows and limits are found in dense tables; a plan
//! that follows the one held changes only the SMs near which its dirty bits say so.

use crate::config::GpuConfig;
use crate::occupancy::device_shape;
use crate::timing::quota::Weights;
use gridmux_policy::ids::SmId;
use gridmux_policy::plan::{DispatchOrder, Plan, Preemption, Surplus};
use gridmux_policy::shape::DeviceShape;
use std::sync::Arc;

/// The plan that is obeyed, and what follows from it.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) shape: DeviceShape,
    plan: Plan,
    /// By SM; [`Rules::nowhere`] for an SM that is in no group.
    group_of: Vec<usize>,
    /// By group; none where quotas are off.
    weights: Vec<Option<Arc<Weights>>>,
}

impl Rules {
    /// Returns the rules of an empty plan: no groups, no rows.
    pub(super) fn new(config: &GpuConfig) -> Self {
        let shape = device_shape(config);
        Self {
            shape,
            plan: Plan::default(),
            group_of: vec![0; usize::from(shape.sms)],
            weights: Vec::new(),
        }
    }

    /// Takes another plan. `changed` says by SM whether anything near it may be different.
    pub(super) fn replace(&mut self, plan: &Plan, changed: &mut Vec<bool>) {
        let follows = plan.epoch == self.plan.epoch.wrapping_add(1)
            && plan.default_row() == self.plan.default_row();
        self.plan.clone_from(plan);
        let plan = &self.plan;
        let nowhere = plan.groups().len();
        for (sm, slot) in (0..).zip(&mut self.group_of) {
            let group = plan.group_of(SmId(sm));
            *slot = group.map_or(nowhere, |group| usize::from(group.0));
        }
        changed.clear();
        changed.extend(self.group_of.iter().map(|group| {
            let same = follows && *group != nowhere && !changed_near(plan, *group);
            !same
        }));
        self.weigh();
    }

    /// Collects the weights of each group in which some row has one.
    fn weigh(&mut self) {
        let plan = &self.plan;
        self.weights.clear();
        for group in 0..plan.groups().len() {
            let mut weights = Weights {
                rule: plan.quota,
                rows: Vec::new(),
            };
            for (place, row) in plan.rows().iter().enumerate() {
                let weight = plan.cell(group, place).weight;
                let at = row.row.index();
                if weight.is_some() {
                    if weights.rows.len() <= at {
                        weights.rows.resize(at + 1, None);
                    }
                    weights.rows[at] = weight;
                }
            }
            let on = !weights.rows.is_empty();
            self.weights.push(on.then(|| Arc::new(weights)));
        }
    }

    /// Returns the weights that hold on an SM; none where quotas are off.
    pub(super) fn weights_on(&self, sm: usize) -> Option<&Arc<Weights>> {
        self.weights.get(self.group_of[sm])?.as_ref()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.plan.epoch
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the group of an SM, for the calls below.
    pub(super) fn group_of(&self, sm: usize) -> usize {
        self.group_of[sm]
    }

    pub(super) fn order(&self, group: usize) -> DispatchOrder {
        let group = self.plan.groups().get(group);
        group.map_or(DispatchOrder::Arrival, |group| group.order)
    }

    pub(super) fn preemption(&self, group: usize) -> Preemption {
        let group = self.plan.groups().get(group);
        group.map_or(Preemption::None, |group| group.preemption)
    }

    pub(super) fn head_of_line(&self, group: usize) -> bool {
        let group = self.plan.groups().get(group);
        group.is_some_and(|group| group.head_of_line)
    }

    pub(super) fn lends(&self, group: usize) -> bool {
        let group = self.plan.groups().get(group);
        group.is_some_and(|group| group.surplus == Surplus::Lend)
    }

    /// Returns whether some group lends.
    pub(super) fn is_lending(&self) -> bool {
        (0..self.plan.groups().len()).any(|group| self.lends(group))
    }
}

/// Returns whether anything that a group's SMs go by changed since the plan before: the group itself, a cell on it, a
/// limit, or the rank or budget of a row that may have blocks there.
fn changed_near(plan: &Plan, group: usize) -> bool {
    let rules = plan.groups()[group];
    let all = rules.head_of_line || rules.surplus == Surplus::Lend;
    let row_near = |place| plan.row_changed(place) && (all || plan.cell(group, place).cap > 0);
    plan.group_changed(group) || (0..plan.rows().len()).any(row_near)
}

#[cfg(test)]
mod tests {
    use super::Rules;
    use crate::config::GpuConfig;
    use gridmux_policy::ids::{DeviceId, GroupId, RowId, TenantId};
    use gridmux_policy::plan::{
        Cell, DispatchOrder, Group, Plan, PlanRow, Preemption, Publisher, Stop, Surplus,
    };
    use gridmux_policy::shape::BlockShape;
    use gridmux_policy::{PlanBuilder, SmSet};

    /// Makes a plan of two groups of one SM each; row 0 has this cap on the first and none on the second, row 1 the
    /// other way round.
    fn fill(
        rules: &Rules,
        surplus: Surplus,
        (cap, budget): (u16, Option<u64>),
        (before, next): (&Plan, &mut Plan),
    ) {
        let mut plan = PlanBuilder::new(next, DeviceId(0), &rules.shape);
        for sm in 0..2 {
            plan.group(Group {
                sms: SmSet::range(sm, sm + 1),
                order: DispatchOrder::Rank,
                preemption: Preemption::Switch,
                head_of_line: false,
                surplus,
            });
        }
        for (id, caps) in [(0, [cap, 0]), (1, [0, 2])] {
            let row = PlanRow {
                row: RowId(id),
                tenant: TenantId(0),
                rank: 0,
                stop: Stop::Checked,
                budget: budget.filter(|_| id == 1),
            };
            let place = plan.standby_row(row, Cell::default());
            for (group, cap) in (0..).zip(caps) {
                plan.cell(GroupId(group), place, Cell::capped(cap));
            }
        }
        let done = plan.finish(before, |_| BlockShape::default());
        done.expect("a plan");
    }

    /// Returns which SMs each of some plans changes.
    fn changes<const N: usize>(surplus: Surplus, plans: [(u16, Option<u64>); N]) -> [Vec<bool>; N] {
        let config = GpuConfig::builtin("gtx480").expect("built in");
        let mut rules = Rules::new(&config.scaled_to_sms(2));
        let mut publisher = Publisher::new(Plan::default());
        plans.map(|plan| {
            let mut draft = publisher.edit();
            fill(&rules, surplus, plan, draft.both());
            draft.publish();
            let mut changed = Vec::new();
            rules.replace(publisher.newest(), &mut changed);
            changed
        })
    }

    #[test]
    fn a_plan_that_follows_changes_only_what_its_dirty_bits_say() {
        let plans = [(1, None), (1, None), (2, None), (2, Some(7)), (1, Some(8))];
        let [first, same, cap, budget, both] = changes(Surplus::Idle, plans);
        assert_eq!(first, [true, true]);
        assert_eq!(same, [false, false]);
        assert_eq!(cap, [true, false], "a cap on one group");
        assert_eq!(budget, [false, true], "a budget of the other");
        assert_eq!(both, [true, true]);
    }

    #[test]
    fn where_room_is_lent_a_row_without_a_cap_counts() {
        let [_, same, budget] = changes(Surplus::Lend, [(1, None), (1, None), (1, Some(7))]);
        assert_eq!(same, [false, false]);
        assert_eq!(budget, [true, true], "it may have blocks on both");
    }

    #[test]
    fn a_plan_that_does_not_follow_changes_everything() {
        let config = GpuConfig::builtin("gtx480").expect("built in");
        let mut rules = Rules::new(&config.scaled_to_sms(2));
        let mut plan = Plan::default();
        let plans = (&Plan::default(), &mut plan);
        fill(&rules, Surplus::Idle, (1, None), plans);
        for _ in 0..2 {
            let mut changed = Vec::new();
            rules.replace(&plan, &mut changed);
            assert_eq!(changed, [true, true]);
        }
    }
}
