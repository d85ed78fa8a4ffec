//! The lines of a kernel at which most cycles were lost.
//!
//! Rules: a stall belongs to the line at which the warp waits, so that a load shows at the line that first uses the
//! loaded value; cycles in which nothing happens on an SM, which the stall counters leave out, belong to the lines at
//! which its warps wait.

use crate::table;
use gridmux_hw_model::LineStalls;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A line of PTX.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    ptx_line: u32,
    /// The line's text.
    ptx: String,
    /// The function that it stands in, when that is not the kernel.
    function: Option<String>,
    source_file: Option<String>,
    source_line: Option<u32>,
    /// Scheduler cycles without an issue.
    stall_cycles: u64,
    /// Part of the stall cycles of all lines, 0 to 1.
    share: f64,
    /// Stall cycles by cause, under the names of the counters; causes with none are left out.
    causes: BTreeMap<&'static str, u64>,
}

/// Returns the lines at which most cycles were lost, at most `most` of them, the worst first.
pub(super) fn hottest(mut stalls: Vec<LineStalls>, source: &[u8], most: u32) -> Vec<Line> {
    let all: u64 = stalls.iter().map(LineStalls::total).sum();
    let texts: Vec<&[u8]> = source.split(|byte| *byte == b'\n').collect();
    stalls.sort_by_key(|line| (Reverse(line.total()), line.ptx_line));
    stalls.truncate(most as usize);
    let line = |stalls: LineStalls| {
        let text = texts.get((stalls.ptx_line as usize).wrapping_sub(1));
        let text = text.map_or(&b""[..], |text| text.trim_ascii());
        Line {
            ptx_line: stalls.ptx_line,
            ptx: String::from_utf8_lossy(text).into_owned(),
            function: stalls.function.as_deref().map(crate::names::shown),
            source_file: stalls.source_file.as_deref().map(ToOwned::to_owned),
            source_line: stalls.source_line,
            stall_cycles: stalls.total(),
            share: stalls.total() as f64 / all.max(1) as f64,
            causes: stalls.cycles.into_iter().filter(|(_, n)| *n > 0).collect(),
        }
    };
    stalls.into_iter().map(line).collect()
}

/// Returns the lines as a table.
pub(super) fn text(lines: &[Line]) -> String {
    let cells = |line: &Line| {
        let most = line.causes.iter().max_by_key(|(_, cycles)| **cycles);
        let cause = most.map_or("", |(name, _)| *name);
        let cause = cause.strip_prefix("stall_").unwrap_or(cause);
        let cause = cause.strip_suffix("_cycles").unwrap_or(cause);
        let file = line.source_file.as_deref().map(|file| {
            let name = file.rsplit('/').next();
            name.unwrap_or(file)
        });
        let source = match (file, line.source_line) {
            (Some(file), Some(number)) => format!("{file}:{number}"),
            (None, Some(number)) => number.to_string(),
            (_, None) => "-".to_owned(),
        };
        let text = line.ptx.split_whitespace().collect::<Vec<_>>().join(" ");
        let ptx = match &line.function {
            Some(function) => format!("{text} (in {function})"),
            None => text,
        };
        vec![
            line.stall_cycles.to_string(),
            format!("{:.1}", 100.0 * line.share),
            cause.to_owned(),
            line.ptx_line.to_string(),
            source,
            ptx,
        ]
    };
    let headings = ["stalls", "%", "mostly", "line", "source", "ptx"];
    table::of(&headings, lines.iter().map(cells))
}
