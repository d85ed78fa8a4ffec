//! Comparison and selection (PTX ISA section 9.7.6): setp, set, selp, slct.
//!
//! Rules: ordered float comparisons are false on NaN, unordered ones (`equ`, `ltu` …) true; `lo ls hi hs` compare
//! unsigned; `.ftz` flushes what is compared.

use super::half::As;
use super::round::{Brain, Half};
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn, once};
use crate::exec::lanes::{LaneValue, commit, compare, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{NONE, Op};
use gridmux_ptx::decode::{
    BoolOp, Comparison, Instruction, Opcode, Operand, RegId, ScalarType as T,
};

const EQ: u32 = 0;
const NE: u32 = 1;
const LT: u32 = 2;
const LE: u32 = 3;
const GT: u32 = 4;
const GE: u32 = 5;
/// Added to a comparison for its unordered form.
const UNORDERED: u32 = 8;
const NUM: u32 = 6;
const NAN: u32 = 7;

/// `aux`: the comparison in the low byte, then how the third predicate is combined.
const COMBINE_SHIFT: u32 = 8;
const COMBINE_AND: u32 = 1;
const COMBINE_OR: u32 = 2;
const COMBINE_XOR: u32 = 3;
/// The third predicate is negated.
const COMBINE_NOT: u32 = 1 << 16;

/// A single-precision lane whose subnormal values are zeros.
#[derive(Debug, Default, Clone, Copy, PartialEq, PartialOrd)]
struct Flushed(f32);

impl LaneValue for Flushed {
    type Raw = u32;
    #[inline(always)]
    fn get(raw: u32) -> Self {
        Self(super::float::flush(f32::from_bits(raw)))
    }
    #[inline(always)]
    fn put(self) -> u32 {
        self.0.to_bits()
    }
}

/// Values that are compared; NaN is not equal to itself.
trait Ordered: LaneValue + PartialOrd {}
impl<V: LaneValue + PartialOrd> Ordered for V {}

#[inline(always)]
fn compared<A: Ordered>(cx: &Cx<'_>, op: &Op, a: u16, b: u16) -> u32 {
    let code = op.aux & 0xff;
    #[allow(clippy::eq_op, reason = "finds NaN")]
    let either_nan = |x: A, y: A| x != x || y != y;
    let ordered = match code & !UNORDERED {
        EQ => compare::<A>(cx, a, b, |x, y| x == y),
        NE => compare::<A>(cx, a, b, |x, y| x != y && !either_nan(x, y)),
        LT => compare::<A>(cx, a, b, |x, y| x < y),
        LE => compare::<A>(cx, a, b, |x, y| x <= y),
        GT => compare::<A>(cx, a, b, |x, y| x > y),
        GE => compare::<A>(cx, a, b, |x, y| x >= y),
        NUM => compare::<A>(cx, a, b, |x, y| !either_nan(x, y)),
        _ => compare::<A>(cx, a, b, either_nan),
    };
    if code & UNORDERED != 0 {
        ordered | compare::<A>(cx, a, b, either_nan)
    } else {
        ordered
    }
}

#[inline(always)]
fn combine(op: &Op, bits: u32, third: u32) -> u32 {
    match op.aux >> COMBINE_SHIFT & 0xff {
        COMBINE_AND => bits & third,
        COMBINE_OR => bits | third,
        COMBINE_XOR => bits ^ third,
        _ => bits,
    }
}

#[inline(always)]
fn third(cx: &Cx<'_>, op: &Op, index: u16) -> u32 {
    if index == NONE {
        return 0;
    }
    cx.predicate(index)
        ^ if op.aux & COMBINE_NOT != 0 {
            u32::MAX
        } else {
            0
        }
}

lane_fn!(
    /// `r`: destination, negated destination, a, b, third predicate.
    Setp<A: Ordered>, |cx, op| {
    let bits = compared::<A>(cx, op, op.r[2], op.r[3]);
    let third = third(cx, op, op.r[4]);
    cx.set_predicate(op.r[0], combine(op, bits, third));
    cx.set_predicate(op.r[1], combine(op, !bits, third));
});
lane_fn!(
    /// `r`: destination, a, b, third predicate; `imm` is the word that stands for true.
    Set<A: Ordered>, |cx, op| {
    let bits = compared::<A>(cx, op, op.r[1], op.r[2]);
    let bits = combine(op, bits, third(cx, op, op.r[3]));
    #[allow(clippy::cast_possible_truncation,  reason = "a 32-bit pattern")]
    let yes = op.imm as u32;
    let out: [u32; 32] = std::array::from_fn(|n| if bits >> n & 1 != 0 { yes } else { 0 });
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// Both halves: `r`: destination of the low one, of the high one, a, b, third predicate.
    SetpPair<A: Ordered, B: Ordered>, |cx, op| {
    let low = compared::<A>(cx, op, op.r[2], op.r[3]);
    let high = compared::<B>(cx, op, op.r[2], op.r[3]);
    let third = third(cx, op, op.r[4]);
    cx.set_predicate(op.r[0], combine(op, low, third));
    cx.set_predicate(op.r[1], combine(op, high, third));
});
lane_fn!(
    /// Both halves: `r`: destination, a, b, third predicate; `imm` is the half that stands for true.
    SetPair<A: Ordered, B: Ordered>, |cx, op| {
    let third = third(cx, op, op.r[3]);
    let low = combine(op, compared::<A>(cx, op, op.r[1], op.r[2]), third);
    let high = combine(op, compared::<B>(cx, op, op.r[1], op.r[2]), third);
    #[allow(clippy::cast_possible_truncation,  reason = "a 16-bit pattern")]
    let yes = op.imm as u32;
    let out: [u32; 32] = std::array::from_fn(|n| {
        ((low >> n & 1) * yes) | ((high >> n & 1) * (yes << 16))
    });
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// `r`: destination, a, b, predicate; `aux` bit 0 negates it.
    Selp<A: LaneValue>, |cx, op| {
    let bits = cx.predicate(op.r[3]) ^ if op.aux & 1 != 0 { u32::MAX } else { 0 };
    let (a, b) = (read::<A>(cx, op.r[1]), read::<A>(cx, op.r[2]));
    let out: [A::Raw; 32] = std::array::from_fn(|n| if bits >> n & 1 != 0 { a[n].put() } else { b[n].put() });
    commit(cx, op.r[0], &out);
});
/// Selectors of `slct`; the default is zero.
pub(super) trait Selector: LaneValue + PartialOrd + Default {}
impl<V: LaneValue + PartialOrd + Default> Selector for V {}

lane_fn!(
    /// `r`: destination, a, b, c; a where c is at least zero.
    Slct<A: LaneValue, C: Selector>, |cx, op| {
    let (a, b, c) = (read::<A>(cx, op.r[1]), read::<A>(cx, op.r[2]), read::<C>(cx, op.r[3]));
    let out: [A::Raw; 32] = std::array::from_fn(|n| if c[n] >= C::default() { a[n].put() } else { b[n].put() });
    commit(cx, op.r[0], &out);
});

fn comparison(c: Comparison) -> u32 {
    match c {
        Comparison::Eq => EQ,
        Comparison::Ne => NE,
        Comparison::Lt | Comparison::Lo => LT,
        Comparison::Le | Comparison::Ls => LE,
        Comparison::Gt | Comparison::Hi => GT,
        Comparison::Ge | Comparison::Hs => GE,
        Comparison::Equ => UNORDERED + EQ,
        Comparison::Neu => UNORDERED + NE,
        Comparison::Ltu => UNORDERED + LT,
        Comparison::Leu => UNORDERED + LE,
        Comparison::Gtu => UNORDERED + GT,
        Comparison::Geu => UNORDERED + GE,
        Comparison::Num => NUM,
        Comparison::Nan => NAN,
    }
}

macro_rules! by_ordered {
    ($ty:expr, $ftz:expr, $f:ident) => {
        match ($ty, $ftz) {
            (T::U16 | T::B16, _) => handler::<$f<u16>>(),
            (T::S16, _) => handler::<$f<i16>>(),
            (T::U32 | T::B32, _) => handler::<$f<u32>>(),
            (T::S32, _) => handler::<$f<i32>>(),
            (T::U64 | T::B64, _) => handler::<$f<u64>>(),
            (T::S64, _) => handler::<$f<i64>>(),
            (T::F32, false) => handler::<$f<f32>>(),
            (T::F32, true) => handler::<$f<Flushed>>(),
            (T::F64, false) => handler::<$f<f64>>(),
            (T::F16, false) => handler::<$f<As<Half, false, false>>>(),
            (T::F16, true) => handler::<$f<As<Half, false, true>>>(),
            (T::Bf16, false) => handler::<$f<As<Brain, false, false>>>(),
            _ => return None,
        }
    };
}

/// The copy of a function on pairs for a packed type.
macro_rules! by_pair {
    ($ty:expr, $ftz:expr, $f:ident) => {
        match ($ty, $ftz) {
            (T::F16x2, false) => once::<$f<As<Half, false, false>, As<Half, true, false>>>(),
            (T::F16x2, true) => once::<$f<As<Half, false, true>, As<Half, true, true>>>(),
            (T::Bf16x2, false) => once::<$f<As<Brain, false, false>, As<Brain, true, false>>>(),
            _ => return None,
        }
    };
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    match i.opcode {
        Opcode::Setp => {
            let (first, second) = destinations(l, i.operands.first()?)?;
            let (third, aux) = combination(l, i, 3)?;
            let operands = [first, second, l.src(i, 1, ty)?, l.src(i, 2, ty)?, third];
            let exec = if matches!(ty, T::F16x2 | T::Bf16x2) {
                by_pair!(ty, i.mods.ftz, SetpPair)
            } else {
                by_ordered!(ty, i.mods.ftz, Setp)
            };
            Some(Draft::alu(exec, class(ty), &operands).aux(aux))
        }
        Opcode::Set => set(l, i),
        Opcode::Selp => {
            let (predicate, negated) = selector(l, i.operands.get(3)?)?;
            let exec = if ty.size_bytes() == 8 {
                handler::<Selp<u64>>()
            } else {
                handler::<Selp<u32>>()
            };
            let operands = [l.dst(i, ty)?, l.src(i, 1, ty)?, l.src(i, 2, ty)?, predicate];
            Some(Draft::alu(exec, Class::Move, &operands).aux(u32::from(negated)))
        }
        Opcode::Slct => {
            let selector = *i.mods.types.get(1)?;
            let exec = match (ty.size_bytes(), selector, i.mods.ftz) {
                (2 | 4, T::S32, false) => handler::<Slct<u32, i32>>(),
                (2 | 4, T::F32, false) => handler::<Slct<u32, f32>>(),
                (2 | 4, T::F32, true) => handler::<Slct<u32, Flushed>>(),
                (8, T::S32, false) => handler::<Slct<u64, i32>>(),
                (8, T::F32, false) => handler::<Slct<u64, f32>>(),
                (8, T::F32, true) => handler::<Slct<u64, Flushed>>(),
                _ => return None,
            };
            let operands = l.operands(i, [ty, ty, ty, selector])?;
            Some(Draft::alu(exec, Class::Move, &operands))
        }
        _ => None,
    }
}

fn set(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let (to, from) = (*i.mods.types.first()?, *i.mods.types.get(1)?);
    let (third, aux) = combination(l, i, 3)?;
    let operands = [l.dst(i, to)?, l.src(i, 1, from)?, l.src(i, 2, from)?, third];
    let (exec, yes) = if matches!(from, T::F16x2 | T::Bf16x2) {
        let yes = match to {
            T::F16x2 if from == T::F16x2 => 0x3c00,
            T::Bf16x2 if from == T::Bf16x2 => 0x3f80,
            T::B32 | T::U32 | T::S32 | T::U16x2 | T::S16x2 => 0xffff,
            _ => return None,
        };
        (by_pair!(from, i.mods.ftz, SetPair), yes)
    } else {
        let yes = match to {
            T::U32 | T::S32 | T::B32 => i64::from(u32::MAX),
            T::F32 => i64::from(1.0_f32.to_bits()),
            T::U16 | T::S16 | T::B16 => 0xffff,
            T::F16 => 0x3c00,
            T::Bf16 => 0x3f80,
            _ => return None,
        };
        (by_ordered!(from, i.mods.ftz, Set), yes)
    };
    Some(Draft::alu(exec, class(from), &operands).imm(yes).aux(aux))
}

fn class(ty: T) -> Class {
    match ty {
        T::F32 => Class::Fp32,
        T::F64 => Class::Fp64,
        _ => Class::Int,
    }
}

fn destinations(l: &Lower<'_>, operand: &Operand) -> Option<(u16, u16)> {
    match operand {
        Operand::RegPair(first, second) => {
            let place = |r: &Option<RegId>| r.map_or(Some(NONE), |r| l.predicate(&Operand::Reg(r)));
            Some((place(first)?, place(second)?))
        }
        Operand::Sink => Some((NONE, NONE)),
        single => Some((l.predicate(single)?, NONE)),
    }
}

/// Returns the third predicate and `aux` of a comparison.
fn combination(l: &Lower<'_>, i: &Instruction, index: usize) -> Option<(u16, u32)> {
    let code = comparison(i.mods.comparison?);
    let Some(bool_op) = i.mods.bool_op else {
        return i.operands.get(index).is_none().then_some((NONE, code));
    };
    let combine = match bool_op {
        BoolOp::And => COMBINE_AND,
        BoolOp::Or => COMBINE_OR,
        BoolOp::Xor => COMBINE_XOR,
    };
    let (third, negated) = selector(l, i.operands.get(index)?)?;
    let not = if negated { COMBINE_NOT } else { 0 };
    Some((third, code | combine << COMBINE_SHIFT | not))
}

/// Returns a predicate operand and whether it is negated.
pub(in crate::exec) fn selector(l: &Lower<'_>, operand: &Operand) -> Option<(u16, bool)> {
    match operand {
        Operand::NotReg(reg) => Some((l.predicate(&Operand::Reg(*reg))?, true)),
        other => Some((l.predicate(other)?, false)),
    }
}
