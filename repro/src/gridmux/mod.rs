//! The combined policy beside the papers': which of its terms is worth what, and which policies nothing else beats.
//!
//! [`ablation`] switches each term off in turn, [`front`] finds the policies that are not dominated, and [`mixes`] runs
//! all of them on the SM model; [`cells`] reads from the document who is best in each paper's own measures. There is no
//! paper to compare with; rows of the papers' policies stand beside.

mod ablation;
pub(crate) mod cells;
mod front;
pub(crate) mod mixes;
mod set;

use crate::context::{Context, On};
use crate::tables::Report;
use crate::world::Contender;
use crate::{accelos, srtf};
use anyhow::Result;
use gridmux_policy::policies::gridmux::Settings;
use gridmux_policy::terms::{TERMS, Term};

/// The report's name.
pub(crate) const PAPER: &str = "gridmux";

/// Returns what a row without a term is called.
fn without(term: &Term) -> String {
    match term.name {
        "hand-over" => "without switching blocks out".to_owned(),
        "guard" | "bound" => format!("without the {}", term.name),
        name => format!("without {name}"),
    }
}

/// Returns the policy as it is, and without each of its terms in turn; with `known` it has every kernel's profile.
fn line_up(known: bool) -> Vec<Contender> {
    let suffix = if known { ", profiles known" } else { "" };
    let whole = Contender::gridmux(format!("gridmux{suffix}"), Settings::default(), known);
    let row = |term: &Term| {
        let mut settings = Settings::default();
        (term.switch_off)(&mut settings);
        Contender::gridmux(
            format!("gridmux {}{suffix}", without(term)),
            settings,
            known,
        )
    };
    // Without profiles it is the policy that knows none, which has its own row.
    let terms = TERMS.iter().skip(usize::from(known));
    std::iter::once(whole).chain(terms.map(row)).collect()
}

/// Runs every experiment.
pub(crate) fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new(PAPER);
    if context.wants(On::Event) {
        let (_, pairs) = srtf::kernels()?;
        let (_, sets) = accelos::kernels()?;
        report.tables.extend(ablation::pairs(context, &pairs)?);
        report.tables.extend(ablation::sets(context, &sets)?);
        for (table, picture) in [front::pairs(context, &pairs)?, front::sets(context, &sets)?] {
            report.tables.push(table);
            report.pictures.push(picture);
        }
    }
    if context.wants(On::Model) {
        report.tables.extend(mixes::tables(context)?);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::{TERMS, without};

    #[test]
    fn rows_without_a_term_are_called_as_before() {
        let names: Vec<String> = TERMS.iter().map(without).collect();
        assert_eq!(
            names,
            [
                "without profiles",
                "without sharing",
                "without pairs",
                "without samples",
                "without switching blocks out",
                "without the guard",
                "without the bound",
            ]
        );
    }
}
