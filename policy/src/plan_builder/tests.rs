//! What a built plan says, what is refused, and what is marked as changed.

use super::{PlanBuilder, PlanError};
use crate::ids::{DeviceId, GroupId, RowId, SmId, TenantId};
use crate::plan::{
    Cell, DefaultRow, DispatchOrder, Group, NO_CAP, Plan, PlanRow, Preemption, Stop, Surplus,
    TenantLimit,
};
use crate::shape::{BlockShape, DeviceShape, SmUnits};
use crate::sm_set::SmSet;

const DEVICE: DeviceShape = DeviceShape::small(4);
/// A quarter of an SM by threads.
const QUARTER: BlockShape = BlockShape {
    threads: 256,
    registers: 256,
    shared_bytes: 0,
};

fn row(row: u32, tenant: u32, rank: u32) -> PlanRow {
    PlanRow {
        row: RowId(row),
        tenant: TenantId(tenant),
        rank,
        stop: Stop::Checked,
        budget: None,
    }
}

fn group(from: u16, to: u16, preemption: Preemption) -> Group {
    Group {
        sms: SmSet::range(from, to),
        order: DispatchOrder::Rank,
        preemption,
        head_of_line: false,
        surplus: Surplus::Idle,
    }
}

fn limit(tenant: u32, device: SmUnits) -> TenantLimit {
    TenantLimit {
        tenant: TenantId(tenant),
        device,
    }
}

fn fill(
    plan: &mut Plan,
    before: &Plan,
    say: impl FnOnce(&mut PlanBuilder<'_>),
) -> Result<(), PlanError> {
    let mut builder = PlanBuilder::new(plan, DeviceId(0), &DEVICE);
    say(&mut builder);
    builder.finish(before, |_| QUARTER)
}

fn made(say: impl FnOnce(&mut PlanBuilder<'_>)) -> Plan {
    let mut plan = Plan::default();
    fill(&mut plan, &Plan::default(), say).expect("the plan is valid");
    plan
}

fn refused(say: impl FnOnce(&mut PlanBuilder<'_>)) -> PlanError {
    let mut plan = Plan::default();
    fill(&mut plan, &Plan::default(), say).expect_err("the plan is not valid")
}

/// Two groups, three rows of two tenants, one limit.
fn usual(plan: &mut PlanBuilder<'_>) {
    let one = plan.group(group(0, 1, Preemption::None));
    let rest = plan.group(group(1, 4, Preemption::None));
    let first = plan.row(row(7, 0, 1), Cell::capped(3));
    plan.cell(rest, first, Cell::capped(2));
    plan.row(row(2, 1, 0), Cell::capped(1));
    plan.standby_row(row(3, 1, 0), Cell::capped(NO_CAP));
    let place = plan.limit(limit(1, SmUnits::MAX));
    plan.group_limit(one, place, SmUnits(SmUnits::ONE.0 / 2));
    plan.group_limit(rest, place, SmUnits(SmUnits::ONE.0 / 4));
}

#[test]
fn caps_are_summed_over_the_groups_sms() {
    let plan = made(usual);
    assert_eq!(plan.cap_total(RowId(7)), 3 + 3 * 2);
    assert_eq!(plan.cap_total(RowId(2)), 4);
    assert_eq!(plan.cap_total(RowId(3)), u32::MAX, "no cap saturates");
    assert_eq!(plan.cap_total(RowId(99)), 8 * 4, "the default row");
    assert_eq!(plan.on_sm(SmId(0), RowId(7)).cap, 3);
    assert_eq!(plan.on_sm(SmId(3), RowId(7)).cap, 2);
    assert_eq!((plan.rank(RowId(7)), plan.rank(RowId(99))), (1, u32::MAX));
}

#[test]
fn no_cap_on_no_sm_is_no_block() {
    let plan = made(|plan| {
        plan.group(group(0, 4, Preemption::None));
        let none = plan.group(group(4, 4, Preemption::None));
        let place = plan.row(row(0, 0, 0), Cell::capped(1));
        plan.cell(none, place, Cell::capped(NO_CAP));
    });
    assert_eq!(plan.cap_total(RowId(0)), 4);
}

#[test]
fn a_plan_without_groups_gives_its_default_to_all() {
    let plan = made(|plan| {
        plan.default_row(DefaultRow {
            cap: 3,
            stop: Stop::Ahead,
        });
        plan.row(row(0, 0, 0), Cell::capped(1));
    });
    assert_eq!(
        (plan.cap_total(RowId(0)), plan.cap_total(RowId(1))),
        (12, 12)
    );
    assert_eq!(plan.stop(RowId(1)), Stop::Ahead);
    assert_eq!(plan.on_sm(SmId(2), RowId(0)).cap, 3);
}

#[test]
fn the_device_limit_is_the_least_of_both() {
    let plan = made(usual);
    let sum = SmUnits(SmUnits::ONE.0 / 2 + 3 * (SmUnits::ONE.0 / 4));
    assert_eq!(plan.device_limit(TenantId(1)), sum);
    assert_eq!(plan.device_limit(TenantId(0)), SmUnits::MAX);
    let plan = made(|plan| {
        let all = plan.group(group(0, 4, Preemption::None));
        let place = plan.limit(limit(5, SmUnits::ONE));
        plan.group_limit(all, place, SmUnits::ONE);
        plan.limit(limit(6, SmUnits(7)));
    });
    assert_eq!(plan.device_limit(TenantId(5)), SmUnits::ONE);
    assert_eq!(plan.device_limit(TenantId(6)), SmUnits(7));
}

#[test]
fn rows_fit_together_in_order_of_rank() {
    let plan = made(|plan| {
        plan.group(group(0, 4, Preemption::Drain));
        plan.row(row(0, 0, 2), Cell::capped(4));
        plan.row(row(1, 1, 0), Cell::capped(3));
        plan.row(row(2, 2, 1), Cell::capped(NO_CAP));
        plan.standby_row(row(3, 3, 0), Cell::capped(4));
    });
    // Four quarters fit: the first in rank keeps three. No cap and standby rows take nothing.
    let caps = [0, 1, 2, 3].map(|row| plan.on_sm(SmId(0), RowId(row)).cap);
    assert_eq!(caps, [1, 3, NO_CAP, 4]);
    let without = made(|plan| {
        plan.group(group(0, 4, Preemption::None));
        plan.row(row(0, 0, 1), Cell::capped(4));
        plan.row(row(1, 1, 0), Cell::capped(3));
    });
    let caps = [0, 1].map(|row| without.on_sm(SmId(0), RowId(row)).cap);
    assert_eq!(caps, [4, 3], "without preemption caps may promise too much");
}

#[test]
fn rows_under_a_group_limit_keep_their_caps() {
    let plan = made(|plan| {
        let all = plan.group(group(0, 4, Preemption::Switch));
        plan.row(row(0, 0, 0), Cell::capped(4));
        plan.row(row(1, 0, 0), Cell::capped(4));
        plan.row(row(2, 1, 1), Cell::capped(4));
        let place = plan.limit(limit(0, SmUnits::MAX));
        plan.group_limit(all, place, SmUnits::ONE);
    });
    let caps = [0, 1, 2].map(|row| plan.on_sm(SmId(0), RowId(row)).cap);
    assert_eq!(caps, [4, 4, 4]);
}

#[test]
fn every_error_names_what_is_wrong() {
    let none = Preemption::None;
    let whole = |plan: &mut PlanBuilder<'_>| plan.group(group(0, 4, none));
    let overlap = refused(|plan| {
        plan.group(group(0, 3, none));
        plan.group(group(2, 4, none));
    });
    assert_eq!(overlap, PlanError::Overlap { sm: SmId(2) });
    let uncovered = refused(|plan| {
        plan.group(group(1, 4, none));
    });
    assert_eq!(uncovered, PlanError::Uncovered { sm: SmId(0) });
    let no_such = refused(|plan| {
        plan.group(group(0, 5, none));
    });
    assert_eq!(no_such, PlanError::NoSuchSm { sm: SmId(4) });
    let twice = refused(|plan| {
        whole(plan);
        plan.row(row(3, 0, 0), Cell::default());
        plan.row(row(3, 1, 0), Cell::default());
    });
    assert_eq!(twice, PlanError::RowTwice { row: RowId(3) });
    let limits = refused(|plan| {
        whole(plan);
        plan.limit(limit(2, SmUnits::MAX));
        plan.limit(limit(2, SmUnits::ONE));
    });
    let tenant = TenantId(2);
    assert_eq!(limits, PlanError::LimitTwice { tenant });
    let late = refused(|plan| {
        plan.row(row(3, 0, 0), Cell::default());
        whole(plan);
    });
    let first = GroupId(0);
    assert_eq!(late, PlanError::GroupTooLate { group: first });
    assert_eq!(
        late.to_string(),
        "group 0 was added after rows; add every group first"
    );
}

fn marks(plan: &Plan) -> (Vec<bool>, Vec<bool>) {
    let rows = (0..plan.rows().len()).map(|place| plan.row_changed(place));
    let groups = (0..plan.groups().len()).map(|group| plan.group_changed(group));
    (rows.collect(), groups.collect())
}

#[test]
fn what_changed_is_marked() {
    let before = made(usual);
    assert_eq!(marks(&before), (vec![true; 3], vec![true; 2]));
    let mut plan = Plan::default();
    let mut after = |say: &dyn Fn(&mut PlanBuilder<'_>)| {
        fill(&mut plan, &before, say).expect("the plan is valid");
        marks(&plan)
    };
    assert_eq!(after(&usual), (vec![false; 3], vec![false; 2]));
    // A limit on one group: its tenant's rows, and every group.
    let limited = after(&|plan| {
        usual(plan);
        plan.group_limit(GroupId(0), super::PlanIndex(0), SmUnits(9));
    });
    assert_eq!(limited, (vec![false, true, true], vec![true; 2]));
    // The same sum in other places is a change as well.
    let moved = after(&|plan| {
        usual(plan);
        let quarter = SmUnits::ONE.0 / 4;
        plan.group_limit(GroupId(0), super::PlanIndex(0), SmUnits(5 * quarter));
        plan.group_limit(GroupId(1), super::PlanIndex(0), SmUnits(0));
    });
    assert_eq!(moved, (vec![false, true, true], vec![true; 2]));
    // A cap on one group: its row and that group.
    let capped = after(&|plan| {
        usual(plan);
        plan.cell(GroupId(1), super::PlanIndex(0), Cell::capped(1));
    });
    assert_eq!(capped, (vec![true, false, false], vec![false, true]));
    // A row more, and a row less: every group.
    let more = after(&|plan| {
        usual(plan);
        plan.row(row(9, 0, 0), Cell::capped(1));
    });
    assert_eq!(more, (vec![false, false, false, true], vec![true; 2]));
    let less = after(&|plan| {
        plan.group(group(0, 1, Preemption::None));
        plan.group(group(1, 4, Preemption::None));
        let first = plan.row(row(7, 0, 1), Cell::capped(3));
        plan.cell(GroupId(1), first, Cell::capped(2));
    });
    assert_eq!(less, (vec![false], vec![true; 2]));
}

#[test]
fn a_buffer_keeps_nothing_of_another_plan() {
    let mut plan = Plan::default();
    fill(&mut plan, &Plan::default(), |plan| {
        usual(plan);
        plan.wake_at(Some(crate::units::Nanos(5)));
        plan.row(row(40, 9, 3), Cell::capped(1));
        plan.limit(limit(9, SmUnits(1)));
    })
    .expect("the plan is valid");
    fill(&mut plan, &Plan::default(), |plan| {
        plan.group(group(0, 4, Preemption::None));
        plan.row(row(1, 4, 0), Cell::capped(2));
    })
    .expect("the plan is valid");
    let fresh = made(|plan| {
        plan.group(group(0, 4, Preemption::None));
        plan.row(row(1, 4, 0), Cell::capped(2));
    });
    assert!(plan.says_the_same(&fresh));
    assert_eq!(plan.wake_at, None);
    for row in (0..50).map(RowId) {
        assert_eq!(plan.row(row), fresh.row(row));
        assert_eq!(plan.cap_total(row), fresh.cap_total(row));
    }
    for tenant in (0..12).map(TenantId) {
        assert_eq!(plan.device_limit(tenant), SmUnits::MAX);
    }
    assert_eq!(marks(&plan), marks(&fresh));
}

#[test]
fn a_refused_plan_leaves_a_usable_buffer() {
    let mut plan = Plan::default();
    fill(&mut plan, &Plan::default(), |plan| {
        plan.group(group(0, 2, Preemption::None));
        plan.row(row(8, 0, 0), Cell::capped(1));
        plan.row(row(8, 0, 0), Cell::capped(1));
    })
    .expect_err("SM 2 is in no group");
    fill(&mut plan, &Plan::default(), usual).expect("the plan is valid");
    assert!(plan.says_the_same(&made(usual)));
    assert_eq!(plan.row(RowId(8)), None);
}
