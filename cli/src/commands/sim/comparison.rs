//! Runs of one kernel on several GPUs or in several forms, beside each other.
//!
//! Rules: a run that fails has a row, too, and makes the command fail when all have been made; values with a comma, a
//! quote or a line break are quoted (RFC 4180).

use super::report::Report;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::table;
use gridmux_hw_model::counters::{Counters, Rates};
use gridmux_ptx::forms::Form;
use serde::Serialize;

/// A run, as it ended.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Row {
    /// It did.
    Ended(Box<Report>),
    /// It failed.
    Failed {
        gpu: String,
        form: Form,
        error: String,
    },
}

impl Row {
    pub(super) fn new(gpu: &str, form: Form, run: Result<Report, Failure>) -> Self {
        match run {
            Ok(report) => Self::Ended(Box::new(report)),
            Err(failure) => Self::Failed {
                gpu: gpu.to_owned(),
                form,
                error: failure.line(),
            },
        }
    }

    fn cells(&self) -> Vec<String> {
        match self {
            Self::Ended(report) => cells(report),
            Self::Failed { gpu, form, .. } => {
                let mut cells = vec![gpu.clone(), form.name().to_owned()];
                cells.resize(HEADINGS.len(), "-".to_owned());
                cells
            }
        }
    }

    fn values(&self) -> Vec<String> {
        match self {
            Self::Ended(report) => values(report),
            Self::Failed { gpu, form, error } => {
                let mut values = vec![gpu.clone(), form.name().to_owned()];
                values.resize(columns().len() - 1, String::new());
                values.push(error.clone());
                values
            }
        }
    }
}

const HEADINGS: [&str; 9] = [
    "gpu",
    "form",
    "cycles",
    "latency",
    "ipc/sm",
    "occ %",
    "l1 %",
    "l2 %",
    "dram gb/s",
];

fn cells(report: &Report) -> Vec<String> {
    let cycles = |cycles: Option<u64>| cycles.map(|cycles| cycles.to_string());
    let rates = report.rates.as_ref();
    let rate = |name: &str| rates.and_then(|rates| rates.get(name)).copied();
    let percent = |name: &str| rate(name).map(|rate| format!("{:.1}", 100.0 * rate));
    let figures = [
        cycles(report.kernel_cycles),
        cycles(report.launch_latency_cycles),
        rate("ipc_per_sm").map(|ipc| format!("{ipc:.3}")),
        percent("occupancy"),
        percent("l1_hit_rate"),
        percent("l2_hit_rate"),
        rate("dram_gigabytes_per_second").map(|rate| format!("{rate:.1}")),
    ];
    let mut cells = vec![report.gpu.clone(), report.form.name().to_owned()];
    cells.extend(figures.map(|figure| figure.unwrap_or_else(|| "-".to_owned())));
    cells
}

/// Returns the names of the values of a line.
fn columns() -> Vec<&'static str> {
    let begin = [
        "gpu",
        "form",
        "kernel_cycles",
        "kernel_ns",
        "launch_latency_cycles",
        "launch_latency_ns",
        "cycles",
        "device_ns",
        "launches",
        "cpu_seconds",
    ];
    let legends = Rates::legend().into_iter().chain(Counters::legend());
    let figures = legends.map(|figure| figure.name);
    begin.into_iter().chain(figures).chain(["error"]).collect()
}

fn values(report: &Report) -> Vec<String> {
    let times = [
        report.kernel_cycles,
        report.kernel_ns,
        report.launch_latency_cycles,
        report.launch_latency_ns,
        report.cycles,
        report.device_ns,
        Some(report.slices),
    ];
    let text = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let mut values = vec![report.gpu.clone(), report.form.name().to_owned()];
    values.extend(times.map(text));
    values.push(report.cpu_seconds.to_string());
    for rate in Rates::legend() {
        let found = report.rates.as_ref().and_then(|rates| rates.get(rate.name));
        values.push(found.map_or_else(String::new, f64::to_string));
    }
    for counter in Counters::legend() {
        values.push(text(report.counters.get(counter.name).copied().flatten()));
    }
    values.push(String::new());
    values
}

/// Returns a line of comma-separated values.
fn line<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |value: &str| match value.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.to_owned(),
    };
    let values: Vec<String> = values.into_iter().map(quoted).collect();
    values.join(",") + "\n"
}

/// Prints the runs as a table, as JSON or as comma-separated values.
///
/// # Errors
/// A run failed; its row, or a line on stderr, says why.
pub(super) fn show(rows: Vec<Row>, csv: bool, out: &Output) -> Result<(), Failure> {
    if csv {
        let mut text = line(columns());
        for row in &rows {
            text.push_str(&line(row.values().iter().map(String::as_str)));
        }
        out.text(&text)?;
    } else {
        out.show(&rows, || table::of(&HEADINGS, rows.iter().map(Row::cells)))?;
    }
    let mut failed = false;
    for row in &rows {
        if let Row::Failed { gpu, form, error } = row {
            failed = true;
            if !out.is_json() {
                note(&format!("error: {gpu}, {form}: {error}"));
            }
        }
    }
    match failed {
        true => Err(Failure::reported()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn values_that_would_break_a_line_are_quoted() {
        assert_eq!(line(["a", "1", ""]), "a,1,\n");
        assert_eq!(
            line(["h200,x=1", "say \"no\"", "a\nb"]),
            "\"h200,x=1\",\"say \"\"no\"\"\",\"a\nb\"\n"
        );
    }
}
