//! The fence in a compilation: which form a kernel takes, what is said of those that take none, and what of an answer
//! is believed.
//!
//! Rule: with [`Unfenceable::Refused`] no entry without a fence is left, whatever a compiler says.

use super::{AnswerError, Wanted};
use crate::device::{Fence, Unfenceable};
use gridmux_ptx::decode::{FuncId, Program, StateSpace, Variable};
use gridmux_ptx::forms::fence::FenceOptions;
use gridmux_ptx::forms::{Form, FormVerdicts, Options, Variables};
use gridmux_ptx::kernel::FormRefusal;
use gridmux_ptx::placed::{POINTER_BYTES, Placed};
use gridmux_ptx::{Kernel, shown};

/// Returns how modules are rewritten for what is wanted.
pub(super) fn options(wanted: Wanted) -> Options {
    let mut options = Options {
        stamps: wanted.stamps,
        ..Options::default()
    };
    if let Some(Fence { mode, .. }) = wanted.fence {
        options.fence = FenceOptions {
            mode,
            ..FenceOptions::default()
        };
        options.variables = Variables::Placed;
    }
    options
}

/// Returns the form of a kernel that is to be fenced, or the one that it has without a fence.
pub(super) fn fenced(
    verdicts: &FormVerdicts,
    id: FuncId,
    (fence, options): (Fence, &Options),
) -> Form {
    let takes = |form: &Form| verdicts.refusal_with(id, *form, options).is_none();
    // The barrier's state lies in the driver's memory.
    let mut fenced = [Form::FENCE_SLICE, Form::FENCE].into_iter();
    let found = match verdicts.syncs_grid(id) {
        true => None,
        false => fenced.find(takes),
    };
    found.unwrap_or(match fence.unfenceable {
        Unfenceable::Shared if takes(&Form::SLICE) => Form::SLICE,
        Unfenceable::Shared | Unfenceable::Refused => Form::WHOLE,
    })
}

/// Adds to what is said of a kernel why it is not cut, or not fenced.
pub(super) fn say_refused(
    kernel: &mut Kernel,
    verdicts: &FormVerdicts,
    (id, options): (FuncId, &Options),
) {
    for form in [Form::FENCE_SLICE, Form::FENCE] {
        let refusal = verdicts.refusal_with(id, form, options);
        if let (Some(refusal), None) = (refusal, kernel.refusal(form)) {
            let refusal = refusal.clone();
            kernel.refusals.push(FormRefusal { form, refusal });
        }
    }
}

/// Takes the entries that are not fenced from a kernel that has to be, and returns why it cannot be launched then.
pub(super) fn refused(kernel: &mut Kernel, fence: Option<Fence>) -> Option<String> {
    let fence = fence?;
    if fence.unfenceable == Unfenceable::Refused {
        kernel.entries.retain(|entry| entry.fence.is_some());
    }
    if !kernel.entries.is_empty() || kernel.malformed.is_some() {
        return None;
    }
    let why = match kernel.refusal(Form::FENCE) {
        Some(refusal) => refusal.to_string(),
        None if kernel.refusals.is_empty() => {
            "it synchronises the whole grid through memory of the driver's".to_owned()
        }
        None => kernel.refusals[0].refusal.to_string(),
    };
    Some(format!(
        "kernel '{}' cannot be fenced (device.isolation, device.unfenceable): {why}",
        shown(&kernel.name)
    ))
}

/// Checks that placed variables are wanted, and that the text has the constant that says where they are.
pub(super) fn check_placed(
    placed: &Placed,
    program: &Program,
    wanted: Wanted,
) -> Result<(), AnswerError> {
    placed.check()?;
    let is_pointer = |variable: &Variable| {
        variable.name == placed.pointer
            && variable.owner.is_none()
            && variable.space == StateSpace::Const
            && variable.size_bytes == POINTER_BYTES
    };
    let has_pointer = program.variables.iter().any(is_pointer);
    match has_pointer && wanted.fence.is_some() {
        true => Ok(()),
        false => Err(AnswerError::Pointer(shown(&placed.pointer))),
    }
}
