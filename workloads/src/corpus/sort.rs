//! Sorting in blocks, in threads, and a pass of a radix sort.

use super::{Kernel, Launch, around, below, draws, inout, input, output, row, values};
use crate::case::Arg;
use crate::prng::Prng;
use crate::verify::Expected;

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "bitonic_sort", "bitonic_sort", bitonic_sort),
    row!("nvcc", "radix_sort", "radix_count", radix_count),
    row!("nvcc", "radix_sort", "radix_scatter", radix_scatter),
    row!("nvcc", "library_block", "library_sort", library_sort),
    row!("nvcc", "recursion", "quicksort_each", quicksort_each),
    row!(
        "clang",
        "insertion_sort",
        "clang_insertion_sort",
        clang_insertion_sort
    ),
    row!("triton", "sort", "triton_sort", triton_sort),
];

/// Runs of `run` numbers, each in order.
fn sorted<T: Ord + Clone>(numbers: &[T], run: usize) -> Vec<T> {
    let mut numbers = numbers.to_vec();
    numbers.chunks_mut(run).for_each(<[T]>::sort);
    numbers
}

fn bitonic_sort(prng: &mut Prng) -> Launch {
    let keys = draws(prng, 3 * 512, Prng::next_u32);
    Launch::line(3, 256, vec![inout(keys)], |_, args| {
        vec![Expected::U32(sorted(&values(&args[0]), 512))]
    })
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
    let keys = draws(prng, N, Prng::next_u32);
    let args = vec![
        input(keys),
        output(64 * BLOCKS),
        Arg::U32(SHIFT),
        Arg::U32(1200),
    ];
    Launch::line(5, 256, args, |_, args| {
        vec![Expected::U32(digit_counts(&values(&args[0])))]
    })
}

/// Makes the case: a pass is a stable sort by the digit.
fn radix_scatter(prng: &mut Prng) -> Launch {
    let keys = draws(prng, N, Prng::next_u32);
    let mut before = 0;
    let offsets = digit_counts(&keys).into_iter().map(|n| {
        before += n;
        before - n
    });
    let offsets: Vec<u32> = offsets.collect();
    let args = vec![
        input(keys),
        output(4 * N),
        input(offsets),
        Arg::U32(SHIFT),
        Arg::U32(1200),
    ];
    Launch::line(5, 256, args, |_, args| {
        let mut keys = values::<u32>(&args[0]);
        keys.sort_by_key(|key| key >> SHIFT & 15);
        vec![Expected::U32(keys)]
    })
}

fn library_sort(prng: &mut Prng) -> Launch {
    let keys = draws(prng, 3 * 256, Prng::next_u32);
    Launch::line(3, 64, vec![inout(keys)], |_, args| {
        vec![Expected::U32(sorted(&values(&args[0]), 256))]
    })
}

fn quicksort_each(prng: &mut Prng) -> Launch {
    let keys = around(prng, 100 * 16, 50);
    Launch::line(2, 64, vec![inout(keys), Arg::S32(100)], |_, args| {
        let keys = sorted(&values::<i32>(&args[0]), 16);
        vec![Expected::U32(
            keys.into_iter().map(i32::cast_unsigned).collect(),
        )]
    })
}

fn clang_insertion_sort(prng: &mut Prng) -> Launch {
    let keys = below(prng, 100 * 8, 1 << 16)
        .into_iter()
        .map(|k| k.to_le_bytes());
    let keys: Vec<i16> = keys.map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
    Launch::line(2, 64, vec![inout(keys), Arg::S32(100)], |_, args| {
        let keys = sorted(&values::<i16>(&args[0]), 8);
        vec![Expected::Bytes(
            keys.into_iter().flat_map(i16::to_le_bytes).collect(),
        )]
    })
}

fn triton_sort(prng: &mut Prng) -> Launch {
    let keys = around(prng, 5 * 64, 1 << 30);
    Launch::line(5, 64, vec![input(keys), output(5 * 256)], |_, args| {
        let keys = sorted(&values::<i32>(&args[0]), 64);
        vec![Expected::U32(
            keys.into_iter().map(i32::cast_unsigned).collect(),
        )]
    })
    .of_triton()
    .with_shared(4096)
}
