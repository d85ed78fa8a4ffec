//! Peak of the floating-point units: eight chains of `v = v * factor + offset` in each thread.
//!
//! The reference is the recurrence's closed form in `f64`, vₖ = fᵏ v₀ + o (1 − fᵏ) / (1 − f). Each step rounds by
//! at most u·1100 and earlier errors shrink by f, so a chain is off by at most u·1100 / (1 − f) = 0.07, and the
//! tolerance is 10⁻⁴ of a sum of eight chains that lies between 3,200 and 8,300 once the first steps are done.

use super::output;
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "fma_loop",
    summary: "peak: independent chains of fused multiply-adds, almost no memory",
    class: Class::Compute,
    entry: "fma_loop",
    ptx: include_str!("../../ptx/fma_loop.ptx"),
    elements: "threads, rounded up to whole blocks",
    rounds: Some("iterations of 64 multiply-adds"),
    limits: Limits::of(1 << 28, 1 << 24),
    sizes: [(256, 3), (2_048, 16), (33_792, 20)],
    build,
};

const THREADS: u32 = 128;
/// `CHAINS` and `STEPS` of `workloads/cuda/fma_loop.cu`.
const CHAINS: u32 = 8;
const STEPS: u32 = 8;
const FACTOR: f32 = 0.999;
const OFFSET: f32 = 0.5;
const RELATIVE_TOLERANCE: f64 = 1e-4;

fn build(params: Params) -> Case {
    let blocks = params.elements.div_ceil(THREADS);
    WORKLOAD.launch(
        params,
        [blocks, 1, 1],
        [THREADS, 1, 1],
        vec![
            output(blocks as usize * THREADS as usize),
            Arg::F32(FACTOR),
            Arg::F32(OFFSET),
            Arg::U32(params.rounds),
        ],
        reference,
    )
}

fn reference(params: &Params, _: &[Arg]) -> Vec<Expected> {
    let (factor, offset) = (f64::from(FACTOR), f64::from(OFFSET));
    let power = factor.powf(f64::from(params.rounds) * f64::from(STEPS));
    let limit = offset * (1.0 - power) / (1.0 - factor);
    let thread = |i: u32| {
        let sum: f64 = (0..CHAINS)
            .map(|chain| f64::from(i % 1024 + chain) * power + limit)
            .sum();
        Bounded::within(sum, RELATIVE_TOLERANCE * sum.abs())
    };
    let threads = params.elements.next_multiple_of(THREADS);
    vec![Expected::F32((0..threads).map(thread).collect())]
}
