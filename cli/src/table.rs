//! Tables for people: aligned columns, a heading, no lines.
//!
//! Rules: a table has at most [`TERMINAL`] columns of text, and what does not fit goes on in the next line, in its own
//! column; a cell is one line, whatever somebody put into a name.

use crate::output::harmless;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

/// Columns of text that every terminal has.
pub(crate) const TERMINAL: u16 = 80;

/// Returns a table as text; every row has as many cells as there are headings.
pub(crate) fn of(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
    text(table, rows, TERMINAL)
}

/// Returns a table as text whose first column is never broken, so that its names can be searched for.
pub(crate) fn with_names(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    text(table, rows, TERMINAL)
}

/// Returns values with their names as text, one below the other.
pub(crate) fn fields(fields: impl IntoIterator<Item = (&'static str, String)>) -> String {
    indented_fields(0, fields)
}

/// Returns values with their names as text, one below the other, with blanks before each line.
pub(crate) fn indented_fields(
    blanks: u16,
    fields: impl IntoIterator<Item = (&'static str, String)>,
) -> String {
    let rows = fields.into_iter();
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    let text = text(Table::new(), rows, TERMINAL - blanks);
    let begin = " ".repeat(blanks.into());
    let lines = text.lines().map(|line| format!("{begin}{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn text(mut table: Table, rows: impl IntoIterator<Item = Vec<String>>, columns: u16) -> String {
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        // The blanks before the first column and behind the last one are taken away again.
        .set_width(columns + 2);
    for row in rows {
        table.add_row(row.iter().map(|cell| one_line(cell)));
    }
    let text = table.to_string();
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a cell's text in one line.
fn one_line(cell: &str) -> String {
    harmless(&cell.replace('\n', "\\n").replace('\t', "\\t")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{TERMINAL, fields, indented_fields, of};

    #[test]
    fn what_does_not_fit_goes_on_below() {
        let words = "word ".repeat(40);
        let row = vec!["a".repeat(50), words.clone(), "1".to_owned()];
        for text in [
            of(&["name", "what", "number"], [row]),
            fields([("name", words.clone())]),
            indented_fields(4, [("name", words)]),
        ] {
            assert!(text.lines().count() > 2, "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= TERMINAL.into(), "{line:?}");
            }
        }
        let name = of(&["name"], [vec!["a\nb\u{1b}c".to_owned()]]);
        assert_eq!(name, "NAME\na\\nb\\u{1b}c");
    }
}
