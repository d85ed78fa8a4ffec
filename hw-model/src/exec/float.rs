//! Single- and double-precision arithmetic (PTX ISA section 9.7.3): add, sub, mul, fma, mad, div, rcp, sqrt,
//! rsqrt, min, max, abs, neg, copysign.
//!
//! Rules: `fma` rounds once; `.ftz` flushes subnormal inputs and results to zero of the same sign; `.sat` clamps to
//! [0, 1] and turns NaN into 0; approximate forms are computed exactly and rounded, which is inside the error
//! that the ISA allows. Directed rounding is refused.

use super::integer::{binary, ternary, unary};
use super::isa::{handler, lane_fn};
use super::lanes::{Lane, map1, map2, map3};
use super::lower::{Class, Draft, Lower};
use gridmux_ptx::decode::{Instruction, Opcode, Rounding, ScalarType as T};

/// Floating-point numbers as PTX computes with them.
pub(super) trait Real: Lane + PartialOrd {
    fn plus(self, b: Self) -> Self;
    fn minus(self, b: Self) -> Self;
    fn times(self, b: Self) -> Self;
    fn over(self, b: Self) -> Self;
    fn fused(self, b: Self, c: Self) -> Self;
    fn root(self) -> Self;
    fn one() -> Self;
    fn zero() -> Self;
    fn flush(self) -> Self;
    fn negative(self) -> Self;
    fn magnitude(self) -> Self;
    fn sign_of(self, sign: Self) -> Self;
    fn is_negative(self) -> bool;
    fn is_nan(self) -> bool;
}

macro_rules! real {
    ($ty:ty) => {
        impl Real for $ty {
            #[inline(always)]
            fn plus(self, b: Self) -> Self {
                self + b
            }
            #[inline(always)]
            fn minus(self, b: Self) -> Self {
                self - b
            }
            #[inline(always)]
            fn times(self, b: Self) -> Self {
                self * b
            }
            #[inline(always)]
            fn over(self, b: Self) -> Self {
                self / b
            }
            #[inline(always)]
            fn fused(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn one() -> Self {
                1.0
            }
            #[inline(always)]
            fn zero() -> Self {
                0.0
            }
            #[inline(always)]
            fn flush(self) -> Self {
                let subnormal = self.abs() < <$ty>::MIN_POSITIVE;
                if subnormal {
                    self.negative_zero_or_zero()
                } else {
                    self
                }
            }
            #[inline(always)]
            fn negative(self) -> Self {
                -self
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn sign_of(self, sign: Self) -> Self {
                self.copysign(sign)
            }
            #[inline(always)]
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
        }

        impl SignedZero for $ty {
            #[inline(always)]
            fn negative_zero_or_zero(self) -> Self {
                (0.0 as $ty).copysign(self)
            }
        }
    };
}

trait SignedZero {
    fn negative_zero_or_zero(self) -> Self;
}

real!(f32);
real!(f64);

#[inline(always)]
fn input<R: Real, const FTZ: bool>(v: R) -> R {
    if FTZ { v.flush() } else { v }
}

#[inline(always)]
fn output<R: Real, const FTZ: bool, const SAT: bool>(v: R) -> R {
    let v = if FTZ { v.flush() } else { v };
    if !SAT {
        return v;
    }
    let low = if v > R::zero() { v } else { R::zero() };
    if low < R::one() { low } else { R::one() }
}

/// The number that is not NaN, else the smaller, −0 being smaller than +0.
#[inline(always)]
fn least<R: Real>(a: R, b: R) -> R {
    let a_first = a < b || (a == b && a.is_negative()) || b.is_nan();
    if a_first { a } else { b }
}

#[inline(always)]
fn greatest<R: Real>(a: R, b: R) -> R {
    let a_first = a > b || (a == b && b.is_negative()) || b.is_nan();
    if a_first { a } else { b }
}

lane_fn!(Add<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(input::<R, FTZ>(a).plus(input::<R, FTZ>(b)))
}));
lane_fn!(Sub<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(input::<R, FTZ>(a).minus(input::<R, FTZ>(b)))
}));
lane_fn!(Mul<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(input::<R, FTZ>(a).times(input::<R, FTZ>(b)))
}));
lane_fn!(Fma<R: Real>[FTZ: bool, SAT: bool], |cx, op| map3::<R, R, R, R>(cx, op, |a, b, c| {
    output::<R, FTZ, SAT>(input::<R, FTZ>(a).fused(input::<R, FTZ>(b), input::<R, FTZ>(c)))
}));
lane_fn!(Div<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(input::<R, FTZ>(a).over(input::<R, FTZ>(b)))
}));
lane_fn!(Rcp<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    output::<R, FTZ, SAT>(R::one().over(input::<R, FTZ>(a)))
}));
lane_fn!(Sqrt<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    output::<R, FTZ, SAT>(input::<R, FTZ>(a).root())
}));
lane_fn!(Rsqrt<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    output::<R, FTZ, SAT>(R::one().over(input::<R, FTZ>(a).root()))
}));
lane_fn!(Min<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(least(input::<R, FTZ>(a), input::<R, FTZ>(b)))
}));
lane_fn!(Max<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| {
    output::<R, FTZ, SAT>(greatest(input::<R, FTZ>(a), input::<R, FTZ>(b)))
}));
lane_fn!(Abs<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    input::<R, FTZ>(a.magnitude())
}));
lane_fn!(Neg<R: Real>[FTZ: bool, SAT: bool], |cx, op| map1::<R, R>(cx, op, |a| {
    input::<R, FTZ>(a.negative())
}));
lane_fn!(Copysign<R: Real>[FTZ: bool, SAT: bool], |cx, op| map2::<R, R, R>(cx, op, |a, b| b.sign_of(a)));

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
pub(super) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let directed = !matches!(i.mods.rounding, None | Some(Rounding::Rn));
    if directed || i.mods.nan || i.mods.xorsign_abs || i.mods.relu {
        return None;
    }
    let class = if ty == T::F64 {
        Class::Fp64
    } else {
        Class::Fp32
    };
    match i.opcode {
        Opcode::Add => binary(l, i, by_real!(ty, i, Add), class),
        Opcode::Sub => binary(l, i, by_real!(ty, i, Sub), class),
        Opcode::Mul => binary(l, i, by_real!(ty, i, Mul), class),
        Opcode::Fma | Opcode::Mad => ternary(l, i, by_real!(ty, i, Fma), class),
        Opcode::Min => binary(l, i, by_real!(ty, i, Min), class),
        Opcode::Max => binary(l, i, by_real!(ty, i, Max), class),
        Opcode::Abs => unary(l, i, by_real!(ty, i, Abs), class),
        Opcode::Neg => unary(l, i, by_real!(ty, i, Neg), class),
        Opcode::Copysign => binary(l, i, by_real!(ty, i, Copysign), class),
        Opcode::Div => binary(l, i, by_real!(ty, i, Div), slow(i, ty)),
        Opcode::Rcp => unary(l, i, by_real!(ty, i, Rcp), slow(i, ty)),
        Opcode::Sqrt => unary(l, i, by_real!(ty, i, Sqrt), slow(i, ty)),
        Opcode::Rsqrt => unary(l, i, by_real!(ty, i, Rsqrt), slow(i, ty)),
        _ => None,
    }
}

/// Approximate forms are one special-function operation, exact ones a sequence.
fn slow(i: &Instruction, ty: T) -> Class {
    match (i.mods.approx || i.mods.full, ty) {
        (true, T::F32) => Class::Sfu,
        (false, T::F32) => Class::Fp32Div,
        _ => Class::Fp64Div,
    }
}
