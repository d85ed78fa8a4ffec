//! Why a module, or a kernel of one, cannot be loaded onto a modelled GPU.
//!
//! Rule: a message names what is refused, its line where there is one, and the limit that it exceeds. The execution
//! engine keeps these errors beside the kernels that it can run, so they belong neither to it nor to the compiler.

use crate::memory::MemoryError;
use gridmux_ptx::MAX_INSTRUCTIONS;

/// Why a module was refused.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The model does not execute this instruction.
    #[error("line {line}: '{mnemonic}' in '{function}' with these operands is not modelled")]
    Unsupported {
        /// Function.
        function: String,
        /// Line in the PTX text, from 1.
        line: u32,
        /// Instruction as written, without operands.
        mnemonic: String,
    },
    /// It calls a function that is neither defined nor one of the device's runtime that the model has.
    #[error("line {line}: '{caller}' calls '{callee}', which is not modelled{needed_for}")]
    Undefined {
        /// Line in the PTX text, from 1.
        line: u32,
        /// The calling function.
        caller: String,
        /// The function.
        callee: String,
        /// What it is needed for, in brackets, or nothing.
        needed_for: &'static str,
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
    /// The kernel needs more registers or literals than an operand can number.
    #[error(
        "kernel '{kernel}' needs {slots} slots for registers or literals, the model has 32767 of each"
    )]
    TooManyRegisters {
        /// Kernel.
        kernel: String,
        /// Slots needed.
        slots: usize,
    },
    /// The kernels of the module take too much room together.
    #[error(
        "kernel '{kernel}' and the functions it may call have {operations} instructions, and all kernels of a module \
         together may have {MAX_OPERATIONS}"
    )]
    TooLarge {
        /// Kernel.
        kernel: String,
        /// Its instructions, with those of the functions that it may call.
        operations: usize,
    },
    /// The kernel's static shared memory cannot be addressed.
    #[error(
        "kernel '{kernel}' declares {bytes} bytes of shared memory, more than 32-bit addresses reach"
    )]
    TooMuchSharedMemory {
        /// Kernel.
        kernel: String,
        /// Bytes of a block.
        bytes: u64,
    },
    /// The kernel's local memory would exhaust the host.
    #[error(
        "kernel '{kernel}' uses {bytes} bytes of local memory a thread, the model gives at most 65536"
    )]
    TooMuchLocalMemory {
        /// Kernel.
        kernel: String,
        /// Bytes of one thread.
        bytes: u32,
    },
}

/// Instructions that the kernels of a module may have together, each with those of every function it may call: twice as
/// many as a module may have itself.
pub(crate) const MAX_OPERATIONS: usize = 2 * MAX_INSTRUCTIONS;
