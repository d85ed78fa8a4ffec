//! SMK: pairs of kernels in closed loops on the SM model, under the paper's policies and what it compares them with.
//!
//! [`pairs`] runs them, [`tables`] sets them beside Figures 10 to 13, Table 3 and section 6.5.
//!
//! Rules: kernels are chosen for what the paper's are, one by one, before any pair has run; every pair of them counts.

mod pairs;
mod tables;

use crate::context::{Context, On};
use crate::tables::Report;
use anyhow::Result;
use pairs::Pairs;

/// Runs every experiment.
pub(crate) fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("smk");
    if context.wants(On::Model) {
        let pairs = Pairs::of(context)?;
        report.tables.extend(tables::all(&pairs));
        report.pictures.extend(tables::pictures(&pairs));
    }
    Ok(report)
}
