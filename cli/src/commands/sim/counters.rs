//! `gridmux sim counters`: what each figure that `gridmux sim kernel` prints counts.

use super::report::FIGURES;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;
use clap::Args;
use gridmux_hw_model::counters::{Counters, Legend, Rates};
use serde::Serialize;

/// Prints the legend.
#[derive(Debug, Args)]
pub(crate) struct ShowCounters;

/// The legend as JSON: figures of the run as a whole, counters, and what follows from them.
#[derive(Debug, Serialize)]
struct Report {
    figures: &'static [Legend],
    counters: Vec<Legend>,
    rates: Vec<Legend>,
}

impl ShowCounters {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let report = Report {
            figures: &FIGURES,
            counters: Counters::legend(),
            rates: Rates::legend(),
        };
        out.show(&report, || {
            let of = |what: &str, entries: &[Legend]| {
                let cells = |entry: &Legend| {
                    let cells = [entry.name, entry.unit, entry.meaning];
                    cells.map(ToOwned::to_owned).to_vec()
                };
                table::of(&[what, "unit", "meaning"], entries.iter().map(cells))
            };
            let figures = of("figure", report.figures);
            let counters = of("counter", &report.counters);
            let rates = of("rate", &report.rates);
            format!("{figures}\n\n{counters}\n\n{rates}")
        })
    }
}
