//! Shared and global atomics: how often each byte value occurs, added to the counts before. Exact in any order.
//!
//! Low values are more frequent: a byte is the lesser of two random ones. The reference counts in 64 bits, value by
//! value of a sorted copy.

use super::{in_out_u32, input, words};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::Expected;
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "histogram",
    summary: "atomics: 256 bins, sixteen copies of them in shared memory, then global ones",
    class: Class::Compute,
    entry: "histogram",
    ptx: include_str!("../../ptx/histogram.ptx"),
    elements: "words of four values",
    rounds: None,
    limits: Limits::of(1 << 28, 0),
    sizes: [(4_200, 0), (40_000, 0), (1_500_000, 0)],
    build,
};

/// `THREADS` and `BINS` of `workloads/cuda/histogram.cu`.
const THREADS: u32 = 128;
const BINS: usize = 256;
const WORDS_PER_THREAD: u32 = 32;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let values = (0..params.elements).flat_map(|_| {
        let [a, b] = [prng.next_u32(), prng.next_u32()].map(u32::to_le_bytes);
        [0, 1, 2, 3].map(|i: usize| a[i].min(b[i]))
    });
    let values = input(values.collect());
    let before: Vec<u32> = (0..BINS).map(|_| prng.next_u32()).collect();
    WORKLOAD.launch(
        params,
        [params.elements.div_ceil(THREADS * WORDS_PER_THREAD), 1, 1],
        [THREADS, 1, 1],
        vec![values, in_out_u32(before), Arg::U32(params.elements)],
        reference,
    )
}

fn reference(_: &Params, args: &[Arg]) -> Vec<Expected> {
    let Arg::Buffer { bytes, .. } = &args[0] else {
        unreachable!("the first argument holds the values");
    };
    let mut sorted = bytes.clone();
    sorted.sort_unstable();
    let mut counts = words(&args[1]);
    for run in sorted.chunk_by(|a, b| a == b) {
        let count = &mut counts[usize::from(run[0])];
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the sum modulo 2^32 is meant"
        )]
        let sum = (u64::from(*count) + run.len() as u64) as u32;
        *count = sum;
    }
    vec![Expected::U32(counts)]
}
