//! Start budgets: a number of starts since the row was made, not since the plan.

use super::caps::near;
use super::run::{SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, LoadLaunch, Subject, Verdict};
use crate::contract::Element;
use crate::plan::NO_CAP;

pub(super) const CASES: &[Case] = &[Case {
    name: "a budget is a position, however often it is said",
    needs: &[Element::Budget],
    run: positions,
}];

/// A row has 12 blocks of a grain in two launches of one stream, 4 and 8. The plan is made anew every half grain. Its
/// budget is 6 until 8 grains: the first launch and 2 blocks of the second start. Then it is 3, which permits nothing
/// more; from 12 grains on it is 9, which permits 3 more, and from 18 grains on there is none.
fn positions(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let spec = |at, budget| {
        let mut spec = PlanSpec::at(grain * at, sms)
            .row(0, 0, NO_CAP)
            .budget(budget);
        spec.default_cap = 0;
        spec
    };
    let mut one = load(0, SMALL, 4, grain);
    one.launches.push(LoadLaunch {
        blocks: 8,
        ..one.launches[0]
    });
    let run = Scene::of(
        vec![
            spec(0, Some(6)),
            spec(8, Some(3)),
            spec(12, Some(9)),
            spec(18, None),
        ],
        vec![one],
        grain * 40,
    )
    .again(crate::units::Nanos(grain.0 / 2))
    .complete(subject)?;
    let slack = subject.slack(Element::Budget);
    for (until, want) in [(8, 6), (12, 6), (18, 9)] {
        let started = run
            .starts(0)
            .iter()
            .filter(|at| **at < grain * until)
            .count();
        let what = format!("starts before {until} grains");
        near(
            &run,
            &what,
            i64::try_from(started).unwrap_or(i64::MAX),
            want,
            &slack,
        )?;
    }
    Ok(Verdict::Held)
}
