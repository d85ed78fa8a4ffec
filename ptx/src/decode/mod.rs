//! The typed view of a PTX module: what the analyses and the SM model read.
//!
//! Rules: a [`Program`] owns all of its data (no borrow of the source), every instruction keeps the [`Span`] it
//! came from, registers are dense indices per function, labels are instruction indices, and nothing here knows
//! how an instruction is executed or timed.

mod conform;
mod function;
mod initialiser;
pub mod inst;
mod isa;
mod malformed;
mod mnemonic;
mod modifiers;
mod module;
mod needs;
mod opcode;
mod operand;
pub mod program;
mod register_names;
mod unknown;

pub use inst::*;
pub use program::*;
pub use register_names::RegisterNames;

pub(crate) use module::{decode, decode_each, is_opaque};
