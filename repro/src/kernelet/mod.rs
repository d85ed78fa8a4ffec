//! Kernelet: its performance model and its schedules, with our kernels on the SM model.
//!
//! [`kernels`] are the paper's eight among ours, [`stage`] runs some of them side by side, [`device`] is a GPU with
//! everything that was measured on it. [`accuracy`] holds the Markov chain ([`gridmux_policy::predict::co_run`]) to it;
//! [`schedules`] compares orders of many launches, which [`replay`] goes through with the measured speeds.

mod accuracy;
mod device;
mod kernels;
mod replay;
mod schedules;
mod stage;

use crate::context::{Context, On};
use crate::tables::{Figures, Report};
use anyhow::{Result, ensure};
use device::Device;
use gridmux_policy::predict::co_run::Thresholds;

/// Greatest mean error of a predicted IPC, alone and in pairs: of 1 on the C2050, of 8 on the GTX 680.
const MOST_ERROR: [f64; 2] = [0.10, 0.30];

/// Runs every experiment.
pub(crate) fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("kernelet");
    if !context.wants(On::Model) {
        return Ok(report);
    }
    // Section 5.4: thresholds, and the least and greatest gain over BASE and difference from OPT in percent.
    let gpus = [
        ("c2050", 0.1, [[5.0, 31.1], [0.7, 3.1]]),
        ("gtx680", 0.105, [[6.7, 23.4], [4.0, 15.0]]),
    ];
    for (place, (gpu, mur, paper)) in gpus.into_iter().enumerate() {
        let thresholds = Thresholds { pur: 0.4, mur };
        let device = Device::new(context, gpu, thresholds)?;
        let mut tables = accuracy::tables(&device, place);
        tables.extend(schedules::tables(&device, paper)?);
        if context.check {
            check(&tables, MOST_ERROR[place])?;
        }
        report.tables.extend(tables);
    }
    Ok(report)
}

/// Checks how well the chain predicts, and that scheduling by it is worth something.
///
/// # Errors
/// What is not as it has to be, or differs from the paper without a sentence that says why.
fn check(tables: &[Figures], most_error: f64) -> Result<()> {
    for table in tables {
        for row in &table.rows {
            for (metric, measured) in &row.measured {
                let holds = match (row.name.as_str(), *metric) {
                    ("the model", "alone" | "pairs") => *measured <= most_error,
                    (_, "kernelet over base" | schedules::KERNELET_OVER_BASE) => *measured > 0.0,
                    ("MIX", "mc better than kernelet") => *measured < 1.0,
                    _ => true,
                };
                ensure!(
                    holds,
                    "{}: {} {metric} is {measured:.3}",
                    table.name,
                    row.name
                );
            }
        }
        for differs in table.differences() {
            ensure!(differs.why.is_some(), "{}: {differs:?}", table.name);
        }
    }
    Ok(())
}
