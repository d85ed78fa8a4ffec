//! Sorting in blocks, in threads, and a pass of a radix sort.

use super::{Launch, around, below, rows, words};
use crate::case::Arg;
use crate::prng::Prng;

rows! {
    nvcc/bitonic_sort: bitonic_sort;
    nvcc/radix_sort: radix_count, radix_scatter;
    nvcc/library_block: library_sort;
    nvcc/recursion: quicksort_each;
    clang/insertion_sort: clang_insertion_sort;
    triton/sort: triton_sort;
}

/// Returns runs of `run` numbers, each in order.
fn sorted<T: Ord + Clone>(numbers: &[T], run: usize) -> Vec<T> {
    let mut numbers = numbers.to_vec();
    numbers.chunks_mut(run).for_each(<[T]>::sort);
    numbers
}

fn bitonic_sort(prng: &mut Prng) -> Launch {
    let keys = words(prng, 3 * 512);
    Launch::line(3, 256).inout(&keys, sorted(&keys, 512))
}

const SHIFT: u32 = 8;
const BLOCKS: usize = 5;
const N: usize = 1200;

/// Returns how often each digit occurs in each block, digit by digit.
fn digit_counts(keys: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; 16 * BLOCKS];
    for (i, key) in keys.iter().enumerate() {
        counts[(key >> SHIFT & 15) as usize * BLOCKS + i / 256] += 1;
    }
    counts
}

fn radix_count(prng: &mut Prng) -> Launch {
    let keys = words(prng, N);
    Launch::line(5, 256)
        .input(&keys)
        .output(digit_counts(&keys))
        .scalars([Arg::U32(SHIFT)])
        .size(N)
}

/// Makes the case: a pass is a stable sort by the digit.
fn radix_scatter(prng: &mut Prng) -> Launch {
    let keys = words(prng, N);
    let mut before = 0;
    let offsets = digit_counts(&keys).into_iter().map(|n| {
        before += n;
        before - n
    });
    let mut sorted = keys.clone();
    sorted.sort_by_key(|key| key >> SHIFT & 15);
    Launch::line(5, 256)
        .input(&keys)
        .output(sorted)
        .input(offsets)
        .scalars([Arg::U32(SHIFT)])
        .size(N)
}

fn library_sort(prng: &mut Prng) -> Launch {
    let keys = words(prng, 3 * 256);
    Launch::line(3, 64).inout(&keys, sorted(&keys, 256))
}

fn quicksort_each(prng: &mut Prng) -> Launch {
    let keys = around(prng, 100 * 16, 50);
    Launch::line(2, 64)
        .inout(&keys, sorted(&keys, 16))
        .size(100)
}

fn clang_insertion_sort(prng: &mut Prng) -> Launch {
    let keys = below(prng, 100 * 8, 1 << 16).into_iter();
    let keys = keys.map(|key| u16::try_from(key).expect("it is below 2^16"));
    let keys: Vec<i16> = keys.map(u16::cast_signed).collect();
    Launch::line(2, 64).inout(&keys, sorted(&keys, 8)).size(100)
}

fn triton_sort(prng: &mut Prng) -> Launch {
    let keys = around(prng, 5 * 64, 1 << 30);
    Launch::line(5, 64)
        .input(&keys)
        .output(sorted(&keys, 64))
        .of_triton()
        .with_shared(4096)
}
