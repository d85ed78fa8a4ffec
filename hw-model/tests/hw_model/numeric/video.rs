//! Video instructions, scalar and SIMD, by the ISA's pseudo-code in exact integers (PTX ISA section 9.7.17).

use crate::numeric::values::{integers, value};
use crate::support::opcode::Table;

fn table(body: &str, want: impl Fn(&[u64]) -> i128) {
    let columns = integers(32, 3);
    Table::new(body, &["b32"; 3], "b32", &columns).check_bits(|v| want(v) as u64);
}

fn part(v: u64, selector: &str, signed: bool) -> i128 {
    let (bits, index) = match selector.as_bytes() {
        [] => (32, 0),
        [b'h', n] => (16, u32::from(n - b'0')),
        [_, n] => (8, u32::from(n - b'0')),
        _ => panic!("{selector}"),
    };
    value(
        v >> (bits * index) & (u64::MAX >> (64 - bits)),
        bits,
        signed,
    )
}

fn clamp(v: i128, bits: u32, signed: bool) -> i128 {
    if signed {
        v.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        v.clamp(0, (1 << bits) - 1)
    }
}

fn primary(name: &str, a: i128, b: i128) -> i128 {
    match name {
        "vadd" => a + b,
        "vsub" => a - b,
        "vabsdiff" => (a - b).abs(),
        "vmin" => a.min(b),
        "vmax" => a.max(b),
        "vavrg" => {
            if a + b >= 0 {
                (a + b + 1) >> 1
            } else {
                (a + b) >> 1
            }
        }
        other => panic!("{other}"),
    }
}

const SIGNS: [(&str, bool); 2] = [("u32", false), ("s32", true)];
const SELECTORS: [(&str, &str); 4] = [("", ""), (".b1", ".h1"), (".h0", ".b3"), (".b0", "")];

#[test]
fn scalar_arithmetic() {
    for name in ["vadd", "vsub", "vabsdiff", "vmin", "vmax"] {
        for (d, signed_d) in SIGNS {
            for (a, signed_a) in SIGNS {
                for (b, signed_b) in SIGNS {
                    for (select_a, select_b) in SELECTORS {
                        let exact = move |v: &[u64]| {
                            let a = part(v[0], select_a.trim_start_matches('.'), signed_a);
                            primary(
                                name,
                                a,
                                part(v[1], select_b.trim_start_matches('.'), signed_b),
                            )
                        };
                        let types = format!("{name}.{d}.{a}.{b}");
                        let sources = format!("%a{select_a}, %b{select_b}");
                        table(&format!("{types} %d, {sources};"), exact);
                        table(&format!("{types}.sat %d, {sources};"), |v| {
                            clamp(exact(v), 32, signed_d)
                        });
                        if select_a != ".b1" {
                            continue;
                        }
                        for (second, f) in [
                            ("add", (|x, y| x + y) as fn(i128, i128) -> i128),
                            ("min", |x, y| x.min(y)),
                            ("max", |x, y| x.max(y)),
                        ] {
                            table(&format!("{types}.{second} %d, {sources}, %c;"), |v| {
                                let number = |v: i128| value(v as u64 & 0xffff_ffff, 32, signed_d);
                                f(number(exact(v)), number(i128::from(v[2])))
                            });
                        }
                        for (merge, bits, at) in [("b2", 8, 2), ("h1", 16, 1)] {
                            table(&format!("{types}.sat %d.{merge}, {sources}, %c;"), |v| {
                                let t = clamp(exact(v), bits, signed_d) & ((1 << bits) - 1);
                                let mask = ((1_i128 << bits) - 1) << (bits * at);
                                i128::from(v[2]) & !mask | t << (bits * at)
                            });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn scalar_shifts() {
    for (name, left) in [("vshl", true), ("vshr", false)] {
        for (d, signed_d) in SIGNS {
            for (a, signed_a) in SIGNS {
                for (mode, wraps) in [("clamp", false), ("wrap", true)] {
                    let exact = |v: &[u64]| {
                        let (x, by) = (part(v[0], "h0", signed_a), part(v[1], "b0", false));
                        let by = if wraps { by & 31 } else { by.min(32) };
                        if left { x << by } else { x >> by }
                    };
                    table(
                        &format!("{name}.{d}.{a}.u32.{mode} %d, %a.h0, %b.b0;"),
                        exact,
                    );
                    table(
                        &format!("{name}.{d}.{a}.u32.sat.{mode} %d, %a.h0, %b.b0;"),
                        |v| clamp(exact(v), 32, signed_d),
                    );
                }
            }
        }
    }
}

#[test]
fn multiply_add() {
    for (a, signed_a) in SIGNS {
        for (b, signed_b) in SIGNS {
            for (negate_a, negate_c, po) in [
                ("", "", false),
                ("-", "", false),
                ("", "-", false),
                ("", "", true),
            ] {
                for (scale, shift) in [("", 0), (".shr7", 7), (".shr15", 15)] {
                    for sat in ["", ".sat"] {
                        let signed =
                            signed_a || signed_b || !negate_a.is_empty() || !negate_c.is_empty();
                        let d = if signed { "s32" } else { "u32" };
                        let mode = if po { ".po" } else { "" };
                        let body = format!(
                            "vmad.{d}.{a}.{b}{mode}{sat}{scale} %d, {negate_a}%a.h1, %b.b2, {negate_c}%c;"
                        );
                        table(&body, |v| {
                            let product = part(v[0], "h1", signed_a) * part(v[1], "b2", signed_b);
                            let product = if negate_a.is_empty() {
                                product
                            } else {
                                -product
                            };
                            let c = value(v[2], 32, signed);
                            let c = if negate_c.is_empty() { c } else { -c };
                            let scaled = (product + c + i128::from(po)) >> shift;
                            if sat.is_empty() {
                                scaled
                            } else {
                                clamp(scaled, 32, signed)
                            }
                        });
                    }
                }
            }
        }
    }
}

fn compare(name: &str, a: i128, b: i128) -> bool {
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
fn comparisons() {
    for cmp in ["eq", "ne", "lt", "le", "gt", "ge"] {
        for (a, signed_a) in SIGNS {
            for (b, signed_b) in SIGNS {
                let holds = |v: &[u64]| {
                    compare(cmp, part(v[0], "b0", signed_a), part(v[1], "b1", signed_b))
                };
                table(&format!("vset.{a}.{b}.{cmp} %d, %a.b0, %b.b1;"), |v| {
                    i128::from(holds(v))
                });
                table(
                    &format!("vset.{a}.{b}.{cmp}.add %d, %a.b0, %b.b1, %c;"),
                    |v| i128::from(holds(v)) + i128::from(v[2]),
                );
            }
        }
    }
}

/// Returns one part of the eight bytes or four half-words of b and a.
fn chosen(v: &[u64], bits: u32, selector: u32, signed: bool) -> i128 {
    let count = 32 / bits;
    let source = if selector < count { v[0] } else { v[1] };
    value(
        source >> (bits * (selector % count)) & ((1 << bits) - 1),
        bits,
        signed,
    )
}

struct Simd<'a> {
    ways: u32,
    d: &'a str,
    a: &'a str,
    b: &'a str,
    selectors: [[u32; 4]; 2],
    written: u32,
}

const SIMD: [Simd<'static>; 4] = [
    Simd {
        ways: 2,
        d: "",
        a: "",
        b: "",
        selectors: [[0, 1, 0, 0], [2, 3, 0, 0]],
        written: 3,
    },
    Simd {
        ways: 2,
        d: ".h1",
        a: ".h32",
        b: ".h01",
        selectors: [[2, 3, 0, 0], [1, 0, 0, 0]],
        written: 2,
    },
    Simd {
        ways: 4,
        d: "",
        a: "",
        b: "",
        selectors: [[0, 1, 2, 3], [4, 5, 6, 7]],
        written: 15,
    },
    Simd {
        ways: 4,
        d: ".b320",
        a: ".b0246",
        b: ".b7531",
        selectors: [[6, 4, 2, 0], [1, 3, 5, 7]],
        written: 13,
    },
];

fn simd(
    form: &Simd<'_>,
    body: &str,
    signed: [bool; 3],
    sat: bool,
    add: bool,
    f: impl Fn(i128, i128) -> i128,
) {
    let bits = 32 / form.ways;
    table(body, |v| {
        let mask = (1_i128 << bits) - 1;
        let mut out = if add { i128::from(v[2]) } else { 0 };
        for n in 0..form.ways {
            let a = chosen(v, bits, form.selectors[0][n as usize], signed[1]);
            let b = chosen(v, bits, form.selectors[1][n as usize], signed[2]);
            let t = f(a, b);
            let t = if sat { clamp(t, bits, signed[0]) } else { t };
            let written = form.written >> n & 1 != 0;
            if add {
                out += if written { t } else { 0 };
            } else {
                let c = i128::from(v[2]) >> (bits * n);
                out |= ((if written { t } else { c }) & mask) << (bits * n);
            }
        }
        out
    });
}

#[test]
fn simd_arithmetic() {
    for form in &SIMD {
        for name in ["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"] {
            for (d, signed_d) in SIGNS {
                for (a, signed_a) in SIGNS {
                    for (b, signed_b) in SIGNS {
                        for (modifier, sat, add) in [
                            ("", false, false),
                            (".sat", true, false),
                            (".add", false, true),
                        ] {
                            let body = format!(
                                "{name}{}.{d}.{a}.{b}{modifier} %d{}, %a{}, %b{}, %c;",
                                form.ways, form.d, form.a, form.b
                            );
                            let signed = [signed_d, signed_a, signed_b];
                            simd(form, &body, signed, sat, add, |a, b| primary(name, a, b));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn simd_comparisons() {
    for form in &SIMD {
        for cmp in ["eq", "ne", "lt", "le", "gt", "ge"] {
            for (a, signed_a) in SIGNS {
                for (modifier, add) in [("", false), (".add", true)] {
                    let body = format!(
                        "vset{}.{a}.{a}.{cmp}{modifier} %d{}, %a{}, %b{}, %c;",
                        form.ways, form.d, form.a, form.b
                    );
                    simd(
                        form,
                        &body,
                        [false, signed_a, signed_a],
                        false,
                        add,
                        |a, b| i128::from(compare(cmp, a, b)),
                    );
                }
            }
        }
    }
}
