//! Rounding to the narrower binary formats: f16, bf16, tf32, f32, e4m3, e5m2 (PTX ISA section 5.2).
//!
//! Every result is first made in double precision, rounded *to odd* where it is inexact, and then rounded once to
//! the format. Rounding to odd (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums", IEEE
//! Transactions on Computers 2008) keeps enough of what was lost for the second rounding to be the right one in
//! every mode, because a double has more than two bits more than twice any of these precisions.
//! Rule: plain arithmetic without branches on data, so that the lane loops become vectors.

/// Rounding modes, as operations keep them in `aux`.
pub(in crate::exec) const NEAREST: u32 = 0;
pub(super) const TO_ZERO: u32 = 1;
pub(super) const DOWN: u32 = 2;
pub(super) const UP: u32 = 3;
/// To nearest, ties away from zero (`.rna`).
pub(super) const AWAY: u32 = 4;

/// A binary format narrower than double precision.
pub(in crate::exec) trait Format {
    /// Bits of the significand, the leading one included.
    const PRECISION: i64;
    /// Exponent of the smallest normal number.
    const MIN_EXPONENT: i64;
    /// Largest finite number.
    const MAX: f64;
    /// There are infinities; without them too large a number becomes NaN or, under `.satfinite`, the largest one.
    const INFINITE: bool;
}

macro_rules! format {
    ($($(#[$doc:meta])* $name:ident: $precision:expr, $min:expr, $max:expr, $infinite:expr;)*) => {
        $($(#[$doc])* #[derive(Debug, Clone, Copy)] pub(crate) struct $name;
        impl Format for $name {
            const PRECISION: i64 = $precision;
            const MIN_EXPONENT: i64 = $min;
            const MAX: f64 = $max;
            const INFINITE: bool = $infinite;
        })*
    };
}
format! {
    /// f16: IEEE binary16.
    Half: 11, -14, 65504.0, true;
    /// bf16: the upper half of f32.
    Brain: 8, -126, f32::from_bits(0x7f7f_0000) as f64, true;
    /// tf32: f32 with ten fraction bits.
    Tensor: 11, -126, f32::from_bits(0x7f7f_e000) as f64, true;
    /// f32.
    Single: 24, -126, f32::MAX as f64, true;
    /// e4m3: no infinities.
    E4m3: 4, -6, 448.0, false;
    /// e5m2.
    E5m2: 3, -14, 57344.0, true;
}

/// Returns `x` rounded to the format; too large a number becomes what the mode says.
#[inline(always)]
pub(in crate::exec) fn round<F: Format>(x: f64, mode: u32) -> f64 {
    let biased = (x.to_bits() >> 52 & 0x7ff).cast_signed();
    let exponent = biased.max(F::MIN_EXPONENT + 1023).min(1023 + 512);
    let quantum_exponent = exponent - (F::PRECISION - 1);
    let quantum = f64::from_bits((quantum_exponent << 52).cast_unsigned());
    // 1.5 · 2⁵² quanta: adding it leaves no room for anything below one quantum.
    let magic = f64::from_bits(((quantum_exponent + 52) << 52).cast_unsigned() | 1 << 51);
    let nearest = (x + magic) - magic;
    let positive = x > 0.0;
    let too_low = nearest < x && (mode == UP || (mode == TO_ZERO && !positive));
    let too_high = nearest > x && (mode == DOWN || (mode == TO_ZERO && positive));
    // A tie that went to the even neighbour nearer to zero goes the other way.
    let tie = mode == AWAY && (x - nearest).abs() * 2.0 == quantum && nearest.abs() < x.abs();
    let step = if tie { quantum.copysign(x) } else { 0.0 };
    let step = if too_low { quantum } else { step };
    let step = if too_high { -quantum } else { step };
    let rounded = nearest + step;
    let over = rounded.abs() > F::MAX && x.abs() < f64::INFINITY;
    let to_largest = mode == TO_ZERO || (mode == DOWN && positive) || (mode == UP && !positive);
    let bound = if to_largest { F::MAX } else { f64::INFINITY };
    let magnitude = if over { bound } else { rounded.abs() };
    magnitude.copysign(x)
}

/// Returns the neighbour of `nearest` with an odd last bit, when the exact value is `nearest` plus some `rest`.
#[inline(always)]
fn odd(nearest: f64, rest: f64) -> f64 {
    let bits = nearest.to_bits();
    // Not true for a rest that is no number, which infinities give.
    let inexact = rest.abs() > 0.0;
    let outwards = (rest > 0.0) == (nearest > 0.0);
    let moved = if outwards {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    f64::from_bits(if inexact && bits & 1 == 0 {
        moved
    } else {
        bits
    })
}

/// Returns `a + b`, rounded to odd; an exact zero takes the sign that the mode gives it.
#[inline(always)]
pub(in crate::exec) fn add(a: f64, b: f64, mode: u32) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let rest = (a - (sum - part)) + (b - part);
    let signs_differ = (a.to_bits() ^ b.to_bits()) >> 63 != 0;
    let zero = if mode == DOWN && signs_differ {
        -0.0
    } else {
        sum
    };
    if sum == 0.0 { zero } else { odd(sum, rest) }
}

/// Returns `a / b`, rounded to odd; exact operands of at most 24 bits.
#[inline(always)]
pub(super) fn divide(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    odd(quotient, if b < 0.0 { -rest } else { rest })
}

/// Returns √a, rounded to odd.
#[inline(always)]
pub(super) fn root(a: f64) -> f64 {
    let root = a.sqrt();
    odd(root, (-root).mul_add(root, a))
}

/// Returns a 64-bit integer, rounded to odd.
#[inline(always)]
pub(super) fn from_int(v: i128) -> f64 {
    let (high, low) = (v >> 32, v & 0xffff_ffff);
    add(high as f64 * 4_294_967_296.0, low as f64, NEAREST)
}

/// Returns an f16 as f32.
#[inline(always)]
pub(in crate::exec) fn half_to_single(bits: u16) -> f32 {
    let shifted = u32::from(bits & 0x7fff) << 13;
    // Multiplying by 2¹¹² moves the exponent's bias and makes subnormal numbers normal at once.
    let scaled = f32::from_bits(shifted) * f32::from_bits(0x7780_0000);
    let special = f32::from_bits(shifted | 0x7f80_0000);
    let magnitude = if bits & 0x7c00 == 0x7c00 {
        special
    } else {
        scaled
    };
    f32::from_bits(magnitude.to_bits() | u32::from(bits & 0x8000) << 16)
}

/// Returns a bf16 as f32.
#[inline(always)]
pub(in crate::exec) fn brain_to_single(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The f16 of a value that f16 holds exactly.
#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the fields fit in sixteen bits"
)]
pub(in crate::exec) fn single_to_half(v: f32) -> u16 {
    let bits = v.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_sub(0x3800_0000) >> 13;
    // Adding one half aligns a subnormal f16 with the lowest bits of the sum.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    let special = if magnitude > 0x7f80_0000 {
        0x7fff
    } else {
        0x7c00
    };
    let sign = if magnitude > 0x7f80_0000 {
        0
    } else {
        bits >> 16 & 0x8000
    };
    ((if magnitude >= 0x7f80_0000 {
        special
    } else {
        finite
    }) | sign) as u16
}

/// Returns the bf16 of a value that bf16 holds exactly.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the upper half fits")]
pub(super) fn single_to_brain(v: f32) -> u16 {
    let bits = v.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        0x7fff
    } else {
        (bits >> 16) as u16
    }
}

/// A value that single precision holds exactly.
#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the value is rounded already"
)]
pub(in crate::exec) fn to_single(v: f64) -> f32 {
    v as f32
}

/// Returns an e4m3 or e5m2 as a number (PTX ISA section 5.2.3), with `FRACTION` bits, NaN and infinity of the format.
#[inline(always)]
pub(in crate::exec) fn from_eight<F: Format>(bits: u8) -> f64 {
    let fraction_bits = F::PRECISION - 1;
    let magnitude = i64::from(bits & 0x7f);
    let (exponent, fraction) = (
        magnitude >> fraction_bits,
        magnitude & ((1 << fraction_bits) - 1),
    );
    let top = 0x7f >> fraction_bits;
    let not_finite = if F::INFINITE {
        exponent == top
    } else {
        magnitude == 0x7f
    };
    let power = |e: i64| f64::from_bits(((e + 1023) << 52).cast_unsigned());
    let scale = power(F::MIN_EXPONENT + exponent.max(1) - 1 - fraction_bits);
    let implied = if exponent > 0 { 1 << fraction_bits } else { 0 };
    let value = (implied | fraction) as f64 * scale;
    let special = if F::INFINITE && fraction == 0 {
        f64::INFINITY
    } else {
        f64::NAN
    };
    let value = if not_finite { special } else { value };
    if bits & 0x80 != 0 { -value } else { value }
}

/// e4m3 or e5m2 of a value that the format holds exactly, or of NaN.
#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the fields fit in eight bits"
)]
pub(super) fn to_eight<F: Format>(v: f64) -> u8 {
    if v.is_nan() {
        return 0x7f;
    }
    let fraction_bits = F::PRECISION - 1;
    let sign = if v.is_sign_negative() { 0x80 } else { 0 };
    if v.is_infinite() {
        return sign | if F::INFINITE { 0x7c } else { 0x7f };
    }
    let exponent = ((v.to_bits() >> 52 & 0x7ff).cast_signed() - 1023).max(F::MIN_EXPONENT);
    let power = f64::from_bits(((fraction_bits - exponent + 1023) << 52).cast_unsigned());
    // The significand with its leading one carries into the exponent's field, which makes it normal.
    let significand = (v.abs() * power) as i64;
    (significand + ((exponent - F::MIN_EXPONENT) << fraction_bits)) as u8 | sign
}
