//! Every realisable policy over a committed set of 24 pairs and 12 mixes on the SM model ([`super::set`]), and how well
//! the `event` executor ranks them.
//!
//! All programs of a mix start together, each in a closed loop, and are compared with themselves alone under `fifo`.
//! `throughput` is the time of the programs one after the other over that together; `least_throughput` and
//! `least_over_fifo` are those of the worst mix, the latter in STP.
//!
//! Rules: a policy that knows runtimes beforehand does not take part, nor one that differs from another in one rule of
//! its paper only ([`VARIANTS`]); a wrong result ends the experiment.

use super::front::{Point, is_on_front};
use super::set::{Kind, MIXES, PAIRS};
use crate::context::Context;
use crate::mixes::{Program, STOCK, Went, on_event, on_model};
use crate::tables::{Figures, Row};
use anyhow::Result;
use gridmux_mix::event::Contention;
use gridmux_policy::all_policies;
use gridmux_policy::metrics::geometric_mean;

/// Policies that differ from another one only in a rule of their paper.
const VARIANTS: [&str; 2] = ["fifo-strict", "smk-p-strict"];

/// How a mix went on both executors, by policy.
#[derive(Debug)]
struct Both {
    model: Vec<Went>,
    event: Vec<Went>,
}

/// Returns the tables.
pub(super) fn tables(context: &Context) -> Result<Vec<Figures>> {
    let mixes: Vec<&[Program]> = PAIRS
        .iter()
        .map(|(_, pair)| &pair[..])
        .chain(MIXES)
        .collect();
    let model = on_model(context, &mixes, &policies())?;
    let event = on_event(context, &mixes, &policies(), Contention::calibrated())?;
    let went = model.into_iter().zip(event);
    let went: Vec<Both> = went.map(|(model, event)| Both { model, event }).collect();
    let (pairs, larger) = went.split_at(PAIRS.len());
    let of_kind = |kind: Kind| {
        let chosen = PAIRS
            .iter()
            .zip(pairs)
            .filter(move |(pair, _)| pair.0 == kind);
        chosen.map(|(_, both)| both).collect::<Vec<_>>()
    };
    let all: Vec<&Both> = went.iter().collect();
    let pairs: Vec<&Both> = pairs.iter().collect();
    let larger: Vec<&Both> = larger.iter().collect();
    Ok(vec![
        ranking("all 36 mixes", &all),
        ranking("24 pairs", &pairs),
        ranking(
            "pairs of which one needs DRAM",
            &of_kind(Kind::ComputeMemory),
        ),
        ranking("12 mixes of 3 to 8 programs", &larger),
        agreement(&pairs, &larger),
    ])
}

/// Returns how far the throughput of the pairs on `event` with some parameters is from the model's: the root of the
/// mean square of the logarithm of their ratio.
pub(crate) fn error_of_pairs(context: &Context, contention: Contention) -> Result<f64> {
    let pairs: Vec<&[Program]> = PAIRS.iter().map(|(_, pair)| &pair[..]).collect();
    let model = on_model(context, &pairs, &policies())?;
    let event = on_event(context, &pairs, &policies(), contention)?;
    Ok(error(event.iter().zip(&model)))
}

/// Returns the policies that take part.
fn policies() -> Vec<&'static str> {
    let all = all_policies().iter();
    let names = all.filter(|info| !info.is_oracle).map(|info| info.name);
    names.filter(|name| !VARIANTS.contains(name)).collect()
}

/// Returns the table of all policies over some mixes on the model.
fn ranking(which: &str, mixes: &[&Both]) -> Figures {
    let policies = policies();
    let fifo = policies
        .iter()
        .position(|name| *name == STOCK)
        .expect("it takes part");
    let mean = |place: usize, of: fn(&Went) -> f64| {
        let values: Vec<f64> = mixes.iter().map(|both| of(&both.model[place])).collect();
        geometric_mean(&values)
    };
    let least = |of: &dyn Fn(&Both) -> f64| {
        mixes
            .iter()
            .map(|both| of(both))
            .fold(f64::INFINITY, f64::min)
    };
    let points: Vec<Point> = (0..)
        .zip(&policies)
        .map(|(place, name)| {
            let point = [
                mean(place, |went| went.stp),
                mean(place, |went| went.antt),
                mean(place, |went| went.fairness),
            ];
            ((*name).to_owned(), point)
        })
        .collect();
    let rows = (0..)
        .zip(&points)
        .map(|(place, (name, point)): (usize, _)| {
            let [stp, antt, fairness] = *point;
            let metrics = [
                "stp",
                "antt",
                "fairness",
                "throughput",
                "least_throughput",
                "least_over_fifo",
                "on_front",
            ];
            let measured = [
                stp,
                antt,
                fairness,
                mean(place, |went| went.throughput),
                least(&|both| both.model[place].throughput),
                least(&|both| both.model[place].stp / both.model[fifo].stp),
                f64::from(u8::from(is_on_front(point, &points))),
            ];
            Row::new(name, metrics, [f64::NAN; 7], measured)
        });
    Figures {
        name: format!("Every policy on the SM model: {which}"),
        about: "Geometric means over programs of our kernels that start together in closed loops; `throughput` is over \
                taking turns, `least_throughput` and `least_over_fifo` (in STP) are of the worst mix. `on_front` is 1 \
                where no other policy is at least as good in STP, ANTT and fairness and better in one. \
                No policy knows a kernel beforehand; those that have to, `fifo-strict` and `smk-p-strict` do not take \
                part."
            .to_owned(),
        rows: rows.collect(),
        ..Figures::default()
    }
}

/// Returns the root of the mean square of the logarithm of throughput on `event` over that on the model.
fn error<'a>(mixes: impl Iterator<Item = (&'a Vec<Went>, &'a Vec<Went>)>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for (event, model) in mixes {
        for (event, model) in event.iter().zip(model) {
            sum += (event.throughput / model.throughput).ln().powi(2);
            count += 1.0;
        }
    }
    f64::sqrt(sum / f64::max(count, 1.0))
}

/// Returns how far `event` is from the model: in the throughput of pairs, and in which policy is best.
fn agreement(pairs: &[&Both], larger: &[&Both]) -> Figures {
    let off = error(pairs.iter().map(|both| (&both.event, &both.model)));
    let best = |went: &[Went]| {
        let best = (0..went.len()).max_by(|one, other| went[*one].stp.total_cmp(&went[*other].stp));
        best.unwrap_or(0)
    };
    let agrees = larger
        .iter()
        .filter(|both| best(&both.event) == best(&both.model));
    let agrees = agrees.count() as f64;
    Figures {
        name: "The `event` executor beside the SM model".to_owned(),
        about: "Over the same pairs and mixes under the same policies: the root of the mean square of the logarithm of \
                `event`'s throughput over the model's, over pairs, and in how many of the larger mixes the same policy \
                is best in STP."
            .to_owned(),
        rows: vec![
            Row::one("throughput of pairs", "rms_of_ln", None, off),
            Row::one("larger mixes", "same_best_policy", None, agrees),
        ],
        ..Figures::default()
    }
}
