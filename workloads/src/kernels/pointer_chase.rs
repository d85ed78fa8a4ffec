//! Latency: eight chains of dependent loads around one random ring, one thread per block. Exact.
//!
//! One lane of each warp works, so an instruction here costs the model what thirty-two cost elsewhere; the sizes are
//! that much smaller in thread instructions.

use super::input;
use crate::case::{Arg, Case, Role};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::Expected;
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "pointer_chase",
    summary: "latency: every load waits for the one before",
    class: Class::Memory,
    entry: "pointer_chase",
    ptx: include_str!("../../ptx/pointer_chase.ptx"),
    elements: "links of the ring, 8 bytes each",
    rounds: Some("hops of each chain, rounded up to a multiple of four"),
    limits: Limits::of(1 << 27, 1 << 28),
    sizes: [(1 << 10, 500), (1 << 16, 10_000), (1 << 23, 200_000)],
    build,
};

const CHAINS: u32 = 8;
const LINK_BYTES: u64 = 8;

fn build(params: Params) -> Case {
    let order = order(&params);
    let mut links = vec![0; order.len() * 8];
    for (k, &from) in order.iter().enumerate() {
        let to = order[(k + 1) % order.len()];
        let at = from as usize * 8;
        links[at..at + 8].copy_from_slice(&(u64::from(to) * LINK_BYTES).to_le_bytes());
    }
    let cursor = offsets_after(&order, 0);
    WORKLOAD.launch(
        params,
        [CHAINS, 1, 1],
        [1, 1, 1],
        vec![
            input(links),
            Arg::Buffer {
                bytes: cursor.into_iter().flat_map(u64::to_le_bytes).collect(),
                role: Role::InOut,
            },
            Arg::U32(hops(&params)),
        ],
        reference,
    )
}

/// Returns the kernel follows four links in each iteration of its loop.
const fn hops(params: &Params) -> u32 {
    params.rounds.next_multiple_of(4)
}

/// Returns the links in the order in which the ring visits them: a Fisher-Yates shuffle.
fn order(params: &Params) -> Vec<u32> {
    let mut prng = Prng::new(params.seed);
    let mut order: Vec<u32> = (0..params.elements).collect();
    for last in (1..params.elements).rev() {
        order.swap(last as usize, prng.below(last + 1) as usize);
    }
    order
}

/// Returns where the chains, which start evenly spaced along the ring, stand after `hops` hops: found by position in
/// the ring, without following links.
fn offsets_after(order: &[u32], hops: u32) -> Vec<u64> {
    let spacing = order.len() / CHAINS as usize;
    (0..CHAINS as usize)
        .map(|chain| (chain * spacing + hops as usize) % order.len())
        .map(|position| u64::from(order[position]) * LINK_BYTES)
        .collect()
}

fn reference(params: &Params, _: &[Arg]) -> Vec<Expected> {
    vec![Expected::U64(offsets_after(&order(params), hops(params)))]
}
