//! The shares that the policy hears are the integrals of what happened, computed here a second time
//! and in the plainest way: from one change to the next.

use super::run::{Run, SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, Change, LoadLaunch, Subject, Verdict};
use crate::event::Event;
use crate::ids::TenantId;
use crate::shape::{DeviceShape, Held};
use crate::units::Nanos;

pub(super) const CASES: &[Case] = &[Case {
    name: "shares are the integrals of what happened",
    needs: &[],
    run: integrals,
}];

/// How far a reading may be off, as a part of it.
const TOLERANCE: f64 = 0.01;

/// Tenants of weights 2, 1 and 1 begin at 0, 3 and 6 grains; the first has two kernels and comes again at 20 grains,
/// after a pause; the third has wide blocks. A fourth never has work. Caps of 2.
fn integrals(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (shape, grain) = (subject.device(), subject.grain());
    let blocks = 6 * u32::from(shape.sms);
    let mut loads = vec![
        load(0, SMALL, blocks, grain),
        load(1, SMALL, blocks, grain),
        load(2, 3 * SMALL, blocks, grain),
        load(0, 2 * SMALL, blocks, grain),
        load(3, SMALL, 1, grain),
    ];
    loads[0].weight = 2;
    loads[3].weight = 2;
    loads[3].stream = 7;
    loads[1].launches[0].at = grain * 3;
    loads[2].launches[0].at = grain * 6;
    let again = LoadLaunch {
        at: grain * 20,
        ..loads[0].launches[0]
    };
    loads[0].launches.push(again);
    loads[4].launches.clear();
    let mut spec = PlanSpec::at(Nanos(0), shape.sms);
    spec.default_cap = 2;
    let run = Scene::of(vec![spec], loads, grain * 40)
        .again(Nanos(grain.0 / 3))
        .complete(subject)?;
    let rounding = (subject.observation().0 + 2) as f64 * f64::from(shape.sms) * 4.0;
    let mut heard = 0;
    for event in run.events() {
        let Event::Share {
            tenant,
            held,
            entitled,
            at,
        } = *event
        else {
            continue;
        };
        heard += 1;
        let truth = integrate(&run, &shape, tenant, at);
        for (what, got, want) in [("held", held, truth.0), ("entitled", entitled, truth.1)] {
            let off = (got - want).abs();
            run.require(
                &format!("{tenant} at {at}: {what} {got}, in truth {want}"),
                off <= want * TOLERANCE + rounding,
            )?;
        }
        run.require("a tenant without work has no share", tenant != TenantId(3))?;
    }
    run.require(&format!("{heard} shares were heard"), heard >= 20)?;
    Ok(Verdict::Held)
}

/// Returns what a tenant held, and what it was entitled to, until a time, in SM · nanoseconds.
fn integrate(run: &Run, shape: &DeviceShape, tenant: TenantId, until: Nanos) -> (f64, f64) {
    let mut times: Vec<Nanos> = run.trace.blocks.iter().map(|seen| seen.at).collect();
    let launches = || {
        run.trace.launches.iter().map(|seen| {
            let load = &run.loads[seen.load];
            (
                load,
                load.launches[seen.launch].at,
                seen.end.unwrap_or(Nanos::MAX),
            )
        })
    };
    times.extend(launches().flat_map(|(_, from, to)| [from, to]));
    times.push(until);
    times.retain(|at| *at <= until);
    times.sort_unstable();
    times.dedup();
    let tenants: Vec<TenantId> = (0..4).map(TenantId).collect();
    let mut held = vec![Held::default(); tenants.len()];
    let (mut own, mut entitled, mut next) = (0.0, 0.0, 0);
    let mut from = Nanos(0);
    for to in times {
        let elapsed = (to - from).0 as f64;
        let now: Vec<f64> = held
            .iter()
            .map(|held| held.dominant(shape).as_sms())
            .collect();
        let busy = |of: TenantId| {
            let mut all = launches();
            all.any(|(load, begin, end)| load.tenant == of && begin <= from && to <= end)
        };
        let weight = |of: TenantId| {
            let load = run.loads.iter().find(|load| load.tenant == of);
            load.map_or(0.0, |load| f64::from(load.weight))
        };
        let weights: f64 = tenants
            .iter()
            .filter(|t| busy(**t))
            .map(|t| weight(*t))
            .sum();
        own += now[tenant.index()] * elapsed;
        if busy(tenant) {
            entitled += now.iter().sum::<f64>() * elapsed * weight(tenant) / weights;
        }
        while let Some(seen) = run.trace.blocks.get(next).filter(|seen| seen.at <= to) {
            let held = &mut held[run.loads[seen.load].tenant.index()];
            match seen.change {
                Change::Started | Change::SwitchedIn => held.add(&run.trace.shapes[seen.load], 1),
                Change::Ended | Change::SwitchedOut => held.remove(&run.trace.shapes[seen.load], 1),
            }
            next += 1;
        }
        from = to;
    }
    (own, entitled)
}
