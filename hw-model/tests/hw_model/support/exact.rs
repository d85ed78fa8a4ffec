//! Floating-point results from exact rational numbers: the reference that the model's arithmetic is judged by.
//!
//! A value is a fraction of big integers; a result is rounded by comparing it with the multiples of one quantum.
//! Rule: nothing here rounds with the host's floating point; only which inputs are NaN or infinite is asked of it.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

/// A binary format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    pub name: &'static str,
    pub bits: u32,
    pub precision: i64,
    pub min_exponent: i64,
    pub max_exponent: i64,
}

pub const F16: Format = Format {
    name: "f16",
    bits: 16,
    precision: 11,
    min_exponent: -14,
    max_exponent: 15,
};
pub const BF16: Format = Format {
    name: "bf16",
    bits: 16,
    precision: 8,
    min_exponent: -126,
    max_exponent: 127,
};
pub const TF32: Format = Format {
    name: "tf32",
    bits: 19,
    precision: 11,
    min_exponent: -126,
    max_exponent: 127,
};
pub const F32: Format = Format {
    name: "f32",
    bits: 32,
    precision: 24,
    min_exponent: -126,
    max_exponent: 127,
};
pub const F64: Format = Format {
    name: "f64",
    bits: 64,
    precision: 53,
    min_exponent: -1022,
    max_exponent: 1023,
};
pub const E5M2: Format = Format {
    name: "e5m2",
    bits: 8,
    precision: 3,
    min_exponent: -14,
    max_exponent: 15,
};

/// Rounding modes by their modifiers.
pub const MODES: [&str; 4] = ["rn", "rz", "rm", "rp"];

/// What a lane must hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    Bits(u64),
    /// Any NaN of the format.
    Nan(Format),
    /// A number of the format within an absolute error.
    Near(Format, f64, f64),
}

impl Expected {
    pub fn holds(self, got: u64) -> bool {
        match self {
            Self::Bits(want) => got == want,
            Self::Nan(format) => matches!(decode(got, format), Value::Nan),
            Self::Near(format, want, error) => {
                let got = to_f64(got, format);
                got == want || (got - want).abs() <= error
            }
        }
    }
}

/// A number taken apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Nan,
    Infinite(bool),
    /// Negative, and the magnitude's fraction with its sign.
    Finite(bool, BigRational),
}

pub fn power_of_two(exponent: i64) -> BigRational {
    let shift = usize::try_from(exponent.unsigned_abs()).expect("small");
    let power = BigInt::one() << shift;
    if exponent < 0 {
        BigRational::new(BigInt::one(), power)
    } else {
        BigRational::from(power)
    }
}

fn exponent_field(bits: u64, format: Format) -> i64 {
    let exponent_bits = i64::from(format.bits) - format.precision;
    (bits >> (format.precision - 1) & ((1 << exponent_bits) - 1)) as i64
}

/// Returns whether the number is infinite or NaN.
fn is_special(bits: u64, format: Format) -> bool {
    let exponent_bits = i64::from(format.bits) - format.precision;
    exponent_field(bits, format) == (1 << exponent_bits) - 1
}

pub fn decode(bits: u64, format: Format) -> Value {
    if is_special(bits, format) {
        let rough = to_f64(bits, format);
        return if rough.is_nan() {
            Value::Nan
        } else {
            Value::Infinite(rough < 0.0)
        };
    }
    let (negative, significand, exponent) = parts(bits, format);
    let magnitude = BigRational::from(BigInt::from(significand)) * power_of_two(exponent);
    Value::Finite(negative, if negative { -magnitude } else { magnitude })
}

/// Returns a finite number's sign, its significand, and the exponent of the significand's last bit.
fn parts(bits: u64, format: Format) -> (bool, u64, i64) {
    let fraction_bits = format.precision - 1;
    let field = exponent_field(bits, format);
    let implied = if field == 0 { 0 } else { 1 << fraction_bits };
    (
        bits >> (format.bits - 1) & 1 != 0,
        (bits & ((1 << fraction_bits) - 1)) + implied,
        format.min_exponent + field.max(1) - 1 - fraction_bits,
    )
}

/// Returns the number as a double: exact for every format here, because none has more bits than a double.
pub fn to_f64(bits: u64, format: Format) -> f64 {
    if format == F64 {
        return f64::from_bits(bits);
    }
    let (negative, significand, exponent) = parts(bits, format);
    let magnitude = if is_special(bits, format) {
        let fraction = bits & ((1 << (format.precision - 1)) - 1);
        if fraction == 0 {
            f64::INFINITY
        } else {
            f64::NAN
        }
    } else {
        significand as f64 * 2.0_f64.powi(i32::try_from(exponent).expect("small"))
    };
    if negative { -magnitude } else { magnitude }
}

pub fn infinity(negative: bool, format: Format) -> u64 {
    let sign = u64::from(negative) << (format.bits - 1);
    let exponent_bits = i64::from(format.bits) - format.precision;
    (((1 << exponent_bits) - 1) << (format.precision - 1)) | sign
}

/// Returns the largest multiple of the quantum at or below `v`, in quanta, and whether `v` is above it and how far.
fn quanta(v: &BigRational, quantum: &BigRational) -> (BigInt, BigRational) {
    let ratio = v / quantum;
    let floor = ratio.floor();
    (floor.to_integer(), ratio - floor)
}

fn exponent_of(magnitude: &BigRational) -> i64 {
    let mut exponent = magnitude.numer().bits() as i64 - magnitude.denom().bits() as i64;
    if *magnitude < power_of_two(exponent) {
        exponent -= 1;
    }
    exponent
}

/// Returns `v` rounded to the format; `negative` is the sign of a zero.
pub fn round(v: &BigRational, negative: bool, format: Format, mode: &str) -> u64 {
    let sign_bit = |negative: bool| u64::from(negative) << (format.bits - 1);
    if v.is_zero() {
        return sign_bit(negative);
    }
    let negative = v.is_negative();
    let magnitude = v.abs();
    let exponent = exponent_of(&magnitude).max(format.min_exponent);
    let quantum = power_of_two(exponent - format.precision + 1);
    let (floor, rest) = quanta(&magnitude, &quantum);
    let half = BigRational::new(BigInt::one(), BigInt::from(2));
    let is_odd = &floor % 2 == BigInt::one();
    let up = match mode {
        "rn" => rest > half || (rest == half && is_odd),
        "rna" => rest >= half,
        "rz" => false,
        "rm" => negative && !rest.is_zero(),
        "rp" => !negative && !rest.is_zero(),
        other => panic!("no mode {other}"),
    };
    finish(
        floor + BigInt::from(u8::from(up)),
        exponent,
        negative,
        format,
        mode,
    )
}

/// Encodes a count of quanta, overflow included.
fn finish(count: BigInt, exponent: i64, negative: bool, format: Format, mode: &str) -> u64 {
    let sign = u64::from(negative) << (format.bits - 1);
    let count = u64::try_from(count).expect("a significand fits");
    let implied = 1 << (format.precision - 1);
    let field = if count < implied {
        0
    } else {
        (exponent - format.min_exponent) as u64
    };
    let bits = (field << (format.precision - 1)) + count;
    let top = infinity(false, format);
    if bits < top {
        return bits | sign;
    }
    let largest = mode == "rz" || (mode == "rm" && !negative) || (mode == "rp" && negative);
    if largest {
        (top - 1) | sign
    } else {
        top | sign
    }
}

/// Returns √v rounded to the format, `v` positive.
fn rounded_root(v: &BigRational, format: Format, mode: &str) -> u64 {
    let mut exponent = exponent_of(v).div_euclid(2);
    if *v < power_of_two(2 * exponent) {
        exponent -= 1;
    }
    let quantum = power_of_two(exponent - format.precision + 1);
    let scaled = v / (&quantum * &quantum);
    let floor = scaled.floor().to_integer().sqrt();
    let square = BigRational::from(&floor * &floor);
    let middle = BigRational::new(BigInt::from(2) * &floor + 1, BigInt::from(2));
    let up = match mode {
        "rn" => scaled > &middle * &middle,
        "rp" => scaled > square,
        _ => false,
    };
    finish(
        floor + BigInt::from(u8::from(up)),
        exponent,
        false,
        format,
        mode,
    )
}

/// Operations that the reference knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Sqrt,
}

/// Returns the result of an operation on numbers of `from`, rounded to `to`.
pub fn result(op: Operation, inputs: &[u64], from: &[Format], to: Format, mode: &str) -> Expected {
    let values: Vec<Value> = inputs
        .iter()
        .zip(from)
        .map(|(bits, f)| decode(*bits, *f))
        .collect();
    let rough: Vec<f64> = inputs
        .iter()
        .zip(from)
        .map(|(bits, f)| to_f64(*bits, *f))
        .collect();
    let finite: Option<Vec<(bool, BigRational)>> = values
        .iter()
        .map(|v| match v {
            Value::Finite(negative, v) => Some((*negative, v.clone())),
            _ => None,
        })
        .collect();
    let special = match op {
        Operation::Add => rough[0] + rough[1],
        Operation::Sub => rough[0] - rough[1],
        Operation::Mul => rough[0] * rough[1],
        // A finite product may overflow here, and is no reason for a special result.
        Operation::Fma if rough[0].is_finite() && rough[1].is_finite() => rough[2],
        Operation::Fma => rough[0] * rough[1] + rough[2],
        Operation::Div => rough[0] / rough[1],
        Operation::Sqrt => rough[0].sqrt(),
    };
    let by_zero = op == Operation::Div && rough[1] == 0.0;
    let of_negative = op == Operation::Sqrt && rough[0] <= 0.0;
    let Some(v) = finite.filter(|_| !by_zero && !of_negative) else {
        return if special.is_nan() {
            Expected::Nan(to)
        } else if special.is_infinite() {
            Expected::Bits(infinity(special < 0.0, to))
        } else {
            Expected::Bits(u64::from(special.is_sign_negative()) << (to.bits - 1))
        };
    };
    if op == Operation::Sqrt {
        return Expected::Bits(rounded_root(&v[0].1, to, mode));
    }
    let sum_sign = |a: bool, b: bool| if a == b { a } else { mode == "rm" };
    let (exact, negative) = match op {
        Operation::Add => (&v[0].1 + &v[1].1, sum_sign(v[0].0, v[1].0)),
        Operation::Sub => (&v[0].1 - &v[1].1, sum_sign(v[0].0, !v[1].0)),
        Operation::Mul => (&v[0].1 * &v[1].1, v[0].0 != v[1].0),
        Operation::Fma => {
            let product = &v[0].1 * &v[1].1;
            // An exact zero made of non-zero parts has parts of different signs.
            (product + &v[2].1, sum_sign(v[0].0 != v[1].0, v[2].0))
        }
        _ => (&v[0].1 / &v[1].1, v[0].0 != v[1].0),
    };
    Expected::Bits(round(&exact, negative, to, mode))
}
