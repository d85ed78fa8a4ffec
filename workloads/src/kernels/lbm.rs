//! Memory bandwidth and registers: one step of the lattice Boltzmann method, D3Q19 with collision after Bhatnagar,
//! Gross and Krook (Y. Qian, D. d'Humières, P. Lallemand, "Lattice BGK models for Navier-Stokes equation", 1992).
//!
//! The reference works in `f64` and pushes populations to where they flow, where the kernel pulls. Populations are a
//! tenth around the weights of a fluid at rest, so that densities lie in 0.9..1.1 and velocities below 0.1. A density
//! or a component of the flow is a sum of at most 19 values that add up to 1.1: off by 20 u. A velocity is then off by
//! 45 u, the squares' sum and the bracket by less than 60 u, an equilibrium of at most 0.4 by less than 40 u, and the
//! relaxation adds 3 roundings below 0.5. The tolerance is 64 u.

use super::{ROUNDOFF, floats, input_f32, output};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "lbm",
    summary: "streaming and registers: lattice Boltzmann step, 19 populations of a cell",
    class: Class::Memory,
    entry: "lbm",
    ptx: include_str!("../../ptx/lbm.ptx"),
    elements: "shortest edge of the box; the others are one and two longer",
    rounds: None,
    limits: Limits::of(512, 0),
    sizes: [(5, 0), (14, 0), (60, 0)],
    build,
};

const BLOCK: [u32; 3] = [16, 4, 2];
const OMEGA: f32 = 1.2;

/// The velocities, in the order of the kernel's planes.
const VELOCITIES: [[i64; 3]; 19] = [
    [0, 0, 0],
    [1, 0, 0],
    [-1, 0, 0],
    [0, 1, 0],
    [0, -1, 0],
    [0, 0, 1],
    [0, 0, -1],
    [1, 1, 0],
    [-1, -1, 0],
    [1, -1, 0],
    [-1, 1, 0],
    [1, 0, 1],
    [-1, 0, -1],
    [1, 0, -1],
    [-1, 0, 1],
    [0, 1, 1],
    [0, -1, -1],
    [0, 1, -1],
    [0, -1, 1],
];

/// Returns the weight of a velocity, by the squares of its components.
fn weight(velocity: [i64; 3]) -> f64 {
    match velocity.iter().map(|v| v * v).sum::<i64>() {
        0 => 1.0 / 3.0,
        1 => 1.0 / 18.0,
        _ => 1.0 / 36.0,
    }
}

const fn extent(params: &Params) -> [u32; 3] {
    [params.elements, params.elements + 1, params.elements + 2]
}

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let extent = extent(&params);
    let cells: usize = extent.iter().map(|&e| e as usize).product();
    let populations = VELOCITIES.into_iter().flat_map(|velocity| {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "rounding to single precision is meant"
        )]
        let weight = weight(velocity) as f32;
        let values: Vec<f32> = (0..cells).map(|_| weight * prng.f32_in(0.9, 1.1)).collect();
        values
    });
    WORKLOAD.launch(
        params,
        std::array::from_fn(|axis| extent[axis].div_ceil(BLOCK[axis])),
        BLOCK,
        vec![
            input_f32(populations.collect::<Vec<_>>()),
            output(cells * VELOCITIES.len()),
            Arg::F32(OMEGA),
            Arg::U32(extent[0]),
            Arg::U32(extent[1]),
            Arg::U32(extent[2]),
        ],
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let from = floats(&args[0]);
    let extent = extent(params).map(i64::from);
    let cells = from.len() / VELOCITIES.len();
    let mut flowed = vec![[0.0; 19]; cells];
    for (k, velocity) in VELOCITIES.into_iter().enumerate() {
        for (cell, &value) in (0i64..).zip(&from[k * cells..][..cells]) {
            let at = [
                cell % extent[0],
                cell / extent[0] % extent[1],
                cell / extent[0] / extent[1],
            ];
            let [x, y, z] =
                [0, 1, 2].map(|axis: usize| (at[axis] + velocity[axis]).rem_euclid(extent[axis]));
            let to = usize::try_from((z * extent[1] + y) * extent[0] + x).expect("in the box");
            flowed[to][k] = f64::from(value);
        }
    }
    let relaxed: Vec<[f64; 19]> = flowed.iter().map(collided).collect();
    let all = (0..VELOCITIES.len()).flat_map(|k| relaxed.iter().map(move |cell| cell[k]));
    let bounded = all.map(|value| Bounded::within(value, 64.0 * ROUNDOFF));
    vec![Expected::F32(bounded.collect())]
}

/// Returns a cell's populations after the collision.
fn collided(populations: &[f64; 19]) -> [f64; 19] {
    let density: f64 = populations.iter().sum();
    let velocity = [0, 1, 2].map(|axis: usize| {
        let parts = populations.iter().zip(VELOCITIES);
        let flow: f64 = parts.map(|(f, v)| f * v[axis] as f64).sum();
        flow / density
    });
    let square: f64 = velocity.iter().map(|u| u * u).sum();
    std::array::from_fn(|k| {
        let along: f64 = velocity
            .iter()
            .zip(VELOCITIES[k])
            .map(|(u, v)| u * v as f64)
            .sum();
        let equilibrium = weight(VELOCITIES[k])
            * density
            * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * square);
        populations[k] + f64::from(OMEGA) * (equilibrium - populations[k])
    })
}
