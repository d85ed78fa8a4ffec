//! The policy hears what happened: each thing once, in order, and in full wherever it may have to decide.
//!
//! Rules: a row's introduction comes before anything else of it, and nothing comes after its end; its number names
//! another row only after a later plan that no longer lists it; sums of blocks are complete at every arrival, end and
//! plan, within [`Subject::observation`].

use super::run::{Run, SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, Change, LogEntry, Subject, Verdict};
use crate::book::Book;
use crate::contract::Element;
use crate::event::Event;
use crate::ids::{GroupId, RowId};
use crate::units::Nanos;
use std::collections::{HashMap, HashSet};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "blocks are counted on the groups that hold them",
        needs: &[],
        run: by_group,
    },
    Case {
        name: "after a loss the counters make good what was missed",
        needs: &[],
        run: after_a_loss,
    },
    Case {
        name: "the policy is asked when a row that it watches has ended its blocks",
        needs: &[Element::Cap],
        run: asked_at_a_count,
    },
];

/// What was heard of a launch so far, and when things really happened to it.
#[derive(Default)]
struct Heard {
    arrived: bool,
    first_start: bool,
    ended: bool,
    started: usize,
    retired: usize,
    starts: Vec<Nanos>,
    ends: Vec<Nanos>,
}

/// A row, by what was heard.
enum Life {
    Lives,
    /// Gone; the plans said since then do or do not list it.
    Gone {
        free: bool,
    },
}

/// Checks what a policy heard in a run.
pub(super) fn watch(run: &Run, subject: &dyn Subject) -> Result<(), String> {
    let mut launches: HashMap<u64, Heard> = HashMap::new();
    for seen in &run.trace.launches {
        let mut heard = Heard::default();
        let own = run.trace.blocks.iter();
        for block in own.filter(|b| (b.load, b.launch) == (seen.load, seen.launch)) {
            match block.change {
                Change::Started => heard.starts.push(block.at),
                Change::Ended => heard.ends.push(block.at),
                _ => {}
            }
        }
        launches.insert(seen.number, heard);
    }
    let lost = run
        .events()
        .any(|event| matches!(event, Event::Lost { .. }));
    let mut rows = HashMap::new();
    // A launch that waited in its stream arrives with the time of its admission, which may be past.
    let mut newest = Nanos(0);
    for entry in &run.log {
        match entry {
            LogEntry::Observed(event) => {
                newest = newest.max(event.at().unwrap_or(newest));
                row_lives(run, &mut rows, event, lost)?;
                if !lost {
                    of_launch(run, &mut launches, event, subject)?;
                }
                if let (Event::Arrive { .. } | Event::Ended { .. }, false) = (event, lost) {
                    flushed(run, &launches, newest, subject)?;
                }
            }
            LogEntry::NoNewPlan(at) if !lost => flushed(run, &launches, *at, subject)?,
            LogEntry::NoNewPlan(_) => {}
            LogEntry::NewPlan(at, plan) => {
                if !lost {
                    flushed(run, &launches, *at, subject)?;
                }
                for (row, life) in &mut rows {
                    if let Life::Gone { free } = life {
                        *free |= plan.place_of(*row).is_none();
                    }
                }
            }
        }
    }
    for (number, heard) in launches.iter().filter(|_| !lost) {
        let ended = run.trace.launches.iter().find(|l| l.number == *number);
        let is = ended.is_some_and(|launch| launch.end.is_some());
        run.expect(
            &format!("launch {number} was said to have ended"),
            heard.ended,
            is,
        )?;
    }
    Ok(())
}

fn row_lives(
    run: &Run,
    rows: &mut HashMap<RowId, Life>,
    event: &Event,
    lost: bool,
) -> Result<(), String> {
    let row = match *event {
        Event::RowNew { row, .. } => {
            let before = rows.insert(row, Life::Lives);
            let fine = match before {
                None => true,
                Some(Life::Lives) => lost,
                Some(Life::Gone { free }) => free,
            };
            return run.require(&format!("{row} names another row too early"), fine);
        }
        Event::RowGone { row } => {
            let before = rows.insert(row, Life::Gone { free: false });
            let lived = matches!(before, Some(Life::Lives));
            return run.require(&format!("{row} is gone and was not there"), lived || lost);
        }
        Event::Arrive { row, .. }
        | Event::FirstStart { row, .. }
        | Event::Blocks { row, .. }
        | Event::Ended { row, .. }
        | Event::Sample { row, .. }
        | Event::Instructions { row, .. }
        | Event::Counters { row, .. } => row,
        Event::Tenant { .. }
        | Event::TenantGone { .. }
        | Event::Share { .. }
        | Event::Lost { .. }
        | Event::Resynced
        | Event::Timer { .. } => return Ok(()),
    };
    let lives = matches!(rows.get(&row), Some(Life::Lives));
    run.require(
        &format!("{event:?} is of a row that does not live"),
        lives || lost,
    )
}

fn of_launch(
    run: &Run,
    launches: &mut HashMap<u64, Heard>,
    event: &Event,
    subject: &dyn Subject,
) -> Result<(), String> {
    let number = match *event {
        Event::Arrive { launch, .. }
        | Event::FirstStart { launch, .. }
        | Event::Blocks { launch, .. }
        | Event::Ended { launch, .. } => launch,
        _ => return Ok(()),
    };
    let Some(heard) = launches.get_mut(&number) else {
        return run.fail(format!("{event:?} is of a launch that never arrived"));
    };
    let once = |flag: &mut bool| !std::mem::replace(flag, true);
    let fine = match *event {
        Event::Arrive { .. } => once(&mut heard.arrived),
        Event::FirstStart { at, .. } => {
            let near = heard
                .starts
                .first()
                .is_some_and(|first| first.0.abs_diff(at.0) <= subject.observation().0);
            heard.arrived && near && once(&mut heard.first_start)
        }
        Event::Blocks { started, ended, .. } => {
            heard.started += started as usize;
            heard.retired += ended as usize;
            heard.arrived && !heard.ended
        }
        _ => heard.arrived && once(&mut heard.ended),
    };
    run.require(
        &format!("{event:?} comes twice, too early or too late"),
        fine,
    )
}

/// Checks that the sums of blocks that were heard are those of what happened until now.
fn flushed(
    run: &Run,
    launches: &HashMap<u64, Heard>,
    now: Nanos,
    subject: &dyn Subject,
) -> Result<(), String> {
    let slack = subject.observation();
    let between = |times: &[Nanos], heard: usize| {
        let least = times.partition_point(|at| *at + slack < now);
        let most = times.partition_point(|at| *at <= now + slack);
        (least..=most).contains(&heard)
    };
    for (number, heard) in launches {
        let sums = between(&heard.starts, heard.started) && between(&heard.ends, heard.retired);
        let (started, ended) = (heard.started, heard.retired);
        run.require(
            &format!("at {now} launch {number} is said to have {started} started, {ended} ended"),
            sums,
        )?;
    }
    Ok(())
}

/// Checks a case of two groups: the first SM, and the rest. One row, one block an SM, 3 blocks an SM in all, each of a
/// grain. What is heard on group 0 is what happened on SM 0, and the rest is heard on group 1.
fn by_group(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let mut spec = PlanSpec::at(Nanos(0), sms).row(0, 0, 1);
    spec.default_cap = 1;
    let mut first = spec.groups[0].clone();
    first.sms = (0, 1);
    spec.groups[0].sms = (1, sms);
    spec.groups.insert(0, first);
    let run = Scene::of(
        vec![spec],
        vec![load(0, SMALL, 3 * u32::from(sms), grain)],
        grain * 12,
    )
    .complete(subject)?;
    if !run.knows_sms() {
        return Ok(Verdict::Skipped("it does not know on which SM blocks are"));
    }
    let mut heard = [0_usize; 2];
    for event in run.events() {
        if let Event::Blocks { group, ended, .. } = event {
            run.require(&format!("{group} exists"), *group <= GroupId(1))?;
            heard[usize::from(group.0)] += *ended as usize;
        }
    }
    let ends = run
        .trace
        .blocks
        .iter()
        .filter(|b| b.change == Change::Ended);
    let on_first = ends.filter(|b| b.sm.is_some_and(|sm| sm.0 == 0)).count();
    let rest = run.count(0, Change::Ended) - on_first;
    run.expect("blocks that ended on each group", heard, [on_first, rest])?;
    Ok(Verdict::Held)
}

/// Checks a case: three tenants launch four kernels each at 0, 1 and 2 grains; events get lost from the tenth on, or
/// where most happens at once, so that arrivals, starts and ends are among them. Wherever counters come, they are the
/// truth, and at the end, when everything has ended, nobody has open launches, live or waiting blocks.
fn after_a_loss(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (shape, grain) = (subject.device(), subject.grain());
    if !subject.lose_events(10, 8) {
        return Ok(Verdict::Skipped("it cannot be made to lose events"));
    }
    let mut loads = Vec::new();
    for (tenant, stream) in (0..3).flat_map(|tenant| (0..4_u8).map(move |stream| (tenant, stream)))
    {
        let mut load = load(tenant, SMALL * (1 + u32::from(stream)), 5, grain);
        load.stream = stream;
        load.launches[0].at = grain * u64::from(tenant);
        loads.push(load);
    }
    let run = Scene::of(vec![PlanSpec::at(Nanos(0), shape.sms)], loads, grain * 60)
        .again(grain)
        .complete(subject)?;
    let lost = run
        .events()
        .any(|event| matches!(event, Event::Lost { .. }));
    run.require("events were lost, and it said so", lost)?;
    let mut book = Book::new(&shape);
    let mut rows = HashSet::new();
    for event in run.events() {
        book.observe(event);
        match *event {
            Event::RowNew { row, .. } => drop(rows.insert(row)),
            Event::Counters { row, at, .. } => truth_at(&run, &book, row, at, subject)?,
            _ => {}
        }
    }
    run.expect("rows that were heard of", rows.len(), 12)?;
    for row in rows {
        let record = book.row(row);
        let left = record.map(|record| (record.open_launches, record.live, record.waiting));
        run.expect(&format!("what {row} has left"), left, Some((0, 0, 0)))?;
    }
    Ok(Verdict::Held)
}

/// Checks a case: one row of 3 blocks an SM, each of 4 grains, under a cap of 1, is watched until as many blocks have
/// ended as there are SMs. Nothing arrives and nothing ends before 12 grains, so only the watch has the policy asked
/// between the first wave's end and the second's, and what it has heard by then is complete.
fn asked_at_a_count(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let mut spec = PlanSpec::at(Nanos(0), sms).row(0, 0, 1);
    spec.watch = Some((0, u64::from(sms)));
    let run = Scene::of(
        vec![spec],
        vec![load(0, SMALL, 3 * u32::from(sms), grain * 4)],
        grain * 40,
    )
    .complete(subject)?;
    let asked = run.log.iter().filter_map(LogEntry::asked_at);
    let between = |at: &Nanos| (grain * 4..grain * 8).contains(at);
    let asked = asked.filter(between).count();
    run.require(
        &format!("the policy was asked {asked} times in the second wave"),
        asked > 0,
    )?;
    Ok(Verdict::Held)
}

/// Checks that a book which heard a row's counters knows what is true of it.
fn truth_at(
    run: &Run,
    book: &Book,
    row: RowId,
    now: Nanos,
    subject: &dyn Subject,
) -> Result<(), String> {
    let slack = subject.observation();
    let of_row = run
        .trace
        .blocks
        .iter()
        .filter(|seen| run.row_of(seen) == Some(row));
    let of_row: Vec<_> = of_row.collect();
    let count = |change: Change, until: Option<Nanos>| {
        let own = of_row
            .iter()
            .filter(|b| b.change == change && Some(b.at) <= until);
        own.count() as i64
    };
    // Nothing need be known yet of what happened within the slack.
    let (before, after) = (now.0.checked_sub(slack.0).map(Nanos), Some(now + slack));
    let live = book.row(row).map_or(0, |record| i64::from(record.live));
    let least = count(Change::Started, before) - count(Change::Ended, after);
    let most = count(Change::Started, after) - count(Change::Ended, before);
    run.require(
        &format!("at {now} {row} has {live} blocks, in truth {least} to {most}"),
        (least..=most).contains(&live),
    )
}
