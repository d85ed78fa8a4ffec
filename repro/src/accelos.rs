//! accelOS: sets of 2, 4 and 8 of our kernels that start together (the paper's sections 8.1 to 8.3).
//!
//! All ordered pairs, and sets of 4 and 8 drawn as often as the paper drew them. Each set runs under stock hardware
//! (`fifo`), `accelos` and `elastic`; figures are means over sets.

use crate::measure::device;
use crate::tables::{Figures, Report, Row};
use anyhow::Result;
use gridmux_policy::executor::{EventConfig, EventSubmission, MeasuredKernel, measured_kernels};
use gridmux_policy::metrics::{overlap, unfairness};
use gridmux_policy::mix::{MixLaunch, Went, alone, together_learning};
use gridmux_policy::units::Cycles;
use gridmux_policy::{DeviceId, Profiles, by_name};
use std::collections::BTreeMap;

/// Sets of one size, and the paper's figures for a K20m: unfairness, overlap and throughput.
struct Sets {
    kernels: usize,
    /// Sets that the paper drew; 0 for all.
    drawn: usize,
    hardware: [f64; 3],
    accelos: [f64; 3],
    elastic: [f64; 3],
}

/// Unfairness under Elastic Kernels is the standard system's over the fairness improvement that section 8.1 gives.
const SETS: [Sets; 3] = [
    Sets {
        kernels: 2,
        drawn: 0,
        hardware: [8.43, 0.21, 1.0],
        accelos: [1.24, 0.94, 1.13],
        elastic: [8.43 / 1.53, 0.71, 1.08],
    },
    Sets {
        kernels: 4,
        drawn: 16_384,
        hardware: [19.65, 0.03, 1.0],
        accelos: [1.89, 0.87, 1.19],
        elastic: [19.65 / 1.03, 0.43, 1.02],
    },
    Sets {
        kernels: 8,
        drawn: 32_768,
        hardware: [43.42, 0.0, 1.0],
        accelos: [3.54, 0.82, 1.23],
        elastic: [43.42 / 0.93, 0.07, 0.91],
    },
];

const POLICIES: [&str; 4] = ["fifo", "accelos", "elastic", "gridmux"];

/// What one policy made of one set.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    unfairness: f64,
    overlap: f64,
    makespan: f64,
}

/// Sums over sets, by policy: unfairness, overlap, throughput against stock hardware.
type Sums = [[f64; 3]; POLICIES.len()];

/// Runs every experiment; `part` of the sets of 4 and 8.
pub(crate) fn run(part: f64) -> Result<Report> {
    let config = device()?;
    let kernels = measured_kernels("large");
    let kernels: Vec<EventSubmission> = kernels.iter().map(MeasuredKernel::submission).collect();
    let runtimes: Vec<Cycles> = kernels
        .iter()
        .map(|k| alone(config, k))
        .collect::<Result<_, _>>()?;
    let mut tables = Vec::new();
    for of in SETS {
        let sets = match of.drawn {
            0 => pairs(kernels.len()),
            drawn => draw(kernels.len(), of.kernels, drawn, part),
        };
        let sums = over(config, &sets, &kernels, &runtimes)?;
        let papers = [of.hardware, of.accelos, of.elastic, [f64::NAN; 3]];
        let rows = POLICIES
            .iter()
            .zip(papers)
            .zip(sums)
            .map(|((policy, paper), ours)| Row {
                name: (*policy).to_owned(),
                paper: names(paper),
                measured: names(ours),
            });
        tables.push(Figures {
            name: format!(
                "{} sets of {} kernels that start together",
                sets.len(),
                of.kernels
            ),
            rows: rows.collect(),
        });
    }
    Ok(Report {
        paper: "accelos",
        tables,
    })
}

fn names(figures: [f64; 3]) -> BTreeMap<&'static str, f64> {
    let named = ["unfairness", "overlap", "throughput"]
        .into_iter()
        .zip(figures);
    named.filter(|(_, figure)| !figure.is_nan()).collect()
}

/// Returns all ordered pairs, those of a kernel with itself included (section 7.2).
fn pairs(kernels: usize) -> Vec<Vec<usize>> {
    let pair = |at: usize| vec![at / kernels, at % kernels];
    (0..kernels * kernels).map(pair).collect()
}

/// Draws sets with repetition.
fn draw(kernels: usize, size: usize, drawn: usize, part: f64) -> Vec<Vec<usize>> {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of sets"
    )]
    let sets = ((drawn as f64 * part) as usize).max(1);
    let mut state = size as u64;
    let mut next = || {
        // Knuth's MMIX generator; its upper bits are good enough to choose kernels.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or(0) % kernels
    };
    (0..sets)
        .map(|_| (0..size).map(|_| next()).collect())
        .collect()
}

/// Returns means over sets, on two threads.
#[allow(clippy::cast_precision_loss, reason = "a number of sets")]
fn over(
    config: EventConfig,
    sets: &[Vec<usize>],
    kernels: &[EventSubmission],
    runtimes: &[Cycles],
) -> Result<Sums> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chunk = sets.len().div_ceil(threads).max(1);
    let parts = std::thread::scope(|scope| {
        let work = |sets| scope.spawn(move || sum(config, sets, kernels, runtimes));
        let running: Vec<_> = sets.chunks(chunk).map(work).collect();
        let joined = running
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        joined.collect::<Result<Vec<Sums>>>()
    })?;
    let mut means = Sums::default();
    for part in parts {
        for (mean, sum) in means.iter_mut().flatten().zip(part.iter().flatten()) {
            *mean += sum / sets.len() as f64;
        }
    }
    Ok(means)
}

fn sum(
    config: EventConfig,
    sets: &[Vec<usize>],
    kernels: &[EventSubmission],
    runtimes: &[Cycles],
) -> Result<Sums> {
    let mut sums = Sums::default();
    for set in sets {
        let mut made = [Made::default(); POLICIES.len()];
        for (made, policy) in made.iter_mut().zip(POLICIES) {
            *made = one(config, policy, set, (kernels, runtimes))?;
        }
        for (sum, ours) in sums.iter_mut().zip(&made) {
            sum[0] += ours.unfairness;
            sum[1] += ours.overlap;
            sum[2] += made[0].makespan / ours.makespan;
        }
    }
    Ok(sums)
}

#[allow(clippy::cast_precision_loss, reason = "cycles of short runs")]
fn one(
    config: EventConfig,
    policy: &str,
    set: &[usize],
    (kernels, runtimes): (&[EventSubmission], &[Cycles]),
) -> Result<Made> {
    let launch = |kernel: &usize| MixLaunch {
        submission: kernels[*kernel].clone(),
        arrival: Cycles(0),
        weight: 1,
    };
    let mix: Vec<MixLaunch> = set.iter().map(launch).collect();
    let profiles = Profiles::default();
    let policy = by_name(policy, DeviceId(0), &config.shape, &profiles)?;
    let went = together_learning(config, policy, &profiles, &mix)?;
    let run =
        |(kernel, went): (&usize, &Went)| (runtimes[*kernel].0 as f64, went.turnaround().0 as f64);
    let runs: Vec<(f64, f64)> = set.iter().zip(&went).map(run).collect();
    let spans: Vec<(f64, f64)> = went
        .iter()
        .map(|went| (went.start.0 as f64, went.end.0 as f64))
        .collect();
    Ok(Made {
        unfairness: unfairness(&runs),
        overlap: overlap(&spans),
        makespan: spans.iter().fold(0.0, |last, span| last.max(span.1)),
    })
}
