//! Irregular access and uneven blocks: one level of breadth-first search. Exact.
//!
//! The graph's first sixteenth of nodes has sixteen times as many neighbours as the others, and the frontier is sorted,
//! so that its first blocks last longest. The frontier is the first level of a search from node 0 that holds an eighth
//! of the nodes, or the last one. The reference finds the frontier by its level and marks all that it reaches before it
//! looks whom nobody has seen, where the kernel reads the frontier and claims nodes one by one.

use super::{in_out_u32, input_u32, words};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::Expected;
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "bfs",
    summary: "irregular: a level of breadth-first search, atomic claims; uneven blocks",
    class: Class::Cache,
    entry: "bfs",
    ptx: include_str!("../../ptx/bfs.ptx"),
    elements: "nodes of the graph",
    rounds: Some("most neighbours of an ordinary node"),
    limits: Limits::of(1 << 24, 64),
    sizes: [(500, 6), (25_000, 6), (900_000, 6)],
    build,
};

/// One warp: the fewest threads of which block slots, not threads, limit how many an SM holds.
const THREADS: u32 = 32;
const UNSEEN: u32 = u32::MAX;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let nodes = params.elements;
    let mut starts = vec![0u32];
    let mut neighbours = Vec::new();
    for node in 0..nodes {
        let most = if node < nodes.div_ceil(16) {
            16 * params.rounds
        } else {
            params.rounds
        };
        neighbours.extend((0..prng.below(most + 1)).map(|_| prng.below(nodes)));
        starts.push(u32::try_from(neighbours.len()).expect("the limits keep it below 2^32"));
    }
    let (levels, frontier) = search(&starts, &neighbours);
    let level = levels[frontier[0] as usize] + 1;
    let width = u32::try_from(frontier.len()).expect("as many as nodes at most");
    // A graph without edges still needs a buffer with an address.
    neighbours.resize(neighbours.len().max(1), 0);
    WORKLOAD.launch(
        params,
        [width.div_ceil(THREADS), 1, 1],
        [THREADS, 1, 1],
        vec![
            input_u32(starts),
            input_u32(neighbours),
            input_u32(frontier),
            in_out_u32(levels),
            in_out_u32(vec![0; nodes.div_ceil(32) as usize]),
            in_out_u32([0]),
            Arg::U32(level),
            Arg::U32(width),
        ],
        reference,
    )
}

/// Searches from node 0 until a level holds an eighth of the nodes, and returns the levels so far with that level's
/// nodes in ascending order; of a search that ends before, the last level that holds any.
fn search(starts: &[u32], neighbours: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut levels = vec![UNSEEN; starts.len() - 1];
    levels[0] = 0;
    let mut frontier = vec![0];
    for level in 1.. {
        if frontier.len() * 8 >= levels.len() {
            break;
        }
        let mut next = Vec::new();
        for &node in &frontier {
            let ends = starts[node as usize] as usize..starts[node as usize + 1] as usize;
            for &other in &neighbours[ends] {
                if levels[other as usize] == UNSEEN {
                    levels[other as usize] = level;
                    next.push(other);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        next.sort_unstable();
        frontier = next;
    }
    (levels, frontier)
}

fn reference(_: &Params, args: &[Arg]) -> Vec<Expected> {
    let (starts, neighbours) = (words(&args[0]), words(&args[1]));
    let mut levels = words(&args[3]);
    let Arg::U32(level) = args[6] else {
        unreachable!("argument 6 is the level");
    };
    let mut reached = vec![false; levels.len()];
    for (node, ends) in starts.windows(2).enumerate() {
        if levels[node] == level - 1 {
            for &other in &neighbours[ends[0] as usize..ends[1] as usize] {
                reached[other as usize] = true;
            }
        }
    }
    let mut found = vec![0; levels.len().div_ceil(32)];
    let mut count = 0;
    for (node, levels) in levels.iter_mut().enumerate() {
        if reached[node] && *levels == UNSEEN {
            *levels = level;
            found[node / 32] |= 1 << (node % 32);
            count += 1;
        }
    }
    vec![
        Expected::U32(levels),
        Expected::U32(found),
        Expected::U32(vec![count]),
    ]
}
