//! Measured figures of real cards, held against the model.
//!
//! [`read`] of the test kit reads `hw-model/validation/*.toml`, [`measure`] repeats each figure on the model with the
//! kernels of `hw-model/validation/kernels`, [`judge`] sums up the errors by class, [`draw`] draws the curves.
//!
//! Rules: a figure is what somebody measured, never what the model should say; the errors are reported as they are.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the test uses one part of this, the benchmark another"
)]

pub mod draw;
pub mod judge;
pub mod machine;
pub mod measure;

pub use gridmux_testkit::validation::{read, schema};
use std::path::PathBuf;

/// Returns the folder of validation files.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("validation")
}
