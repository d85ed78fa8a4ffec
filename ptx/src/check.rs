//! What can be said of every kernel of a module: forms with reasons, resources, instruction mix.
//!
//! The structures serialise to the rows of `gridmux ptx check -j`; fields are only ever added.

use crate::ParseError;
use crate::analysis::{Flow, Mix, PostDominators, Uniformity, coalescing, effects, mix};
use crate::decode::{
    AddressBase, FuncId, Function, Opcode, Operand, Program, StateSpace, Symbol, VarId,
};
use crate::forms::{Form, FormVerdicts};
use crate::syntax::module::{Lines, Module};
use serde::Serialize;
use std::collections::BTreeMap;

/// One file, with what `K` holds of each kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileReport<K = KernelReport> {
    /// Its name as given.
    pub file: String,
    /// Why it is no valid module, or `None`.
    pub error: Option<ErrorReport>,
    /// Its kernels in source order; empty when there is an error.
    pub kernels: Vec<K>,
}

/// Where a module is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl From<&ParseError> for ErrorReport {
    fn from(e: &ParseError) -> Self {
        Self {
            line: e.line,
            column: e.column,
            message: e.message.clone(),
        }
    }
}

/// One kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelReport {
    /// Its name.
    pub name: String,
    /// Each form that exists, and whether the kernel can take it.
    pub forms: BTreeMap<Form, FormReport>,
    /// What a block of it needs.
    pub resources: Resources,
    /// What its instructions are.
    pub mix: Mix,
    /// Those of its own instructions that the typed layer does not know, in source order.
    pub unknown: Vec<UnknownInstruction>,
    /// Running a block of it twice gives what running it once gives: see [`effects`].
    pub idempotent: bool,
    /// The order of its blocks may show in its result: see [`effects`].
    pub order_dependent: bool,
}

/// An instruction that the typed layer does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownInstruction {
    /// Its opcode as written, with modifiers.
    pub opcode: String,
    /// Its line, from 1.
    pub line: u32,
}

/// Whether a kernel takes a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormReport {
    /// It does.
    pub ok: bool,
    /// Why it does not.
    pub reason: Option<String>,
    /// Line of the reason, from 1.
    pub line: Option<u32>,
}

/// What a kernel needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// Shared memory that the kernel and the functions it may call name, in bytes.
    pub static_shared_bytes: u64,
    /// Whether it uses dynamic shared memory (`.extern .shared`), whose size the launch gives.
    pub dynamic_shared: bool,
    /// Bytes of its parameters.
    pub params_bytes: u32,
    /// Estimated registers per thread.
    pub registers_estimate: u32,
    /// Threads per block that `.maxntid` or `.reqntid` allow; 1024 without either.
    pub max_threads: u32,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub min_blocks_per_sm: Option<u32>,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
    /// Local memory that the kernel and the functions it may call declare, in bytes.
    pub local_bytes: u64,
    /// Numbers of the block barriers that are named by a constant, in order.
    pub barriers: Vec<u8>,
    /// Some barrier's number is in a register.
    pub computed_barriers: bool,
    /// State spaces of its memory instructions, callees included, in the ISA's words; `generic` where none is named.
    pub address_spaces: Vec<&'static str>,
    /// It calls through a register.
    pub indirect_calls: bool,
}

/// Parses and checks a file's bytes.
#[must_use]
pub fn check_file(file: &str, bytes: impl Into<Vec<u8>>) -> FileReport {
    match Module::parse(bytes).and_then(|m| check(&m)) {
        Ok(kernels) => FileReport {
            file: file.to_owned(),
            error: None,
            kernels,
        },
        Err(e) => FileReport {
            file: file.to_owned(),
            error: Some(ErrorReport::from(&e)),
            kernels: Vec::new(),
        },
    }
}

/// Reports on every kernel that the module defines.
///
/// # Errors
/// The module does not decode.
pub fn check(module: &Module) -> Result<Vec<KernelReport>, ParseError> {
    let program = module.decode()?;
    let verdicts = FormVerdicts::new(module, &program);
    Ok(check_with(&program, &verdicts))
}

/// Does as [`check`], for a module that is decoded and judged already.
#[must_use]
pub fn check_with(program: &Program, verdicts: &FormVerdicts) -> Vec<KernelReport> {
    let mut uses = Uses::new(program);
    let kernels = (0_u32..).map(FuncId).zip(&program.functions);
    kernels
        .filter(|(_, f)| f.is_entry && f.is_defined)
        .map(|(id, f)| {
            let forms = Form::ALL.into_iter().map(|form| {
                let refusal = verdicts.refusal(id, form);
                let report = FormReport {
                    ok: refusal.is_none(),
                    reason: refusal.map(|r| r.reason.to_string()),
                    line: refusal.map(|r| r.line),
                };
                (form, report)
            });
            let effects = effects(program, f);
            let registers = verdicts.registers_estimate(program, id);
            KernelReport {
                name: f.name.clone(),
                forms: forms.collect(),
                resources: resources(&uses.total(program, id), f, registers),
                mix: mixed(program, f, verdicts.uniformity(id)),
                unknown: unknown(f, &verdicts.lines),
                idempotent: effects.idempotent,
                order_dependent: effects.order_dependent,
            }
        })
        .collect()
}

fn unknown(f: &Function, lines: &Lines) -> Vec<UnknownInstruction> {
    let unknown = f.body.iter().filter(|i| i.opcode == Opcode::Other);
    let described = unknown.map(|i| UnknownInstruction {
        opcode: i.mnemonic.to_string(),
        line: lines.line(i.span.start),
    });
    described.collect()
}

/// Returns the mix of a kernel's instructions; `known` is what judging the module found out on its way.
fn mixed(program: &Program, f: &Function, known: Option<&Uniformity>) -> Mix {
    let accesses = match known {
        Some(uniformity) => coalescing(f, uniformity),
        None => {
            let flow = Flow::new(f);
            let post = PostDominators::new(&flow);
            coalescing(f, &Uniformity::new(program, f, &flow, &post))
        }
    };
    Mix {
        coalesced: accesses.coalesced,
        uncoalesced: accesses.uncoalesced,
        ..mix(f)
    }
}

fn resources(total: &Total, f: &Function, registers_estimate: u32) -> Resources {
    let threads = f.bounds.required_threads.or(f.bounds.max_threads);
    let spaces = (0_u8..).zip(SPACES);
    Resources {
        static_shared_bytes: total.static_shared_bytes,
        dynamic_shared: total.dynamic_shared,
        params_bytes: f.params_bytes,
        registers_estimate,
        max_threads: threads.map_or(1024, |t| t.iter().fold(1, |n: u32, &d| n.saturating_mul(d))),
        required_threads: f.bounds.required_threads,
        min_blocks_per_sm: f.bounds.min_blocks_per_sm,
        max_registers: f.bounds.max_registers,
        local_bytes: total.local_bytes,
        barriers: (0..16).filter(|n| total.barriers >> n & 1 != 0).collect(),
        computed_barriers: total.computed_barriers,
        address_spaces: spaces
            .filter(|(n, _)| total.spaces >> n & 1 != 0)
            .map(|(_, s)| s.1)
            .collect(),
        indirect_calls: total.indirect,
    }
}

/// Names of the state spaces.
const SPACES: [(StateSpace, &str); 7] = [
    (StateSpace::Generic, "generic"),
    (StateSpace::Global, "global"),
    (StateSpace::Shared, "shared"),
    (StateSpace::SharedCluster, "shared::cluster"),
    (StateSpace::Local, "local"),
    (StateSpace::Const, "const"),
    (StateSpace::Param, "param"),
];

/// What one function uses itself; [`Uses::total`] adds what it calls.
#[derive(Debug, Clone, Default)]
struct Use {
    /// Shared and local variables.
    variables: Vec<VarId>,
    callees: Vec<FuncId>,
    /// Bits by barrier number and by index in [`SPACES`].
    barriers: u16,
    spaces: u8,
    computed_barriers: bool,
    indirect: bool,
}

impl Use {
    fn new(program: &Program, f: &Function) -> Self {
        let mut found = Self::default();
        for i in &f.body {
            for operand in &i.operands {
                found.name(program, operand);
            }
            let barrier = match i.opcode {
                Opcode::Bar | Opcode::BarArrive => i.operands.first(),
                Opcode::BarRed => i.operands.get(1),
                _ => None,
            };
            match barrier {
                Some(Operand::Int(n)) => found.barriers |= 1 << (n & 15),
                Some(_) => found.computed_barriers = true,
                None => {}
            }
            found.indirect |= i.opcode == Opcode::Call
                && !matches!(i.operands.get(1), Some(Operand::Symbol { .. }));
            if matches!(
                i.opcode,
                Opcode::Ld | Opcode::Ldu | Opcode::St | Opcode::Atom | Opcode::Red
            ) {
                let space = i.mods.spaces.first().copied().unwrap_or_default();
                for (n, _) in SPACES.iter().enumerate().filter(|(_, s)| s.0 == space) {
                    found.spaces |= 1 << n;
                }
            }
        }
        found.variables.sort_unstable();
        found.variables.dedup();
        found.callees.sort_unstable();
        found.callees.dedup();
        found
    }

    fn name(&mut self, program: &Program, operand: &Operand) {
        match operand {
            Operand::Symbol {
                symbol: Symbol::Variable(v),
                ..
            }
            | Operand::Address {
                base: AddressBase::Symbol(Symbol::Variable(v)),
                ..
            } => {
                let space = program.variables[v.0 as usize].space;
                if matches!(space, StateSpace::Shared | StateSpace::Local) {
                    self.variables.push(*v);
                }
            }
            Operand::Symbol {
                symbol: Symbol::Function(f),
                ..
            } => self.callees.push(*f),
            Operand::Vector(list) => list.iter().for_each(|o| self.name(program, o)),
            Operand::Arguments(list) => list.iter().for_each(|o| self.name(program, o)),
            _ => {}
        }
    }

    /// Adds all but callees and variables.
    fn add(&mut self, part: &Self) {
        self.barriers |= part.barriers;
        self.spaces |= part.spaces;
        self.computed_barriers |= part.computed_barriers;
        self.indirect |= part.indirect;
    }
}

/// What a function and all that it may call use together.
#[derive(Debug, Clone, Default)]
struct Total {
    static_shared_bytes: u64,
    dynamic_shared: bool,
    local_bytes: u64,
    barriers: u16,
    spaces: u8,
    computed_barriers: bool,
    indirect: bool,
}

impl Total {
    /// Adds up what a kernel may use; `found` holds the variables of all functions that are added.
    fn new(program: &Program, found: &Use) -> Self {
        let (mut static_shared_bytes, mut dynamic_shared, mut local_bytes) = (0_u64, false, 0_u64);
        let mut variables = found.variables.clone();
        variables.sort_unstable();
        variables.dedup();
        // The largest alignment first, which leaves the fewest holes.
        let mut variables: Vec<_> = variables
            .iter()
            .map(|v| &program.variables[v.0 as usize])
            .collect();
        variables.sort_by_key(|v| std::cmp::Reverse(v.align));
        for v in variables {
            let bytes = match v.space {
                StateSpace::Shared if v.is_extern || v.size_bytes == 0 => {
                    dynamic_shared = true;
                    continue;
                }
                StateSpace::Shared => &mut static_shared_bytes,
                _ => &mut local_bytes,
            };
            *bytes = bytes
                .next_multiple_of(u64::from(v.align.max(1)))
                .saturating_add(v.size_bytes);
        }
        Self {
            static_shared_bytes,
            dynamic_shared,
            local_bytes,
            barriers: found.barriers,
            spaces: found.spaces,
            computed_barriers: found.computed_barriers,
            indirect: found.indirect,
        }
    }
}

/// Functions and variables that are met, for each function of a module, on the walks from all of its kernels together.
/// Kernels of a module that shares more than that among them are said to use all that its functions use.
const STEPS_PER_FUNCTION: usize = 64;
/// What every module may take besides.
const FREE_STEPS: usize = 1 << 20;

/// What the functions of a module use.
struct Uses {
    each: Vec<Use>,
    /// Steps that are left.
    steps: usize,
    /// What all functions use together, once that was asked.
    all: Option<Total>,
}

impl Uses {
    fn new(program: &Program) -> Self {
        let each: Vec<Use> = (program.functions.iter().map(|f| Use::new(program, f))).collect();
        Self {
            steps: STEPS_PER_FUNCTION * each.len() + FREE_STEPS,
            each,
            all: None,
        }
    }

    /// Returns the function and all that it names, however far; what it calls through registers it has named, or
    /// another function has, which is not followed.
    fn total(&mut self, program: &Program, id: FuncId) -> Total {
        match self.walk(id) {
            Some(total) => Total::new(program, &total),
            None => {
                let each = &self.each;
                let sum = || {
                    let mut sum = Use::default();
                    for part in each {
                        sum.add(part);
                        sum.variables.extend(&part.variables);
                    }
                    Total::new(program, &sum)
                };
                self.all.get_or_insert_with(sum).clone()
            }
        }
    }

    fn walk(&mut self, id: FuncId) -> Option<Use> {
        let mut total = self.each[id.0 as usize].clone();
        let mut seen = std::collections::BTreeSet::from([id]);
        let mut stack = std::mem::take(&mut total.callees);
        while let Some(f) = stack.pop() {
            let Some(part) = self.each.get(f.0 as usize).filter(|_| seen.insert(f)) else {
                continue;
            };
            let steps = 1 + part.variables.len() + part.callees.len();
            self.steps = self.steps.checked_sub(steps)?;
            total.add(part);
            total.variables.extend(&part.variables);
            stack.extend(&part.callees);
        }
        Some(total)
    }
}
