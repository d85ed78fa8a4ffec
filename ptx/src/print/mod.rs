//! The canonical print of a decoded module: PTX text that is made, not the tenant's own.
//!
//! Every name is generated, every declaration, literal and table is made anew from the typed tree; scopes are gone,
//! since names are unique; the tenant's comments, debug information and unknown pragmas are left out, and so are
//! promises that nobody checks (`.ptr`, `.noreturn` of the tenant's own functions). What remains of the tenant's text
//! is the words of instructions that the opcode table knows and, in a comment above each, the names of kernels.
//!
//! Rules: what the tree cannot express is refused by name and place, and with it every kernel that reaches it; the
//! others are printed. The text decodes to the same tree, names and places aside.

mod body;
mod declaration;
mod names;
mod reach;

use crate::decode::{FuncId, Function, Program, Span};
use crate::syntax::module::{BYTES_PER_FUNCTION, BYTES_PER_INSTRUCTION, FREE_BYTES};
use std::fmt::Write;

/// What the typed tree does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each text says what it is")]
pub enum Unexpressed {
    #[error("`{0}` is not known")]
    Instruction(String),
    #[error("the directive `.{0}` is not known here")]
    Directive(String),
    #[error("the initial value of `{0}` is made of parts of addresses of several widths")]
    Initialiser(String),
    #[error(
        "`{0}` is a texture, sampler or surface of the module; bindless ones are handed as parameters"
    )]
    Opaque(String),
    #[error("`{0}` is defined elsewhere")]
    Elsewhere(String),
    #[error("`{0}` takes any number of arguments")]
    Variadic(String),
    #[error("the target `{0}` changes what instructions mean")]
    Target(String),
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

/// A module and the names of its parts.
type Module<'a> = (&'a Program, &'a names::Names);

/// What the tree cannot express, and where it stands.
type Refusal = (Unexpressed, Span);

/// A printed module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Its text.
    pub text: String,
    /// The names of the module's kernels that are in it, and what each is called in the text.
    pub kernels: Vec<(String, String)>,
    /// Kernels that are not in it.
    pub refused: Vec<Refused>,
}

/// Prints a module.
#[must_use]
pub fn print(program: &Program) -> Printed {
    let names = &names::Names::new(program);
    let module = (program, names);
    let mut reach = reach::Reach::new(module);
    let mut text = String::new();
    header(program, &mut text);
    let printed = |f: &FuncId| reach.refusal(*f).is_none();
    let mut functions: Vec<FuncId> = reach.functions().filter(printed).collect();
    functions.sort_by_key(|id| program.functions[id.0 as usize].span.start);
    for id in &functions {
        let function = &program.functions[id.0 as usize];
        if !function.is_entry {
            text.push_str(if function.is_defined { "" } else { ".extern " });
            text.push_str(&declaration::head(module, *id));
            text.push_str(";\n");
        }
    }
    for declaration in reach.variables() {
        text.push_str(declaration);
    }
    let mut kernels = Vec::new();
    for id in functions {
        let function = &program.functions[id.0 as usize];
        if function.is_entry {
            kernels.push((function.name.clone(), names.function(id).to_owned()));
            let _ = write!(text, "\n// {}\n.visible ", function.name);
        } else if function.is_defined {
            text.push('\n');
        }
        text.push_str(&reach.take_body(id));
    }
    pad(program, &mut text);
    let entries = functions_of(program, |f| f.is_entry && f.is_defined);
    let refused = entries.filter_map(|id| {
        let (what, span) = reach.refusal(id)?.clone();
        let kernel = program.functions[id.0 as usize].name.clone();
        Some(Refused { kernel, what, span })
    });
    Printed {
        refused: refused.collect(),
        text,
        kernels,
    }
}

/// Makes a text of very short instructions as long as the decoder asks of so many.
fn pad(program: &Program, text: &mut String) {
    let instructions: usize = program.functions.iter().map(|f| f.body.len()).sum();
    // A function stands there twice, once as a declaration.
    let functions = 2 * program.functions.len();
    let least = BYTES_PER_INSTRUCTION * instructions + BYTES_PER_FUNCTION * functions;
    let missing = least.saturating_sub(text.len() + FREE_BYTES);
    text.extend(std::iter::repeat_n('\n', missing));
}

fn functions_of<'a>(
    program: &'a Program,
    of: impl Fn(&Function) -> bool + 'a,
) -> impl Iterator<Item = FuncId> + 'a {
    let all = (0_u32..).zip(&program.functions);
    all.filter(move |(_, f)| of(f)).map(|(n, _)| FuncId(n))
}

fn header(program: &Program, text: &mut String) {
    let (major, minor) = program.version;
    // Checked by the decoder to be an architecture and known options.
    let mut target = program.target.split(',').map(str::trim);
    let architecture = target.next().unwrap_or_default();
    let _ = write!(text, ".version {major}.{minor}\n.target {architecture}");
    for option in target.filter(|option| option.starts_with("texmode_")) {
        let _ = write!(text, ", {option}");
    }
    text.push('\n');
    if program.version >= (2, 3) {
        let _ = writeln!(text, ".address_size {}", program.address_size);
    }
}

/// Returns what of the header cannot be printed.
fn header_refusal(program: &Program) -> Option<Unexpressed> {
    let mut options = program.target.split(',').map(str::trim);
    let found = options.find(|option| *option == "map_f64_to_f32")?;
    Some(Unexpressed::Target(found.to_owned()))
}
