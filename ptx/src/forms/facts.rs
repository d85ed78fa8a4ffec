//! What one function does itself that a form has to know: reads of the grid, and what forbids cutting the launch.
//!
//! In an instruction that the typed layer does not know, special registers are found among the tokens, so that it
//! cannot hide one.

use super::Reason;
use super::carry;
use crate::decode::{
    Function, Instruction, Opcode, Operand, Program, ScalarType, Span, SpecialReg, Symbol,
};
use crate::syntax::lex::kind;
use crate::syntax::module::{FunctionSyntax, Module, StatementKind};
use crate::syntax::vocabulary::VOCABULARY;
use std::collections::HashMap;

/// Functions of the device runtime that are defined by the driver and do not depend on the grid.
const HARMLESS_EXTERNALS: &[&str] = &["vprintf", "malloc", "free", "__assertfail"];

/// Returns whether a function by that name launches kernels from the device.
fn launches_kernels(name: &str) -> bool {
    [
        "cudaLaunch",
        "cudaGetParameterBuffer",
        "__cudaCDP",
        "cudaDeviceSynchronize",
        "__cudaDeviceSynchronize",
    ]
    .iter()
    .any(|p| name.starts_with(p))
}

/// Returns whether a function by that name is cooperative groups' grid barrier.
fn synchronises_grid(name: &str) -> bool {
    name.starts_with("cudaCG")
}

/// A register that tells a block where it is in its grid (PTX ISA sections 10.6 and 10.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GridRegister {
    Ctaid,
    Nctaid,
}

/// A read of the grid to rewrite.
#[derive(Debug)]
pub(crate) struct Read {
    /// Index of the instruction.
    pub(crate) instruction: u32,
    /// The special register's own text, `%ctaid.x`.
    pub(crate) span: Span,
    pub(crate) register: GridRegister,
    pub(crate) axis: u8,
    /// The destination of an unguarded 32-bit `mov` into an integer register, which can hold what it takes to get the
    /// value; any other read goes through a temporary.
    pub(crate) into: Option<String>,
}

/// A read of the size of dynamic shared memory, which `worker` makes larger.
#[derive(Debug)]
pub(crate) struct SizeRead {
    /// Index of the instruction.
    pub(crate) instruction: u32,
    /// Where the text stands.
    pub(crate) span: Span,
}

/// A reason with the byte offset of what it is about.
pub(crate) type Found = (Reason, u32);

/// What one function does itself.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) reads: Vec<Read>,
    /// First reason against every shape but `whole`.
    pub(crate) refusal: Option<Found>,
    /// It uses cooperative groups' grid barrier.
    pub(crate) syncs_grid: bool,
    pub(crate) size_reads: Vec<SizeRead>,
    /// First read of the size of dynamic shared memory that cannot be set right.
    pub(crate) unusual_size_read: Option<Found>,
    /// First read of the size of all shared memory, which the driver's own is part of.
    pub(crate) total_size_read: Option<Found>,
}

/// Looks through a function's header and body.
pub(crate) fn examine(
    module: &Module,
    program: &Program,
    syntax: &FunctionSyntax,
    function: &Function,
) -> Facts {
    let mut facts = Facts::default();
    header(module, syntax, &mut facts);
    let instructions = module
        .statements_in(syntax.statements.0, syntax.statements.1)
        .filter(|s| s.kind == StatementKind::Instruction);
    let c = module.cursor(0);
    for ((n, statement), instruction) in (0..).zip(instructions).zip(&function.body) {
        opcode(program, instruction, &mut facts);
        if instruction.mnemonic.starts_with("call")
            && (instruction.opcode != Opcode::Call
                || carry::argument_place(module, statement).is_none())
        {
            refuse(&mut facts, Reason::UnusualCall, instruction.span.start);
        }
        if instruction.opcode != Opcode::Other && !instruction.operands.iter().any(names_special) {
            continue;
        }
        let tokens = &c.tokens[statement.first..statement.end];
        for (at, token) in tokens
            .iter()
            .enumerate()
            .filter(|(_, t)| t.kind() == kind::NAME)
        {
            if let Some(register) = VOCABULARY.special(token.sym()) {
                // With its axis, `.x`.
                let has_axis = tokens.get(at + 1).is_some_and(|t| t.kind() == kind::DOT);
                let first = statement.first + at;
                let span = module.token_span(first, first + 1 + usize::from(has_axis));
                let axis = has_axis.then(|| c.name(tokens[at + 1].sym()));
                special(
                    function,
                    instruction,
                    (n, span),
                    (register, axis),
                    &mut facts,
                );
            }
        }
    }
    facts
}

/// Returns the index in the program of each function, by its name.
pub(crate) fn indices(program: &Program) -> HashMap<&str, usize> {
    let names = program.functions.iter().map(|f| f.name.as_str());
    names.zip(0..).collect()
}

/// Returns whether an operand that the typed layer knows names a special register.
fn names_special(operand: &Operand) -> bool {
    match operand {
        Operand::Special(_) => true,
        Operand::Vector(list) => list.iter().any(names_special),
        Operand::Arguments(list) => list.iter().any(names_special),
        // What stands in brackets behind a comma is looked at token by token.
        Operand::TexAddress(_) => true,
        _ => false,
    }
}

fn refuse(facts: &mut Facts, reason: Reason, offset: u32) {
    facts.syncs_grid |= matches!(reason, Reason::GridSync(_));
    facts.refusal.get_or_insert((reason, offset));
}

fn header(module: &Module, syntax: &FunctionSyntax, facts: &mut Facts) {
    let c = module.cursor(0);
    for token in &c.tokens[syntax.params.1..syntax.header_end] {
        if token.kind() == kind::DOT {
            let name = c.name(token.sym());
            if matches!(
                name,
                "explicitcluster" | "reqnctapercluster" | "maxclusterrank" | "blocksareclusters"
            ) {
                let what = format!(".{name}");
                refuse(facts, Reason::Cluster(what), token.start);
            }
        }
    }
}

fn opcode(program: &Program, i: &Instruction, facts: &mut Facts) {
    let name = &*i.mnemonic;
    let prefix = match name.as_bytes().first() {
        Some(b'b') => "barrier.cluster",
        Some(b'm') => "mapa",
        Some(b'g') => "getctarank",
        Some(b'c') => "clusterlaunchcontrol",
        _ => return,
    };
    if name.starts_with(prefix) {
        let what = name.to_owned();
        refuse(facts, Reason::Cluster(what), i.span.start);
    }
    if i.opcode != Opcode::Call {
        return;
    }
    if let Some(Operand::Symbol {
        symbol: Symbol::Function(f),
        ..
    }) = i.operands.get(1)
    {
        let callee = &program.functions[f.0 as usize];
        if callee.is_defined {
            return;
        }
        let what = callee.name.clone();
        if launches_kernels(&what) {
            refuse(facts, Reason::DeviceLaunch(what), i.span.start);
        } else if synchronises_grid(&what) {
            refuse(facts, Reason::GridSync(what), i.span.start);
        } else if !HARMLESS_EXTERNALS.contains(&what.as_str()) {
            refuse(facts, Reason::ExternalCall(what), i.span.start);
        }
    }
}

fn special(
    function: &Function,
    i: &Instruction,
    (instruction, span): (u32, Span),
    (register, axis): (SpecialReg, Option<&str>),
    facts: &mut Facts,
) {
    use SpecialReg as S;
    let offset = span.start;
    let register = match register {
        S::Ctaid(_) => GridRegister::Ctaid,
        S::Nctaid(_) => GridRegister::Nctaid,
        S::DynamicSmemSize => {
            if reads_32_bits(i) {
                facts.size_reads.push(SizeRead { instruction, span });
            } else {
                let register = "%dynamic_smem_size".to_owned();
                let reason = Reason::UnusualRead(register);
                facts.unusual_size_read.get_or_insert((reason, offset));
            }
            return;
        }
        S::TotalSmemSize => {
            let what = "%total_smem_size".to_owned();
            let reason = Reason::SharedSize(what);
            facts.total_size_read.get_or_insert((reason, offset));
            return;
        }
        S::Envreg(n) => {
            let what = format!("%envreg{n}");
            return refuse(facts, Reason::GridSync(what), offset);
        }
        S::Gridid => return refuse(facts, Reason::GridId, offset),
        S::Clusterid(_)
        | S::Nclusterid(_)
        | S::ClusterCtaid(_)
        | S::ClusterNctaid(_)
        | S::ClusterCtarank
        | S::ClusterNctarank
        | S::IsExplicitCluster => {
            let what = "%cluster".to_owned();
            return refuse(facts, Reason::Cluster(what), offset);
        }
        _ => return,
    };
    let axis = match axis {
        Some("x") => 0,
        Some("y") => 1,
        Some("z") => 2,
        _ => 3,
    };
    if axis == 3 || !reads_32_bits(i) {
        let register = match register {
            GridRegister::Ctaid => "%ctaid".to_owned(),
            GridRegister::Nctaid => "%nctaid".to_owned(),
        };
        return refuse(facts, Reason::UnusualRead(register), offset);
    }
    facts.reads.push(Read {
        instruction,
        span,
        register,
        axis,
        into: plain_destination(function, i),
    });
}

/// Returns whether the instruction takes 32 bits of each special register that it names: a `mov` of 32 bits, a `mov`
/// that packs a vector of them, or a `cvt` from a 32-bit integer. No other instruction may name one (`ptxas` 13.5
/// accepts `mov` and `cvt` alone).
fn reads_32_bits(i: &Instruction) -> bool {
    use ScalarType as T;
    let words = |t: &T| matches!(t, T::B32 | T::U32 | T::S32);
    match (i.opcode, i.operands.as_slice(), i.mods.types.as_slice()) {
        (Opcode::Mov, [Operand::Reg(_), Operand::Special(_)], [t]) => {
            i.mods.vector == 0 && words(t)
        }
        (Opcode::Mov, [Operand::Reg(_), Operand::Vector(parts)], [T::B64 | T::U64 | T::S64]) => {
            parts.len() == 2
        }
        (Opcode::Mov, [Operand::Reg(_), Operand::Vector(parts)], [T::B128]) => parts.len() == 4,
        (Opcode::Cvt, [Operand::Reg(_), Operand::Special(_)], [_, from]) => words(from),
        _ => false,
    }
}

/// Returns the destination's name when it can hold a 32-bit integer on the way to the value.
fn plain_destination(function: &Function, i: &Instruction) -> Option<String> {
    let [Operand::Reg(destination), Operand::Special(_)] = i.operands.as_slice() else {
        return None;
    };
    let is_plain = i.opcode == Opcode::Mov
        && i.guard.is_none()
        && matches!(
            function.registers[destination.0 as usize],
            ScalarType::U32 | ScalarType::S32 | ScalarType::B32
        );
    is_plain.then(|| function.register_names[destination.0 as usize].to_owned())
}
