//! Messages of a timeline's file (protocol buffers), for tests of what is drawn.
//!
//! Rule: only the forms of fields that a timeline has are read; another one fails the test.

/// Returns the numbers of the fields of a message, each with its bytes, if it has any, and its number, if it is one.
///
/// # Panics
/// If the message is cut, or has a field of another form.
#[must_use]
pub fn message_fields(mut bytes: &[u8]) -> Vec<(u64, &[u8], u64)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let (length, number) = match tag & 7 {
            0 => (0, varint(&mut bytes)),
            1 => (8, 0),
            2 => (usize::try_from(varint(&mut bytes)).expect("a length"), 0),
            other => panic!("a timeline has no field of form {other}"),
        };
        let (value, rest) = bytes.split_at(length);
        fields.push((tag >> 3, value, number));
        bytes = rest;
    }
    fields
}

/// Takes a number of variable length.
fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a number ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
