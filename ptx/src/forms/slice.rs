//! The `slice` form: a kernel that can be launched in sub-boxes of its grid (Kernelet, section 4.1).
//!
//! Every read of `%ctaid` gets the sub-box's offset added, every read of `%nctaid` becomes a read of the original
//! grid, both from the control block (PTX ISA section 10):
//!
//! ```text
//! mov.u32 %r3, %ctaid.x;   →  mov.u32 %r3, %ctaid.x; ld.param.u32 %t, [control+0]; add.u32 %r3, %r3, %t;
//! mov.u32 %r4, %nctaid.y;  →  ld.param.u32 %r4, [control+16];
//! ```
//!
//! The temporary is an operand from the constant bank after `ptxas` and costs nothing. `edit` serves `worker`, which
//! has the coordinates in registers of its loop, and called functions, which are handed them, too: where a value is
//! loaded from is the [`frame`](super::frame)'s to say.

use super::facts::{Facts, GridRegister, Read};
use super::frame::{Frame, Role};
use super::value::Value;
use super::{Reason, Shape};

/// Returns why the function cannot be cut at all, for reasons of its own.
pub(super) fn judge(facts: &Facts) -> Option<(Reason, u32)> {
    facts.refusal.clone()
}

/// Returns what a read asks for.
fn value(read: &Read) -> Value {
    match read.register {
        GridRegister::Ctaid => Value::Ctaid(read.axis),
        GridRegister::Nctaid => Value::Nctaid(read.axis),
    }
}

/// Returns the values that a function reads itself.
pub(super) fn needs(facts: &Facts) -> super::value::Values {
    let mut values = super::value::Values::default();
    facts.reads.iter().for_each(|r| values.insert(value(r)));
    values
}

/// Rectifies every read of the grid.
pub(super) fn edit(frame: &mut Frame<'_>, facts: &Facts) {
    if frame.shape() == Shape::Whole && matches!(frame.role, Role::Kernel(_)) {
        return;
    }
    for read in &facts.reads {
        let value = value(read);
        if frame.shape() == Shape::Whole && frame.formal(value).is_none() {
            // A function that no rewritten kernel calls.
            continue;
        }
        match &read.into {
            Some(register) => {
                let text = frame.load(value, register);
                frame.edits.replace(frame.span(read.instruction), text);
            }
            None => {
                let register = match frame.formal(value) {
                    Some(formal) => formal,
                    None => {
                        let t = frame.fresh("b32");
                        let text = frame.load(value, &t);
                        frame.before(read.instruction, &text);
                        t
                    }
                };
                frame.edits.replace(read.span, register);
            }
        }
    }
}
