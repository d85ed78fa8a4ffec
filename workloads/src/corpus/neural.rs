//! What neural networks are made of: softmax, norms, attention, activations, gathers, quantised products.

use super::{
    Kernel, Launch, below, count, draws, floats, halves, inout, input, near, output, row, size,
    values,
};
use crate::case::Arg;
use crate::half;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "softmax", "softmax", softmax),
    row!("nvcc", "normalise", "layer_norm", layer_norm),
    row!("nvcc", "normalise", "rms_norm", rms_norm),
    row!("nvcc", "attention", "attention", attention),
    row!("nvcc", "transformer", "gelu", gelu),
    row!("nvcc", "transformer", "swiglu", swiglu),
    row!("nvcc", "transformer", "rotary", rotary),
    row!("nvcc", "transformer", "embed", embed),
    row!("nvcc", "transformer", "arg_max", arg_max),
    row!("nvcc", "quantised", "gemv_w4", gemv_w4),
    row!("triton", "softmax", "triton_softmax", triton_softmax),
    row!(
        "triton",
        "layer_norm",
        "triton_layer_norm",
        triton_layer_norm
    ),
    row!("triton", "arg_max", "triton_arg_max", triton_arg_max),
    row!("triton", "attention", "triton_attention", triton_attention),
];

fn widened(arg: &Arg) -> Vec<f64> {
    values::<f32>(arg).into_iter().map(f64::from).collect()
}

fn softmax_of(row: &[f64]) -> Vec<f64> {
    let maximum = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|v| (v - maximum).exp()).sum();
    row.iter().map(|v| (v - maximum).exp() / sum).collect()
}

fn softmax_rows(args: &[Arg], columns: usize) -> Vec<Expected> {
    let rows = widened(&args[0]);
    let each = rows.chunks(columns).flat_map(softmax_of);
    vec![Expected::F32(each.map(|v| near(v, 1e-5, 1e-9)).collect())]
}

fn softmax(prng: &mut Prng) -> Launch {
    let x = floats(prng, 5 * 200, -5.0, 5.0);
    Launch::line(
        5,
        128,
        vec![input(x), output(4000), Arg::S32(200)],
        |_, args| softmax_rows(args, 200),
    )
}

fn triton_softmax(prng: &mut Prng) -> Launch {
    let x = floats(prng, 5 * 300, -5.0, 5.0);
    let args = vec![input(x), output(6000), Arg::S32(300)];
    Launch::line(5, 128, args, |_, args| softmax_rows(args, 300))
        .of_triton()
        .with_shared(4096)
}

/// Arguments: the rows, gamma, beta.
fn layer_norm_rows(args: &[Arg], columns: usize) -> Vec<Expected> {
    let (x, gamma, beta) = (widened(&args[0]), widened(&args[1]), widened(&args[2]));
    let n = f64::from(size(columns));
    let normalise = |row: &[f64]| -> Vec<Bounded> {
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|v| v * v).sum::<f64>() / n - mean * mean;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        let one = |(c, v): (usize, &f64)| near((v - mean) * scale * gamma[c] + beta[c], 1e-5, 1e-5);
        row.iter().enumerate().map(one).collect()
    };
    vec![Expected::F32(
        x.chunks(columns).flat_map(normalise).collect(),
    )]
}

fn layer_norm_args(prng: &mut Prng, columns: usize) -> Vec<Arg> {
    let x = floats(prng, 8 * columns, -2.0, 3.0);
    let (gamma, beta) = (
        floats(prng, columns, 0.5, 1.5),
        floats(prng, columns, -1.0, 1.0),
    );
    let out = output(32 * columns);
    vec![
        input(x),
        input(gamma),
        input(beta),
        out,
        Arg::S32(size(columns).cast_signed()),
        Arg::F32(1e-5),
    ]
}

fn layer_norm(prng: &mut Prng) -> Launch {
    Launch::line(2, 128, layer_norm_args(prng, 100), |_, args| {
        layer_norm_rows(args, 100)
    })
}

fn triton_layer_norm(prng: &mut Prng) -> Launch {
    Launch::line(8, 128, layer_norm_args(prng, 200), |_, args| {
        layer_norm_rows(args, 200)
    })
    .of_triton()
    .with_shared(4096)
}

fn rms_norm(prng: &mut Prng) -> Launch {
    let (x, weight) = (
        floats(prng, 4 * 150, -2.0, 2.0),
        floats(prng, 150, 0.5, 1.5),
    );
    Launch::line(
        4,
        96,
        vec![inout(x), input(weight), Arg::S32(150)],
        |_, args| {
            let (x, weight) = (widened(&args[0]), widened(&args[1]));
            let normalise = |row: &[f64]| -> Vec<Bounded> {
                let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / 150.0 + 1e-6).sqrt();
                row.iter()
                    .zip(&weight)
                    .map(|(v, w)| near(v * scale * w, 1e-5, 1e-6))
                    .collect()
            };
            vec![Expected::F32(x.chunks(150).flat_map(normalise).collect())]
        },
    )
}

/// Returns the definition: all scores of a query, then the mean of the values that they weigh.
fn attend(q: &[f64], k: &[f64], v: &[f64], length: usize, scale: f64) -> Vec<f64> {
    const D: usize = 32;
    let query = |i: usize| {
        let head = i / length * length;
        let dot = |j: usize| {
            (0..D)
                .map(|d| q[i * D + d] * k[(head + j) * D + d])
                .sum::<f64>()
                * scale
        };
        let weights = softmax_of(&(0..length).map(dot).collect::<Vec<_>>());
        let mean = |d: usize| {
            (0..length)
                .map(|j| weights[j] * v[(head + j) * D + d])
                .sum::<f64>()
        };
        (0..D).map(mean).collect::<Vec<_>>()
    };
    (0..q.len() / D).flat_map(query).collect()
}

fn attention(prng: &mut Prng) -> Launch {
    let n = 2 * 50 * 32;
    let mut args: Vec<Arg> = (0..3).map(|_| input(floats(prng, n, -1.0, 1.0))).collect();
    args.extend([output(4 * n), Arg::S32(50)]);
    Launch::boxed([1, 2, 1], [64, 1, 1], args, |_, args| {
        let (q, k, v) = (widened(&args[0]), widened(&args[1]), widened(&args[2]));
        let each = attend(&q, &k, &v, 50, 1.0 / 32f64.sqrt());
        vec![Expected::F32(
            each.into_iter().map(|v| near(v, 0.0, 1e-5)).collect(),
        )]
    })
}

/// Makes the case. Triton's scale counts in powers of two. The weights are rounded to halves before the second product.
fn triton_attention(prng: &mut Prng) -> Launch {
    let n = 2 * 64 * 32;
    let mut args: Vec<Arg> = (0..3).map(|_| input(halves(prng, n))).collect();
    args.extend([output(2 * n), Arg::S32(64), Arg::F32(0.25)]);
    Launch::boxed([1, 2, 1], [128, 1, 1], args, |_, args| {
        let of =
            |arg: &Arg| -> Vec<f64> { values::<u16>(arg).into_iter().map(half::to_f64).collect() };
        let each = attend(
            &of(&args[0]),
            &of(&args[1]),
            &of(&args[2]),
            64,
            0.25 * std::f64::consts::LN_2,
        );
        vec![Expected::F16(
            each.into_iter().map(|v| near(v, 1e-3, 1e-3)).collect(),
        )]
    })
    .of_triton()
    .with_shared(48 << 10)
}

/// Returns the normal distribution's integral by Simpson's rule, which is GELU's factor.
fn normal(x: f64) -> f64 {
    let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let steps = 400;
    let h = x / f64::from(steps);
    let weight = |i: i32| {
        if i == 0 || i == steps {
            1.0
        } else if i % 2 == 1 {
            4.0
        } else {
            2.0
        }
    };
    0.5 + (0..=steps)
        .map(|i| weight(i) * density(f64::from(i) * h))
        .sum::<f64>()
        * h
        / 3.0
}

fn gelu(prng: &mut Prng) -> Launch {
    let x = floats(prng, 1000, -4.0, 4.0);
    Launch::line(
        8,
        128,
        vec![input(x), output(4000), Arg::S32(1000)],
        |_, args| {
            let each = widened(&args[0])
                .into_iter()
                .map(|x| near(x * normal(x), 1e-5, 1e-6));
            vec![Expected::F32(each.collect())]
        },
    )
}

fn swiglu(prng: &mut Prng) -> Launch {
    let (gate, up) = (floats(prng, 1000, -4.0, 4.0), floats(prng, 1000, -4.0, 4.0));
    Launch::line(
        8,
        128,
        vec![input(gate), input(up), output(4000), Arg::S32(1000)],
        |_, args| {
            let (gate, up) = (widened(&args[0]), widened(&args[1]));
            let each = gate
                .iter()
                .zip(&up)
                .map(|(g, u)| near(g * u / (1.0 + (-g).exp()), 1e-5, 1e-7));
            vec![Expected::F32(each.collect())]
        },
    )
}

const HALF: usize = 16;

fn rotary(prng: &mut Prng) -> Launch {
    let q = floats(prng, 6 * 2 * 2 * HALF, -1.0, 1.0);
    let args = vec![inout(q), Arg::S32(2), Arg::S32(16), Arg::F32(10_000.0)];
    Launch::boxed([6, 2, 1], [32, 1, 1], args, |_, args| {
        let q = widened(&args[0]);
        let one = |i: usize| {
            let (token, k) = (f64::from(size(i / (4 * HALF))), i % HALF);
            let (sine, cosine) = (token * 10_000f64.powf(-f64::from(size(k)) / 16.0)).sin_cos();
            let first = i % (2 * HALF) < HALF;
            let value = if first {
                q[i] * cosine - q[i + HALF] * sine
            } else {
                q[i - HALF] * sine + q[i] * cosine
            };
            near(value, 0.0, 5e-6)
        };
        vec![Expected::F32((0..q.len()).map(one).collect())]
    })
}

fn embed(prng: &mut Prng) -> Launch {
    let (tokens, table) = (below(prng, 7, 20), draws(prng, 20 * 40, Prng::next_u32));
    Launch::line(
        7,
        32,
        vec![input(tokens), input(table), output(7 * 160), Arg::S32(10)],
        |_, args| {
            let table = values::<u32>(&args[1]);
            let each = values::<u32>(&args[0])
                .into_iter()
                .flat_map(|t| table[t as usize * 40..][..40].to_vec());
            vec![Expected::U32(each.collect())]
        },
    )
}

/// Makes the case of few different values, so that the first of several equal ones must be found.
fn logits(prng: &mut Prng, n: usize) -> Arg {
    input(draws(prng, n, |p| {
        f32::from(u16::try_from(p.below(50)).expect("it is below 50"))
    }))
}

fn first_maxima(args: &[Arg], columns: usize) -> Vec<Expected> {
    let rows = values::<f32>(&args[0]);
    let at = |row: &[f32]| {
        let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        size(row.iter().position(|v| *v == best).unwrap_or(0))
    };
    vec![Expected::U32(rows.chunks(columns).map(at).collect())]
}

fn arg_max(prng: &mut Prng) -> Launch {
    let args = vec![logits(prng, 6 * 500), output(24), Arg::S32(500)];
    Launch::line(6, 128, args, |_, args| first_maxima(args, 500))
}

fn triton_arg_max(prng: &mut Prng) -> Launch {
    let args = vec![logits(prng, 6 * 100), output(24), Arg::S32(100)];
    Launch::line(6, 64, args, |_, args| first_maxima(args, 100))
        .of_triton()
        .with_shared(4096)
}

fn gemv_w4(prng: &mut Prng) -> Launch {
    let weights = draws(prng, 8 * 40, Prng::next_u32);
    let (scales, x) = (
        floats(prng, 8 * 10, 0.01, 0.1),
        floats(prng, 320, -1.0, 1.0),
    );
    let args = vec![
        input(weights),
        input(scales),
        input(x),
        output(32),
        Arg::S32(320),
    ];
    Launch::line(2, 128, args, |_, args| {
        let weights = values::<u8>(&args[0]);
        let (scales, x) = (widened(&args[1]), widened(&args[2]));
        let columns = count(&args[4]);
        let one = |row: usize| {
            let each = (0..columns).map(|c| {
                let byte = weights[(row * columns + c) / 2];
                let nibble = if c % 2 == 0 { byte & 15 } else { byte >> 4 };
                (f64::from(nibble) - 8.0) * x[c] * scales[row * columns / 32 + c / 32]
            });
            near(each.sum(), 1e-5, 1e-5)
        };
        vec![Expected::F32((0..8).map(one).collect())]
    })
}
