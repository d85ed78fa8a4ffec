//! A recording's timeline as a picture: a line for each track that has slices, tenant by tenant.
//!
//! Rule: no more tracks and slices are drawn than a picture can show; what is left out is said in it.

use super::svg::{begin, escaped};
use crate::perfetto::packet::{Event, Mark, Packet};
use crate::units;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Width of the names, and of the time beside them.
const WIDTH: (u32, u32) = (240, 760);
/// Height of a track.
const HEIGHT: u32 = 18;
const MARGIN: u32 = 10;
/// Tracks of one picture, and slices of one track.
const MOST: (usize, usize) = (24, 400);
/// Time that is drawn at most, from the middle of the recording on, in nanoseconds.
const MOST_NS: u64 = 2_000_000;
/// Colours of the tenants, in turn.
const INKS: [&str; 4] = ["#5fb3a1", "#e0a458", "#7aa2f7", "#c678dd"];

/// A track, and what stands on it: begin, end and name of slices.
#[derive(Debug, Default)]
struct Track {
    name: String,
    parent: u64,
    slices: Vec<(u64, u64, String)>,
}

/// Returns the picture.
pub(super) fn of(packets: impl Iterator<Item = Packet>) -> String {
    let tracks = tracks_of(packets);
    let slices = tracks.values().flat_map(|track| &track.slices);
    let (first, last) = slices.fold((u64::MAX, 0), |(first, last), (begin, end, _)| {
        (first.min(*begin), last.max(*end))
    });
    let from = first.saturating_add(last.saturating_sub(first) / 2);
    let window = (from, last.min(from.saturating_add(MOST_NS)));
    let overlaps = |slice: &&(u64, u64, String)| slice.0 < window.1 && slice.1 > window.0;
    let mut shown: Vec<&Track> = tracks
        .values()
        .filter(|track| track.slices.iter().any(|slice| overlaps(&slice)))
        .collect();
    shown.sort_by_key(|track| track.parent);
    let left_out = shown.len().saturating_sub(MOST.0);
    let lines = u32::try_from(shown.len().min(MOST.0)).unwrap_or(0) + 1;
    let mut svg = begin(
        WIDTH.0 + WIDTH.1 + 2 * MARGIN,
        (lines + 1) * HEIGHT + 2 * MARGIN,
    );
    let mut tenants: Vec<u64> = shown.iter().map(|track| track.parent).collect();
    tenants.dedup();
    for (place, track) in (0..).zip(shown.into_iter().take(MOST.0)) {
        let above = tracks.get(&track.parent).map_or("", |parent| &parent.name);
        let tenant = tenants.iter().position(|uuid| *uuid == track.parent);
        let ink = INKS[tenant.unwrap_or(0) % INKS.len()];
        draw(&mut svg, (place, ink), (above, track), window);
    }
    let note = match left_out {
        0 => String::new(),
        more => format!(", and {more} more tracks"),
    };
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\">{} of device time{note}; brighter: launches, darker: their pieces</text>\n</svg>",
        MARGIN + WIDTH.0,
        MARGIN + lines * HEIGHT + 8,
        units::nanos(Some(window.1.saturating_sub(window.0))),
    );
    svg
}

fn tracks_of(packets: impl Iterator<Item = Packet>) -> BTreeMap<u64, Track> {
    let mut tracks: BTreeMap<u64, Track> = BTreeMap::new();
    let mut open: HashMap<u64, Event> = HashMap::new();
    for packet in packets {
        match packet {
            Packet::Track { uuid, parent, name } => {
                let track = tracks.entry(uuid).or_default();
                (track.name, track.parent) = (name, parent);
            }
            Packet::Event(event) if event.mark == Mark::Begin => {
                _ = open.insert(event.track, event)
            }
            Packet::Event(event) if event.mark == Mark::End => {
                if let Some(begun) = open.remove(&event.track) {
                    let track = tracks.entry(event.track).or_default();
                    track
                        .slices
                        .push((begun.time_ns, event.time_ns, begun.name));
                }
            }
            Packet::Event(_) => {}
        }
    }
    tracks
}

fn draw(
    svg: &mut String,
    (place, ink): (u32, &str),
    (above, track): (&str, &Track),
    (from, to): (u64, u64),
) {
    let top = MARGIN + place * HEIGHT;
    let name: String = format!("{above} {}", track.name).chars().take(30).collect();
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{}\">{}</text>",
        top + HEIGHT - 5,
        escaped(&name)
    );
    let scale = f64::from(WIDTH.1) / to.saturating_sub(from).max(1) as f64;
    let at = |ns: u64| f64::from(MARGIN + WIDTH.0) + ns.saturating_sub(from) as f64 * scale;
    let opacity = match track.name == "launches" {
        true => "1",
        false => "0.55",
    };
    let within = track
        .slices
        .iter()
        .filter(|slice| slice.0 < to && slice.1 > from);
    for (begin, end, name) in within.take(MOST.1) {
        let (left, right) = (at((*begin).max(from)), at((*end).min(to)));
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"{ink}\" \
             fill-opacity=\"{opacity}\"><title>{}</title></rect>",
            top + 2,
            (right - left - 0.5).max(0.5),
            HEIGHT - 4,
            escaped(name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::perfetto::packet::{Event, Mark, Packet};

    #[test]
    fn slices_stand_on_their_tracks_and_names_break_nothing() {
        let track = |uuid, parent, name: &str| Packet::Track {
            uuid,
            parent,
            name: name.into(),
        };
        let mut packets = vec![track(2, 0, "a<b"), track(3, 2, "launches")];
        for begin in [0, 1_000_000, 2_000_000] {
            let mark = |at, mark| Packet::Event(Event::new(at, mark, 3, "launch", "k&"));
            packets.push(mark(begin, Mark::Begin));
            packets.push(mark(begin + 500_000, Mark::End));
        }
        let svg = of(packets.into_iter());
        assert!(svg.contains("a&lt;b launches"), "{svg}");
        // Drawn from the middle of the recording on.
        assert_eq!(svg.matches("<title>k&amp;</title>").count(), 2, "{svg}");
        assert!(svg.contains("1.2ms of device time"), "{svg}");
        let empty = of(std::iter::empty());
        assert!(empty.ends_with("</svg>\n"), "{empty}");
    }
}
