//! From a decoded PTX program to kernels: place variables, find reconvergence points, give registers their
//! slots, lower each instruction to one operation.
//!
//! Rule: whatever the model cannot execute is refused here, naming the instruction and its line; nothing is
//! left to fail while running that can be known now.

mod flow;
mod operands;
mod slots;
mod variables;

use crate::config::GpuConfig;
use crate::exec::{self, Lower, NONE, Op};
use crate::kernel::{Kernel, KernelParam, LoadedModule, Origin};
use crate::memory::{DomainId, Memory, MemoryError};
use flow::Flow;
use gridmux_ptx::analysis::registers_estimate;
use gridmux_ptx::decode::{Function, Instruction, Opcode, Program, Span};
use std::sync::Arc;
use variables::Placed;

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
    /// The kernel's local memory would exhaust the host.
    #[error(
        "kernel '{kernel}' uses {bytes} bytes of local memory a thread, the model gives at most 8192"
    )]
    TooMuchLocalMemory {
        /// Kernel.
        kernel: String,
        /// Bytes of one thread.
        bytes: u32,
    },
}

/// Local memory of one thread, in bytes; all resident threads of a large GPU have theirs at once.
const MAX_LOCAL_BYTES: u32 = 8192;

/// Lines of a PTX text.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &[u8]) -> Self {
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    /// Line of a span, from 1.
    fn of(&self, span: Span) -> u32 {
        let before = self.0.partition_point(|end| *end < span.start as usize);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}

/// Loads a program: places and initialises its variables and compiles its kernels.
pub(crate) fn load(
    config: &GpuConfig,
    memory: &mut Memory,
    domain: DomainId,
    program: &Program,
    text: &[u8],
) -> Result<LoadedModule, LoadError> {
    let lines = Lines::new(text);
    // Kernels are compiled before anything is placed for good, so that a refusal leaves no trace.
    let placed = variables::place(memory, domain, program, &lines)?;
    let kernels: Result<Vec<_>, _> = program
        .functions
        .iter()
        .filter(|f| f.is_entry && f.is_defined)
        .map(|f| compile(config, domain, program, f, &placed, &lines).map(Arc::new))
        .collect();
    match kernels {
        Ok(kernels) => Ok(LoadedModule {
            domain,
            kernels,
            variables: placed.into_variables(),
        }),
        Err(error) => {
            placed.free(memory, domain);
            Err(error)
        }
    }
}

fn compile(
    config: &GpuConfig,
    domain: DomainId,
    program: &Program,
    function: &Function,
    placed: &Placed,
    lines: &Lines,
) -> Result<Kernel, LoadError> {
    let flow = Flow::new(&function.body);
    let mut slots = slots::assign(function, &flow);
    // The carry flag is one predicate more.
    let carries = function.body.iter().any(exec::uses_carry);
    slots.predicates += usize::from(carries);
    let scoreboard = slots.slots + slots.predicates;
    if scoreboard >= usize::from(NONE) {
        return Err(LoadError::TooManyRegisters {
            kernel: function.name.clone(),
            slots: scoreboard,
        });
    }
    let slot_count = u16::try_from(slots.slots).unwrap_or(NONE);
    let layout = placed.layout(program, function);
    let mut lower = Lower::new(
        function,
        &layout.addresses,
        &slots.place,
        slot_count,
        &config.pipelines,
    );
    if carries {
        lower.carry = u16::try_from(slots.predicates - 1).ok();
    }
    let reconvergence = flow.reconvergence(&function.body);
    let mut ops = Vec::with_capacity(function.body.len() + 1);
    for (i, reconverge) in function.body.iter().zip(reconvergence) {
        let mut op = lower_one(&mut lower, i).ok_or_else(|| unsupported(function, i, lines))?;
        if i.opcode == Opcode::Bra {
            op.aux = reconverge;
        }
        ops.push(op);
    }
    ops.push(end_of_body(&lower));
    let constants = lower
        .into_constants()
        .ok_or_else(|| LoadError::TooManyRegisters {
            kernel: function.name.clone(),
            slots: usize::from(NONE) + 1,
        })?;
    if layout.local_bytes > MAX_LOCAL_BYTES {
        return Err(LoadError::TooMuchLocalMemory {
            kernel: function.name.clone(),
            bytes: layout.local_bytes,
        });
    }
    let registers = registers_estimate(function).min(config.sm.max_registers_per_thread);
    Ok(Kernel {
        name: function.name.as_str().into(),
        params_bytes: function.params_bytes,
        params: function.params.iter().map(param).collect(),
        static_shared_bytes: layout.shared_bytes,
        local_bytes: layout.local_bytes,
        registers_per_thread: registers.max(1),
        max_threads: function.bounds.max_threads,
        required_threads: function.bounds.required_threads,
        domain,
        origins: origins(function, lines),
        ops: ops.into(),
        constants,
        slots: slot_count,
        predicates: u16::try_from(slots.predicates).unwrap_or(NONE),
    })
}

fn lower_one(lower: &mut Lower<'_>, i: &Instruction) -> Option<Op> {
    let draft = exec::lower(lower, i)?;
    let registers = operands::registers(i);
    lower.finish(draft, i, &registers.reads, &registers.writes)
}

/// What stands behind the last instruction: the end of every thread that gets there.
fn end_of_body(lower: &Lower<'_>) -> Op {
    let ret = Instruction {
        guard: None,
        opcode: Opcode::Exit,
        mnemonic: "exit".into(),
        mods: Arc::default(),
        operands: smallvec::SmallVec::new(),
        source_line: None,
        span: Span::default(),
    };
    let finished = lower.finish(exec::exit(), &ret, &[], &[]);
    finished.unwrap_or_else(|| unreachable!("an operation without operands always fits"))
}

fn origins(function: &Function, lines: &Lines) -> Box<[Origin]> {
    let end = Origin {
        line: lines.of(Span {
            start: function.span.end.saturating_sub(1),
            end: function.span.end,
        }),
        source_line: None,
        mnemonic: "end of kernel".into(),
    };
    let of = |i: &Instruction| Origin {
        line: lines.of(i.span),
        source_line: i.source_line,
        mnemonic: (*i.mnemonic).into(),
    };
    function
        .body
        .iter()
        .map(of)
        .chain(std::iter::once(end))
        .collect()
}

fn param(p: &gridmux_ptx::decode::Param) -> KernelParam {
    KernelParam {
        name: p.name.clone(),
        ty: p.ty,
        offset: p.offset,
        bytes: p.size_bytes,
        align: p.align,
    }
}

fn unsupported(function: &Function, i: &Instruction, lines: &Lines) -> LoadError {
    LoadError::Unsupported {
        function: function.name.clone(),
        line: lines.of(i.span),
        mnemonic: i.mnemonic.to_string(),
    }
}
