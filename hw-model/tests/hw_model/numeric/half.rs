//! f16, bf16 and their pairs (PTX ISA section 9.7.4).

use crate::numeric::values::{floats, flushed};
use crate::support::exact::{BF16, Expected, F16, Format, Operation, result, to_f64};
use crate::support::opcode::Table;

/// Checks an instruction on one number and on pairs of it.
fn check(name: &str, format: Format, count: usize, want: impl Fn(&[u64]) -> Expected) {
    let columns = floats(format, count);
    let body = format!("{name}.{}", format.name);
    Table::new(&body, &vec!["b16"; count], "b16", &columns).check(&want);
    let body = format!("{name}.{}x2", format.name);
    let rows = columns[0].len();
    let pairs: Vec<Vec<u64>> = columns
        .iter()
        .map(|column| {
            (0..rows)
                .map(|n| column[(n + 7) % rows] << 16 | column[n])
                .collect()
        })
        .collect();
    Table::new(&body, &vec!["b32"; count], "b32", &pairs).check_parts(16, &want);
}

fn bits(want: Expected, f: impl Fn(u64) -> u64) -> Expected {
    match want {
        Expected::Bits(bits) => Expected::Bits(f(bits)),
        other => other,
    }
}

#[test]
fn arithmetic() {
    let operations = [
        ("add", Operation::Add, 2),
        ("sub", Operation::Sub, 2),
        ("mul", Operation::Mul, 2),
        ("add.rn", Operation::Add, 2),
        ("sub.rn", Operation::Sub, 2),
        ("mul.rn", Operation::Mul, 2),
        ("fma.rn", Operation::Fma, 3),
    ];
    for format in [F16, BF16] {
        let negative = |v: u64| v >> 15 != 0;
        for (name, op, count) in operations {
            let exact = |v: &[u64]| result(op, v, &[format; 3], format, "rn");
            check(name, format, count, exact);
            if op == Operation::Fma {
                check("fma.rn.relu", format, count, |v| {
                    bits(exact(v), |b| if negative(b) { 0 } else { b })
                });
            }
            if format == BF16 {
                continue;
            }
            let ftz = |v: &[u64]| {
                let v: Vec<u64> = v.iter().map(|v| flushed(*v, F16)).collect();
                bits(exact(&v), |b| flushed(b, F16))
            };
            let sat = |want: Expected| match want {
                Expected::Nan(_) => Expected::Bits(0),
                other => bits(other, |b| if negative(b) { 0 } else { b.min(0x3c00) }),
            };
            check(&format!("{name}.ftz"), format, count, ftz);
            check(&format!("{name}.sat"), format, count, |v| sat(exact(v)));
            check(&format!("{name}.ftz.sat"), format, count, |v| sat(ftz(v)));
        }
    }
}

#[test]
fn minimum_and_maximum() {
    for format in [F16, BF16] {
        for (name, greater) in [("min", false), ("max", true)] {
            let pick = |a: u64, b: u64, nan_wins: bool| {
                let (x, y) = (to_f64(a, format), to_f64(b, format));
                match (x.is_nan(), y.is_nan()) {
                    (true, true) => Expected::Bits(0x7fff),
                    (true, _) | (_, true) if nan_wins => Expected::Bits(0x7fff),
                    (true, _) => Expected::Bits(b),
                    (_, true) => Expected::Bits(a),
                    _ if x == y => Expected::Bits(if (a >> 15 != 0) == greater { b } else { a }),
                    _ => Expected::Bits(if (x > y) == greater { a } else { b }),
                }
            };
            check(name, format, 2, |v| pick(v[0], v[1], false));
            check(&format!("{name}.NaN"), format, 2, |v| {
                pick(v[0], v[1], true)
            });
            check(&format!("{name}.xorsign.abs"), format, 2, |v| {
                let magnitude = pick(v[0] & 0x7fff, v[1] & 0x7fff, false);
                if magnitude == Expected::Bits(0x7fff) {
                    return Expected::Nan(format);
                }
                bits(magnitude, |b| b & 0x7fff | (v[0] ^ v[1]) & 0x8000)
            });
            if format == F16 {
                check(&format!("{name}.ftz"), format, 2, |v| {
                    pick(flushed(v[0], F16), flushed(v[1], F16), false)
                });
            }
        }
    }
}

#[test]
fn signs() {
    for format in [F16, BF16] {
        let or_nan = |bits: u64| {
            if to_f64(bits, format).is_nan() {
                Expected::Nan(format)
            } else {
                Expected::Bits(bits)
            }
        };
        check("abs", format, 1, |v| or_nan(v[0] & 0x7fff));
        check("neg", format, 1, |v| or_nan(v[0] ^ 0x8000));
    }
    check("abs.ftz", F16, 1, |v| {
        bits(Expected::Bits(flushed(v[0], F16) & 0x7fff), |b| b)
    });
    check("neg.ftz", F16, 1, |v| {
        Expected::Bits(flushed(v[0], F16) ^ 0x8000)
    });
}

#[test]
fn transcendental_functions() {
    for format in [F16, BF16] {
        let near = |want: f64, relative: f64| {
            if want.is_nan() {
                return Expected::Nan(format);
            }
            let largest = if format == F16 { 65504.0 } else { 3.38e38 };
            let least = 2.0_f64.powi(if format == F16 { -24 } else { -133 });
            if want.abs() > largest {
                return Expected::Near(format, f64::INFINITY.copysign(want), 0.0);
            }
            Expected::Near(format, want, (want.abs() * relative).max(least))
        };
        let ulp = if format == F16 {
            2.0_f64.powf(-9.9)
        } else {
            2.0_f64.powi(-7)
        };
        let ftz = if format == BF16 { ".ftz" } else { "" };
        check(&format!("ex2.approx{ftz}"), format, 1, |v| {
            let want = to_f64(v[0], format).exp2();
            if format == BF16 && want < 2.0_f64.powi(-126) {
                return Expected::Near(format, 0.0, 2.0_f64.powi(-126));
            }
            near(want, ulp)
        });
        let error = if format == F16 {
            2.0_f64.powf(-10.987)
        } else {
            2.0_f64.powi(-8)
        };
        check("tanh.approx", format, 1, |v| {
            near(to_f64(v[0], format).tanh(), error.max(ulp))
        });
    }
}
