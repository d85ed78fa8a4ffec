//! A module rewritten: for each kernel the form that the caller chose, in one pass.

use super::carry::{self, Carried};
use super::facts;
use super::frame::{Frame, Role};
use super::judge::FormVerdicts;
use super::names::Names;
use super::value::Values;
use super::{Form, Options, Reason, Refusal, Shape, fence, judge, slice, stamp, worker};
use crate::control::{CONTROL_ALIGN, CONTROL_BYTES};
use crate::decode::{FuncId, Function, Program};
use crate::kernel::{BlockRule, Entry, FormRefusal, Kernel};
use crate::rewrite::Edits;
use crate::syntax::module::{FunctionSyntax, Module, StatementKind};
use std::collections::HashMap;

/// A rewritten module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The module's text.
    pub bytes: Vec<u8>,
    /// Its kernels, in source order, each with one entry.
    pub kernels: Vec<Kernel>,
}

/// Gives every kernel the form that `choose` names for it; everything else stays as it is.
///
/// `program` must be the module's own decoding. A kernel that cannot take its form stays whole and says why.
#[must_use]
pub fn rewrite(
    module: &Module,
    program: &Program,
    options: &Options,
    choose: impl Fn(FuncId) -> Form,
) -> Rewritten {
    rewrite_with(
        module,
        program,
        &FormVerdicts::new(module, program),
        options,
        choose,
    )
}

/// Does as [`rewrite`], with verdicts that are at hand.
#[must_use]
pub fn rewrite_with(
    module: &Module,
    program: &Program,
    verdicts: &FormVerdicts,
    options: &Options,
    choose: impl Fn(FuncId) -> Form,
) -> Rewritten {
    let forms = forms_of(program, verdicts, &choose);
    let making = Making::new((module, program), verdicts, options, forms);
    let mut edits = making.head();
    let most = 2 * judge::length_limit(module.source().len());
    for (n, syntax) in making.functions() {
        edits = making.function(n, syntax, edits);
        if edits.text_bytes() > most && options.stamps {
            let options = Options {
                stamps: false,
                ..*options
            };
            return rewrite_with(module, program, verdicts, &options, choose);
        }
        if edits.text_bytes() > most {
            // Only a mixture of forms that each have room by themselves comes here.
            let kernels = kernels(program, verdicts, &making.plan, options, &choose);
            return Rewritten {
                bytes: module.print(),
                kernels: kernels
                    .into_iter()
                    .map(|k| without_room(k, module, program))
                    .collect(),
            };
        }
    }
    Rewritten {
        bytes: edits.apply(module),
        kernels: kernels(program, verdicts, &making.plan, options, choose),
    }
}

/// Returns a kernel of a module that would become too long.
fn without_room(made: Kernel, module: &Module, program: &Program) -> Kernel {
    let form = made.entries.first().map_or(Form::WHOLE, Entry::form);
    let Some((_, function)) = program.kernel(&made.name).filter(|_| form != Form::WHOLE) else {
        return made;
    };
    let reason = Reason::TooMuchText(judge::TIMES_SOURCE);
    let line = module.line(function.span.start);
    let refusal = Refusal { reason, line };
    let refusal = Some(FormRefusal { form, refusal });
    let whole = (Form::WHOLE, BlockRule::Any);
    Kernel {
        is_gang: made.is_gang,
        ..described(function, whole, refusal, &Options::default())
    }
}

/// Returns the form that each function gets: the chosen one for a kernel that can take it.
pub(super) fn forms_of(
    program: &Program,
    verdicts: &FormVerdicts,
    choose: impl Fn(FuncId) -> Form,
) -> Vec<Form> {
    (0_u32..)
        .zip(&program.functions)
        .map(|(n, f)| match f.is_entry && f.is_defined {
            true => {
                Some(choose(FuncId(n))).filter(|&form| verdicts.refusal(FuncId(n), form).is_none())
            }
            false => None,
        })
        .map(|form| form.unwrap_or(Form::WHOLE))
        .collect()
}

/// A rewrite under way: what is decided for the whole module before any function is edited.
pub(super) struct Making<'a> {
    module: &'a Module,
    program: &'a Program,
    verdicts: &'a FormVerdicts,
    options: &'a Options,
    names: Names,
    plan: Plan,
    indices: HashMap<&'a str, usize>,
}

impl<'a> Making<'a> {
    pub(super) fn new(
        (module, program): (&'a Module, &'a Program),
        verdicts: &'a FormVerdicts,
        options: &'a Options,
        forms: Vec<Form>,
    ) -> Self {
        Self {
            names: Names::new(module),
            plan: Plan::new(program, verdicts, forms, options),
            indices: facts::indices(program),
            module,
            program,
            verdicts,
            options,
        }
    }

    /// Returns the form that a function takes.
    pub(super) fn form(&self, n: usize) -> Form {
        self.plan.forms[n]
    }

    /// Returns what the module declares for all of its functions.
    pub(super) fn head(&self) -> Edits {
        let mut edits = Edits::new();
        let asks = |f: &Form| f.fenced || f.shape == Shape::Worker;
        if self.plan.forms.iter().any(asks) {
            edits.insert(behind_header(self.module), self.names.shared_declaration());
        }
        edits
    }

    /// Returns the text of every function, declarations included, and the function's index.
    pub(super) fn functions(&self) -> impl Iterator<Item = (usize, &'a FunctionSyntax)> {
        let (module, indices) = (self.module, &self.indices);
        let functions = module.functions.iter();
        functions.filter_map(move |syntax| Some((*indices.get(module.name_of(syntax))?, syntax)))
    }

    /// Adds the edits of one function's text.
    pub(super) fn function(&self, n: usize, syntax: &'a FunctionSyntax, mut edits: Edits) -> Edits {
        let (module, program) = (self.module, self.program);
        let id = FuncId(u32::try_from(n).unwrap_or(u32::MAX));
        let form = self.plan.forms[n];
        if form.has_control() {
            // A forward declaration gets the parameter as its definition does.
            let parameter = format!(
                ".param .align {CONTROL_ALIGN} .b8 {}[{CONTROL_BYTES}]",
                self.names.control
            );
            carry::add_first_parameter(module, syntax, &parameter, &mut edits);
        }
        let carried = self.plan.carried.of(id);
        carry::add_formals(module, syntax, carried, &self.names.prefix, &mut edits);
        if !syntax.has_body {
            return edits;
        }
        let role = match program.functions[n].is_entry {
            true => Role::Kernel(form),
            false => Role::Callee {
                fenced: self.plan.fenced[n],
            },
        };
        let mut frame = Frame::new((module, program, &self.names), (id, syntax), role, carried);
        frame.edits = edits;
        edit(&mut frame, self.verdicts, &self.plan, self.options);
        frame.finish()
    }
}

/// Returns what became of each kernel that the module defines.
fn kernels(
    program: &Program,
    verdicts: &FormVerdicts,
    plan: &Plan,
    options: &Options,
    choose: impl Fn(FuncId) -> Form,
) -> Vec<Kernel> {
    (0_u32..)
        .zip(&program.functions)
        .filter(|(_, f)| f.is_entry && f.is_defined)
        .map(|(n, f)| {
            let form = plan.forms[n as usize];
            let chosen = choose(FuncId(n));
            let refusal = verdicts.refusal(FuncId(n), chosen).cloned();
            let refusal = refusal.map(|refusal| FormRefusal {
                form: chosen,
                refusal,
            });
            let block_rule = match form.shape {
                Shape::Worker if verdicts.warp_rows[n as usize] => BlockRule::WarpRows,
                _ => BlockRule::Any,
            };
            let mut kernel = described(f, (form, block_rule), refusal, options);
            kernel.is_gang = verdicts.gangs[n as usize];
            let stamps = options.stamps && stamp::takes(program, form);
            kernel.entries.iter_mut().for_each(|e| e.stamps = stamps);
            kernel
        })
        .collect()
}

/// What is decided for all functions before any is edited.
struct Plan {
    carried: Carried,
    /// Functions that a fenced kernel may call.
    fenced: Vec<bool>,
    /// The form that each function takes.
    forms: Vec<Form>,
}

impl Plan {
    fn new(
        program: &Program,
        verdicts: &FormVerdicts,
        forms: Vec<Form>,
        options: &Options,
    ) -> Self {
        let calls = &verdicts.calls;
        let cut = calls.reached(|n| forms[n].shape != Shape::Whole);
        let fenced = calls.reached(|n| forms[n].fenced);
        let needs: Vec<Values> = (0_u32..)
            .zip(&verdicts.facts)
            .map(|(n, facts)| {
                let mut values = Values::default();
                if cut[n as usize] {
                    values = slice::needs(facts);
                }
                if fenced[n as usize] {
                    values = values.union(fence::needs(program, FuncId(n), options.fence));
                }
                values
            })
            .collect();
        let reached: Vec<bool> = cut.iter().zip(&fenced).map(|(c, f)| *c || *f).collect();
        Self {
            carried: Carried::new(program, calls, &needs, &reached),
            fenced,
            forms,
        }
    }
}

/// Runs the passes over one function. The loop comes last, because it is known then which axes the others ask for.
fn edit(frame: &mut Frame<'_>, verdicts: &FormVerdicts, plan: &Plan, options: &Options) {
    let facts = &verdicts.facts[frame.id.0 as usize];
    if let Role::Kernel(form) = frame.role
        && options.stamps
        && stamp::takes(frame.program, form)
    {
        stamp::edit(frame);
    }
    if frame.is_fenced() {
        fence::prepare(frame, &verdicts.module_facts);
    }
    if frame.shape() == Shape::Worker {
        worker::edit(frame, facts, verdicts.copies);
    }
    slice::edit(frame, facts);
    carry::edit(frame, &plan.carried);
    if frame.is_fenced() {
        fence::edit(frame, &verdicts.module_facts, options.fence);
    }
    if frame.shape() == Shape::Worker {
        worker::begin_loop(frame);
    }
}

/// Describes a kernel with one entry, and why it did not take the form that was asked for.
fn described(
    function: &Function,
    (form, block_rule): (Form, BlockRule),
    refusal: Option<FormRefusal>,
    options: &Options,
) -> Kernel {
    let mut kernel = Kernel::new(function);
    kernel.refusals.extend(refusal);
    kernel.entries.push(Entry {
        name: function.name.clone(),
        shape: form.shape,
        fence: form.fenced.then_some(options.fence.mode),
        block_rule,
        stamps: false,
        chunk: match form.shape {
            Shape::Worker => worker::chunk(function),
            Shape::Whole | Shape::Slice => 1,
        },
    });
    kernel
}

/// Returns the offset behind `.version`, `.target` and `.address_size`, which stand first.
fn behind_header(module: &Module) -> u32 {
    module
        .statements()
        .take_while(|(kind, _)| {
            matches!(
                kind,
                StatementKind::Version | StatementKind::Target | StatementKind::AddressSize
            )
        })
        .last()
        .map_or(0, |(_, span)| span.end)
}
