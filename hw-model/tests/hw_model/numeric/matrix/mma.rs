//! `mma`: products of fragments that are dealt by the formulas of each shape.

use super::fragments::{
    B1_88128, B1_K128, B1_K256, F64_884, K4_WORD, K8_HALF, K8_WORD, K16, K16_F64, S4_8832, S4_K32,
    S4_K64, S8_8816, S8_K16, S8_K32, Shape, c_place, deal, flat, operand,
};
use super::{header, product, run, values};
use crate::support::opcode::report;
use gridmux_workloads::Prng;

fn mma(name: &str, shape: &Shape, types: [&str; 4], suffix: &str, seed: u64) {
    let [d, a, b, c] = types;
    let mut prng = Prng::new(seed);
    let (m, k) = (shape.m, shape.k);
    let (va, vb, vc) = (
        values(a, m * k, &mut prng),
        values(b, k * 8, &mut prng),
        values(c, m * 8, &mut prng),
    );
    let per_lane = |rows: usize, columns: usize| rows * columns / 32;
    let fa = deal(a, per_lane(m, k), |l, i| {
        let (row, column) = (shape.a)(l, i);
        va[row * k + column]
    });
    let fb = deal(b, per_lane(k, 8), |l, i| {
        let (row, column) = (shape.b)(l, i);
        vb[row * 8 + column]
    });
    let place = |l: usize, i: usize| {
        let (row, column) = c_place(l, i);
        row * 8 + column
    };
    let fc = deal(c, per_lane(m, 8), |l, i| vc[place(l, i)]);
    let ands = suffix.contains("and");
    let exact: Vec<i64> = (0..m * 8)
        .map(|at| {
            let (row, column) = (at / 8, at % 8);
            let term = |s: usize| product(a, ands, va[row * k + s], vb[s * 8 + column]);
            let sum: i64 = (0..k).map(term).sum();
            vc[at] + sum
        })
        .collect();
    let want = deal(d, per_lane(m, 8), |l, i| exact[place(l, i)]);
    let name = format!("{name}.{d}.{a}.{b}.{c}{suffix}");
    check(&name, a == "f64", [&fa, &fb, &fc], &want);
}

/// Runs `mma.sync.aligned.NAME` on the fragments of A, B and C, in registers of 64 bits if they are `wide`.
fn check(name: &str, wide: bool, fragments: [&[Vec<u64>]; 3], want: &[Vec<u64>]) {
    let mut ptx = header(4);
    let mut list = |param: usize, fragment: &[Vec<u64>]| {
        operand(&mut ptx, param, fragment[0].len(), wide, 8 * param)
    };
    let [a, b, c] = [0, 1, 2].map(|n| list(n, fragments[n]));
    let d = list(3, want);
    let (bytes, register, store) = if wide {
        (8, "%fd", "f64")
    } else {
        (4, "%r", "b32")
    };
    let body = format!("mma.sync.aligned.{name} {d}, {a}, {b}, {c};");
    let registers = want[0].len();
    ptx += &format!(
        "{body}\nld.param.u64 %rd0, [p3];\nmad.wide.u32 %rd0, %r60, {}, %rd0;\n",
        bytes * registers
    );
    for r in 0..registers {
        let (at, n) = (bytes * r, 24 + r);
        ptx += &format!("st.global.{store} [%rd0+{at}], {register}{n};\n");
    }
    ptx += "ret;\n}\n";
    let want = flat(want, wide);
    let [a, b, c] = fragments.map(|fragment| flat(fragment, wide));
    assert_eq!(
        run(&ptx, &[a, b, c, vec![0; want.len()]], 0),
        want,
        "{body}"
    );
    report(&body);
}

#[test]
fn products_of_floats() {
    let halves = [("m16n8k8.row.col", &K8_HALF), ("m16n8k16.row.col", &K16)];
    let words = [("m16n8k4.row.col", &K4_WORD), ("m16n8k8.row.col", &K8_WORD)];
    for (name, shape) in halves {
        for d in ["f16", "f32"] {
            mma(name, shape, [d, "f16", "f16", d], "", 1);
        }
        mma(name, shape, ["f32", "bf16", "bf16", "f32"], "", 2);
    }
    for (name, shape) in words {
        mma(name, shape, ["f32", "tf32", "tf32", "f32"], "", 3);
        mma(name, shape, ["f64"; 4], "", 7);
    }
    for a in ["e4m3", "e5m2"] {
        for b in ["e4m3", "e5m2"] {
            let types = ["f32", a, b, "f32"];
            mma("m16n8k32.row.col", &S8_K32, types, "", 4);
            mma("m16n8k16.row.col", &S8_K16, types, "", 5);
        }
    }
    mma("m8n8k4.row.col", &F64_884, ["f64"; 4], "", 6);
    mma("m16n8k16.row.col", &K16_F64, ["f64"; 4], "", 7);
}

#[test]
fn products_of_integers() {
    for (name, shape, types) in [
        ("m8n8k16", &S8_8816, ["u8", "s8"]),
        ("m16n8k16", &S8_K16, ["u8", "s8"]),
        ("m16n8k32", &S8_K32, ["u8", "s8"]),
        ("m8n8k32", &S4_8832, ["u4", "s4"]),
        ("m16n8k32", &S4_K32, ["u4", "s4"]),
        ("m16n8k64", &S4_K64, ["u4", "s4"]),
    ] {
        for (modifier, seed) in [("", 8), (".satfinite", 9)] {
            let name = format!("{name}.row.col{modifier}");
            for a in types {
                for b in types {
                    mma(&name, shape, ["s32", a, b, "s32"], "", seed);
                }
            }
        }
    }
    for (name, shape) in [
        ("m8n8k128.row.col", &B1_88128),
        ("m16n8k128.row.col", &B1_K128),
        ("m16n8k256.row.col", &B1_K256),
    ] {
        for suffix in [".xor.popc", ".and.popc"] {
            mma(name, shape, ["s32", "b1", "b1", "s32"], suffix, 10);
        }
    }
}

/// Checks `mma.m8n8k4` on f16: four products, by the ISA's formulas for each layout.
#[test]
fn products_of_quad_pairs() {
    for (a_layout, b_layout) in [
        ("row", "col"),
        ("col", "row"),
        ("row", "row"),
        ("col", "col"),
    ] {
        for c in ["f16", "f32"] {
            let mut prng = Prng::new(12);
            let upper = |l: usize| if l < 16 { 0 } else { 4 };
            let number = |l: usize| l / 4 % 4;
            let (va, vb, vc) = (
                values("f16", 128, &mut prng),
                values("f16", 128, &mut prng),
                values("f16", 256, &mut prng),
            );
            let fa = deal("f16", 4, |l, i| {
                let (row, column) = if a_layout == "row" {
                    (l % 4 + upper(l), i)
                } else {
                    (i % 4 + upper(l), l % 4)
                };
                va[number(l) * 32 + row * 4 + column]
            });
            let fb = deal("f16", 4, |l, i| {
                let (row, column) = if b_layout == "row" {
                    (l % 4, i + upper(l))
                } else {
                    (i, l % 4 + upper(l))
                };
                vb[number(l) * 32 + row * 8 + column]
            });
            let place = |l: usize, i: usize| {
                let (row, column) = if c == "f16" {
                    (l % 4 + upper(l), i)
                } else {
                    ((l & 1) + (i & 2) + upper(l), (i & 4) + (l & 2) + (i & 1))
                };
                number(l) * 64 + row * 8 + column
            };
            let fc = deal(c, 8, |l, i| vc[place(l, i)]);
            let want = deal(c, 8, |l, i| {
                let at = place(l, i);
                let (part, row, column) = (at / 64, at / 8 % 8, at % 8);
                let sum: i64 = (0..4)
                    .map(|k| va[part * 32 + row * 4 + k] * vb[part * 32 + k * 8 + column])
                    .sum();
                vc[at] + sum
            });
            let name = format!("m8n8k4.{a_layout}.{b_layout}.{c}.f16.f16.{c}");
            check(&name, false, [&fa, &fb, &fc], &want);
        }
    }
}
