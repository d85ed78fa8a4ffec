//! What `gridmux run --coverage` lists: functions of the driver that the program asked for and that gridmux lacks.
//!
//! The library appends a line for each to a file: the function, `asked` or `called`, and the program, between tabs. A
//! function that was only asked for may never be needed, as bindings ask for all that they know: such ones are counted,
//! and listed on request.

use crate::failure::Failure;
use crate::table;
use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Name of the library's file in the private folder.
pub(super) const FILE: &str = "coverage";
/// Columns of a line of names.
const WIDTH: usize = 100;

/// The functions that are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Which {
    /// Those that were called
    Called,
    /// Those that were only asked for as well
    All,
}

/// The list.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Report {
    /// The program's exit code.
    status: u8,
    /// How many functions were called and are missing.
    called: usize,
    /// How many were asked for, are missing, and were not called.
    not_called: usize,
    /// The functions, by name: of those that were not called only what was wanted.
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
    pub(super) fn read(folder: &Path, status: u8, which: Which) -> Result<Self, Failure> {
        let text = match std::fs::read_to_string(folder.join(FILE)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.context("reading what was missing")?,
        };
        Ok(Self::of(&text, status, which))
    }

    fn of(text: &str, status: u8, which: Which) -> Self {
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
        let mut missing: Vec<Missing> = missing.into_values().collect();
        let all = missing.len();
        let called = missing.iter().filter(|missing| missing.called).count();
        missing.retain(|missing| missing.called || which == Which::All);
        Self {
            status,
            called,
            not_called: all - called,
            missing,
        }
    }

    /// Returns the list for people: first what was called.
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
        if self.not_called > 0 {
            let hint = match asked.is_empty() {
                true => " (--coverage=all lists them)",
                false => "",
            };
            text += &format!(
                "asked for, missing and not called: {}{hint}\n",
                self.not_called
            );
            text += &lines(&asked);
        }
        text
    }
}

/// Returns names in lines of about [`WIDTH`] columns.
fn lines(functions: &[&Missing]) -> String {
    let (mut text, mut width) = (String::new(), WIDTH);
    for function in functions.iter().map(|missing| &missing.function) {
        if width + function.len() > WIDTH {
            text += if text.is_empty() { " " } else { "\n " };
            width = 0;
        }
        text += &format!(" {function}");
        width += 1 + function.len();
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Report, Which};

    const TEXT: &str = "cuGraphCreate\tasked\tpython3\ncuGraphCreate\tcalled\tpython3\ncuTexRefCreate\tasked\ta\n\
                        cuTexRefCreate\tasked\tb\nrubbish\n";

    #[test]
    fn a_function_counts_once_and_a_call_outweighs_a_question() {
        let report = Report::of(TEXT, 0, Which::All);
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
        assert_eq!((report.called, report.not_called), (1, 1));
        let text = report.text();
        assert!(text.contains("cuGraphCreate"), "{text}");
        assert!(
            text.ends_with("not called: 1\n  cuTexRefCreate\n"),
            "{text}"
        );
    }

    #[test]
    fn what_was_not_called_is_counted_and_not_listed_unless_it_is_wanted() {
        let report = Report::of(TEXT, 0, Which::Called);
        assert_eq!((report.missing.len(), report.not_called), (1, 1));
        let text = report.text();
        assert!(!text.contains("cuTexRefCreate"), "{text}");
        assert!(text.contains("not called: 1 (--coverage=all"), "{text}");
    }

    #[test]
    fn long_lists_go_on_in_further_lines() {
        let text: String = (0..40)
            .map(|n| format!("cuFunction{n}\tasked\ta\n"))
            .collect();
        let text = Report::of(&text, 0, Which::All).text();
        assert!(text.lines().all(|line| line.len() <= 102), "{text}");
        assert_eq!(text.matches("cuFunction").count(), 40);
    }

    #[test]
    fn nothing_missing_is_said() {
        let report = Report::of("", 0, Which::All);
        assert_eq!(report.text(), "no missing function was called\n");
    }
}
