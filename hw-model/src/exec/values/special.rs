//! Special functions of single precision (PTX ISA section 9.7.3): ex2, lg2, sin, cos, tanh, all `.approx`.
//!
//! Each is a polynomial in double precision after range reduction, then rounded once, so that the error is about
//! half a unit in the last place; the ISA allows 2 units for ex2 and 2⁻²² to 2⁻²⁰·⁵ absolute for the others.
//! Rule: plain arithmetic only (no library call), so that the lane loops become vectors on every host.

use super::float::flushed;
use super::half;
use super::integer::unary;
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::map1;
use crate::exec::lower::{Class, Draft, Lower};
use gridmux_ptx::decode::{Instruction, Opcode, ScalarType as T};

/// 1.5 · 2⁵²: adding it rounds a double of moderate size to an integer, which stands in its low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = 0.0;
    for c in coefficients {
        sum = sum * x + c;
    }
    sum
}

/// Returns 2^x for x of any size.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    let x = if x > 200.0 { 200.0 } else { x };
    let x = if x < -200.0 { -200.0 } else { x };
    let rounded = x + ROUNDER;
    let power = rounded.to_bits().wrapping_sub(ROUNDER.to_bits());
    let t = (x - (rounded - ROUNDER)) * std::f64::consts::LN_2;
    // The Taylor series of e^t; |t| is at most 0.347, so that the tenth term is below 1e-11.
    let mantissa = polynomial(
        t,
        [
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ],
    );
    mantissa * f64::from_bits(power.wrapping_add(1023) << 52)
}

/// Returns log₂ of a single-precision number.
#[inline(always)]
fn log2(x: f32) -> f64 {
    let bits = f64::from(x).to_bits();
    let high = bits & 0x000f_ffff_ffff_ffff >= 0x0006_a09e_667f_3bcd;
    let bias = if high { 1022 } else { 1023 };
    #[allow(
        clippy::cast_possible_truncation,
        reason = "an exponent has eleven bits"
    )]
    let exponent = (bits >> 52 & 0x7ff) as i32 - if high { 1022 } else { 1023 };
    let mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | bias << 52);
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    // log₂ m = 2/ln 2 · artanh s; |s| is at most 0.172, so that the eighth term is below 1e-12.
    let series = polynomial(
        s * s,
        [
            1.0 / 13.0,
            1.0 / 11.0,
            1.0 / 9.0,
            1.0 / 7.0,
            1.0 / 5.0,
            1.0 / 3.0,
            1.0,
        ],
    );
    let finite = f64::from(exponent) + 2.0 * std::f64::consts::LOG2_E * s * series;
    let positive = if x == f32::INFINITY {
        f64::INFINITY
    } else {
        finite
    };
    let zero_or_more = if x == 0.0 {
        f64::NEG_INFINITY
    } else {
        positive
    };
    if x >= 0.0 { zero_or_more } else { f64::NAN }
}

/// Returns sin(2π · turns).
#[inline(always)]
fn sin_of_turns(turns: f64) -> f64 {
    let part = turns - ((turns + ROUNDER) - ROUNDER);
    // Turns too many to have a fraction are whole ones.
    let part = if part.abs() <= 0.5 || part.is_nan() {
        part
    } else {
        0.0
    };
    // Fold [-1/2, 1/2] turn into [-1/4, 1/4], where the sine has the same values.
    let folded = if part > 0.25 { 0.5 - part } else { part };
    let folded = if folded < -0.25 {
        -0.5 - folded
    } else {
        folded
    };
    let t = folded * std::f64::consts::TAU;
    // The Taylor series; |t| is at most 1.571, so that the eighth term is below 1e-9.
    t * polynomial(
        t * t,
        [
            1.0 / 6_227_020_800.0,
            -1.0 / 39_916_800.0,
            1.0 / 362_880.0,
            -1.0 / 5_040.0,
            1.0 / 120.0,
            -1.0 / 6.0,
            1.0,
        ],
    )
}

const TURNS_PER_RADIAN: f64 = 1.0 / std::f64::consts::TAU;

#[allow(
    clippy::cast_possible_truncation,
    reason = "the one rounding of the result"
)]
#[inline(always)]
fn round(v: f64) -> f32 {
    v as f32
}

#[inline(always)]
pub(super) fn tanh(x: f64) -> f64 {
    // Near zero the difference would cancel; the next term of the series there is below 2⁻²².
    let small = x * (1.0 - x * x * (1.0 / 3.0));
    let large = 1.0 - 2.0 / (exp2(2.0 * std::f64::consts::LOG2_E * x) + 1.0);
    if x.abs() < 0.03 { small } else { large }
}

lane_fn!(Ex2[FTZ: bool], |cx, op| map1::<f32, f32>(cx, op, |a| {
    flushed::<f32, FTZ>(round(exp2(f64::from(flushed::<f32, FTZ>(a)))))
}));
lane_fn!(Lg2[FTZ: bool], |cx, op| map1::<f32, f32>(cx, op, |a| round(log2(flushed::<f32, FTZ>(a)))));
lane_fn!(Sin[FTZ: bool], |cx, op| map1::<f32, f32>(cx, op, |a| {
    flushed::<f32, FTZ>(round(sin_of_turns(f64::from(flushed::<f32, FTZ>(a)) * TURNS_PER_RADIAN)))
}));
lane_fn!(Cos[FTZ: bool], |cx, op| map1::<f32, f32>(cx, op, |a| {
    flushed::<f32, FTZ>(round(sin_of_turns(f64::from(flushed::<f32, FTZ>(a)) * TURNS_PER_RADIAN + 0.25)))
}));
lane_fn!(Tanh, |cx, op| map1::<f32, f32>(cx, op, |a| round(tanh(
    f64::from(a)
))));

macro_rules! by_ftz {
    ($i:expr, $f:ident) => {
        if $i.mods.ftz {
            handler::<$f<true>>()
        } else {
            handler::<$f<false>>()
        }
    };
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    if i.mods.types.first().is_some_and(|ty| half::is_small(*ty)) {
        return half::lower(l, i);
    }
    if i.mods.types.first() != Some(&T::F32) {
        return None;
    }
    let exec = match i.opcode {
        Opcode::Ex2 => by_ftz!(i, Ex2),
        Opcode::Lg2 => by_ftz!(i, Lg2),
        Opcode::Sin => by_ftz!(i, Sin),
        Opcode::Cos => by_ftz!(i, Cos),
        Opcode::Tanh => handler::<Tanh>(),
        _ => return None,
    };
    unary(l, i, exec, Class::Sfu)
}
