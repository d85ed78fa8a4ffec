//! Prefix sums, whole and segmented, and what is made with them.

use super::{
    Launch, around, below, exactly, f32s, pairwise, reals, rows, singles, size, words_around,
};
use crate::prng::Prng;
use crate::verify::Expected;

rows! {
    nvcc/scan_block: scan_block;
    nvcc/scan_lookback: scan_lookback;
    nvcc/library_block: library_scan;
    nvcc/prefix_warp: segmented_sum, recurrence;
    nvcc/compaction: compact_warp, compact_block;
    nvcc/tiles: filter_coalesced;
    triton/cumsum: triton_cumsum;
}

const N: usize = 1000;

/// Returns inclusive prefix sums that start again every `run` words.
fn prefixes(words: &[u32], run: usize) -> Vec<u32> {
    let sums = |words: &[u32]| {
        let mut sum = 0_u32;
        let each = words.iter().map(|v| {
            sum = sum.wrapping_add(*v);
            sum
        });
        each.collect::<Vec<_>>()
    };
    words.chunks(run).flat_map(sums).collect()
}

fn scan_block(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 31);
    Launch::line(8, 128)
        .input(&x)
        .output(prefixes(&x, 128))
        .size(N)
        .with_shared(1024)
}

/// Makes the case: the sums stay below 2³⁰, because two bits of a state say what it holds.
fn scan_lookback(prng: &mut Prng) -> Launch {
    const N: usize = 2500;
    let x = below(prng, N, 1 << 16);
    let sums = prefixes(&x, N);
    let last = |tile: usize| sums[(tile * 128 + 127).min(N - 1)] | 2 << 30;
    Launch::line(20, 128)
        .input(&x)
        .output(exactly(&sums))
        .inout(vec![0_u32; 20], exactly((0..20).map(last)))
        .inout([0_u32], vec![20_u32])
        .size(N)
}

fn library_scan(prng: &mut Prng) -> Launch {
    let x = words_around(prng, 3 * 512, 1 << 20);
    let exclusive = pairwise(&prefixes(&x, 512), &x, u32::wrapping_sub).collect::<Vec<_>>();
    Launch::line(3, 128).input(&x).output(exclusive)
}

fn segmented_sum(prng: &mut Prng) -> Launch {
    let x = words_around(prng, N, 1 << 20);
    let heads: Vec<u8> = below(prng, N, 5)
        .iter()
        .map(|d| u8::from(*d == 0))
        .collect();
    let sum = |i: usize| {
        let warp = i - i % 32;
        let first = (warp..=i).rev().find(|&j| heads[j] != 0).unwrap_or(warp);
        x[first..=i].iter().fold(0_u32, |s, v| s.wrapping_add(*v))
    };
    Launch::line(8, 128)
        .input(&x)
        .input(&heads)
        .output(exactly((0..N).map(sum)))
        .size(N)
}

fn recurrence(prng: &mut Prng) -> Launch {
    let (a, b) = (reals(prng, 256, -0.9, 0.9), reals(prng, 256, -1.0, 1.0));
    let mut y = 0.0;
    let each = (0..256).map(|i| {
        let before = if i % 32 == 0 { 0.0 } else { y };
        y = a[i] * before + b[i];
        y
    });
    Launch::line(2, 128)
        .input(singles(&a))
        .input(singles(&b))
        .output(f32s(each, 0.0, 1e-5))
}

/// Makes the case: the positive numbers stand at the front in any order; the rest of the buffer stays as it was.
fn compact_warp(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    let positive = x.iter().filter(|v| **v > 0);
    let mut out: Vec<u32> = positive.map(|v| v.cast_unsigned()).collect();
    let found = size(out.len());
    out.resize(N, u32::MAX);
    Launch::line(8, 128)
        .input(&x)
        .output(Expected::AnyOrder(out))
        .inout([0_u32], vec![found])
        .size(N)
}

fn filter_coalesced(prng: &mut Prng) -> Launch {
    compact_warp(prng)
}

fn compact_block(prng: &mut Prng) -> Launch {
    let x = words_around(prng, 4 * 256, 1 << 20);
    let mut sizes = Vec::new();
    let blocks = x.chunks(256).flat_map(|block| {
        let mut odd: Vec<u32> = block.iter().copied().filter(|v| v % 2 == 1).collect();
        sizes.push(size(odd.len()));
        odd.resize(256, u32::MAX);
        odd
    });
    let out = exactly(blocks);
    Launch::line(4, 256).input(&x).output(out).output(sizes)
}

fn triton_cumsum(prng: &mut Prng) -> Launch {
    let x = words_around(prng, 4 * 256, 1 << 20);
    Launch::line(4, 128)
        .input(&x)
        .output(prefixes(&x, 256))
        .of_triton()
        .with_shared(4096)
}
