//! Integer arithmetic: the Tiny Encryption Algorithm (D. Wheeler, R. Needham, "TEA, a Tiny Encryption Algorithm", 1994)
//! over blocks of 64 bits. Exact.
//!
//! The kernel takes a thread for each block; the reference takes the cycles one after another, each over all blocks.

use super::{output, random_u32, words};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::Expected;
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "tea",
    summary: "integers: block cipher of shifts, additions and exclusive ors; even blocks",
    class: Class::Compute,
    entry: "tea",
    ptx: include_str!("../../ptx/tea.ptx"),
    elements: "cipher blocks of 8 bytes",
    rounds: Some("cycles; the published cipher has 32"),
    limits: Limits::of(1 << 28, 1 << 20),
    sizes: [(300, 8), (1_800, 32), (120_000, 32)],
    build,
};

const THREADS: u32 = 256;
const DELTA: u32 = 0x9e37_79b9;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let plain = random_u32(&mut prng, params.elements as usize * 2);
    let mut args = vec![plain, output(params.elements as usize * 2)];
    args.extend((0..4).map(|_| Arg::U32(prng.next_u32())));
    args.extend([Arg::U32(params.rounds), Arg::U32(params.elements)]);
    WORKLOAD.launch(
        params,
        [params.elements.div_ceil(THREADS), 1, 1],
        [THREADS, 1, 1],
        args,
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let key: Vec<u32> = args[2..6]
        .iter()
        .map(|arg| match arg {
            Arg::U32(word) => *word,
            other => unreachable!("{other:?} is no word of the key"),
        })
        .collect();
    let mut blocks = words(&args[0]);
    for cycle in 1..=params.rounds {
        let sum = DELTA.wrapping_mul(cycle);
        for block in blocks.as_chunks_mut().0 {
            encrypt_cycle(block, &key, sum);
        }
    }
    vec![Expected::U32(blocks)]
}

/// Does one cycle, which is a Feistel round on each half.
fn encrypt_cycle([left, right]: &mut [u32; 2], key: &[u32], sum: u32) {
    *left = left.wrapping_add(mix(*right, key[0], key[1], sum));
    *right = right.wrapping_add(mix(*left, key[2], key[3], sum));
}

fn mix(half: u32, first: u32, second: u32, sum: u32) -> u32 {
    let shifted = (half << 4).wrapping_add(first) ^ (half >> 5).wrapping_add(second);
    shifted ^ half.wrapping_add(sum)
}

#[cfg(test)]
mod tests {
    use super::{DELTA, encrypt_cycle};

    /// Checks the block of zeros under the key of zeros, a test vector that implementations of the cipher share.
    #[test]
    fn known_block() {
        let mut block = [0; 2];
        for cycle in 1..=32 {
            encrypt_cycle(&mut block, &[0; 4], DELTA.wrapping_mul(cycle));
        }
        assert_eq!(block, [0x41ea_3a0a, 0x94ba_a940]);
    }
}
