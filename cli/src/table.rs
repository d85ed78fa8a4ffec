//! Tables for people: aligned columns, a heading, no lines.

use crate::output::harmless;
use comfy_table::{ContentArrangement, Table, presets};

/// Columns of the terminal that tables with long texts are made for.
pub(crate) const TERMINAL: u16 = 80;

/// Returns a table as text; every row has as many cells as there are headings.
pub(crate) fn of(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    text(Table::new(), headings, rows)
}

/// Returns a table at most so many columns wide: long texts go on in the next line, in their column.
pub(crate) fn within(
    width: u16,
    headings: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    text(table, headings, rows)
}

fn text(
    mut table: Table,
    headings: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    table.load_preset(presets::NOTHING);
    table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
    let rows = rows
        .into_iter()
        .map(|row| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>());
    table.add_rows(rows);
    let text = table.to_string();
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a cell's text in one line, whatever somebody put into a name.
fn one_line(cell: &str) -> String {
    harmless(&cell.replace('\n', "\\n").replace('\t', "\\t")).into_owned()
}
