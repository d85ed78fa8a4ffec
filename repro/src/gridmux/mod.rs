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
use gridmux_policy::plan::Preemption;
use gridmux_policy::policies::gridmux::Settings;

/// The report's name.
pub(crate) const PAPER: &str = "gridmux";

/// A term's name and how it is switched off.
type Term = (&'static str, fn(&mut Settings));

/// Every term of the policy that can be switched off; that of profiles is the first.
const TERMS: [Term; 7] = [
    ("without profiles", |settings| {
        settings.uses_profiles = false
    }),
    ("without sharing", |settings| {
        settings.share_within = 0.0;
        settings.pairs = false;
    }),
    ("without pairs", |settings| settings.pairs = false),
    ("without samples", |settings| settings.samples = 0),
    ("without switching blocks out", |settings| {
        settings.hand_over = Preemption::None
    }),
    ("without the guard", |settings| settings.guard = None),
    ("without the bound", |settings| settings.bound = None),
];

/// Returns the policy as it is, and without each of its terms in turn; with `known` it has every kernel's profile.
fn line_up(known: bool) -> Vec<Contender> {
    let suffix = if known { ", profiles known" } else { "" };
    let whole = Contender::gridmux(format!("gridmux{suffix}"), Settings::default(), known);
    let without = |(name, switch_off): &Term| {
        let mut settings = Settings::default();
        switch_off(&mut settings);
        Contender::gridmux(format!("gridmux {name}{suffix}"), settings, known)
    };
    // Without profiles it is the policy that knows none, which has its own row.
    let terms = TERMS.iter().skip(usize::from(known));
    std::iter::once(whole).chain(terms.map(without)).collect()
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
    use super::TERMS;
    use gridmux_policy::plan::Preemption;
    use gridmux_policy::policies::gridmux::Settings;

    #[test]
    fn every_term_of_the_policy_is_switched_off_by_a_row_of_its_own() {
        // A setting that is new is missed here first.
        let named = |settings: &Settings| {
            let Settings {
                profiles: _,
                uses_profiles,
                share_within,
                pairs,
                samples,
                hand_over,
                guard,
                bound,
            } = settings;
            [
                !uses_profiles,
                *share_within == 0.0,
                !pairs,
                *samples == 0,
                *hand_over == Preemption::None,
                guard.is_none(),
                bound.is_none(),
            ]
        };
        assert_eq!(named(&Settings::default()), [false; 7]);
        let mut off = [false; 7];
        for (name, switch_off) in TERMS {
            let mut settings = Settings::default();
            switch_off(&mut settings);
            let own = named(&settings);
            assert!(own.contains(&true), "{name} switches nothing off");
            off = [0, 1, 2, 3, 4, 5, 6].map(|term| off[term] || own[term]);
            let shares = [own[1], own[2]];
            match name {
                "without sharing" => assert_eq!(shares, [true; 2], "nobody shares"),
                "without pairs" => assert_eq!(shares, [false, true]),
                _ => assert_eq!(shares, [false; 2], "{name}"),
            }
        }
        assert_eq!(off, [true; 7]);
    }
}
