//! Issue weights: how fast rows that share an SM compute.

use super::run::{Run, Scene, load};
use super::script::{PlanSpec, RowSpec};
use super::{Case, Change, Subject, Verdict};
use crate::contract::Element;
use crate::units::Nanos;

pub(super) const CASES: &[Case] = &[Case {
    name: "rows issue as their weights are",
    needs: &[Element::Weight, Element::Cap],
    run: proportion,
}];

/// Threads of a block: enough for one block to issue in three of four slots.
const THREADS: u32 = 1024;
/// Issue weights.
const WEIGHTS: [u16; 2] = [48, 16];
/// Blocks of each row that are looked at on each SM: about as long in all, while both rows have more.
const BLOCKS: [usize; 2] = [3, 1];
/// How far the rates' ratio may be off beside the executor's own factor: an epoch of 10,000 cycles is a thirtieth of
/// what is looked at, and blocks begin and end within epochs.
const TOLERANCE: f64 = 1.1;

/// Two rows have a block each on every SM, which computes all the time, and weights of 48 and 16. Every block does
/// the same work, so those of the first row stay a third as long.
fn proportion(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let mut spec = PlanSpec::at(Nanos(0), sms);
    spec.default_cap = 0;
    let mut loads = Vec::new();
    for (place, weight) in WEIGHTS.into_iter().enumerate() {
        spec.rows.push(RowSpec {
            weight: Some(weight),
            ..RowSpec::of(place, 0, 1)
        });
        let tenant = u32::try_from(place).unwrap_or(0);
        let blocks = u32::try_from(BLOCKS[place] + 3).unwrap_or(0) * u32::from(sms);
        let mut load = load(tenant, THREADS, blocks, Nanos(grain.0 / 8));
        load.computes = true;
        loads.push(load);
    }
    let run = Scene::of(vec![spec], loads, grain * 60).complete(subject)?;
    let got = mean_stay(&run, 1, sms) / mean_stay(&run, 0, sms);
    let want = f64::from(WEIGHTS[0]) / f64::from(WEIGHTS[1]);
    let factor = subject.slack(Element::Weight).factor * TOLERANCE;
    run.require(
        &format!("the first row works {got} times as fast as the second, instead of {want}"),
        (want / factor..=want * factor).contains(&got),
    )?;
    Ok(Verdict::Held)
}

/// Returns how long the first blocks of a load stay on average, in nanoseconds.
fn mean_stay(run: &Run, load: usize, sms: u16) -> f64 {
    let of = |change: Change| {
        let own = run.trace.blocks.iter();
        let own = own.filter(move |seen| seen.load == load && seen.change == change);
        own.take(BLOCKS[load] * usize::from(sms))
    };
    let sum: u64 = of(Change::Ended)
        .map(|ended| {
            let start = run.trace.blocks.iter().find(|seen| {
                (seen.load, seen.launch, seen.block) == (load, ended.launch, ended.block)
            });
            start.map_or(0, |start| (ended.at - start.at).0)
        })
        .sum();
    sum as f64 / of(Change::Ended).count() as f64
}
