//! Double precision in the directed rounding modes (PTX ISA section 9.7.3, `.rz .rm .rp` on f64), in integers.
//!
//! A finite result is a sign, an exponent and 128 bits whose last one also stands for everything below it; one
//! function rounds that. Rule: nothing here uses the host's floating point, except to tell special cases apart.

use super::round::{DOWN, NEAREST, TO_ZERO, UP};

/// sign · significand · 2^exponent, the last bit of the significand being sticky.
#[derive(Debug, Clone, Copy)]
struct Value {
    negative: bool,
    exponent: i32,
    significand: u128,
}

impl Value {
    /// Returns a finite double.
    fn new(v: f64) -> Self {
        let bits = v.to_bits();
        let field = i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0);
        let fraction = u128::from(bits & ((1 << 52) - 1));
        let (exponent, significand) = if field == 0 {
            (-1074, fraction)
        } else {
            (field - 1075, fraction | 1 << 52)
        };
        Self {
            negative: bits >> 63 != 0,
            exponent,
            significand,
        }
    }

    /// Returns the same value with its leading one in bit 125; zero stays.
    fn normal(self) -> Self {
        if self.significand == 0 {
            return self;
        }
        let shift = self.significand.leading_zeros().cast_signed() - 2;
        if shift >= 0 {
            Self {
                exponent: self.exponent - shift,
                significand: self.significand << shift,
                ..self
            }
        } else {
            Self {
                exponent: self.exponent - shift,
                significand: shifted(self.significand, shift.unsigned_abs()),
                ..self
            }
        }
    }

    /// Rounds to a double.
    fn round(self, mode: u32) -> f64 {
        let value = self.normal();
        if value.significand == 0 {
            return if value.negative { -0.0 } else { 0.0 };
        }
        // The leading one moves to bit 54: 53 bits, a half bit and a sticky bit; more goes when subnormal.
        let exponent = value.exponent + 71;
        let extra = (-1076 - exponent).max(0);
        let kept = shifted(value.significand, 71 + extra.unsigned_abs());
        let low = u64::try_from(kept).unwrap_or(0);
        let up = match mode {
            NEAREST => low & 2 != 0 && low & 5 != 0,
            TO_ZERO => false,
            DOWN => value.negative && low & 3 != 0,
            _ => !value.negative && low & 3 != 0,
        };
        let significand = (low >> 2) + u64::from(up);
        let field = if extra > 0 { 0 } else { exponent + 1076 };
        let sign = u64::from(value.negative) << 63;
        // The leading one carries into the exponent's field.
        let field = u64::try_from(field).unwrap_or(0);
        let bits = (field << 52) + significand;
        if bits < 0x7ff0_0000_0000_0000 {
            return f64::from_bits(bits | sign);
        }
        let to_largest =
            mode == TO_ZERO || (mode == DOWN && !value.negative) || (mode == UP && value.negative);
        let bound = if to_largest { f64::MAX } else { f64::INFINITY };
        f64::from_bits(bound.to_bits() | sign)
    }

    fn plus(self, other: Self, mode: u32) -> Self {
        let (a, b) = (self.normal(), other.normal());
        if a.significand == 0 && b.significand == 0 {
            let negative = if a.negative == b.negative {
                a.negative
            } else {
                mode == DOWN
            };
            return Self { negative, ..a };
        }
        if a.significand == 0 || b.significand == 0 {
            return if a.significand == 0 { b } else { a };
        }
        let larger_first = (a.exponent, a.significand) >= (b.exponent, b.significand);
        let (large, small) = if larger_first { (a, b) } else { (b, a) };
        let distance = large.exponent.abs_diff(small.exponent);
        let aligned = shifted(small.significand, distance);
        if large.negative == small.negative {
            return Self {
                significand: large.significand + aligned,
                ..large
            };
        }
        let significand = large.significand - aligned;
        let negative = if significand == 0 {
            mode == DOWN
        } else {
            large.negative
        };
        Self {
            negative,
            exponent: large.exponent,
            significand,
        }
    }

    fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent,
            significand: self.significand * other.significand,
        }
    }
}

/// Returns a right shift that keeps what it drops in the last bit.
fn shifted(significand: u128, by: u32) -> u128 {
    if by > 127 {
        return u128::from(significand != 0);
    }
    let lost = significand & ((1 << by) - 1) != 0;
    significand >> by | u128::from(lost)
}

/// Returns `a + b`.
pub(in crate::exec) fn add(a: f64, b: f64, mode: u32) -> f64 {
    if !(a.is_finite() && b.is_finite()) {
        return a + b;
    }
    Value::new(a).plus(Value::new(b), mode).round(mode)
}

/// Returns `a · b`.
pub(in crate::exec) fn multiply(a: f64, b: f64, mode: u32) -> f64 {
    if !(a.is_finite() && b.is_finite()) {
        return a * b;
    }
    Value::new(a).times(Value::new(b)).round(mode)
}

/// Returns `a · b + c` with one rounding.
pub(in crate::exec) fn fused(a: f64, b: f64, c: f64, mode: u32) -> f64 {
    if !(a.is_finite() && b.is_finite() && c.is_finite()) {
        return a.mul_add(b, c);
    }
    let product = Value::new(a).times(Value::new(b));
    product.plus(Value::new(c), mode).round(mode)
}

/// Returns `a / b`.
pub(super) fn divide(a: f64, b: f64, mode: u32) -> f64 {
    if !(a.is_finite() && b.is_finite()) || a == 0.0 || b == 0.0 {
        return a / b;
    }
    let (a, b) = (Value::new(a).normal(), Value::new(b).normal());
    // 126 bits over 63 give at least 62 of the quotient, and the rest says whether it is exact.
    let divisor = b.significand >> 63;
    let (quotient, rest) = (a.significand / divisor, a.significand % divisor);
    let value = Value {
        negative: a.negative != b.negative,
        exponent: a.exponent - b.exponent - 63,
        significand: quotient << 1 | u128::from(rest != 0),
    };
    Value {
        exponent: value.exponent - 1,
        ..value
    }
    .round(mode)
}

/// Returns √a.
pub(super) fn root(a: f64, mode: u32) -> f64 {
    if !(a > 0.0 && a.is_finite()) {
        return a.sqrt();
    }
    let value = Value::new(a).normal();
    // An even exponent, so that its half is one.
    let odd = value.exponent.rem_euclid(2);
    let (significand, exponent) = (value.significand << odd, value.exponent - odd);
    let root = significand.isqrt();
    let rest = u128::from(root * root != significand);
    Value {
        negative: false,
        exponent: exponent / 2 - 1,
        significand: root << 1 | rest,
    }
    .round(mode)
}

/// Returns a 64-bit integer as a double.
pub(super) fn from_int(v: i128, mode: u32) -> f64 {
    Value {
        negative: v < 0,
        exponent: 0,
        significand: v.unsigned_abs(),
    }
    .round(mode)
}
