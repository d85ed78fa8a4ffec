//! How promptly a row stops: at once where the plan says so, else within the executor's window.

use super::run::{Scene, load};
use super::script::{PlanSpec, RowSpec};
use super::{Case, Subject, Verdict};
use crate::contract::Element;
use crate::plan::{NO_CAP, Stop};
use crate::shape::{BlockShape, max_residency};
use crate::units::Nanos;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a row that is checked stops at once",
        needs: &[Element::Stop, Element::Cap],
        run: |subject| stops(subject, Stop::Checked),
    },
    Case {
        name: "a row that runs ahead stops within a window",
        needs: &[Element::Stop, Element::Cap],
        run: |subject| stops(subject, Stop::Ahead),
    },
];

/// Threads of a block: four fit on an SM of 2,048.
const WIDE: u32 = 512;

/// Checks a case: one row without a cap, alone, with blocks of a grain for 16 times the device. At 4 and a half grains
/// its cap is 0: some blocks have started, and after the time that the executor needs to stop no other one does. At 24
/// and a half grains there is no cap again, and all of them run.
fn stops(subject: &mut dyn Subject, stop: Stop) -> Result<Verdict, String> {
    let (shape, grain) = (subject.device(), subject.grain());
    let block = BlockShape::of_threads(WIDE);
    let each = u32::from(max_residency(&shape, &block)) * u32::from(shape.sms);
    let half = Nanos(grain.0 / 2);
    let spec = |at, cap, stop| {
        let mut spec = PlanSpec::at(at, shape.sms);
        spec.rows.push(RowSpec {
            stop,
            ..RowSpec::of(0, 0, cap)
        });
        spec.default_cap = 0;
        spec
    };
    let (closes, opens) = (grain * 4 + half, grain * 24 + half);
    let run = Scene::of(
        vec![
            spec(Nanos(0), NO_CAP, stop),
            spec(closes, 0, Stop::Checked),
            spec(opens, NO_CAP, stop),
        ],
        vec![load(0, WIDE, 16 * each, grain)],
        grain * 60,
    )
    .complete(subject)?;
    let element = match stop {
        Stop::Checked => Element::Cap,
        Stop::Ahead => Element::Stop,
    };
    let over = closes + subject.slack(element).time;
    run.require("it stops long before it may go on", over < grain * 20)?;
    let starts = run.starts(0);
    let before = starts.iter().filter(|at| **at < closes).count();
    run.require(&format!("{before} blocks started"), before > 0)?;
    let late = starts
        .iter()
        .filter(|at| (over..opens).contains(at))
        .count();
    run.expect("blocks that start though the row is to stop", late, 0)?;
    Ok(Verdict::Held)
}
