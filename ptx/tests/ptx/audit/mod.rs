//! An audit of fenced machine code: by data flow, where the upper half of every global and generic address comes from.
//!
//! In the fence's window mode that half must be the control block's base, from its place in the constant bank or as a
//! function was handed it. Beside it there are the windows of shared and local memory, which the hardware says; the
//! control block's own pointers, to which no more than a record's size is added; and variables by name, inside of them.
//! All else is not proved, and named. What data flow cannot see is not proved either: rows of a matrix, whose stride
//! the fence compares, and a generic address in local memory, whose distance from a variable is a minimum. Where it is
//! not known where control goes, nothing of the kernel is proved.
//!
//! What is read is what `nvdisasm` prints of the cubin, and nothing of the text that it was made from.

#[cfg(test)]
mod cases;
mod flow;
mod judge;
#[cfg(test)]
mod limits;
mod listing;
mod opcode;
mod stack;
mod step;
mod value;

pub(crate) use judge::Proof;

use crate::assemble::{self, Assembler};
use gridmux_ptx::Module;
use gridmux_ptx::control::{COUNTERS_AT, COUNTERS_BYTES, FENCE_BASE_AT, STAMP_BYTES, STAMPS_AT};
use gridmux_ptx::forms::fence::{FenceMode, FenceOptions};
use gridmux_ptx::forms::{Form, Options, rewrite};
use step::Block;

/// A module whose kernels are fenced.
pub(crate) struct Fenced {
    pub(crate) text: Vec<u8>,
    /// The names of those that are.
    pub(crate) kernels: Vec<String>,
    /// How many are not.
    pub(crate) refused: usize,
}

/// Fences a module's kernels in the window mode.
///
/// # Errors
/// What is wrong with the module.
pub(crate) fn fenced(text: &[u8], form: Form) -> Result<Fenced, String> {
    let module = Module::parse(text).map_err(|e| e.to_string())?;
    let program = module.decode().map_err(|e| e.to_string())?;
    let options = Options {
        fence: FenceOptions {
            mode: FenceMode::Window,
            zero_shared: false,
        },
        ..Options::default()
    };
    let made = rewrite(&module, &program, &options, |_| form);
    let count = made.kernels.len();
    let took = made.kernels.into_iter().filter(|k| k.has(form));
    let kernels: Vec<String> = took
        .filter_map(|k| Some(k.entry(form.shape)?.name.clone()))
        .collect();
    Ok(Fenced {
        text: made.bytes,
        refused: count - kernels.len(),
        kernels,
    })
}

/// Returns the architectures that a module is audited for.
pub(crate) fn targets(text: &[u8]) -> Vec<String> {
    let is_audited = |target: &String| target.starts_with("sm_80") || target.starts_with("sm_90");
    let mut targets = assemble::targets(text);
    targets.retain(is_audited);
    targets
}

/// Proves what it can of fenced kernels.
///
/// # Errors
/// If the module does not assemble, or the disassembler does not know the architecture.
pub(crate) fn audit(
    assembler: &Assembler,
    text: &[u8],
    kernels: &[String],
    target: &str,
) -> Result<Vec<Proof>, String> {
    let printed = assembler.disassemble(text, target)?;
    let listing = listing::read(&printed);
    kernels
        .iter()
        .map(|kernel| prove(&listing, kernel, flow::MOST_ROUNDS))
        .collect()
}

/// Proves what it can of one kernel of a listing, in so many rounds.
fn prove(listing: &listing::Listing, kernel: &str, rounds: usize) -> Result<Proof, String> {
    let params = listing
        .params
        .ok_or("the cubin does not say where parameters are")?;
    let block = Block {
        params,
        base_high: i64::from(FENCE_BASE_AT) + 4,
        pointers: [(COUNTERS_AT, COUNTERS_BYTES), (STAMPS_AT, STAMP_BYTES)]
            .map(|(at, bytes)| (i64::from(at), i64::from(bytes))),
    };
    flow::prove(listing, kernel, (block, rounds))
        .ok_or_else(|| format!("the cubin has no kernel `{kernel}`"))
}
