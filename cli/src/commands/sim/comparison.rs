//! Runs of one kernel on several GPUs or in several forms, beside each other.
//!
//! Rules: a run that fails has a row, too, and makes the command fail when all have been made; comma-separated values
//! have the names of the JSON.

use super::report::Report;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::table;
use gridmux_hw_model::counters::{Counters, Rates};
use gridmux_ptx::forms::Form;
use serde::Serialize;

/// A run of a kernel on a GPU in a form.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Row {
    /// It ended, with this report.
    Ended(Box<Report>),
    /// It failed, for the reason given.
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

    /// Returns whether the run failed, and says so to people.
    fn tell(&self, out: &Output) -> bool {
        let Self::Failed { gpu, form, error } = self else {
            return false;
        };
        if !out.is_json() {
            note(&format!("error: {gpu}, {form}: {error}"));
        }
        true
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

const HEADINGS: [&str; 10] = [
    "gpu",
    "form",
    "cycles",
    "us",
    "launch us",
    "ipc/sm",
    "occ %",
    "l1 %",
    "l2 %",
    "gb/s",
];

fn cells(report: &Report) -> Vec<String> {
    let cycles = |cycles: Option<u64>| cycles.map(|cycles| cycles.to_string());
    let rates = report.rates.as_ref();
    let rate = |name: &str| rates.and_then(|rates| rates.get(name)).copied();
    let percent = |name: &str| rate(name).map(|rate| format!("{:.1}", 100.0 * rate));
    let us = |ns: Option<u64>| ns.map(|ns| format!("{:.1}", ns as f64 / 1000.0));
    let figures = [
        cycles(report.kernel_cycles),
        us(report.kernel_ns),
        us(report.launch_latency_ns),
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

/// A figure of a run: its name, and its value as text.
type Column = (&'static str, fn(&Report) -> String);

/// What stands before rates and counters in a line of comma-separated values, under the names of the JSON.
const COLUMNS: [Column; 10] = [
    ("gpu", |report| report.gpu.clone()),
    ("form", |report| report.form.name().to_owned()),
    ("kernel_cycles", |report| number(report.kernel_cycles)),
    ("kernel_ns", |report| number(report.kernel_ns)),
    ("launch_latency_cycles", |report| {
        number(report.launch_latency_cycles)
    }),
    ("launch_latency_ns", |report| {
        number(report.launch_latency_ns)
    }),
    ("cycles", |report| number(report.cycles)),
    ("device_ns", |report| number(report.device_ns)),
    ("slices", |report| report.slices.to_string()),
    ("cpu_seconds", |report| report.cpu_seconds.to_string()),
];

fn number(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// Returns the names of the values of a line.
fn columns() -> Vec<&'static str> {
    let begin = COLUMNS.iter().map(|(name, _)| *name);
    let legends = Rates::legend().into_iter().chain(Counters::legend());
    let figures = legends.map(|figure| figure.name);
    begin.chain(figures).chain(["error"]).collect()
}

fn values(report: &Report) -> Vec<String> {
    let mut values: Vec<String> = COLUMNS.iter().map(|(_, value)| value(report)).collect();
    for rate in Rates::legend() {
        let found = report.rates.as_ref().and_then(|rates| rates.get(rate.name));
        values.push(found.map_or_else(String::new, f64::to_string));
    }
    for counter in Counters::legend() {
        values.push(number(report.counters.get(counter.name).copied().flatten()));
    }
    values.push(String::new());
    values
}

/// Returns a line of comma-separated values.
fn separated(values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<String, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(values)?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Prints runs as comma-separated values, each when it has ended, under a line of their names.
///
/// # Errors
/// As [`show`].
pub(super) fn show_separated(rows: impl Iterator<Item = Row>, out: &Output) -> Result<(), Failure> {
    out.text(&separated(columns())?)?;
    let mut failed = false;
    for row in rows {
        out.text(&separated(row.values())?)?;
        failed |= row.tell(out);
    }
    conclude(failed)
}

/// Prints the runs as a table or as JSON.
///
/// # Errors
/// A run failed; its row, or a line on stderr, says why.
pub(super) fn show(rows: Vec<Row>, out: &Output) -> Result<(), Failure> {
    out.show(&rows, || table::of(&HEADINGS, rows.iter().map(Row::cells)))?;
    let failures = rows.iter().filter(|row| row.tell(out)).count();
    conclude(failures > 0)
}

/// Makes the command fail where a run did.
fn conclude(failed: bool) -> Result<(), Failure> {
    match failed {
        true => Err(Failure::reported()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Form, Row, columns, separated};

    #[test]
    fn values_that_would_break_a_line_are_quoted_and_each_has_its_name() {
        let failed = Row::new("h200,x=1", Form::WHOLE, Err(Failure::new("say \"no\"\nb")));
        let values = separated(failed.values()).unwrap();
        let begin = "\"h200,x=1\",whole,";
        let empty = ",".repeat(columns().len() - 3);
        assert_eq!(values, format!("{begin}{empty}\"say \"\"no\"\"\nb\"\n"));
    }
}
