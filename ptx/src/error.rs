//! The one error of the front end: what is wrong, where, and the source line with a caret.
//!
//! Internally every stage returns a [`Fault`] (a byte offset and a message, cheap to pass around); the line and
//! the column are worked out once, when the fault leaves the crate as a [`ParseError`].

use std::fmt;

/// A module that cannot be accepted: position, message and the offending line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What is wrong and what was expected.
    pub message: String,
    /// The source line, shortened around the column when it is very long.
    pub excerpt: String,
    /// Column of the caret within `excerpt`, from 0.
    pub caret: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        writeln!(f, "    {}", self.excerpt)?;
        write!(f, "    {:>width$}", '^', width = self.caret + 1)
    }
}

/// Longer names are cut in messages.
const SHOWN_BYTES: usize = 200;

/// Returns a name as messages show it: shortened when it is very long.
#[must_use]
pub fn shown(name: &str) -> String {
    match name.get(..SHOWN_BYTES) {
        Some(start) if start.len() < name.len() => format!("{start}… ({} bytes)", name.len()),
        _ => name.to_owned(),
    }
}

/// A message at a byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) offset: u32,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(offset: u32, message: impl Into<String>) -> Self {
        Self {
            offset,
            message: message.into(),
        }
    }

    /// Finds line and column and cuts the excerpt.
    pub(crate) fn locate(self, source: &[u8]) -> ParseError {
        const SHOWN: usize = 120;
        let (line, column) = position(source, self.offset);
        let at = (self.offset as usize).min(source.len());
        let start = at - (column as usize - 1);
        let end = source[at..]
            .iter()
            .position(|&b| b == b'\n')
            .map_or(source.len(), |n| at + n);
        let cut = if at - start > SHOWN / 2 {
            at - SHOWN / 2
        } else {
            start
        };
        let shown = &source[cut..end.min(cut + SHOWN)];
        // One character per byte keeps the caret under the byte that it means, whatever the bytes are.
        let excerpt = shown
            .iter()
            .map(|&b| match b {
                b' '..=b'~' => char::from(b),
                b'\t' => ' ',
                _ => '?',
            })
            .collect::<String>();
        ParseError {
            line,
            column,
            message: self.message,
            excerpt: excerpt.trim_end().to_owned(),
            caret: at - cut,
        }
    }
}

/// Returns the line and column, both from 1, of a byte offset.
pub(crate) fn position(source: &[u8], offset: u32) -> (u32, u32) {
    let before = &source[..(offset as usize).min(source.len())];
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let start = before
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |n| n + 1);
    let column = before.len() - start + 1;
    (saturate(line), saturate(column))
}

fn saturate(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
