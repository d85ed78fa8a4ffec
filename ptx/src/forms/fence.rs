//! The `fence`: addresses confined to the tenant's partition.

use super::Reason;
use super::carry::Values;
use super::facts::Facts;
use super::frame::Frame;
use crate::decode::{FuncId, Program};
use crate::syntax::module::Module;

/// Why the function cannot be fenced, for reasons of its own.
pub(super) fn judge(
    _module: &Module,
    program: &Program,
    id: FuncId,
    _facts: &Facts,
) -> Option<(Reason, u32)> {
    let start = program.functions[id.0 as usize].span.start;
    Some((Reason::NotBuilt { form: "fence" }, start))
}

/// The values of the control block that the function's fence uses, itself and not through calls.
pub(super) fn needs(_program: &Program, _id: FuncId) -> Values {
    Values::default()
}

/// Puts the fence into a function: a kernel with the control block or a callee that is handed what it [`needs`].
pub(super) fn edit(_frame: &mut Frame<'_>, _facts: &Facts) {}
