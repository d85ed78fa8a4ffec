//! Shared memory and barriers: two steps of heat flow on a chip, in overlapping tiles.
//!
//! The reference works in `f64`, step by step over the whole chip. Heat, power and ambient lie in the unit interval. A
//! step adds up to six products of factors below 0.25 with differences below 4, so it rounds by less than 16 u; it is
//! an average, so it does not enlarge errors of the step before by more than the factor of 2 that the bound leaves.

use super::{ROUNDOFF, floats, output, random_f32};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "hotspot",
    summary: "stencil: two steps of heat flow in overlapping tiles in shared memory",
    class: Class::Compute,
    entry: "hotspot",
    ptx: include_str!("../../ptx/hotspot.ptx"),
    elements: "cells along the chip, which is one longer the other way",
    rounds: None,
    limits: Limits::of(1 << 14, 0),
    sizes: [(13, 0), (100, 0), (600, 0)],
    build,
};

/// `TILE` and `STEPS` of `workloads/cuda/hotspot.cu`.
const TILE: u32 = 16;
const STEPS: u32 = 2;
const ALONG_X: f32 = 0.125;
const ALONG_Y: f32 = 0.1;
const OUT: f32 = 0.05;
const AMBIENT: f32 = 0.3;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let (nx, ny) = (params.elements, params.elements + 1);
    let cells = nx as usize * ny as usize;
    let inner = TILE - 2 * STEPS;
    WORKLOAD.launch(
        params,
        [nx.div_ceil(inner), ny.div_ceil(inner), 1],
        [TILE, TILE, 1],
        vec![
            random_f32(&mut prng, cells, 0.0, 1.0),
            random_f32(&mut prng, cells, 0.0, 0.1),
            output(cells),
            Arg::F32(ALONG_X),
            Arg::F32(ALONG_Y),
            Arg::F32(OUT),
            Arg::F32(AMBIENT),
            Arg::U32(nx),
            Arg::U32(ny),
        ],
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let [mut heat, power] = [0, 1].map(|i: usize| {
        floats(&args[i])
            .into_iter()
            .map(f64::from)
            .collect::<Vec<_>>()
    });
    let nx = params.elements as usize;
    for _ in 0..STEPS {
        let mut change: Vec<f64> = heat
            .iter()
            .zip(&power)
            .map(|(heat, power)| power + f64::from(OUT) * (f64::from(AMBIENT) - heat))
            .collect();
        // What leaves a cell enters its neighbour.
        let mut exchange = |a: usize, b: usize, factor: f32| {
            let flow = f64::from(factor) * (heat[b] - heat[a]);
            change[a] += flow;
            change[b] -= flow;
        };
        for cell in 0..heat.len() {
            if cell % nx > 0 {
                exchange(cell - 1, cell, ALONG_X);
            }
            if cell >= nx {
                exchange(cell - nx, cell, ALONG_Y);
            }
        }
        for (heat, change) in heat.iter_mut().zip(change) {
            *heat += change;
        }
    }
    let bounded = heat
        .into_iter()
        .map(|value| Bounded::within(value, 64.0 * ROUNDOFF));
    vec![Expected::F32(bounded.collect())]
}
