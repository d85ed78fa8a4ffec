//! Compute with reuse: `C = A B`, square and row-major, in 16 × 16 tiles.
//!
//! The reference multiplies in `f64`, by rows of `B`. The tolerance of an element is the rounding bound γₙ times
//! Σ |a| |b|, which holds for any order of the sum.

use super::{dot_bound, floats, output, random_f32};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "matmul",
    summary: "compute: tiled matrix product with shared memory and barriers",
    class: Class::Compute,
    entry: "matmul",
    ptx: include_str!("../../ptx/matmul.ptx"),
    elements: "edge of the matrices",
    rounds: None,
    limits: Limits::of(8192, 0),
    sizes: [(24, 0), (72, 0), (200, 0)],
    build,
};

/// Edge of a tile and of the block; it is `TILE` of `workloads/cuda/matmul.cu`.
const TILE: u32 = 16;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let cells = params.elements as usize * params.elements as usize;
    let tiles = params.elements.div_ceil(TILE);
    WORKLOAD.launch(
        params,
        [tiles, tiles, 1],
        [TILE, TILE, 1],
        vec![
            random_f32(&mut prng, cells, -1.0, 1.0),
            random_f32(&mut prng, cells, -1.0, 1.0),
            output(cells),
            Arg::U32(params.elements),
        ],
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let n = params.elements as usize;
    let a = floats(&args[0]);
    let b: Vec<f64> = floats(&args[1]).into_iter().map(f64::from).collect();
    let bound = dot_bound(n);
    let mut product = vec![Bounded::exact(0.0); n * n];
    for (row, out) in product.chunks_exact_mut(n).enumerate() {
        for (k, b_row) in b.chunks_exact(n).enumerate() {
            let factor = f64::from(a[row * n + k]);
            for (cell, &b) in out.iter_mut().zip(b_row) {
                cell.value += factor * b;
                cell.tolerance += (factor * b).abs();
            }
        }
        for cell in out {
            cell.tolerance *= bound;
        }
    }
    vec![Expected::F32(product)]
}
