//! A hit of a probe of ranges, as a reader gets it: which thread of which process began or ended what.
//!
//! Rule: the process chose every number and every byte in it but when, and who it is, which are the kernel's.

use crate::layout::RawRange;

/// A probe of ranges by name; the discriminants are those of `enum gridmux_range_probe` in `src/bpf/gridmux.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum RangeProbe {
    /// The thread began a range within those that it is in.
    Push = 0,
    /// The thread ended the range that it began last, of those of the domain.
    Pop = 1,
    /// The process began a range, which any of its threads may end.
    Start = 2,
    /// The process ended it.
    End = 3,
    /// Something happened.
    Mark = 4,
}

/// A hit of a probe of ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// When the probe fired, in nanoseconds of the machine's monotonic clock.
    pub wall_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// What happened.
    pub what: RangeProbe,
    /// Which domain of the process; 0 for its own.
    pub domain: u64,
    /// Which range of the process; 0 for what is nested in its thread.
    pub range: u64,
    /// The range's name, of at most [`NAME_BYTES`](crate::layout::NAME_BYTES) bytes, without control characters and
    /// marks of direction; empty where it has none.
    pub name: String,
    /// The domain's name, in the same way.
    pub domain_name: String,
}

impl RangeProbe {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 5] = [Self::Push, Self::Pop, Self::Start, Self::End, Self::Mark];

    /// Returns the probe's name in the library's notes.
    pub const fn probe(self) -> &'static str {
        match self {
            Self::Push => "range_push",
            Self::Pop => "range_pop",
            Self::Start => "range_start",
            Self::End => "range_end",
            Self::Mark => "mark",
        }
    }
}

impl Range {
    /// Returns what a record says; `None` for a probe that is none of these.
    #[must_use]
    pub fn of(raw: &RawRange) -> Option<Self> {
        let what = RangeProbe::ALL
            .into_iter()
            .find(|probe| *probe as u32 == raw.probe)?;
        let bytes = raw.name.len().min(raw.name_bytes as usize);
        Some(Self {
            wall_ns: raw.wall_ns,
            pid: raw.pid,
            tid: raw.tid,
            what,
            domain: raw.domain,
            range: raw.range,
            name: plain(&raw.name[..bytes]),
            domain_name: plain(&raw.domain_name),
        })
    }
}

/// Returns a text of a process's up to its end, with a mark in the place of whatever is no character to be shown, or
/// has those around it shown in another order.
fn plain(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = |c: char| match c.is_control() || turns(c) {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    String::from_utf8_lossy(text).chars().map(shown).collect()
}

/// Returns whether a character sets the direction of text.
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{Range, RangeProbe};
    use crate::layout::RawRange;

    fn raw(name: &[u8]) -> RawRange {
        let mut raw = RawRange {
            wall_ns: 1,
            domain: 2,
            range: 3,
            pid: 4,
            tid: 5,
            probe: 0,
            name_bytes: u32::try_from(name.len()).unwrap(),
            name: [0; 64],
            domain_name: *b"a domain without an end to it...",
        };
        raw.name[..name.len().min(64)].copy_from_slice(&name[..name.len().min(64)]);
        raw
    }

    #[test]
    fn names_are_bounded_and_shown_as_text() {
        let name = |bytes: &[u8]| Range::of(&raw(bytes)).unwrap().name;
        assert_eq!(name(b"load"), "load");
        assert_eq!(name(b"a\x1b[2J\nb\x7f"), "a\u{fffd}[2J\u{fffd}b\u{fffd}");
        assert_eq!(name(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        assert_eq!(name(b"cut\0off"), "cut");
        assert_eq!(name("größe \u{9b}".as_bytes()), "größe \u{fffd}");
        for turns in "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}".chars() {
            assert_eq!(name(format!("a{turns}b").as_bytes()), "a\u{fffd}b");
        }
        assert_eq!(name("אב \u{200d}".as_bytes()), "אב \u{200d}");
        let mut long = raw(&[b'x'; 100]);
        assert_eq!(Range::of(&long).unwrap().name.len(), 64);
        long.name_bytes = u32::MAX;
        assert_eq!(Range::of(&long).unwrap().name.len(), 64);
        let domain = Range::of(&long).unwrap().domain_name;
        assert_eq!(domain, "a domain without an end to it...");
    }

    #[test]
    fn a_record_of_no_known_probe_is_none() {
        for probe in RangeProbe::ALL {
            let record = RawRange {
                probe: probe as u32,
                ..raw(b"")
            };
            assert_eq!(Range::of(&record).unwrap().what, probe);
        }
        let unknown = RawRange {
            probe: 5,
            ..raw(b"")
        };
        assert_eq!(Range::of(&unknown), None);
    }
}
