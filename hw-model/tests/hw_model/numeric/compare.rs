//! setp, set, selp and slct on every type (PTX ISA section 9.7.6).

use crate::numeric::values::{floats, flushed, integers, value};
use crate::support::exact::{BF16, F16, F32, F64, Format, to_f64};
use crate::support::opcode::Table;

const INTEGERS: [(&str, u32, bool); 9] = [
    ("u16", 16, false),
    ("s16", 16, true),
    ("b16", 16, false),
    ("u32", 32, false),
    ("s32", 32, true),
    ("b32", 32, false),
    ("u64", 64, false),
    ("s64", 64, true),
    ("b64", 64, false),
];
const ORDERED: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const UNSIGNED: [(&str, &str); 4] = [("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")];

fn holds<V: PartialOrd>(name: &str, a: &V, b: &V) -> bool {
    match name {
        "eq" => a == b,
        "ne" => a != b,
        "lt" => a < b,
        "le" => a <= b,
        "gt" => a > b,
        _ => a >= b,
    }
}

#[test]
fn integers_compare() {
    for (ty, bits, is_signed) in INTEGERS {
        let columns = integers(bits, 2);
        let register = format!("b{bits}");
        let mut names: Vec<(&str, &str)> = ORDERED.iter().map(|n| (*n, *n)).collect();
        if ty.starts_with('u') {
            names.extend(UNSIGNED);
        }
        if ty.starts_with('b') {
            names.truncate(2);
        }
        for (name, meaning) in names {
            let want = |v: &[u64]| {
                holds(
                    meaning,
                    &value(v[0], bits, is_signed),
                    &value(v[1], bits, is_signed),
                )
            };
            let body = format!("setp.{name}.{ty} %p, %a, %b;\nselp.u32 %d, 1, 0, %p;");
            Table::new(&body, &[&register, &register], "u32", &columns)
                .check_bits(|v| u64::from(want(v)));
            let body = format!("set.{name}.u32.{ty} %d, %a, %b;");
            Table::new(&body, &[&register, &register], "u32", &columns)
                .check_bits(|v| if want(v) { u64::MAX } else { 0 });
            let body = format!("set.{name}.f32.{ty} %d, %a, %b;");
            Table::new(&body, &[&register, &register], "f32", &columns)
                .check_bits(|v| if want(v) { 0x3f80_0000 } else { 0 });
        }
    }
}

#[test]
fn predicates_combine() {
    let columns = integers(32, 3);
    for (name, f) in [
        ("and", (|x, y| x && y) as fn(bool, bool) -> bool),
        ("or", |x, y| x || y),
        ("xor", |x, y| x != y),
    ] {
        for not in ["", "!"] {
            let body = format!(
                "setp.lt.{name}.u32 %p|%q, %a, %b, {not}%s;\nselp.u32 %x0, 1, 0, %p;\nselp.u32 %x1, 2, 0, %q;\n\
                 or.b32 %d, %x0, %x1;"
            );
            let body = format!("setp.gt.u32 %s, %c, 40;\n{body}");
            Table::new(&body, &["b32"; 3], "b32", &columns).check_bits(|v| {
                let third = (v[2] > 40) == not.is_empty();
                let less = v[0] < v[1];
                u64::from(f(less, third)) + 2 * u64::from(f(!less, third))
            });
            crate::support::opcode::report(&format!("setp.lt.{name}.u32 "));
        }
    }
}

/// A comparison's name and meaning.
type Comparison = (String, Box<dyn Fn(f64, f64) -> bool>);

/// Returns all comparisons of floats, ordered, unordered, `num` and `nan`.
fn float_comparisons() -> Vec<Comparison> {
    let mut out: Vec<Comparison> = Vec::new();
    for name in ORDERED {
        let no_nan = |a: f64, b: f64| !a.is_nan() && !b.is_nan();
        out.push((
            name.to_owned(),
            Box::new(move |a, b| no_nan(a, b) && holds(name, &a, &b)),
        ));
        out.push((
            format!("{name}u"),
            Box::new(move |a, b| !no_nan(a, b) || holds(name, &a, &b)),
        ));
    }
    out.push((
        "num".to_owned(),
        Box::new(|a, b| !a.is_nan() && !b.is_nan()),
    ));
    out.push(("nan".to_owned(), Box::new(|a, b| a.is_nan() || b.is_nan())));
    out
}

#[test]
fn floats_compare() {
    let formats: [(Format, &str, &str, bool); 6] = [
        (F32, "b32", "", false),
        (F32, "b32", ".ftz", true),
        (F64, "b64", "", false),
        (F16, "b16", "", false),
        (F16, "b16", ".ftz", true),
        (BF16, "b16", "", false),
    ];
    for (format, register, modifier, ftz) in formats {
        let columns = floats(format, 2);
        for (name, want) in float_comparisons() {
            let want = |v: &[u64]| {
                let of = |v: u64| to_f64(if ftz { flushed(v, format) } else { v }, format);
                want(of(v[0]), of(v[1]))
            };
            let body = format!(
                "setp.{name}{modifier}.{} %p, %a, %b;\nselp.u32 %d, 1, 0, %p;",
                format.name
            );
            Table::new(&body, &[register; 2], "u32", &columns).check_bits(|v| u64::from(want(v)));
            let body = format!("set.{name}{modifier}.u32.{} %d, %a, %b;", format.name);
            Table::new(&body, &[register; 2], "u32", &columns)
                .check_bits(|v| if want(v) { u64::MAX } else { 0 });
        }
    }
}

#[test]
fn pairs_compare() {
    for (format, yes) in [(F16, 0x3c00_u64), (BF16, 0x3f80)] {
        let columns = floats(format, 4);
        let pairs: Vec<Vec<u64>> = (0..2)
            .map(|n| {
                columns[2 * n]
                    .iter()
                    .zip(&columns[2 * n + 1])
                    .map(|(a, b)| a << 16 | b)
                    .collect()
            })
            .collect();
        for (name, want) in float_comparisons() {
            let half = |v: &[u64], shift: u32| {
                u64::from(want(
                    to_f64(v[0] >> shift & 0xffff, format),
                    to_f64(v[1] >> shift & 0xffff, format),
                ))
            };
            let ty = format!("{}x2", format.name);
            let body = format!(
                "setp.{name}.{ty} %p|%q, %a, %b;\nselp.u32 %x0, 1, 0, %p;\nselp.u32 %x1, 2, 0, %q;\n\
                 or.b32 %d, %x0, %x1;"
            );
            Table::new(&body, &["b32"; 2], "b32", &pairs)
                .check_bits(|v| half(v, 0) + 2 * half(v, 16));
            let body = format!("set.{name}.{ty}.{ty} %d, %a, %b;");
            Table::new(&body, &["b32"; 2], "b32", &pairs)
                .check_bits(|v| yes * half(v, 0) | yes * half(v, 16) << 16);
        }
    }
}

#[test]
fn selection() {
    for (ty, bits, _) in INTEGERS {
        let columns = integers(bits, 2);
        let register = format!("b{bits}");
        let body = format!("selp.{ty} %d, %a, %b, %p;");
        let whole = format!("setp.gt.u{bits} %p, %a, %b;\n{body}");
        Table::new(&whole, &[&register, &register], &register, &columns)
            .check_bits(|v| v[0].max(v[1]));
        crate::support::opcode::report(&body);
        let mut columns = integers(bits, 2);
        columns.push(
            integers(32, 1)[0]
                .iter()
                .cycle()
                .take(columns[0].len())
                .copied()
                .collect(),
        );
        let body = format!("slct.{ty}.s32 %d, %a, %b, %c;");
        Table::new(&body, &[&register, &register, "b32"], &register, &columns)
            .check_bits(|v| if v[2] as u32 as i32 >= 0 { v[0] } else { v[1] });
        columns[2] = floats(F32, 1)[0]
            .iter()
            .cycle()
            .take(columns[0].len())
            .copied()
            .collect();
        for ftz in ["", ".ftz"] {
            let body = format!("slct{ftz}.{ty}.f32 %d, %a, %b, %c;");
            Table::new(&body, &[&register, &register, "f32"], &register, &columns).check_bits(
                |v| {
                    let c = if ftz.is_empty() {
                        v[2]
                    } else {
                        flushed(v[2], F32)
                    };
                    if f32::from_bits(c as u32) >= 0.0 {
                        v[0]
                    } else {
                        v[1]
                    }
                },
            );
        }
    }
}
