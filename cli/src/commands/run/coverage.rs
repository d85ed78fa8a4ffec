//! What `gridmux run --coverage` lists: functions of the driver that the program asked for and that gridmux lacks.
//!
//! The library appends a line for each to a file: the function, `asked` or `called`, and the program, between tabs. A
//! function that was only asked for may never be needed, as bindings ask for all that they know.

use crate::failure::Failure;
use crate::table;
use anyhow::Context;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Name of the library's file in the private folder.
pub(super) const FILE: &str = "coverage";
/// Columns of a line of names.
const WIDTH: usize = 100;

/// The list.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Report {
    /// The program's exit code.
    status: u8,
    /// The functions, by name.
    missing: Vec<Missing>,
}

/// A function that gridmux lacks.
#[derive(Debug, PartialEq, Serialize)]
struct Missing {
    /// Its name.
    function: String,
    /// A program called it, and got `CUDA_ERROR_NOT_SUPPORTED`.
    called: bool,
    /// Programs that asked for it.
    programs: BTreeSet<String>,
}

impl Report {
    /// Reads the library's file, which is not there if nothing was missing.
    pub(super) fn read(folder: &Path, status: u8) -> Result<Self, Failure> {
        let text = match std::fs::read_to_string(folder.join(FILE)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.context("reading what was missing")?,
        };
        Ok(Self::of(&text, status))
    }

    fn of(text: &str, status: u8) -> Self {
        let mut missing: BTreeMap<&str, Missing> = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.split('\t');
            let (Some(function), Some(how)) = (fields.next(), fields.next()) else {
                continue;
            };
            let entry = missing.entry(function).or_insert_with(|| Missing {
                function: function.to_owned(),
                called: false,
                programs: BTreeSet::new(),
            });
            entry.called |= how == "called";
            entry.programs.extend(fields.next().map(ToOwned::to_owned));
        }
        Self {
            status,
            missing: missing.into_values().collect(),
        }
    }

    /// The list for people: first what was called.
    pub(super) fn text(&self) -> String {
        let (called, asked): (Vec<&Missing>, Vec<&Missing>) =
            self.missing.iter().partition(|missing| missing.called);
        let mut text = match called.as_slice() {
            [] => "no missing function was called\n".to_owned(),
            called => {
                let cells = |missing: &&Missing| {
                    let programs: Vec<&str> = missing.programs.iter().map(String::as_str).collect();
                    vec![missing.function.clone(), programs.join(", ")]
                };
                let rows = table::of(&["called and missing", "by"], called.iter().map(cells));
                format!("{}\n", rows.trim_end())
            }
        };
        if !asked.is_empty() {
            text.push_str(&format!(
                "asked for, missing and not called: {}\n",
                asked.len()
            ));
            let mut line = String::new();
            for missing in asked {
                if !line.is_empty() && line.len() + missing.function.len() > WIDTH {
                    text.push_str(&format!(" {line}\n"));
                    line.clear();
                }
                line.push(' ');
                line.push_str(&missing.function);
            }
            text.push_str(&format!(" {line}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn a_function_counts_once_and_a_call_outweighs_a_question() {
        let text = "cuGraphCreate\tasked\tpython3\ncuGraphCreate\tcalled\tpython3\ncuTexRefCreate\tasked\ta\n\
                    cuTexRefCreate\tasked\tb\nrubbish\n";
        let report = Report::of(text, 0);
        let seen: Vec<(&str, bool, usize)> = report
            .missing
            .iter()
            .map(|missing| {
                (
                    missing.function.as_str(),
                    missing.called,
                    missing.programs.len(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [("cuGraphCreate", true, 1), ("cuTexRefCreate", false, 2)]
        );
        let text = report.text();
        assert!(
            text.contains("cuGraphCreate") && text.contains("not called: 1"),
            "{text}"
        );
    }

    #[test]
    fn nothing_missing_is_said() {
        assert_eq!(Report::of("", 0).text(), "no missing function was called\n");
    }
}
