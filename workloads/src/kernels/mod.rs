//! One file per kernel, each with the same three parts: `WORKLOAD` (its row in the table), `build` (inputs and launch
//! dimensions) and `reference` (what the outputs must be).

mod aes;
mod bfs;
mod black_scholes;
mod cutcp;
mod fma_loop;
mod histogram;
mod hotspot;
mod lbm;
mod matmul;
mod mri_q;
mod nlm;
mod pointer_chase;
mod raytrace;
mod reduction;
mod sad;
mod sha1;
mod spmv;
mod stencil3d;
mod tea;
mod vecadd;

use crate::case::{Arg, Role};
use crate::prng::Prng;
use crate::workload::Workload;

/// Every workload, in the order in which tables show them.
pub(crate) static ALL: [Workload; 20] = [
    vecadd::WORKLOAD,
    matmul::WORKLOAD,
    black_scholes::WORKLOAD,
    stencil3d::WORKLOAD,
    reduction::WORKLOAD,
    spmv::WORKLOAD,
    fma_loop::WORKLOAD,
    pointer_chase::WORKLOAD,
    sad::WORKLOAD,
    tea::WORKLOAD,
    mri_q::WORKLOAD,
    sha1::WORKLOAD,
    aes::WORKLOAD,
    histogram::WORKLOAD,
    lbm::WORKLOAD,
    nlm::WORKLOAD,
    raytrace::WORKLOAD,
    cutcp::WORKLOAD,
    hotspot::WORKLOAD,
    bfs::WORKLOAD,
];

/// Unit roundoff of single precision: the relative error of one correctly rounded operation.
const ROUNDOFF: f64 = 1.0 / 16_777_216.0;

/// Returns the bound on the relative error of a sum of `n` products in single precision, whatever its order:
/// γₙ = n u / (1 − n u) (N. Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
fn dot_bound(n: usize) -> f64 {
    let nu = n as f64 * ROUNDOFF;
    nu / (1.0 - nu)
}

/// Returns an input buffer of 32-bit floats drawn from `low..high`.
fn random_f32(prng: &mut Prng, n: usize, low: f32, high: f32) -> Arg {
    input_f32((0..n).map(|_| prng.f32_in(low, high)))
}

/// Returns an input buffer of `n` random 32-bit words.
fn random_u32(prng: &mut Prng, n: usize) -> Arg {
    input_u32((0..n).map(|_| prng.next_u32()))
}

/// Returns an input buffer with these 32-bit floats.
fn input_f32(values: impl IntoIterator<Item = f32>) -> Arg {
    input_u32(values.into_iter().map(f32::to_bits))
}

/// Returns an input buffer with these 32-bit words.
fn input_u32(words: impl IntoIterator<Item = u32>) -> Arg {
    input(words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// Returns a buffer of these 32-bit words that the kernel reads and writes.
fn in_out_u32(words: impl IntoIterator<Item = u32>) -> Arg {
    Arg::Buffer {
        bytes: words.into_iter().flat_map(u32::to_le_bytes).collect(),
        role: Role::InOut,
    }
}

/// Returns an input buffer with these bytes.
fn input(bytes: Vec<u8>) -> Arg {
    Arg::Buffer {
        bytes,
        role: Role::In,
    }
}

/// Returns an output buffer of `n` 32-bit values. It starts as all ones, which is a NaN, so that a value never written
/// is found.
fn output(n: usize) -> Arg {
    Arg::Buffer {
        bytes: vec![0xff; n * 4],
        role: Role::Out,
    }
}

/// Returns the 32-bit floats of a buffer argument.
fn floats(arg: &Arg) -> Vec<f32> {
    words(arg).into_iter().map(f32::from_bits).collect()
}

/// Returns the 32-bit words of a buffer argument.
fn words(arg: &Arg) -> Vec<u32> {
    let Arg::Buffer { bytes, .. } = arg else {
        unreachable!("a kernel's module asks only for its own buffers");
    };
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| u32::from_le_bytes(*chunk))
        .collect()
}
