//! Kernel forms: what a kernel is rewritten into so that it can be cut, stopped or confined.
//!
//! Each form is one file with the same two functions: `judge`, which says whether a kernel can take the form, and
//! `rewrite`, which makes it for every kernel of a module that can. A kernel that cannot keeps its bytes, and the
//! refusal says why and on which line. When in doubt a form refuses.

pub mod fence;
mod reach;
mod reason;
pub mod slice;

pub use reason::{Reason, Refusal};

use serde::Serialize;

/// The forms that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Unchanged; launched whole.
    Whole,
    /// Launched in sub-boxes of its grid.
    Slice,
}

/// What became of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelForm {
    /// The kernel's name, which a rewrite keeps.
    pub name: String,
    /// The form it has now.
    pub form: Form,
    /// Why it did not take the form that was asked for.
    pub reason: Option<Refusal>,
    /// Where the 64-byte control block stands in its parameters; `None` for `Whole`.
    pub control_offset: Option<u32>,
    /// Bytes of its parameter block now, the control block included.
    pub params_bytes: u32,
}

/// A rewritten module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The module's text.
    pub bytes: Vec<u8>,
    /// Its kernels, in source order.
    pub kernels: Vec<KernelForm>,
}
