//! Rows that no plan lists, rows that spill, and numbers of rows that come back.

use super::caps::near;
use super::run::{SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, Load, Subject, Verdict};
use crate::contract::Element;
use crate::event::Event;
use crate::ids::TenantId;
use crate::shape::{BlockShape, Held, SmUnits};
use crate::units::Nanos;
use std::collections::HashSet;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a row that is not listed runs under the default row",
        needs: &[Element::Cap],
        run: unlisted,
    },
    Case {
        name: "the spill row is bound by its tenant's limit alone",
        needs: &[Element::DeviceLimit],
        run: spilled,
    },
    Case {
        name: "a row's number names another one only when no plan lists it",
        needs: &[],
        run: numbers,
    },
];

/// Checks a case: the plan lists nothing, in two groups, and its default row has a cap of 2: at 2 grains each SM has 2
/// blocks.
fn unlisted(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let mut spec = PlanSpec::at(Nanos(0), sms);
    spec.default_cap = 2;
    spec.groups.push(spec.groups[0].clone());
    spec.groups[0].sms = (0, 1);
    spec.groups[1].sms = (1, sms);
    let run = Scene::of(
        vec![spec],
        vec![load(0, SMALL, 5 * u32::from(sms), grain * 4)],
        grain * 40,
    )
    .complete(subject)?;
    let slack = subject.slack(Element::Cap);
    let resident = run.resident(0, grain * 2);
    near(&run, "blocks", resident, 2 * u32::from(sms), &slack)?;
    Ok(Verdict::Held)
}

/// One tenant has two rows at most and four kernels at once, of 1 to 4 warps, in streams of their own, so that the
/// third
/// makes a spill row, which the fourth shares. It may hold 3 blocks of 4 warps in all; the rows that are listed have a
/// cap of 0, so that all of it is the spill row's, whose plan has no cap. Blocks stay for 4 grains; at 2 grains there
/// is no room for a block of 4 warps more.
fn spilled(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (shape, grain) = (subject.device(), subject.grain());
    if !subject.limit_rows(2) {
        return Ok(Verdict::Skipped("its rows cannot be limited"));
    }
    let widest = BlockShape::of_threads(2 * SMALL);
    let mut limit = Held::default();
    limit.add(&widest, 3);
    let limit = limit.dominant(&shape);
    let spec = |at, cap| {
        let mut spec = PlanSpec::at(grain * at, shape.sms)
            .row(0, 0, cap)
            .row(1, 0, cap)
            .limit(TenantId(0), limit, SmUnits::MAX);
        spec.default_cap = 0;
        spec
    };
    let loads = (1..=4).map(|warps| Load {
        stream: u8::try_from(warps).unwrap_or(0),
        ..load(0, 32 * warps, 8, grain * 4)
    });
    let run =
        Scene::of(vec![spec(0, 0), spec(40, 1)], loads.collect(), grain * 200).complete(subject)?;
    let mut spills = run.events().filter_map(|event| match event {
        Event::RowNew {
            row, spill: true, ..
        } => Some(*row),
        _ => None,
    });
    let spill = spills.next();
    run.require("there is a spill row", spill.is_some())?;
    let of = |load| {
        let seen = run.trace.launches.iter().find(|l| l.load == load);
        seen.map(|seen| seen.row)
    };
    run.expect("rows of the last two kernels", [of(2), of(3)], [spill; 2])?;
    let mut held = Held::default();
    for load in 0..4 {
        let n = run.resident(load, grain * 2);
        held.add(&run.trace.shapes[load], u32::try_from(n).unwrap_or(0));
    }
    let more = held.room_within(&shape, limit, &run.trace.shapes[3]);
    let slack = subject.slack(Element::DeviceLimit);
    run.require(
        &format!("there is room for {more} more"),
        more <= slack.blocks,
    )?;
    Ok(Verdict::Held)
}

/// Checks a case: a tenant with two rows at most launches eight kernels one after the other. Every one is introduced,
/// six rows go, and what is watched in every case holds.
fn numbers(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    if !subject.limit_rows(2) {
        return Ok(Verdict::Skipped("its rows cannot be limited"));
    }
    let loads = (1_u32..=8).map(|warps| {
        let mut load = load(0, 32 * warps, 4, grain);
        load.launches[0].at = grain * u64::from(4 * warps);
        load
    });
    let spec = (0..8).fold(PlanSpec::at(Nanos(0), sms), |spec, load| {
        spec.row(load, 0, 1)
    });
    let run = Scene::of(vec![spec], loads.collect(), grain * 60).complete(subject)?;
    let count = |which: fn(&Event) -> bool| run.events().filter(|event| which(event)).count();
    let new = count(|event| matches!(event, Event::RowNew { spill: false, .. }));
    let gone = count(|event| matches!(event, Event::RowGone { .. }));
    run.expect("rows that came and went", (new, gone), (8, 6))?;
    let rows: HashSet<_> = run.trace.launches.iter().map(|launch| launch.row).collect();
    run.require(&format!("numbers come back: {rows:?}"), rows.len() < 8)?;
    Ok(Verdict::Held)
}
