//! What becomes of room that nobody within his cap and limit can use.
//!
//! Row 0 has a cap of one small block an SM and blocks for many grains. Where room is lent it fills what others leave,
//! and others' blocks, when they come, have the room first: at the end of a block, or sooner where blocks are switched
//! out. [`precedence`] watches over every case: nobody is lent room for which a row within its own waits.

use super::run::{Run, SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, Change, Load, LoadLaunch, Subject, Verdict, precedence};
use crate::contract::{Element, Enforcement};
use crate::ids::TenantId;
use crate::plan::{NO_CAP, Preemption, Surplus};
use crate::shape::{BlockShape, Held, SmUnits};
use crate::units::Nanos;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "room that nobody within his cap can use is lent",
        needs: &[Element::Surplus, Element::Cap],
        run: |subject| lent(subject, Surplus::Lend),
    },
    Case {
        name: "room that is not lent stays empty",
        needs: &[Element::Surplus, Element::Cap],
        run: |subject| lent(subject, Surplus::Idle),
    },
    Case {
        name: "room that nobody within his limit can use is lent",
        needs: &[Element::Surplus, Element::DeviceLimit, Element::GroupLimit],
        run: beyond_a_limit,
    },
    Case {
        name: "the first in order is lent room first",
        needs: &[Element::Surplus, Element::Cap, Element::Order],
        run: in_order,
    },
    Case {
        name: "what was lent comes back when its blocks end",
        needs: &[Element::Surplus, Element::Cap],
        run: |subject| comes_back(subject, [1, 0]),
    },
    Case {
        name: "what was lent to a better rank comes back when its blocks end",
        needs: &[Element::Surplus, Element::Cap],
        run: |subject| match is_exact(subject, Element::Surplus) {
            true => comes_back(subject, [0, 1]),
            false => Ok(Verdict::Skipped(NEARLY)),
        },
    },
    Case {
        name: "what was lent is switched out for as many as wait for it",
        needs: &[Element::Surplus, Element::Cap, Element::Preemption],
        run: switched_out,
    },
    Case {
        name: "what was lent is switched out as soon as it has come",
        needs: &[Element::Surplus, Element::Cap, Element::Preemption],
        run: on_its_way,
    },
    Case {
        name: "room is lent again when who waited has his block",
        needs: &[Element::Surplus, Element::Cap],
        run: |subject| lent_again(subject, Until::Last),
    },
    Case {
        name: "room is lent again when who waited has spent his budget",
        needs: &[Element::Surplus, Element::Cap, Element::Budget],
        run: |subject| lent_again(subject, Until::Budget),
    },
    Case {
        name: "room is lent again when who waited has reached his limit",
        needs: &[Element::Surplus, Element::Cap, Element::DeviceLimit],
        run: |subject| match is_exact(subject, Element::DeviceLimit) {
            true => lent_again(subject, Until::Limit),
            false => Ok(Verdict::Skipped(NEARLY)),
        },
    },
];

/// Why a case does not apply that looks closer than the subject says that it holds a plan.
const NEARLY: &str = "what the case looks at is held nearly";

fn is_exact(subject: &dyn Subject, element: Element) -> bool {
    subject.enforces(element) == Enforcement::Exact
}

/// Returns far more blocks than the device holds at once.
fn many(sms: u16) -> u32 {
    400 * u32::from(sms)
}

/// Runs loads under a plan in which every group lends, or none.
fn run(
    subject: &mut dyn Subject,
    (spec, surplus): (PlanSpec, Surplus),
    loads: Vec<Load>,
    until: Nanos,
) -> Result<Run, String> {
    let spec = spec.each_group(|group| group.surplus = surplus);
    let run = Scene::of(vec![spec], loads, until).perform(subject)?;
    precedence::watch(&run, subject)?;
    Ok(run)
}

/// Returns small blocks of a tenant, which come at a time.
fn coming(tenant: u32, blocks: u32, block_ns: Nanos, at: Nanos) -> Load {
    let mut load = load(tenant, SMALL, blocks, block_ns);
    load.launches[0].at = at;
    load
}

/// Requires that a load fills what others leave: at least 4 blocks an SM, on each of them if the executor says so.
fn fills(run: &Run, subject: &dyn Subject, load: usize, at: Nanos) -> Result<(), String> {
    let sms = subject.device().sms;
    let on_each = (0..sms).map(|sm| run.resident_on(load, at, sm));
    let least = match run.knows_sms() {
        true => on_each.min().unwrap_or(0),
        false => run.resident(load, at) / i64::from(sms),
    };
    run.require(&format!("load {load} holds {least} an SM"), least >= 4)
}

/// Row 1 may have 4 blocks an SM, and comes late with as many.
fn scene(
    subject: &mut dyn Subject,
    surplus: Surplus,
    ranks: [u32; 2],
    late: Nanos,
) -> Result<Run, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let spec = PlanSpec::at(Nanos(0), sms)
        .row(0, ranks[0], 1)
        .row(1, ranks[1], 4);
    let loads = vec![
        load(0, SMALL, many(sms), grain),
        coming(1, 4 * u32::from(sms), grain, late),
    ];
    run(subject, (spec, surplus), loads, late + grain * 40)
}

/// At 8 grains row 0 is alone with its work: it holds one block an SM, or more where room is lent.
fn lent(subject: &mut dyn Subject, surplus: Surplus) -> Result<Verdict, String> {
    let (sms, grain) = (i64::from(subject.device().sms), subject.grain());
    let run = scene(subject, surplus, [1, 0], grain * 2)?;
    let holds = run.resident(0, grain * 8);
    match surplus {
        Surplus::Lend => fills(&run, subject, 0, grain * 8)?,
        Surplus::Idle => run.require(&format!("row 0 holds {holds}"), holds <= 2 * sms)?,
    }
    Ok(Verdict::Held)
}

/// Tenant 0 may hold one block an SM, and on the device as many as there are SMs; its row has no cap.
fn beyond_a_limit(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (shape, grain) = (subject.device(), subject.grain());
    let mut held = Held::default();
    held.add(&BlockShape::of_threads(SMALL), 1);
    let one = held.dominant(&shape);
    let spec = PlanSpec::at(Nanos(0), shape.sms).row(0, 0, NO_CAP).limit(
        TenantId(0),
        one.times(shape.sms.into()),
        one,
    );
    let loads = vec![load(0, SMALL, many(shape.sms), grain)];
    let run = run(subject, (spec, Surplus::Lend), loads, grain * 40)?;
    fills(&run, subject, 0, grain * 4)?;
    Ok(Verdict::Held)
}

/// Row 1, of better rank, has the same cap of one block an SM: it fills the device, and row 0 has its own.
fn in_order(subject: &mut dyn Subject) -> Result<Verdict, String> {
    if !is_exact(subject, Element::Surplus) {
        return Ok(Verdict::Skipped(NEARLY));
    }
    let (sms, grain) = (subject.device().sms, subject.grain());
    let spec = PlanSpec::at(Nanos(0), sms).row(0, 1, 1).row(1, 0, 1);
    let loads = vec![
        load(0, SMALL, many(sms), grain),
        load(1, SMALL, many(sms), grain),
    ];
    let run = run(subject, (spec, Surplus::Lend), loads, grain * 40)?;
    fills(&run, subject, 1, grain * 4)?;
    run.expect("blocks of row 0", run.resident(0, grain * 4), sms.into())?;
    Ok(Verdict::Held)
}

/// Row 1 comes when row 0 has filled the device; its first block starts when one of those has ended, its last one when
/// all have. Then row 0 has the device again.
fn comes_back(subject: &mut dyn Subject, ranks: [u32; 2]) -> Result<Verdict, String> {
    let (grain, slack) = (subject.grain(), subject.slack(Element::Surplus));
    let late = grain * 6;
    let run = scene(subject, Surplus::Lend, ranks, late)?;
    fills(&run, subject, 0, late)?;
    let first = run.starts(1).first().copied();
    let due = late + grain + slack.time;
    run.require(
        &format!("row 1 came at {late:?}, began at {first:?} and had to by {due:?}"),
        first.is_some_and(|first| first <= due),
    )?;
    fills(&run, subject, 0, late + grain * 4)?;
    Ok(Verdict::Held)
}

/// Row 0 has filled the device with blocks of 12 grains when at 2 grains its cap becomes one an SM: nobody waits, so
/// they stay. At 4 grains row 1 comes with 2 blocks an SM, which is its cap: as many of row 0 leave each SM, and are
/// back when those of row 1, of a grain each, have ended.
fn switched_out(subject: &mut dyn Subject) -> Result<Verdict, String> {
    if !subject.switches() {
        return Ok(Verdict::Skipped("blocks cannot leave before their end"));
    }
    let (sms, grain) = (subject.device().sms, subject.grain());
    let spec = |at: u64, cap| {
        let spec = PlanSpec::at(grain * at, sms).row(0, 0, cap).row(1, 1, 2);
        spec.each_group(|group| {
            group.preemption = Preemption::Switch;
            group.surplus = Surplus::Lend;
        })
    };
    let each = u32::from(sms);
    let loads = vec![
        load(0, SMALL, many(sms), grain * 12),
        coming(1, 2 * each, grain, grain * 4),
    ];
    let specs = vec![spec(0, NO_CAP), spec(2, 1)];
    let run = Scene::of(specs, loads, grain * 11).perform(subject)?;
    precedence::watch(&run, subject)?;
    let [switch, wait] = [Element::Preemption, Element::Surplus].map(|of| subject.slack(of).time);
    let full = run.resident(0, grain * 2);
    let left = |at| full - run.resident(0, at);
    fills(&run, subject, 0, grain * 2)?;
    run.expect("blocks that left though nobody waited", left(grain * 4), 0)?;
    let two = i64::from(2 * each);
    let came = grain * 4 + switch + wait;
    run.expect("blocks that came", run.resident(1, came), two)?;
    run.expect("blocks that left for them", left(came), two)?;
    let back = came + grain + switch + wait;
    run.expect("blocks that are away still", left(back), 0)?;
    let out = run.count(0, Change::SwitchedOut);
    run.expect("blocks that were switched out", out, 2 * usize::from(sms))?;
    Ok(Verdict::Held)
}

/// Rows 0 and 1 have large blocks, of which two do not fit on an SM; row 0's are lent all room, for ever. Row 1 comes
/// again and again, soon after it has left, also while row 0's blocks are on their way back.
fn on_its_way(subject: &mut dyn Subject) -> Result<Verdict, String> {
    if !subject.switches() {
        return Ok(Verdict::Skipped("blocks cannot leave before their end"));
    }
    let (shape, grain) = (subject.device(), subject.grain());
    let spec = PlanSpec::at(Nanos(0), shape.sms)
        .row(0, 0, 0)
        .row(1, 1, 1)
        .each_group(|group| group.preemption = Preemption::Switch);
    let each = u32::from(shape.sms);
    let mut loads = vec![
        load(0, SMALL, each, grain * 200),
        load(1, SMALL, each, grain),
    ];
    for load in &mut loads {
        load.block.shared_bytes = shape.shared_bytes / 8 * 5;
    }
    let mut at = grain * 2;
    loads[1].launches = (0..20)
        .map(|n| {
            at = at + grain + Nanos(grain.0 / 50 * n);
            LoadLaunch {
                at,
                ..loads[1].launches[0]
            }
        })
        .collect();
    let run = run(subject, (spec, Surplus::Lend), loads, grain * 40)?;
    let [switch, wait] = [Element::Preemption, Element::Surplus].map(|of| subject.slack(of).time);
    let mut free = Nanos(0);
    for (n, launch) in run.loads[1].launches.iter().enumerate() {
        let due = launch.at.max(free) + switch + switch + wait;
        let own = run
            .trace
            .blocks
            .iter()
            .filter(|seen| (seen.load, seen.launch) == (1, n));
        let last = own
            .filter(|seen| seen.change == Change::Started)
            .map(|seen| seen.at)
            .max();
        run.require(
            &format!("launch {n} had its last block at {last:?} and had to by {due:?}"),
            last.is_some_and(|last| last <= due),
        )?;
        let seen = run
            .trace
            .launches
            .iter()
            .find(|seen| (seen.load, seen.launch) == (1, n));
        free = seen.and_then(|seen| seen.end).unwrap_or(Nanos::MAX);
    }
    Ok(Verdict::Held)
}

/// Until when who waits does so.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    Last,
    Budget,
    Limit,
}

/// Loads 1 and 2 have a large block on each SM, of which two do not fit: the one on one SM, until 4 grains, the others
/// on the rest for long. Load 0 comes at 1 grain, with blocks that stay for long, and waits for the end of the one,
/// whose launch has another block that never starts. Then load 3, whose cap is one an SM, is lent what is left
/// everywhere, at once: nothing else ends. It came at 2 grains, and has been known from the beginning.
fn lent_again(subject: &mut dyn Subject, until: Until) -> Result<Verdict, String> {
    let (shape, grain) = (subject.device(), subject.grain());
    let rest = u32::from(shape.sms) - 1;
    let mut large = BlockShape::of_threads(SMALL);
    large.shared_bytes = shape.shared_bytes / 8 * 5;
    let mut held = Held::default();
    held.add(&large, 1);
    let limit = match until {
        Until::Limit => held.dominant(&shape),
        _ => SmUnits::MAX,
    };
    let spec = PlanSpec::at(Nanos(0), shape.sms)
        .row(0, 0, 1)
        .budget((until == Until::Budget).then_some(1))
        .row(1, 1, 1)
        .budget(Some(1))
        .row(2, 2, 1)
        .row(3, 3, 1)
        .limit(TenantId(0), limit, SmUnits::MAX);
    let waits = if until == Until::Last { 1 } else { 3 };
    let mut loads = vec![
        coming(0, waits, grain * 30, grain),
        load(1, SMALL, 2, grain * 4),
        load(2, SMALL, rest, grain * 30),
        coming(3, many(shape.sms), grain * 30, grain * 2),
    ];
    for load in &mut loads[..3] {
        load.block = large;
    }
    let known = load(3, SMALL, 1, Nanos(grain.0 / 2)).launches[0];
    loads[3].launches.insert(0, known);
    let run = run(subject, (spec, Surplus::Lend), loads, grain * 10)?;
    run.expect("blocks that waited", run.resident(0, grain * 6), 1)?;
    fills(&run, subject, 3, grain * 6)?;
    Ok(Verdict::Held)
}
