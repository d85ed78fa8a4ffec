//! Prefix sums, whole and segmented, and what is made with them.

use super::{Kernel, Launch, around, below, floats, inout, input, near, output, row, values};
use crate::case::Arg;
use crate::prng::Prng;
use crate::verify::Expected;

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "scan_block", "scan_block", scan_block),
    row!("nvcc", "scan_lookback", "scan_lookback", scan_lookback),
    row!("nvcc", "library_block", "library_scan", library_scan),
    row!("nvcc", "prefix_warp", "segmented_sum", segmented_sum),
    row!("nvcc", "prefix_warp", "recurrence", recurrence),
    row!("nvcc", "compaction", "compact_warp", compact_warp),
    row!("nvcc", "compaction", "compact_block", compact_block),
    row!("nvcc", "tiles", "filter_coalesced", filter_coalesced),
    row!("triton", "cumsum", "triton_cumsum", triton_cumsum),
];

const N: usize = 1000;
const N_S32: i32 = 1000;
const N_U32: u32 = 1000;

/// Returns inclusive prefix sums that start again every `run` words.
fn prefixes(words: &[u32], run: usize) -> Vec<u32> {
    let mut sum = 0_u32;
    let each = words.iter().enumerate().map(|(i, v)| {
        sum = if i % run == 0 {
            *v
        } else {
            sum.wrapping_add(*v)
        };
        sum
    });
    each.collect()
}

fn scan_block(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 31);
    Launch::line(
        8,
        128,
        vec![input(x), output(4 * N), Arg::U32(N_U32)],
        |_, args| vec![Expected::U32(prefixes(&values(&args[0]), 128))],
    )
    .with_shared(1024)
}

/// Makes the case: the sums stay below 2³⁰, because two bits of a state say what it holds.
fn scan_lookback(prng: &mut Prng) -> Launch {
    let n = 2500;
    let x = below(prng, n, 1 << 16);
    let (states, tickets) = (inout(vec![0_u32; 20]), inout([0_u32]));
    let args = vec![input(x), output(4 * n), states, tickets, Arg::U32(2500)];
    Launch::line(20, 128, args, |_, args| {
        let sums = prefixes(&values(&args[0]), 2500);
        let last = |tile: usize| sums[(tile * 128 + 127).min(2499)] | 2 << 30;
        let states = (0..20).map(last).collect();
        vec![
            Expected::U32(sums.clone()),
            Expected::U32(states),
            Expected::U32(vec![20]),
        ]
    })
}

fn library_scan(prng: &mut Prng) -> Launch {
    let x = around(prng, 3 * 512, 1 << 20);
    Launch::line(3, 128, vec![input(x), output(3 * 2048)], |_, args| {
        let x = values::<u32>(&args[0]);
        let sums = prefixes(&x, 512);
        let exclusive = sums.iter().zip(&x).map(|(s, v)| s.wrapping_sub(*v));
        vec![Expected::U32(exclusive.collect())]
    })
}

fn segmented_sum(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    let heads = below(prng, N, 5).into_iter().map(|d| u8::from(d == 0));
    let heads: Vec<u8> = heads.collect();
    let args = vec![input(x), input(heads), output(4 * N), Arg::S32(N_S32)];
    Launch::line(8, 128, args, |_, args| {
        let (x, heads) = (values::<u32>(&args[0]), values::<u8>(&args[1]));
        let sum = |i: usize| {
            let first = (i - i % 32..=i)
                .rev()
                .find(|&j| heads[j] != 0)
                .unwrap_or(i - i % 32);
            x[first..=i].iter().fold(0_u32, |s, v| s.wrapping_add(*v))
        };
        vec![Expected::U32((0..N).map(sum).collect())]
    })
}

fn recurrence(prng: &mut Prng) -> Launch {
    let (a, b) = (floats(prng, 256, -0.9, 0.9), floats(prng, 256, -1.0, 1.0));
    Launch::line(2, 128, vec![input(a), input(b), output(1024)], |_, args| {
        let (a, b) = (values::<f32>(&args[0]), values::<f32>(&args[1]));
        let mut y = 0.0;
        let each = (0..256).map(|i| {
            let before = if i % 32 == 0 { 0.0 } else { y };
            y = f64::from(a[i]) * before + f64::from(b[i]);
            near(y, 0.0, 1e-5)
        });
        vec![Expected::F32(each.collect())]
    })
}

/// Returns what is kept stands at the front in any order; the rest of the buffer stays as it was.
fn kept(args: &[Arg], keep: impl Fn(i32) -> bool) -> Vec<Expected> {
    let x = values::<i32>(&args[0]);
    let mut out: Vec<u32> = x
        .iter()
        .filter(|v| keep(**v))
        .map(|v| v.cast_unsigned())
        .collect();
    let found = u32::try_from(out.len()).expect("there are a thousand");
    out.resize(x.len(), u32::MAX);
    vec![Expected::AnyOrder(out), Expected::U32(vec![found])]
}

fn compact_warp(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    let args = vec![input(x), output(4 * N), inout([0_u32]), Arg::S32(N_S32)];
    Launch::line(8, 128, args, |_, args| kept(args, |v| v > 0))
}

fn filter_coalesced(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    let args = vec![input(x), output(4 * N), inout([0_u32]), Arg::S32(N_S32)];
    Launch::line(8, 128, args, |_, args| kept(args, |v| v > 0))
}

fn compact_block(prng: &mut Prng) -> Launch {
    let x = around(prng, 4 * 256, 1 << 20);
    Launch::line(
        4,
        256,
        vec![input(x), output(4096), output(16)],
        |_, args| {
            let x = values::<u32>(&args[0]);
            let mut sizes = Vec::new();
            let blocks = x.chunks(256).flat_map(|block| {
                let mut odd: Vec<u32> = block.iter().copied().filter(|v| v % 2 == 1).collect();
                sizes.push(super::size(odd.len()));
                odd.resize(256, u32::MAX);
                odd
            });
            let out = blocks.collect();
            vec![Expected::U32(out), Expected::U32(sizes)]
        },
    )
}

fn triton_cumsum(prng: &mut Prng) -> Launch {
    let x = around(prng, 4 * 256, 1 << 20);
    Launch::line(4, 128, vec![input(x), output(4096)], |_, args| {
        vec![Expected::U32(prefixes(&values(&args[0]), 256))]
    })
    .of_triton()
    .with_shared(4096)
}
