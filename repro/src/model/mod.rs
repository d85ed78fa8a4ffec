//! Our kernels on the SM model in plan mode: launches of chosen size, and what becomes of them under a policy.
//!
//! [`launch`] loads a kernel and its buffers, [`run`] runs a mix and keeps what happened to each block.

mod launch;
mod run;

pub(crate) use launch::{Sized, submission};
pub(crate) use run::{Mix, Ran, Traced};
