//! Reuse through the caches: one step of a seven-point stencil; cells on the faces are copied.
//!
//! The box is `n × (n+1) × (n+2)`, so that exchanged axes are found. Values lie in the unit interval and the weights
//! sum to one, so the result does too; seven rounded operations on partial sums of at most 6 stay below 32 roundoffs,
//! which is the tolerance.

use super::{ROUNDOFF, floats, output, random_f32};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "stencil3d",
    summary: "cache: seven-point stencil on a box, three-dimensional grid",
    class: Class::Cache,
    entry: "stencil3d",
    ptx: include_str!("../../ptx/stencil3d.ptx"),
    elements: "shortest edge of the box; the others are one and two longer",
    rounds: None,
    limits: Limits::of(1024, 0),
    sizes: [(9, 0), (32, 0), (100, 0)],
    build,
};

const BLOCK: [u32; 3] = [16, 4, 2];
const CENTRE: f32 = 0.4;
const NEIGHBOUR: f32 = 0.1;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let extent = extent(&params);
    let cells = extent.iter().map(|&e| e as usize).product();
    WORKLOAD.launch(
        params,
        std::array::from_fn(|axis| extent[axis].div_ceil(BLOCK[axis])),
        BLOCK,
        vec![
            random_f32(&mut prng, cells, 0.0, 1.0),
            output(cells),
            Arg::F32(CENTRE),
            Arg::F32(NEIGHBOUR),
            Arg::U32(extent[0]),
            Arg::U32(extent[1]),
            Arg::U32(extent[2]),
        ],
        reference,
    )
}

const fn extent(params: &Params) -> [u32; 3] {
    [params.elements, params.elements + 1, params.elements + 2]
}

/// Scatters each cell's contribution, where the kernel gathers.
fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let from = floats(&args[0]);
    let [nx, ny, nz] = extent(params).map(|e| e as usize);
    let steps = [1, nx, nx * ny];
    let mut next: Vec<f64> = from
        .iter()
        .map(|&v| f64::from(CENTRE) * f64::from(v))
        .collect();
    for (i, &value) in from.iter().enumerate() {
        let part = f64::from(NEIGHBOUR) * f64::from(value);
        for step in steps {
            if i >= step {
                next[i - step] += part;
            }
            if i + step < next.len() {
                next[i + step] += part;
            }
        }
    }
    let cell = |(i, value): (usize, f64)| {
        let (x, y, z) = (i % nx, i / nx % ny, i / (nx * ny));
        let on_face = x == 0 || x + 1 == nx || y == 0 || y + 1 == ny || z == 0 || z + 1 == nz;
        if on_face {
            Bounded::exact(f64::from(from[i]))
        } else {
            Bounded::within(value, 32.0 * ROUNDOFF)
        }
    };
    vec![Expected::F32(
        next.into_iter().enumerate().map(cell).collect(),
    )]
}
