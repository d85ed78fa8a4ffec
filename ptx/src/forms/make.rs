//! A module rewritten: for each kernel the form that the caller chose, printed from the typed tree.
//!
//! How much longer that may make a module: a form's code does not depend on how long its kernel is, so a module of very
//! many tiny kernels, or of nothing but traps, would grow a hundredfold. Rule: by the end of each function the text is
//! longer than the module by at most [`TIMES_SOURCE`] times the bytes of the module so far, and [`FREE_BYTES`]; a
//! kernel with which it would be longer stays whole and says so. With stamps it may be twice as much; they are left
//! out of a module that would have more.

use super::assemble::Assembled;
use super::carry::{self, Carried};
use super::frame::{Frame, Role};
use super::judge::FormVerdicts;
use super::place::{self, Places};
use super::value::{Value, Values};
use super::{Form, Options, Reason, Refusal, Shape, Variables, fence, slice, stamp, worker};
use crate::decode::{
    FuncId, Function, Param, Program, RegisterNames, ScalarType, Span, StateSpace, VarId, Variable,
};
use crate::kernel::{BlockRule, Entry, FormRefusal, Kernel};
use crate::placed::Placed;
use crate::print::{Layout, Own, Printer, Refusals, in_order};
use crate::syntax::module::Module;

/// Bytes that forms may add for each byte of the module.
pub(super) const TIMES_SOURCE: usize = 8;
/// Bytes that they may add to any module.
const FREE_BYTES: usize = 1 << 20;
/// Bytes of the text of an added instruction or label, at least.
const ITEM_BYTES: usize = 16;

/// A rewritten module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The module's text.
    pub bytes: Vec<u8>,
    /// Its kernels, in source order, each with one entry; one that cannot be printed beside others has none.
    pub kernels: Vec<Kernel>,
    /// Its variables that are not in the text.
    pub placed: Option<Placed>,
}

/// Gives every kernel the form that `choose` names for it, and prints the module. Where none is given, the text is the
/// original.
///
/// `program` must be the module's own decoding. A kernel that cannot take its form stays whole and says why.
#[must_use]
pub fn rewrite(
    module: &Module,
    program: &Program,
    options: &Options,
    choose: impl Fn(FuncId) -> Form,
) -> Rewritten {
    let verdicts = FormVerdicts::new(module, program);
    rewrite_with(module, program, &verdicts, options, choose)
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
    let (mut forms, mut kernels) = chosen(program, verdicts, options, choose);
    if forms.iter().all(|form| *form == Form::WHOLE) {
        for (id, kernel) in &mut kernels {
            let function = &program.functions[id.0 as usize];
            kernel.entries.push(entry(function, Form::WHOLE, options));
        }
        return Rewritten {
            bytes: module.print(),
            kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect(),
            placed: None,
        };
    }
    let free = module.source().len() + FREE_BYTES;
    let with_stamps = Making::new(program, verdicts, *options, &forms).text(&mut forms, free);
    let (options, made) = match with_stamps {
        Err(_) if options.stamps => {
            let stamps = false;
            let options = Options { stamps, ..*options };
            let making = Making::new(program, verdicts, options, &forms);
            (options, making.text(&mut forms, free))
        }
        made => (*options, made),
    };
    let (options, refused) = (
        &options,
        |kernel: &mut Kernel, function: &Function, form, reason| {
            let line = verdicts.lines.line(function.span.start);
            let refusal = Refusal { reason, line };
            kernel.refusals.push(FormRefusal { form, refusal });
        },
    );
    let (text, placed, without) = match made {
        Ok(made) => made,
        Err(reason) => {
            for (id, kernel) in &mut kernels {
                let function = &program.functions[id.0 as usize];
                if forms[id.0 as usize] != Form::WHOLE {
                    refused(kernel, function, forms[id.0 as usize], reason.clone());
                }
                kernel.entries.push(entry(function, Form::WHOLE, options));
            }
            return Rewritten {
                bytes: module.print(),
                kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect(),
                placed: None,
            };
        }
    };
    for (id, kernel) in &mut kernels {
        let n = id.0 as usize;
        let function = &program.functions[n];
        if let Some((_, form, reason)) = without.iter().find(|(kept, ..)| kept == id) {
            refused(kernel, function, *form, reason.clone());
        }
        if verdicts.unexpressed.functions[n].is_none() {
            let mut entry = entry(function, forms[n], options);
            entry.stamps = options.stamps && stamp::takes(program, forms[n]);
            if forms[n].shape == Shape::Worker && verdicts.warp_rows[n] {
                entry.block_rule = BlockRule::WarpRows;
            }
            kernel.entries.push(entry);
        }
    }
    Rewritten {
        bytes: text.into_bytes(),
        kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect(),
        placed,
    }
}

/// Returns the form that each function gets, the chosen one for a kernel that can take it, and the kernels with what
/// stands against what was chosen for them.
fn chosen(
    program: &Program,
    verdicts: &FormVerdicts,
    options: &Options,
    choose: impl Fn(FuncId) -> Form,
) -> (Vec<Form>, Vec<(FuncId, Kernel)>) {
    let mut forms = vec![Form::WHOLE; program.functions.len()];
    let mut kernels = Vec::new();
    for (n, function) in (0_u32..).zip(&program.functions) {
        if !(function.is_entry && function.is_defined) {
            continue;
        }
        let id = FuncId(n);
        let form = choose(id);
        let mut kernel = Kernel::new(function);
        kernel.is_gang = verdicts.gangs[n as usize];
        match verdicts.refusal_with(id, form, options).cloned() {
            Some(refusal) => kernel.refusals.push(FormRefusal { form, refusal }),
            None => forms[n as usize] = form,
        }
        kernels.push((id, kernel));
    }
    (forms, kernels)
}

/// Describes an entry.
fn entry(function: &Function, form: Form, options: &Options) -> Entry {
    Entry {
        name: function.name.clone(),
        shape: form.shape,
        fence: form.fenced.then_some(options.fence.mode),
        block_rule: BlockRule::Any,
        stamps: false,
        chunk: match form.shape {
            Shape::Worker => worker::chunk(function),
            Shape::Whole | Shape::Slice => 1,
        },
    }
}

/// Variables that a rewrite adds to a module.
pub(crate) struct Added<'a> {
    variables: Vec<Variable>,
    /// Those that the module has itself.
    own: u32,
    /// Where variables are placed, and the constant that holds their block's address.
    places: Option<(&'a Places, VarId)>,
}

impl<'a> Added<'a> {
    /// Adds the dynamic shared memory, whose end is where a fenced kernel may reach to and where the words of a worker
    /// stand. It is aligned as the module's own is, so that both begin at the same place.
    fn new(
        program: &Program,
        verdicts: &'a FormVerdicts,
        options: &Options,
        forms: &[Form],
    ) -> Self {
        let asks = |form: &Form| form.fenced || form.shape == Shape::Worker;
        let is_dynamic = |v: &&Variable| v.space == StateSpace::Shared && v.is_extern;
        let aligns = program.variables.iter().filter(is_dynamic).map(|v| v.align);
        let mut shared = bytes(StateSpace::Shared, 0, aligns.fold(4, u32::max));
        shared.is_extern = true;
        let mut added = Self {
            variables: match forms.iter().any(asks) {
                true => vec![shared],
                false => Vec::new(),
            },
            own: u32::try_from(program.variables.len()).unwrap_or(u32::MAX),
            places: None,
        };
        let is_fenced = forms.iter().any(|form| form.fenced);
        if is_fenced && options.variables == Variables::Placed && !verdicts.places.is_empty() {
            let pointer = VarId(added.first_of_functions());
            added.variables.push(place::pointer());
            added.places = Some((&verdicts.places, pointer));
        }
        added
    }

    /// Returns where variables are placed, and the constant that holds their block's address.
    pub(crate) fn places(&self) -> Option<(&'a Places, VarId)> {
        self.places
    }

    /// Returns an added variable of the module.
    #[cfg(debug_assertions)]
    pub(crate) fn variable(&self, id: VarId) -> Option<&Variable> {
        self.variables.get(id.0.checked_sub(self.own)? as usize)
    }

    /// Returns the dynamic shared memory.
    pub(crate) fn shared(&self) -> VarId {
        VarId(self.own)
    }

    /// Returns the number of the first variable that a function gets.
    pub(crate) fn first_of_functions(&self) -> u32 {
        self.own + u32::try_from(self.variables.len()).unwrap_or(u32::MAX)
    }
}

/// Returns an array of bytes.
pub(super) fn bytes(space: StateSpace, size_bytes: u64, align: u32) -> Variable {
    Variable {
        name: String::new(),
        space,
        ty: ScalarType::B8,
        size_bytes,
        align,
        init: None,
        relocations: Vec::new(),
        is_extern: false,
        is_visible: false,
        is_managed: false,
        owner: None,
        span: Span::default(),
    }
}

/// Returns a function with everything but body, tables, registers and their names.
pub(super) fn without_body(function: &Function) -> Function {
    Function {
        name: function.name.clone(),
        params: function.params.clone(),
        returns: function.returns.clone(),
        call_params: function.call_params.clone(),
        call_prototypes: function.call_prototypes.clone(),
        cluster_bounds: function.cluster_bounds.clone(),
        unknown_directive: function.unknown_directive.clone(),
        registers: Vec::new(),
        register_names: RegisterNames::default(),
        body: Vec::new(),
        branch_tables: Vec::new(),
        nounroll: Vec::new(),
        ..*function
    }
}

/// A text, what variables are not in it, and kernels that stay whole after all, with the forms that they were to take
/// and why not.
type Made = (String, Option<Placed>, Vec<(FuncId, Form, Reason)>);

/// A rewrite under way: what is decided for the whole module before any function is made.
struct Making<'a> {
    program: &'a Program,
    verdicts: &'a FormVerdicts,
    options: Options,
    plan: Plan,
    added: Added<'a>,
}

impl<'a> Making<'a> {
    fn new(
        program: &'a Program,
        verdicts: &'a FormVerdicts,
        options: Options,
        forms: &[Form],
    ) -> Self {
        Self {
            plan: Plan::new(program, verdicts, forms, &options),
            added: Added::new(program, verdicts, &options, forms),
            program,
            verdicts,
            options,
        }
    }

    /// Prints the module with kernels in these forms, as far as there is room beside the `free` bytes, and gives the
    /// kernels that stay whole after all.
    ///
    /// # Errors
    /// Why there is no such text: the stamps are too much, or a function that kernels call cannot be made.
    fn text(&self, forms: &mut [Form], free: usize) -> Result<Made, Reason> {
        let unexpressed: &Refusals = &self.verdicts.unexpressed;
        let lines = match self.options.layout {
            Layout::OriginalLines => Some(&self.verdicts.lines),
            Layout::OneEach => None,
        };
        let mut printer = Printer::new(self.program, &self.added.variables, lines);
        let places = self.added.places();
        if let Some((places, _)) = places {
            printer.leave_out(|id| places.of(id).is_some());
        }
        let placed = places.map(|(places, pointer)| {
            let pointer = printer.name_of(pointer);
            places.described(self.program, pointer)
        });
        let order = in_order(self.program, &unexpressed.functions);
        printer.begin(&order, unexpressed, |id| self.formals(id));
        let mut without = Vec::new();
        for id in order {
            let function = &self.program.functions[id.0 as usize];
            if !function.is_defined {
                continue;
            }
            let form = forms[id.0 as usize];
            let mark = printer.mark();
            let times = match self.options.stamps {
                true => 2 * TIMES_SOURCE,
                false => TIMES_SOURCE,
            };
            let most = free + times * function.span.end as usize;
            let left = most.saturating_sub(printer.bytes());
            let Err(reason) = self.print(&mut printer, (id, form), left) else {
                continue;
            };
            if self.options.stamps || !function.is_entry || form == Form::WHOLE {
                return Err(reason);
            }
            printer.back_to(mark);
            forms[id.0 as usize] = Form::WHOLE;
            without.push((id, form, reason));
            let left = most.saturating_sub(printer.bytes());
            self.print(&mut printer, (id, Form::WHOLE), left)?;
        }
        Ok((printer.finish(), placed, without))
    }

    /// Prints a function in at most so many bytes.
    ///
    /// # Errors
    /// Why there is no such text.
    fn print(
        &self,
        printer: &mut Printer<'_>,
        (id, form): (FuncId, Form),
        most: usize,
    ) -> Result<(), Reason> {
        let Assembled {
            function,
            variables,
            raised,
        } = &self.function(id, form, most)?;
        let before = printer.bytes();
        printer.function(
            id,
            &Own {
                function,
                variables,
                raised,
            },
        );
        match printer.bytes() - before <= most {
            true => Ok(()),
            false => Err(Reason::TooMuchText(TIMES_SOURCE)),
        }
    }

    /// Makes one function.
    fn function(&self, id: FuncId, form: Form, most: usize) -> Result<Assembled, Reason> {
        let n = id.0 as usize;
        let role = match self.program.functions[n].is_entry {
            true => Role::Kernel(form),
            false => Role::Callee {
                fenced: self.plan.fenced[n],
            },
        };
        let carried = self.plan.carried.of(id);
        let most = most / ITEM_BYTES;
        let mut frame = Frame::new(self.program, &self.added, (id, role), carried, most);
        edit(&mut frame, self.verdicts, &self.plan, &self.options);
        if let Some(reason) = frame.failure() {
            return Err(reason);
        }
        let mut made = frame.assemble();
        let indirect: Vec<Param> = carry::indirect(&self.plan.carried).collect();
        for prototype in &mut made.function.call_prototypes {
            if prototype.targets.is_empty() {
                prototype.params.extend(indirect.iter().cloned());
            }
        }
        #[cfg(debug_assertions)]
        super::verify::verify(self.program, &self.added, &made);
        Ok(made)
    }

    /// Returns the parameters that a function is handed beside its own.
    fn formals(&self, id: FuncId) -> Vec<Param> {
        self.plan
            .carried
            .of(id)
            .iter()
            .map(Value::parameter)
            .collect()
    }
}

/// What is decided for all functions before any is edited.
struct Plan {
    carried: Carried,
    /// Functions that a fenced kernel may call.
    fenced: Vec<bool>,
}

impl Plan {
    fn new(program: &Program, verdicts: &FormVerdicts, forms: &[Form], options: &Options) -> Self {
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
        }
    }
}

/// Runs the passes over one function. The loop's beginning comes last, because it is known then which axes the others
/// ask for.
fn edit(frame: &mut Frame<'_>, verdicts: &FormVerdicts, plan: &Plan, options: &Options) {
    let facts = &verdicts.facts[frame.id.0 as usize];
    if let Role::Kernel(form) = frame.role
        && options.stamps
        && stamp::takes(frame.program, form)
    {
        stamp::edit(frame);
    }
    place::edit(frame);
    if frame.is_fenced() {
        fence::prepare(frame, &verdicts.module_facts);
    }
    let is_loop = frame.shape() == Shape::Worker;
    let body = is_loop.then(|| worker::edit(frame, facts, verdicts.copies));
    slice::edit(frame, facts);
    carry::edit(frame, &plan.carried);
    if frame.is_fenced() {
        fence::edit(frame, &verdicts.module_facts, options.fence);
    }
    if let Some(body) = &body {
        worker::begin_loop(frame, body);
    }
}
