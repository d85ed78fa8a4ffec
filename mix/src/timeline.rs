//! The timeline of a mix: when each program waited, ran, and how much of the GPU it held.

use crate::meter::{Meter, Span};
use serde::Serialize;

/// One program's track, in spans of equal length from time 0 on. Parts are from 0 to 1.
#[derive(Debug, Serialize)]
pub struct Track {
    /// The program.
    pub name: String,
    /// Length of a span.
    pub span_ns: u64,
    /// The part of the GPU that its blocks held, by the resource that they hold most of.
    pub held: Vec<f64>,
    /// The part of the time in which it had blocks on the GPU.
    pub running: Vec<f64>,
    /// The part of the time in which it had none and a launch had arrived.
    pub waiting: Vec<f64>,
}

/// Returns the tracks of all programs.
#[must_use]
pub fn tracks<'a>(meter: &Meter, names: impl Iterator<Item = &'a str>) -> Vec<Track> {
    let width = meter.width_ns() as f64;
    let parts = |spans: &[Span], of: fn(&Span) -> f64| {
        let part = |span: &Span| (of(span) / width * 1e4).round() / 1e4;
        spans.iter().map(part).collect()
    };
    let track = |(program, name): (usize, &str)| {
        let spans: Vec<Span> = meter.spans(program).to_vec();
        let spans: Vec<Span> = spans
            .into_iter()
            .map(|span| Span {
                // Streams that are open at once count once each.
                open_ns: span.open_ns.min(width),
                ..span
            })
            .collect();
        Track {
            name: name.to_owned(),
            span_ns: meter.width_ns(),
            held: parts(&spans, |span| span.held_ns),
            running: parts(&spans, |span| span.running_ns),
            waiting: parts(&spans, |span| (span.open_ns - span.running_ns).max(0.0)),
        }
    };
    names.enumerate().map(track).collect()
}
