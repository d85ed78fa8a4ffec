//! The `worker` form: the body as a loop over block numbers.

use super::Reason;
use super::facts::Facts;
use super::frame::Frame;
use crate::decode::Program;

/// Why the function stands in the way of the loop, for reasons of its own.
pub(super) fn judge(_program: &Program, _facts: &Facts, start: u32) -> Option<(Reason, u32)> {
    Some((Reason::NotBuilt { form: "worker" }, start))
}

/// Puts the loop round a kernel's body.
pub(super) fn edit(_frame: &mut Frame<'_>, _facts: &Facts) {}
