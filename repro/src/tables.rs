//! Tables of measured figures beside the papers'.
//!
//! Rule: a figure that differs from the paper's by more than [`TOLERANCE`] has a sentence that says why, as far as that
//! is known ([`Note`]); sentences stand beside the experiment.

use crate::picture::Picture;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Relative difference beyond which a figure needs a sentence.
const TOLERANCE: f64 = 0.05;

/// Figures by metric.
pub(crate) type Metrics = BTreeMap<&'static str, f64>;

/// Everything that was repeated of one paper.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Name of the paper.
    pub(crate) paper: &'static str,
    /// Its tables.
    pub(crate) tables: Vec<Figures>,
    /// Pictures beside those that every table gets.
    #[serde(skip)]
    pub(crate) pictures: Vec<Picture>,
}

impl Report {
    /// Returns a report without tables.
    pub(crate) fn new(paper: &'static str) -> Self {
        Self {
            paper,
            tables: Vec::new(),
            pictures: Vec::new(),
        }
    }
}

/// One table.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// What it shows.
    pub(crate) name: String,
    /// How it was made, where the name does not say all.
    pub(crate) about: String,
    /// Its rows.
    pub(crate) rows: Vec<Row>,
    /// Why figures differ.
    pub(crate) notes: Vec<Note>,
}

/// One row: figures by metric.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) name: String,
    /// The paper's figures.
    pub(crate) paper: Metrics,
    /// Ours.
    pub(crate) measured: Metrics,
}

/// Why figures differ from the paper's.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Note {
    /// Rows that it is about; none for all.
    pub(crate) rows: &'static [&'static str],
    /// Metrics that it is about; none for all.
    pub(crate) metrics: &'static [&'static str],
    /// The sentence.
    pub(crate) why: &'static str,
}

/// A figure that differs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference<'a> {
    /// The row.
    pub(crate) row: &'a str,
    /// The metric.
    pub(crate) metric: &'static str,
    /// Ours over the paper's.
    pub(crate) ratio: f64,
    /// The first note about it.
    pub(crate) why: Option<&'static str>,
}

impl Row {
    /// Returns a row of figures in the order of metrics; those of the paper that are no number are left out.
    pub(crate) fn new<const N: usize>(
        name: impl Into<String>,
        metrics: [&'static str; N],
        paper: [f64; N],
        measured: [f64; N],
    ) -> Self {
        let told = metrics.into_iter().zip(paper);
        Self {
            name: name.into(),
            paper: told.filter(|(_, figure)| !figure.is_nan()).collect(),
            measured: metrics.into_iter().zip(measured).collect(),
        }
    }

    /// Returns a row with one figure, which the paper may not have.
    pub(crate) fn one(
        name: impl Into<String>,
        metric: &'static str,
        paper: Option<f64>,
        measured: f64,
    ) -> Self {
        Self::new(name, [metric], [paper.unwrap_or(f64::NAN)], [measured])
    }

    /// Returns a figure over the paper's; none where the paper has none, or zero.
    pub(crate) fn ratio(&self, metric: &str) -> Option<f64> {
        let paper = self.paper.get(metric).filter(|paper| **paper != 0.0)?;
        Some(self.measured.get(metric)? / paper)
    }
}

impl Figures {
    /// Returns the metrics of all rows, in order of name.
    pub(crate) fn metrics(&self) -> Vec<&'static str> {
        let all = self
            .rows
            .iter()
            .flat_map(|row| row.measured.keys().copied());
        let mut all: Vec<&'static str> = all.collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the row of a name.
    pub(crate) fn row(&self, name: &str) -> &Row {
        let row = self.rows.iter().find(|row| row.name == name);
        row.unwrap_or_else(|| panic!("{}: no row {name}", self.name))
    }

    /// Returns the figures that differ by more than the tolerance, each with the first note about it.
    pub(crate) fn differences(&self) -> Vec<Difference<'_>> {
        let mut found = Vec::new();
        for row in &self.rows {
            for metric in row.measured.keys().copied() {
                let Some(ratio) = row.ratio(metric) else {
                    continue;
                };
                if (ratio - 1.0).abs() <= TOLERANCE {
                    continue;
                }
                let about = |all: &[&str], one: &str| all.is_empty() || all.contains(&one);
                let note = self
                    .notes
                    .iter()
                    .find(|note| about(note.rows, &row.name) && about(note.metrics, metric));
                found.push(Difference {
                    row: &row.name,
                    metric,
                    ratio,
                    why: note.map(|note| note.why),
                });
            }
        }
        found
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(out, "{}\n{table}\n", table.name)?;
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["", "metric", "paper", "measured", "ratio"]);
        for row in &self.rows {
            for (metric, measured) in &row.measured {
                let paper = row.paper.get(metric);
                table.add_row([
                    row.name.clone(),
                    (*metric).to_owned(),
                    paper.map_or_else(|| "–".to_owned(), |paper| number(*paper)),
                    number(*measured),
                    row.ratio(metric)
                        .map_or_else(String::new, |ratio| format!("{ratio:.3}")),
                ]);
            }
        }
        write!(out, "{table}")
    }
}

/// Returns a figure as text: whole where it is large, else with three places.
pub(crate) fn number(figure: f64) -> String {
    match figure.abs() >= 1000.0 {
        true => format!("{figure:.0}"),
        false => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, Note, Row, number};

    #[test]
    fn figures_that_differ_get_the_first_note_about_them() {
        let table = Figures {
            name: "two".to_owned(),
            rows: vec![
                Row::new("near", ["antt", "stp"], [2.0, f64::NAN], [2.08, 9.0]),
                Row::new("far", ["antt", "stp"], [2.0, 0.0], [2.2, 1.0]),
                Row::one("alone", "stp", Some(1.0), 0.9),
            ],
            notes: vec![Note {
                rows: &["far"],
                metrics: &["antt"],
                why: "because",
            }],
            ..Figures::default()
        };
        let found = table.differences();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].row, found[0].why), ("far", Some("because")));
        assert_eq!((found[1].row, found[1].why), ("alone", None));
        assert_eq!(table.metrics(), ["antt", "stp"]);
    }

    #[test]
    fn the_text_has_paper_measured_and_ratio() {
        let table = Figures {
            rows: vec![
                Row::one("fifo", "stp", Some(1.5), 1.2),
                Row::one("new", "stp", None, 1.0),
            ],
            ..Figures::default()
        };
        let text = table.to_string();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["fifo", "stp", "1.500", "1.200", "0.800"]);
        assert_eq!(lines[2], ["new", "stp", "–", "1.000"]);
        assert_eq!(number(12_345.6), "12346");
    }
}
