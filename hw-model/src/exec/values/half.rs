//! Half precision: f16, bf16 and their packed pairs (PTX ISA section 9.7.4): add, sub, mul, fma, min, max, abs,
//! neg, ex2, tanh.
//!
//! Lanes are computed in double precision and rounded once, so that results are those of exact arithmetic.
//! Rules: NaN results are 0x7fff; `.ftz` (f16 only) flushes subnormal inputs and results; `.sat` clamps to
//! [0, 1] and turns NaN into 0; `.relu` turns what is below +0 into +0 and keeps NaN.

use super::float::{maximum, minimum};
use super::round::{self, Brain, Format, Half, NEAREST};
use super::special;
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{LaneValue, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{ExecFn, Op};
use gridmux_ptx::decode::{Instruction, Opcode, Rounding, ScalarType as T};
use std::marker::PhantomData;

/// Sixteen-bit formats.
pub(in crate::exec) trait Small: Format {
    /// Smallest normal number.
    const LEAST_NORMAL: f32;
    fn widen(bits: u16) -> f32;
    /// Bits of a value that the format holds.
    fn narrow(v: f32) -> u16;
}
impl Small for Half {
    const LEAST_NORMAL: f32 = 6.103_515_6e-5;
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        round::half_to_single(bits)
    }
    #[inline(always)]
    fn narrow(v: f32) -> u16 {
        round::single_to_half(v)
    }
}
impl Small for Brain {
    const LEAST_NORMAL: f32 = f32::MIN_POSITIVE;
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        round::brain_to_single(bits)
    }
    #[inline(always)]
    fn narrow(v: f32) -> u16 {
        round::single_to_brain(v)
    }
}

/// A lane of a sixteen-bit format as the single-precision number that it stands for; the upper half of the word
/// with `HIGH`, flushed with `FLUSH`.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct As<F, const HIGH: bool, const FLUSH: bool>(
    pub(crate) f32,
    PhantomData<F>,
);

impl<F, const HIGH: bool, const FLUSH: bool> PartialEq for As<F, HIGH, FLUSH> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<F, const HIGH: bool, const FLUSH: bool> PartialOrd for As<F, HIGH, FLUSH> {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.0)
    }
}
impl<F: Small + Copy, const HIGH: bool, const FLUSH: bool> LaneValue for As<F, HIGH, FLUSH> {
    type Raw = u32;
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "one half is the value")]
    fn get(raw: u32) -> Self {
        let v = F::widen((raw >> if HIGH { 16 } else { 0 }) as u16);
        Self(flushed::<F>(v, if FLUSH { FTZ } else { 0 }), PhantomData)
    }
    #[inline(always)]
    fn put(self) -> u32 {
        u32::from(F::narrow(self.0))
    }
}

/// Flags of float operations in `aux`; the rounding mode stands in its low byte.
pub(super) const FTZ: u32 = 1 << 8;
pub(super) const SAT: u32 = 1 << 9;
pub(super) const RELU: u32 = 1 << 10;
/// `.NaN`: NaN wins.
pub(super) const NAN_WINS: u32 = 1 << 11;
/// `.xorsign.abs`.
pub(super) const XORSIGN: u32 = 1 << 12;
/// The operation's number stands above the flags.
pub(in crate::exec) const CODE_SHIFT: u32 = 16;

const ADD: u32 = 0;
const SUB: u32 = 1;
const MUL: u32 = 2;
const FMA: u32 = 3;
const MIN: u32 = 4;
const MAX: u32 = 5;
const MAGNITUDE: u32 = 6;
const NEG: u32 = 7;
const EX2: u32 = 8;
const TANH: u32 = 9;

#[inline(always)]
fn flushed<F: Small>(v: f32, aux: u32) -> f32 {
    if aux & FTZ != 0 && v.abs() < F::LEAST_NORMAL {
        0.0_f32.copysign(v)
    } else {
        v
    }
}

/// Applies `.sat` and `.relu`.
#[inline(always)]
pub(in crate::exec) fn clamped(v: f32, aux: u32) -> f32 {
    let low = if v > 0.0 { v } else { 0.0 };
    let both = if low < 1.0 { low } else { 1.0 };
    let relu = if v > 0.0 || v.is_nan() { v } else { 0.0 };
    let v = if aux & RELU != 0 { relu } else { v };
    if aux & SAT != 0 { both } else { v }
}

/// Applies a function to each half of the words; `f` sees single-precision numbers and gives a double that is rounded
/// to the format here.
#[inline(always)]
fn lanes<F: Small, const PACKED: bool>(cx: &Cx<'_>, op: &Op, f: impl Fn(f32, f32, f32) -> f64) {
    let sources = [1, 2, 3].map(|n| read::<u32>(cx, op.r[n]));
    let mut out = [0_u32; 32];
    for half in 0..if PACKED { 2 } else { 1 } {
        let shift = 16 * half;
        for (n, place) in out.iter_mut().enumerate() {
            #[allow(clippy::cast_possible_truncation, reason = "one half of the word")]
            let [a, b, c] = [0, 1, 2]
                .map(|k: usize| flushed::<F>(F::widen((sources[k][n] >> shift) as u16), op.aux));
            let exact = f(a, b, c);
            let rounded = round::to_single(round::round::<F>(exact, NEAREST));
            let bits = F::narrow(clamped(flushed::<F>(rounded, op.aux), op.aux));
            *place |= u32::from(bits) << shift;
        }
    }
    commit(cx, op.r[0], &out);
}

lane_fn!(
    /// `r`: destination, a, b, c, absent ones repeating the first; `aux`: flags and the operation.
    Arithmetic<F: Small>[PACKED: bool], |cx, op| match op.aux >> CODE_SHIFT {
    ADD => lanes::<F, PACKED>(cx, op, |a, b, _| round::add(a.into(), b.into(), NEAREST)),
    SUB => lanes::<F, PACKED>(cx, op, |a, b, _| round::add(a.into(), (-b).into(), NEAREST)),
    MUL => lanes::<F, PACKED>(cx, op, |a, b, _| f64::from(a) * f64::from(b)),
    _ => lanes::<F, PACKED>(cx, op, |a, b, c| {
        round::add(f64::from(a) * f64::from(b), c.into(), NEAREST)
    }),
});
lane_fn!(MinMax<F: Small>[PACKED: bool], |cx, op| {
    let aux = op.aux;
    if aux >> CODE_SHIFT == MIN {
        lanes::<F, PACKED>(cx, op, |a, b, _| minimum(a, b, aux).into());
    } else {
        lanes::<F, PACKED>(cx, op, |a, b, _| maximum(a, b, aux).into());
    }
});
lane_fn!(
    /// Operations on the sign alone, which keep NaN as it is.
    Sign[PACKED: bool], |cx, op| {
    let a = read::<u32>(cx, op.r[1]);
    let halves = if PACKED { 0x8000_8000 } else { 0x8000 };
    let out: [u32; 32] = std::array::from_fn(|n| {
        let word = if PACKED { a[n] } else { a[n] & 0xffff };
        let flushed = |bits: u32| if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits & 0xffff };
        let word = if op.aux & FTZ != 0 { flushed(word) | flushed(word >> 16) << 16 } else { word };
        if op.aux >> CODE_SHIFT == MAGNITUDE { word & !halves } else { word ^ halves }
    });
    commit(cx, op.r[0], &out);
});
lane_fn!(Transcendental<F: Small>[PACKED: bool], |cx, op| {
    if op.aux >> CODE_SHIFT == EX2 {
        lanes::<F, PACKED>(cx, op, |a, _, _| special::exp2(a.into()));
    } else {
        lanes::<F, PACKED>(cx, op, |a, _, _| special::tanh(a.into()));
    }
});

macro_rules! by_small {
    ($ty:expr, $f:ident) => {
        match $ty {
            T::F16 => handler::<$f<Half, false>>(),
            T::F16x2 => handler::<$f<Half, true>>(),
            T::Bf16 => handler::<$f<Brain, false>>(),
            T::Bf16x2 => handler::<$f<Brain, true>>(),
            _ => return None,
        }
    };
}

/// Returns whether this family computes with a type.
pub(super) fn is_small(ty: T) -> bool {
    matches!(ty, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2)
}

/// Returns the flags of an instruction's modifiers.
pub(in crate::exec) fn flags(i: &Instruction) -> u32 {
    let m = &i.mods;
    [
        (m.ftz, FTZ),
        (m.sat, SAT),
        (m.relu, RELU),
        (m.nan, NAN_WINS),
        (m.xorsign_abs, XORSIGN),
    ]
    .into_iter()
    .fold(0, |sum, (set, flag)| if set { sum | flag } else { sum })
}

/// Lowers the family's opcodes; the first type is one of the four.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let m = &i.mods;
    let is_half = matches!(ty, T::F16 | T::F16x2);
    let packed = matches!(ty, T::F16x2 | T::Bf16x2);
    let selects = matches!(i.opcode, Opcode::Min | Opcode::Max);
    let refused = !matches!(m.rounding, None | Some(Rounding::Rn))
        || (m.ftz && !is_half && i.opcode != Opcode::Ex2)
        || (!selects && (m.nan || m.xorsign_abs))
        || (m.relu && i.opcode != Opcode::Fma)
        || !m.rest.is_empty()
        || (m.sat && (m.relu || !is_half))
        || i.mods.types.len() != 1;
    if refused {
        return None;
    }
    let (exec, code, sources, class): (ExecFn, u32, usize, Class) = match i.opcode {
        Opcode::Add => (by_small!(ty, Arithmetic), ADD, 2, Class::Half),
        Opcode::Sub => (by_small!(ty, Arithmetic), SUB, 2, Class::Half),
        Opcode::Mul => (by_small!(ty, Arithmetic), MUL, 2, Class::Half),
        Opcode::Fma => (by_small!(ty, Arithmetic), FMA, 3, Class::Half),
        Opcode::Min => (by_small!(ty, MinMax), MIN, 2, Class::Half),
        Opcode::Max => (by_small!(ty, MinMax), MAX, 2, Class::Half),
        Opcode::Abs if packed => (handler::<Sign<true>>(), MAGNITUDE, 1, Class::Half),
        Opcode::Abs => (handler::<Sign<false>>(), MAGNITUDE, 1, Class::Half),
        Opcode::Neg if packed => (handler::<Sign<true>>(), NEG, 1, Class::Half),
        Opcode::Neg => (handler::<Sign<false>>(), NEG, 1, Class::Half),
        Opcode::Ex2 if m.approx => (by_small!(ty, Transcendental), EX2, 1, Class::Sfu),
        Opcode::Tanh if m.approx => (by_small!(ty, Transcendental), TANH, 1, Class::Sfu),
        _ => return None,
    };
    if i.operands.len() != sources + 1 {
        return None;
    }
    let mut operands = [l.dst(i, ty)?; 4];
    for (n, place) in operands.iter_mut().enumerate().skip(1) {
        *place = l.src(i, if n <= sources { n } else { 1 }, ty)?;
    }
    Some(Draft::alu(exec, class, &operands).aux(flags(i) | code << CODE_SHIFT))
}
