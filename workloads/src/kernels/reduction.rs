//! Global atomics: the sum of integers modulo 2³², added to what `total` held before. Exact in any order.

use super::{input, words};
use crate::case::{Arg, Case, Role};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::Expected;
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "reduction",
    summary: "atomics: warp shuffles, a tree in dynamic shared memory, one atomic per block",
    class: Class::Memory,
    entry: "reduction",
    ptx: include_str!("../../ptx/reduction.ptx"),
    elements: "integers to sum",
    rounds: None,
    limits: Limits::of(1 << 28, 0),
    sizes: [(4_000, 0), (150_000, 0), (3_000_000, 0)],
    build,
};

const THREADS: u32 = 256;
const ELEMENTS_PER_THREAD: u32 = 8;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let values = (0..params.elements)
        .flat_map(|_| prng.next_u32().to_le_bytes())
        .collect();
    Case {
        dynamic_shared_bytes: THREADS / 32 * 4,
        ..WORKLOAD.launch(
            params,
            [
                params.elements.div_ceil(THREADS * ELEMENTS_PER_THREAD),
                1,
                1,
            ],
            [THREADS, 1, 1],
            vec![
                input(values),
                Arg::Buffer {
                    bytes: prng.next_u32().to_le_bytes().to_vec(),
                    role: Role::InOut,
                },
                Arg::U32(params.elements),
            ],
            reference,
        )
    }
}

/// Sums in 64 bits and reduces once.
fn reference(_: &Params, args: &[Arg]) -> Vec<Expected> {
    let before = u64::from(words(&args[1])[0]);
    let sum = words(&args[0]).into_iter().map(u64::from).sum::<u64>() + before;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the sum modulo 2^32 is meant"
    )]
    let total = sum as u32;
    vec![Expected::U32(vec![total])]
}
