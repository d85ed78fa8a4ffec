//! Running a subject in a form: whole, in slices of random sizes, by any number of workers.

use super::Subject;
use super::stage::Stage;
use gridmux_launch::{Limits, Pace, step};
use gridmux_ptx::control::STAMP_BYTES;
use gridmux_ptx::forms::Shape;
use gridmux_ptx::kernel::Entry;
use gridmux_workloads::Prng;
use std::ops::ControlFlow;

/// Most workers; few, so that each takes several tickets of the small grids of tests.
const MOST_WORKERS: u32 = 9;
/// Most blocks of a ticket.
const MOST_CHUNK: u32 = 8;
/// Most slices in flight, each in a hardware queue of its own.
const MOST_SLICES: u32 = 4;

/// Runs the subject's grid by the entry.
pub(super) fn drive(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    entry: &Entry,
    dice: &mut Prng,
) -> Result<(), String> {
    let timed = match entry.shape {
        Shape::Whole => dice.below(2) == 0,
        Shape::Slice => dice.below(3) == 0,
        Shape::Worker => dice.below(4) != 0,
    };
    // Sizes of slices vary up to one that varies from run to run.
    let largest = 1 + dice.below(subject.blocks());
    let limits = Limits {
        slice_blocks: largest,
        pace: match dice.below(4) {
            0 => Pace::Placed,
            _ => Pace::InFlight(1 + dice.below(MOST_SLICES)),
        },
        workers: 1 + dice.below(MOST_WORKERS),
    };
    let entry = Entry {
        chunk: 1 + dice.below(MOST_CHUNK),
        ..entry.clone()
    };
    // One block in 1 to 8 of each launch.
    let stamps = (dice.below(2) == 0).then(|| dice.below(4));
    launch(stage, &entry, (timed, limits, stamps), &mut |_| {
        1 + dice.below(largest)
    })
}

/// Makes one launch, as a tenant makes it; timed or not.
pub(super) fn whole(stage: &mut Stage<'_, '_>, entry: &Entry, timed: bool) -> Result<(), String> {
    let limits = Limits {
        slice_blocks: u32::MAX,
        pace: Pace::InFlight(1),
        workers: 1,
    };
    launch(stage, entry, (timed, limits, None), &mut |blocks| blocks)
}

/// Launches the grid; `size` says how many blocks the next slice has, instead of the limit's. An entry that is stamped
/// writes stamps of one block in 2ˢ if `stamps` is s.
fn launch(
    stage: &mut Stage<'_, '_>,
    entry: &Entry,
    (timed, limits, stamps): (bool, Limits, Option<u32>),
    size: &mut dyn FnMut(u32) -> u32,
) -> Result<(), String> {
    let mut formed = stage.formed(entry, timed);
    if let Some(shift) = stamps.filter(|_| entry.stamps) {
        let bytes = STAMP_BYTES * formed.grid.iter().product::<u32>();
        let records = formed.run.zeroed(stage.gpu, bytes);
        formed.stamps = Some((records.map_err(|e| e.to_string())?, shift));
    }
    let mut launcher = formed.launcher(limits).map_err(|e| e.to_string())?;
    loop {
        launcher.set_slice_blocks(size(limits.slice_blocks));
        let stepped = step(&mut launcher, &mut formed.on(stage.gpu));
        match stepped.map_err(|e| e.to_string())? {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(None) => return Ok(()),
            ControlFlow::Break(Some(fault)) => {
                return Err(format!("a fault was recorded: {fault}"));
            }
        }
    }
}
