//! How near the experiments on the event executor have to be to the paper: whoever repeats them is told if they are
//! not.
//!
//! The experiments are deterministic, so these are no statistics.

use super::pairs::Runs;
use crate::tables::Figures;
use anyhow::{Context as _, Result, ensure};

/// Policy, offset of arrival, and what STP, ANTT and fairness have to be within which part of; no number for no bar.
type Bar = (&'static str, u64, [f64; 3], [f64; 3]);

const NONE: f64 = f64::NAN;
/// Serial execution with Table 3's runtimes, which the paper's FIFO approaches.
const SERIAL: [f64; 3] = [1.454, 2.972, 0.245];
const LOOSE: [f64; 3] = [0.05, 0.10, 0.15];

const BARS: &[Bar] = &[
    ("sjf", 0, [1.82, 1.13, 0.80], [0.03; 3]),
    ("ljf", 0, [1.16, NONE, NONE], [0.03; 3]),
    ("fifo-strict", 0, SERIAL, [0.05, 0.06, 0.08]),
    ("mpmax", 0, [1.37, 2.15, 0.36], LOOSE),
    ("srtf", 0, [1.59, 1.63, 0.52], LOOSE),
    ("srtf-adaptive", 0, [1.51, 1.64, 0.56], LOOSE),
    ("srtf-zero", 0, [1.64, 1.33, NONE], [0.05, 0.10, NONE]),
    ("mpmax", 25, [1.45, 2.05, 0.38], LOOSE),
    ("srtf", 25, [1.62, 1.60, 0.53], LOOSE),
    ("srtf-adaptive", 25, [1.56, 1.65, 0.56], LOOSE),
    ("mpmax", 50, [1.49, 1.93, 0.40], LOOSE),
    ("srtf", 50, [1.63, 1.56, 0.55], LOOSE),
    ("srtf-adaptive", 50, [1.59, 1.58, 0.59], LOOSE),
];

/// Policies by ANTT, best first, as the paper has them.
const ORDER: [&str; 6] = [
    "sjf",
    "srtf-zero",
    "srtf",
    "srtf-adaptive",
    "mpmax",
    "fifo-strict",
];

/// Checks the pairs, and the tables that were made of them.
///
/// # Errors
/// What is not as near to the paper as it has to be, or differs from it without a sentence that says why.
pub(super) fn check(runs: &Runs, tables: &[Figures]) -> Result<()> {
    for (policy, percent, wanted, within) in BARS {
        let means = runs.means(policy, *percent);
        for place in 0..3 {
            let (ours, wanted, within) = (means[place], wanted[place], within[place]);
            let near = wanted.is_nan() || (ours / wanted - 1.0).abs() <= within;
            ensure!(
                near,
                "{policy} at {percent} %: {ours:.3} is not within {within} of {wanted}"
            );
        }
    }
    let antt = ORDER.map(|policy| runs.means(policy, 0)[1]);
    ensure!(
        antt.is_sorted(),
        "the order by ANTT is not the paper's: {antt:?}"
    );
    let stp = ["sjf", "srtf-zero", "srtf", "srtf-adaptive", "mpmax", "ljf"];
    let stp = stp.map(|policy| -runs.means(policy, 0)[0]);
    ensure!(
        stp.is_sorted(),
        "the order by STP is not the paper's: {stp:?}"
    );
    for table in tables {
        for differs in table.differences() {
            ensure!(differs.why.is_some(), "{}: {differs:?}", table.name);
        }
    }
    let mut bridges = tables
        .iter()
        .filter(|table| table.name.starts_with("What the text derives"));
    let bridge = bridges.next().context("a table of what the text derives")?;
    let row = bridge.row("bridge from fifo-strict to sjf, in percent");
    ensure!(
        row.measured["stp"] > 25.0 && row.measured["stp"] < 100.0,
        "the bridge from fifo-strict to sjf is {row:?}"
    );
    Ok(())
}
