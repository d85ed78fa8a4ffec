//! Figure 2: four kernels together. The paper's `tpacf` is none of ours; `histogram`, its inner part, stands for it.

use super::sets::one;
use crate::tables::{Figures, Note, Row};
use crate::world::{Contender, World};
use anyhow::{Context, Result};

const KERNELS: [&str; 4] = ["bfs", "cutcp", "stencil3d", "histogram"];

/// Returns the table.
pub(super) fn table(world: &World, names: &[String]) -> Result<Figures> {
    let place = |name: &&str| {
        let found = names.iter().position(|other| other == name);
        found.with_context(|| format!("no kernel is named {name}"))
    };
    let set: Vec<usize> = KERNELS.iter().map(place).collect::<Result<_>>()?;
    let stock = one(world, &Contender::named("fifo"), &set)?;
    let metrics = ["unfairness", "throughput"];
    let mut rows = Vec::new();
    for (policy, paper) in [("accelos", [5.79, 1.31]), ("elastic", [f64::NAN, 1.14])] {
        let made = one(world, &Contender::named(policy), &set)?;
        let ours = [
            stock.unfairness / made.unfairness,
            stock.makespan / made.makespan,
        ];
        rows.push(Row::new(
            format!("{policy} over fifo"),
            metrics,
            paper,
            ours,
        ));
    }
    Ok(Figures {
        name: "bfs, cutcp, stencil and histogram together (Figure 2)".to_owned(),
        about: "How many times less unfair and faster than stock hardware; the paper has tpacf for histogram."
            .to_owned(),
        rows,
        notes: vec![Note {
            rows: &[],
            metrics: &[],
            why: "One set of kernels that are not the paper's, in sizes that are not the paper's.",
        }],
    })
}
