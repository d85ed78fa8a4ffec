//! accelOS: sets of 2, 4 and 8 of our kernels that start together (the paper's sections 8.1 to 8.3).
//!
//! All ordered pairs, and sets of 4 and 8 drawn as often as the paper drew them. Each set runs under stock hardware
//! (`fifo`), `accelos` and `elastic`; figures are means over sets.

use crate::measure::{Shape, device, shapes};
use crate::tables::{Figures, Report, Row};
use anyhow::Result;
use gridmux_policy::executor::{EventConfig, EventSubmission};
use gridmux_policy::metrics::{overlap, unfairness};
use gridmux_policy::mix::{MixLaunch, Went, alone, together};
use gridmux_policy::units::Cycles;
use gridmux_policy::{DeviceId, by_name};
use std::collections::BTreeMap;

/// Kernels of a set, sets that the paper drew, and the paper's figures for a K20m: unfairness and overlap of the
/// standard system, unfairness, overlap and throughput of accelOS and of Elastic Kernels where they are given.
const SETS: [(usize, usize, [f64; 2], [f64; 3], [f64; 3]); 3] = [
    (
        2,
        0,
        [8.43, 0.21],
        [1.24, 0.94, 1.13],
        [8.43 / 1.53, 0.71, 1.08],
    ),
    (
        4,
        16_384,
        [19.65, 0.03],
        [1.89, 0.87, 1.19],
        [19.65 / 1.03, 0.43, 1.02],
    ),
    (
        8,
        32_768,
        [43.42, 0.0],
        [3.54, 0.82, 1.23],
        [43.42 / 0.93, 0.07, 0.91],
    ),
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
    let kernels: Vec<EventSubmission> = shapes()?.iter().map(Shape::submission).collect();
    let runtimes: Vec<Cycles> = kernels
        .iter()
        .map(|k| alone(config, k))
        .collect::<Result<_, _>>()?;
    let mut tables = Vec::new();
    for (size, drawn, hardware, accelos, elastic) in SETS {
        let sets = match drawn {
            0 => pairs(kernels.len()),
            drawn => draw(kernels.len(), size, drawn, part),
        };
        let sums = over(config, &sets, &kernels, &runtimes)?;
        let papers = [
            [hardware[0], hardware[1], 1.0],
            accelos,
            elastic,
            [f64::NAN; 3],
        ];
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
            name: format!("{} sets of {size} kernels that start together", sets.len()),
            rows: rows.collect(),
        });
    }
    Ok(Report {
        paper: "accelos",
        tables,
    })
}

fn names(figures: [f64; 3]) -> BTreeMap<&'static str, f64> {
    BTreeMap::from_iter(
        ["unfairness", "overlap", "throughput"]
            .into_iter()
            .zip(figures),
    )
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
    let policy = by_name(policy, DeviceId(0), &config.shape)?;
    let went = together(config, policy, &mix)?;
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
