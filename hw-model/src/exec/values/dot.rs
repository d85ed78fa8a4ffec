//! Dot products of bytes (PTX ISA section 9.7.1: dp4a, dp2a).
//!
//! Rule: the sum wraps; each operand is signed or unsigned on its own.

use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::map3;
use crate::exec::lower::{Class, Draft, Lower};
use gridmux_ptx::decode::{Instruction, Opcode, Part, ScalarType as T};

/// In `aux`: the operand is signed; `dp2a` takes the upper bytes.
const SIGNED_A: u32 = 1;
const SIGNED_B: u32 = 2;
const UPPER: u32 = 4;

/// Returns field `n` of `bits` bits, extended as its signedness says.
#[inline(always)]
fn field(word: u32, n: u32, bits: u32, signed: bool) -> u32 {
    let top = word << (32 - bits * (n + 1));
    if signed {
        (top.cast_signed() >> (32 - bits)).cast_unsigned()
    } else {
        top >> (32 - bits)
    }
}

lane_fn!(Dp4a, |cx, op| {
    let (signed_a, signed_b) = (op.aux & SIGNED_A != 0, op.aux & SIGNED_B != 0);
    map3::<u32, u32, u32, u32>(cx, op, |a, b, c| {
        (0..4).fold(c, |sum, n| {
            let product = field(a, n, 8, signed_a).wrapping_mul(field(b, n, 8, signed_b));
            sum.wrapping_add(product)
        })
    });
});
lane_fn!(Dp2a, |cx, op| {
    let (signed_a, signed_b) = (op.aux & SIGNED_A != 0, op.aux & SIGNED_B != 0);
    let first = if op.aux & UPPER != 0 { 2 } else { 0 };
    map3::<u32, u32, u32, u32>(cx, op, |a, b, c| {
        (0..2).fold(c, |sum, n| {
            let product = field(a, n, 16, signed_a).wrapping_mul(field(b, n + first, 8, signed_b));
            sum.wrapping_add(product)
        })
    });
});

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let [a, b] = i.mods.types.as_slice() else {
        return None;
    };
    let signed = |ty: &T| match ty {
        T::S32 => Some(true),
        T::U32 => Some(false),
        _ => None,
    };
    let mut aux = if signed(a)? { SIGNED_A } else { 0 } | if signed(b)? { SIGNED_B } else { 0 };
    let exec = match (i.opcode, i.mods.part) {
        (Opcode::Dp4a, None) => handler::<Dp4a>(),
        (Opcode::Dp2a, Some(Part::Lo)) => handler::<Dp2a>(),
        (Opcode::Dp2a, Some(Part::Hi)) => {
            aux |= UPPER;
            handler::<Dp2a>()
        }
        _ => return None,
    };
    let operands = l.operands(i, [T::B32; 4])?;
    Some(Draft::alu(exec, Class::IntMul, &operands).aux(aux))
}
