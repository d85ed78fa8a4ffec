//! Kernels that make one result of many elements.

use super::{
    Kernel, Launch, around, below, doubles, floats, inout, input, near, output, row, values,
};
use crate::case::Arg;
use crate::prng::Prng;
use crate::verify::Expected;

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "block_sum", "block_sum_128", block_sum_128),
    row!("nvcc", "block_sum", "block_sum_256", block_sum_256),
    row!("nvcc", "warp_reduce", "warp_reduce", warp_reduce),
    row!("nvcc", "histogram", "histogram_shared", histogram_shared),
    row!("nvcc", "histogram", "histogram_matched", histogram_matched),
    row!("nvcc", "tiles", "tile_sums", tile_sums),
    row!("nvcc", "tiles", "tile_reduce", tile_reduce),
    row!("nvcc", "dot_product", "dot_double", dot_double),
    row!("nvcc", "dot_product", "dot_kahan", dot_kahan),
    row!("nvcc", "dot_product", "dot_i64", dot_i64),
    row!("nvcc", "last_block", "last_block", last_block),
    row!("nvcc", "cp_async_pipeline", "cp_async_sum", cp_async_sum),
    row!("nvcc", "library_block", "library_max", library_max),
    row!("nvrtc", "reduce_any", "reduce_any", reduce_any),
    row!("clang", "block_sum", "clang_block_sum", clang_block_sum),
    row!("clang", "shuffle", "clang_shuffle", clang_shuffle),
    row!("clang", "atomics", "clang_atomics", clang_atomics),
    row!("triton", "row_sum", "triton_row_sum", triton_row_sum),
    row!("triton", "histogram", "triton_histogram", triton_histogram),
];

const N: usize = 1000;
const N_S32: i32 = 1000;
const N_U32: u32 = 1000;

/// Returns the wrapping sums of runs of `run` words.
fn sums(words: &[u32], run: usize) -> Vec<u32> {
    let sum = |chunk: &[u32]| chunk.iter().rev().fold(0_u32, |s, v| s.wrapping_add(*v));
    words.chunks(run).map(sum).collect()
}

/// Returns how often each number below `bins` occurs.
fn occurrences(numbers: impl Iterator<Item = u32>, bins: usize) -> Vec<u32> {
    let mut found = vec![0; bins];
    numbers.for_each(|n| found[n as usize] += 1);
    found
}

fn block_sum_128(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 31);
    Launch::line(
        8,
        128,
        vec![input(x), output(32), Arg::U32(N_U32)],
        |_, args| vec![Expected::U32(sums(&values(&args[0]), 128))],
    )
}

fn block_sum_256(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 31);
    Launch::line(
        3,
        256,
        vec![input(x), inout([5_u32]), Arg::U32(N_U32)],
        |_, args| {
            vec![Expected::U32(vec![
                sums(&values(&args[0]), N)[0].wrapping_add(5),
            ])]
        },
    )
}

fn warp_reduce(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    let args = vec![
        input(x),
        output(128),
        output(128),
        output(128),
        Arg::S32(N_S32),
    ];
    Launch::line(8, 128, args, |_, args| {
        let mut x = values::<i32>(&args[0]);
        x.resize(1024, 0);
        let warps = || x.chunks(32);
        let sum = |w: &[i32]| w.iter().sum::<i32>().cast_unsigned();
        let maximum = |w: &[i32]| w.iter().max().copied().unwrap_or(0).cast_unsigned();
        let votes = |w: &[i32]| {
            (0..)
                .zip(w)
                .fold(0, |mask, (lane, v)| mask | u32::from(*v > 0) << lane)
        };
        vec![
            Expected::U32(warps().map(sum).collect()),
            Expected::U32(warps().map(maximum).collect()),
            Expected::U32(warps().map(votes).collect()),
        ]
    })
}

fn histogram_shared(prng: &mut Prng) -> Launch {
    let x = super::bytes(prng, 4 * N);
    let args = vec![input(x), inout(vec![1_u32; 256]), Arg::U32(4 * N_U32)];
    Launch::line(4, 128, args, |_, args| {
        let found = occurrences(values::<u8>(&args[0]).into_iter().map(u32::from), 256);
        vec![Expected::U32(found.into_iter().map(|n| n + 1).collect())]
    })
}

fn histogram_matched(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 400);
    let args = vec![input(x), inout(vec![0_u32; 64]), Arg::U32(N_U32)];
    Launch::line(8, 128, args, |_, args| {
        let keys = values::<u32>(&args[0]).into_iter().map(|k| k % 64);
        vec![Expected::U32(occurrences(keys, 64))]
    })
}

fn tile_sums(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    Launch::line(
        8,
        128,
        vec![input(x), output(N / 2), Arg::S32(N_S32)],
        |_, args| vec![Expected::U32(sums(&values(&args[0]), 8))],
    )
}

fn tile_reduce(prng: &mut Prng) -> Launch {
    let x = around(prng, 512, 1 << 20);
    Launch::line(4, 128, vec![input(x), output(64)], |_, args| {
        let x = values::<i32>(&args[0]);
        let each = x
            .chunks(32)
            .map(|w| w.iter().sum::<i32>() ^ w.iter().max().copied().unwrap_or(0));
        vec![Expected::U32(each.map(i32::cast_unsigned).collect())]
    })
}

fn dot_double(prng: &mut Prng) -> Launch {
    let (a, b) = (doubles(prng, N, -1.0, 1.0), doubles(prng, N, -1.0, 1.0));
    let args = vec![input(a), input(b), inout([0.0_f64]), Arg::S32(N_S32)];
    Launch::line(2, 128, args, |_, args| {
        let (a, b) = (values::<f64>(&args[0]), values::<f64>(&args[1]));
        let sum = a.iter().zip(&b).rev().map(|(a, b)| a * b).sum();
        vec![Expected::F64(vec![near(sum, 0.0, 1e-12)])]
    })
}

/// Returns each of 64 threads sums with a correction, so that only the last rounding is left, and one of each product.
fn dot_kahan(prng: &mut Prng) -> Launch {
    let (a, b) = (floats(prng, N, -1.0, 1.0), floats(prng, N, -1.0, 1.0));
    let args = vec![input(a), input(b), output(256), Arg::S32(N_S32)];
    Launch::line(2, 32, args, |_, args| {
        let (a, b) = (values::<f32>(&args[0]), values::<f32>(&args[1]));
        let sum = |thread: usize| {
            let each = (thread..N).step_by(64).map(|i| f64::from(a[i] * b[i]));
            near(each.sum(), 1.3e-7, 1e-7)
        };
        vec![Expected::F32((0..64).map(sum).collect())]
    })
}

fn dot_i64(prng: &mut Prng) -> Launch {
    let (a, b) = (around(prng, N, 1 << 30), around(prng, N, 1 << 30));
    let args = vec![input(a), input(b), inout([0_u64]), Arg::S32(N_S32)];
    Launch::line(3, 64, args, |_, args| {
        let (a, b) = (values::<i32>(&args[0]), values::<i32>(&args[1]));
        let product = |(a, b): (&i32, &i32)| (i64::from(*a) * i64::from(*b)).cast_unsigned();
        let products = a.iter().zip(&b).rev().map(product);
        let sum = products.fold(0, u64::wrapping_add);
        vec![Expected::U64(vec![sum])]
    })
}

fn last_block(prng: &mut Prng) -> Launch {
    let x = doubles(prng, 4 * N, -1.0, 1.0);
    let partial = vec![0.0_f64; 6];
    let args = vec![input(x), inout(partial), output(8), Arg::U32(4 * N_U32)];
    Launch::line(6, 128, args, |_, args| {
        let x = values::<f64>(&args[0]);
        let block = |b: usize| {
            let mine = x.iter().enumerate().filter(|(i, _)| i / 128 % 6 == b);
            near(mine.map(|(_, v)| v).sum(), 0.0, 1e-11)
        };
        let total = near(x.iter().sum(), 0.0, 1e-11);
        vec![
            Expected::F64((0..6).map(block).collect()),
            Expected::F64(vec![total]),
        ]
    })
}

fn cp_async_sum(prng: &mut Prng) -> Launch {
    let tiles = 5;
    let x = floats(prng, 3 * tiles * 512, -1.0, 1.0);
    Launch::line(
        3,
        128,
        vec![input(x), output(3 * 512), Arg::S32(5)],
        |_, args| {
            let x = values::<f32>(&args[0]);
            let thread = |t: usize| {
                let (block, lane) = (t / 128, (t % 128 + 1) % 128);
                let quad = |tile: usize| ((block * 5 + tile) * 128 + lane) * 4;
                let each = (0..5).flat_map(|tile| x[quad(tile)..quad(tile) + 4].iter());
                near(each.map(|v| f64::from(*v)).sum(), 0.0, 1e-5)
            };
            vec![Expected::F32((0..3 * 128).map(thread).collect())]
        },
    )
}

fn library_max(prng: &mut Prng) -> Launch {
    let x = floats(prng, N, -9.0, 9.0);
    Launch::line(
        4,
        256,
        vec![input(x), output(16), Arg::S32(N_S32)],
        |_, args| {
            let x = values::<f32>(&args[0]);
            let best = |c: &[f32]| {
                c.iter()
                    .copied()
                    .fold(f32::NEG_INFINITY, f32::max)
                    .to_bits()
            };
            vec![Expected::U32(x.chunks(256).map(best).collect())]
        },
    )
}

fn reduce_any(prng: &mut Prng) -> Launch {
    let x = super::draws(prng, 4 * 700, Prng::next_u64);
    Launch::line(
        4,
        256,
        vec![input(x), output(32), Arg::S32(700)],
        |_, args| {
            let x = values::<u64>(&args[0]);
            let best = |c: &[u64]| c.iter().max().copied().unwrap_or(0);
            vec![Expected::U64(x.chunks(700).map(best).collect())]
        },
    )
}

fn clang_block_sum(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 31);
    Launch::line(
        8,
        128,
        vec![input(x), output(32), Arg::U32(N_U32)],
        |_, args| vec![Expected::U32(sums(&values(&args[0]), 128))],
    )
}

fn clang_shuffle(prng: &mut Prng) -> Launch {
    let x = below(prng, 1024, 1 << 31);
    Launch::line(8, 128, vec![input(x), output(128)], |_, args| {
        vec![Expected::U32(sums(&values(&args[0]), 32))]
    })
}

fn clang_atomics(prng: &mut Prng) -> Launch {
    let x = below(prng, N, u32::MAX);
    let args = vec![
        input(x),
        inout(vec![0_u32; 8]),
        inout([0_u32]),
        inout([7_u32]),
        Arg::S32(N_S32),
    ];
    Launch::line(8, 128, args, |_, args| {
        let x = values::<u32>(&args[0]);
        vec![
            Expected::U32(occurrences(x.iter().map(|v| v % 8), 8)),
            Expected::U32(vec![x.iter().fold(0, |p, v| p ^ v)]),
            Expected::U32(vec![x.iter().fold(7, |m, v| m.max(*v))]),
        ]
    })
}

fn triton_row_sum(prng: &mut Prng) -> Launch {
    let x = around(prng, 6 * 300, 1 << 20);
    Launch::line(
        6,
        128,
        vec![input(x), output(24), Arg::S32(300)],
        |_, args| vec![Expected::U32(sums(&values(&args[0]), 300))],
    )
    .of_triton()
    .with_shared(4096)
}

fn triton_histogram(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 20);
    let args = vec![input(x), inout(vec![0_u32; 16]), Arg::S32(N_S32)];
    Launch::line(8, 128, args, |_, args| {
        let keys = values::<u32>(&args[0]).into_iter().map(|k| k % 16);
        vec![Expected::U32(occurrences(keys, 16))]
    })
    .of_triton()
}
