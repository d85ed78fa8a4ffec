//! Protobuf on the wire (<https://protobuf.dev/programming-guides/encoding/>): the three forms of fields that a
//! timeline needs, written, and all forms of fields, read.
//!
//! Rule: whatever is read, nothing beyond its bytes is, and no more is kept than they hold.

/// Bytes of the longest number.
const LONGEST: usize = 10;

/// A message in the making.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number of varying length.
    Number(u64),
    /// A number of eight or four bytes.
    Fixed(u64),
    /// A text or a message.
    Bytes(&'a [u8]),
}

/// The fields of a message that is read; it ends where the bytes do, or make no sense.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl Message {
    /// Adds a number.
    pub(crate) fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Adds a number of eight bytes.
    pub(crate) fn fixed(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a text.
    pub(crate) fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// Adds a message.
    pub(crate) fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Returns the bytes of the message.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }
}

impl<'a> Fields<'a> {
    /// Reads a message.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes that were not read: none, unless they make no sense.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn read(bytes: &'a [u8]) -> Option<((u32, Value<'a>), &'a [u8])> {
        let (tag, bytes) = varint(bytes)?;
        let field = u32::try_from(tag >> 3).ok()?;
        let (value, bytes) = match tag & 7 {
            0 => {
                let (value, rest) = varint(bytes)?;
                (Value::Number(value), rest)
            }
            1 => {
                let (value, rest) = bytes.split_first_chunk()?;
                (Value::Fixed(u64::from_le_bytes(*value)), rest)
            }
            2 => {
                let (length, rest) = varint(bytes)?;
                let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Value::Bytes(value), rest)
            }
            5 => {
                let (value, rest) = bytes.split_first_chunk()?;
                (Value::Fixed(u32::from_le_bytes(*value).into()), rest)
            }
            _ => return None,
        };
        Some(((field, value), bytes))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (field, rest) = Self::read(self.0)?;
        self.0 = rest;
        Some(field)
    }
}

impl<'a> Value<'a> {
    /// Returns the number that it is; 0 where it is none.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(value) | Self::Fixed(value) => value,
            Self::Bytes(_) => 0,
        }
    }

    /// Returns the bytes that it is; none where it is a number.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) | Self::Fixed(_) => &[],
        }
    }

    /// Returns the text that it is, with what is no UTF-8 replaced.
    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate().take(LONGEST) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if place == LONGEST - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Fields, Message, Value};

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        // The examples of protobuf's own description of its encoding.
        assert_eq!(
            Message::default().number(1, 150).into_bytes(),
            [0x08, 0x96, 0x01]
        );
        let text = Message::default().text(2, "testing");
        assert_eq!(text.into_bytes(), b"\x12\x07testing");
        let inner = Message::default().number(1, 150);
        let outer = Message::default().message(3, &inner).into_bytes();
        assert_eq!(outer, [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = Message::default()
            .number(1, u64::MAX)
            .fixed(47, 0x1122_3344_5566_7788)
            .text(1000, "a\u{e9}")
            .number(2, 0)
            .into_bytes();
        let mut fields = Fields::of(&bytes);
        let read: Vec<_> = fields.by_ref().collect();
        let due = [
            (1, Value::Number(u64::MAX)),
            (47, Value::Fixed(0x1122_3344_5566_7788)),
            (1000, Value::Bytes("a\u{e9}".as_bytes())),
            (2, Value::Number(0)),
        ];
        assert_eq!(read, due);
        assert!(fields.rest().is_empty());
    }

    #[test]
    fn what_makes_no_sense_ends_the_reading() {
        for bad in [
            &[0x08][..],
            &[0x0a, 0x05, 0x01],
            &[0x0b],
            &[0xff; 11],
            &[0x09, 1, 2, 3],
            &[
                0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ],
        ] {
            let mut fields = Fields::of(bad);
            assert_eq!(fields.next(), None, "{bad:?}");
            assert_eq!(fields.rest(), bad);
        }
    }
}
