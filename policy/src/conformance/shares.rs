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
    let waits = launches(run);
    let mut times: Vec<Nanos> = run.trace.blocks.iter().map(|seen| seen.at).collect();
    times.extend(
        waits
            .iter()
            .flat_map(|launch| [launch.at, launch.ready, launch.end]),
    );
    times.push(until);
    times.retain(|at| *at <= until);
    times.sort_unstable();
    times.dedup();
    let mut sides: Vec<Side> = (0..4).map(|_| Side::default()).collect();
    let (mut own, mut entitled, mut next) = (0.0, 0.0, 0);
    let mut from = Nanos(0);
    for to in times {
        let elapsed = (to - from).0 as f64;
        for (number, side) in (0..).map(TenantId).zip(&mut sides) {
            side.look(run, shape, &waits, number, from);
        }
        own += sides[tenant.index()].held.dominant(shape).as_sms() * elapsed;
        entitled += entitlements(shape, &sides)[tenant.index()] * elapsed;
        while let Some(seen) = run.trace.blocks.get(next).filter(|seen| seen.at <= to) {
            let (of, block) = (run.loads[seen.load].tenant, run.trace.shapes[seen.load]);
            let mut one = Held::default();
            one.add(&block, 1);
            for (number, side) in (0..).map(TenantId).zip(&mut sides) {
                match seen.change {
                    Change::Started | Change::SwitchedIn if number == of => {
                        side.held.add(&block, 1)
                    }
                    Change::Started | Change::SwitchedIn => {
                        side.given += one.dominant(shape).as_sms();
                    }
                    _ if number == of => side.held.remove(&block, 1),
                    _ => {}
                }
            }
            next += 1;
        }
        from = to;
    }
    (own, entitled)
}

/// A launch: when it arrived, when nothing before it in its stream held it up any more, and when it ended.
struct Wait {
    load: usize,
    launch: usize,
    at: Nanos,
    ready: Nanos,
    end: Nanos,
}

fn launches(run: &Run) -> Vec<Wait> {
    let mut waits: Vec<Wait> = Vec::new();
    for seen in &run.trace.launches {
        let of = &run.loads[seen.load];
        let at = of.launches[seen.launch].at;
        let before = waits.iter().filter(|other| {
            let load = &run.loads[other.load];
            (load.tenant, load.stream) == (of.tenant, of.stream) && other.at <= at
        });
        let ready = before.map(|other| other.end).max().unwrap_or(at).max(at);
        waits.push(Wait {
            load: seen.load,
            launch: seen.launch,
            at,
            ready,
            end: seen.end.unwrap_or(Nanos::MAX),
        });
    }
    waits
}

/// What is true of a tenant at a moment.
#[derive(Default)]
struct Side {
    /// Its weight; 0 while it has no launch.
    weight: f64,
    held: Held,
    /// What its blocks that wait would hold.
    waiting: f64,
    /// What others were given since they began to wait.
    given: f64,
}

impl Side {
    fn look(&mut self, run: &Run, shape: &DeviceShape, waits: &[Wait], of: TenantId, now: Nanos) {
        let own = || {
            let own = waits
                .iter()
                .filter(|wait| run.loads[wait.load].tenant == of);
            own.filter(|wait| wait.at <= now && now < wait.end)
        };
        self.weight = own()
            .map(|wait| f64::from(run.loads[wait.load].weight))
            .fold(0.0, f64::max);
        let mut wants = Held::default();
        for wait in own().filter(|wait| wait.ready <= now) {
            let ended = run.trace.blocks.iter().filter(|seen| {
                let same = (seen.load, seen.launch) == (wait.load, wait.launch);
                same && seen.at <= now && seen.change == Change::Ended
            });
            let left = run.loads[wait.load].launches[wait.launch].blocks as usize - ended.count();
            wants.add(
                &run.trace.shapes[wait.load],
                u32::try_from(left).unwrap_or(u32::MAX),
            );
        }
        if wants.blocks() <= self.held.blocks() {
            self.given = 0.0;
        }
        let wants = wants.dominant(shape).as_sms().min(shape.sms.into());
        self.waiting = (wants - self.held.dominant(shape).as_sms()).max(0.0);
    }
}

/// Divides what all hold by weight, to each up to what it could use: from the lowest demand for its weight on.
fn entitlements(shape: &DeviceShape, sides: &[Side]) -> Vec<f64> {
    let held = |side: &Side| side.held.dominant(shape).as_sms();
    let demand = |side: &Side| held(side) + side.waiting.min(side.given);
    let busy = |side: &&Side| side.weight > 0.0;
    let mut left: f64 = sides.iter().filter(busy).map(held).sum();
    let mut weight: f64 = sides.iter().filter(busy).map(|side| side.weight).sum();
    let mut order: Vec<usize> = (0..sides.len()).filter(|n| busy(&&sides[*n])).collect();
    let per_weight = |n: &usize| demand(&sides[*n]) / sides[*n].weight;
    order.sort_by(|one, other| per_weight(one).total_cmp(&per_weight(other)));
    let mut entitled = vec![0.0; sides.len()];
    for n in order {
        let side = &sides[n];
        entitled[n] = demand(side).min(left * side.weight / weight);
        left -= entitled[n];
        weight -= side.weight;
    }
    entitled
}
