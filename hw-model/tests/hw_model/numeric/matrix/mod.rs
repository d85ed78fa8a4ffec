//! Tensor cores: every shape and type of mma and wmma, ldmatrix, stmatrix, movmatrix, against products of matrices in
//! exact integers or doubles (PTX ISA sections 9.7.14 and 9.7.15).
//!
//! Inputs are small enough for every order of summation to give the same bits. Here: how a kernel of one warp runs, and
//! numbers in each element type's format.

mod fragments;
mod mma;
mod moves;
mod wmma;

use crate::support::{Bench, functional};
use gridmux_workloads::Prng;

/// Runs one warp with `buffers` as 64-bit parameters and gives the last one back.
fn run(ptx: &str, buffers: &[Vec<u8>], dynamic_shared_bytes: u32) -> Vec<u8> {
    let mut bench = Bench::small();
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
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k({})\n{{\n.reg .b32 %r<64>;\n\
         .reg .b64 %rd<16>;\n\
         .reg .f64 %fd<32>;\nmov.u32 %r60, %tid.x;\n",
        names.join(", ")
    )
}

/// Returns an element type: its bits, and an integer as its pattern.
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

/// Returns a small integer in a format of `fraction` bits and this bias.
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

/// Returns what one product of bits, or of numbers, adds.
fn product(ty: &str, and: bool, x: i64, y: i64) -> i64 {
    match (ty, and) {
        ("b1", true) => x & y,
        ("b1", false) => x ^ y,
        _ => x * y,
    }
}
