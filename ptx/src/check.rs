//! What can be said of every kernel of a module: forms with reasons, resources, instruction mix.
//!
//! The structures serialise to the rows of `gridmux ptx check -j`; fields are only ever added.

use crate::ParseError;
use crate::analysis::{Mix, mix, registers_estimate};
use crate::decode::{FuncId, Function, Program, StateSpace};
use crate::forms::{Form, Judgement};
use crate::syntax::module::Module;
use serde::Serialize;
use std::collections::BTreeMap;

/// One file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileReport {
    /// Its name as given.
    pub file: String,
    /// Why it is no valid module, or `None`.
    pub error: Option<ErrorReport>,
    /// Its kernels in source order; empty when there is an error.
    pub kernels: Vec<KernelReport>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// Shared memory that the kernel itself declares, in bytes.
    pub static_shared_bytes: u64,
    /// Whether it uses dynamic shared memory (`.extern .shared`), whose size the launch gives.
    pub dynamic_shared: bool,
    /// Bytes of its parameters.
    pub params_bytes: u32,
    /// Estimated registers per thread.
    pub registers_estimate: u32,
    /// Threads per block that `.maxntid` or `.reqntid` allow; 1024 without either.
    pub max_threads: u32,
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
    let judgement = Judgement::new(module, &program);
    let shared = SharedUse::new(&program);
    let kernels = (0_u32..).map(FuncId).zip(&program.functions);
    Ok(kernels
        .filter(|(_, f)| f.is_entry && f.is_defined)
        .map(|(id, f)| {
            let forms = Form::ALL.into_iter().map(|form| {
                let refusal = judgement.refusal(id, form);
                let report = FormReport {
                    ok: refusal.is_none(),
                    reason: refusal.map(|r| r.reason.to_string()),
                    line: refusal.map(|r| r.line),
                };
                (form, report)
            });
            KernelReport {
                name: f.name.clone(),
                forms: forms.collect(),
                resources: resources(f, shared.of(id)),
                mix: mix(f),
            }
        })
        .collect())
}

fn resources(f: &Function, shared: (u64, bool)) -> Resources {
    let threads = f.bounds.required_threads.or(f.bounds.max_threads);
    Resources {
        static_shared_bytes: shared.0,
        dynamic_shared: shared.1,
        params_bytes: f.params_bytes,
        registers_estimate: registers_estimate(f),
        max_threads: threads.map_or(1024, |t| t.iter().fold(1, |n: u32, &d| n.saturating_mul(d))),
    }
}

/// Shared memory by function: what it declares itself, and what module scope it names.
struct SharedUse {
    by_function: Vec<(u64, bool)>,
}

impl SharedUse {
    fn new(program: &Program) -> Self {
        use crate::decode::{AddressBase, Operand, Symbol, VarId};
        let mut by_function = vec![(0_u64, false); program.functions.len()];
        let mut add = |function: usize, var: VarId| {
            let v = &program.variables[var.0 as usize];
            if v.space == StateSpace::Shared {
                let (bytes, dynamic) = &mut by_function[function];
                if v.is_extern || v.size_bytes == 0 {
                    *dynamic = true;
                    return;
                }
                *bytes = bytes
                    .next_multiple_of(u64::from(v.align.max(1)))
                    .saturating_add(v.size_bytes);
            }
        };
        for (id, v) in (0_u32..).map(VarId).zip(&program.variables) {
            if let Some(owner) = v.owner {
                add(owner.0 as usize, id);
            }
        }
        for (n, f) in program.functions.iter().enumerate() {
            let mut named: Vec<VarId> = Vec::new();
            for operand in f.body.iter().flat_map(|i| &i.operands) {
                if let Operand::Symbol {
                    symbol: Symbol::Variable(v),
                    ..
                }
                | Operand::Address {
                    base: AddressBase::Symbol(Symbol::Variable(v)),
                    ..
                } = operand
                    && program.variables[v.0 as usize].owner.is_none()
                {
                    named.push(*v);
                }
            }
            named.sort_unstable();
            named.dedup();
            named.into_iter().for_each(|v| add(n, v));
        }
        Self { by_function }
    }

    fn of(&self, id: FuncId) -> (u64, bool) {
        self.by_function[id.0 as usize]
    }
}
