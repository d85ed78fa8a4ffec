//! Every opcode family against values computed independently: Rust's own integer and IEEE arithmetic at wider
//! precision, over edge values and random ones.
//!
//! Here: the runner of one body over all inputs, and the inputs. One file per group of families.

#![allow(
    clippy::cast_possible_truncation,
    clippy::precedence,
    clippy::float_cmp,
    reason = "the expected values are exact bit patterns, cut as the instruction cuts them"
)]

#[path = "../support/mod.rs"]
mod support;

mod float;
mod integer;
mod moves;

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
