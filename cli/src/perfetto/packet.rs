//! Perfetto's packets, as far as a timeline needs them: tracks, slices, instants, and what is noted at these.
//!
//! Rule: a time is at most what Perfetto can hold, which is a signed number.

use super::wire::{Fields, Message, Value};

/// `Trace.packet`.
const PACKET: u32 = 1;
/// `TracePacket`.
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const TRACK_DESCRIPTOR: u32 = 60;
/// `TrackDescriptor`.
const UUID: u32 = 1;
const NAME: u32 = 2;
const PARENT: u32 = 5;
/// `TrackEvent`.
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const TRACK: u32 = 11;
const CATEGORY: u32 = 22;
const EVENT_NAME: u32 = 23;
const FLOW: u32 = 47;
const FLOW_END: u32 = 48;
/// `DebugAnnotation`.
const NOTE_NUMBER: u32 = 3;
const NOTE_TEXT: u32 = 6;
const NOTE_NAME: u32 = 10;
/// One writer makes a file.
const ONLY_SEQUENCE: u64 = 1;

/// What an event on a track is (`TrackEvent.Type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A slice begins.
    Begin = 1,
    /// The innermost slice of the track ends.
    End = 2,
    /// Something happens.
    Instant = 3,
}

/// What is noted at an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// A packet: a track, or an event on one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    /// A track.
    Track {
        /// Its number, unique in the file.
        uuid: u64,
        /// The track above it, 0 for none.
        parent: u64,
        /// Its name. Siblings of one name are shown as one.
        name: String,
    },
    /// An event.
    Event(Event),
}

/// An event on a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// When, in nanoseconds.
    pub(crate) time_ns: u64,
    /// What it is.
    pub(crate) mark: Mark,
    /// Its track.
    pub(crate) track: u64,
    /// Its kind; none of an end.
    pub(crate) category: String,
    /// Its name; none of an end.
    pub(crate) name: String,
    /// An arrow that begins here, 0 for none.
    pub(crate) flow: u64,
    /// An arrow that ends here, 0 for none.
    pub(crate) flow_end: u64,
    /// What is noted of it.
    pub(crate) notes: Vec<(String, Note)>,
}

impl Event {
    /// Makes an event without notes.
    pub(crate) fn new(time_ns: u64, mark: Mark, track: u64, category: &str, name: &str) -> Self {
        Self {
            time_ns,
            mark,
            track,
            category: category.to_owned(),
            name: name.to_owned(),
            flow: 0,
            flow_end: 0,
            notes: Vec::new(),
        }
    }

    /// Adds a number.
    pub(crate) fn note(mut self, name: &str, number: u64) -> Self {
        self.notes.push((name.to_owned(), Note::Number(number)));
        self
    }

    /// Adds a text.
    pub(crate) fn note_text(mut self, name: &str, text: &str) -> Self {
        let text = Note::Text(text.to_owned());
        self.notes.push((name.to_owned(), text));
        self
    }

    /// Returns the number that is noted under a name; 0 where there is none.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let found = self.notes.iter().find(|(known, _)| known == name);
        match found {
            Some((_, Note::Number(number))) => *number,
            _ => 0,
        }
    }

    /// Returns the text that is noted under a name; an empty one where there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        let found = self.notes.iter().find(|(known, _)| known == name);
        match found {
            Some((_, Note::Text(text))) => text,
            _ => "",
        }
    }

    fn encode(&self) -> Message {
        let mut event = Message::default()
            .number(TYPE, self.mark as u64)
            .number(TRACK, self.track);
        if !self.name.is_empty() {
            event = event
                .text(CATEGORY, &self.category)
                .text(EVENT_NAME, &self.name);
        }
        for (field, flow) in [(FLOW, self.flow), (FLOW_END, self.flow_end)] {
            if flow != 0 {
                event = event.fixed(field, flow);
            }
        }
        for (name, note) in &self.notes {
            let named = Message::default().text(NOTE_NAME, name);
            let note = match note {
                Note::Number(number) => named.number(NOTE_NUMBER, *number),
                Note::Text(text) => named.text(NOTE_TEXT, text),
            };
            event = event.message(ANNOTATION, &note);
        }
        event
    }

    fn decode(bytes: &[u8], time_ns: u64) -> Option<Self> {
        let mut event = Self::new(time_ns, Mark::Instant, 0, "", "");
        let mut mark = None;
        for (field, value) in Fields::of(bytes) {
            match field {
                TYPE => {
                    let all = [Mark::Begin, Mark::End, Mark::Instant];
                    mark = all.into_iter().find(|mark| *mark as u64 == value.number());
                }
                TRACK => event.track = value.number(),
                CATEGORY => event.category = value.text(),
                EVENT_NAME => event.name = value.text(),
                FLOW => event.flow = value.number(),
                FLOW_END => event.flow_end = value.number(),
                ANNOTATION => event.notes.extend(note_of(value.bytes())),
                _ => {}
            }
        }
        event.mark = mark?;
        Some(event)
    }
}

impl Packet {
    /// Returns the packet as it stands in a file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let packet = Message::default().number(SEQUENCE, ONLY_SEQUENCE);
        let packet = match self {
            Self::Track { uuid, parent, name } => {
                let mut track = Message::default().number(UUID, *uuid).text(NAME, name);
                if *parent != 0 {
                    track = track.number(PARENT, *parent);
                }
                packet.message(TRACK_DESCRIPTOR, &track)
            }
            Self::Event(event) => packet
                .number(TIMESTAMP, event.time_ns.min(i64::MAX as u64))
                .message(TRACK_EVENT, &event.encode()),
        };
        Message::default().message(PACKET, &packet).into_bytes()
    }

    /// Returns the packets of a file that this understands; the last one may be cut off.
    pub(crate) fn all_of(file: &[u8]) -> impl Iterator<Item = Self> {
        let packets = Fields::of(file).filter(|(field, _)| *field == PACKET);
        packets.filter_map(|(_, packet)| Self::decode(packet.bytes()))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let time = Fields::of(bytes).find(|(field, _)| *field == TIMESTAMP);
        let time_ns = time.map_or(0, |(_, value)| value.number());
        Fields::of(bytes).find_map(|(field, value)| match field {
            TRACK_EVENT => Event::decode(value.bytes(), time_ns).map(Self::Event),
            TRACK_DESCRIPTOR => {
                let of = |wanted: u32| {
                    let found = Fields::of(value.bytes()).find(|(field, _)| *field == wanted);
                    found.map(|(_, value)| value)
                };
                Some(Self::Track {
                    uuid: of(UUID).map_or(0, Value::number),
                    parent: of(PARENT).map_or(0, Value::number),
                    name: of(NAME).map(Value::text).unwrap_or_default(),
                })
            }
            _ => None,
        })
    }
}

/// Returns how many of these bytes of a file are whole packets.
pub(crate) fn whole(file: &[u8]) -> usize {
    let mut fields = Fields::of(file);
    let _ = fields.by_ref().count();
    file.len() - fields.rest().len()
}

fn note_of(bytes: &[u8]) -> Option<(String, Note)> {
    let (mut name, mut note) = (String::new(), None);
    for (field, value) in Fields::of(bytes) {
        match field {
            NOTE_NAME => name = value.text(),
            NOTE_NUMBER => note = Some(Note::Number(value.number())),
            NOTE_TEXT => note = Some(Note::Text(value.text())),
            _ => {}
        }
    }
    Some((name, note?))
}

#[cfg(test)]
mod tests {
    use super::{Event, Mark, Packet, whole};

    fn packets() -> Vec<Packet> {
        let track = Packet::Track {
            uuid: 7,
            parent: 2,
            name: "launches".into(),
        };
        let mut event = Event::new(i64::MAX as u64, Mark::Begin, 7, "launch", "k\u{e9}")
            .note("blocks", u64::MAX)
            .note_text("tenant", "first");
        (event.flow, event.flow_end) = (3, u64::MAX);
        let end = Event::new(9, Mark::End, 7, "", "");
        vec![track, Packet::Event(event), Packet::Event(end)]
    }

    #[test]
    fn packets_are_read_as_they_were_written() {
        let file: Vec<u8> = packets().iter().flat_map(Packet::encode).collect();
        assert_eq!(Packet::all_of(&file).collect::<Vec<_>>(), packets());
        let cut = &file[..file.len() - 1];
        assert_eq!(Packet::all_of(cut).collect::<Vec<_>>(), packets()[..2]);
        let last = packets()[2].encode().len();
        assert_eq!(whole(cut), file.len() - last);
        assert_eq!(whole(&file), file.len());
    }

    #[test]
    fn the_bytes_of_an_event_are_those_that_perfetto_reads() {
        let event = Event::new(5, Mark::Instant, 2, "c", "n").note("x", 1);
        let due = [
            0x0a, 0x19, // Trace.packet of 25 bytes
            0x50, 0x01, // trusted_packet_sequence_id
            0x40, 0x05, // timestamp
            0x5a, 0x13, // track_event of 19 bytes
            0x48, 0x03, 0x58, 0x02, // type, track_uuid
            0xb2, 0x01, 0x01, b'c', // categories
            0xba, 0x01, 0x01, b'n', // name
            0x22, 0x05, 0x52, 0x01, b'x', 0x18, 0x01, // debug_annotations
        ];
        let encoded = Packet::Event(event).encode();
        assert_eq!(encoded[2..], due[2..]);
        assert_eq!(usize::from(encoded[1]), encoded.len() - 2);
    }

    #[test]
    fn a_time_that_is_too_late_is_the_last_one_that_there_is() {
        let late = Packet::Event(Event::new(u64::MAX, Mark::Instant, 1, "c", "n")).encode();
        let read = Packet::all_of(&late).next();
        let Some(Packet::Event(event)) = read else {
            panic!("{read:?}");
        };
        assert_eq!(event.time_ns, i64::MAX as u64);
    }
}
