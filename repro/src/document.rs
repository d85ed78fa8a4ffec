//! `docs/reproduction.md`, written from reports.
//!
//! Rule: nothing in it is written by hand; numbers come from runs, sentences from the experiments' notes.

use crate::claims::refuted;
use crate::tables::{Figures, Report, number};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::Path;

/// What stands above the tables.
pub(crate) const HEAD: &str = include_str!("head.md");
/// The parts of the document, in their order.
const PAPERS: [&str; 8] = [
    "srtf",
    "accelos",
    "smk",
    "kernelet",
    "warped-slicer",
    "gridmux",
    "traces",
    "calibrate",
];

/// What is done with the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Written anew.
    Whole,
    /// Its head is written anew, and the tables that were made are replaced in it, or added to it.
    Tables,
    /// Its head and the tables that were made are compared with it.
    Check,
}

/// Writes the document, or compares it. Claims of its head that its tables refute are told.
///
/// # Errors
/// It cannot be read or written, or differs from what it is compared with, or refutes its head then.
pub(crate) fn keep(reports: &[Report], file: &Path, how: Keep) -> Result<()> {
    let text = match how {
        Keep::Whole => document(reports),
        Keep::Tables => renewed(&read(file)?, reports),
        Keep::Check => return check(&read(file)?, reports),
    };
    for claim in refuted(&Document(&text)) {
        eprintln!("repro/src/head.md says {claim:?}, and the tables do not");
    }
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// Compares the document with a head and tables.
fn check(kept: &str, reports: &[Report]) -> Result<()> {
    if kept[..head_end(kept)] != *HEAD {
        bail!(
            "docs/reproduction.md: its head is not repro/src/head.md; any `cargo xtask repro` with `--write` renews it"
        );
    }
    let tables = reports.iter().flat_map(|report| &report.tables);
    if let Some(name) = differing(kept, tables) {
        bail!(
            "docs/reproduction.md: {name:?} is not what came out; `cargo xtask repro all` writes it anew"
        );
    }
    if let Some(claim) = refuted(&Document(kept)).next() {
        bail!("docs/reproduction.md: its head says {claim:?}, and its tables do not");
    }
    Ok(())
}

/// Returns the document with its head and some tables as they are now.
fn renewed(kept: &str, reports: &[Report]) -> String {
    let mut text = format!("{HEAD}{}", &kept[head_end(kept)..]);
    for report in reports {
        for table in &report.tables {
            put(&mut text, report.paper, table);
        }
    }
    text
}

/// Returns where what stands above the first paper ends.
fn head_end(text: &str) -> usize {
    text.find("\n## ").unwrap_or(text.len())
}

/// Reads the document.
pub(crate) fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}

/// Puts a table in the place of its paper's of the same name or, where there is none, at the paper's end.
fn put(text: &mut String, paper: &str, table: &Figures) {
    let Some((from, end)) = range(text, &format!("\n## {paper}\n"), "\n## ") else {
        let later = PAPERS.iter().skip_while(|name| **name != paper).skip(1);
        let mut headings = later.filter_map(|name| text.find(&format!("\n## {name}\n")));
        let at = headings.next().unwrap_or(text.len());
        text.insert_str(at, &format!("\n## {paper}\n{}", section(table)));
        return;
    };
    match range(
        &text[from..end],
        &format!("\n### {}\n", table.name),
        "\n### ",
    ) {
        Some((first, last)) => text.replace_range(from + first..from + last, &section(table)),
        None => text.insert_str(end, &section(table)),
    }
}

/// Returns where a heading is, and where what it heads ends: at the next such one, or at the text's end.
fn range(text: &str, heading: &str, next: &str) -> Option<(usize, usize)> {
    let from = text.find(heading)?;
    let rest = from + heading.len();
    let end = text[rest..].find(next);
    Some((from, end.map_or(text.len(), |end| rest + end)))
}

/// Returns the name of the first table that the document does not show as it came out.
pub(crate) fn differing<'a>(
    document: &str,
    tables: impl IntoIterator<Item = &'a Figures>,
) -> Option<&'a str> {
    let mut tables = tables.into_iter();
    let found = tables.find(|table| !document.contains(&section(table)));
    found.map(|table| table.name.as_str())
}

/// The text of the document, for its figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'a>(pub(crate) &'a str);

impl Document<'_> {
    /// Returns a measured figure of a row in a paper's table, if there is such a one.
    pub(crate) fn figure(&self, paper: &str, table: &str, row: &str, metric: &str) -> Option<f64> {
        let (from, end) = range(self.0, &format!("\n## {paper}\n"), "\n## ")?;
        let text = &self.0[from..end];
        let (from, end) = range(text, &format!("\n### {table}\n"), "\n### ")?;
        let mut rows = text[from..end].lines().filter_map(|line| {
            let cells = line.strip_prefix('|')?.strip_suffix('|')?;
            Some(cells.split('|').map(str::trim))
        });
        let told = format!("{metric}: paper");
        let (place, is_told) = (0..).zip(rows.next()?).find_map(|(place, head)| {
            let is_told = head == told;
            (is_told || head == metric).then_some((place, is_told))
        })?;
        let mut cells = rows.find(|cells| cells.clone().next() == Some(row))?;
        // What the paper says stands in front of ours.
        cells.nth(place + usize::from(is_told))?.parse().ok()
    }
}

/// Returns the text of the whole document.
pub(crate) fn document(reports: &[Report]) -> String {
    let mut text = HEAD.to_owned();
    for report in reports {
        let _ = writeln!(text, "\n## {}", report.paper);
        for table in &report.tables {
            text += &section(table);
        }
    }
    text
}

/// Returns a table and the sentences about it.
pub(crate) fn section(table: &Figures) -> String {
    let mut text = format!("\n### {}\n\n", table.name);
    if !table.about.is_empty() {
        let _ = writeln!(text, "{}\n", wrapped(&table.about));
    }
    text += &rows(table);
    let differences = table.differences();
    let mut said: Vec<Option<&str>> = Vec::new();
    for difference in &differences {
        if said.contains(&difference.why) {
            continue;
        }
        said.push(difference.why);
        let alike = differences
            .iter()
            .filter(|other| other.why == difference.why);
        let figures: Vec<String> = alike
            .map(|other| format!("{} {} ({:.3})", other.row, other.metric, other.ratio))
            .collect();
        let why = difference.why.unwrap_or("Why is not known.");
        let _ = write!(
            text,
            "\n{}\n",
            wrapped(&format!("*{}*: {why}", figures.join("; ")))
        );
    }
    text
}

/// Returns the table's rows: for each metric ours, and the paper's and the ratio where the paper has it.
fn rows(table: &Figures) -> String {
    let metrics = table.metrics();
    let told = |metric: &str| table.rows.iter().any(|row| row.paper.contains_key(metric));
    let mut head = String::from("|");
    let mut line = String::from("|---|");
    for metric in &metrics {
        let _ = match told(metric) {
            true => write!(head, " | {metric}: paper | ours | ratio"),
            false => write!(head, " | {metric}"),
        };
        line += if told(metric) { "---|---|---|" } else { "---|" };
    }
    let mut text = format!("{head} |\n{line}\n");
    for row in &table.rows {
        let _ = write!(text, "| {}", row.name);
        for metric in &metrics {
            let shown = |figure: Option<f64>| figure.map_or_else(String::new, number);
            let ours = shown(row.measured.get(metric).copied());
            let _ = match told(metric) {
                true => {
                    let paper = shown(row.paper.get(metric).copied());
                    let ratio = row
                        .ratio(metric)
                        .map_or_else(String::new, |ratio| format!("{ratio:.3}"));
                    write!(text, " | {paper} | {ours} | {ratio}")
                }
                false => write!(text, " | {ours}"),
            };
        }
        text += " |\n";
    }
    text
}

/// Returns a paragraph in lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 120 {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{Document, Keep, document, keep, section};
    use crate::tables::{Figures, Note, Report, Row};

    fn table() -> Figures {
        Figures {
            name: "pairs".to_owned(),
            about: "Means.".to_owned(),
            rows: vec![
                Row::new("fifo", ["antt", "stp"], [f64::NAN, 1.0], [3.0, 1.2]),
                Row::new("sjf", ["antt", "stp"], [f64::NAN, 2.0], [1.5, 2.0]),
            ],
            notes: vec![Note {
                rows: &[],
                metrics: &[],
                why: "Because.",
            }],
        }
    }

    #[test]
    fn a_section_has_paper_ours_ratio_and_a_sentence_for_what_differs() {
        let text = section(&table());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows[0], "| | antt | stp: paper | ours | ratio |");
        assert_eq!(rows[2], "| fifo | 3.000 | 1.000 | 1.200 | 1.200 |");
        assert_eq!(rows[3], "| sjf | 1.500 | 2.000 | 2.000 | 1.000 |");
        assert!(text.contains("*fifo stp (1.200)*: Because."), "{text}");
        assert!(!text.contains("sjf stp"), "{text}");
    }

    #[test]
    fn figures_are_read_as_they_were_written() {
        let report = |paper| Report {
            tables: vec![table()],
            ..Report::new(paper)
        };
        let text = document(&[report("srtf"), report("smk")]);
        let figure = |row, metric| Document(&text).figure("smk", "pairs", row, metric);
        assert_eq!(figure("sjf", "antt"), Some(1.5));
        assert_eq!(figure("fifo", "stp"), Some(1.2), "ours, not the paper's");
        assert_eq!(figure("ljf", "stp"), None);
        assert_eq!(figure("sjf", "fairness"), None);
        assert_eq!(
            Document(&text).figure("accelos", "pairs", "sjf", "stp"),
            None
        );
    }

    #[test]
    fn a_head_of_another_version_is_told_and_renewed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("reproduction.md");
        let report = Report {
            tables: vec![table()],
            ..Report::new("srtf")
        };
        let reports = [report];
        let text = document(&reports);
        let other = text.replacen("# Reproduction\n", "# Reproduction\n\nBy hand.\n", 1);
        assert_ne!(other, text);
        std::fs::write(&file, other).expect("writes");
        let error = keep(&reports, &file, Keep::Check).expect_err("another head");
        assert!(error.to_string().contains("head.md"), "{error}");
        keep(&reports, &file, Keep::Tables).expect("renews it");
        assert_eq!(std::fs::read_to_string(&file).expect("reads"), text);
        keep(&reports, &file, Keep::Check).expect("is the same");
    }

    #[test]
    fn what_was_written_is_what_comes_out_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("reproduction.md");
        let mut reports = [Report {
            paper: "srtf",
            tables: vec![
                table(),
                Figures {
                    name: "last".to_owned(),
                    ..table()
                },
            ],
            pictures: Vec::new(),
        }];
        keep(&reports, &file, Keep::Whole).expect("writes");
        keep(&reports, &file, Keep::Check).expect("is the same");
        reports[0].tables[0].rows.pop();
        let error = keep(&reports, &file, Keep::Check).expect_err("differs");
        assert!(error.to_string().contains("pairs"), "{error}");
        keep(&reports, &file, Keep::Tables).expect("replaces");
        keep(&reports, &file, Keep::Check).expect("is the same");
        let text = std::fs::read_to_string(&file).expect("reads");
        assert_eq!(
            text,
            document(&reports),
            "nothing but the table has changed"
        );
        let part = |paper, name: &str| Report {
            paper,
            tables: vec![Figures {
                name: name.to_owned(),
                ..table()
            }],
            pictures: Vec::new(),
        };
        let [first] = reports;
        let mut all = vec![first, part("accelos", "sets"), part("gridmux", "pairs")];
        keep(&all[2..], &file, Keep::Tables).expect("adds a paper");
        keep(&all[1..2], &file, Keep::Tables).expect("adds one before it");
        all[2].tables.extend(part("gridmux", "mixes").tables);
        keep(&all[2..], &file, Keep::Tables).expect("adds a table");
        let text = std::fs::read_to_string(&file).expect("reads");
        assert_eq!(text, document(&all), "in the order of papers");
    }
}
