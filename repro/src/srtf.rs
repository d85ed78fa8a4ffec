//! SRTF: 56 ordered pairs of ERCBench kernels under each policy (the paper's Tables 3, 5 and 6).

use crate::tables::{Figures, Report, Row};
use gridmux_policy::driver::Engine;
use gridmux_policy::executor::{ErcKernel, EventConfig, EventExecutor, ercbench};
use gridmux_policy::metrics::{antt, geometric_mean, stp, strict_f};
use gridmux_policy::mix::{MixLaunch, Went, alone, together, together_learning};
use gridmux_policy::profiles::Profiles;
use gridmux_policy::units::Cycles;
use gridmux_policy::{DeviceId, by_name};
use std::collections::BTreeMap;

/// Arrival of the second kernel, in percent of the first one's runtime, and the paper's figures for it.
type Paper = (u64, &'static [(&'static str, [f64; 3])]);

const TABLES: &[Paper] = &[
    (
        0,
        &[
            ("fifo-strict", [1.35, 3.66, 0.19]),
            ("mpmax", [1.37, 2.15, 0.36]),
            ("srtf", [1.59, 1.63, 0.52]),
            ("srtf-adaptive", [1.51, 1.64, 0.56]),
            ("srtf-zero", [1.64, 1.33, f64::NAN]),
            ("sjf", [1.82, 1.13, 0.80]),
            ("ljf", [1.16, f64::NAN, f64::NAN]),
            ("gridmux", [f64::NAN; 3]),
            ("gridmux, profiles known", [f64::NAN; 3]),
        ],
    ),
    (
        25,
        &[
            ("fifo-strict", [1.44, 2.74, 0.27]),
            ("mpmax", [1.45, 2.05, 0.38]),
            ("srtf", [1.62, 1.60, 0.53]),
            ("srtf-adaptive", [1.56, 1.65, 0.56]),
            ("gridmux", [f64::NAN; 3]),
            ("gridmux, profiles known", [f64::NAN; 3]),
        ],
    ),
    (
        50,
        &[
            ("fifo-strict", [1.48, 2.36, 0.32]),
            ("mpmax", [1.49, 1.93, 0.40]),
            ("srtf", [1.63, 1.56, 0.55]),
            ("srtf-adaptive", [1.59, 1.58, 0.59]),
            ("gridmux", [f64::NAN; 3]),
            ("gridmux, profiles known", [f64::NAN; 3]),
        ],
    ),
];

/// Cycles by which the second kernel is later where the pair starts together (the paper's section 6.1.3: up to 100).
const STAGGER: u64 = 100;

/// Policies that know of both kernels before either has run (section 6.2.1).
const AT_ONCE: [&str; 2] = ["sjf", "ljf"];

const METRICS: [&str; 3] = ["stp", "antt", "fairness"];

/// Runs every experiment.
pub(crate) fn run() -> anyhow::Result<Report> {
    let config = EventConfig::gtx480();
    let kernels = ercbench();
    let runtimes = kernels
        .iter()
        .map(|k| alone(config, &k.submission(&config.shape)));
    let runtimes: Vec<Cycles> = runtimes.collect::<Result<_, _>>()?;
    let mut tables = vec![table_3(&kernels, &runtimes)];
    for (percent, policies) in TABLES {
        let mut rows = Vec::new();
        for (policy, paper) in *policies {
            let measured = pairs(config, policy, *percent, (&kernels, &runtimes))?;
            rows.push(Row {
                name: (*policy).to_owned(),
                paper: METRICS
                    .into_iter()
                    .zip(*paper)
                    .filter(|(_, x)| !x.is_nan())
                    .collect(),
                measured: METRICS.into_iter().zip(measured).collect(),
            });
        }
        tables.push(Figures {
            name: format!(
                "56 pairs, the second kernel arrives at {percent} % of the first (Tables 5, 6)"
            ),
            rows,
        });
    }
    Ok(Report {
        paper: "srtf",
        tables,
    })
}

#[allow(clippy::cast_precision_loss, reason = "cycles of short runs")]
fn table_3(kernels: &[ErcKernel], runtimes: &[Cycles]) -> Figures {
    let row = |(kernel, runtime): (&ErcKernel, &Cycles)| Row {
        name: kernel.name.clone(),
        paper: BTreeMap::from([("cycles", kernel.runtime_cycles as f64)]),
        measured: BTreeMap::from([("cycles", runtime.0 as f64)]),
    };
    Figures {
        name: "kernels alone (Table 3)".to_owned(),
        rows: kernels.iter().zip(runtimes).map(row).collect(),
    }
}

/// Returns the geometric means of STP, ANTT and `StrictF` over all ordered pairs.
#[allow(clippy::cast_precision_loss, reason = "cycles of short runs")]
fn pairs(
    config: EventConfig,
    policy: &str,
    percent: u64,
    (kernels, runtimes): (&[ErcKernel], &[Cycles]),
) -> anyhow::Result<[f64; 3]> {
    let mut metrics = [Vec::new(), Vec::new(), Vec::new()];
    for first in 0..kernels.len() {
        for second in (0..kernels.len()).filter(|second| *second != first) {
            let launch = |place: usize, arrival| MixLaunch {
                submission: kernels[place].submission(&config.shape),
                arrival,
                weight: 1,
            };
            let later = match percent {
                0 if AT_ONCE.contains(&policy) => 0,
                0 => STAGGER,
                _ => runtimes[first].0 * percent / 100,
            };
            let later = Cycles(later);
            let mix = [launch(first, Cycles(0)), launch(second, later)];
            let went = went(policy, config, (kernels, runtimes), &mix)?;
            let runs = [(first, went[0]), (second, went[1])];
            let runs = runs.map(|(k, went)| (runtimes[k].0 as f64, went.turnaround().0 as f64));
            metrics[0].push(stp(&runs));
            metrics[1].push(antt(&runs));
            metrics[2].push(strict_f(&runs));
        }
    }
    Ok(metrics.map(|values| geometric_mean(&values)))
}

/// Runs a mix under a policy. Those that are oracles in the paper know every kernel's runtime; ours alone learns.
fn went(
    name: &str,
    config: EventConfig,
    (kernels, runtimes): (&[ErcKernel], &[Cycles]),
    mix: &[MixLaunch],
) -> anyhow::Result<Vec<Went>> {
    let profiles = match name {
        "sjf" | "ljf" | "srtf-zero" | "gridmux, profiles known" => {
            oracle(config, kernels, runtimes)
        }
        _ => Profiles::default(),
    };
    let plain = name.split(',').next().unwrap_or(name);
    let policy = by_name(plain, DeviceId(0), &config.shape, &profiles)?;
    Ok(match plain {
        "gridmux" => together_learning(config, policy, &profiles, mix)?,
        _ => together(config, policy, mix)?,
    })
}

/// Returns profiles from which the runtimes alone follow.
#[allow(clippy::cast_precision_loss, reason = "cycles of short runs")]
fn oracle(config: EventConfig, kernels: &[ErcKernel], runtimes: &[Cycles]) -> Profiles {
    let engine = EventExecutor::new(config);
    let profiles = Profiles::default();
    for (kernel, runtime) in kernels.iter().zip(runtimes) {
        let submission = kernel.submission(&config.shape);
        let key = engine.profile(&submission.kernel, &submission.kernel.block);
        let resident = u64::from(kernel.residency) * u64::from(config.shape.sms);
        let runtime = engine.time(*runtime).0 as f64;
        profiles.set(key, runtime * resident as f64 / kernel.blocks as f64);
    }
    profiles
}
