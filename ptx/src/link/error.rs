//! Why modules cannot be linked: the symbol, the modules and their lines.

use crate::ParseError;
pub(super) use crate::error::shown;
use std::fmt;

/// A line of one of the modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartLine {
    /// The module's name.
    pub part: String,
    /// Line, from 1.
    pub line: u32,
}

impl fmt::Display for PartLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.part, self.line)
    }
}

/// Why modules cannot be linked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each text says what it is")]
pub enum LinkError {
    #[error("there is no module to link; give at least one")]
    Nothing,
    #[error("{part}: {error}")]
    Part {
        part: String,
        error: Box<ParseError>,
    },
    #[error("`{symbol}` is defined twice: {first}; and {second} (rename one, or make one `.weak`)")]
    Duplicate {
        symbol: String,
        first: PartLine,
        second: PartLine,
    },
    #[error("`{symbol}` {what}: {first}; and {second} (declare it alike in both)")]
    Mismatch {
        symbol: String,
        what: String,
        first: PartLine,
        second: PartLine,
    },
    #[error(
        "`{symbol}` is used and no module defines it: {place} (add a module that defines it as `.visible`)"
    )]
    Unresolved { symbol: String, place: PartLine },
    /// A label has the name of another module's symbol, which would be meant where the label is used.
    #[error(
        "`{symbol}` is a label in {part}, used above its place, and a symbol in {place}; rename one"
    )]
    Hidden {
        symbol: String,
        part: String,
        place: PartLine,
    },
    #[error("`{symbol}` is a predefined name and cannot be linked: {place} (rename it)")]
    Predefined { symbol: String, place: PartLine },
    #[error("{first} and {second} cannot be linked: {what} (compile both with the same options)")]
    Header {
        first: String,
        second: String,
        what: String,
    },
    #[error("{part}: the target `{target}` names no architecture; write one such as `sm_80`")]
    Target { part: String, target: String },
    #[error(
        "{0}: more variables and functions than a module of this length can have; delete unused ones"
    )]
    TooManyNames(String),
    #[error("the linked module is longer than 64 MiB; link fewer modules")]
    TooLarge,
    #[error("the linked module: {0}")]
    Linked(Box<ParseError>),
}
