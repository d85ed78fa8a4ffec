//! The canonical print of a decoded module: PTX text that is made, not the tenant's own.
//!
//! Every name that only the module knows is generated, every declaration, literal and table is made anew from the typed
//! tree; scopes are gone, since names are unique; the tenant's comments, debug information and unknown pragmas are left
//! out, and so are promises that nobody checks (`.ptr`, `.noreturn` of the tenant's own functions). What remains of the
//! tenant's text is the words of instructions that the opcode table knows, the names of kernels and of variables in
//! device memory, for which the host asks, and those of source files, whose letters are replaced by `_` where they
//! might mean something.
//!
//! Rules:
//! - What the tree cannot express is refused by name and place, and with it every kernel that reaches it; the others
//!   are
//!   printed.
//! - Generated names begin with `$` or `%`, and a name that is kept may not, so that the two never meet.
//! - The text decodes to the same tree, names and places aside.

mod body;
mod declaration;
mod names;
mod reach;
mod text;

pub use text::Layout;
pub(crate) use text::Mark;

use crate::decode::{FuncId, Function, Param, Program, Span, VarId, Variable};
use crate::syntax::module::{BYTES_PER_FUNCTION, BYTES_PER_INSTRUCTION, FREE_BYTES, Lines};
use names::Names;
use reach::Reach;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::Write;
use text::Text;

/// What the typed tree does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each text says what it is")]
pub enum Unexpressed {
    #[error("`{0}` is not known")]
    Instruction(String),
    #[error("the directive `.{0}` is not known here")]
    Directive(String),
    #[error("the initial value of `{0}` is far longer than its text")]
    Sparse(String),
    #[error("`{0}` takes or gives a vector in registers")]
    Vector(String),
    #[error("the initial value of `{0}` is made of parts of addresses of several widths")]
    Initialiser(String),
    #[error(
        "`{0}` is a texture, sampler or surface of the module; bindless ones are handed as parameters"
    )]
    Opaque(String),
    #[error("`{0}` takes any number of arguments, or calls through a pointer what does")]
    Variadic(String),
    #[error("the kernel `{0}` is declared and not defined")]
    Declared(String),
    #[error("the target `{0}` changes what instructions mean")]
    Target(String),
    #[error("the name `{0}` does not begin with a letter or `_`")]
    Name(String),
}

/// Something that is not printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The kernel that reaches it.
    pub kernel: String,
    /// What it is.
    pub what: Unexpressed,
    /// Where it stands.
    pub span: Span,
}

/// What the tree cannot express, and where it stands.
pub(crate) type Refusal = (Unexpressed, Span);

/// A printed module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Its text.
    pub text: String,
    /// The names of the module's kernels that are in it.
    pub kernels: Vec<String>,
    /// Kernels that are not in it.
    pub refused: Vec<Refused>,
}

/// Prints a module, each statement on a line of its own.
#[must_use]
pub fn print(program: &Program) -> Printed {
    let refusals = refusals(program);
    let mut printer = Printer::new(program, &[], None);
    let order = in_order(program, &refusals.functions);
    printer.begin(&order, &refusals, |_| Vec::new());
    let mut kernels = Vec::new();
    for id in order {
        let function = &program.functions[id.0 as usize];
        if function.is_defined {
            printer.function(id, &Own::of(function));
        }
        if function.is_entry {
            kernels.push(function.name.clone());
        }
    }
    let entries = functions_of(program, |f| f.is_entry && f.is_defined);
    let refused = entries.filter_map(|id| {
        let (what, span) = refusals.functions[id.0 as usize].clone()?;
        let kernel = program.functions[id.0 as usize].name.clone();
        Some(Refused { kernel, what, span })
    });
    Printed {
        refused: refused.collect(),
        kernels,
        text: printer.finish(),
    }
}

/// Why parts of a module are not printed.
pub(crate) struct Refusals {
    pub(crate) functions: Vec<Option<Refusal>>,
    pub(crate) variables: Vec<Option<Refusal>>,
}

/// Finds what of a module cannot be printed.
pub(crate) fn refusals(program: &Program) -> Refusals {
    Reach::new(program).spread()
}

/// Returns the functions that are printed, in the order in which they stand in the original; aliases have the names of
/// what they stand for.
pub(crate) fn in_order(program: &Program, refusals: &[Option<Refusal>]) -> Vec<FuncId> {
    let aliases: HashSet<FuncId> = program.aliases.iter().map(|(alias, _)| *alias).collect();
    let all = functions_of(program, |_| true);
    let printed = all.filter(|id| refusals[id.0 as usize].is_none() && !aliases.contains(id));
    let mut printed: Vec<FuncId> = printed.collect();
    printed.sort_by_key(|id| program.functions[id.0 as usize].span.start);
    printed
}

/// A function as it is printed, which may be otherwise than in the module's tree.
pub(crate) struct Own<'a> {
    pub(crate) function: &'a Function,
    /// Variables that it has beside the tree's.
    pub(crate) variables: &'a [Variable],
    /// Its variables that are aligned to 16 bytes now.
    pub(crate) raised: &'a [VarId],
}

impl<'a> Own<'a> {
    /// Returns a function that is as in the tree.
    pub(crate) fn of(function: &'a Function) -> Self {
        Self {
            function,
            variables: &[],
            raised: &[],
        }
    }
}

/// A module in print.
pub(crate) struct Printer<'a> {
    program: &'a Program,
    names: Names,
    /// Variables that the module has beside the tree's. Those of a function follow them.
    added: &'a [Variable],
    /// Variables of the tree that are not printed.
    left_out: Vec<bool>,
    text: Text<'a>,
}

impl<'a> Printer<'a> {
    /// Begins the print of a module that has `added` variables beside the tree's. Where the lines of the original are
    /// given, they are kept.
    pub(crate) fn new(
        program: &'a Program,
        added: &'a [Variable],
        original: Option<&'a Lines>,
    ) -> Self {
        Self {
            program,
            names: Names::new(program, added),
            added,
            left_out: vec![false; program.variables.len()],
            text: Text::new(original),
        }
    }

    /// Leaves variables of the tree's module scope out, which nothing that is printed may name then.
    pub(crate) fn leave_out(&mut self, which: impl Fn(VarId) -> bool) {
        for (n, left_out) in (0_u32..).zip(&mut self.left_out) {
            *left_out |= which(VarId(n));
        }
    }

    /// Returns the name of a variable in the text.
    pub(crate) fn name_of(&self, variable: VarId) -> String {
        self.names.variable_name(variable)
    }

    /// Prints what stands in front of all bodies: the header, and declarations of functions that are named before they
    /// are defined, with the parameters that they are handed beside their own, and of the module's variables.
    pub(crate) fn begin(
        &mut self,
        functions: &[FuncId],
        refusals: &Refusals,
        formals: impl Fn(FuncId) -> Vec<Param>,
    ) {
        self.header();
        let ahead = reach::named_ahead(self.program, functions);
        for id in functions {
            let function = &self.program.functions[id.0 as usize];
            if !function.is_defined || ahead.contains(id) {
                let linkage = match (function.is_defined, function.is_entry) {
                    (false, _) => ".extern ",
                    (true, true) => ".visible ",
                    (true, false) => "",
                };
                self.text.push(linkage);
                self.head(*id, function, &formals(*id));
                self.text.push(";");
                self.text.end();
            }
        }
        for (n, variable) in (0_u32..).zip(&self.program.variables) {
            let is_printed = refusals.variables[n as usize].is_none() && !self.left_out[n as usize];
            if variable.owner.is_none() && is_printed {
                self.variable(variable, VarId(n));
            }
        }
        let first = self.program.variables.len();
        for (n, variable) in (first..).zip(self.added) {
            self.variable(variable, VarId(u32::try_from(n).unwrap_or(u32::MAX)));
        }
    }

    /// Returns the number of bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.text.out.len()
    }

    /// Returns where the text ends.
    pub(crate) fn mark(&self) -> Mark {
        self.text.mark()
    }

    /// Takes back what was printed since.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.text.back_to(mark);
    }

    /// Returns the text, as long as the decoder asks of so many instructions.
    pub(crate) fn finish(mut self) -> String {
        self.files();
        let mut text = self.text.out;
        let functions = &self.program.functions;
        // One `;` or label's `:` at least for each.
        let instructions = text.bytes().filter(|byte| *byte == b';').count();
        // A function may stand there twice, once as a declaration.
        let least = BYTES_PER_INSTRUCTION * instructions + 2 * BYTES_PER_FUNCTION * functions.len();
        let missing = least.saturating_sub(text.len() + FREE_BYTES);
        text.extend(std::iter::repeat_n('\n', missing));
        text
    }

    /// Prints the names of source files, in letters that mean nothing in a string.
    fn files(&mut self) {
        for (number, name) in &self.program.files {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+ ".contains(c);
            let plain = |c: char| if is_plain(c) { c } else { '_' };
            let name: String = name.chars().map(plain).collect();
            let _ = write!(self.text, "\n.file {number} \"{name}\"\n");
        }
    }

    fn header(&mut self) {
        let program = self.program;
        let (major, minor) = program.version;
        let _ = write!(self.text, ".version {major}.{minor}");
        self.text.end();
        // Checked by the decoder to be an architecture and known options.
        let mut target = program.target.split(',').map(str::trim);
        let _ = write!(self.text, ".target {}", target.next().unwrap_or_default());
        for option in target.filter(|option| option.starts_with("texmode_")) {
            let _ = write!(self.text, ", {option}");
        }
        self.text.end();
        if program.version >= (2, 3) {
            let _ = write!(self.text, ".address_size {}", program.address_size);
            self.text.end();
        }
    }
}

fn functions_of<'a>(
    program: &'a Program,
    of: impl Fn(&Function) -> bool + 'a,
) -> impl Iterator<Item = FuncId> + 'a {
    let all = (0_u32..).zip(&program.functions);
    all.filter(move |(_, f)| of(f)).map(|(n, _)| FuncId(n))
}

/// Returns what of the header cannot be printed.
fn header_refusal(program: &Program) -> Option<Unexpressed> {
    let mut options = program.target.split(',').map(str::trim);
    let found = options.find(|option| *option == "map_f64_to_f32")?;
    Some(Unexpressed::Target(found.to_owned()))
}
