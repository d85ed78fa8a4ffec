//! Several modules to one, as a device linker makes it: what one declares `.extern` another defines.
//!
//! The result is a module like any other, text and typed view. It is made of the parts' own statements in their order,
//! with these changes:
//!
//! - one header: the highest `.version`, the one `.target` that all parts fit, the `.address_size` that all share;
//! - a name that only its own module sees is renamed, throughout that module, where another module has it too;
//! - of several `.weak` definitions the first stays, or the strong one that takes their place; of `.common` ones the
//!   largest (PTX ISA section 11.6);
//! - a declaration of what another part defines goes, or stands for the definition where that comes later: what is
//!   declared must agree with what is defined in kind, state space, size, alignment, type and parameters;
//! - dynamic shared memory (`.extern .shared`) stays what it is, and so do the functions that the device's runtime
//!   provides (`vprintf`, `malloc`, …);
//! - what debuggers read (`.file`, `.loc`, `.section`) is dropped, because line numbers of several files are mixed.
//!
//! Kernels are found by name from outside, whether `.visible` or not, and are never renamed. Time and memory are linear
//! in the length of the parts, however many names they have and however long these are.

mod emit;
mod error;
mod header;
mod rename;
mod resolve;
mod shape;
mod symbols;

pub use error::{LinkError, PartLine};

use crate::decode::Program;
use crate::syntax::module::{MAX_BYTES, Module};
use symbols::Symbols;

/// One of the modules that are linked.
#[derive(Debug)]
pub struct Part {
    /// What errors call it, for example its file's name.
    pub name: String,
    /// The module.
    pub module: Module,
}

/// Links modules into one.
///
/// # Errors
/// [`LinkError`], which names the symbol and each module and line that it concerns.
pub fn link(parts: Vec<Part>) -> Result<Module, LinkError> {
    let mut tables = Vec::with_capacity(parts.len());
    let mut headers = Vec::with_capacity(parts.len());
    for part in &parts {
        let program = part.module.decode().map_err(|error| LinkError::Part {
            part: part.name.clone(),
            error: Box::new(error),
        })?;
        headers.push(header::Header::new(&part.name, &program)?);
        tables.push(Symbols::new(part, &program)?);
    }
    let header = header::merge(&parts, &headers)?;
    let globals = resolve::resolve(&parts, &mut tables)?;
    let renamed = rename::rename(&parts, &tables, &globals)?;
    let text = emit::emit(&parts, &tables, &globals, &renamed, header)?;
    drop((tables, parts));
    Module::parse(text).map_err(|error| LinkError::Linked(Box::new(error)))
}

/// Checks that a module, of which `program` is the typed view, needs no other: what it uses and does not define is
/// dynamic shared memory or provided by the device's runtime.
///
/// # Errors
/// [`LinkError::Unresolved`].
pub fn check_alone(part: &Part, program: &Program) -> Result<(), LinkError> {
    resolve::check_alone(part, &Symbols::read(&part.module, program))
}

/// Returns the length that the linked text has so far.
///
/// # Errors
/// [`LinkError::TooLarge`] when it is over the limit of a module.
fn within_limit(bytes: usize) -> Result<usize, LinkError> {
    match bytes {
        0..=MAX_BYTES => Ok(bytes),
        _ => Err(LinkError::TooLarge),
    }
}
