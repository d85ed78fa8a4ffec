//! Special functions: the matrix Q of magnetic resonance imaging, for each voxel x the sums
//! over all samples k of φ(k) cos 2πk·x and φ(k) sin 2πk·x.
//!
//! The reference works in `f64`, sample by sample. Coordinates keep |k·x| below 6 turns. Three rounded operations on
//! the turns, and one on the angle below π, put the angle off by at most 2π · 3 · 6 u + π u < 117 u; the fast sine and
//! cosine add 2⁻²⁰ (PTX ISA, `sin.approx`, `cos.approx`), which is 16 u. So each term is off by at most 133 u |φ|, and
//! the sum by γ of its length on top.

use super::{ROUNDOFF, dot_bound, floats, input_f32, output, random_f32};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "mri_q",
    summary: "special functions: sums of sines and cosines over staged samples; even blocks",
    class: Class::Compute,
    entry: "mri_q",
    ptx: include_str!("../../ptx/mri_q.ptx"),
    elements: "voxels",
    rounds: Some("samples"),
    limits: Limits::of(1 << 24, 1 << 20),
    sizes: [(200, 20), (600, 130), (8_000, 600)],
    build,
};

/// Threads of a block; it is `CHUNK` of `workloads/cuda/mri_q.cu`.
const THREADS: u32 = 128;
/// The bound of one term, in roundoffs.
const TERM_ROUNDOFFS: f64 = 133.0;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let n = params.elements as usize;
    let mut args: Vec<Arg> = (0..3)
        .map(|_| random_f32(&mut prng, n, -1.0, 1.0))
        .collect();
    // No samples still need a buffer with an address.
    let samples = (0..params.rounds.max(1)).flat_map(|_| {
        let [x, y, z] = [(); 3].map(|()| prng.f32_in(-2.0, 2.0));
        [x, y, z, prng.f32_in(0.0, 1.0)]
    });
    args.push(input_f32(samples.collect::<Vec<_>>()));
    args.extend([output(n), output(n)]);
    args.extend([Arg::U32(params.elements), Arg::U32(params.rounds)]);
    WORKLOAD.launch(
        params,
        [params.elements.div_ceil(THREADS), 1, 1],
        [THREADS, 1, 1],
        args,
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let [x, y, z, samples] = [0, 1, 2, 3].map(|i| {
        floats(&args[i])
            .into_iter()
            .map(f64::from)
            .collect::<Vec<_>>()
    });
    let zero = Bounded::exact(0.0);
    let (mut real, mut imaginary) = (vec![zero; x.len()], vec![zero; x.len()]);
    let samples = samples.as_chunks().0.iter().take(params.rounds as usize);
    let term = TERM_ROUNDOFFS * ROUNDOFF + dot_bound(params.rounds as usize);
    for [kx, ky, kz, magnitude] in samples {
        for i in 0..x.len() {
            let turns = kx * x[i] + ky * y[i] + kz * z[i];
            let (sine, cosine) = (turns * std::f64::consts::TAU).sin_cos();
            for (sum, part) in [(&mut real[i], cosine), (&mut imaginary[i], sine)] {
                sum.value += magnitude * part;
                sum.tolerance += magnitude * term;
            }
        }
    }
    vec![Expected::F32(real), Expected::F32(imaginary)]
}
