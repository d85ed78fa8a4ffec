//! Figure 1: STP under SJF, FIFO and LJF of the 28 pairs whose kernels come in alphabetical order (section 2).

use super::pairs::{Pair, Runs, mean};
use crate::picture::{Picture, Series, curves};
use crate::tables::{Figures, Note, Row};

/// SJF and LJF are alike within this part.
const ALIKE: f64 = 0.02;

const NOTES: &[Note] = &[Note {
    rows: &[],
    metrics: &["pairs"],
    why: "Which of two kernels is the shorter follows from Table 3, but AES-d and AES-e, JPEG-d and JPEG-e, and \
          RayTracing and SAD are within 6 % of each other, so that the policies differ by less than drawn durations \
          do.",
}];

/// Returns the table and the picture.
pub(super) fn table(runs: &Runs) -> (Figures, Picture) {
    let alphabetical = |policy: &str| -> Vec<Pair> {
        let pairs = runs.get(policy, 0).iter();
        pairs
            .filter(|pair| pair.kernels[0] < pair.kernels[1])
            .cloned()
            .collect()
    };
    let policies = ["sjf", "fifo-strict", "ljf"];
    let [sjf, fifo, ljf] = policies.map(alphabetical);
    let apart = |one: &Pair, other: &Pair| (one.stp() / other.stp()).ln().abs();
    let count = |holds: &dyn Fn(usize) -> bool| {
        let pairs = u32::try_from((0..fifo.len()).filter(|at| holds(*at)).count());
        f64::from(pairs.unwrap_or(u32::MAX))
    };
    let neither = |at: usize| apart(&sjf[at], &ljf[at]) <= ALIKE;
    let is_nearer_to_sjf = |at: usize| apart(&fifo[at], &sjf[at]) < apart(&fifo[at], &ljf[at]);
    let as_sjf = count(&|at| is_nearer_to_sjf(at) && !neither(at));
    let as_ljf = count(&|at| !is_nearer_to_sjf(at) && !neither(at));
    let means = [&sjf, &fifo, &ljf].map(|pairs| mean(pairs, Pair::stp));
    let rows = vec![
        Row::one("sjf", "stp", Some(1.82), means[0]),
        Row::one("fifo-strict", "stp", Some(1.58), means[1]),
        Row::one("ljf", "stp", Some(1.16), means[2]),
        Row::one("fifo-strict is as sjf", "pairs", Some(17.0), as_sjf),
        Row::one("fifo-strict is as ljf", "pairs", Some(8.0), as_ljf),
        Row::one("sjf and ljf are alike", "pairs", Some(3.0), count(&neither)),
    ];
    let series = policies
        .into_iter()
        .zip([&sjf, &fifo, &ljf])
        .map(|(name, pairs)| Series {
            name: name.to_owned(),
            values: (0_u32..)
                .map(f64::from)
                .zip(pairs.iter().map(Pair::stp))
                .collect(),
        });
    let picture = Picture {
        title: "Figure 1: STP of the 28 alphabetical pairs".to_owned(),
        svg: curves(("pair", "STP"), &series.collect::<Vec<_>>()),
    };
    let table = Figures {
        name: "28 pairs in alphabetical order (Figure 1)".to_owned(),
        about: "FIFO counts as what it is nearer to; SJF and LJF are alike within 2 %.".to_owned(),
        rows,
        notes: NOTES.to_vec(),
    };
    (table, picture)
}
