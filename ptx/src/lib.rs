//! PTX text in, PTX text out: lex, parse, link, analyse, rewrite, print.
//!
//! The crate has two layers. The lower one is lossless: tokens, statements, directives and scopes, each with its span
//! in the source; printing an unedited module gives back the same bytes, and linking is a list of edits to spans. The
//! upper one ([`decode`]) is a typed tree: the analyses and the SM model read it, [`forms`] change it, and
//! [`print`](mod@print) makes a text of it. It knows no device, no policy and no socket.

pub mod analysis;
pub mod check;
pub mod control;
pub mod decode;
mod error;
pub mod forms;
pub mod kernel;
pub mod link;
pub mod placed;
pub mod print;
pub mod rewrite;
mod syntax;
mod words;

pub use error::{ParseError, shown};
pub use kernel::Kernel;
pub use syntax::module::{
    BYTES_PER_FUNCTION, BYTES_PER_INSTRUCTION, FREE_BYTES, Lines, MAX_BYTES, MAX_INSTRUCTIONS,
    MAX_KERNELS, Module, StatementKind,
};
