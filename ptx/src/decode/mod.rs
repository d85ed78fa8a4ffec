//! The typed view of a PTX module: what the analyses and the SM model read.
//!
//! Rules: a [`Program`] owns all of its data (no borrow of the source), every instruction keeps the [`Span`] it
//! came from, registers are dense indices per function, labels are instruction indices, and nothing here knows
//! how an instruction is executed or timed.

mod aliases;
mod conform;
mod family;
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
#[cfg(debug_assertions)]
pub(crate) mod verify;

pub use inst::*;
pub use program::*;
pub use register_names::RegisterNames;

pub use crate::words::*;

use crate::error::{Fault, ParseError};
use crate::syntax::module::Module;

impl Module {
    /// Returns the typed view.
    ///
    /// # Errors
    /// A declaration or operand that is malformed in a way that the lossless layer does not look at: a variable
    /// that is too large, an initialiser that does not fit, a type that contradicts the use.
    pub fn decode(&self) -> Result<Program, ParseError> {
        module::decode(self).map_err(|fault| fault.locate(self.source()))
    }

    /// Returns the typed view of each function for itself: an instruction that is malformed stands there as
    /// [`Opcode::Other`], and the first such of each function is handed back.
    ///
    /// # Errors
    /// As [`Module::decode`], but for instructions.
    pub fn decode_each(&self) -> Result<(Program, Vec<(FuncId, ParseError)>), ParseError> {
        let (program, faults) =
            module::decode_each(self).map_err(|fault| fault.locate(self.source()))?;
        let located = |(id, fault): (FuncId, Fault)| (id, fault.locate(self.source()));
        Ok((program, faults.into_iter().map(located).collect()))
    }
}
