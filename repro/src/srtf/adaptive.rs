//! What SRTF/Adaptive counts as a slowdown, and what that makes of the pairs (section 5.1.2).
//!
//! The paper's text leaves two things open: whether a kernel that has waited for its sample is slower by that, and what
//! follows from the slowdowns of the shared mode (Figure 13), which are watched. Each is a row.

use super::pairs::{Pair, Runs};
use crate::context::Context;
use crate::tables::{Figures, Note, Row};
use crate::world::{Contender, World};
use anyhow::Result;
use gridmux_policy::policies::srtf::Settings;

/// Name, whether waiting counts, and whether kernels share only where that is fairer.
const VARIANTS: [(&str, bool, bool); 4] = [
    (
        "what kernels have run counts, as in srtf-adaptive",
        false,
        false,
    ),
    ("the same, and only where sharing is fairer", false, true),
    ("what kernels have waited counts as well", true, false),
    (
        "the same again, and only where sharing is fairer",
        true,
        true,
    ),
];

const NOTES: &[Note] = &[Note {
    rows: &[],
    metrics: &[],
    why: "Which of these the paper's implementation does is not known. Where waiting counts, short kernels share too \
          that have waited behind long blocks, and get three blocks on an SM then instead of all.",
}];

/// Returns the pairs that start together under each variant.
pub(super) fn table(context: &Context, world: &World) -> Result<Figures> {
    let contenders = VARIANTS.map(|(name, waiting_counts, compares)| {
        let settings = Settings {
            share_beyond: Some(super::text::SHARE_BEYOND),
            waiting_counts,
            compares,
            ..Settings::default()
        };
        Contender::srtf(name, settings)
    });
    let runs = Runs::under(context, world, &contenders, &[0])?;
    let row = |contender: &Contender| {
        let shares = runs
            .get(&contender.name, 0)
            .iter()
            .filter(|pair: &&Pair| pair.shares);
        let [stp, antt, fairness] = runs.means(&contender.name, 0);
        let metrics = ["stp", "antt", "fairness", "pairs"];
        let ours = [stp, antt, fairness, shares.count() as f64];
        Row::new(&contender.name, metrics, [1.51, 1.64, 0.56, 35.0], ours)
    };
    Ok(Figures {
        name: "What SRTF/Adaptive counts as a slowdown (section 5.1.2)".to_owned(),
        about: "Geometric means over the 56 pairs that start together, and how many of these share. In every row \
                runtimes alone are predicted from the exclusive part of a run, as in the paper."
            .to_owned(),
        rows: contenders.iter().map(row).collect(),
        notes: NOTES.to_vec(),
    })
}
