//! Single- and double-precision arithmetic (PTX ISA section 9.7.3): add, sub, mul, fma, mad, div, rcp, sqrt,
//! rsqrt, min, max, abs, neg, copysign, testp.
//!
//! Rules: `fma` rounds once; `.ftz` flushes subnormal inputs and results to zero of the same sign; `.sat` clamps to
//! [0, 1] and turns NaN into 0; approximate forms are computed exactly and rounded, which is inside the error
//! that the ISA allows, and have the ISA's special values. Directed rounding is the family `directed`.

use super::directed;
use super::half::{self, FTZ as FLAG_FTZ, NAN_WINS, XORSIGN};
use super::integer::{binary, ternary, unary};
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{LaneValue, map1, map2, map3, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{NONE, Op};
use gridmux_ptx::decode::{Instruction, Mode, Opcode, Rounding, ScalarType as T};
use num_traits::Float;

/// Floating-point numbers as PTX computes with them.
pub(in crate::exec) trait Real: LaneValue + Float {
    /// Returns the canonical NaN: all bits but the sign.
    fn canonical_nan() -> Self;
    /// Rounds to an integral number, ties to the even one.
    fn integral(self) -> Self;
}

macro_rules! real {
    ($($ty:ty),*) => {
        $(impl Real for $ty {
            #[inline(always)]
            fn canonical_nan() -> Self {
                Self::from_bits(Self::INFINITY.to_bits() | (Self::MIN_POSITIVE.to_bits() - 1))
            }
            #[inline(always)]
            fn integral(self) -> Self {
                self.round_ties_even()
            }
        })*
    };
}
real!(f32, f64);

/// Returns a number, or a zero of its sign instead of a subnormal one.
#[inline(always)]
pub(super) fn flush<R: Real>(v: R) -> R {
    if v.abs() < R::min_positive_value() {
        R::zero().copysign(v)
    } else {
        v
    }
}

/// Returns a number, flushed with `FTZ`.
#[inline(always)]
pub(super) fn flushed<R: Real, const FTZ: bool>(v: R) -> R {
    if FTZ { flush(v) } else { v }
}

#[inline(always)]
fn output<R: Real, const FTZ: bool, const SAT: bool>(v: R) -> R {
    let v = flushed::<R, FTZ>(v);
    if !SAT {
        return v;
    }
    let low = if v > R::zero() { v } else { R::zero() };
    if low < R::one() { low } else { R::one() }
}

/// Returns the number that is not NaN, else the smaller, −0 being smaller than +0.
#[inline(always)]
fn least<R: Real>(a: R, b: R) -> R {
    let a_first = a < b || (a == b && a.is_sign_negative()) || b.is_nan();
    if a_first { a } else { b }
}

#[inline(always)]
fn greatest<R: Real>(a: R, b: R) -> R {
    let a_first = a > b || (a == b && b.is_sign_negative()) || b.is_nan();
    if a_first { a } else { b }
}

/// Returns the minimum with `.NaN` and `.xorsign.abs` as `aux` has them.
#[inline(always)]
pub(in crate::exec) fn minimum<R: Real>(a: R, b: R, aux: u32) -> R {
    selected(a, b, aux, least)
}

/// Returns the maximum with `.NaN` and `.xorsign.abs` as `aux` has them.
#[inline(always)]
pub(in crate::exec) fn maximum<R: Real>(a: R, b: R, aux: u32) -> R {
    selected(a, b, aux, greatest)
}

#[inline(always)]
fn selected<R: Real>(a: R, b: R, aux: u32, choose: impl Fn(R, R) -> R) -> R {
    let crossed = aux & XORSIGN != 0;
    let (x, y) = if crossed { (a.abs(), b.abs()) } else { (a, b) };
    let chosen = choose(x, y);
    let negative = a.is_sign_negative() != b.is_sign_negative();
    let signed = if negative { -chosen } else { chosen };
    let chosen = if crossed { signed } else { chosen };
    let either = a.is_nan() || b.is_nan();
    let both = a.is_nan() && b.is_nan();
    if both || (aux & NAN_WINS != 0 && either) {
        R::canonical_nan()
    } else {
        chosen
    }
}

lane_fn!(Add<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(flushed::<R, FTZ>(a) + flushed::<R, FTZ>(b))
}));
lane_fn!(Sub<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(flushed::<R, FTZ>(a) - flushed::<R, FTZ>(b))
}));
lane_fn!(Mul<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(flushed::<R, FTZ>(a) * flushed::<R, FTZ>(b))
}));
lane_fn!(Fma<R: Real>[FTZ: bool, SAT: bool], |cx, op| map3::<R, R, R, R>(cx, op, |a, b, c| {
    output::<R, FTZ, SAT>(flushed::<R, FTZ>(a).mul_add(flushed::<R, FTZ>(b), flushed::<R, FTZ>(c)))
}));
lane_fn!(Div<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(flushed::<R, FTZ>(a) / flushed::<R, FTZ>(b))
}));
lane_fn!(Rcp<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    output::<R, FTZ, SAT>(R::one() / flushed::<R, FTZ>(a))
}));
lane_fn!(Sqrt<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    output::<R, FTZ, SAT>(flushed::<R, FTZ>(a).sqrt())
}));
lane_fn!(Rsqrt<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    output::<R, FTZ, SAT>(R::one() / flushed::<R, FTZ>(a).sqrt())
}));
lane_fn!(Min<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(least(flushed::<R, FTZ>(a), flushed::<R, FTZ>(b)))
}));
lane_fn!(Max<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(greatest(flushed::<R, FTZ>(a), flushed::<R, FTZ>(b)))
}));
lane_fn!(Abs<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    flushed::<R, FTZ>(a.abs())
}));
lane_fn!(Neg<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    flushed::<R, FTZ>(-a)
}));
lane_fn!(Copysign<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| b.copysign(a)));
lane_fn!(
    /// A divisor above 2^126 gives zero, or NaN under an infinity (PTX ISA section 9.7.3, `div.approx`).
    DivApprox<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    let (a, b) = (flushed::<R, FTZ>(a), flushed::<R, FTZ>(b));
    let quotient = a / b;
    let magnitude = b.abs();
    let beyond = magnitude > R::one() / R::min_positive_value() && !magnitude.is_infinite();
    let edge = if a.is_infinite() { R::canonical_nan() } else { quotient * R::zero() };
    output::<R, FTZ, SAT>(if beyond { edge } else { quotient })
}));
lane_fn!(
    /// `r`: destination, a, b, c or none; `aux` holds the flags, and its code is 1 for the maximum.
    Select<R: Real>, |cx, op| select_lanes::<R>(cx, op)
);
lane_fn!(
    /// `r`: destination predicate, source; `aux` is the property.
    TestP<R: Real>, |cx, op| {
    let values = read::<R>(cx, op.r[1]);
    let mut bits = 0;
    for (lane, v) in values.iter().enumerate() {
        let finite = !v.is_nan() && !v.is_infinite();
        let holds = match op.aux {
            FINITE => finite,
            INFINITE => v.is_infinite(),
            NUMBER => !v.is_nan(),
            NOT_A_NUMBER => v.is_nan(),
            NORMAL => v.is_normal() || *v == R::zero(),
            // Zero counts as normal (PTX ISA section 9.7.3, `testp`).
            _ => finite && !v.is_normal() && *v != R::zero(),
        };
        bits |= u32::from(holds) << lane;
    }
    cx.set_predicate(op.r[0], bits);
});
lane_fn!(
    /// `rcp` and `rsqrt` of the upper word only (PTX ISA section 9.7.3, `rcp.approx.ftz.f64`); `aux` 1: rsqrt.
    Gross, |cx, op| {
    let root = op.aux != 0;
    map1::<f64, f64>(cx, op, |a| {
        let upper = |v: f64| flush(f64::from_bits(v.to_bits() & !0xffff_ffff));
        let a = upper(a);
        let result = upper(1.0 / if root { a.sqrt() } else { a });
        if f64::is_nan(result) { f64::from_bits(0x7fff_ffff_0000_0000) } else { result }
    });
});

const FINITE: u32 = 0;
const INFINITE: u32 = 1;
const NUMBER: u32 = 2;
const NOT_A_NUMBER: u32 = 3;
const NORMAL: u32 = 4;
const SUBNORMAL: u32 = 5;

#[inline(always)]
fn select_lanes<R: Real>(cx: &mut Cx<'_>, op: &Op) {
    let aux = op.aux;
    let input = |v: R| if aux & FLAG_FTZ != 0 { flush(v) } else { v };
    let choose = |a: R, b: R| {
        if aux >> half::CODE_SHIFT == 1 {
            maximum(a, b, aux)
        } else {
            minimum(a, b, aux)
        }
    };
    if op.r[3] == NONE {
        map2::<R, R, R>(cx, op, |a, b| choose(input(a), input(b)));
    } else {
        map3::<R, R, R, R>(cx, op, |a, b, c| {
            choose(choose(input(a), input(b)), input(c))
        });
    }
}

/// The copy of a function for a type, `.ftz` and `.sat`.
macro_rules! by_real {
    ($ty:expr, $i:expr, $f:ident) => {
        match ($ty, $i.mods.ftz, $i.mods.sat) {
            (T::F32, false, false) => handler::<$f<f32, false, false>>(),
            (T::F32, true, false) => handler::<$f<f32, true, false>>(),
            (T::F32, false, true) => handler::<$f<f32, false, true>>(),
            (T::F32, true, true) => handler::<$f<f32, true, true>>(),
            (T::F64, _, false) => handler::<$f<f64, false, false>>(),
            _ => return None,
        }
    };
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    if half::is_small(ty) && i.opcode != Opcode::TestP {
        return half::lower(l, i);
    }
    let rounds = !matches!(i.mods.rounding, None | Some(Rounding::Rn));
    if i.opcode == Opcode::TestP {
        return testp(l, i, ty);
    }
    if rounds || ty == T::F32x2 || i.mods.types.len() > 1 {
        return directed::lower(l, i);
    }
    if i.mods.relu {
        return None;
    }
    let class = class(ty);
    match i.opcode {
        Opcode::Min | Opcode::Max if i.operands.len() > 3 || i.mods.nan || i.mods.xorsign_abs => {
            select(l, i, ty)
        }
        _ if i.mods.nan || i.mods.xorsign_abs => None,
        Opcode::Add => binary(l, i, by_real!(ty, i, Add), class),
        Opcode::Sub => binary(l, i, by_real!(ty, i, Sub), class),
        Opcode::Mul => binary(l, i, by_real!(ty, i, Mul), class),
        Opcode::Fma | Opcode::Mad => ternary(l, i, by_real!(ty, i, Fma), class),
        Opcode::Min => binary(l, i, by_real!(ty, i, Min), class),
        Opcode::Max => binary(l, i, by_real!(ty, i, Max), class),
        Opcode::Abs => unary(l, i, by_real!(ty, i, Abs), class),
        Opcode::Neg => unary(l, i, by_real!(ty, i, Neg), class),
        Opcode::Copysign => binary(l, i, by_real!(ty, i, Copysign), class),
        Opcode::Div if i.mods.approx => binary(l, i, by_real!(ty, i, DivApprox), slow(i, ty)),
        Opcode::Div => binary(l, i, by_real!(ty, i, Div), slow(i, ty)),
        Opcode::Rcp | Opcode::Rsqrt if i.mods.approx && i.mods.ftz && ty == T::F64 => {
            let root = u32::from(i.opcode == Opcode::Rsqrt);
            Some(unary(l, i, handler::<Gross>(), Class::Sfu)?.aux(root))
        }
        Opcode::Rcp => unary(l, i, by_real!(ty, i, Rcp), slow(i, ty)),
        Opcode::Sqrt => unary(l, i, by_real!(ty, i, Sqrt), slow(i, ty)),
        Opcode::Rsqrt => unary(l, i, by_real!(ty, i, Rsqrt), slow(i, ty)),
        _ => None,
    }
}

/// Returns the pipeline of a type's arithmetic.
pub(in crate::exec) fn class(ty: T) -> Class {
    if ty == T::F64 {
        Class::Fp64
    } else {
        Class::Fp32
    }
}

fn select(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    let exec = match ty {
        T::F32 => handler::<Select<f32>>(),
        T::F64 if !i.mods.nan && !i.mods.xorsign_abs => handler::<Select<f64>>(),
        _ => return None,
    };
    let third = match i.operands.get(3) {
        Some(_) => l.src(i, 3, ty)?,
        None => NONE,
    };
    let operands = [l.dst(i, ty)?, l.src(i, 1, ty)?, l.src(i, 2, ty)?, third];
    let code = u32::from(i.opcode == Opcode::Max) << half::CODE_SHIFT;
    Some(Draft::alu(exec, class(ty), &operands).aux(half::flags(i) | code))
}

fn testp(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    let exec = match ty {
        T::F32 => handler::<TestP<f32>>(),
        T::F64 => handler::<TestP<f64>>(),
        _ => return None,
    };
    let property = match i.mods.mode? {
        Mode::Finite => FINITE,
        Mode::Infinite => INFINITE,
        Mode::Number => NUMBER,
        Mode::NotANumber => NOT_A_NUMBER,
        Mode::Normal => NORMAL,
        Mode::Subnormal => SUBNORMAL,
        _ => return None,
    };
    let operands = [l.predicate(i.operands.first()?)?, l.src(i, 1, ty)?];
    Some(Draft::alu(exec, class(ty), &operands).aux(property))
}

/// Returns a form's class: approximate ones are one special-function operation, exact ones a sequence.
pub(super) fn slow(i: &Instruction, ty: T) -> Class {
    match (i.mods.approx || i.mods.full, ty) {
        (true, T::F32) => Class::Sfu,
        (false, T::F32) => Class::Fp32Div,
        _ => Class::Fp64Div,
    }
}
