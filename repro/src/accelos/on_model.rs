//! A sample of sets on the SM model, where what kernels gain beside each other follows from what they do.
//!
//! Rule: kernels that take many times as long as all others are left out, because their sets would take hours.

use super::sets::Draw;
use super::tables::paper_of;
use crate::context::Context;
use crate::mixes::{Program, Went, on_model};
use crate::tables::{Figures, Note, Row};
use anyhow::{Context as _, Result};
use gridmux_workloads::by_name;

/// Policies, stock hardware first.
const POLICIES: [&str; 4] = ["fifo", "accelos", "elastic", "gridmux"];
/// Kernels of a set, and how many sets are drawn.
const SAMPLE: [(usize, usize); 3] = [(2, 32), (4, 16), (8, 8)];
/// Kernels that are left out; each takes at least six times as long as any other.
const LEFT_OUT: [&str; 3] = ["bfs", "spmv", "pointer_chase"];

const NOTES: &[Note] = &[Note {
    rows: &[],
    metrics: &[],
    why: "Our kernels on a modelled GTX 980 are not Parboil's on a K20m; what is said of the tables on `event` holds \
          here, too.",
}];

/// Runs the sample and returns its table.
pub(super) fn table(context: &Context, names: &[String]) -> Result<Figures> {
    let kept = names
        .iter()
        .filter(|name| !LEFT_OUT.contains(&name.as_str()));
    let workload = |name: &String| by_name(name).with_context(|| format!("no kernel {name}"));
    let kernels: Vec<&'static str> = kept
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
            LEFT_OUT.map(|name| format!("`{name}`")).join(", "),
        ),
        rows,
        notes: NOTES.to_vec(),
    })
}

/// Returns the means of unfairness, and of throughput against the first policy, over a draw.
fn means(draw: &Draw, went: &[Vec<Went>], place: usize) -> [f64; 2] {
    [
        draw.mean(|set| 1.0 / went[set][place].fairness),
        draw.mean(|set| went[set][place].throughput / went[set][0].throughput),
    ]
}
