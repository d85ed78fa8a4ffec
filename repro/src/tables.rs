//! Tables of measured figures beside the papers'.

use comfy_table::{Table, presets};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Everything that was repeated of one paper.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Name of the paper.
    pub(crate) paper: &'static str,
    /// Its tables.
    pub(crate) tables: Vec<Figures>,
}

/// One table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    /// What it shows.
    pub(crate) name: String,
    /// Its rows.
    pub(crate) rows: Vec<Row>,
}

/// One row: figures by metric.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) name: String,
    /// The paper's figures.
    pub(crate) paper: BTreeMap<&'static str, f64>,
    /// Ours.
    pub(crate) measured: BTreeMap<&'static str, f64>,
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
                    paper.map_or_else(|| "–".to_owned(), |paper| format!("{paper:.3}")),
                    format!("{measured:.3}"),
                    paper.map_or_else(String::new, |paper| format!("{:.3}", measured / paper)),
                ]);
            }
        }
        write!(out, "{table}")
    }
}
