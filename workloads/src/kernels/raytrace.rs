//! Divergence: parallel rays meet mirroring spheres, up to eight times each. The tolerance is zero.
//!
//! Whether a ray meets a sphere hangs on the last bit, and so does where it goes from there. So the kernel uses
//! correctly rounded operations only, and the reference does the same ones in the same order, but follows all rays
//! together, bounce by bounce.

use super::{floats, input_f32, output};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "raytrace",
    summary: "divergence: rays among mirroring spheres; uneven blocks",
    class: Class::Compute,
    entry: "raytrace",
    ptx: include_str!("../../ptx/raytrace.ptx"),
    elements: "pixels across the image, which is one higher",
    rounds: Some("spheres"),
    limits: Limits::of(1 << 14, 1 << 10),
    sizes: [(14, 8), (60, 10), (350, 12)],
    build,
};

const BLOCK: [u32; 3] = [16, 8, 1];
/// `BOUNCES`, `NEAR` and `FAR` of `workloads/cuda/raytrace.cu`.
const BOUNCES: u32 = 8;
const NEAR: f32 = 1.0 / 1024.0;
const FAR: f32 = 1.0e30;

/// Returns the spheres crowd in one quarter of the image, so that most blocks end early.
fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    // No spheres still need a buffer with an address.
    let spheres = (0..params.rounds.max(1)).flat_map(|_| {
        let [x, y] = [(); 2].map(|()| prng.f32_in(-1.0, 0.0));
        [x, y, prng.f32_in(-0.5, 0.5), prng.f32_in(0.15, 0.35)]
    });
    let pixels = params.elements as usize * (params.elements as usize + 1);
    WORKLOAD.launch(
        params,
        [
            params.elements.div_ceil(BLOCK[0]),
            (params.elements + 1).div_ceil(BLOCK[1]),
            1,
        ],
        BLOCK,
        vec![
            input_f32(spheres.collect::<Vec<_>>()),
            output(pixels),
            Arg::U32(params.rounds),
            Arg::U32(params.elements),
        ],
        reference,
    )
}

type Vector = [f32; 3];

fn dot(a: Vector, b: Vector) -> f32 {
    a[2].mul_add(b[2], a[1].mul_add(b[1], a[0] * b[0]))
}

/// Returns `from + factor * along`.
fn moved(from: Vector, factor: f32, along: Vector) -> Vector {
    [0, 1, 2].map(|axis: usize| factor.mul_add(along[axis], from[axis]))
}

fn minus(a: Vector, b: Vector) -> Vector {
    [0, 1, 2].map(|axis: usize| a[axis] - b[axis])
}

/// A ray on its way.
struct Ray {
    at: Vector,
    along: Vector,
    light: f32,
    weight: f32,
    is_over: bool,
}

impl Ray {
    /// Starts the ray of a pixel.
    fn of_pixel(column: u32, row: u32, edge: u32) -> Self {
        let place = |n: u32| (n as f32).mul_add(2.0 / edge as f32, -1.0);
        Self {
            at: [place(column), place(row), -2.0],
            along: [0.0, 0.0, 1.0],
            light: 0.0,
            weight: 1.0,
            is_over: false,
        }
    }

    /// Goes to the nearest sphere and is reflected there, or is over.
    fn bounce(&mut self, spheres: &[[f32; 4]]) {
        let mut nearest: Option<(f32, &[f32; 4])> = None;
        for sphere @ &[x, y, z, radius] in spheres {
            let to_centre = minus([x, y, z], self.at);
            let along = dot(to_centre, self.along);
            let beyond = (-radius).mul_add(radius, dot(to_centre, to_centre));
            let root = along.mul_add(along, -beyond);
            if root > 0.0 {
                let distance = along - root.sqrt();
                if distance > NEAR && distance < nearest.map_or(FAR, |(least, _)| least) {
                    nearest = Some((distance, sphere));
                }
            }
        }
        let Some((distance, &[x, y, z, radius])) = nearest else {
            self.is_over = true;
            return;
        };
        self.at = moved(self.at, distance, self.along);
        let inverse = 1.0 / radius;
        let normal = minus(self.at, [x, y, z]).map(|part| part * inverse);
        self.light = self.weight.mul_add((-normal[2]).max(0.0), self.light);
        self.weight *= 0.5;
        self.along = moved(self.along, -2.0 * dot(self.along, normal), normal);
    }
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let all = floats(&args[0]);
    let spheres = &all.as_chunks().0[..params.rounds as usize];
    let edge = params.elements;
    let mut rays: Vec<Ray> = (0..edge * (edge + 1))
        .map(|pixel| Ray::of_pixel(pixel % edge, pixel / edge, edge))
        .collect();
    for _ in 0..BOUNCES {
        for ray in rays.iter_mut().filter(|ray| !ray.is_over) {
            ray.bounce(spheres);
        }
    }
    let image = rays.iter().map(|ray| {
        let sky = ray.along[1].mul_add(0.25, 0.5);
        Bounded::exact(f64::from(ray.weight.mul_add(sky, ray.light)))
    });
    vec![Expected::F32(image.collect())]
}
