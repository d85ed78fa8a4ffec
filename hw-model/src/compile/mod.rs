//! From a decoded PTX program to kernels: place variables, find reconvergence points, give registers their
//! slots, lower each instruction to one operation.
//!
//! Rule: whatever the model cannot execute is refused here, naming the instruction and its line; nothing is
//! left to fail while running that can be known now.

use crate::memory::MemoryError;

/// Why a module was refused.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The model does not execute this instruction.
    #[error("line {line}: '{mnemonic}' in '{function}' is not modelled{detail}")]
    Unsupported {
        /// Function.
        function: String,
        /// Line in the PTX text, from 1.
        line: u32,
        /// Instruction as written, without operands.
        mnemonic: String,
        /// What about it, starting with a separator, or nothing.
        detail: String,
    },
    /// A variable that the model cannot place.
    #[error("line {line}: variable '{name}' {reason}")]
    Variable {
        /// Name.
        name: String,
        /// Line in the PTX text, from 1.
        line: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// Its variables do not fit in the domain.
    #[error("the module's variables cannot be placed: {0}")]
    Memory(#[from] MemoryError),
    /// The kernel needs more registers than the model addresses.
    #[error("kernel '{kernel}' keeps {slots} register slots alive, the model addresses 32000")]
    TooManyRegisters {
        /// Kernel.
        kernel: String,
        /// Slots needed.
        slots: usize,
    },
}
