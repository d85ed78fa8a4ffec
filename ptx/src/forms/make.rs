//! A module rewritten: for each kernel the form that the caller chose, in one pass.

use super::carry::{self, Carried};
use super::facts;
use super::frame::{Frame, Role};
use super::judge::FormVerdicts;
use super::names::Names;
use super::value::Values;
use super::{Form, Options, Reason, Refusal, Shape, fence, judge, slice, worker};
use crate::control::{CONTROL_ALIGN, CONTROL_BYTES, EXTRA_SHARED_BYTES, param_offset};
use crate::decode::{FuncId, Function, Program};
use crate::rewrite::Edits;
use crate::syntax::module::{FunctionSyntax, Module, StatementKind};
use std::collections::HashMap;

/// What a launch's grid holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchGrid {
    /// The tenant's grid as it is.
    Original,
    /// A sub-box of the tenant's grid, whose offset the control block gives.
    SubBox,
    /// Workers along x, each of which takes blocks of the tenant's grid until there are none left.
    Workers,
}

/// Which thread blocks a form was judged for; a launch of another kind needs another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRule {
    /// Any.
    Any,
    /// The block's width is a multiple of 32, and the grid is less than 2³¹ threads wide: a warp is then 32 neighbours
    /// in x, which the form relies on.
    WarpRows,
}

impl BlockRule {
    /// Returns whether a launch of that grid and block keeps the rule.
    #[must_use]
    pub fn allows(self, grid: [u32; 3], block: [u32; 3]) -> bool {
        match self {
            Self::Any => true,
            Self::WarpRows => {
                block[0].is_multiple_of(32) && u64::from(grid[0]) * u64::from(block[0]) < 1 << 31
            }
        }
    }
}

/// What became of one kernel, and what a launcher has to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelForm {
    /// The kernel's name, which a rewrite keeps.
    pub name: String,
    /// The form it has now.
    pub form: Form,
    /// Why it did not take the form that was chosen; it is then [`Form::WHOLE`].
    pub reason: Option<Refusal>,
    /// Where the 64-byte control block stands in its parameters; `None` for [`Form::WHOLE`].
    pub control_offset: Option<u32>,
    /// Bytes of its parameter block now, the control block included.
    pub params_bytes: u32,
    /// Bytes that a launch adds to the tenant's dynamic shared memory.
    pub extra_shared_bytes: u32,
    /// What the grid of a launch holds.
    pub grid: LaunchGrid,
    /// Which blocks it may be launched with.
    pub block_rule: BlockRule,
    /// The mode of its fence, when it has one: [`fence::FenceMode::accepts`] tells whether a control block's base and
    /// mask go with it. The module's `.global` variables must then lie in the reservation.
    pub fence: Option<fence::FenceMode>,
    /// Blocks of a worker's ticket, by the kernel's length (accelOS, section 6.4); at least 1.
    pub chunk: u32,
}

impl KernelForm {
    /// Describes a kernel of a module that was not rewritten: [`Form::WHOLE`], with the parameter block of that size.
    #[must_use]
    pub fn original(name: &str, params_bytes: u32) -> Self {
        Self {
            name: name.to_owned(),
            form: Form::WHOLE,
            reason: None,
            control_offset: None,
            params_bytes,
            extra_shared_bytes: 0,
            grid: LaunchGrid::Original,
            block_rule: BlockRule::Any,
            fence: None,
            chunk: 1,
        }
    }
}

/// A rewritten module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The module's text.
    pub bytes: Vec<u8>,
    /// Its kernels, in source order.
    pub kernels: Vec<KernelForm>,
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
fn without_room(made: KernelForm, module: &Module, program: &Program) -> KernelForm {
    let Some((_, function)) = program
        .kernel(&made.name)
        .filter(|_| made.form != Form::WHOLE)
    else {
        return made;
    };
    let reason = Reason::TooMuchText(judge::TIMES_SOURCE);
    let line = module.line(function.span.start);
    let refusal = Some(Refusal { reason, line });
    kernel_form(function, Form::WHOLE, refusal, &Options::default())
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
        if form != Form::WHOLE {
            // A forward declaration gets the parameter as its definition does.
            let parameter = format!(
                ".param .align {CONTROL_ALIGN} .b8 {}[{CONTROL_BYTES}]",
                self.names.control
            );
            carry::add_parameters(module, syntax, &parameter, &mut edits);
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
) -> Vec<KernelForm> {
    (0_u32..)
        .zip(&program.functions)
        .filter(|(_, f)| f.is_entry && f.is_defined)
        .map(|(n, f)| {
            let form = plan.forms[n as usize];
            let chosen = choose(FuncId(n));
            let reason = verdicts.refusal(FuncId(n), chosen).cloned();
            let mut made = kernel_form(f, form, reason, options);
            if form.shape == Shape::Worker && verdicts.warp_rows[n as usize] {
                made.block_rule = BlockRule::WarpRows;
            }
            made
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

fn kernel_form(
    function: &Function,
    form: Form,
    reason: Option<Refusal>,
    options: &Options,
) -> KernelForm {
    let control_offset = (form != Form::WHOLE).then(|| param_offset(function));
    let is_worker = form.shape == Shape::Worker;
    KernelForm {
        name: function.name.clone(),
        form,
        reason,
        control_offset,
        params_bytes: control_offset.map_or(function.params_bytes, |at| at + CONTROL_BYTES),
        extra_shared_bytes: if is_worker { EXTRA_SHARED_BYTES } else { 0 },
        grid: match form.shape {
            Shape::Whole => LaunchGrid::Original,
            Shape::Slice => LaunchGrid::SubBox,
            Shape::Worker => LaunchGrid::Workers,
        },
        block_rule: BlockRule::Any,
        fence: form.fenced.then_some(options.fence.mode),
        chunk: if is_worker {
            worker::chunk(function)
        } else {
            1
        },
    }
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
