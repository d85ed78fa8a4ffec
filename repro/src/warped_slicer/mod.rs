//! Warped-Slicer: pairs of ten kernels on the SM model, under the policies that the paper compares (section V).
//!
//! [`kernels`] says what runs where, [`curves`] is each kernel alone with every number of blocks, which the oracle
//! knows, [`pairs`] runs the pairs, [`decisions`] asks the policy what it decides, and [`tables`] sets all of it beside
//! the paper.
//!
//! Rule: the oracle is no policy of the policy room: it is a partition ([`crate::fixed`]) from curves that were
//! measured before.

mod curves;
mod decisions;
mod kernels;
mod pairs;
mod tables;

use crate::context::{Context, On};
use crate::tables::Report;
use anyhow::Result;
use gridmux_policy::policies::warped_slicer::{Scaling, Settings, paper_cycles};
use kernels::Setting;

/// Variants of which the paper says how far they change IPC (section V-H).
const LONGER_WINDOWS: &str = "windows of 10,000 cycles";
const LATER_DECISION: &str = "decided 10,000 cycles later";

/// Returns the variants of sampling, by name.
fn variants() -> [(&'static str, Settings); 5] {
    let usual = Settings::default();
    [
        ("as the policy is", usual),
        (
            "equation 4 as printed",
            Settings {
                scaling: Scaling::Printed,
                ..usual
            },
        ),
        (
            "no scaling",
            Settings {
                scaling: Scaling::None,
                ..usual
            },
        ),
        (
            LONGER_WINDOWS,
            Settings {
                window: paper_cycles(10_000),
                ..usual
            },
        ),
        (
            LATER_DECISION,
            Settings {
                delay: paper_cycles(10_000),
                ..usual
            },
        ),
    ]
}

/// Runs every experiment.
pub(crate) fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("warped-slicer");
    if !context.wants(On::Model) {
        return Ok(report);
    }
    let setting = Setting::new()?;
    let curves = curves::all(context, &setting)?;
    let mut decided = Vec::new();
    for (name, settings) in variants() {
        let decisions = decisions::all(context, &setting, settings, &setting.pairs())?;
        decided.push((name, decisions));
    }
    // Those that the paper says change IPC by 2 and 1.5 % at most (section V-H).
    let slower = &variants()[3..];
    let pairs = pairs::all(context, &setting, &curves, slower)?;
    report.tables.push(tables::sensitivity(slower, &pairs));
    report.tables.extend(tables::means(&setting, &pairs));
    report
        .tables
        .push(tables::near(&setting, &curves, &decided));
    let each = tables::each(&setting, &curves, &pairs, &decided[0].1);
    report.tables.push(each);
    report.tables.push(curves::table(&setting, &curves));
    Ok(report)
}
