//! Kernels from a seed: PTX that nobody wrote, with the same result for every order of its blocks.
//!
//! A kernel is a prologue (who am I), statements, and an epilogue that stores what its variables hold. Statements are
//! drawn: arithmetic, memory, control flow, barriers, calls.
//!
//! Rules:
//! - Free of races by construction: a thread stores only to its own part of `out`; what threads share in shared
//!   memory stands between barriers; atomic operations on one word are all of one commutative kind, and what they
//!   return goes nowhere but into a sum over all threads, which no order changes.
//! - A block waits for the one before it at most, and before any of its threads may leave.
//! - Barriers and warp-wide operations stand only where all threads of the block come by, and never behind an exit
//!   that only some of them take.
//! - Every launched thread adds to a word of its own, so that a block that runs twice shows.
//! - The same seed gives the same bytes on every machine.

mod arithmetic;
mod calls;
mod flow;
mod look_back;
mod maker;
mod memory;
mod sync;
mod text;

use gridmux_workloads::{Arg, Prng, Role};
use maker::Maker;
use std::collections::BTreeSet;

/// Words of the read-only input; a power of two.
const INPUT_WORDS: u32 = 1024;
/// Words of `out` that belong to one thread.
const OWN_WORDS: u32 = 8;
/// Zones of the accumulators, one kind of atomic operation each, and 64-bit words of a zone.
const ZONES: u32 = 12;
const ZONE_WORDS: u32 = 16;

/// A kernel and a launch of it.
#[derive(Debug, Clone)]
pub struct Generated {
    /// The seed it came from.
    pub seed: u64,
    /// The module.
    pub ptx: String,
    /// Name of its kernel.
    pub entry: &'static str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: u32,
    /// Arguments in the order of the parameters.
    pub args: Vec<Arg>,
    /// The features that occur in it.
    pub features: BTreeSet<&'static str>,
}

/// Returns the kernel of a seed.
#[must_use]
pub fn generate(seed: u64) -> Generated {
    generate_on(seed, None)
}

/// Returns the kernel of a seed, on a grid that was chosen for it.
#[must_use]
pub fn generate_on(seed: u64, grid: Option<[u32; 3]>) -> Generated {
    // Neighbouring seeds of the generator give unrelated numbers, but let kernel and data differ.
    let mut dice = Prng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6b65_726e_656c);
    let drawn = draw_grid(&mut dice);
    let grid = grid.unwrap_or(drawn);
    let block = draw_block(&mut dice);
    let mut maker = Maker::new(dice, grid, block);
    maker.make();
    maker.finish(seed)
}

/// Draws a grid; most are flat, as most launches of real programs are.
fn draw_grid(dice: &mut Prng) -> [u32; 3] {
    match dice.below(10) {
        0..=4 => [3 + dice.below(22), 1, 1],
        5..=7 => [1 + dice.below(6), 1 + dice.below(5), 1],
        _ => [1 + dice.below(4), 1 + dice.below(3), 1 + dice.below(3)],
    }
}

fn draw_block(dice: &mut Prng) -> [u32; 3] {
    match dice.below(12) {
        0..=5 => [32 * (1 + dice.below(4)), 1, 1],
        6 => [1 + dice.below(70), 1, 1],
        7 | 8 => [16, 2 + dice.below(6), 1],
        9 => [5 + dice.below(9), 1 + dice.below(5), 1],
        10 => [8, 4, 1 + dice.below(3)],
        _ => [3, 5, 1 + dice.below(4)],
    }
}

/// Returns a buffer of random words.
fn random_words(dice: &mut Prng, words: u32, role: Role) -> Arg {
    let bytes = (0..words).flat_map(|_| dice.next_u32().to_le_bytes());
    Arg::Buffer {
        bytes: bytes.collect(),
        role,
    }
}

#[cfg(test)]
mod tests {
    use super::generate;
    use std::collections::BTreeMap;

    #[test]
    fn a_seed_gives_the_same_kernel_again_and_seeds_differ() {
        let first = generate(1);
        assert_eq!(first.ptx, generate(1).ptx);
        assert_eq!(first.args, generate(1).args);
        assert_ne!(first.ptx, generate(2).ptx);
    }

    #[test]
    fn everything_that_a_kernel_can_hold_occurs_often() {
        let mut counts = BTreeMap::new();
        for seed in 0..400 {
            for feature in generate(seed).features {
                *counts.entry(feature).or_insert(0) += 1;
            }
        }
        println!("{counts:?}");
        for feature in super::maker::FEATURES.split(", ") {
            let count = counts.get(feature).copied().unwrap_or(0);
            assert!(count >= 8, "{feature} occurs in {count} of 400 kernels");
        }
    }
}
