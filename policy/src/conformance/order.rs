//! In which order free room is filled.
//!
//! Two rows have blocks so large that one fits on an SM, 3 for each SM, of a grain each. Until 2 grains nothing may
//! start; then everything may. So one row's blocks all start before the other's: each SM that comes free goes to the
//! first in order, and the first has no blocks left when the second begins.

use super::run::{Run, SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, Subject, Verdict};
use crate::contract::Element;
use crate::plan::DispatchOrder;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "free room goes to the best rank",
        needs: &[Element::Order, Element::Cap],
        run: |subject| large(subject, DispatchOrder::Rank, 0),
    },
    Case {
        name: "among equal ranks free room goes to who arrived first",
        needs: &[Element::Order, Element::Cap],
        run: |subject| large(subject, DispatchOrder::Rank, 1),
    },
    Case {
        name: "in order of arrival ranks do not count",
        needs: &[Element::Order, Element::Cap],
        run: |subject| large(subject, DispatchOrder::Arrival, 0),
    },
    Case {
        name: "the head of the line holds up the rest",
        needs: &[Element::HeadOfLine, Element::Cap],
        run: |subject| line(subject, true),
    },
    Case {
        name: "without a line nobody is held up",
        needs: &[Element::Order, Element::Cap],
        run: |subject| line(subject, false),
    },
];

/// Load 0 arrives first and has rank 1; load 1 has the given rank.
fn large(subject: &mut dyn Subject, order: DispatchOrder, rank: u32) -> Result<Verdict, String> {
    let (shape, grain) = (subject.device(), subject.grain());
    let spec = |at, cap| {
        let mut spec = PlanSpec::at(grain * at, shape.sms)
            .row(0, 1, cap)
            .row(1, rank, cap);
        spec.default_cap = 0;
        spec.each_group(|group| group.order = order)
    };
    let mut loads = vec![
        load(0, SMALL, 3 * u32::from(shape.sms), grain),
        load(1, SMALL, 3 * u32::from(shape.sms), grain),
    ];
    for load in &mut loads {
        load.block.shared_bytes = shape.shared_bytes / 8 * 5;
    }
    let run = Scene::of(vec![spec(0, 0), spec(2, 1)], loads, grain * 60).complete(subject)?;
    let first = usize::from(order == DispatchOrder::Rank && rank == 0);
    one_after_the_other(&run, first, subject, Element::Order)?;
    Ok(Verdict::Held)
}

/// One of two loads begins first, and between two starts of it no more blocks of the other start than the subject says:
/// those that it had handed to hardware that runs them in order of arrival.
fn one_after_the_other(
    run: &Run,
    first: usize,
    subject: &dyn Subject,
    element: Element,
) -> Result<(), String> {
    let slack = subject.slack(element);
    let (early, late) = (run.starts(first), run.starts(1 - first));
    let begins = (early.first().copied(), late.first().copied());
    run.require(
        &format!("the loads begin at {begins:?}, load {first} is the first in order"),
        begins.0 < begins.1,
    )?;
    let passed = early.windows(2).map(|pair| {
        let between = late.iter().filter(|at| (pair[0]..pair[1]).contains(at));
        between.count()
    });
    let most = passed.max().unwrap_or(0);
    run.require(
        &format!("{most} blocks of load {} pass load {first}", 1 - first),
        most <= slack.blocks as usize,
    )
}

/// Row 0 has the better rank and a cap of 1, with 3 blocks an SM; row 1 has a cap of 2. There is room for all. In a
/// line
/// row 1 begins when row 0 has started its last block; without one it begins at once, before row 0 starts its second
/// round.
fn line(subject: &mut dyn Subject, head_of_line: bool) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let each = u32::from(sms);
    let spec = |at, caps: [u16; 2]| {
        let mut spec = PlanSpec::at(grain * at, sms)
            .row(0, 0, caps[0])
            .row(1, 1, caps[1]);
        spec.default_cap = 0;
        spec.each_group(|group| group.head_of_line = head_of_line)
    };
    let run = Scene::of(
        vec![spec(0, [0, 0]), spec(2, [1, 2])],
        vec![
            load(0, SMALL, 3 * each, grain),
            load(1, SMALL, 2 * each, grain),
        ],
        grain * 60,
    )
    .complete(subject)?;
    if head_of_line {
        one_after_the_other(&run, 0, subject, Element::HeadOfLine)?;
    } else {
        let second_round = run.starts(0).get(usize::from(sms)).copied();
        let begins = run.starts(1).first().copied();
        run.require(
            &format!("load 1 begins at {begins:?}, the second round at {second_round:?}"),
            begins < second_round,
        )?;
    }
    Ok(Verdict::Held)
}
