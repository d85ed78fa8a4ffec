//! `cvt` between every pair of types in every rounding mode, and `cvt.pack` (PTX ISA section 9.7.9).

use crate::numeric::values::{edges, floats, integers, mixed, value};
use crate::support::exact::{
    BF16, E5M2, Expected, F16, F32, F64, Format, MODES, TF32, Value, decode, infinity, round,
    to_f64,
};
use crate::support::opcode::{Table, report};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

const INTEGERS: [(&str, u32, bool); 8] = [
    ("u8", 8, false),
    ("s8", 8, true),
    ("u16", 16, false),
    ("s16", 16, true),
    ("u32", 32, false),
    ("s32", 32, true),
    ("u64", 64, false),
    ("s64", 64, true),
];
const FLOATS: [Format; 4] = [F16, BF16, F32, F64];
const INTEGRAL: [(&str, &str); 4] = [("rni", "rn"), ("rzi", "rz"), ("rmi", "rm"), ("rpi", "rp")];

fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

/// Returns the register type that holds a value of `bits` bits.
fn register(bits: u32) -> &'static str {
    match bits {
        8 | 16 => "b16",
        32 => "b32",
        _ => "b64",
    }
}

/// Returns an integer as its register holds it: extended as its signedness says.
fn stored(v: i128, bits: u32) -> u64 {
    if bits == 8 {
        v as u64 & 0xffff
    } else {
        v as u64 & (u64::MAX >> (64 - bits))
    }
}

#[test]
fn between_integers() {
    for (from, from_bits, from_signed) in INTEGERS {
        for (to, to_bits, to_signed) in INTEGERS {
            let columns = integers(from_bits.max(16), 1);
            for sat in ["", ".sat"] {
                let body = format!("cvt{sat}.{to}.{from} %d, %a;");
                let inputs = [register(from_bits)];
                let table = Table::new(&body, &inputs, register(to_bits), &columns);
                table.check_bits(|v| {
                    let exact = value(v[0], from_bits, from_signed);
                    let (low, high) = range(to_bits, to_signed);
                    let v = if sat.is_empty() {
                        value(exact as u64, to_bits, to_signed)
                    } else {
                        exact.clamp(low, high)
                    };
                    stored(v, to_bits)
                });
            }
        }
    }
}

#[test]
fn integers_to_floats() {
    for (from, bits, signed) in INTEGERS {
        for to in FLOATS {
            let columns = integers(bits.max(16), 1);
            for mode in MODES {
                let body = format!("cvt.{mode}.{}.{from} %d, %a;", to.name);
                let inputs = [register(bits)];
                let table = Table::new(&body, &inputs, register(to.bits), &columns);
                table.check_bits(|v| {
                    let exact = BigRational::from(BigInt::from(value(v[0], bits, signed)));
                    round(&exact, false, to, mode)
                });
            }
        }
    }
}

/// Returns an exact value rounded to an integer.
fn integral(v: &BigRational, mode: &str) -> BigInt {
    let floor = v.floor().to_integer();
    let rest = v - BigRational::from(floor.clone());
    let half = BigRational::new(BigInt::from(1), BigInt::from(2));
    let odd = &floor % 2 != BigInt::from(0);
    let up = match mode {
        "rn" => rest > half || (rest == half && odd),
        "rz" => !rest.is_zero() && *v < BigRational::zero(),
        "rp" => !rest.is_zero(),
        _ => false,
    };
    floor + i32::from(up)
}

#[test]
fn floats_to_integers() {
    for from in FLOATS {
        for (to, bits, signed) in INTEGERS {
            let columns = floats(from, 1);
            for (modifier, mode) in INTEGRAL {
                let body = format!("cvt.{modifier}.{to}.{} %d, %a;", from.name);
                let inputs = [register(from.bits)];
                let table = Table::new(&body, &inputs, register(bits), &columns);
                let (low, high) = range(bits, signed);
                table.check_bits(|v| match decode(v[0], from) {
                    Value::Nan if from != F64 && bits < 64 => 0,
                    Value::Nan => stored(value(1 << (bits - 1), bits, signed), bits),
                    Value::Infinite(negative) => stored(if negative { low } else { high }, bits),
                    Value::Finite(_, v) => {
                        let v = integral(&v, mode).clamp(BigInt::from(low), BigInt::from(high));
                        stored(i128::try_from(v).expect("clamped"), bits)
                    }
                });
            }
        }
    }
}

/// Returns a float of one format in another, NaN as any NaN.
fn converted(bits: u64, from: Format, to: Format, mode: &str) -> Expected {
    match decode(bits, from) {
        Value::Nan => Expected::Nan(to),
        Value::Infinite(negative) => Expected::Bits(infinity(negative, to)),
        Value::Finite(negative, v) => Expected::Bits(round(&v, negative, to, mode)),
    }
}

/// Inputs near the target's half-way cases.
fn towards(from: Format, to: Format) -> Vec<Vec<u64>> {
    let mut columns = floats(from, 1);
    for v in edges(to) {
        if from.precision > to.precision {
            let exact = to_f64(v, to);
            for step in [-1_i64, 0, 1] {
                let half = if from == F64 {
                    (exact.to_bits() as i64).wrapping_add(step + (1 << (52 - to.precision))) as u64
                } else {
                    let shift = 23 - to.precision;
                    (i64::from((exact as f32).to_bits()) + step + (1 << shift)) as u64 & 0xffff_ffff
                };
                columns[0].push(half);
            }
        }
    }
    columns
}

#[test]
fn between_floats() {
    for from in FLOATS {
        for to in FLOATS {
            let columns = towards(from, to);
            let narrows = from.precision > to.precision || (from == F16 && to == BF16);
            let modes: &[&str] = if narrows || to.min_exponent > from.min_exponent {
                &MODES
            } else {
                &[""]
            };
            for mode in modes {
                let modifier = if mode.is_empty() {
                    String::new()
                } else {
                    format!(".{mode}")
                };
                let body = format!("cvt{modifier}.{}.{} %d, %a;", to.name, from.name);
                if from == to {
                    continue;
                }
                let inputs = [register(from.bits)];
                let table = Table::new(&body, &inputs, register(to.bits), &columns);
                let mode = if mode.is_empty() { "rn" } else { mode };
                table.check(|v| converted(v[0], from, to, mode));
            }
        }
        for (modifier, mode) in INTEGRAL {
            let body = format!("cvt.{modifier}.{0}.{0} %d, %a;", from.name);
            let columns = floats(from, 1);
            Table::new(&body, &[register(from.bits)], register(from.bits), &columns).check(|v| {
                match decode(v[0], from) {
                    Value::Finite(negative, v) => Expected::Bits(round(
                        &BigRational::from(integral(&v, mode)),
                        negative,
                        from,
                        "rn",
                    )),
                    _ => converted(v[0], from, from, "rn"),
                }
            });
        }
    }
}

#[test]
fn saturation_to_the_unit_interval() {
    for from in [F32, F64] {
        let columns = floats(from, 1);
        let body = format!("cvt.sat.{0}.{0} %d, %a;", from.name);
        Table::new(&body, &[register(from.bits)], register(from.bits), &columns).check_bits(|v| {
            let exact = to_f64(v[0], from);
            if exact <= 0.0 || exact.is_nan() {
                0
            } else if exact >= 1.0 {
                round(&BigRational::from(BigInt::from(1)), false, from, "rn")
            } else {
                v[0]
            }
        });
    }
}

/// Applies `.relu` and `.satfinite` to what a conversion gives.
fn modified(want: Expected, to: Format, relu: bool, satfinite: bool) -> Expected {
    match want {
        Expected::Bits(bits) => {
            let sign = bits & 1 << (to.bits - 1);
            let magnitude = bits ^ sign;
            let largest = infinity(false, to) - 1;
            let magnitude = if satfinite {
                magnitude.min(largest)
            } else {
                magnitude
            };
            Expected::Bits(if relu && sign != 0 {
                0
            } else {
                magnitude | sign
            })
        }
        other => other,
    }
}

#[test]
fn narrowing_with_modifiers() {
    for to in [F16, BF16] {
        for mode in ["rn", "rz"] {
            for (modifier, relu, finite) in [
                ("", false, false),
                (".relu", true, false),
                (".satfinite", false, true),
                (".relu.satfinite", true, true),
            ] {
                let body = format!("cvt.{mode}{modifier}.{}.f32 %d, %a;", to.name);
                let columns = towards(F32, to);
                Table::new(&body, &["b32"], "b16", &columns)
                    .check(|v| modified(converted(v[0], F32, to, mode), to, relu, finite));
                let body = format!("cvt.{mode}{modifier}.{}x2.f32 %d, %a, %b;", to.name);
                let columns = mixed(&[F32, F32]);
                let inputs = ["b32", "b32"];
                let table = Table::new(&body, &inputs, "b32", &columns);
                for (row, got) in table.run().into_iter().enumerate() {
                    for (source, shift) in [(0, 16), (1, 0)] {
                        let input = columns[source][row];
                        let want = modified(converted(input, F32, to, mode), to, relu, finite);
                        let got = got >> shift & 0xffff;
                        assert!(
                            want.holds(got),
                            "{body} of {input:#x}: {got:#x}, not {want:#x?}"
                        );
                    }
                }
                report(&body);
            }
        }
    }
}

#[test]
fn tensor_floats() {
    let columns = towards(F32, TF32);
    for (modifier, mode, relu, finite) in [
        ("rna", "rna", false, false),
        ("rna.satfinite", "rna", false, true),
        ("rn", "rn", false, false),
        ("rz", "rz", false, false),
        ("rn.relu", "rn", true, false),
        ("rz.relu", "rz", true, false),
    ] {
        let body = format!("cvt.{modifier}.tf32.f32 %d, %a;");
        Table::new(&body, &["b32"], "b32", &columns).check(|v| {
            match modified(converted(v[0], F32, TF32, mode), TF32, relu, finite) {
                Expected::Bits(bits) => Expected::Bits(bits << 13),
                _ => Expected::Bits(0x7fff_ffff),
            }
        });
    }
}

/// Decodes e4m3 as the OCP 8-bit floating-point specification lays it out: no infinities, NaN where all bits are ones.
fn e4m3(bits: u8) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
    let magnitude = match (exponent, bits & 0x7f) {
        (_, 0x7f) => f64::NAN,
        (0, _) => fraction * 2.0_f64.powi(-9),
        _ => (8.0 + fraction) * 2.0_f64.powi(exponent - 10),
    };
    if bits & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

/// Returns the nearest of all 256 numbers, ties to the even one, too large ones to the largest.
fn nearest_eight(v: f64, decode: impl Fn(u8) -> f64) -> u8 {
    if v.is_nan() {
        return 0x7f;
    }
    let sign = if v.is_sign_negative() { 0x80 } else { 0 };
    let largest = (0..0x7f)
        .map(&decode)
        .filter(|v| v.is_finite())
        .fold(0.0, f64::max);
    let v = v.clamp(-largest, largest);
    let mut best = 0;
    for candidate in 0..0x7f_u8 {
        let (distance, least) = (
            (decode(candidate) - v.abs()).abs(),
            (decode(best) - v.abs()).abs(),
        );
        if decode(candidate).is_finite()
            && (distance < least || (distance == least && candidate % 2 == 0))
        {
            best = candidate;
        }
    }
    best | sign
}

/// The number that eight bits stand for.
type Eight = Box<dyn Fn(u8) -> f64>;

// Length: both formats in all three directions.
#[test]
fn eight_bit_floats() {
    let eights: [(&str, Eight); 2] = [
        ("e4m3x2", Box::new(e4m3)),
        ("e5m2x2", Box::new(|bits| to_f64(bits.into(), E5M2))),
    ];
    for (name, decode_eight) in &eights {
        for relu in [false, true] {
            let modifier = if relu { ".relu" } else { "" };
            let want = |v: f64| {
                let v = if relu && v <= 0.0 { 0.0 } else { v };
                u64::from(nearest_eight(v, decode_eight))
            };
            let mut columns = mixed(&[F32, F32]);
            // Every number of the format, its neighbours and the middles between.
            for bits in 0..=255_u8 {
                let v = decode_eight(bits) as f32;
                let next = decode_eight(bits.wrapping_add(1)) as f32;
                for v in [
                    v,
                    f32::midpoint(v, next),
                    f32::midpoint(v, next).next_up(),
                    v.next_down(),
                ] {
                    columns[0].push(u64::from(v.to_bits()));
                    columns[1].push(u64::from((-v).to_bits()));
                }
            }
            let body = format!("cvt.rn.satfinite{modifier}.{name}.f32 %d, %a, %b;");
            Table::new(&body, &["b32", "b32"], "b16", &columns)
                .check_bits(|v| want(to_f64(v[0], F32)) << 8 | want(to_f64(v[1], F32)));
            let mut halves = floats(F16, 2);
            let all: Vec<u64> = halves[0]
                .iter()
                .zip(&halves[1])
                .map(|(a, b)| a << 16 | b)
                .collect();
            halves = vec![all];
            let body = format!("cvt.rn.satfinite{modifier}.{name}.f16x2 %d, %a;");
            Table::new(&body, &["b32"], "b16", &halves).check_bits(|v| {
                want(to_f64(v[0] >> 16, F16)) << 8 | want(to_f64(v[0] & 0xffff, F16))
            });
            let all: Vec<u64> = (0..0x10000).step_by(257).chain(0..256).collect();
            let body = format!("cvt.rn{modifier}.f16x2.{name} %d, %a;");
            let back = |bits: u64| {
                let v = decode_eight(bits as u8);
                if v.is_nan() {
                    0x7fff
                } else if v.is_infinite() {
                    if relu && v < 0.0 {
                        0
                    } else {
                        infinity(v < 0.0, F16)
                    }
                } else if relu && v.is_sign_negative() {
                    0
                } else {
                    round(
                        &BigRational::from_float(v).expect("finite"),
                        v.is_sign_negative(),
                        F16,
                        "rn",
                    )
                }
            };
            Table::new(&body, &["b16"], "b32", &[all])
                .check_bits(|v| back(v[0] >> 8 & 0xff) << 16 | back(v[0] & 0xff));
        }
    }
}

#[test]
fn packing_with_saturation() {
    let columns = integers(32, 3);
    for (name, bits, signed, third) in [
        ("u16.s32", 16, false, false),
        ("s16.s32", 16, true, false),
        ("u8.s32.b32", 8, false, true),
        ("s8.s32.b32", 8, true, true),
        ("u4.s32.b32", 4, false, true),
        ("s4.s32.b32", 4, true, true),
        ("u2.s32.b32", 2, false, true),
        ("s2.s32.b32", 2, true, true),
    ] {
        let operands = if third { "%a, %b, %c" } else { "%a, %b" };
        let body = format!("cvt.pack.sat.{name} %d, {operands};");
        let (low, high) = range(bits, signed);
        Table::new(&body, &["b32"; 3], "b32", &columns).check_bits(|v| {
            let part = |v: u64| value(v, 32, true).clamp(low, high) as u64 & ((1 << bits) - 1);
            let above = if third { v[2] << (2 * bits) } else { 0 };
            above | part(v[0]) << bits | part(v[1])
        });
    }
}

#[test]
fn registers_wider_than_their_type() {
    let columns = integers(64, 1);
    for (body, output, want) in [
        (
            "cvt.u32.u8 %d, %a;",
            "b32",
            &(|v: u64| v & 0xff) as &dyn Fn(u64) -> u64,
        ),
        ("cvt.s32.s16 %d, %a;", "b32", &|v| value(v, 16, true) as u64),
        ("cvt.u16.u32 %d, %a;", "b64", &|v| v & 0xffff),
        ("cvt.s8.s32 %d, %a;", "b64", &|v| value(v, 8, true) as u64),
    ] {
        Table::new(body, &["b64"], output, &columns).check_bits(|v| want(v[0]));
    }
}
