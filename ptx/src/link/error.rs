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
pub enum LinkError {
    /// There are no modules.
    #[error("there is no module to link; give at least one")]
    Nothing,
    /// One of them is wrong by itself.
    #[error("{part}: {error}")]
    Part {
        /// The module's name.
        part: String,
        /// What is wrong.
        error: Box<ParseError>,
    },
    /// Two modules define a name, neither of them `.weak`.
    #[error("`{symbol}` is defined twice: {first}; and {second} (rename one, or make one `.weak`)")]
    Duplicate {
        /// The name.
        symbol: String,
        /// One definition.
        first: PartLine,
        /// The other one.
        second: PartLine,
    },
    /// Two modules mean different things by a name.
    #[error("`{symbol}` {what}: {first}; and {second} (declare it alike in both)")]
    Mismatch {
        /// The name.
        symbol: String,
        /// In what they differ, for example "has 4 bytes and 8 bytes".
        what: String,
        /// One declaration or definition.
        first: PartLine,
        /// The other one.
        second: PartLine,
    },
    /// A module uses what none defines.
    #[error(
        "`{symbol}` is used and no module defines it: {place} (add a module that defines it as `.visible`)"
    )]
    Unresolved {
        /// The name.
        symbol: String,
        /// Where it is declared.
        place: PartLine,
    },
    /// A label has the name of another module's symbol, which would be meant where the label is used.
    #[error(
        "`{symbol}` is a label in {part}, used above its place, and a symbol in {place}; rename one"
    )]
    Hidden {
        /// The name.
        symbol: String,
        /// The module with the label.
        part: String,
        /// The symbol.
        place: PartLine,
    },
    /// A symbol has a name that PTX itself gives a meaning to.
    #[error("`{symbol}` is a predefined name and cannot be linked: {place} (rename it)")]
    Predefined {
        /// The name.
        symbol: String,
        /// The symbol.
        place: PartLine,
    },
    /// The headers contradict each other.
    #[error("{first} and {second} cannot be linked: {what} (compile both with the same options)")]
    Header {
        /// One module.
        first: String,
        /// The other one.
        second: String,
        /// In what they differ.
        what: String,
    },
    /// A `.target` names no architecture.
    #[error("{part}: the target `{target}` names no architecture; write one such as `sm_80`")]
    Target {
        /// The module.
        part: String,
        /// What it says.
        target: String,
    },
    /// A module declares more names than one of its length can have.
    #[error(
        "{part}: more variables and functions than a module of this length can have; delete unused ones"
    )]
    TooManyNames {
        /// The module.
        part: String,
    },
    /// The linked text would be over the limit of a module.
    #[error("the linked module is longer than 64 MiB; link fewer modules")]
    TooLarge,
    /// Each part is valid, and the linked module is not.
    #[error("the linked module: {0}")]
    Linked(Box<ParseError>),
}
