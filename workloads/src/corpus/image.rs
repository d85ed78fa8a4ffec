//! Grids of cells or pixels: stencils, filters, automata, escape times, transforms.

use super::{
    Launch, below, bytes, draws, exactly, f32s, near, pairwise, reals, rows, singles, size,
};
use crate::case::Arg;
use crate::prng::Prng;
use crate::verify::Expected;

rows! {
    nvcc/stencil2d: stencil2d;
    nvcc/stencil3d_queue: stencil3d_queue;
    nvcc/convolution: convolve_rows, convolve_3x3;
    nvcc/image: grey, sobel, median3, box_blur_columns;
    nvcc/life: life;
    nvcc/mandelbrot: mandelbrot;
    nvcc/heat_multi: heat_multi;
    nvcc/video_simd: sad_blocks;
    nvcc/fft: fft256;
    nvcc/nbody: nbody;
}

const W: usize = 45;
const H: usize = 33;

/// Returns a picture whose inner cells have the results of a function of their index; the others stay nine.
fn inner(result: impl Fn(usize) -> u8) -> Vec<u8> {
    let mut out = vec![9; W * H];
    for i in (1..H - 1).flat_map(|y| (1..W - 1).map(move |x| y * W + x)) {
        out[i] = result(i);
    }
    out
}

fn stencil2d(prng: &mut Prng) -> Launch {
    let cells = reals(prng, W * H, -1.0, 1.0);
    let at = |x: usize, y: usize| cells[y.min(H - 1) * W + x.min(W - 1)];
    let one = |i: usize| {
        let (x, y) = (i % W, i / W);
        let around =
            at(x.saturating_sub(1), y) + at(x + 1, y) + at(x, y.saturating_sub(1)) + at(x, y + 1);
        0.5 * at(x, y) + 0.125 * around
    };
    Launch::boxed([3, 3, 1], [16, 16, 1])
        .input(singles(&cells))
        .output(f32s((0..W * H).map(one), 1e-6, 1e-6))
        .sizes([W, H])
}

fn stencil3d_queue(prng: &mut Prng) -> Launch {
    const E: usize = 12;
    let cells = reals(prng, E * E * E, -1.0, 1.0);
    let one = |i: usize| {
        let position = [i % E, i / E % E, i / E / E];
        if position.iter().any(|p| *p == 0 || *p == E - 1) {
            return near(0.0, 0.0, 0.0);
        }
        let sides = [1, E, E * E].iter().map(|d| cells[i - d] + cells[i + d]);
        near(0.4 * cells[i] + 0.1 * sides.sum::<f64>(), 0.0, 1e-15)
    };
    let after = Expected::F64((0..E * E * E).map(one).collect());
    Launch::boxed([2, 2, 1], [8, 8, 1])
        .input(&cells)
        .inout(vec![0.0_f64; E * E * E], after)
        .sizes([E, E, E])
        .scalars([Arg::F64(0.4), Arg::F64(0.1)])
}

fn convolve_rows(prng: &mut Prng) -> Launch {
    let cells = reals(prng, W * H, -1.0, 1.0);
    let taps = [0.05, 0.09, 0.12, 0.15, 0.18, 0.15, 0.12, 0.09, 0.05];
    let one = |i: usize| -> f64 {
        let (x, row) = (i % W, i - i % W);
        let each = taps.iter().enumerate().filter_map(|(k, tap)| {
            let at = (x + k).checked_sub(4).filter(|at| *at < W)?;
            Some(tap * cells[row + at])
        });
        each.sum()
    };
    Launch::boxed([1, 33, 1], [64, 1, 1])
        .input(singles(&cells))
        .output(f32s((0..W * H).map(one), 0.0, 1e-6))
        .sizes([W, H])
}

fn convolve_3x3(prng: &mut Prng) -> Launch {
    const C: usize = 3;
    const O: usize = 2;
    const E: usize = 18;
    let cells = reals(prng, C * E * E, -1.0, 1.0);
    let weights = reals(prng, O * C * 9, -1.0, 1.0);
    let one = |i: usize| -> f64 {
        let (x, y, o) = (i % 16, i / 16 % 16, i / 256);
        let each = (0..C * 9).map(|k| {
            let (c, dy, dx) = (k / 9, k / 3 % 3, k % 3);
            cells[(c * E + y + dy) * E + x + dx] * weights[o * C * 9 + k]
        });
        each.sum()
    };
    Launch::boxed([2, 2, 2], [8, 8, 1])
        .input(singles(&cells))
        .input(singles(&weights))
        .output(f32s((0..O * 256).map(one), 0.0, 1e-5))
        .sizes([C, E, E])
}

fn grey(prng: &mut Prng) -> Launch {
    let pixels = bytes(prng, 4000);
    let one = |p: &[u8]| {
        let weighted = pairwise(&[77, 150, 29], &p[..3], |w, v| w * u16::from(v));
        weighted.sum::<u16>().to_le_bytes()[1]
    };
    Launch::line(8, 128)
        .input(&pixels)
        .output(exactly(pixels.chunks(4).map(one)))
        .size(1000)
}

fn sobel(prng: &mut Prng) -> Launch {
    let p = bytes(prng, W * H);
    // The kernel's two masks as products of a smoothing and a difference.
    let smooth =
        |a: usize, b: usize, c: usize| i32::from(p[a]) + 2 * i32::from(p[b]) + i32::from(p[c]);
    let after = inner(|i| {
        let gx = smooth(i + 1 - W, i + 1, i + 1 + W) - smooth(i - 1 - W, i - 1, i - 1 + W);
        let gy = smooth(i + W - 1, i + W, i + W + 1) - smooth(i - W - 1, i - W, i - W + 1);
        u8::try_from(gx.abs() + gy.abs()).unwrap_or(255)
    });
    Launch::boxed([3, 5, 1], [16, 8, 1])
        .input(&p)
        .inout(vec![9_u8; W * H], after)
        .sizes([W, H])
}

fn median3(prng: &mut Prng) -> Launch {
    let p = bytes(prng, W * H);
    let after = inner(|i| {
        let mut nine = [i - W, i, i + W].map(|c| [p[c - 1], p[c], p[c + 1]]);
        let nine = nine.as_flattened_mut();
        nine.sort_unstable();
        nine[4]
    });
    Launch::boxed([1, 33, 1], [64, 1, 1])
        .input(&p)
        .inout(vec![9_u8; W * H], after)
        .sizes([W, H])
}

fn box_blur_columns(prng: &mut Prng) -> Launch {
    let pixels = below(prng, W * H, 4096);
    let halfword = |v: u32| u16::try_from(v).expect("it is below 4096");
    let one = |i: usize| {
        let each = (0..7).map(|d| (i / W + d).saturating_sub(3).min(H - 1));
        halfword(each.map(|y| pixels[y * W + i % W]).sum::<u32>() / 7)
    };
    Launch::line(2, 32)
        .input(pixels.iter().copied().map(halfword))
        .output(exactly((0..W * H).map(one)))
        .sizes([W, H, 3])
}

fn life(prng: &mut Prng) -> Launch {
    const WORDS: usize = 5;
    const ROWS: usize = 20;
    let words = draws(prng, WORDS * ROWS, |p| p.next_u32() & p.next_u32());
    let width = WORDS * 32;
    let alive = |x: usize, y: usize| words[y % ROWS * WORDS + x % width / 32] >> (x % 32) & 1;
    let word = |i: usize| {
        let (w, y) = (i % WORDS, i / WORDS);
        (0..32).fold(0, |word, bit| {
            let x = w * 32 + bit;
            let square =
                [ROWS - 1, 0, 1].map(|dy| [width - 1, 0, 1].map(|dx| alive(x + dx, y + dy)));
            let count = square.as_flattened().iter().sum::<u32>() - alive(x, y);
            word | u32::from(count == 3 || (count == 2 && alive(x, y) == 1)) << bit
        })
    };
    Launch::boxed([1, 20, 1], [32, 1, 1])
        .input(&words)
        .output(exactly((0..WORDS * ROWS).map(word)))
        .sizes([WORDS, ROWS])
}

/// Makes the case. The step is a power of two and the orbit uses the kernel's own fused operations, because at the
/// border of the set the last bit decides.
fn mandelbrot(_: &mut Prng) -> Launch {
    let one = |i: usize| {
        let at = |n: usize| f64::from(size(n)) * 0.0625;
        let (cx, cy) = (at(i % W) - 2.0, at(i / W) - 1.0);
        let (mut x, mut y, mut n) = (0.0_f64, 0.0_f64, 0_u32);
        while n < 50 && x.mul_add(x, y * y) <= 4.0 {
            (x, y) = (x.mul_add(x, -(y * y)) + cx, (2.0 * x).mul_add(y, cy));
            n += 1;
        }
        n
    };
    Launch::boxed([3, 5, 1], [16, 8, 1])
        .output(exactly((0..W * H).map(one)))
        .sizes([W, H])
        .scalars([-2.0, -1.0, 0.0625].map(Arg::F64))
        .size(50)
}

/// Makes the case: the size is a structure of three words, which lie as three parameters do.
fn heat_multi(prng: &mut Prng) -> Launch {
    const X: usize = 21;
    let cells = reals(prng, X * 9 * 7, -1.0, 1.0);
    let one = |i: usize| {
        let x = i % X;
        let left = if x > 0 { cells[i - 1] } else { 0.0 };
        let right = if x < X - 1 { cells[i + 1] } else { 0.0 };
        0.25 * left + 0.5 * cells[i] + 0.25 * right
    };
    Launch::boxed([2, 2, 3], [8, 2, 2])
        .input(singles(&cells))
        .output(f32s((0..cells.len()).map(one), 1e-6, 1e-7))
        .sizes([X, 9, 7])
}

fn sad_blocks(prng: &mut Prng) -> Launch {
    let (a, b) = (bytes(prng, 400 * 16), bytes(prng, 400 * 16));
    let differences: Vec<u32> = pairwise(&a, &b, |a, b| a.abs_diff(b).into()).collect();
    let sums = differences.chunks(16).map(|c| c.iter().sum::<u32>());
    Launch::line(4, 128)
        .input(&a)
        .input(&b)
        .output(exactly(sums))
        .sizes([4, 400])
}

fn fft256(prng: &mut Prng) -> Launch {
    let signal = reals(prng, 2 * 512, -1.0, 1.0);
    // The definition: a sum over all samples for each frequency.
    let one = |at: usize| -> f64 {
        let (block, frequency) = (at / 512, at / 2 % 256);
        let samples = signal[block * 512..][..512].chunks(2).enumerate();
        let part = |(t, s): (usize, &[f64])| {
            let turn = f64::from(size(t * frequency % 256)) / 256.0;
            let (sine, cosine) = (-2.0 * std::f64::consts::PI * turn).sin_cos();
            let (re, im) = (s[0], s[1]);
            if at.is_multiple_of(2) {
                re * cosine - im * sine
            } else {
                re * sine + im * cosine
            }
        };
        samples.map(part).sum()
    };
    Launch::line(2, 128)
        .input(singles(&signal))
        .output(f32s((0..1024).map(one), 0.0, 2e-4))
}

fn nbody(prng: &mut Prng) -> Launch {
    const N: usize = 150;
    let bodies = reals(prng, 4 * N, -1.0, 1.0);
    let one = |me: &[f64]| {
        let mut sum = [0.0; 4];
        let mut magnitude = [0.0; 4];
        for other in bodies.chunks(4) {
            let d: [f64; 3] = std::array::from_fn(|k| other[k] - me[k]);
            let scale = other[3] / (d.iter().map(|d| d * d).sum::<f64>() + 0.01).powf(1.5);
            for k in 0..3 {
                sum[k] += d[k] * scale;
                magnitude[k] += (d[k] * scale).abs();
            }
        }
        // The reciprocal square root is within two units in the last place, and enters cubed.
        std::array::from_fn::<_, 4, _>(|k| near(sum[k], 0.0, magnitude[k] * 2e-5))
    };
    let accelerations = bodies.chunks(4).flat_map(one).collect();
    Launch::line(3, 64)
        .input(singles(&bodies))
        .output(Expected::F32(accelerations))
        .size(N)
        .with_shared(1024)
}
