//! Each paper's measures in its own reproduction: the best of its policies that can be had, beside `gridmux`.
//!
//! A cell is a measure of a paper. Its figures are those of the paper's tables in `docs/reproduction.md`, which need
//! hours of runs on the SM model, so that the table of cells says nothing that the document does not show.
//!
//! Kernelet has no cells: its schedules are replayed from co-runs of two kernels, in which no other policy can run.

use crate::document::Document;
use crate::tables::{Figures, Row};
use anyhow::{Context as _, Result};
use gridmux_policy::policies::gridmux::NAME;

/// Which of two figures is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Higher,
    Lower,
}

/// A measure of a paper.
struct Cell {
    /// The paper and its measure.
    name: &'static str,
    /// Part of the document and table where the figures are, and metric.
    section: &'static str,
    table: &'static str,
    metric: &'static str,
    better: Better,
    /// In front of the names of policies in the table's rows.
    prefix: &'static str,
    /// The paper's policies; those that know runtimes beforehand are left out.
    policies: &'static [&'static str],
    /// Why `gridmux` loses where it does.
    loss: &'static str,
}

const SRTF: Cell = Cell {
    name: "SRTF: STP",
    section: "gridmux",
    table: "Every policy on the 56 ERCBench pairs",
    metric: "stp",
    better: Better::Higher,
    prefix: "",
    policies: &["srtf", "srtf-adaptive"],
    loss: "It gives blocks of the longer kernel time that SRTF gives to none.",
};
const ACCELOS: Cell = Cell {
    name: "accelOS: unfairness",
    section: "accelos",
    table: "Sets of 4 kernels that start together (sections 8.1 to 8.3)",
    metric: "unfairness",
    better: Better::Lower,
    prefix: "",
    policies: &["accelos"],
    loss: "Of kernels that wait for DRAM it runs one after the other, and moves the blocks of longer ones out of the \
           way of shorter ones, so that fewer complement each other than under accelOS, which gives every kernel a \
           part and waits for the ends of blocks: the overlaps of the same table, and the ablation's `without \
           switching blocks out`.",
};
const SMK: Cell = Cell {
    name: "SMK: STP",
    section: "smk",
    table: "SMK's policies on 45 pairs (Figure 10, Table 3)",
    metric: "stp",
    better: Better::Higher,
    prefix: "all, ",
    policies: &["smk", "smk-p-strict", "smk-pw"],
    loss: "Of two kernels that move many bytes for an instruction it lets the shorter launch end first, again and \
           again, and SMK's measures count what both have issued by the end. It takes `matmul` and `histogram` for \
           such kernels, too, whose first instructions find the caches cold or full of the other kernel's data.",
};
const WARPED_SLICER: Cell = Cell {
    name: "Warped-Slicer: IPC",
    section: "warped-slicer",
    table: "Pairs under each policy: all pairs (Figures 6 and 9)",
    metric: "ipc",
    better: Better::Higher,
    prefix: "",
    policies: &["warped-slicer"],
    loss: "Two kernels that wait for DRAM run one after the other, so that both are done hardly sooner than under \
           left-over, which is `fifo` in the same table; and equal parts are not the best ones: see the oracle's.",
};

const CELLS: [Cell; 10] = [
    SRTF,
    Cell {
        name: "SRTF: ANTT",
        metric: "antt",
        better: Better::Lower,
        ..SRTF
    },
    Cell {
        name: "SRTF: fairness",
        metric: "fairness",
        ..SRTF
    },
    ACCELOS,
    Cell {
        name: "accelOS: throughput",
        metric: "throughput",
        better: Better::Higher,
        ..ACCELOS
    },
    SMK,
    Cell {
        name: "SMK: fairness",
        metric: "fairness",
        ..SMK
    },
    Cell {
        name: "SMK: STP of C+M",
        prefix: "C+M, ",
        ..SMK
    },
    WARPED_SLICER,
    Cell {
        name: "Warped-Slicer: least speedup",
        metric: "least_speedup",
        ..WARPED_SLICER
    },
];

/// Returns the table of cells by what the document says.
///
/// # Errors
/// The document lacks a figure.
pub(crate) fn table(document: &Document<'_>) -> Result<Figures> {
    let rows = CELLS.iter().map(|cell| row(cell, document));
    let rows = rows.collect::<Result<Vec<Row>>>()?;
    let lost = CELLS
        .iter()
        .zip(&rows)
        .filter(|(_, row)| row.measured["wins"] < 0.5);
    let mut losses: Vec<(&str, Vec<&str>)> = Vec::new();
    for (cell, _) in lost {
        match losses.last_mut() {
            Some((loss, names)) if *loss == cell.loss => names.push(cell.name),
            _ => losses.push((cell.loss, vec![cell.name])),
        }
    }
    let losses = losses
        .iter()
        .map(|(loss, names)| format!(" It loses {}. {loss}", names.join(", ")));
    Ok(Figures {
        name: "Each paper's measures: its best policy and gridmux".to_owned(),
        about: "In the paper's own experiments above; `papers_best` is the best of the paper's policies that know \
                nothing beforehand, `wins` is 1 where `gridmux` is at least as good to three places. Unfairness and \
                ANTT are better where they are lower. Kernelet's schedules are replayed from co-runs of two kernels, \
                in which no other policy can run."
            .to_owned()
            + &losses.collect::<String>(),
        rows,
        ..Figures::default()
    })
}

/// Returns a cell's row.
fn row(cell: &Cell, document: &Document<'_>) -> Result<Row> {
    let of = |policy: &str| {
        let row = format!("{}{policy}", cell.prefix);
        let figure = document.figure(cell.section, cell.table, &row, cell.metric);
        figure.with_context(|| {
            format!(
                "docs/reproduction.md has no {} of {row:?} in {:?}; \
                 `cargo xtask repro {} --write` makes it",
                cell.metric, cell.table, cell.section
            )
        })
    };
    let best = |one: f64, other: f64| match cell.better {
        Better::Higher => one.max(other),
        Better::Lower => one.min(other),
    };
    let papers = cell.policies.iter().map(|policy| of(policy));
    let papers: Vec<f64> = papers.collect::<Result<_>>()?;
    let paper = papers.into_iter().reduce(best).context("no policies")?;
    let ours = of(NAME)?;
    let wins = best(ours, paper) == ours;
    let metrics = ["gridmux", "papers_best", "wins"];
    let figures = [ours, paper, f64::from(u8::from(wins))];
    Ok(Row::new(cell.name, metrics, [f64::NAN; 3], figures))
}

#[cfg(test)]
mod tests {
    use super::{Better, CELLS, table};
    use crate::document::{Document, document};
    use crate::tables::{Figures, Report, Row};

    #[test]
    fn more_wins_where_higher_is_better_and_less_where_lower_is() {
        for cell in CELLS {
            for (ours, theirs) in [(2.0, 1.0), (1.0, 2.0), (1.0, 1.0)] {
                let row = Row::one(
                    format!("{}{}", cell.prefix, super::NAME),
                    cell.metric,
                    None,
                    ours,
                );
                let papers = cell.policies.iter().map(|policy| {
                    Row::one(
                        format!("{}{policy}", cell.prefix),
                        cell.metric,
                        None,
                        theirs,
                    )
                });
                let text = document(&[Report {
                    tables: vec![Figures {
                        name: cell.table.to_owned(),
                        rows: papers.chain([row]).collect(),
                        ..Figures::default()
                    }],
                    ..Report::new(cell.section)
                }]);
                let row = super::row(&cell, &Document(&text)).expect("figures");
                let wins = match cell.better {
                    Better::Higher => ours >= theirs,
                    Better::Lower => ours <= theirs,
                };
                assert_eq!(row.measured["wins"] > 0.5, wins, "{}", cell.name);
            }
        }
    }

    #[test]
    fn a_figure_that_is_missing_is_named() {
        let error = table(&Document("# Reproduction\n")).expect_err("no figures");
        let error = error.to_string();
        assert!(
            error.contains("srtf") && error.contains("56 ERCBench pairs"),
            "{error}"
        );
    }
}
