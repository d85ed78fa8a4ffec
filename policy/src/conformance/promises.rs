//! What some policies promise beyond their plans, seen on what really happened.
//!
//! Rules: judged only where caps are held exactly, to the SM; a plan's starts are those from the time at which it was
//! made until the next one was.

use super::run::Run;
use super::{BlockSeen, Change, Subject};
use crate::contract::{Element, Enforcement};
use crate::ids::{RowId, SmId, TenantId};
use crate::plan::Plan;
use crate::policies::{ljf, sjf, spatial, srtf, srtf_adaptive};
use crate::units::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// Checks what the policy of a run, given by its name, promises.
pub(super) fn watch(run: &Run, policy: &str, subject: &dyn Subject) -> Result<(), String> {
    if subject.enforces(Element::Cap) != Enforcement::Exact || !run.knows_sms() {
        return Ok(());
    }
    match policy {
        sjf::NAME | ljf::NAME => one_at_a_time(run),
        spatial::NAME => sms_apart(run),
        srtf::NAME => one_samples(run, true),
        // While kernels share, several start everywhere.
        srtf_adaptive::NAME => one_samples(run, false),
        _ => Ok(()),
    }
}

/// Checks that a kernel has the device until it ends: no block starts while one of another launch is there.
fn one_at_a_time(run: &Run) -> Result<(), String> {
    let mut resident: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for seen in &run.trace.blocks {
        let own = (seen.load, seen.launch);
        match seen.change {
            Change::Started | Change::SwitchedIn => {
                let others = resident.iter().filter(|(other, _)| **other != own);
                let others: u32 = others.map(|(_, blocks)| *blocks).sum();
                let what = format!("{seen:?} starts beside {others} blocks of other launches");
                run.require(&what, others == 0)?;
                *resident.entry(own).or_default() += 1;
            }
            Change::Ended | Change::SwitchedOut => *resident.entry(own).or_default() -= 1,
        }
    }
    Ok(())
}

/// Checks that every SM belongs to one tenant, as there are no more tenants than SMs: under a plan blocks of one
/// tenant's rows start there.
fn sms_apart(run: &Run) -> Result<(), String> {
    let mut owners = 0;
    for (_, starts) in under_plans(run) {
        let mut of: BTreeMap<SmId, BTreeSet<TenantId>> = BTreeMap::new();
        for seen in starts {
            if let Some(sm) = seen.sm {
                let tenant = run.loads[seen.load].tenant;
                of.entry(sm).or_default().insert(tenant);
            }
        }
        for (sm, tenants) in &of {
            let what = format!("{tenants:?} start blocks on SM {sm:?} under one plan");
            run.require(&what, tenants.len() == 1)?;
        }
        let tenants: BTreeSet<&TenantId> = of.values().flatten().collect();
        owners = owners.max(tenants.len());
    }
    run.require(&format!("{owners} tenants at once"), owners >= 3)
}

/// Checks that a kernel that is sampled has SM 0, and another one the rest; else one has the device if `alone`.
fn one_samples(run: &Run, alone: bool) -> Result<(), String> {
    let mut sampled: BTreeSet<RowId> = BTreeSet::new();
    for (plan, starts) in under_plans(run) {
        let on = |sample: bool| -> BTreeSet<RowId> {
            let there = starts
                .iter()
                .filter(|seen| (seen.sm == Some(SmId(0))) == sample);
            there.filter_map(|seen| run.row_of(seen)).collect()
        };
        let groups = plan.groups();
        let samples = groups.len() == 2 && groups[0].sms.len() == 1;
        let rows = [on(true), on(false)];
        let counts = (rows[0].len(), rows[1].len());
        if samples {
            let what = format!("rows {rows:?} start on SM 0 and on the rest while one samples");
            run.require(
                &what,
                counts.0 <= 1 && counts.1 <= 1 && rows[0].is_disjoint(&rows[1]),
            )?;
            sampled.extend(&rows[0]);
        } else if alone {
            let all: BTreeSet<_> = rows.iter().flatten().collect();
            run.require(
                &format!("rows {all:?} start under one plan"),
                all.len() <= 1,
            )?;
        }
    }
    let count = sampled.len();
    run.require(&format!("{count} rows were sampled"), count >= 2)
}

/// Returns each plan with the starts of blocks under it.
fn under_plans(run: &Run) -> Vec<(&Plan, Vec<&BlockSeen>)> {
    let plans: Vec<(Nanos, &Plan)> = run.plans().collect();
    let is_start = |seen: &&BlockSeen| seen.change == Change::Started;
    let starts: Vec<&BlockSeen> = run.trace.blocks.iter().filter(is_start).collect();
    let of = |(n, (made, plan)): (usize, &(Nanos, _))| {
        let until = plans.get(n + 1).map_or(Nanos::MAX, |next| next.0);
        let own = starts
            .iter()
            .filter(|seen| *made <= seen.at && seen.at < until);
        (*plan, own.copied().collect())
    };
    plans.iter().enumerate().map(of).collect()
}
