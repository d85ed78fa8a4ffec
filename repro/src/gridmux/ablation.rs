//! What each term of the combined policy is worth, on the papers' pairs and sets.

use super::line_up;
use crate::accelos::{Draw, Results, means};
use crate::context::Context;
use crate::srtf::{OFFSETS, Runs};
use crate::tables::{Figures, Row};
use crate::world::{Contender, World};
use anyhow::Result;

/// Sets of 4 and 8 that are drawn for the ablation.
const DRAWN: [(usize, usize); 2] = [(4, 1024), (8, 512)];

/// Returns a table for each offset of arrival: `srtf` and the combined policy on the 56 pairs.
pub(super) fn pairs(context: &Context, world: &World) -> Result<Vec<Figures>> {
    let mut contenders: Vec<Contender> = ["srtf", "srtf-zero"]
        .into_iter()
        .map(Contender::named)
        .collect();
    contenders.extend(line_up(false));
    contenders.extend(line_up(true));
    let runs = Runs::under(context, world, &contenders, &OFFSETS)?;
    let table = |percent: u64| {
        Figures {
        name: format!("gridmux on the 56 ERCBench pairs, the second kernel {percent} % later"),
        about: "Geometric means. `srtf` and `gridmux` know no kernel beforehand; `srtf-zero` and the rows with \
                `profiles known` know every kernel's runtime alone."
            .to_owned(),
        rows: contenders
            .iter()
            .map(|contender| {
                let means = runs.means(&contender.name, percent);
                Row::new(&contender.name, ["stp", "antt", "fairness"], [f64::NAN; 3], means)
            })
            .collect(),
        ..Figures::default()
    }
    };
    Ok(OFFSETS.into_iter().map(table).collect())
}

/// Returns a table for each size of sets: `accelos` and the combined policy against stock hardware.
pub(super) fn sets(context: &Context, world: &World) -> Result<Vec<Figures>> {
    let mut contenders: Vec<Contender> = ["fifo", "accelos"]
        .into_iter()
        .map(Contender::named)
        .collect();
    contenders.extend(line_up(false));
    contenders.extend(line_up(true).into_iter().take(1));
    let mut tables = Vec::new();
    for (size, drawn) in DRAWN {
        let draw = Draw::new(world.kernels.len(), size, drawn, context.part);
        let results = Results::of(context, world, &contenders, &draw)?;
        let row = |contender: &Contender| {
            let means = means(&draw, &results, &contender.name);
            Row::new(
                &contender.name,
                ["unfairness", "overlap", "throughput"],
                [f64::NAN; 3],
                means,
            )
        };
        tables.push(Figures {
            name: format!("gridmux on sets of {size} of our kernels"),
            about: format!(
                "Means over {} sets; throughput against `fifo`, stock hardware.",
                draw.drawn()
            ),
            rows: contenders.iter().map(row).collect(),
            ..Figures::default()
        });
    }
    Ok(tables)
}
