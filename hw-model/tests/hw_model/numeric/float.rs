//! f32, f64 and f32x2: arithmetic in every rounding mode, `.ftz`, `.sat`, minimum and maximum, testp, and the
//! approximate forms (PTX ISA section 9.7.3).

use crate::numeric::values::{floats, flushed, mixed};
use crate::support::exact::{
    BF16, Expected, F16, F32, F64, Format, MODES, Operation, result, to_f64,
};
use crate::support::opcode::Table;
use gridmux_workloads::Prng;

/// Applies `.ftz` and `.sat` to an expected f32.
fn modified(want: Expected, ftz: bool, sat: bool) -> Expected {
    match want {
        Expected::Nan(_) if sat => Expected::Bits(0),
        Expected::Bits(bits) => {
            let bits = if ftz { flushed(bits, F32) } else { bits };
            if !sat {
                return Expected::Bits(bits);
            }
            let v = f32::from_bits(bits as u32);
            Expected::Bits(if v > 1.0 {
                0x3f80_0000
            } else if v > 0.0 {
                bits
            } else {
                0
            })
        }
        other => other,
    }
}

const OPERATIONS: [(&str, Operation, usize); 7] = [
    ("add", Operation::Add, 2),
    ("sub", Operation::Sub, 2),
    ("mul", Operation::Mul, 2),
    ("fma", Operation::Fma, 3),
    ("mad", Operation::Fma, 3),
    ("div", Operation::Div, 2),
    ("sqrt", Operation::Sqrt, 1),
];

fn arithmetic(format: Format, modifiers: &[(&str, bool, bool)]) {
    for (name, op, count) in OPERATIONS {
        let columns = floats(format, count);
        for mode in MODES {
            for (modifier, ftz, sat) in modifiers {
                if *sat && matches!(name, "div" | "sqrt") {
                    continue;
                }
                let body = format!("{name}.{mode}{modifier}.{}", format.name);
                let inputs = vec![format.name; count];
                let table = Table::new(&body, &inputs, format.name, &columns);
                table.check(|inputs| {
                    let inputs: Vec<u64> = inputs
                        .iter()
                        .map(|v| if *ftz { flushed(*v, format) } else { *v })
                        .collect();
                    modified(
                        result(op, &inputs, &vec![format; count], format, mode),
                        *ftz,
                        *sat,
                    )
                });
            }
        }
    }
}

#[test]
fn single_precision_in_every_mode() {
    arithmetic(
        F32,
        &[
            ("", false, false),
            (".ftz", true, false),
            (".sat", false, true),
            (".ftz.sat", true, true),
        ],
    );
}

#[test]
fn double_precision_in_every_mode() {
    arithmetic(F64, &[("", false, false)]);
}

#[test]
fn reciprocals_in_every_mode() {
    for (format, ftz) in [(F32, false), (F32, true), (F64, false)] {
        let columns = floats(format, 1);
        for mode in MODES {
            let modifier = if ftz { ".ftz" } else { "" };
            let body = format!("rcp.{mode}{modifier}.{} %d, %a;", format.name);
            let one = if format == F32 {
                u64::from(1.0_f32.to_bits())
            } else {
                1.0_f64.to_bits()
            };
            Table::new(&body, &[format.name], format.name, &columns).check(|v| {
                let a = if ftz { flushed(v[0], format) } else { v[0] };
                modified(
                    result(Operation::Div, &[one, a], &[format; 2], format, mode),
                    ftz,
                    false,
                )
            });
        }
    }
}

#[test]
fn defaults_round_to_nearest() {
    for (format, name) in [(F32, "f32"), (F64, "f64")] {
        let columns = floats(format, 2);
        for (op, code) in [
            ("add", Operation::Add),
            ("sub", Operation::Sub),
            ("mul", Operation::Mul),
        ] {
            let body = format!("{op}.{name} %d, %a, %b;");
            Table::new(&body, &[name, name], name, &columns)
                .check(|v| result(code, v, &[format; 2], format, "rn"));
        }
    }
}

#[test]
fn pairs_of_singles() {
    let columns = floats(F32, 6);
    let packed: Vec<Vec<u64>> = (0..3)
        .map(|k| {
            columns[2 * k]
                .iter()
                .zip(&columns[2 * k + 1])
                .map(|(low, high)| high << 32 | low)
                .collect()
        })
        .collect();
    for (name, op, count) in &OPERATIONS[..4] {
        for mode in MODES {
            for ftz in [false, true] {
                let modifier = if ftz { ".ftz" } else { "" };
                let body = format!("{name}.{mode}{modifier}.f32x2");
                let inputs = vec!["b64"; *count];
                Table::new(&body, &inputs, "b64", &packed[..*count]).check_parts(32, |v| {
                    let input = |v: &u64| if ftz { flushed(*v, F32) } else { *v };
                    let inputs: Vec<u64> = v.iter().map(input).collect();
                    modified(result(*op, &inputs, &[F32; 3], F32, mode), ftz, false)
                });
            }
        }
    }
}

#[test]
fn single_precision_with_half_precision_operands() {
    for (small, name) in [(F16, "f16"), (BF16, "bf16")] {
        for mode in MODES {
            for (op, code) in [("add", Operation::Add), ("sub", Operation::Sub)] {
                let columns = mixed(&[small, F32]);
                let body = format!("{op}.{mode}.f32.{name} %d, %a, %b;");
                Table::new(&body, &["b16", "f32"], "f32", &columns)
                    .check(|v| result(code, v, &[small, F32], F32, mode));
            }
            let columns = mixed(&[small, small, F32]);
            let body = format!("fma.{mode}.f32.{name} %d, %a, %b, %c;");
            Table::new(&body, &["b16", "b16", "f32"], "f32", &columns)
                .check(|v| result(Operation::Fma, v, &[small, small, F32], F32, mode));
        }
    }
}

/// Returns the minimum or maximum as the ISA words it.
fn chosen(a: u64, b: u64, format: Format, greater: bool, nan_wins: bool) -> Expected {
    let (x, y) = (to_f64(a, format), to_f64(b, format));
    let negative = |v: u64| v >> (format.bits - 1) != 0;
    match (x.is_nan(), y.is_nan()) {
        (true, true) => Expected::Nan(format),
        (true, _) | (_, true) if nan_wins => Expected::Nan(format),
        (true, _) => Expected::Bits(b),
        (_, true) => Expected::Bits(a),
        _ if x == y => Expected::Bits(if negative(a) == greater { b } else { a }),
        _ => Expected::Bits(if (x > y) == greater { a } else { b }),
    }
}

#[test]
fn minimum_and_maximum() {
    for (name, greater) in [("min", false), ("max", true)] {
        let columns = floats(F32, 2);
        for (modifier, ftz, nan, cross) in [
            ("", false, false, false),
            (".ftz", true, false, false),
            (".NaN", false, true, false),
            (".ftz.NaN", true, true, false),
            (".xorsign.abs", false, false, true),
            (".ftz.NaN.xorsign.abs", true, true, true),
        ] {
            let body = format!("{name}{modifier}.f32 %d, %a, %b;");
            Table::new(&body, &["f32", "f32"], "f32", &columns).check(|v| {
                let [a, b] = [v[0], v[1]].map(|v| if ftz { flushed(v, F32) } else { v });
                if !cross {
                    return chosen(a, b, F32, greater, nan);
                }
                let sign = (a ^ b) & 0x8000_0000;
                match chosen(a & 0x7fff_ffff, b & 0x7fff_ffff, F32, greater, nan) {
                    Expected::Bits(bits) => Expected::Bits(bits & 0x7fff_ffff | sign),
                    other => other,
                }
            });
        }
        let columns = floats(F32, 3);
        let body = format!("{name}.f32 %d, %a, %b, %c;");
        Table::new(&body, &["f32"; 3], "f32", &columns).check(|v| {
            match chosen(v[0], v[1], F32, greater, false) {
                Expected::Bits(bits) => chosen(bits, v[2], F32, greater, false),
                _ => chosen(v[0], v[2], F32, greater, false),
            }
        });
        let columns = floats(F64, 2);
        let body = format!("{name}.f64 %d, %a, %b;");
        Table::new(&body, &["f64"; 2], "f64", &columns)
            .check(|v| chosen(v[0], v[1], F64, greater, false));
    }
}

#[test]
fn signs() {
    for (format, name) in [(F32, "f32"), (F64, "f64")] {
        let sign = 1_u64 << (format.bits - 1);
        let columns = floats(format, 2);
        let table = |body: &str, want: &dyn Fn(u64, u64) -> u64| {
            Table::new(body, &[name, name], name, &columns).check(|v| {
                let bits = want(v[0], v[1]);
                if to_f64(bits, format).is_nan() {
                    Expected::Nan(format)
                } else {
                    Expected::Bits(bits)
                }
            });
        };
        table(&format!("abs.{name} %d, %a;"), &|a, _| a & !sign);
        table(&format!("neg.{name} %d, %a;"), &|a, _| a ^ sign);
        table(&format!("copysign.{name} %d, %a, %b;"), &|a, b| {
            b & !sign | a & sign
        });
        if format == F32 {
            table("abs.ftz.f32 %d, %a;", &|a, _| flushed(a, F32) & !sign);
            table("neg.ftz.f32 %d, %a;", &|a, _| flushed(a, F32) ^ sign);
        }
    }
}

#[test]
fn properties() {
    for (format, name) in [(F32, "f32"), (F64, "f64")] {
        let columns = floats(format, 1);
        let least = if format == F32 {
            f64::from(f32::MIN_POSITIVE)
        } else {
            f64::MIN_POSITIVE
        };
        let tests: [(&str, &dyn Fn(f64) -> bool); 6] = [
            ("finite", &|v| v.is_finite()),
            ("infinite", &|v| v.is_infinite()),
            ("number", &|v| !v.is_nan()),
            ("notanumber", &|v| v.is_nan()),
            ("normal", &|v| {
                v == 0.0 || (v.is_finite() && v.abs() >= least)
            }),
            ("subnormal", &|v| v != 0.0 && v.abs() < least),
        ];
        for (property, holds) in tests {
            let body = format!("testp.{property}.{name} %p, %a;\nselp.u32 %d, 1, 0, %p;");
            Table::new(&body, &[name], "u32", &columns)
                .check_bits(|v| u64::from(holds(to_f64(v[0], format))));
        }
    }
}

/// Returns what lies within `ulps` units in the last place of f32, or `error` absolute.
fn close(want: f64, ulps: f64, error: f64) -> Expected {
    if want.is_nan() {
        return Expected::Nan(F32);
    }
    let rounded = want as f32;
    if rounded.is_infinite() || rounded == 0.0 && want == 0.0 {
        return Expected::Near(F32, f64::from(rounded), 0.0);
    }
    let unit = 2.0_f64.powi(want.abs().log2().floor().max(-126.0) as i32 - 23);
    Expected::Near(F32, want, (ulps * unit).max(error))
}

/// Returns columns of singles in which the first has 4,000 more between -6 and 6, and the others numbers beside them.
fn dense(count: usize) -> Vec<Vec<u64>> {
    let (mut columns, mut prng) = (floats(F32, count), Prng::new(3));
    for column in &mut columns {
        let moderate = (0..4000).map(|_| u64::from(prng.f32_in(-6.0, 6.0).to_bits()));
        column.extend(moderate);
    }
    columns
}

#[test]
fn approximations_of_division_and_roots() {
    let columns = dense(2);
    let single = |v: u64| f64::from(f32::from_bits(v as u32));
    for ftz in [false, true] {
        let modifier = if ftz { ".ftz" } else { "" };
        let input = |v: u64| single(if ftz { flushed(v, F32) } else { v });
        let output = |want: Expected| match want {
            Expected::Near(_, v, _) if ftz && v.abs() < f64::from(f32::MIN_POSITIVE) => {
                Expected::Near(F32, 0.0, f64::from(f32::MIN_POSITIVE))
            }
            other => other,
        };
        let table = |body: &str, want: &dyn Fn(f64, f64) -> Expected| {
            Table::new(body, &["f32", "f32"], "f32", &columns)
                .check(|v| output(want(input(v[0]), input(v[1]))));
        };
        table(&format!("div.full{modifier}.f32 %d, %a, %b;"), &|a, b| {
            close(a / b, 2.0, 0.0)
        });
        table(&format!("div.approx{modifier}.f32 %d, %a, %b;"), &|a, b| {
            let beyond = b.abs() > 2.0_f64.powi(126) && b.is_finite();
            match (beyond, a.is_infinite()) {
                (true, true) => Expected::Nan(F32),
                (true, false) if !a.is_nan() => Expected::Near(F32, 0.0, 0.0),
                _ => close(a / b, 2.0, 0.0),
            }
        });
        table(&format!("rcp.approx{modifier}.f32 %d, %a;"), &|a, _| {
            close(1.0 / a, 1.0, 0.0)
        });
        table(&format!("sqrt.approx{modifier}.f32 %d, %a;"), &|a, _| {
            close(a.sqrt(), 1.0, 0.0)
        });
        table(&format!("rsqrt.approx{modifier}.f32 %d, %a;"), &|a, _| {
            close(1.0 / a.sqrt(), 2.0, 0.0)
        });
    }
}

#[test]
fn gross_approximations_in_double_precision() {
    let columns = floats(F64, 1);
    let cases: [(&str, &dyn Fn(f64) -> f64); 3] = [
        ("rcp.approx.ftz.f64", &|a| 1.0 / a),
        ("rsqrt.approx.ftz.f64", &|a| 1.0 / a.sqrt()),
        ("rsqrt.approx.f64", &|a| 1.0 / a.sqrt()),
    ];
    for (name, exact) in cases {
        let body = format!("{name} %d, %a;");
        Table::new(&body, &["f64"], "f64", &columns).check(|v| {
            let ftz = name.contains("ftz");
            let a = f64::from_bits(if ftz { flushed(v[0], F64) } else { v[0] });
            let want = exact(a);
            if want.is_nan() {
                return Expected::Nan(F64);
            }
            let want = if ftz && want.abs() < f64::MIN_POSITIVE {
                0.0_f64.copysign(want)
            } else {
                want
            };
            let relative = 2.0_f64.powi(-19);
            Expected::Near(
                F64,
                want,
                if want.is_infinite() {
                    0.0
                } else {
                    want.abs() * relative
                },
            )
        });
    }
}

#[test]
fn transcendental_functions() {
    let columns = dense(1);
    for ftz in [false, true] {
        let modifier = if ftz { ".ftz" } else { "" };
        let table = |name: &str, want: &dyn Fn(f64) -> Expected| {
            let body = format!("{name}.approx{modifier}.f32 %d, %a;");
            Table::new(&body, &["f32"], "f32", &columns).check(|v| {
                let a = if ftz { flushed(v[0], F32) } else { v[0] };
                match want(f64::from(f32::from_bits(a as u32))) {
                    Expected::Near(_, v, error)
                        if ftz && v.abs() < f64::from(f32::MIN_POSITIVE) =>
                    {
                        Expected::Near(F32, 0.0, error.max(f64::from(f32::MIN_POSITIVE)))
                    }
                    other => other,
                }
            });
        };
        table("ex2", &|a| close(a.exp2(), 2.0, 0.0));
        table("lg2", &|a| close(a.log2(), 1.0, 2.0_f64.powi(-22)));
        let moderate = |a: f64, want: f64| {
            if a.abs() > 100.0 && a.is_finite() {
                Expected::Near(F32, 0.0, 1.0)
            } else {
                close(want, 1.0, 2.0_f64.powf(-20.5))
            }
        };
        table("sin", &|a| moderate(a, a.sin()));
        table("cos", &|a| moderate(a, a.cos()));
    }
    let body = "tanh.approx.f32 %d, %a;";
    Table::new(body, &["f32"], "f32", &columns).check(|v| {
        let want = f64::from(f32::from_bits(v[0] as u32)).tanh();
        if want.is_nan() {
            Expected::Nan(F32)
        } else {
            Expected::Near(F32, want, want.abs() * 2.0_f64.powi(-11))
        }
    });
}
