//! Arithmetic and reciprocal roots: the potential on a grid of all charges nearer than a cutoff c,
//! Σ q / r (1 − r² / c²)².
//!
//! Charges stand on a grid of 1/256, off the points by 1/512 in x, so that differences of coordinates are exact and no
//! distance is zero. The reference works in `f64` and goes by charges, each to the points around it. A squared distance
//! has a relative error of 3 u, its fast reciprocal root one of 2⁻²² (PTX ISA, `rsqrt.approx`) on top; the fading
//! factor, below 1, is off by 4 u and counts twice. The sum of a term's errors is below 20 u |q| / r, and γ of the
//! number of charges comes on top; that holds at the cutoff too, where the factor is nearly zero on either side of it.

use super::{ROUNDOFF, dot_bound, floats, input_f32, input_u32, output, words};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "cutcp",
    summary: "arithmetic: potential of the charges within a cutoff, cubes of charges",
    class: Class::Compute,
    entry: "cutcp",
    ptx: include_str!("../../ptx/cutcp.ptx"),
    elements: "cubes along the shortest edge; the third edge is one longer",
    rounds: Some("mean charges in a cube, about"),
    limits: Limits::of(64, 256),
    sizes: [(1, 12), (3, 2), (8, 5)],
    build,
};

/// Points along a cube's edge, which is the cutoff: `CELL` of `workloads/cuda/cutcp.cu`.
const CELL: u32 = 4;
/// Places that a coordinate may have in one spacing of the points.
const PLACES: u32 = 256;

const fn extent(params: &Params) -> [u32; 3] {
    [params.elements, params.elements, params.elements + 1]
}

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let [nx, ny, nz] = extent(&params);
    let mut starts = vec![0];
    let mut charges = Vec::new();
    for cube in 0..nx * ny * nz {
        let corner = [cube % nx, cube / nx % ny, cube / nx / ny];
        for _ in 0..prng.below(2 * params.rounds + 1) {
            let place = corner
                .map(|c| (c * CELL * PLACES + prng.below(CELL * PLACES)) as f32 / PLACES as f32);
            let off = 0.5 / 256.0;
            let charge = prng.f32_in(-1.0, 1.0);
            charges.extend([place[0] + off, place[1], place[2], charge]);
        }
        starts.push(u32::try_from(charges.len() / 4).expect("the limits keep it small"));
    }
    // No charges still need a buffer with an address.
    charges.resize(charges.len().max(4), 0.0);
    let points = (nx * ny * nz * CELL.pow(3)) as usize;
    WORKLOAD.launch(
        params,
        [nx, ny, nz],
        [CELL; 3],
        vec![input_u32(starts), input_f32(charges), output(points)],
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let extent = extent(params).map(|cubes| cubes * CELL);
    let starts = words(&args[0]);
    let count = starts.last().map_or(0, |&end| end as usize);
    let all = floats(&args[1]);
    let cutoff2 = f64::from(CELL * CELL);
    let zero = Bounded::exact(0.0);
    let mut potential = vec![zero; extent.iter().map(|&e| e as usize).product()];
    let bound = 20.0 * ROUNDOFF + dot_bound(count);
    for [x, y, z, charge] in &all.as_chunks().0[..count] {
        let [xs, ys, zs] = [(*x, extent[0]), (*y, extent[1]), (*z, extent[2])].map(near);
        for (iz, iy) in zs.flat_map(|iz| ys.clone().map(move |iy| (iz, iy))) {
            for ix in xs.clone() {
                let parts = [(ix, *x), (iy, *y), (iz, *z)];
                let distance2: f64 = parts
                    .map(|(i, v)| (f64::from(i) - f64::from(v)).powi(2))
                    .iter()
                    .sum();
                if distance2 < cutoff2 {
                    let reach = f64::from(charge.abs()) / distance2.sqrt();
                    let fade = (1.0 - distance2 / cutoff2).powi(2);
                    let point = &mut potential[((iz * extent[1] + iy) * extent[0] + ix) as usize];
                    point.value += reach.copysign(f64::from(*charge)) * fade;
                    point.tolerance += reach * bound;
                }
            }
        }
    }
    vec![Expected::F32(potential)]
}

/// Returns the points along an axis that a charge may reach.
fn near((at, extent): (f32, u32)) -> std::ops::Range<u32> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "coordinates are small and not negative"
    )]
    let point = at as u32;
    point.saturating_sub(CELL)..(point + CELL + 2).min(extent)
}
