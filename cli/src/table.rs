//! Tables for people: aligned columns, a heading, no lines.

use comfy_table::{ContentArrangement, Table, presets};

/// Returns a table as text; every row has as many cells as there are headings.
pub(crate) fn of(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
    table.add_rows(rows);
    let text = table.to_string();
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}
