//! What must not change what happens: the numbers of tenants, the numbers of rows, and a tenant without work.

use super::run::{SMALL, Scene, load};
use super::script::{LimitSpec, PlanSpec};
use super::{Case, Subject, Trace, Verdict};
use crate::ids::TenantId;
use crate::plan::Preemption;
use crate::shape::SmUnits;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "tenants' numbers change nothing",
        needs: &[],
        run: permuted,
    },
    Case {
        name: "rows' numbers change nothing",
        needs: &[],
        run: renamed,
    },
    Case {
        name: "a tenant without work changes nothing",
        needs: &[],
        run: idle,
    },
];

/// Why a case does not apply to an executor whose runs differ by themselves.
const UNREPEATABLE: &str = "two equal runs differ";

/// Returns three rows of two tenants: caps that differ by group and change, a limit, a budget and ranks.
fn scene(subject: &dyn Subject) -> Scene {
    let (shape, grain) = (subject.device(), subject.grain());
    let blocks = 5 * u32::from(shape.sms);
    let spec = |at, caps: [u16; 3], budget| {
        let mut spec = PlanSpec::at(grain * at, shape.sms)
            .row(0, 2, caps[0])
            .row(1, 1, caps[1])
            .row(2, 0, caps[2])
            .budget(budget);
        spec.limits.push(LimitSpec {
            tenant: TenantId(0),
            device: SmUnits(SmUnits::ONE.0 * u64::from(shape.sms) / 3),
            groups: vec![SmUnits::MAX],
        });
        spec.default_cap = 1;
        spec.groups.push(spec.groups[0].clone());
        spec.groups[0].sms = (0, 1);
        spec.groups[1].sms = (1, shape.sms);
        spec.each_group(|group| group.preemption = Preemption::Switch)
    };
    let mut loads = vec![
        load(0, SMALL, blocks, grain),
        load(0, 2 * SMALL, blocks, grain * 2),
        load(1, SMALL, blocks, grain),
    ];
    loads[1].stream = 7;
    loads[2].launches[0].at = grain;
    Scene::of(
        vec![
            spec(0, [3, 2, 1], Some(4)),
            spec(3, [1, 1, 2], Some(8)),
            spec(8, [2, 3, 1], None),
        ],
        loads,
        grain * 60,
    )
}

/// Returns whether both have the same blocks at the same times in the same places; complete, because a row's number is
/// not part of it.
fn same(one: &Trace, other: &Trace) -> bool {
    one.blocks == other.blocks
}

fn permuted(subject: &mut dyn Subject) -> Result<Verdict, String> {
    if !subject.repeatable() {
        return Ok(Verdict::Skipped(UNREPEATABLE));
    }
    let scene = scene(subject);
    let one = scene.perform(subject)?;
    one.all_ended()?;
    let mut other = scene;
    let renumbered = |tenant: TenantId| TenantId(4 - tenant.0);
    for load in &mut other.loads {
        load.tenant = renumbered(load.tenant);
    }
    for limit in other.specs.iter_mut().flat_map(|spec| &mut spec.limits) {
        limit.tenant = renumbered(limit.tenant);
    }
    let other = other.perform(subject)?;
    one.require("the runs are the same", same(&one.trace, &other.trace))?;
    Ok(Verdict::Held)
}

fn renamed(subject: &mut dyn Subject) -> Result<Verdict, String> {
    if !subject.repeatable() {
        return Ok(Verdict::Skipped(UNREPEATABLE));
    }
    let scene = scene(subject);
    let one = scene.perform(subject)?;
    if !subject.first_row(1000) {
        return Ok(Verdict::Skipped("its rows cannot be numbered"));
    }
    let other = scene.perform(subject)?;
    let rows = |trace: &Trace| trace.launches.iter().map(|l| l.row).collect::<Vec<_>>();
    one.require("rows are renamed", rows(&one.trace) != rows(&other.trace))?;
    one.require("the runs are the same", same(&one.trace, &other.trace))?;
    Ok(Verdict::Held)
}

fn idle(subject: &mut dyn Subject) -> Result<Verdict, String> {
    if !subject.repeatable() {
        return Ok(Verdict::Skipped(UNREPEATABLE));
    }
    let scene = scene(subject);
    let one = scene.perform(subject)?;
    let mut other = scene;
    let mut nobody = load(2, SMALL, 1, subject.grain());
    nobody.weight = 100;
    nobody.launches.clear();
    other.loads.push(nobody);
    let other = other.perform(subject)?;
    one.require("the runs are the same", same(&one.trace, &other.trace))?;
    Ok(Verdict::Held)
}
