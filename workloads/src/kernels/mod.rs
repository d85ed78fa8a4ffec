//! One file per kernel, each with the same three parts: `WORKLOAD` (its row in the table), `build` (inputs and launch
//! dimensions) and `reference` (what the outputs must be).

mod black_scholes;
mod fma_loop;
mod matmul;
mod pointer_chase;
mod reduction;
mod spmv;
mod stencil3d;
mod vecadd;

use crate::case::{Arg, Role};
use crate::prng::Prng;
use crate::workload::Workload;

/// Every workload, in the order in which tables show them.
pub(crate) static ALL: [Workload; 8] = [
    vecadd::WORKLOAD,
    matmul::WORKLOAD,
    black_scholes::WORKLOAD,
    stencil3d::WORKLOAD,
    reduction::WORKLOAD,
    spmv::WORKLOAD,
    fma_loop::WORKLOAD,
    pointer_chase::WORKLOAD,
];

/// Unit roundoff of single precision: the relative error of one correctly rounded operation.
const ROUNDOFF: f64 = 1.0 / 16_777_216.0;

/// The bound on the relative error of a sum of `n` products in single precision, whatever its order:
/// γₙ = n u / (1 − n u) (N. Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
fn dot_bound(n: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "dimensions are far below 2^53")]
    let nu = n as f64 * ROUNDOFF;
    nu / (1.0 - nu)
}

/// An input buffer of 32-bit floats drawn from `low..high`.
fn random_f32(prng: &mut Prng, n: usize, low: f32, high: f32) -> Arg {
    input(
        (0..n)
            .flat_map(|_| prng.f32_in(low, high).to_le_bytes())
            .collect(),
    )
}

/// An input buffer with these bytes.
fn input(bytes: Vec<u8>) -> Arg {
    Arg::Buffer {
        bytes,
        role: Role::In,
    }
}

/// An output buffer of `n` 32-bit values. It starts as NaN (all ones), so that a value never written is found.
fn output_f32(n: usize) -> Arg {
    Arg::Buffer {
        bytes: vec![0xff; n * 4],
        role: Role::Out,
    }
}

/// The 32-bit floats of a buffer argument.
fn floats(arg: &Arg) -> Vec<f32> {
    words(arg).into_iter().map(f32::from_bits).collect()
}

/// The 32-bit words of a buffer argument.
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
