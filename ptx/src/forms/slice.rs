//! The `slice` form: a kernel that can be launched in sub-boxes of its grid (Kernelet, section 4.1).
//!
//! Every read of `%ctaid` gets the sub-box's offset added, every read of `%nctaid` becomes a read of the original
//! grid, both from the control block (PTX ISA section 10, DESIGN «Kernel forms»). All text is added on the line it
//! belongs to, so line numbers stay:
//!
//! ```text
//! mov.u32 %r3, %ctaid.x;   →  mov.u32 %r3, %ctaid.x; ld.param.u32 %t, [control+0]; add.u32 %r3, %r3, %t;
//! mov.u32 %r4, %nctaid.y;  →  ld.param.u32 %r4, [control+16];
//! ```
//!
//! One temporary serves the whole kernel; after `ptxas` it is an operand from the constant bank and costs nothing.
//! Reads are found among the tokens rather than the decoded operands, so that an instruction that the typed layer
//! does not know cannot hide one.

use super::reach::{self, Calls};
use super::{Form, KernelForm, Reason, Refusal, Rewritten};
use crate::control::{
    CONTROL_ALIGN, CONTROL_BYTES, GRID_AT, MAX_LARGE_PARAMS_BYTES, MAX_PARAMS_BYTES, OFFSET_AT,
    param_offset,
};
use crate::decode::{
    FuncId, Function, Instruction, Opcode, Operand, Program, ScalarType, Span, SpecialReg, Symbol,
};
use crate::rewrite::Edits;
use crate::syntax::lex::kind;
use crate::syntax::module::{FunctionSyntax, Lines, Module, StatementKind};
use crate::syntax::vocabulary::VOCABULARY;
use std::collections::HashMap;

/// A read of the grid to rewrite.
struct Read {
    span: Span,
    destination: String,
    register: GridRegister,
    axis: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GridRegister {
    Ctaid,
    Nctaid,
}

/// What one function does itself.
#[derive(Default)]
struct Facts {
    reads: Vec<Read>,
    /// First reason, with its byte offset.
    refusal: Option<(Reason, u32)>,
    /// First read, for functions that a kernel calls.
    reads_register: Option<(&'static str, u32)>,
}

/// The module's kernels judged: for each function what it reads, or why it cannot be sliced.
pub struct Judgement {
    facts: Vec<Facts>,
    /// By function; `None` where the form can be taken.
    refusals: Vec<Option<Refusal>>,
}

impl Judgement {
    /// Why the kernel cannot be sliced, or `None` when it can.
    #[must_use]
    pub fn refusal(&self, kernel: FuncId) -> Option<&Refusal> {
        self.refusals.get(kernel.0 as usize)?.as_ref()
    }
}

/// Judges every function of the module. `program` must be the module's own decoding.
#[must_use]
pub fn judge(module: &Module, program: &Program) -> Judgement {
    let lines = module.lines();
    let indices = indices(program);
    let mut facts: Vec<Facts> = program.functions.iter().map(|_| Facts::default()).collect();
    for syntax in module.functions.iter().filter(|s| s.has_body) {
        if let Some(&n) = indices.get(module.name_of(syntax)) {
            facts[n] = examine(module, program, syntax, &program.functions[n]);
        }
    }
    let calls = Calls::new(program);
    let refusals = refusals(program, &facts, &calls, &lines);
    Judgement { facts, refusals }
}

/// Index in the program of each function's name.
fn indices(program: &Program) -> HashMap<&str, usize> {
    let names = program.functions.iter().map(|f| f.name.as_str());
    names.zip(0..).collect()
}

fn examine(
    module: &Module,
    program: &Program,
    syntax: &FunctionSyntax,
    function: &Function,
) -> Facts {
    let mut facts = Facts::default();
    examine_header(module, syntax, &mut facts);
    let instructions = module
        .statements_in(syntax.statements.0, syntax.statements.1)
        .filter(|s| s.kind == StatementKind::Instruction);
    for (statement, instruction) in instructions.zip(&function.body) {
        examine_opcode(program, instruction, &mut facts);
        let tokens = &module.cursor(0).tokens[statement.first..statement.end];
        for token in tokens.iter().filter(|t| t.kind() == kind::NAME) {
            if let Some(special) = VOCABULARY.special(token.sym()) {
                examine_special(function, instruction, special, token.start, &mut facts);
            }
        }
    }
    facts
}

fn refuse(facts: &mut Facts, reason: Reason, offset: u32) {
    facts.refusal.get_or_insert((reason, offset));
}

fn examine_header(module: &Module, syntax: &FunctionSyntax, facts: &mut Facts) {
    let c = module.cursor(0);
    for token in &c.tokens[syntax.params.1..syntax.header_end] {
        if token.kind() == kind::DOT {
            let name = c.name(token.sym());
            if matches!(
                name,
                "explicitcluster" | "reqnctapercluster" | "maxclusterrank" | "blocksareclusters"
            ) {
                let what = format!(".{name}");
                refuse(facts, Reason::Cluster { what }, token.start);
            }
        }
    }
}

fn examine_opcode(program: &Program, i: &Instruction, facts: &mut Facts) {
    let name = &*i.mnemonic;
    if name.starts_with("barrier.cluster")
        || name.starts_with("mapa")
        || name.starts_with("getctarank")
    {
        let what = name.to_owned();
        refuse(facts, Reason::Cluster { what }, i.span.start);
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
        if reach::launches_kernels(&what) {
            refuse(facts, Reason::DeviceLaunch { what }, i.span.start);
        } else if reach::synchronises_grid(&what) {
            refuse(facts, Reason::GridSync { what }, i.span.start);
        } else if !reach::HARMLESS_EXTERNALS.contains(&what.as_str()) {
            refuse(facts, Reason::ExternalCall { function: what }, i.span.start);
        }
    }
}

fn examine_special(
    function: &Function,
    i: &Instruction,
    special: SpecialReg,
    offset: u32,
    facts: &mut Facts,
) {
    use SpecialReg as S;
    match special {
        S::Envreg(n) => {
            let what = format!("%envreg{n}");
            refuse(facts, Reason::GridSync { what }, offset);
        }
        S::Gridid => refuse(facts, Reason::GridId, offset),
        S::Clusterid(_)
        | S::Nclusterid(_)
        | S::ClusterCtaid(_)
        | S::ClusterNctaid(_)
        | S::ClusterCtarank
        | S::ClusterNctarank
        | S::IsExplicitCluster => {
            let what = "%cluster".to_owned();
            refuse(facts, Reason::Cluster { what }, offset);
        }
        S::Ctaid(_) => examine_read(function, i, GridRegister::Ctaid, offset, facts),
        S::Nctaid(_) => examine_read(function, i, GridRegister::Nctaid, offset, facts),
        _ => {}
    }
}

fn examine_read(
    function: &Function,
    i: &Instruction,
    register: GridRegister,
    offset: u32,
    facts: &mut Facts,
) {
    let name = match register {
        GridRegister::Ctaid => "%ctaid",
        GridRegister::Nctaid => "%nctaid",
    };
    facts.reads_register.get_or_insert((name, offset));
    match plain_read(function, i, register) {
        Some(read) => facts.reads.push(read),
        None => refuse(
            facts,
            Reason::UnusualRead {
                register: name.to_owned(),
            },
            offset,
        ),
    }
}

/// The read when the instruction is `mov.{u,s,b}32 %r, %ctaid.{x,y,z};` without a guard.
fn plain_read(function: &Function, i: &Instruction, register: GridRegister) -> Option<Read> {
    let axis = match (register, i.operands.as_slice()) {
        (GridRegister::Ctaid, [_, Operand::Special(SpecialReg::Ctaid(axis))])
        | (GridRegister::Nctaid, [_, Operand::Special(SpecialReg::Nctaid(axis))]) => {
            u32::from(*axis)
        }
        _ => return None,
    };
    let Operand::Reg(destination) = i.operands[0] else {
        return None;
    };
    let is_plain = i.opcode == Opcode::Mov
        && i.guard.is_none()
        && matches!(&*i.mnemonic, "mov.u32" | "mov.s32" | "mov.b32")
        && matches!(
            function.registers[destination.0 as usize],
            ScalarType::U32 | ScalarType::S32 | ScalarType::B32
        );
    (is_plain && axis < 3).then(|| Read {
        span: i.span,
        destination: function.register_names[destination.0 as usize].clone(),
        register,
        axis,
    })
}

fn refusals(
    program: &Program,
    facts: &[Facts],
    calls: &Calls,
    lines: &Lines,
) -> Vec<Option<Refusal>> {
    // What a function does to its callers: its own refusal, or a read that it cannot rectify.
    let own = program.functions.iter().zip(facts).map(|(function, f)| {
        f.refusal.clone().or_else(|| {
            let (register, offset) = f.reads_register.filter(|_| !function.is_entry)?;
            let function = function.name.clone();
            let register = register.to_owned();
            Some((Reason::CalleeReads { function, register }, offset))
        })
    });
    let spread = calls.spread(own.collect());
    let limit = params_limit(program);
    (spread.into_iter().zip(&program.functions).enumerate())
        .map(|(n, (refusal, function))| {
            let start = function.span.start;
            let full = || {
                let bytes = function.params_bytes;
                let full =
                    u64::from(param_offset(function)) + u64::from(CONTROL_BYTES) > u64::from(limit);
                full.then_some((Reason::ParametersFull { bytes, limit }, start))
            };
            let taken = || {
                (function.is_entry && calls.address_taken[n])
                    .then_some((Reason::AddressTaken, start))
            };
            let (reason, offset) = refusal.or_else(full).or_else(taken)?;
            Some(Refusal {
                reason,
                line: lines.line(offset),
            })
        })
        .collect()
}

/// Bytes of parameters that this `.version` and `.target` allow (PTX ISA section 5.1.6.1).
fn params_limit(program: &Program) -> u32 {
    let sm = program.target.strip_prefix("sm_").unwrap_or("");
    let digits = sm.find(|c: char| !c.is_ascii_digit()).unwrap_or(sm.len());
    let sm: u32 = sm[..digits].parse().unwrap_or(0);
    if program.version >= (8, 1) && sm >= 70 {
        MAX_LARGE_PARAMS_BYTES
    } else {
        MAX_PARAMS_BYTES
    }
}

/// Makes the form for every kernel that can take it; the others, and everything else, stay as they are.
#[must_use]
pub fn rewrite(module: &Module, program: &Program) -> Rewritten {
    let judgement = judge(module, program);
    let names = Added::new(module);
    let indices = indices(program);
    let mut edits = Edits::new();
    for syntax in module.functions.iter().filter(|s| s.is_entry) {
        // A forward declaration gets the parameter as its definition does.
        let Some(&n) = indices.get(module.name_of(syntax)) else {
            continue;
        };
        if judgement.refusals[n].is_none() && program.functions[n].is_defined {
            add_parameter(module, syntax, &names, &mut edits);
            if syntax.has_body {
                rectify(module, syntax, &judgement.facts[n], &names, &mut edits);
            }
        }
    }
    let kernels = (program.functions.iter().enumerate())
        .filter(|(_, f)| f.is_entry && f.is_defined)
        .map(|(n, f)| kernel_form(f, judgement.refusals[n].clone()))
        .collect();
    Rewritten {
        bytes: edits.apply(module),
        kernels,
    }
}

fn kernel_form(function: &Function, reason: Option<Refusal>) -> KernelForm {
    let control_offset = reason.is_none().then(|| param_offset(function));
    KernelForm {
        name: function.name.clone(),
        form: if reason.is_none() {
            Form::Slice
        } else {
            Form::Whole
        },
        params_bytes: control_offset.map_or(function.params_bytes, |at| at + CONTROL_BYTES),
        control_offset,
        reason,
    }
}

/// Names that the rewrite adds; neither occurs in the module.
struct Added {
    control: String,
    temporary: String,
}

impl Added {
    fn new(module: &Module) -> Self {
        Self {
            control: module.unused_name("gridmux_control"),
            temporary: module.unused_name("%gridmux_t"),
        }
    }
}

fn add_parameter(module: &Module, syntax: &FunctionSyntax, names: &Added, edits: &mut Edits) {
    let parameter = format!(
        ".param .align {CONTROL_ALIGN} .b8 {}[{CONTROL_BYTES}]",
        names.control
    );
    let (open, end) = syntax.params;
    match end - open {
        // No list at all: it goes behind the name.
        0 => edits.insert(
            module.token_span(open - 1, open).end,
            format!("({parameter})"),
        ),
        // `()`.
        2 => edits.insert(module.token_span(end - 1, end).start, parameter),
        _ => edits.insert(
            module.token_span(open, end - 1).end,
            format!(", {parameter}"),
        ),
    }
}

fn rectify(
    module: &Module,
    syntax: &FunctionSyntax,
    facts: &Facts,
    names: &Added,
    edits: &mut Edits,
) {
    let control = &names.control;
    let t = &names.temporary;
    if facts
        .reads
        .iter()
        .any(|r| r.register == GridRegister::Ctaid)
    {
        let brace = module
            .token_span(syntax.header_end, syntax.header_end + 1)
            .end;
        edits.insert(brace, format!(" .reg .b32 {t};"));
    }
    for read in &facts.reads {
        let r = &read.destination;
        match read.register {
            GridRegister::Ctaid => {
                let at = OFFSET_AT + 4 * read.axis;
                edits.insert(
                    read.span.end,
                    format!(" ld.param.u32 {t}, [{control}+{at}]; add.u32 {r}, {r}, {t};"),
                );
            }
            GridRegister::Nctaid => {
                let at = GRID_AT + 4 * read.axis;
                edits.replace(read.span, format!("ld.param.u32 {r}, [{control}+{at}];"));
            }
        }
    }
}
