//! Every opcode family against values computed independently: Rust's own integer and IEEE arithmetic at wider
//! precision, over edge values and random ones.
//!
//! Length: every opcode family stands beside its siblings and shares the runner.

#![allow(
    clippy::cast_possible_truncation,
    clippy::precedence,
    clippy::float_cmp,
    reason = "the expected values are exact bit patterns, cut as the instruction cuts them"
)]

mod support;

use gridmux_workloads::Prng;
use support::{Bench, functional};

/// Runs `body` once per element: it reads `%{prefix}1`, `2`, `3` (the inputs) and leaves its result in `%{prefix}0`.
fn run(
    ty: &str,
    prefix: &str,
    out_ty: &str,
    out: &str,
    body: &str,
    inputs: [&[u64]; 3],
) -> Vec<u64> {
    let count = inputs[0].len();
    let bytes = |ty: &str| ty[1..].parse::<usize>().expect("a width") / 8;
    let (width, out_width) = (bytes(ty), bytes(out_ty));
    let ptx = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{{\n\
         .reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b32 %i<8>;\n.reg .f32 %f<8>;\n.reg .f64 %fd<8>;\n\
         .reg .b64 %l<8>;\n.reg .b64 %rd<12>;\n\
         ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u64 %rd3, [c];\nld.param.u64 %rd4, [d];\n\
         mov.u32 %i1, %tid.x;\nmov.u32 %i2, %ctaid.x;\nmad.lo.u32 %i1, %i2, 64, %i1;\n\
         mul.wide.u32 %rd5, %i1, {width};\nmul.wide.u32 %rd6, %i1, {out_width};\n\
         add.u64 %rd1, %rd1, %rd5;\nadd.u64 %rd2, %rd2, %rd5;\nadd.u64 %rd3, %rd3, %rd5;\nadd.u64 %rd4, %rd4, %rd6;\n\
         ld.global.{ty} %{prefix}1, [%rd1];\nld.global.{ty} %{prefix}2, [%rd2];\nld.global.{ty} %{prefix}3, [%rd3];\n\
         {body}\nst.global.{out_ty} [%rd4], %{out}0;\nret;\n}}\n"
    );
    let mut bench = Bench::named("h200");
    let kernel = bench.kernel(&ptx, "k");
    let mut params = Vec::new();
    for values in inputs {
        let mut data: Vec<u8> = values
            .iter()
            .flat_map(|v| v.to_le_bytes()[..width].to_vec())
            .collect();
        data.resize(count.next_multiple_of(64) * width, 0);
        params.extend(bench.buffer(&data).to_le_bytes());
    }
    let result = bench.buffer(&vec![0; count.next_multiple_of(64) * out_width]);
    params.extend(result.to_le_bytes());
    let blocks = u32::try_from(count.div_ceil(64)).expect("few");
    let launch = bench.simple(&kernel, blocks, 64, &params);
    functional(&mut bench, &launch);
    let mut data = vec![0; count * out_width];
    bench
        .gpu
        .memory()
        .read(bench.domain, result, &mut data)
        .expect("inside");
    data.chunks_exact(out_width)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..out_width].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        })
        .collect()
}

/// Triples over edge values, then random ones.
fn triples(edges: &[u64], random: impl Fn(&mut Prng) -> u64) -> [Vec<u64>; 3] {
    let mut prng = Prng::new(7);
    let mut out = [Vec::new(), Vec::new(), Vec::new()];
    let mut push = |values: [u64; 3]| {
        for (list, value) in out.iter_mut().zip(values) {
            list.push(value);
        }
    };
    for a in edges {
        for b in edges {
            push([*a, *b, edges[(*a as usize ^ *b as usize) % edges.len()]]);
        }
    }
    for _ in 0..500 {
        push([random(&mut prng), random(&mut prng), random(&mut prng)]);
    }
    out
}

const EDGES_32: [u64; 9] = [
    0,
    1,
    2,
    31,
    32,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
];
const EDGES_64: [u64; 8] = [
    0,
    1,
    63,
    64,
    0xffff_ffff,
    i64::MAX as u64,
    i64::MIN as u64,
    u64::MAX,
];

fn ints_32() -> [Vec<u64>; 3] {
    triples(&EDGES_32, |p| u64::from(p.next_u32()))
}

fn ints_64() -> [Vec<u64>; 3] {
    triples(&EDGES_64, |p| {
        u64::from(p.next_u32()) << 32 | u64::from(p.next_u32())
    })
}

fn floats_32() -> [Vec<u64>; 3] {
    let edges: Vec<u64> = [
        0.0_f32,
        -0.0,
        1.0,
        -1.0,
        1.5,
        f32::MIN_POSITIVE,
        1e-40,
        -1e-42,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        16_777_217.0,
        0.5,
        2.5,
        -2.5,
    ]
    .iter()
    .map(|v| u64::from(v.to_bits()))
    .collect();
    triples(&edges, |p| {
        let exponent = p.next_u32() % 60 + 97;
        u64::from(p.next_u32() & 0x807f_ffff | exponent << 23)
    })
}

fn floats_64() -> [Vec<u64>; 3] {
    let edges: Vec<u64> = [
        0.0_f64,
        -0.0,
        1.0,
        -3.25,
        f64::MIN_POSITIVE,
        1e-310,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
        1e18,
    ]
    .iter()
    .map(|v| v.to_bits())
    .collect();
    triples(&edges, |p| {
        let exponent = u64::from(p.next_u32() % 120 + 960);
        (u64::from(p.next_u32()) << 32 | u64::from(p.next_u32())) & 0x800f_ffff_ffff_ffff
            | exponent << 52
    })
}

fn check(what: &str, got: &[u64], inputs: &[Vec<u64>; 3], want: impl Fn(u64, u64, u64) -> u64) {
    for (n, got) in got.iter().enumerate() {
        let (a, b, c) = (inputs[0][n], inputs[1][n], inputs[2][n]);
        let want = want(a, b, c);
        assert_eq!(
            *got, want,
            "{what} of {a:#x}, {b:#x}, {c:#x}: {got:#x} instead of {want:#x}"
        );
    }
}

fn slices(v: &[Vec<u64>; 3]) -> [&[u64]; 3] {
    [&v[0], &v[1], &v[2]]
}

fn int_32(body: &str, want: impl Fn(u32, u32, u32) -> u32) {
    let inputs = ints_32();
    let got = run("b32", "r", "b32", "r", body, slices(&inputs));
    check(body, &got, &inputs, |a, b, c| {
        u64::from(want(a as u32, b as u32, c as u32))
    });
}

fn int_64(body: &str, want: impl Fn(u64, u64, u64) -> u64) {
    let inputs = ints_64();
    let got = run("b64", "l", "b64", "l", body, slices(&inputs));
    check(body, &got, &inputs, want);
}

#[test]
fn integer_arithmetic() {
    int_32("add.s32 %r0, %r1, %r2;", |a, b, _| {
        (u64::from(a) + u64::from(b)) as u32
    });
    int_32("sub.s32 %r0, %r1, %r2;", |a, b, _| a.wrapping_sub(b));
    int_32("add.sat.s32 %r0, %r1, %r2;", |a, b, _| {
        (i64::from(a as i32) + i64::from(b as i32)).clamp(i64::from(i32::MIN), i64::from(i32::MAX))
            as u32
    });
    int_32("mul.lo.s32 %r0, %r1, %r2;", |a, b, _| {
        (u64::from(a) * u64::from(b)) as u32
    });
    int_32("mul.hi.s32 %r0, %r1, %r2;", |a, b, _| {
        ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
    });
    int_32("mul.hi.u32 %r0, %r1, %r2;", |a, b, _| {
        ((u64::from(a) * u64::from(b)) >> 32) as u32
    });
    int_32("mad.lo.u32 %r0, %r1, %r2, %r3;", |a, b, c| {
        (u128::from(a) * u128::from(b) + u128::from(c)) as u32
    });
    int_32("mul24.lo.s32 %r0, %r1, %r2;", |a, b, _| {
        let low = |v: u32| i64::from((v << 8) as i32 >> 8);
        (low(a) * low(b)) as u32
    });
    int_32("div.u32 %r0, %r1, %r2;", |a, b, _| {
        a.checked_div(b).unwrap_or(u32::MAX)
    });
    int_32("rem.u32 %r0, %r1, %r2;", |a, b, _| {
        a.checked_rem(b).unwrap_or(u32::MAX)
    });
    int_32("div.s32 %r0, %r1, %r2;", |a, b, _| match b {
        0 => u32::MAX,
        _ => (i64::from(a as i32) / i64::from(b as i32)) as u32,
    });
    int_32("min.s32 %r0, %r1, %r2;", |a, b, _| {
        (a as i32).min(b as i32) as u32
    });
    int_32("max.u32 %r0, %r1, %r2;", |a, b, _| a.max(b));
    int_32("abs.s32 %r0, %r1;", |a, _, _| {
        i64::from(a as i32).unsigned_abs() as u32
    });
    int_32("neg.s32 %r0, %r1;", |a, _, _| (-i64::from(a as i32)) as u32);
    int_32("sad.s32 %r0, %r1, %r2, %r3;", |a, b, c| {
        ((i64::from(a as i32) - i64::from(b as i32)).unsigned_abs() as u32).wrapping_add(c)
    });
    int_64("add.s64 %l0, %l1, %l2;", |a, b, _| {
        (u128::from(a) + u128::from(b)) as u64
    });
    int_64("mul.lo.s64 %l0, %l1, %l2;", |a, b, _| {
        (u128::from(a) * u128::from(b)) as u64
    });
    int_64("mul.hi.s64 %l0, %l1, %l2;", |a, b, _| {
        ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
    });
    int_64("div.s64 %l0, %l1, %l2;", |a, b, _| match b {
        0 => u64::MAX,
        _ => (i128::from(a as i64) / i128::from(b as i64)) as u64,
    });
}

#[test]
fn wide_products() {
    let inputs = ints_32();
    let got = run(
        "b32",
        "r",
        "b64",
        "l",
        "mul.wide.s32 %l0, %r1, %r2;",
        slices(&inputs),
    );
    check("mul.wide.s32", &got, &inputs, |a, b, _| {
        (i128::from(a as u32 as i32) * i128::from(b as u32 as i32)) as u64
    });
    let body = "cvt.u64.u32 %l3, %r3;\nmad.wide.u32 %l0, %r1, %r2, %l3;";
    let got = run("b32", "r", "b64", "l", body, slices(&inputs));
    check("mad.wide.u32", &got, &inputs, |a, b, c| {
        (u128::from(a) * u128::from(b) + u128::from(c)) as u64
    });
}

#[test]
fn bits() {
    int_32("and.b32 %r0, %r1, %r2;", |a, b, _| a & b);
    int_32("not.b32 %r0, %r1;", |a, _, _| !a);
    int_32("cnot.b32 %r0, %r1;", |a, _, _| u32::from(a == 0));
    int_32(
        "shl.b32 %r0, %r1, %r2;",
        |a, b, _| if b > 31 { 0 } else { a << b },
    );
    int_32(
        "shr.u32 %r0, %r1, %r2;",
        |a, b, _| if b > 31 { 0 } else { a >> b },
    );
    int_32("shr.s32 %r0, %r1, %r2;", |a, b, _| {
        (i64::from(a as i32) >> b.min(63)) as u32
    });
    int_32("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
        ((u64::from(b) << 32 | u64::from(a)) << (c % 32) >> 32) as u32
    });
    int_32("shf.r.clamp.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
        ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32
    });
    int_32("popc.b32 %r0, %r1;", |a, _, _| {
        (0..32).filter(|n| a >> n & 1 == 1).count() as u32
    });
    int_32("clz.b32 %r0, %r1;", |a, _, _| {
        (0..32).take_while(|n| a >> (31 - n) & 1 == 0).count() as u32
    });
    int_32("brev.b32 %r0, %r1;", |a, _, _| {
        (0..32).fold(0, |r, n| r << 1 | a >> n & 1)
    });
    int_32("bfind.u32 %r0, %r1;", |a, _, _| {
        (0..32).rev().find(|n| a >> n & 1 == 1).unwrap_or(u32::MAX)
    });
    int_32("bfind.s32 %r0, %r1;", |a, _, _| {
        let a = if (a as i32) < 0 { !a } else { a };
        (0..32).rev().find(|n| a >> n & 1 == 1).unwrap_or(u32::MAX)
    });
    // The ISA's own pseudo-code for bfe and bfi, bit by bit.
    let bfe = |signed: bool| {
        move |a: u32, b: u32, c: u32| {
            let (pos, len) = (b & 0xff, c & 0xff);
            let sign = match len {
                0 => 0,
                _ if !signed => 0,
                _ => a >> (pos + len - 1).min(31) & 1,
            };
            (0..32).fold(0, |d, n| {
                let inside = n < len && pos + n <= 31;
                d | (if inside { a >> (pos + n) & 1 } else { sign }) << n
            })
        }
    };
    int_32("bfe.u32 %r0, %r1, %r2, %r3;", bfe(false));
    int_32("bfe.s32 %r0, %r1, %r2, %r3;", bfe(true));
    int_32("bfi.b32 %r0, %r1, %r2, %r3, 7;", |a, b, c| {
        let pos = c & 0xff;
        (0..7).fold(b, |f, n| match pos + n {
            at if at <= 31 => f & !(1 << at) | (a >> n & 1) << at,
            _ => f,
        })
    });
    int_32("lop3.b32 %r0, %r1, %r2, %r3, 0xe8;", |a, b, c| {
        a & b | a & c | b & c
    });
    int_32("prmt.b32 %r0, %r1, %r2, 0x5410;", |a, b, _| {
        a & 0xffff | b << 16
    });
    int_64("xor.b64 %l0, %l1, %l2;", |a, b, _| a ^ b);
    int_64(
        "cvt.u32.u64 %r1, %l2;\nshr.s64 %l0, %l1, %r1;",
        |a, b, _| (i128::from(a as i64) >> (b as u32).min(127)) as u64,
    );
}

/// Equal, both NaN counting as equal.
fn same_f32(got: u64, want: f32) -> bool {
    let got = f32::from_bits(got as u32);
    got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan())
}

fn float_32(body: &str, want: impl Fn(f32, f32, f32) -> f32) {
    let inputs = floats_32();
    let got = run("b32", "f", "b32", "f", body, slices(&inputs));
    for (n, got) in got.iter().enumerate() {
        let [a, b, c] = [0, 1, 2].map(|k| f32::from_bits(inputs[k][n] as u32));
        let want = want(a, b, c);
        assert!(
            same_f32(*got, want),
            "{body} of {a:e}, {b:e}, {c:e}: {:e} instead of {want:e}",
            f32::from_bits(*got as u32)
        );
    }
}

fn ftz(v: f32) -> f32 {
    if v.is_subnormal() {
        0.0_f32.copysign(v)
    } else {
        v
    }
}

#[test]
fn single_precision() {
    // A double holds the exact product of two singles, and rounds a sum of two harmlessly (53 > 2 * 24 + 1 bits).
    float_32("add.rn.f32 %f0, %f1, %f2;", |a, b, _| {
        (f64::from(a) + f64::from(b)) as f32
    });
    float_32("sub.f32 %f0, %f1, %f2;", |a, b, _| {
        (f64::from(a) - f64::from(b)) as f32
    });
    float_32("mul.f32 %f0, %f1, %f2;", |a, b, _| {
        (f64::from(a) * f64::from(b)) as f32
    });
    float_32("mul.ftz.f32 %f0, %f1, %f2;", |a, b, _| {
        ftz((f64::from(ftz(a)) * f64::from(ftz(b))) as f32)
    });
    float_32("add.sat.f32 %f0, %f1, %f2;", |a, b, _| {
        let sum = f64::from(a) + f64::from(b);
        if sum.is_nan() {
            0.0
        } else {
            sum.clamp(0.0, 1.0) as f32 + 0.0
        }
    });
    float_32("fma.rn.f32 %f0, %f1, %f2, %f3;", f32::mul_add);
    float_32("div.rn.f32 %f0, %f1, %f2;", |a, b, _| {
        (f64::from(a) / f64::from(b)) as f32
    });
    float_32("sqrt.rn.f32 %f0, %f1;", |a, _, _| {
        f64::from(a).sqrt() as f32
    });
    float_32("rcp.rn.f32 %f0, %f1;", |a, _, _| {
        (1.0 / f64::from(a)) as f32
    });
    float_32("abs.f32 %f0, %f1;", |a, _, _| {
        f32::from_bits(a.to_bits() & 0x7fff_ffff)
    });
    float_32("neg.f32 %f0, %f1;", |a, _, _| {
        f32::from_bits(a.to_bits() ^ 0x8000_0000)
    });
    float_32("copysign.f32 %f0, %f1, %f2;", |a, b, _| {
        f32::from_bits(b.to_bits() & 0x7fff_ffff | a.to_bits() & 0x8000_0000)
    });
    let pick = |a: f32, b: f32, smaller: bool| match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() == smaller {
                a
            } else {
                b
            }
        }
        _ => {
            if (a < b) == smaller {
                a
            } else {
                b
            }
        }
    };
    float_32("min.f32 %f0, %f1, %f2;", |a, b, _| pick(a, b, true));
    float_32("max.f32 %f0, %f1, %f2;", |a, b, _| pick(a, b, false));
}

#[test]
fn double_precision() {
    let run_64 = |body: &str, want: &dyn Fn(f64, f64, f64) -> f64| {
        let inputs = floats_64();
        let got = run("b64", "fd", "b64", "fd", body, slices(&inputs));
        for (n, got) in got.iter().enumerate() {
            let [a, b, c] = [0, 1, 2].map(|k| f64::from_bits(inputs[k][n]));
            let (got, want) = (f64::from_bits(*got), want(a, b, c));
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(
                same,
                "{body} of {a:e}, {b:e}, {c:e}: {got:e} instead of {want:e}"
            );
        }
    };
    run_64("add.f64 %fd0, %fd1, %fd2;", &|a, b, _| a + b);
    run_64("mul.f64 %fd0, %fd1, %fd2;", &|a, b, _| a * b);
    run_64("fma.rn.f64 %fd0, %fd1, %fd2, %fd3;", &f64::mul_add);
    run_64("div.rn.f64 %fd0, %fd1, %fd2;", &|a, b, _| a / b);
    run_64("sqrt.rn.f64 %fd0, %fd1;", &|a, _, _| a.sqrt());
}

/// Largest error of an approximate function, as a multiple of what the ISA allows.
fn approximation(body: &str, exact: impl Fn(f64) -> f64, allowed: impl Fn(f64, f64) -> f64) {
    let mut prng = Prng::new(3);
    let values: Vec<u64> = (0..4000)
        .map(|_| u64::from(prng.f32_in(-6.0, 6.0).to_bits()))
        .collect();
    let got = run("b32", "f", "b32", "f", body, [&values, &values, &values]);
    for (value, got) in values.iter().zip(got) {
        let a = f64::from(f32::from_bits(*value as u32));
        let (got, want) = (f64::from(f32::from_bits(got as u32)), exact(a));
        if want.is_nan() {
            assert!(got.is_nan(), "{body} of {a}: {got}");
            continue;
        }
        let limit = allowed(a, want);
        assert!(
            (got - want).abs() <= limit,
            "{body} of {a}: {got} instead of {want} ± {limit}"
        );
    }
}

#[test]
fn approximations_stay_inside_the_isa_error() {
    let relative = |bits: i32| move |_: f64, want: f64| want.abs() * 2.0_f64.powi(bits);
    let absolute = |error: f64| move |_: f64, _: f64| error;
    approximation("ex2.approx.f32 %f0, %f1;", f64::exp2, relative(-22));
    approximation(
        "lg2.approx.f32 %f0, %f1;",
        |a| if a < 0.0 { f64::NAN } else { a.log2() },
        |_, want| 2.0_f64.powi(-22) * want.abs().max(1.0),
    );
    approximation(
        "sin.approx.f32 %f0, %f1;",
        f64::sin,
        absolute(2.0_f64.powf(-20.5)),
    );
    approximation(
        "cos.approx.f32 %f0, %f1;",
        f64::cos,
        absolute(2.0_f64.powf(-20.5)),
    );
    approximation("tanh.approx.f32 %f0, %f1;", f64::tanh, relative(-11));
    approximation("rcp.approx.f32 %f0, %f1;", |a| 1.0 / a, relative(-23));
    approximation(
        "abs.f32 %f1, %f1;\nrsqrt.approx.f32 %f0, %f1;",
        |a| 1.0 / a.abs().sqrt(),
        relative(-22),
    );
    approximation(
        "abs.f32 %f1, %f1;\nsqrt.approx.f32 %f0, %f1;",
        |a| a.abs().sqrt(),
        relative(-23),
    );
}

#[test]
fn special_functions_at_the_edges() {
    let at = |body: &str, value: f32| {
        let input = [u64::from(value.to_bits())];
        f32::from_bits(run("b32", "f", "b32", "f", body, [&input, &input, &input])[0] as u32)
    };
    assert_eq!(at("ex2.approx.f32 %f0, %f1;", f32::NEG_INFINITY), 0.0);
    assert_eq!(at("ex2.approx.f32 %f0, %f1;", f32::INFINITY), f32::INFINITY);
    assert!(at("ex2.approx.f32 %f0, %f1;", f32::NAN).is_nan());
    assert_eq!(at("ex2.approx.f32 %f0, %f1;", -140.0), 2.0_f32.powi(-140));
    assert_eq!(at("lg2.approx.f32 %f0, %f1;", 0.0), f32::NEG_INFINITY);
    assert_eq!(at("lg2.approx.f32 %f0, %f1;", f32::INFINITY), f32::INFINITY);
    assert_eq!(at("lg2.approx.f32 %f0, %f1;", 1.0), 0.0);
    assert_eq!(
        at("lg2.approx.f32 %f0, %f1;", 1e-40),
        (1e-40_f32 as f64).log2() as f32
    );
    assert!(at("sin.approx.f32 %f0, %f1;", f32::INFINITY).is_nan());
}

#[test]
fn comparison_and_selection() {
    let select = |compare: &str| format!("{compare} %p1, %r1, %r2;\nselp.b32 %r0, %r1, %r3, %p1;");
    int_32(&select("setp.lt.s32"), |a, b, c| {
        if (a as i32) < b as i32 { a } else { c }
    });
    int_32(&select("setp.lo.u32"), |a, b, c| if a < b { a } else { c });
    int_32(&select("setp.ne.b32"), |a, b, c| if a == b { c } else { a });
    int_32(
        "setp.gt.s32 %p2, %r3, 0;\nsetp.ge.and.u32 %p1|%p3, %r1, %r2, !%p2;\nselp.u32 %r4, 1, 0, %p1;\nselp.u32 %r5, 2, 0, %p3;\nor.b32 %r0, %r4, %r5;",
        |a, b, c| {
            let third = (c as i32) <= 0;
            u32::from(a >= b && third) + 2 * u32::from(a < b && third)
        },
    );
    int_32("set.le.u32.s32 %r0, %r1, %r2;", |a, b, _| {
        if a as i32 <= b as i32 { u32::MAX } else { 0 }
    });
    int_32("slct.b32.s32 %r0, %r1, %r2, %r3;", |a, b, c| {
        if (c as i32) < 0 { b } else { a }
    });
    let float = |compare: &str| {
        format!("{compare} %p1, %f1, %f2;\nselp.f32 %f0, 0f3F800000, 0f00000000, %p1;")
    };
    let yes = |b: bool| if b { 1.0 } else { 0.0 };
    float_32(&float("setp.lt.f32"), |a, b, _| yes(a < b));
    float_32(&float("setp.ltu.f32"), |a, b, _| {
        yes(a < b || a.is_nan() || b.is_nan())
    });
    float_32(&float("setp.ne.f32"), |a, b, _| {
        yes(!a.is_nan() && !b.is_nan() && a != b)
    });
    float_32(&float("setp.neu.f32"), |a, b, _| yes(a != b));
    float_32(&float("setp.num.f32"), |a, b, _| {
        yes(!a.is_nan() && !b.is_nan())
    });
    float_32(&float("setp.nan.f32"), |a, b, _| {
        yes(a.is_nan() || b.is_nan())
    });
    int_32(
        "setp.lt.u32 %p1, %r1, %r2;\nsetp.lt.u32 %p2, %r2, %r3;\nxor.pred %p3, %p1, %p2;\nnot.pred %p3, %p3;\nmov.pred %p4, %p3;\nselp.u32 %r0, 1, 0, %p4;",
        |a, b, c| u32::from((a < b) == (b < c)),
    );
}

#[test]
fn conversions() {
    let inputs = floats_32();
    let to_int = |body: &str, want: &dyn Fn(f64) -> i64| {
        let got = run("b32", "f", "b32", "r", body, slices(&inputs));
        for (n, got) in got.iter().enumerate() {
            let a = f64::from(f32::from_bits(inputs[0][n] as u32));
            let want = if a.is_nan() { 0 } else { want(a) };
            assert_eq!(*got as u32, want as u32, "{body} of {a}");
        }
    };
    let (low, high) = (f64::from(i32::MIN), f64::from(i32::MAX));
    to_int("cvt.rzi.s32.f32 %r0, %f1;", &|a| {
        a.trunc().clamp(low, high) as i64
    });
    to_int("cvt.rni.s32.f32 %r0, %f1;", &|a| {
        a.round_ties_even().clamp(low, high) as i64
    });
    to_int("cvt.rmi.s32.f32 %r0, %f1;", &|a| {
        a.floor().clamp(low, high) as i64
    });
    to_int("cvt.rpi.u32.f32 %r0, %f1;", &|a| {
        a.ceil().clamp(0.0, f64::from(u32::MAX)) as i64
    });
    int_32("cvt.rn.f32.s32 %f1, %r1;\nmov.b32 %r0, %f1;", |a, _, _| {
        (f64::from(a as i32) as f32).to_bits()
    });
    int_32("cvt.rz.f32.u32 %f1, %r1;\nmov.b32 %r0, %f1;", |a, _, _| {
        // Toward zero: the 24 leading bits.
        let spare = 8_u32.saturating_sub(a.leading_zeros());
        ((a >> spare << spare) as f32).to_bits()
    });
    int_32("cvt.u16.u32 %h1, %r1;\ncvt.s32.s16 %r0, %h1;", |a, _, _| {
        i32::from(a as u16 as i16) as u32
    });
    int_32("cvt.s32.s8 %r0, %r1;", |a, _, _| {
        i32::from(a as u8 as i8) as u32
    });
    int_32("cvt.sat.u8.s32 %r0, %r1;", |a, _, _| {
        (a as i32).clamp(0, 255) as u32
    });
    int_32(
        "cvt.s64.s32 %l1, %r1;\nshr.u64 %l1, %l1, 16;\ncvt.u32.u64 %r0, %l1;",
        |a, _, _| (i64::from(a as i32) >> 16) as u32,
    );
    float_32(
        "cvt.f64.f32 %fd1, %f1;\nmul.f64 %fd1, %fd1, 0d3FF0000000000000;\ncvt.rn.f32.f64 %f0, %fd1;",
        |a, _, _| a,
    );
    float_32("cvt.rni.f32.f32 %f0, %f1;", |a, _, _| {
        f64::from(a).round_ties_even() as f32
    });
    int_32(
        "mov.b64 %l1, {%r1, %r2};\nmov.b64 {%r4, %r5}, %l1;\nsub.u32 %r0, %r5, %r4;",
        |a, b, _| b.wrapping_sub(a),
    );
}

#[test]
fn data_across_lanes() {
    let values: Vec<u64> = (0..64).map(|n| n * 3 + 1).collect();
    let lane_of = |n: usize| n % 32;
    let cases: [(&str, &dyn Fn(usize) -> u64); 6] = [
        ("shfl.sync.down.b32 %r0, %r1, 4, 31, -1;", &|n| {
            values[if lane_of(n) + 4 > 31 { n } else { n + 4 }]
        }),
        ("shfl.sync.up.b32 %r0, %r1, 3, 0, -1;", &|n| {
            values[if lane_of(n) < 3 { n } else { n - 3 }]
        }),
        ("shfl.sync.bfly.b32 %r0, %r1, 5, 31, -1;", &|n| {
            values[n ^ 5]
        }),
        ("shfl.sync.idx.b32 %r0, %r1, 2, 0x181f, -1;", &|n| {
            values[n / 8 * 8 + 2]
        }),
        (
            "and.b32 %r4, %r1, 1;\nsetp.eq.u32 %p1, %r4, 1;\nvote.sync.ballot.b32 %r0, %p1, -1;",
            &|n| {
                (0..32)
                    .filter(|k| values[n / 32 * 32 + k] & 1 == 1)
                    .fold(0, |m, k| m | 1 << k)
            },
        ),
        ("redux.sync.add.u32 %r0, %r1, -1;", &|n| {
            values[n / 32 * 32..n / 32 * 32 + 32].iter().sum()
        }),
    ];
    for (body, want) in cases {
        let got = run("b32", "r", "b32", "r", body, [&values, &values, &values]);
        for (n, got) in got.iter().enumerate() {
            assert_eq!(*got, want(n), "{body} in lane {n}");
        }
    }
}

#[test]
fn special_registers() {
    let zeros = vec![0; 192];
    let body = "mov.u32 %r4, %laneid;\nmov.u32 %r5, %nctaid.x;\nmov.u32 %r6, %ntid.x;\nmad.lo.u32 %r0, %r5, 10000, %r6;\n\
                mad.lo.u32 %r0, %r4, 100, %r0;";
    let got = run("b32", "r", "b32", "r", body, [&zeros, &zeros, &zeros]);
    for (n, got) in got.iter().enumerate() {
        assert_eq!(*got, 3 * 10_000 + 64 + n as u64 % 32 * 100);
    }
}

/// The other tests of this file again, in a process of their own for each lower level of vector instructions.
#[test]
fn every_level_of_vector_instructions_passes() {
    if std::env::var_os("GRIDMUX_MODEL_ISA").is_some() {
        return;
    }
    for level in ["baseline", "avx2"] {
        let this = std::env::current_exe().expect("a test runs from a file");
        let output = std::process::Command::new(this)
            .env("GRIDMUX_MODEL_ISA", level)
            .output()
            .expect("this very program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{level}: {text}");
        assert!(
            text.contains("12 passed"),
            "{level} ran something else: {text}"
        );
    }
}
