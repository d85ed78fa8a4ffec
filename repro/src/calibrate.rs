//! How well parameters of the event executor fit: slowdowns of pairs that the SM model ran, Table 3's runtimes, and the
//! throughput of the pairs of `repro gridmux`.
//!
//! Each parameter is varied while the others stay as `mix/data/event.toml` has them. Slowdowns are of the pairs of the
//! predictors' traces; on the event executor their blocks work as long as they did alone on the model.
//!
//! Rule: nothing is changed; the value in use is the row that says so.

use crate::context::Context;
use crate::gridmux::mixes::error_of_pairs;
use crate::model::{Ran, Traced};
use crate::predictors::traces;
use crate::srtf;
use crate::tables::{Figures, Report, Row};
use anyhow::Result;
use gridmux_mix::event::{
    Contention, ErcKernel, EventConfig, EventKernel, EventSubmission, Uses, Work,
};
use gridmux_mix::{MixLaunch, alone, together};
use gridmux_policy::units::Cycles;
use gridmux_policy::{DeviceId, Profiles, by_name};
use std::sync::Arc;

/// A parameter that is varied.
struct Parameter {
    name: &'static str,
    set: fn(&mut Contention, f64),
    values: &'static [f64],
    /// What decided the value in use.
    decided: &'static str,
}

const FITTED: &str = "The value in use was fitted to Table 3's runtimes when the executor was written, and has been \
                      frozen since. A new one has to keep the bars of Tables 5 and 6 (`repro/src/srtf/bars.rs`), which \
                      these columns do not show, so that the best row here does not by itself replace it.";

const PARAMETERS: [Parameter; 5] = [
    Parameter {
        name: "shared",
        set: |contention, value| contention.shared = value,
        values: &[0.0, 0.2, 0.4, 0.5, 0.571_428, 0.65, 0.75, 0.85, 1.0],
        decided: FITTED,
    },
    Parameter {
        name: "issue_most",
        set: |contention, value| contention.issue_most = value,
        values: &[0.6, 0.7, 0.8, 0.9, 1.0],
        decided: MIXED,
    },
    Parameter {
        name: "sharpness",
        set: |contention, value| contention.sharpness = value,
        values: &[1.0, 1.25, 1.5, 1.75, 2.0],
        decided: MIXED,
    },
    Parameter {
        name: "wave_part",
        set: |contention, value| contention.wave_part = value,
        values: &[0.0, 0.25, 0.5, 0.75, 0.9, 1.0],
        decided: FITTED,
    },
    Parameter {
        name: "dispatch_cycles",
        set: |contention, value| contention.dispatch_cycles = value,
        values: &[0.25, 0.5, 1.0, 2.0, 4.0],
        decided: "The value in use is not fitted: the device starts one block a cycle, as in the SM model's \
                  description of the GTX 480. It is frozen, too.",
    },
];

const MIXED: &str = "The value in use was fitted to the throughput of the pairs of `repro gridmux`. It changes nothing \
                     for kernels of which it is not known what they use, as those of Table 3.";

const METRICS: [&str; 4] = [
    "corun_log_error",
    "corun_bias",
    "table_3_log_error",
    "rms_of_ln_throughput",
];

/// Runs the calibration.
pub(crate) fn run(context: &Context) -> Result<Report> {
    let singles = traces::small(context)?;
    let pairs = traces::pairs(context)?;
    let (ercbench, _) = srtf::kernels()?;
    let frozen = Contention::calibrated();
    let mut tables = Vec::new();
    for Parameter {
        name,
        set,
        values,
        decided,
    } in PARAMETERS
    {
        let with = |value: f64| {
            let mut contention = frozen;
            set(&mut contention, value);
            contention
        };
        let figures = context.parts(
            &format!("calibration of {name}"),
            values,
            |value| format!("{value} beside {frozen:?}"),
            |value| Ok(errors(with(*value), &singles, &pairs, &ercbench)?.to_vec()),
        )?;
        let of_mixes = |value: &f64| error_of_pairs(context, with(*value));
        let of_mixes: Vec<f64> = values.iter().map(of_mixes).collect::<Result<_>>()?;
        let named = |value: f64| match with(value) == frozen {
            true => format!("{name} = {value}, as it is"),
            false => format!("{name} = {value}"),
        };
        let column = |metric: usize| figures.iter().map(|of| of[metric]).collect::<Vec<_>>();
        let about = format!(
            "Mean absolute natural logarithm of the slowdown of each kernel of {} pairs on `event`, which is not told \
             here what the kernels use, over that on the SM model (an H200 of 2 SMs, `mpmax`), its mean with its \
             sign, and of Table 3's runtimes; the root of the mean square of that of the throughput of the 24 pairs \
             of `repro gridmux` under every policy. Best for slowdowns: {}, for Table 3: {}, for throughput: {}. {decided}",
            pairs.len(),
            best(values, &column(0)),
            best(values, &column(2)),
            best(values, &of_mixes),
        );
        let row = |((value, figures), of_mixes): ((&f64, &Vec<f64>), &f64)| {
            let measured = [figures[0], figures[1], figures[2], *of_mixes];
            Row::new(named(*value), METRICS, [f64::NAN; 4], measured)
        };
        tables.push(Figures {
            name: format!("Errors by `{name}`"),
            about,
            rows: values
                .iter()
                .zip(&figures)
                .zip(&of_mixes)
                .map(row)
                .collect(),
            ..Figures::default()
        });
    }
    Ok(Report {
        paper: "calibrate",
        tables,
        pictures: Vec::new(),
    })
}

/// Returns the value whose error is the least, as text; `any` where all errors are the same.
fn best(values: &[f64], errors: &[f64]) -> String {
    let least = (0..values.len()).min_by(|one, other| errors[*one].total_cmp(&errors[*other]));
    match least.filter(|at| errors.iter().any(|error| *error > errors[*at])) {
        Some(at) => values[at].to_string(),
        None => "any".to_owned(),
    }
}

/// Returns the mean absolute error of slowdowns, their mean error, and the mean absolute error of Table 3, all as
/// logarithms.
fn errors(
    contention: Contention,
    singles: &[Ran],
    pairs: &[Ran],
    ercbench: &[ErcKernel],
) -> Result<[f64; 3]> {
    let device = EventConfig {
        contention,
        ..traces::device()?
    };
    let (mut sum, mut bias, mut count) = (0.0, 0.0, 0.0);
    for ran in pairs {
        let launches: Vec<MixLaunch> = ran
            .launches
            .iter()
            .map(|launch| like(launch, singles, &device))
            .collect();
        let policy = by_name("mpmax", DeviceId(0), &device.shape, &Profiles::default())?;
        let went = together(device, policy, &launches)?;
        for ((launch, event), went) in ran.launches.iter().zip(&launches).zip(went) {
            let Some(apart) = runtime(launch, singles) else {
                continue;
            };
            let on_model = launch.turnaround() as f64 / apart;
            let on_event = went.turnaround().0 as f64 / alone(device, &event.submission)?.0 as f64;
            let error = (on_event / on_model).ln();
            (sum, bias, count) = (sum + error.abs(), bias + error, count + 1.0);
        }
    }
    let gtx480 = EventConfig {
        contention,
        ..EventConfig::gtx480()
    };
    let mut table_3 = 0.0;
    for kernel in ercbench {
        let ours = alone(gtx480, &kernel.submission(&gtx480.shape))?.0 as f64;
        table_3 += (ours / kernel.runtime_cycles as f64).ln().abs();
    }
    Ok([sum / count, bias / count, table_3 / ercbench.len() as f64])
}

/// Returns the run of a launch's kernel alone, in the same size.
fn single<'a>(launch: &Traced, singles: &'a [Ran]) -> Option<&'a Ran> {
    singles
        .iter()
        .find(|ran| ran.launches[0].kernel == launch.kernel)
}

fn runtime(launch: &Traced, singles: &[Ran]) -> Option<f64> {
    Some(single(launch, singles)?.launches[0].turnaround() as f64)
}

/// Returns a launch on the event executor whose blocks work as long as they did alone on the model.
#[allow(clippy::cast_possible_truncation, reason = "cycles of short runs")]
fn like(launch: &Traced, singles: &[Ran], device: &EventConfig) -> MixLaunch {
    let mut started: Vec<(u64, u64)> = single(launch, singles)
        .into_iter()
        .flat_map(|ran| {
            ran.blocks
                .iter()
                .filter_map(|(at, _, _, ran)| Some((at - (*ran)?, (*ran)?)))
        })
        .collect();
    // Blocks start in ascending order.
    started.sort_unstable();
    let work = started.into_iter().map(|(_, ran)| {
        device
            .work_of(&launch.block, launch.blocks, ran as f64)
            .round()
    });
    MixLaunch {
        submission: EventSubmission {
            queue: 0,
            kernel: Arc::new(EventKernel {
                name: launch.kernel.clone(),
                block: launch.block,
                pressure: 1.0,
                sensitivity: 1.0,
                uses: Uses::UNKNOWN,
            }),
            blocks: launch.blocks,
            work: Work::Measured(work.collect()),
        },
        arrival: Cycles(launch.arrival),
        weight: 1,
    }
}
