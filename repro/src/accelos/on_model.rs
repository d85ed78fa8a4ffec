//! A sample of sets on the SM model, where what kernels gain beside each other follows from what they do.
//!
//! Rule: kernels that take many times as long as all others ([`LONG`]) are left out, because their sets would take
//! hours.

use super::sets::Draw;
use super::tables::paper_of;
use super::{POLICIES, SIZE};
use crate::context::Context;
use crate::mixes::{LONG, Program, Went, on_model};
use crate::tables::{Figures, Note, Row};
use anyhow::{Context as _, Result};
use gridmux_mix::event::measured_kernels;
use gridmux_workloads::by_name;

/// Kernels of a set, and how many sets are drawn.
const SAMPLE: [(usize, usize); 3] = [(2, 32), (4, 16), (8, 8)];

const NOTES: &[Note] = &[Note {
    rows: &[],
    metrics: &[],
    why: "Our kernels on a modelled GTX 980 are not Parboil's on a K20m; what follows from which difference is not \
          tested.",
}];

/// Runs the sample and returns its table.
pub(super) fn table(context: &Context) -> Result<Figures> {
    let measured = measured_kernels(SIZE);
    let names = measured.iter().map(|kernel| kernel.name.as_str());
    let workload = |name: &str| by_name(name).with_context(|| format!("no kernel {name}"));
    let kernels: Vec<&'static str> = names
        .filter(|name| !LONG.contains(name))
        .map(|name| Ok(workload(name)?.name))
        .collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for (size, drawn) in SAMPLE {
        let draw = Draw::new(kernels.len(), size, drawn, 1.0);
        let program = |kernel: &usize| (kernels[*kernel], 1);
        let sets = draw.sets.iter().map(|(set, _)| set.iter().map(program));
        let sets: Vec<Vec<Program>> = sets.map(Iterator::collect).collect();
        let sets: Vec<&[Program]> = sets.iter().map(Vec::as_slice).collect();
        let went = on_model(context, &sets, &POLICIES)?;
        rows.extend((0..).zip(POLICIES).map(|(place, policy)| {
            let [unfairness, _, throughput] = paper_of(&draw, policy);
            let name = format!("{policy}, sets of {size}");
            let told = [unfairness, throughput];
            Row::new(
                name,
                ["unfairness", "throughput"],
                told,
                means(&draw, &went, place),
            )
        }));
    }
    Ok(Figures {
        name: "A sample of sets on the SM model".to_owned(),
        about: format!(
            "Means over {} on 4 SMs of a `gtx980`, each kernel launched once; throughput against `fifo`. {} are left \
             out.",
            SAMPLE
                .map(|(size, drawn)| format!("{drawn} sets of {size}"))
                .join(", "),
            LONG.map(|name| format!("`{name}`")).join(", "),
        ),
        rows,
        notes: NOTES.to_vec(),
    })
}

/// Returns the means over a draw of unfairness, which is one over fairness, and of throughput against stock hardware.
fn means(draw: &Draw, went: &[Vec<Went>], place: usize) -> [f64; 2] {
    [
        draw.mean(|set| 1.0 / went[set][place].fairness),
        draw.mean(|set| went[set][place].throughput / went[set][0].throughput),
    ]
}
