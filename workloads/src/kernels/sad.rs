//! Motion estimation: the displacement of least sum of absolute differences (SAD) for each 8 × 8 tile of a frame.
//! Exact.
//!
//! One tile in eight searches as far as it may, the others one or two pixels, so that blocks last for very different
//! times. A result holds the sum in its upper half and the displacement's number, row by row, in its lower. The
//! reference searches backwards and compares sum and number, where the kernel's threads meet in an atomic minimum.

use super::{input, input_u32, output, words};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::Expected;
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "sad",
    summary: "bytes in shared memory: motion search by absolute differences; uneven blocks",
    class: Class::Compute,
    entry: "sad",
    ptx: include_str!("../../ptx/sad.ptx"),
    elements: "tiles of 8 pixels across the frame, which is one tile higher",
    rounds: None,
    limits: Limits::of(1 << 10, 0),
    sizes: [(2, 0), (10, 0), (60, 0)],
    build,
};

const THREADS: u32 = 64;
/// `EDGE` and `RADIUS` of `workloads/cuda/sad.cu`.
const EDGE: u32 = 8;
const RADIUS: u32 = 7;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let (tiles_x, tiles_y) = (params.elements, params.elements + 1);
    let apron = 2 * RADIUS;
    let mut pixels = |width: u32, height: u32| -> Vec<u8> {
        (0..width * height)
            .map(|_| prng.next_u64().to_le_bytes()[7])
            .collect()
    };
    let frame = pixels(tiles_x * EDGE, tiles_y * EDGE);
    let before = pixels(tiles_x * EDGE + apron, tiles_y * EDGE + apron);
    let radii = (0..tiles_x * tiles_y).map(|_| match prng.below(8) {
        0 => RADIUS,
        short => 1 + short % 2,
    });
    let radii = input_u32(radii);
    WORKLOAD.launch(
        params,
        [tiles_x, tiles_y, 1],
        [THREADS, 1, 1],
        vec![
            input(frame),
            input(before),
            radii,
            output((tiles_x * tiles_y) as usize),
        ],
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let [frame, before] = [&args[0], &args[1]].map(|arg| match arg {
        Arg::Buffer { bytes, .. } => bytes,
        other => unreachable!("{other:?} is no frame"),
    });
    let width = params.elements * EDGE;
    let difference = |x: u32, y: u32, dx: u32, dy: u32| {
        let old = before[((y + dy) * (width + 2 * RADIUS) + x + dx) as usize];
        u32::from(frame[(y * width + x) as usize].abs_diff(old))
    };
    let tile = |(tile, radius): (u32, u32)| {
        let (x, y) = (tile % params.elements * EDGE, tile / params.elements * EDGE);
        let (side, first) = (2 * radius + 1, RADIUS - radius);
        let candidate = |number: u32| {
            let (dx, dy) = (first + number % side, first + number / side);
            let sum: u32 = (0..EDGE * EDGE)
                .map(|i| difference(x + i % EDGE, y + i / EDGE, dx, dy))
                .sum();
            (sum, number)
        };
        let best = (0..side * side).rev().map(candidate).min();
        let (sum, number) = best.expect("a search has a middle");
        sum << 16 | number
    };
    vec![Expected::U32(
        (0..).zip(words(&args[2])).map(tile).collect(),
    )]
}
