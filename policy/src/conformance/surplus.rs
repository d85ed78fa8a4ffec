//! What becomes of room that nobody within his cap can use.
//!
//! Row 0 has a cap of one small block an SM and blocks for many grains; row 1 of another tenant may have as many as
//! fit. Where room is lent row 0 fills what row 1 leaves, and row 1's blocks, when they come, wait for the end of a
//! block.

use super::run::{Run, SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, Subject, Verdict};
use crate::contract::Element;
use crate::plan::Surplus;
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
        name: "what was lent comes back when its blocks end",
        needs: &[Element::Surplus, Element::Cap],
        run: comes_back,
    },
];

fn scene(subject: &dyn Subject, surplus: Surplus, late: Nanos) -> Scene {
    let (shape, grain) = (subject.device(), subject.grain());
    let spec = PlanSpec::at(Nanos(0), shape.sms)
        .row(0, 1, 1)
        .row(1, 0, 4)
        .each_group(|group| group.surplus = surplus);
    // Far more blocks than the device holds at once.
    let many = 400 * u32::from(shape.sms);
    let mut loads = vec![
        load(0, SMALL, many, grain),
        load(1, SMALL, 4 * u32::from(shape.sms), grain),
    ];
    loads[1].launches[0].at = late;
    Scene::of(vec![spec], loads, late + grain * 40)
}

/// At 8 grains row 0 is alone with its work: it holds one block an SM, or more where room is lent.
fn lent(subject: &mut dyn Subject, surplus: Surplus) -> Result<Verdict, String> {
    let (sms, grain) = (i64::from(subject.device().sms), subject.grain());
    let run: Run = scene(subject, surplus, grain * 2).perform(subject)?;
    let holds = run.resident(0, grain * 8);
    match surplus {
        Surplus::Lend => run.require(&format!("row 0 holds {holds}"), holds >= 4 * sms)?,
        Surplus::Idle => run.require(&format!("row 0 holds {holds}"), holds <= 2 * sms)?,
    }
    Ok(Verdict::Held)
}

/// Row 1 comes when row 0 has filled the device; its first block starts when one of those has ended.
fn comes_back(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (grain, slack) = (subject.grain(), subject.slack(Element::Surplus));
    let late = grain * 6;
    let run = scene(subject, Surplus::Lend, late).perform(subject)?;
    let filled = run.resident(0, late);
    let sms = i64::from(subject.device().sms);
    run.require(&format!("row 0 has filled {filled}"), filled >= 4 * sms)?;
    let first = run.starts(1).first().copied();
    let due = late + grain + slack.time;
    run.require(
        &format!("row 1 came at {late:?}, began at {first:?} and had to by {due:?}"),
        first.is_some_and(|first| first <= due),
    )?;
    Ok(Verdict::Held)
}
