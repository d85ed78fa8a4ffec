//! Kernels that make one result of many elements.

use super::{
    Launch, around, below, bytes, double_words, exactly, f32s, f64s, pairwise, reals, rows,
    singles, words_around,
};
use crate::prng::Prng;

rows! {
    nvcc/block_sum: block_sum_128, block_sum_256;
    nvcc/warp_reduce: warp_reduce;
    nvcc/histogram: histogram_shared, histogram_matched;
    nvcc/tiles: tile_sums, tile_reduce;
    nvcc/dot_product: dot_double, dot_kahan, dot_i64;
    nvcc/last_block: last_block;
    nvcc/cp_async_pipeline: cp_async_sum;
    nvcc/library_block: library_max;
    nvrtc/reduce_any: reduce_any;
    clang/block_sum: clang_block_sum;
    clang/shuffle: clang_shuffle;
    clang/atomics: clang_atomics;
    triton/row_sum: triton_row_sum;
    triton/histogram: triton_histogram;
}

const N: usize = 1000;

/// Returns the wrapping sums of runs of `run` words.
fn sums(words: &[u32], run: usize) -> Vec<u32> {
    let sum = |chunk: &[u32]| chunk.iter().fold(0_u32, |s, v| s.wrapping_add(*v));
    words.chunks(run).map(sum).collect()
}

/// Returns how often each number below `bins` occurs, counted from `start`.
fn occurrences(numbers: impl Iterator<Item = u32>, bins: usize, start: u32) -> Vec<u32> {
    let mut found = vec![start; bins];
    numbers.for_each(|n| found[n as usize] += 1);
    found
}

fn block_sum_128(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 31);
    Launch::line(8, 128).input(&x).output(sums(&x, 128)).size(N)
}

fn block_sum_256(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 31);
    let sum = sums(&x, N)[0].wrapping_add(5);
    Launch::line(3, 256)
        .input(&x)
        .inout([5_u32], vec![sum])
        .size(N)
}

fn warp_reduce(prng: &mut Prng) -> Launch {
    let mut x = around(prng, N, 1 << 20);
    let launch = Launch::line(8, 128).input(&x);
    x.resize(1024, 0);
    let warps = || x.chunks(32);
    let sum = |w: &[i32]| w.iter().sum::<i32>();
    let maximum = |w: &[i32]| w.iter().max().copied().unwrap_or(0);
    let vote = |mask, (lane, v): (u32, &i32)| mask | u32::from(*v > 0) << lane;
    let votes = |w: &[i32]| (0..).zip(w).fold(0, vote);
    launch
        .output(exactly(warps().map(sum)))
        .output(exactly(warps().map(maximum)))
        .output(exactly(warps().map(votes)))
        .size(N)
}

fn histogram_shared(prng: &mut Prng) -> Launch {
    let x = bytes(prng, 4 * N);
    let found = occurrences(x.iter().copied().map(u32::from), 256, 1);
    Launch::line(4, 128)
        .input(&x)
        .inout(vec![1_u32; 256], found)
        .size(4 * N)
}

fn histogram_matched(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 400);
    let found = occurrences(x.iter().map(|k| k % 64), 64, 0);
    Launch::line(8, 128)
        .input(&x)
        .inout(vec![0_u32; 64], found)
        .size(N)
}

fn tile_sums(prng: &mut Prng) -> Launch {
    let x = words_around(prng, N, 1 << 20);
    Launch::line(8, 128).input(&x).output(sums(&x, 8)).size(N)
}

fn tile_reduce(prng: &mut Prng) -> Launch {
    let x = around(prng, 512, 1 << 20);
    let each = x
        .chunks(32)
        .map(|w| w.iter().sum::<i32>() ^ w.iter().max().copied().unwrap_or(0));
    Launch::line(4, 128).input(&x).output(exactly(each))
}

fn dot_double(prng: &mut Prng) -> Launch {
    let (a, b) = (reals(prng, N, -1.0, 1.0), reals(prng, N, -1.0, 1.0));
    let sum = a.iter().zip(&b).rev().map(|(a, b)| a * b).sum();
    Launch::line(2, 128)
        .input(&a)
        .input(&b)
        .inout([0.0_f64], f64s([sum], 0.0, 1e-12))
        .size(N)
}

/// Makes the case: each of 64 threads sums with a correction, so that only the last rounding is left, and one of each
/// product.
fn dot_kahan(prng: &mut Prng) -> Launch {
    let (a, b) = (reals(prng, N, -1.0, 1.0), reals(prng, N, -1.0, 1.0));
    let products: Vec<f64> = pairwise(&a, &b, |a, b| a * b).collect();
    let products: Vec<f64> = singles(&products).map(f64::from).collect();
    let sum = |thread: usize| products[thread..].iter().step_by(64).sum();
    Launch::line(2, 32)
        .input(singles(&a))
        .input(singles(&b))
        .output(f32s((0..64).map(sum), 1.3e-7, 1e-7))
        .size(N)
}

fn dot_i64(prng: &mut Prng) -> Launch {
    let (a, b) = (around(prng, N, 1 << 30), around(prng, N, 1 << 30));
    let products = pairwise(&a, &b, |a, b| i64::from(a) * i64::from(b));
    let sum = products.fold(0, i64::wrapping_add);
    Launch::line(3, 64)
        .input(&a)
        .input(&b)
        .inout([0_u64], vec![sum])
        .size(N)
}

fn last_block(prng: &mut Prng) -> Launch {
    let x = reals(prng, 4 * N, -1.0, 1.0);
    let block = |b: usize| -> f64 {
        let mine = x.iter().enumerate().filter(|(i, _)| i / 128 % 6 == b);
        mine.map(|(_, v)| v).sum()
    };
    Launch::line(6, 128)
        .input(&x)
        .inout(vec![0.0_f64; 6], f64s((0..6).map(block), 0.0, 1e-11))
        .output(f64s([x.iter().sum()], 0.0, 1e-11))
        .size(4 * N)
}

fn cp_async_sum(prng: &mut Prng) -> Launch {
    const TILES: usize = 5;
    let x = reals(prng, 3 * TILES * 512, -1.0, 1.0);
    let thread = |t: usize| -> f64 {
        let (block, lane) = (t / 128, (t % 128 + 1) % 128);
        let quad = |tile: usize| ((block * TILES + tile) * 128 + lane) * 4;
        let each = (0..TILES).flat_map(|tile| x[quad(tile)..quad(tile) + 4].iter());
        each.sum()
    };
    Launch::line(3, 128)
        .input(singles(&x))
        .output(f32s((0..3 * 128).map(thread), 0.0, 1e-5))
        .size(TILES)
}

fn library_max(prng: &mut Prng) -> Launch {
    let x: Vec<f32> = singles(&reals(prng, N, -9.0, 9.0)).collect();
    let best = |c: &[f32]| c.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    Launch::line(4, 256)
        .input(&x)
        .output(exactly(x.chunks(256).map(best)))
        .size(N)
}

fn reduce_any(prng: &mut Prng) -> Launch {
    let x = double_words(prng, 4 * 700);
    let best = |c: &[u64]| c.iter().max().copied().unwrap_or(0);
    Launch::line(4, 256)
        .input(&x)
        .output(exactly(x.chunks(700).map(best)))
        .size(700)
}

fn clang_block_sum(prng: &mut Prng) -> Launch {
    block_sum_128(prng)
}

fn clang_shuffle(prng: &mut Prng) -> Launch {
    let x = below(prng, 1024, 1 << 31);
    Launch::line(8, 128).input(&x).output(sums(&x, 32))
}

fn clang_atomics(prng: &mut Prng) -> Launch {
    let x = below(prng, N, u32::MAX);
    let found = occurrences(x.iter().map(|v| v % 8), 8, 0);
    Launch::line(8, 128)
        .input(&x)
        .inout(vec![0_u32; 8], found)
        .inout([0_u32], vec![x.iter().fold(0, |p, v| p ^ v)])
        .inout([7_u32], vec![x.iter().fold(7, |m, v| m.max(*v))])
        .size(N)
}

fn triton_row_sum(prng: &mut Prng) -> Launch {
    let x = words_around(prng, 6 * 300, 1 << 20);
    Launch::line(6, 128)
        .input(&x)
        .output(sums(&x, 300))
        .size(300)
        .of_triton()
        .with_shared(4096)
}

fn triton_histogram(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 20);
    let found = occurrences(x.iter().map(|k| k % 16), 16, 0);
    Launch::line(8, 128)
        .input(&x)
        .inout(vec![0_u32; 16], found)
        .size(N)
        .of_triton()
}
