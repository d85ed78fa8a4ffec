//! The timeline of a mix as text.

use crate::units::nanos;
use gridmux_mix::timeline::Track;

/// Columns of the text.
const COLUMNS: u64 = 60;
/// What a program holds, by eighths of the GPU.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// It has a launch that has arrived, and no block on the GPU.
const WAITS: char = '.';

/// Returns the tracks as text; everything ends at `end_ns`.
pub(super) fn text(tracks: &[Track], names: impl Iterator<Item = String>, end_ns: u64) -> String {
    let column_ns = end_ns.div_ceil(COLUMNS).max(1);
    let names: Vec<String> = names.collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0);
    let mut text = format!(
        "timeline, {} a column: {WAITS} waits, {} to {} holds an eighth to all of the GPU\n",
        nanos(Some(column_ns)),
        EIGHTHS[0],
        EIGHTHS[7]
    );
    for (track, name) in tracks.iter().zip(names) {
        let columns = end_ns.div_ceil(column_ns);
        let line: String = (0..columns)
            .map(|at| column(track, at, column_ns))
            .collect();
        text += &format!("{name:<width$} |{line}|\n");
    }
    text
}

/// Returns what a column shows: what the program held in it where it ran, else whether it waited.
#[allow(clippy::cast_possible_truncation, reason = "an eighth from 0 to 7")]
fn column(track: &Track, at: u64, column_ns: u64) -> char {
    let (from, to) = (at * column_ns, (at + 1) * column_ns);
    let mean = |parts: &[f64]| mean_between(track, parts, from, to);
    let (held, running) = (mean(&track.held), mean(&track.running));
    let waiting = mean(&track.waiting);
    if running > 0.0 && running >= waiting {
        return EIGHTHS[((held * 8.0).ceil() as usize).clamp(1, 8) - 1];
    }
    if waiting > 0.0 { WAITS } else { ' ' }
}

/// Returns the mean of parts between two times.
fn mean_between(track: &Track, parts: &[f64], from: u64, to: u64) -> f64 {
    let (mut sum, mut at) = (0.0, from);
    while at < to {
        let span = at / track.span_ns;
        let until = to.min((span + 1) * track.span_ns);
        let part = usize::try_from(span).ok().and_then(|span| parts.get(span));
        sum += part.copied().unwrap_or(0.0) * (until - at) as f64;
        at = until;
    }
    sum / (to - from) as f64
}

#[cfg(test)]
mod tests {
    use super::{Track, text};

    #[test]
    fn a_program_waits_runs_and_is_away() {
        let track = Track {
            name: "a".to_owned(),
            span_ns: 100,
            held: vec![0.0, 0.1, 0.5, 1.0],
            running: vec![0.0, 1.0, 1.0, 1.0],
            waiting: vec![0.9, 0.0, 0.0, 0.0],
        };
        let shown = text(&[track], ["a".to_owned()].into_iter(), 600);
        let line = shown.lines().last().unwrap();
        let due = [".", "▁", "▄", "█", " ", " "].map(|glyph| glyph.repeat(10));
        assert_eq!(line, format!("a |{}|", due.concat()));
        assert!(shown.starts_with("timeline, 10ns a column"), "{shown}");
    }
}
