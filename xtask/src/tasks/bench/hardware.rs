//! Tables of `bench hardware`: the figures of each class, the furthest off first, and last the errors of all classes.

use super::significant;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;
use std::fmt::Write;

/// Returns whether all benchmarks are figures of cards and their classes.
pub(super) fn is_all(benchmarks: &[Value]) -> bool {
    !benchmarks.is_empty() && benchmarks.iter().all(|b| name(b).starts_with("hardware/"))
}

/// Returns the name of a benchmark.
fn name(benchmark: &Value) -> &str {
    benchmark["name"].as_str().unwrap_or_default()
}

/// Returns an empty table whose columns are aligned to the right, the first one aside.
fn rows<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(header);
    for column in 1..COLUMNS {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Returns the tables.
pub(super) fn tables(benchmarks: &[Value]) -> String {
    let (figures, classes): (Vec<&Value>, Vec<&Value>) = benchmarks
        .iter()
        .partition(|b| !b["peer"]["hardware"].is_null());
    let mut text = String::new();
    for class in &classes {
        let class = name(class);
        let prefix = format!("{class}/");
        let mut table = rows(["figure", "model", "hardware", "ratio", "unit"]);
        for figure in figures.iter().filter(|f| name(f).starts_with(&prefix)) {
            let number = |value: &Value| value.as_f64().map_or_else(String::new, significant);
            table.add_row([
                name(figure)[prefix.len()..].to_owned(),
                number(&figure["value"]),
                number(&figure["peer"]["hardware"]),
                number(&figure["ratio"]),
                figure["unit"].as_str().unwrap_or_default().to_owned(),
            ]);
        }
        // Writing to a string cannot fail.
        let class = class.strip_prefix("hardware/").unwrap_or(class);
        let _ = writeln!(text, "{class}\n{table}\n");
    }
    text + &summary(&classes).to_string()
}

/// Returns the table of the classes' errors.
fn summary(classes: &[&Value]) -> Table {
    let header = [
        "class",
        "figures",
        "mean error %",
        "median %",
        "off by > 15 %",
        "off by > 30 %",
    ];
    let mut table = rows(header);
    for class in classes {
        let peer = |key: &str| class["peer"][key].to_string();
        let shown = name(class);
        table.add_row([
            shown.strip_prefix("hardware/").unwrap_or(shown).to_owned(),
            peer("figures"),
            class["value"].to_string(),
            peer("median %"),
            peer("off by more than 15 %"),
            peer("off by more than 30 %"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{is_all, tables};
    use serde_json::json;

    #[test]
    fn figures_stand_under_their_class_and_classes_last() {
        let benchmarks = [
            json!({"name": "hardware/latency/v100/l1", "value": 28.0, "unit": "cycles", "ratio": 1.0,
                   "peer": {"hardware": 28.1}}),
            json!({"name": "hardware/latency", "value": 12.5, "unit": "% mean error", "ratio": null,
                   "peer": {"figures": 1, "median %": 12.5, "off by more than 15 %": 0, "off by more than 30 %": 0}}),
        ];
        assert!(is_all(&benchmarks));
        let text = tables(&benchmarks);
        let (figure, class) = (text.find("v100/l1"), text.find("mean error %"));
        assert!(figure.is_some() && figure < class, "{text}");
        assert!(!is_all(&[json!({"name": "ring_push"})]) && !is_all(&[]));
    }
}
