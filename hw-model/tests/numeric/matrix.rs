//! Tensor cores: every shape and type of mma and wmma, ldmatrix, stmatrix, movmatrix, against products of matrices in
//! exact integers or doubles (PTX ISA sections 9.7.14 and 9.7.15).
//!
//! `mma` fragments are dealt here by the ISA's formulas, written per shape as the ISA writes them; `wmma` goes from
//! memory to memory, so that only the matrices matter. Inputs are small enough for every order of summation to give
//! the same bits.
//! Length: one formula a shape, as the ISA has one figure a shape.

use crate::support::opcode::report;
use crate::support::{Bench, functional};
use gridmux_workloads::Prng;

/// Runs one warp with `buffers` as 64-bit parameters and gives the last one back.
fn run(ptx: &str, buffers: &[Vec<u8>], dynamic_shared_bytes: u32) -> Vec<u8> {
    let mut bench = Bench::named("h200");
    let kernel = bench
        .try_kernel(ptx, "k")
        .unwrap_or_else(|error| panic!("{error}\n{ptx}"));
    let addresses: Vec<u64> = buffers.iter().map(|bytes| bench.buffer(bytes)).collect();
    let params: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
    let mut launch = bench.simple(&kernel, 1, 32, &params);
    launch.dynamic_shared_bytes = dynamic_shared_bytes;
    functional(&mut bench, &launch);
    let mut out = vec![0; buffers.last().expect("some").len()];
    bench
        .gpu
        .memory()
        .read(bench.domain, *addresses.last().expect("some"), &mut out)
        .expect("inside");
    out
}

fn header(params: usize) -> String {
    let names: Vec<String> = (0..params).map(|n| format!(".param .u64 p{n}")).collect();
    format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k({})\n{{\n.reg .b32 %r<64>;\n.reg .b64 %rd<16>;\n\
         .reg .f64 %fd<32>;\nmov.u32 %r60, %tid.x;\n",
        names.join(", ")
    )
}

/// An element type: its bits, and an integer as its pattern.
fn encode(ty: &str, v: i64) -> u64 {
    let v64 = v as f64;
    match ty {
        "f16" => u64::from(half_bits(v64)),
        "bf16" => u64::from((v64 as f32).to_bits() >> 16),
        "tf32" | "f32" => u64::from((v64 as f32).to_bits()),
        "f64" => v64.to_bits(),
        "e4m3" => small_bits(v64, 3, 7),
        "e5m2" => small_bits(v64, 2, 15),
        _ => v as u64 & (u64::MAX >> (64 - bits(ty))),
    }
}

/// A small integer in a format of `fraction` bits and this bias.
fn small_bits(v: f64, fraction: i32, bias: i32) -> u64 {
    if v == 0.0 {
        return 0;
    }
    let exponent = v.abs().log2().floor() as i32;
    let significand = (v.abs() / 2.0_f64.powi(exponent - fraction)) as u64;
    let field = (exponent + bias) as u64;
    let sign = u64::from(v < 0.0) << (fraction + if fraction == 3 { 4 } else { 5 });
    sign | (field << fraction) | (significand - (1 << fraction))
}

fn half_bits(v: f64) -> u16 {
    if v == 0.0 {
        return 0;
    }
    let exponent = v.abs().log2().floor() as i32;
    let significand = (v.abs() / 2.0_f64.powi(exponent - 10)) as u16;
    u16::from(v < 0.0) << 15 | ((exponent + 15) as u16) << 10 | (significand - (1 << 10))
}

fn bits(ty: &str) -> u32 {
    match ty {
        "f64" => 64,
        "f16" | "bf16" => 16,
        "u8" | "s8" | "e4m3" | "e5m2" => 8,
        "u4" | "s4" => 4,
        "b1" => 1,
        _ => 32,
    }
}

/// Values that the type holds exactly, small enough for every sum to be exact.
fn values(ty: &str, count: usize, prng: &mut Prng) -> Vec<i64> {
    let (low, high) = match ty {
        "u8" => (0, 256),
        "s8" => (-128, 128),
        "u4" => (0, 16),
        "s4" => (-8, 8),
        "b1" => (0, 2),
        "s32" => (-100_000, 100_000),
        "e5m2" => (-4, 5),
        _ => (-8, 9),
    };
    (0..count)
        .map(|_| low + i64::from(prng.below((high - low) as u32)))
        .collect()
}

/// `mma.m16n8…` and `mma.m8n8…`: row and column of element `i` of a lane.
struct Shape {
    m: usize,
    k: usize,
    a: fn(usize, usize) -> (usize, usize),
    b: fn(usize, usize) -> (usize, usize),
}

fn c_place(lane: usize, i: usize) -> (usize, usize) {
    (
        if i < 2 { lane / 4 } else { lane / 4 + 8 },
        lane % 4 * 2 + (i & 1),
    )
}

fn group(lane: usize) -> usize {
    lane >> 2
}

fn t(lane: usize) -> usize {
    lane % 4
}

const F64_884: Shape = Shape {
    m: 8,
    k: 4,
    a: |l, _| (group(l), t(l)),
    b: |l, _| (t(l), group(l)),
};
const K16: Shape = Shape {
    m: 16,
    k: 16,
    a: |l, i| {
        let row = if i < 2 || (4..6).contains(&i) {
            group(l)
        } else {
            group(l) + 8
        };
        let column = t(l) * 2 + (i & 1) + if i >= 4 { 8 } else { 0 };
        (row, column)
    },
    b: |l, i| (t(l) * 2 + (i & 1) + if i >= 2 { 8 } else { 0 }, group(l)),
};
const K8_HALF: Shape = Shape {
    m: 16,
    k: 8,
    a: |l, i| {
        (
            if i < 2 { group(l) } else { group(l) + 8 },
            t(l) * 2 + (i & 1),
        )
    },
    b: |l, i| (t(l) * 2 + i, group(l)),
};
const K4_WORD: Shape = Shape {
    m: 16,
    k: 4,
    a: |l, i| (group(l) + 8 * i, t(l)),
    b: |l, _| (t(l), group(l)),
};
const K8_WORD: Shape = Shape {
    m: 16,
    k: 8,
    a: |l, i| {
        (
            if i == 0 || i == 2 {
                group(l)
            } else {
                group(l) + 8
            },
            if i < 2 { t(l) } else { t(l) + 4 },
        )
    },
    b: |l, i| (if i == 0 { t(l) } else { t(l) + 4 }, group(l)),
};
const K16_F64: Shape = Shape {
    m: 16,
    k: 16,
    a: |l, i| {
        (
            if i % 2 == 0 { group(l) } else { group(l) + 8 },
            (i >> 1) * 4 + t(l),
        )
    },
    b: |l, i| (4 * i + t(l), group(l)),
};
const S8_8816: Shape = Shape {
    m: 8,
    k: 16,
    a: |l, i| (group(l), t(l) * 4 + i),
    b: |l, i| (t(l) * 4 + i, group(l)),
};
const S8_K16: Shape = Shape {
    m: 16,
    k: 16,
    a: |l, i| {
        (
            if i < 4 { group(l) } else { group(l) + 8 },
            t(l) * 4 + (i & 3),
        )
    },
    b: |l, i| (t(l) * 4 + (i & 3), group(l)),
};
const S8_K32: Shape = Shape {
    m: 16,
    k: 32,
    a: |l, i| {
        let upper = i < 4 || (8..12).contains(&i);
        (
            if upper { group(l) } else { group(l) + 8 },
            t(l) * 4 + (i & 3) + if i < 8 { 0 } else { 16 },
        )
    },
    b: |l, i| (t(l) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, group(l)),
};
const S4_8832: Shape = Shape {
    m: 8,
    k: 32,
    a: |l, i| (group(l), t(l) * 8 + i),
    b: |l, i| (t(l) * 8 + i, group(l)),
};
const S4_K32: Shape = Shape {
    m: 16,
    k: 32,
    a: |l, i| {
        (
            if i < 8 { group(l) } else { group(l) + 8 },
            t(l) * 8 + (i & 7),
        )
    },
    b: |l, i| (t(l) * 8 + i, group(l)),
};
const S4_K64: Shape = Shape {
    m: 16,
    k: 64,
    a: |l, i| {
        let upper = i < 8 || (16..24).contains(&i);
        (
            if upper { group(l) } else { group(l) + 8 },
            t(l) * 8 + (i & 7) + if i < 16 { 0 } else { 32 },
        )
    },
    b: |l, i| (t(l) * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, group(l)),
};
const B1_88128: Shape = Shape {
    m: 8,
    k: 128,
    a: |l, i| (group(l), t(l) * 32 + i),
    b: |l, i| (t(l) * 32 + i, group(l)),
};
const B1_K128: Shape = Shape {
    m: 16,
    k: 128,
    a: |l, i| {
        (
            if i < 32 { group(l) } else { group(l) + 8 },
            t(l) * 32 + (i & 31),
        )
    },
    b: |l, i| (t(l) * 32 + i, group(l)),
};
const B1_K256: Shape = Shape {
    m: 16,
    k: 256,
    a: |l, i| {
        let upper = i < 32 || (64..96).contains(&i);
        (
            if upper { group(l) } else { group(l) + 8 },
            t(l) * 32 + (i & 31) + if i < 64 { 0 } else { 128 },
        )
    },
    b: |l, i| {
        (
            t(l) * 32 + (i & 31) + if i < 32 { 0 } else { 128 },
            group(l),
        )
    },
};

/// A lane's registers: elements packed from the lowest bit on.
fn deal(ty: &str, per_lane: usize, element: impl Fn(usize, usize) -> i64) -> Vec<Vec<u64>> {
    let width = bits(ty) as usize;
    let register = if width == 64 { 64 } else { 32 };
    (0..32)
        .map(|lane| {
            let mut registers = vec![0_u64; (per_lane * width).div_ceil(register)];
            for i in 0..per_lane {
                registers[i * width / register] |=
                    encode(ty, element(lane, i)) << (i * width % register);
            }
            registers
        })
        .collect()
}

/// Loads the registers of an operand from a buffer of lane-major words; gives its PTX.
fn operand(ptx: &mut String, param: usize, registers: usize, wide: bool, first: usize) -> String {
    let (bytes, name, load) = if wide {
        (8, "%fd", "f64")
    } else {
        (4, "%r", "b32")
    };
    *ptx += &format!(
        "ld.param.u64 %rd0, [p{param}];\nmad.wide.u32 %rd0, %r60, {}, %rd0;\n",
        bytes * registers
    );
    let mut names = Vec::new();
    for r in 0..registers {
        *ptx += &format!(
            "ld.global.{load} {name}{}, [%rd0+{}];\n",
            first + r,
            bytes * r
        );
        names.push(format!("{name}{}", first + r));
    }
    format!("{{{}}}", names.join(", "))
}

fn flat(registers: &[Vec<u64>], wide: bool) -> Vec<u8> {
    let word = |v: &u64| v.to_le_bytes()[..if wide { 8 } else { 4 }].to_vec();
    registers.iter().flatten().flat_map(word).collect()
}

/// What one product of bits, or of numbers, adds.
fn product(ty: &str, and: bool, x: i64, y: i64) -> i64 {
    match (ty, and) {
        ("b1", true) => x & y,
        ("b1", false) => x ^ y,
        _ => x * y,
    }
}

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
    let exact: Vec<i64> = (0..m * 8)
        .map(|at| {
            let (row, column) = (at / 8, at % 8);
            let sum: i64 = (0..k)
                .map(|s| {
                    product(
                        a,
                        suffix.contains("and"),
                        va[row * k + s],
                        vb[s * 8 + column],
                    )
                })
                .sum();
            vc[at] + sum
        })
        .collect();
    let want = deal(d, per_lane(m, 8), |l, i| exact[place(l, i)]);
    let wide = a == "f64";
    let mut ptx = header(4);
    let (la, lb, lc) = (
        operand(&mut ptx, 0, fa[0].len(), wide, 0),
        operand(&mut ptx, 1, fb[0].len(), wide, 8),
        operand(&mut ptx, 2, fc[0].len(), wide, 16),
    );
    let ld = operand(&mut ptx, 3, want[0].len(), wide, 24);
    let (bytes, register, store) = if wide {
        (8, "%fd", "f64")
    } else {
        (4, "%r", "b32")
    };
    let body = format!("{name}.{d}.{a}.{b}.{c}{suffix} {ld}, {la}, {lb}, {lc};");
    ptx += &format!(
        "{body}\nld.param.u64 %rd0, [p3];\nmad.wide.u32 %rd0, %r60, {}, %rd0;\n",
        bytes * want[0].len()
    );
    for r in 0..want[0].len() {
        ptx += &format!(
            "st.global.{store} [%rd0+{}], {register}{};\n",
            bytes * r,
            24 + r
        );
    }
    ptx += "ret;\n}\n";
    let want = flat(&want, wide);
    let buffers = [
        flat(&fa, wide),
        flat(&fb, wide),
        flat(&fc, wide),
        vec![0; want.len()],
    ];
    assert_eq!(run(&ptx, &buffers, 0), want, "{body}");
    report(&body);
}

#[test]
fn products_of_floats() {
    let f = "mma.sync.aligned.m16n8";
    for d in ["f16", "f32"] {
        for (k, shape) in [("k8", &K8_HALF), ("k16", &K16)] {
            mma(
                &format!("{f}{k}.row.col"),
                shape,
                [d, "f16", "f16", d],
                "",
                1,
            );
        }
    }
    for (k, shape) in [("k8", &K8_HALF), ("k16", &K16)] {
        mma(
            &format!("{f}{k}.row.col"),
            shape,
            ["f32", "bf16", "bf16", "f32"],
            "",
            2,
        );
    }
    for (k, shape) in [("k4", &K4_WORD), ("k8", &K8_WORD)] {
        mma(
            &format!("{f}{k}.row.col"),
            shape,
            ["f32", "tf32", "tf32", "f32"],
            "",
            3,
        );
    }
    for a in ["e4m3", "e5m2"] {
        for b in ["e4m3", "e5m2"] {
            mma(
                &format!("{f}k32.row.col"),
                &S8_K32,
                ["f32", a, b, "f32"],
                "",
                4,
            );
            mma(
                &format!("{f}k16.row.col"),
                &S8_K16,
                ["f32", a, b, "f32"],
                "",
                5,
            );
        }
    }
    mma(
        "mma.sync.aligned.m8n8k4.row.col",
        &F64_884,
        ["f64"; 4],
        "",
        6,
    );
    for (k, shape) in [("k4", &K4_WORD), ("k8", &K8_WORD), ("k16", &K16_F64)] {
        mma(&format!("{f}{k}.row.col"), shape, ["f64"; 4], "", 7);
    }
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
        for a in types {
            for b in types {
                mma(
                    &format!("mma.sync.aligned.{name}.row.col"),
                    shape,
                    ["s32", a, b, "s32"],
                    "",
                    8,
                );
                mma(
                    &format!("mma.sync.aligned.{name}.row.col.satfinite"),
                    shape,
                    ["s32", a, b, "s32"],
                    "",
                    9,
                );
            }
        }
    }
    for (name, shape) in [
        ("m8n8k128", &B1_88128),
        ("m16n8k128", &B1_K128),
        ("m16n8k256", &B1_K256),
    ] {
        for suffix in [".xor.popc", ".and.popc"] {
            mma(
                &format!("mma.sync.aligned.{name}.row.col"),
                shape,
                ["s32", "b1", "b1", "s32"],
                suffix,
                10,
            );
        }
    }
}

/// `mma.m8n8k4` on f16: four products, by the ISA's formulas for each layout.
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
            let mut ptx = header(4);
            let (la, lb, lc) = (
                operand(&mut ptx, 0, 2, false, 0),
                operand(&mut ptx, 1, 2, false, 8),
                operand(&mut ptx, 2, fc[0].len(), false, 16),
            );
            let ld = operand(&mut ptx, 3, fc[0].len(), false, 24);
            let body = format!(
                "mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{c}.f16.f16.{c} {ld}, {la}, {lb}, {lc};"
            );
            ptx += &format!(
                "{body}\nld.param.u64 %rd0, [p3];\nmad.wide.u32 %rd0, %r60, {}, %rd0;\n",
                4 * fc[0].len()
            );
            for r in 0..fc[0].len() {
                ptx += &format!("st.global.b32 [%rd0+{}], %r{};\n", 4 * r, 24 + r);
            }
            ptx += "ret;\n}\n";
            let want = flat(&want, false);
            let buffers = [
                flat(&fa, false),
                flat(&fb, false),
                flat(&fc, false),
                vec![0; want.len()],
            ];
            assert_eq!(run(&ptx, &buffers, 0), want, "{body}");
            report(&body);
        }
    }
}

/// A matrix in memory, rows or columns one after another with some room between.
fn stored(
    ty: &str,
    v: &[i64],
    rows: usize,
    columns: usize,
    by_columns: bool,
    stride: usize,
) -> Vec<u8> {
    let width = bits(ty) as usize;
    let majors = if by_columns { columns } else { rows };
    let mut out = vec![0_u8; majors * stride * width / 8];
    for row in 0..rows {
        for column in 0..columns {
            let (major, minor) = if by_columns {
                (column, row)
            } else {
                (row, column)
            };
            let at = (major * stride + minor) * width;
            let pattern = encode(ty, v[row * columns + column]);
            if width < 8 {
                out[at / 8] |= (pattern << (at % 8)) as u8;
            } else {
                out[at / 8..at / 8 + width / 8]
                    .copy_from_slice(&pattern.to_le_bytes()[..width / 8]);
            }
        }
    }
    out
}

struct Wmma<'a> {
    shape: &'a str,
    sizes: [usize; 3],
    a: &'a str,
    c: &'a str,
    d: &'a str,
    registers: [usize; 3],
    suffix: &'a str,
}

/// Loads, multiplies and stores; layouts of A, B, C and D.
// Length: one kernel from load to store.
fn wmma(case: &Wmma<'_>, layouts: [&str; 4], seed: u64) {
    let Wmma {
        shape,
        sizes: [m, n, k],
        a,
        c,
        d,
        registers,
        suffix,
    } = *case;
    let mut prng = Prng::new(seed);
    let (va, vb, vc) = (
        values(a, m * k, &mut prng),
        values(a, k * n, &mut prng),
        values(c, m * n, &mut prng),
    );
    let [la, lb, lc, ld] = layouts;
    let stride = |rows: usize, columns: usize, layout: &str, ty: &str| {
        let minor = if layout == "col" { rows } else { columns };
        minor + 128 / bits(ty) as usize
    };
    let strides = [
        stride(m, k, la, a),
        stride(k, n, lb, a),
        stride(m, n, lc, c),
        stride(m, n, ld, d),
    ];
    let exact: Vec<i64> = (0..m * n)
        .map(|at| {
            let sum: i64 = (0..k)
                .map(|s| product(a, false, va[at / n * k + s], vb[s * n + at % n]))
                .sum();
            vc[at] + sum
        })
        .collect();
    let wide = a == "f64";
    let names = |first: usize, count: usize| {
        let name = if wide { "%fd" } else { "%r" };
        let names: Vec<String> = (first..first + count)
            .map(|r| format!("{name}{r}"))
            .collect();
        format!("{{{}}}", names.join(", "))
    };
    let count = |ty: &str| match (ty, wide) {
        ("f16", _) => registers[2].div_ceil(2),
        _ => registers[2],
    };
    let (ra, rb, rc, rd) = (
        names(0, registers[0]),
        names(8, registers[1]),
        names(16, count(c)),
        names(24, count(d)),
    );
    let mut ptx = header(4);
    for n in 0..4 {
        ptx += &format!("ld.param.u64 %rd{n}, [p{n}];\n");
    }
    let types = match a {
        "f16" => format!("{d}.{c}"),
        _ => format!("{d}.{a}.{a}.{c}"),
    };
    let lines = [
        format!(
            "wmma.load.a.sync.aligned.{la}.{shape}.global.{a} {ra}, [%rd0], {};",
            strides[0]
        ),
        format!(
            "wmma.load.b.sync.aligned.{lb}.{shape}.{a} {rb}, [%rd1], {};",
            strides[1]
        ),
        format!(
            "wmma.load.c.sync.aligned.{lc}.{shape}.global.{c} {rc}, [%rd2], {};",
            strides[2]
        ),
        format!(
            "wmma.mma{}.sync.aligned.{la}.{lb}.{shape}.{types}{} {rd}, {ra}, {rb}, {rc};",
            if a == "b1" { ".xor.popc" } else { "" },
            if a == "b1" { "" } else { suffix }
        ),
        format!(
            "wmma.store.d.sync.aligned.{ld}.{shape}.global.{d} [%rd3], {rd}, {};",
            strides[3]
        ),
    ];
    ptx += &lines.join("\n");
    ptx += "\nret;\n}\n";
    let want = stored(d, &exact, m, n, ld == "col", strides[3]);
    let buffers = [
        stored(a, &va, m, k, la == "col", strides[0]),
        stored(a, &vb, k, n, lb == "col", strides[1]),
        stored(c, &vc, m, n, lc == "col", strides[2]),
        vec![0; want.len()],
    ];
    assert_eq!(run(&ptx, &buffers, 0), want, "{ptx}");
    for line in lines {
        report(&line);
    }
}

// Length: a table of the shapes and types.
#[test]
fn warp_matrices() {
    let tall = [
        ("m16n16k16", [16, 16, 16]),
        ("m8n32k16", [8, 32, 16]),
        ("m32n8k16", [32, 8, 16]),
    ];
    let layouts = [
        ["row", "col", "row", "row"],
        ["col", "row", "col", "col"],
        ["row", "row", "row", "col"],
    ];
    for layouts in layouts {
        for (shape, sizes) in tall {
            let per_lane = |rows: usize, columns: usize, per_register: usize| {
                rows * columns / 32 / per_register
            };
            let [m, n, k] = sizes;
            for (c, d) in [
                ("f32", "f32"),
                ("f16", "f16"),
                ("f16", "f32"),
                ("f32", "f16"),
            ] {
                wmma(
                    &Wmma {
                        shape,
                        sizes,
                        a: "f16",
                        c,
                        d,
                        registers: [8, 8, 8],
                        suffix: "",
                    },
                    layouts,
                    21,
                );
            }
            let registers = [per_lane(m, k, 2), per_lane(k, n, 2), 8];
            wmma(
                &Wmma {
                    shape,
                    sizes,
                    a: "bf16",
                    c: "f32",
                    d: "f32",
                    registers,
                    suffix: "",
                },
                layouts,
                22,
            );
            let registers = [per_lane(m, k, 4), per_lane(k, n, 4), 8];
            for a in ["u8", "s8"] {
                for suffix in ["", ".satfinite"] {
                    wmma(
                        &Wmma {
                            shape,
                            sizes,
                            a,
                            c: "s32",
                            d: "s32",
                            registers,
                            suffix,
                        },
                        layouts,
                        23,
                    );
                }
            }
        }
        let sizes = [16, 16, 8];
        wmma(
            &Wmma {
                shape: "m16n16k8",
                sizes,
                a: "tf32",
                c: "f32",
                d: "f32",
                registers: [4, 4, 8],
                suffix: "",
            },
            layouts,
            24,
        );
        wmma(
            &Wmma {
                shape: "m8n8k4",
                sizes: [8, 8, 4],
                a: "f64",
                c: "f64",
                d: "f64",
                registers: [1, 1, 2],
                suffix: "",
            },
            layouts,
            25,
        );
    }
    let layouts = ["row", "col", "row", "col"];
    for a in ["u4", "s4"] {
        wmma(
            &Wmma {
                shape: "m8n8k32",
                sizes: [8, 8, 32],
                a,
                c: "s32",
                d: "s32",
                registers: [1, 1, 2],
                suffix: "",
            },
            layouts,
            26,
        );
    }
    wmma(
        &Wmma {
            shape: "m8n8k128",
            sizes: [8, 8, 128],
            a: "b1",
            c: "s32",
            d: "s32",
            registers: [1, 1, 2],
            suffix: "",
        },
        layouts,
        27,
    );
}

/// Moves matrices of half-words through shared memory and back, rows in shuffled order.
#[test]
fn matrices_of_half_words() {
    for (count, name) in [(1_usize, "x1"), (2, "x2"), (4, "x4")] {
        for trans in ["", ".trans"] {
            let registers: Vec<String> = (0..count).map(|r| format!("%r{r}")).collect();
            let list = format!("{{{}}}", registers.join(", "));
            let load =
                format!("ldmatrix.sync.aligned.m8n8.{name}{trans}.shared.b16 {list}, [%r50];");
            let store =
                format!("stmatrix.sync.aligned.m8n8.{name}{trans}.shared.b16 [%r51], {list};");
            // Lane l gives row l of the matrices, at a row of shared memory that 5 l + 3 names.
            let mut ptx = header(2);
            ptx = ptx.replace(
                ".visible .entry",
                ".extern .shared .align 16 .b8 sh[];\n.visible .entry",
            );
            ptx += "mov.u32 %r52, sh;\nld.param.u64 %rd0, [p0];\nmad.wide.u32 %rd0, %r60, 16, %rd0;\n\
                    ld.global.v4.u32 {%r40, %r41, %r42, %r43}, [%rd0];\n\
                    mad.lo.u32 %r53, %r60, 16, %r52;\nst.shared.v4.u32 [%r53], {%r40, %r41, %r42, %r43};\nbar.sync 0;\n\
                    mad.lo.u32 %r50, %r60, 5, 3;\nand.b32 %r50, %r50, 31;\nmad.lo.u32 %r50, %r50, 16, %r52;\n\
                    mad.lo.u32 %r51, %r60, 16, %r52;\nadd.u32 %r51, %r51, 512;\n";
            ptx += &format!("{load}\n{store}\nbar.sync 0;\nld.param.u64 %rd1, [p1];\n");
            ptx += &format!("mad.wide.u32 %rd2, %r60, {}, %rd1;\n", 4 * count);
            for r in 0..count {
                ptx += &format!("st.global.u32 [%rd2+{}], %r{r};\n", 4 * r);
            }
            ptx += "ld.shared.v4.u32 {%r40, %r41, %r42, %r43}, [%r51];\nmad.wide.u32 %rd2, %r60, 16, %rd1;\n\
                    st.global.v4.u32 [%rd2+1024], {%r40, %r41, %r42, %r43};\nret;\n}\n";
            let words: Vec<u16> = (0..256_u16)
                .map(|n| n.wrapping_mul(257).wrapping_add(3))
                .collect();
            let input: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let out = run(&ptx, &[input, vec![0; 2048]], 1024);
            let half = |row: usize, column: usize| words[(5 * row + 3) % 32 * 8 + column];
            for lane in 0..32 {
                for matrix in 0..count {
                    let at = 4 * (lane * count + matrix);
                    let got = u32::from_le_bytes(out[at..at + 4].try_into().expect("four"));
                    let one = |h: usize| {
                        let (row, column) = (lane / 4, 2 * (lane % 4) + h);
                        let (row, column) = if trans.is_empty() {
                            (row, column)
                        } else {
                            (column, row)
                        };
                        u32::from(half(8 * matrix + row, column))
                    };
                    assert_eq!(
                        got,
                        one(1) << 16 | one(0),
                        "{load} lane {lane} matrix {matrix}"
                    );
                }
            }
            // The store puts back what was loaded, row by row.
            for row in 0..8 * count {
                for column in 0..8 {
                    let at = 1024 + 16 * row + 2 * column;
                    let got = u16::from_le_bytes(out[at..at + 2].try_into().expect("two"));
                    assert_eq!(got, half(row, column), "{store} row {row} column {column}");
                }
            }
            report(&load);
            report(&store);
        }
    }
}

#[test]
fn transposition_in_registers() {
    let body = "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;";
    let mut ptx = header(2);
    ptx += &format!(
        "ld.param.u64 %rd0, [p0];\nld.param.u64 %rd1, [p1];\nmad.wide.u32 %rd0, %r60, 4, %rd0;\nmad.wide.u32 %rd1, %r60, 4, %rd1;\n\
         ld.global.u32 %r0, [%rd0];\n{body}\nst.global.u32 [%rd1], %r1;\nret;\n}}\n"
    );
    let words: Vec<u16> = (0..64_u16).map(|n| n * 1001 + 7).collect();
    let input: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let out = run(&ptx, &[input, vec![0; 128]], 0);
    let want: Vec<u8> = (0..64)
        .flat_map(|at| words[at % 8 * 8 + at / 8].to_le_bytes())
        .collect();
    assert_eq!(out, want);
    report(body);
}
