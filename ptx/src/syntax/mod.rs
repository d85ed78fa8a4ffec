//! The lossless layer: bytes, tokens, statements, functions.
//!
//! Data flows down the list: `lex` makes tokens and interns their names, `parse` makes statements and checks the
//! names' declarations with `names`, `module` holds the result and prints it. The decoder reads the same tokens
//! through the same `cursor`, `declaration` and `constant`.

pub(crate) mod constant;
pub(crate) mod cursor;
mod debug;
pub(crate) mod declaration;
pub(crate) mod intern;
pub(crate) mod lex;
pub(crate) mod module;
pub(crate) mod names;
mod operands;
mod parse;
pub(crate) mod uses;
pub(crate) mod vocabulary;
