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

use super::facts::Facts;
use super::frame::{Frame, Role};
use super::special_reads::{self, plain_destination};
use super::value::{Value, Values};
use super::{Reason, Shape};
use crate::decode::SpecialReg;

/// Returns why the function cannot be cut at all, for reasons of its own.
pub(super) fn judge(facts: &Facts) -> Option<(Reason, u32)> {
    facts.refusal.clone()
}

/// Returns the values that a function reads itself.
pub(super) fn needs(facts: &Facts) -> Values {
    let mut values = Values::default();
    facts
        .reads
        .iter()
        .for_each(|read| values.insert(read.value));
    values
}

/// Rectifies every read of the grid.
pub(super) fn edit(frame: &mut Frame<'_>, facts: &Facts) {
    // A whole kernel's reads are right; so are those of a function that no kernel calls that is cut.
    let is_whole = frame.shape() == Shape::Whole;
    let is_right = |frame: &Frame<'_>, value| match frame.role {
        Role::Kernel(_) => is_whole,
        Role::Callee { .. } => frame.formal(value).is_none(),
    };
    let mut last = None;
    for read in &facts.reads {
        let n = read.instruction;
        if is_right(frame, read.value) || last.replace(n) == Some(n) {
            continue;
        }
        let instruction = &frame.function.body[n as usize];
        if let Some(into) = plain_destination(frame, instruction) {
            let code = frame.load(read.value, into);
            frame.replace(n, code);
            continue;
        }
        special_reads::replace(frame, n, |frame, register| {
            let value = match register {
                SpecialReg::Ctaid(axis @ 0..3) => Value::Ctaid(axis),
                SpecialReg::Nctaid(axis @ 0..3) => Value::Nctaid(axis),
                _ => return None,
            };
            Some(frame.held(value))
        });
    }
}
