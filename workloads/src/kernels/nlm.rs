//! Reuse through the caches: non-local means (A. Buades, B. Coll, J.-M. Morel, "A non-local algorithm for image
//! denoising", 2005).
//!
//! The reference works in `f64`. Pixels lie in the unit interval. A distance of 9 squares has a relative error below
//! 12 u, and with the exponent E's own products and the fast exponential (PTX ISA, `ex2.approx`: 2⁻²²) a weight has
//! one below (15 E + 4) u. Since E e⁻ᴱ is below 0.37, a weight is off by less than 10 u, and so are numerator and
//! denominator by 10 u for each pixel of the window besides γ. The denominator is at least 1, the weight of the pixel
//! itself, so the quotient is off by at most the sum of both; the tolerance is 24 u for each pixel of the window, and
//! γ of their number.

use super::{ROUNDOFF, dot_bound, floats, output, random_f32};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "nlm",
    summary: "cache: non-local means, each pixel reads a window around it many times",
    class: Class::Cache,
    entry: "nlm",
    ptx: include_str!("../../ptx/nlm.ptx"),
    elements: "pixels across the image, which is one higher",
    rounds: Some("radius of the search window"),
    limits: Limits::of(1 << 14, 64),
    sizes: [(9, 2), (24, 3), (56, 8)],
    build,
};

const BLOCK: [u32; 3] = [8, 8, 1];
const STRENGTH: f32 = 1.5;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let (nx, ny) = (params.elements, params.elements + 1);
    let apron = 2 * params.rounds + 2;
    let noisy = (nx + apron) as usize * (ny + apron) as usize;
    WORKLOAD.launch(
        params,
        [nx.div_ceil(BLOCK[0]), ny.div_ceil(BLOCK[1]), 1],
        BLOCK,
        vec![
            random_f32(&mut prng, noisy, 0.0, 1.0),
            output(nx as usize * ny as usize),
            Arg::F32(STRENGTH),
            Arg::U32(params.rounds),
            Arg::U32(nx),
            Arg::U32(ny),
        ],
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let noisy: Vec<f64> = floats(&args[0]).into_iter().map(f64::from).collect();
    let (nx, side) = (params.elements as usize, 2 * params.rounds as usize + 1);
    let pitch = nx + side + 1;
    // By the corner of the 3 x 3 pixels around a pixel.
    let patch = |corner: usize| {
        [0, 1, 2].into_iter().flat_map(move |row: usize| {
            [0, 1, 2].map(|column: usize| corner + row * pitch + column)
        })
    };
    let radius = params.rounds as usize;
    let window = side * side;
    let tolerance = window as f64 * 24.0 * ROUNDOFF + dot_bound(window + 2);
    let pixel = |i: usize| {
        let corner = i / nx * pitch + i % nx;
        let own = corner + radius * pitch + radius;
        let mut sums = (0.0, 0.0);
        for place in (0..window).rev() {
            let other = corner + place / side * pitch + place % side;
            let distance: f64 = patch(own)
                .zip(patch(other))
                .map(|(a, b)| (noisy[a] - noisy[b]).powi(2))
                .sum();
            let weight = (-f64::from(STRENGTH) * distance).exp();
            sums.0 += weight * noisy[other + pitch + 1];
            sums.1 += weight;
        }
        Bounded::within(sums.0 / sums.1, tolerance)
    };
    vec![Expected::F32((0..nx * (nx + 1)).map(pixel).collect())]
}
