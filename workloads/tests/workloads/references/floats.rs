//! The kernels of single-precision arithmetic that gather, in their own order, thread by thread.

use super::{f32s, le, u32s};
use gridmux_workloads::{Arg, Case};
use std::f32::consts::TAU;

fn scalar(arg: &Arg) -> f32 {
    match arg {
        Arg::F32(value) => *value,
        other => panic!("{other:?} is no float"),
    }
}

pub(super) fn mri_q(case: &Case) -> Vec<Vec<u8>> {
    let [x, y, z, samples] = [0, 1, 2, 3].map(|i: usize| f32s(&case.args[i]));
    let voxel = |i: usize| {
        let mut sums = (0.0f32, 0.0f32);
        for sample in samples.chunks_exact(4) {
            let turns = sample[2].mul_add(z[i], sample[1].mul_add(y[i], sample[0] * x[i]));
            let angle = TAU * (turns - turns.round_ties_even());
            sums.0 = sample[3].mul_add(angle.cos(), sums.0);
            sums.1 = sample[3].mul_add(angle.sin(), sums.1);
        }
        sums
    };
    let (real, imaginary): (Vec<f32>, Vec<f32>) = (0..x.len()).map(voxel).unzip();
    vec![le(&real), le(&imaginary)]
}

/// The kernel's velocities: axes, then diagonals in the planes of x and y, of x and z, and of y and z.
const VELOCITIES: [(usize, usize, usize); 19] = [
    (0, 0, 0),
    (1, 0, 0),
    (2, 0, 0),
    (0, 1, 0),
    (0, 2, 0),
    (0, 0, 1),
    (0, 0, 2),
    (1, 1, 0),
    (2, 2, 0),
    (1, 2, 0),
    (2, 1, 0),
    (1, 0, 1),
    (2, 0, 2),
    (1, 0, 2),
    (2, 0, 1),
    (0, 1, 1),
    (0, 2, 2),
    (0, 1, 2),
    (0, 2, 1),
];

/// A component of 0, 1 or 2, which stands for -1.
const SIGNS: [f32; 3] = [0.0, 1.0, -1.0];

pub(super) fn lbm(case: &Case) -> Vec<Vec<u8>> {
    let nx = case.params.elements as usize;
    let (ny, nz) = (nx + 1, nx + 2);
    let (from, omega) = (f32s(&case.args[0]), scalar(&case.args[2]));
    let cells = nx * ny * nz;
    let mut to = vec![0.0; from.len()];
    for cell in 0..cells {
        let (x, y, z) = (cell % nx, cell / nx % ny, cell / nx / ny);
        // A step back along an axis is n - 1 steps forward, on a torus.
        let back = |at: usize, component: usize, n: usize| match component {
            0 => at,
            1 => (at + n - 1) % n,
            _ => (at + 1) % n,
        };
        let (mut f, mut density, mut flow) = ([0.0; 19], 0.0, [0.0; 3]);
        for (k, (vx, vy, vz)) in VELOCITIES.into_iter().enumerate() {
            let source = (back(z, vz, nz) * ny + back(y, vy, ny)) * nx + back(x, vx, nx);
            f[k] = from[k * cells + source];
            density += f[k];
            for (flow, component) in flow.iter_mut().zip([vx, vy, vz]) {
                *flow += SIGNS[component] * f[k];
            }
        }
        let u = flow.map(|flow| flow / density);
        let still = 1.0 - 1.5 * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
        for (k, (vx, vy, vz)) in VELOCITIES.into_iter().enumerate() {
            let weight = [1.0 / 3.0, 1.0 / 18.0, 1.0 / 36.0]
                [[vx, vy, vz].into_iter().filter(|&v| v > 0).count()];
            let along = SIGNS[vx] * u[0] + SIGNS[vy] * u[1] + SIGNS[vz] * u[2];
            let equilibrium = weight * density * (still + along * (3.0 + 4.5 * along));
            to[k * cells + cell] = f[k] + omega * (equilibrium - f[k]);
        }
    }
    vec![le(&to)]
}

pub(super) fn nlm(case: &Case) -> Vec<Vec<u8>> {
    let (noisy, strength) = (f32s(&case.args[0]), scalar(&case.args[2]));
    let (nx, radius) = (case.params.elements as usize, case.params.rounds as usize);
    let pitch = nx + 2 * radius + 2;
    let pixel = |i: usize| {
        let at = |x: usize, y: usize| noisy[(i / nx + y) * pitch + i % nx + x];
        let (mut weights, mut sum) = (0.0f32, 0.0f32);
        for dy in 0..=2 * radius {
            for dx in 0..=2 * radius {
                let distance = (0..9).fold(0.0f32, |sum, k| {
                    let (x, y) = (k % 3, k / 3);
                    let difference = at(radius + x, radius + y) - at(dx + x, dy + y);
                    difference.mul_add(difference, sum)
                });
                let weight = (-strength * distance).exp();
                weights += weight;
                sum = weight.mul_add(at(dx + 1, dy + 1), sum);
            }
        }
        sum / weights
    };
    vec![le(&(0..nx * (nx + 1)).map(pixel).collect::<Vec<_>>())]
}

/// Goes by grid points, and by rows of cubes around each.
pub(super) fn cutcp(case: &Case) -> Vec<Vec<u8>> {
    let (starts, charges) = (u32s(&case.args[0]), f32s(&case.args[1]));
    let [nx, ny, nz] = case.grid.map(|cubes| cubes as usize);
    let mut potential = Vec::new();
    for (iz, iy) in (0..nz * 4).flat_map(|iz| (0..ny * 4).map(move |iy| (iz, iy))) {
        for ix in 0..nx * 4 {
            let around = |i: usize, n: usize| (i / 4).saturating_sub(1)..(i / 4 + 2).min(n);
            let mut sum = 0.0f32;
            for cz in around(iz, nz) {
                for cy in around(iy, ny) {
                    let row = (cz * ny + cy) * nx;
                    let cubes = around(ix, nx);
                    let first = starts[row + cubes.start] as usize;
                    let end = starts[row + cubes.end] as usize;
                    for charge in charges.chunks_exact(4).take(end).skip(first) {
                        let [dx, dy, dz] =
                            [(ix, 0), (iy, 1), (iz, 2)].map(|(i, axis)| i as f32 - charge[axis]);
                        let distance2 = dx.mul_add(dx, dy.mul_add(dy, dz * dz));
                        if distance2 < 16.0 {
                            let fade = distance2.mul_add(-1.0 / 16.0, 1.0);
                            let reach = charge[3] * (1.0 / distance2.sqrt());
                            sum = reach.mul_add(fade * fade, sum);
                        }
                    }
                }
            }
            potential.push(sum);
        }
    }
    vec![le(&potential)]
}

pub(super) fn hotspot(case: &Case) -> Vec<Vec<u8>> {
    let (mut heat, power) = (f32s(&case.args[0]), f32s(&case.args[1]));
    let [along_x, along_y, out, ambient] = [3, 4, 5, 6].map(|i: usize| scalar(&case.args[i]));
    let nx = case.params.elements as usize;
    let ny = nx + 1;
    for _ in 0..2 {
        let cell = |i: usize| {
            let (x, y, own) = (i % nx, i / nx, heat[i]);
            let or_own = |is_inside: bool, at: usize| if is_inside { heat[at] } else { own };
            let west = or_own(x > 0, i.wrapping_sub(1));
            let east = or_own(x + 1 < nx, i + 1);
            let north = or_own(y > 0, i.wrapping_sub(nx));
            let south = or_own(y + 1 < ny, i + nx);
            let flow = along_x.mul_add(
                west + east - 2.0 * own,
                along_y * (north + south - 2.0 * own),
            );
            own + out.mul_add(ambient - own, flow + power[i])
        };
        heat = (0..heat.len()).map(cell).collect();
    }
    vec![le(&heat)]
}

/// Computes the image ray by ray.
pub(super) fn raytrace(case: &Case) -> Vec<Vec<u8>> {
    let spheres = f32s(&case.args[0]);
    let edge = case.params.elements as usize;
    let dot = |a: [f32; 3], b: [f32; 3]| a[2].mul_add(b[2], a[1].mul_add(b[1], a[0] * b[0]));
    let pixel = |i: usize| {
        let step = 2.0 / edge as f32;
        let place = |n: usize| (n as f32).mul_add(step, -1.0);
        let (mut at, mut along) = ([place(i % edge), place(i / edge), -2.0], [0.0, 0.0, 1.0]);
        let (mut light, mut weight) = (0.0f32, 1.0f32);
        for _ in 0..8 {
            let (mut nearest, mut hit) = (1.0e30f32, None);
            for sphere in spheres.chunks_exact(4) {
                let centre = [0, 1, 2].map(|k: usize| sphere[k] - at[k]);
                let towards = dot(centre, along);
                let beyond = (-sphere[3]).mul_add(sphere[3], dot(centre, centre));
                let root = towards.mul_add(towards, -beyond);
                let distance = towards - root.sqrt();
                // A negative root gives a NaN, which is not greater than anything.
                if distance > 1.0 / 1024.0 && distance < nearest && root > 0.0 {
                    (nearest, hit) = (distance, Some(sphere));
                }
            }
            let Some(sphere) = hit else { break };
            at = [0, 1, 2].map(|k: usize| along[k].mul_add(nearest, at[k]));
            let normal = [0, 1, 2].map(|k: usize| (at[k] - sphere[k]) * (1.0 / sphere[3]));
            light = weight.mul_add((-normal[2]).max(0.0), light);
            weight *= 0.5;
            let turn = -2.0 * dot(along, normal);
            along = [0, 1, 2].map(|k: usize| turn.mul_add(normal[k], along[k]));
        }
        weight.mul_add(along[1].mul_add(0.25, 0.5), light)
    };
    vec![le(&(0..edge * (edge + 1)).map(pixel).collect::<Vec<_>>())]
}
