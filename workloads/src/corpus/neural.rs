//! What neural networks are made of: softmax, norms, attention, activations, gathers, quantised products.

use super::{
    Launch, below, draws, eighths, exactly, f16s, f32s, halves, pairwise, reals, rows, singles,
    size, words,
};
use crate::case::Arg;
use crate::prng::Prng;

rows! {
    nvcc/softmax: softmax;
    nvcc/normalise: layer_norm, rms_norm;
    nvcc/attention: attention;
    nvcc/transformer: gelu, swiglu, rotary, embed, arg_max;
    nvcc/quantised: gemv_w4;
    triton/softmax: triton_softmax;
    triton/layer_norm: triton_layer_norm;
    triton/arg_max: triton_arg_max;
    triton/attention: triton_attention;
}

fn softmax_of(row: &[f64]) -> Vec<f64> {
    let maximum = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|v| (v - maximum).exp()).sum();
    row.iter().map(|v| (v - maximum).exp() / sum).collect()
}

fn softmax_rows(prng: &mut Prng, columns: usize) -> Launch {
    let x = reals(prng, 5 * columns, -5.0, 5.0);
    let each = x.chunks(columns).flat_map(softmax_of);
    Launch::line(5, 128)
        .input(singles(&x))
        .output(f32s(each, 1e-5, 1e-9))
        .size(columns)
}

fn softmax(prng: &mut Prng) -> Launch {
    softmax_rows(prng, 200)
}

fn triton_softmax(prng: &mut Prng) -> Launch {
    softmax_rows(prng, 300).of_triton().with_shared(4096)
}

fn layer_norm_rows(prng: &mut Prng, blocks: u32, columns: usize) -> Launch {
    let x = reals(prng, 8 * columns, -2.0, 3.0);
    let gamma = reals(prng, columns, 0.5, 1.5);
    let beta = reals(prng, columns, -1.0, 1.0);
    let n = f64::from(size(columns));
    let normalise = |row: &[f64]| -> Vec<f64> {
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|v| v * v).sum::<f64>() / n - mean * mean;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        let one = |(c, v): (usize, &f64)| (v - mean) * scale * gamma[c] + beta[c];
        row.iter().enumerate().map(one).collect()
    };
    let each = x.chunks(columns).flat_map(normalise);
    Launch::line(blocks, 128)
        .input(singles(&x))
        .input(singles(&gamma))
        .input(singles(&beta))
        .output(f32s(each, 1e-5, 1e-5))
        .size(columns)
        .scalars([Arg::F32(1e-5)])
}

fn layer_norm(prng: &mut Prng) -> Launch {
    layer_norm_rows(prng, 2, 100)
}

fn triton_layer_norm(prng: &mut Prng) -> Launch {
    let launch = layer_norm_rows(prng, 8, 200);
    launch.of_triton().with_shared(4096)
}

fn rms_norm(prng: &mut Prng) -> Launch {
    let x = reals(prng, 4 * 150, -2.0, 2.0);
    let weight = reals(prng, 150, 0.5, 1.5);
    let normalise = |row: &[f64]| -> Vec<f64> {
        let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / 150.0 + 1e-6).sqrt();
        pairwise(row, &weight, |v, w| v * scale * w).collect()
    };
    let each = x.chunks(150).flat_map(normalise);
    Launch::line(4, 96)
        .inout(singles(&x), f32s(each, 1e-5, 1e-6))
        .input(singles(&weight))
        .size(150)
}

/// Returns the definition: all scores of a query, then the mean of the values that they weigh.
fn attend([q, k, v]: &[Vec<f64>; 3], length: usize, scale: f64) -> Vec<f64> {
    const D: usize = 32;
    let query = |i: usize| {
        let head = i / length * length;
        let dot = |j: usize| {
            let each = (0..D).map(|d| q[i * D + d] * k[(head + j) * D + d]);
            each.sum::<f64>() * scale
        };
        let weights = softmax_of(&(0..length).map(dot).collect::<Vec<_>>());
        let mean = |d: usize| -> f64 {
            let each = (0..length).map(|j| weights[j] * v[(head + j) * D + d]);
            each.sum()
        };
        (0..D).map(mean).collect::<Vec<_>>()
    };
    (0..q.len() / D).flat_map(query).collect()
}

fn attention(prng: &mut Prng) -> Launch {
    let inputs = [(); 3].map(|()| reals(prng, 2 * 50 * 32, -1.0, 1.0));
    let each = attend(&inputs, 50, 1.0 / 32f64.sqrt());
    let launch = Launch::boxed([1, 2, 1], [64, 1, 1]);
    let launch = inputs.iter().fold(launch, |l, x| l.input(singles(x)));
    launch.output(f32s(each, 0.0, 1e-5)).size(50)
}

/// Makes the case. Triton's scale counts in powers of two. The weights are rounded to halves before the second product.
fn triton_attention(prng: &mut Prng) -> Launch {
    let inputs = [(); 3].map(|()| eighths(prng, 2 * 64 * 32));
    let each = attend(&inputs, 64, 0.25 * std::f64::consts::LN_2);
    let launch = Launch::boxed([1, 2, 1], [128, 1, 1]);
    let launch = inputs.iter().fold(launch, |l, x| l.input(halves(x)));
    launch
        .output(f16s(each, 1e-3, 1e-3))
        .size(64)
        .scalars([Arg::F32(0.25)])
        .of_triton()
        .with_shared(48 << 10)
}

/// Returns the normal distribution's integral by Simpson's rule, which is GELU's factor.
fn normal(x: f64) -> f64 {
    let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let steps = 400;
    let h = x / f64::from(steps);
    let weight = |i: i32| match i {
        i if i == 0 || i == steps => 1.0,
        i if i % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let weighted = (0..=steps).map(|i| weight(i) * density(f64::from(i) * h));
    0.5 + weighted.sum::<f64>() * h / 3.0
}

fn gelu(prng: &mut Prng) -> Launch {
    let x = reals(prng, 1000, -4.0, 4.0);
    let each = x.iter().map(|x| x * normal(*x));
    Launch::line(8, 128)
        .input(singles(&x))
        .output(f32s(each, 1e-5, 1e-6))
        .size(1000)
}

fn swiglu(prng: &mut Prng) -> Launch {
    let (gate, up) = (reals(prng, 1000, -4.0, 4.0), reals(prng, 1000, -4.0, 4.0));
    let each = pairwise(&gate, &up, |g, u| g * u / (1.0 + (-g).exp()));
    Launch::line(8, 128)
        .input(singles(&gate))
        .input(singles(&up))
        .output(f32s(each, 1e-5, 1e-7))
        .size(1000)
}

const HALF: usize = 16;

fn rotary(prng: &mut Prng) -> Launch {
    let q = reals(prng, 6 * 2 * 2 * HALF, -1.0, 1.0);
    let one = |i: usize| {
        let (token, k) = (f64::from(size(i / (4 * HALF))), i % HALF);
        let (sine, cosine) = (token * 10_000f64.powf(-f64::from(size(k)) / 16.0)).sin_cos();
        if i % (2 * HALF) < HALF {
            q[i] * cosine - q[i + HALF] * sine
        } else {
            q[i - HALF] * sine + q[i] * cosine
        }
    };
    Launch::boxed([6, 2, 1], [32, 1, 1])
        .inout(singles(&q), f32s((0..q.len()).map(one), 0.0, 5e-6))
        .sizes([2, HALF])
        .scalars([Arg::F32(10_000.0)])
}

fn embed(prng: &mut Prng) -> Launch {
    let (tokens, table) = (below(prng, 7, 20), words(prng, 20 * 40));
    let each = tokens.iter().flat_map(|t| &table[*t as usize * 40..][..40]);
    Launch::line(7, 32)
        .input(&tokens)
        .input(&table)
        .output(exactly(each))
        .size(10)
}

/// Makes the case of few different values, so that the first of several equal ones must be found.
fn first_maxima(prng: &mut Prng, threads: u32, columns: usize) -> Launch {
    let x = draws(prng, 6 * columns, |p| f64::from(p.below(50)));
    let at = |row: &[f64]| {
        let best = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        size(row.iter().position(|v| *v == best).unwrap_or(0))
    };
    Launch::line(6, threads)
        .input(singles(&x))
        .output(exactly(x.chunks(columns).map(at)))
        .size(columns)
}

fn arg_max(prng: &mut Prng) -> Launch {
    first_maxima(prng, 128, 500)
}

fn triton_arg_max(prng: &mut Prng) -> Launch {
    let launch = first_maxima(prng, 64, 100);
    launch.of_triton().with_shared(4096)
}

fn gemv_w4(prng: &mut Prng) -> Launch {
    const COLUMNS: usize = 320;
    let weights = words(prng, 8 * COLUMNS / 8);
    let scales = reals(prng, 8 * COLUMNS / 32, 0.01, 0.1);
    let x = reals(prng, COLUMNS, -1.0, 1.0);
    let one = |row: usize| -> f64 {
        let each = (0..COLUMNS).map(|c| {
            let nibble = weights[(row * COLUMNS + c) / 8] >> (c % 8 * 4) & 15;
            (f64::from(nibble) - 8.0) * x[c] * scales[row * COLUMNS / 32 + c / 32]
        });
        each.sum()
    };
    Launch::line(2, 128)
        .input(&weights)
        .input(singles(&scales))
        .input(singles(&x))
        .output(f32s((0..8).map(one), 1e-5, 1e-5))
        .size(COLUMNS)
}
