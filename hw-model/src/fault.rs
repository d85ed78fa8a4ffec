//! What went wrong inside a kernel, as a value: which kernel, block, thread, instruction and address.
//!
//! Rule: a fault ends its own launch and nothing else.

use crate::memory::{DomainId, Nearest, Partition};
use std::fmt;
use std::sync::Arc;

/// State space that a bad access aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultSpace {
    /// Global memory, also through a generic address.
    Global,
    /// The block's shared memory.
    Shared,
    /// The thread's local memory.
    Local,
    /// The constant bank or the parameter block.
    Constant,
}

impl fmt::Display for FaultSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Constant => "constant",
        })
    }
}

/// Kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// An access outside every allocation, or outside the block's or thread's own memory.
    OutOfBounds {
        /// A store or atomic rather than a load.
        write: bool,
        /// Where it aimed.
        space: FaultSpace,
        /// Bytes that one thread accessed.
        bytes: u32,
    },
    /// An address that is no multiple of the access's size (PTX ISA section 6.4.1).
    Misaligned {
        /// A store or atomic rather than a load.
        write: bool,
        /// Where it aimed.
        space: FaultSpace,
        /// Bytes that one thread accessed.
        bytes: u32,
    },
    /// Every thread that is left in the block waits at a barrier that can no longer complete.
    BarrierDeadlock,
    /// The launch ran longer than its budget.
    BudgetExceeded {
        /// The budget in cycles.
        budget_cycles: u64,
    },
    /// The launch, run without timing, executed more than its budget.
    InstructionBudgetExceeded {
        /// The budget in warp instructions.
        budget_instructions: u64,
    },
    /// `trap` was executed.
    Trap,
    /// `brkpt` was executed, and no debugger is there.
    Breakpoint,
    /// A barrier number above 15.
    BadBarrier {
        /// The number.
        id: u32,
    },
    /// A barrier's thread count that is zero or no multiple of 32 (PTX ISA section 9.7.13.1).
    BadBarrierCount {
        /// The count.
        threads: u32,
    },
    /// An mbarrier operation on something that is no initialised mbarrier object in shared memory.
    BadMbarrier,
    /// An indirect call of something that is no function of the module.
    BadCall,
    /// `brx.idx` with an index behind the end of its table.
    BadBranch {
        /// The index.
        index: u32,
        /// Entries of the table.
        targets: u32,
    },
    /// An assertion of the kernel failed; the note says which.
    Assertion,
    /// A read of shared memory that nobody in the block has written; found only where the GPU's description asks
    /// for the check.
    UninitialisedShared {
        /// Bytes that one thread read.
        bytes: u32,
    },
    /// Calls nest too deeply, or `alloca` asked for too much.
    StackOverflow {
        /// Local memory of one thread in bytes.
        limit: u32,
    },
}

/// A fault of one launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Kernel.
    pub kernel: Arc<str>,
    /// Block.
    pub block: [u32; 3],
    /// Thread inside the block.
    pub thread: [u32; 3],
    /// The function that it happened in, when that is not the kernel itself.
    pub function: Option<Arc<str>>,
    /// Line of the instruction in the PTX text, from 1; 0 where the text is not at hand.
    pub ptx_line: u32,
    /// File index and line of the nearest `.loc`.
    pub source_line: Option<(u32, u32)>,
    /// Name of that file, where a `.file` directive gives it.
    pub source_file: Option<Arc<str>>,
    /// The instruction as written, without operands.
    pub mnemonic: Arc<str>,
    /// The address, for faults that have one.
    pub address: Option<u64>,
    /// Allocation nearest to the address.
    pub nearest: Option<Nearest>,
    /// The other domain in whose window the address lies. What is allocated there is nobody's business here.
    pub lies_in: Option<DomainId>,
    /// The tenant's partition that the address lies in, its guard zones included, whichever domain has it.
    pub partition: Option<Partition>,
    /// Name of the module's variable that the nearest allocation is; `None` for one that the host made.
    pub owner: Option<Box<str>>,
    /// What else there is to say: who waits where in a deadlock, the text of an assertion.
    pub note: Option<Box<str>>,
    /// What happened.
    pub kind: FaultKind,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bx, by, bz] = self.block;
        let [tx, ty, tz] = self.thread;
        write!(
            f,
            "kernel '{}', block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), PTX line {} ({}",
            self.kernel, self.ptx_line, self.mnemonic
        )?;
        match &self.function {
            Some(function) => write!(f, " in function '{function}'): ")?,
            None => f.write_str("): ")?,
        }
        self.say_kind(f)?;
        if let Some(note) = &self.note {
            write!(f, ": {note}")?;
        }
        if let Some(nearest) = self.nearest {
            write!(f, "; {nearest}")?;
        }
        if let Some(owner) = &self.owner {
            write!(f, ", the module's variable '{owner}'")?;
        }
        if self.lies_in.is_some() {
            f.write_str("; the address belongs to another client")?;
        }
        if let Some(partition) = self.partition {
            let base = partition.base;
            write!(f, "; the address lies in the partition at {base:#x}")?;
        }
        match (self.source_line, &self.source_file) {
            (Some((_, line)), Some(name)) => write!(f, " (source file {name}, line {line})"),
            (Some((file, line)), None) => write!(f, " (source file {file}, line {line})"),
            (None, _) => Ok(()),
        }
    }
}

impl Fault {
    /// Moves the block by the first block of the slice that was launched, so that it is the one of the whole grid.
    pub fn move_block(&mut self, first: [u32; 3]) {
        for (at, first) in self.block.iter_mut().zip(first) {
            *at = at.saturating_add(first);
        }
    }

    /// What happened, without where.
    // Length: one sentence per kind of fault.
    fn say_kind(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.unwrap_or(0);
        match self.kind {
            FaultKind::OutOfBounds {
                write,
                space,
                bytes,
            } => {
                let verb = if write { "wrote" } else { "read" };
                write!(
                    f,
                    "it {verb} {bytes} bytes of {space} memory out of bounds at {address:#x}"
                )?;
            }
            FaultKind::Misaligned {
                write,
                space,
                bytes,
            } => {
                let verb = if write { "wrote" } else { "read" };
                write!(
                    f,
                    "it {verb} {bytes} bytes of {space} memory at {address:#x}, which is not a multiple of {bytes}"
                )?;
            }
            FaultKind::UninitialisedShared { bytes } => {
                write!(
                    f,
                    "it read {bytes} bytes of shared memory at {address:#x} that no thread of the block has written"
                )?;
            }
            FaultKind::BarrierDeadlock => {
                f.write_str(
                    "every thread left in the block waits at a barrier that can never complete",
                )?;
            }
            FaultKind::BudgetExceeded { budget_cycles } => {
                write!(
                    f,
                    "the launch exceeded its budget of {budget_cycles} cycles"
                )?;
            }
            FaultKind::InstructionBudgetExceeded {
                budget_instructions,
            } => {
                write!(
                    f,
                    "the launch exceeded its budget of {budget_instructions} warp instructions"
                )?;
            }
            FaultKind::Trap => f.write_str("it executed a trap")?,
            FaultKind::Breakpoint => {
                f.write_str("it executed a breakpoint, and there is no debugger")?
            }
            FaultKind::BadBarrierCount { threads } => {
                write!(
                    f,
                    "{threads} threads were named for a barrier; the count is a multiple of 32 above 0"
                )?;
            }
            FaultKind::BadMbarrier => {
                f.write_str(
                    "it used an mbarrier object that was not initialised in shared memory",
                )?;
            }
            FaultKind::BadCall => {
                write!(
                    f,
                    "it called {address:#x}, which is no function of the module"
                )?;
            }
            FaultKind::BadBranch { index, targets } => {
                write!(f, "it branched to entry {index} of a table of {targets}")?;
            }
            FaultKind::Assertion => f.write_str("an assertion failed")?,
            FaultKind::StackOverflow { limit } => {
                write!(
                    f,
                    "the thread's stack overflowed; it has {limit} bytes of local memory"
                )?;
            }
            FaultKind::BadBarrier { id } => {
                write!(f, "barrier {id} was named; a block has barriers 0 to 15")?;
            }
        }
        Ok(())
    }
}
