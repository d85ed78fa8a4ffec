//! Irregular access: `y = M x` for a sparse matrix in compressed rows.
//!
//! One row in eight is up to eight times as long as the mean, the others are short and some are empty, so that lanes
//! diverge. The reference adds in `f64` from each row's end; the tolerance of a row is γ of its length times Σ |v x|.

use super::{dot_bound, floats, input, output, random_f32, words};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "spmv",
    summary: "irregular: sparse matrix-vector product, gathers and divergent loops",
    class: Class::Cache,
    entry: "spmv",
    ptx: include_str!("../../ptx/spmv.ptx"),
    elements: "rows and columns of the matrix",
    rounds: Some("mean entries per row, about"),
    limits: Limits::of(1 << 22, 64),
    sizes: [(500, 8), (18_000, 8), (400_000, 8)],
    build,
};

const THREADS: u32 = 128;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let rows = params.elements;
    let mut starts = vec![0u32];
    let mut columns = Vec::new();
    for _ in 0..rows {
        let longest = if prng.below(8) == 0 {
            8 * params.rounds
        } else {
            params.rounds
        };
        columns.extend((0..prng.below(longest + 1)).map(|_| prng.below(rows)));
        starts.push(u32::try_from(columns.len()).expect("the limits keep the entries below 2^32"));
    }
    let le_bytes = |words: Vec<u32>| words.into_iter().flat_map(u32::to_le_bytes).collect();
    // An empty matrix still needs buffers with an address.
    let entries = columns.len().max(1);
    columns.resize(entries, 0);
    WORKLOAD.launch(
        params,
        [rows.div_ceil(THREADS), 1, 1],
        [THREADS, 1, 1],
        vec![
            input(le_bytes(starts)),
            input(le_bytes(columns)),
            random_f32(&mut prng, entries, -1.0, 1.0),
            random_f32(&mut prng, rows as usize, -1.0, 1.0),
            output(rows as usize),
            Arg::U32(rows),
        ],
        reference,
    )
}

fn reference(_: &Params, args: &[Arg]) -> Vec<Expected> {
    let (starts, columns) = (words(&args[0]), words(&args[1]));
    let (values, x) = (floats(&args[2]), floats(&args[3]));
    let row = |ends: &[u32]| {
        let range = ends[0] as usize..ends[1] as usize;
        let length = range.len();
        let products = range
            .rev()
            .map(|i| f64::from(values[i]) * f64::from(x[columns[i] as usize]));
        let (value, magnitude) = products.fold((0.0, 0.0), |(sum, magnitude), p| {
            (sum + p, magnitude + p.abs())
        });
        Bounded::within(value, dot_bound(length) * magnitude)
    };
    vec![Expected::F32(starts.windows(2).map(row).collect())]
}
