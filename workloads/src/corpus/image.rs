//! Grids of cells or pixels: stencils, filters, automata, escape times, transforms.

use super::{
    Kernel, Launch, below, bytes, doubles, draws, floats, inout, input, near, output, row, values,
};
use crate::case::Arg;
use crate::prng::Prng;
use crate::verify::Expected;

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "stencil2d", "stencil2d", stencil2d),
    row!(
        "nvcc",
        "stencil3d_queue",
        "stencil3d_queue",
        stencil3d_queue
    ),
    row!("nvcc", "convolution", "convolve_rows", convolve_rows),
    row!("nvcc", "convolution", "convolve_3x3", convolve_3x3),
    row!("nvcc", "image", "grey", grey),
    row!("nvcc", "image", "sobel", sobel),
    row!("nvcc", "image", "median3", median3),
    row!("nvcc", "image", "box_blur_columns", box_blur_columns),
    row!("nvcc", "life", "life", life),
    row!("nvcc", "mandelbrot", "mandelbrot", mandelbrot),
    row!("nvcc", "heat_multi", "heat_multi", heat_multi),
    row!("nvcc", "video_simd", "sad_blocks", sad_blocks),
    row!("nvcc", "fft", "fft256", fft256),
    row!("nvcc", "nbody", "nbody", nbody),
];

const W: usize = 45;
const H: usize = 33;

fn extent() -> [Arg; 2] {
    [Arg::S32(45), Arg::S32(33)]
}

/// Returns every inner cell, by its index.
fn inner() -> impl Iterator<Item = usize> {
    (1..H - 1).flat_map(|y| (1..W - 1).map(move |x| y * W + x))
}

fn stencil2d(prng: &mut Prng) -> Launch {
    let mut args = vec![input(floats(prng, W * H, -1.0, 1.0)), output(4 * W * H)];
    args.extend(extent());
    Launch::boxed([3, 3, 1], [16, 16, 1], args, |_, args| {
        let cells = values::<f32>(&args[0]);
        let at = |x: usize, y: usize| f64::from(cells[y.min(H - 1) * W + x.min(W - 1)]);
        let one = |i: usize| {
            let (x, y) = (i % W, i / W);
            let around = at(x.saturating_sub(1), y)
                + at(x + 1, y)
                + at(x, y.saturating_sub(1))
                + at(x, y + 1);
            near(0.5 * at(x, y) + 0.125 * around, 1e-6, 1e-6)
        };
        vec![Expected::F32((0..W * H).map(one).collect())]
    })
}

fn stencil3d_queue(prng: &mut Prng) -> Launch {
    const E: usize = 12;
    let cells = doubles(prng, E * E * E, -1.0, 1.0);
    let args = vec![
        input(cells),
        inout(vec![0.0_f64; E * E * E]),
        Arg::S32(12),
        Arg::S32(12),
        Arg::S32(12),
        Arg::F64(0.4),
        Arg::F64(0.1),
    ];
    Launch::boxed([2, 2, 1], [8, 8, 1], args, |_, args| {
        let cells = values::<f64>(&args[0]);
        let one = |i: usize| {
            let place = [i % E, i / E % E, i / E / E];
            if place.iter().any(|p| *p == 0 || *p == E - 1) {
                return near(0.0, 0.0, 0.0);
            }
            let sides = [1, E, E * E].iter().map(|d| cells[i - d] + cells[i + d]);
            near(0.4 * cells[i] + 0.1 * sides.sum::<f64>(), 0.0, 1e-15)
        };
        vec![Expected::F64((0..E * E * E).map(one).collect())]
    })
}

fn convolve_rows(prng: &mut Prng) -> Launch {
    let mut args = vec![input(floats(prng, W * H, -1.0, 1.0)), output(4 * W * H)];
    args.extend(extent());
    Launch::boxed([1, 33, 1], [64, 1, 1], args, |_, args| {
        let cells = values::<f32>(&args[0]);
        let taps = [0.05, 0.09, 0.12, 0.15, 0.18, 0.15, 0.12, 0.09, 0.05];
        let one = |i: usize| {
            let (x, row) = (i % W, i - i % W);
            let each = taps.iter().enumerate().filter_map(|(k, tap)| {
                let at = (x + k).checked_sub(4).filter(|at| *at < W)?;
                Some(tap * f64::from(cells[row + at]))
            });
            near(each.sum(), 0.0, 1e-6)
        };
        vec![Expected::F32((0..W * H).map(one).collect())]
    })
}

fn convolve_3x3(prng: &mut Prng) -> Launch {
    const C: usize = 3;
    const O: usize = 2;
    const E: usize = 18;
    let (cells, weights) = (
        floats(prng, C * E * E, -1.0, 1.0),
        floats(prng, O * C * 9, -1.0, 1.0),
    );
    let args = vec![
        input(cells),
        input(weights),
        output(4 * O * 256),
        Arg::S32(3),
        Arg::S32(18),
        Arg::S32(18),
    ];
    Launch::boxed([2, 2, 2], [8, 8, 1], args, |_, args| {
        let (cells, weights) = (values::<f32>(&args[0]), values::<f32>(&args[1]));
        let one = |i: usize| {
            let (x, y, o) = (i % 16, i / 16 % 16, i / 256);
            let each = (0..C * 9).map(|k| {
                let (c, dy, dx) = (k / 9, k / 3 % 3, k % 3);
                f64::from(cells[(c * E + y + dy) * E + x + dx]) * f64::from(weights[o * C * 9 + k])
            });
            near(each.sum(), 0.0, 1e-5)
        };
        vec![Expected::F32((0..O * 256).map(one).collect())]
    })
}

fn grey(prng: &mut Prng) -> Launch {
    Launch::line(
        8,
        128,
        vec![input(bytes(prng, 4000)), output(1000), Arg::S32(1000)],
        |_, args| {
            let pixels = values::<u8>(&args[0]);
            let one = |p: &[u8]| {
                let sum = [77, 150, 29]
                    .iter()
                    .zip(p)
                    .map(|(w, v)| w * u16::from(*v))
                    .sum::<u16>();
                sum.to_le_bytes()[1]
            };
            vec![Expected::Bytes(pixels.chunks(4).map(one).collect())]
        },
    )
}

fn sobel(prng: &mut Prng) -> Launch {
    let mut args = vec![input(bytes(prng, W * H)), inout(vec![9_u8; W * H])];
    args.extend(extent());
    Launch::boxed([3, 5, 1], [16, 8, 1], args, |_, args| {
        let p = values::<u8>(&args[0]);
        let mut out = vec![9; W * H];
        for i in inner() {
            // The kernel's two masks as products of a smoothing and a difference.
            let smooth = |a: usize, b: usize, c: usize| {
                i32::from(p[a]) + 2 * i32::from(p[b]) + i32::from(p[c])
            };
            let gx = smooth(i + 1 - W, i + 1, i + 1 + W) - smooth(i - 1 - W, i - 1, i - 1 + W);
            let gy = smooth(i + W - 1, i + W, i + W + 1) - smooth(i - W - 1, i - W, i - W + 1);
            out[i] = u8::try_from(gx.abs() + gy.abs()).unwrap_or(255);
        }
        vec![Expected::Bytes(out)]
    })
}

fn median3(prng: &mut Prng) -> Launch {
    let mut args = vec![input(bytes(prng, W * H)), inout(vec![9_u8; W * H])];
    args.extend(extent());
    Launch::boxed([1, 33, 1], [64, 1, 1], args, |_, args| {
        let p = values::<u8>(&args[0]);
        let mut out = vec![9; W * H];
        for i in inner() {
            let mut nine: Vec<u8> = [i - W, i, i + W]
                .iter()
                .flat_map(|&c| p[c - 1..=c + 1].to_vec())
                .collect();
            nine.sort_unstable();
            out[i] = nine[4];
        }
        vec![Expected::Bytes(out)]
    })
}

fn box_blur_columns(prng: &mut Prng) -> Launch {
    let pixels: Vec<u16> = below(prng, W * H, 4096)
        .into_iter()
        .map(|v| u16::try_from(v).expect("it is below 4096"))
        .collect();
    let mut args = vec![input(pixels), output(2 * W * H)];
    args.extend(extent());
    args.push(Arg::S32(3));
    Launch::line(2, 32, args, |_, args| {
        let pixels = values::<u16>(&args[0]);
        let one = |i: usize| {
            let each = (0..7).map(|d| (i / W + d).saturating_sub(3).min(H - 1));
            let sum: u32 = each.map(|y| u32::from(pixels[y * W + i % W])).sum();
            u16::try_from(sum / 7)
                .expect("a mean of halfwords")
                .to_le_bytes()
        };
        vec![Expected::Bytes((0..W * H).flat_map(one).collect())]
    })
}

fn life(prng: &mut Prng) -> Launch {
    const WORDS: usize = 5;
    const ROWS: usize = 20;
    let cells = draws(prng, WORDS * ROWS, |p| p.next_u32() & p.next_u32());
    let args = vec![
        input(cells),
        output(4 * WORDS * ROWS),
        Arg::U32(5),
        Arg::U32(20),
    ];
    Launch::boxed([1, 20, 1], [32, 1, 1], args, |_, args| {
        let words = values::<u32>(&args[0]);
        let width = WORDS * 32;
        let alive = |x: usize, y: usize| words[y % ROWS * WORDS + x % width / 32] >> (x % 32) & 1;
        let word = |i: usize| {
            let (w, y) = (i % WORDS, i / WORDS);
            (0..32).fold(0, |word, bit| {
                let x = w * 32 + bit;
                let near = [(1, 1), (1, 0), (0, 1)];
                let corner = alive(x + width - 1, y + ROWS - 1)
                    + alive(x + 1, y + ROWS - 1)
                    + alive(x + width - 1, y + 1);
                let sides = alive(x, y + ROWS - 1) + alive(x + width - 1, y);
                let count = corner
                    + sides
                    + near
                        .iter()
                        .map(|(dx, dy)| alive(x + dx, y + dy))
                        .sum::<u32>();
                word | u32::from(count == 3 || (count == 2 && alive(x, y) == 1)) << bit
            })
        };
        vec![Expected::U32((0..WORDS * ROWS).map(word).collect())]
    })
}

/// Makes the case. The step is a power of two and the orbit uses the kernel's own fused operations, because at the
/// border of the set the last bit decides.
fn mandelbrot(_: &mut Prng) -> Launch {
    let mut args = vec![output(4 * W * H)];
    args.extend(extent());
    args.extend([
        Arg::F64(-2.0),
        Arg::F64(-1.0),
        Arg::F64(0.0625),
        Arg::U32(50),
    ]);
    Launch::boxed([3, 5, 1], [16, 8, 1], args, |_, _| {
        let one = |i: usize| {
            let at = |n: usize| f64::from(super::size(n)) * 0.0625;
            let (cx, cy) = (at(i % W) - 2.0, at(i / W) - 1.0);
            let (mut x, mut y, mut n) = (0.0_f64, 0.0_f64, 0);
            while n < 50 && x.mul_add(x, y * y) <= 4.0 {
                (x, y) = (x.mul_add(x, -(y * y)) + cx, (2.0 * x).mul_add(y, cy));
                n += 1;
            }
            n
        };
        vec![Expected::U32((0..W * H).map(one).collect())]
    })
}

/// Makes the case: the size is a structure of three words, which lie as three parameters do.
fn heat_multi(prng: &mut Prng) -> Launch {
    const X: usize = 21;
    let cells = floats(prng, X * 9 * 7, -1.0, 1.0);
    let args = vec![
        input(cells),
        output(4 * X * 9 * 7),
        Arg::U32(21),
        Arg::U32(9),
        Arg::U32(7),
    ];
    Launch::boxed([2, 2, 3], [8, 2, 2], args, |_, args| {
        let cells = values::<f32>(&args[0]);
        let one = |i: usize| {
            let here = f64::from(cells[i]);
            let left = if !i.is_multiple_of(X) {
                f64::from(cells[i - 1])
            } else {
                0.0
            };
            let right = if i % X < X - 1 {
                f64::from(cells[i + 1])
            } else {
                0.0
            };
            near(0.25 * left + 0.5 * here + 0.25 * right, 1e-6, 1e-7)
        };
        vec![Expected::F32((0..cells.len()).map(one).collect())]
    })
}

fn sad_blocks(prng: &mut Prng) -> Launch {
    let (a, b) = (bytes(prng, 400 * 16), bytes(prng, 400 * 16));
    let args = vec![input(a), input(b), output(1600), Arg::S32(4), Arg::S32(400)];
    Launch::line(4, 128, args, |_, args| {
        let (a, b) = (values::<u8>(&args[0]), values::<u8>(&args[1]));
        let differences: Vec<u32> = a
            .iter()
            .zip(&b)
            .map(|(a, b)| u32::from(a.abs_diff(*b)))
            .collect();
        vec![Expected::U32(
            differences.chunks(16).map(|c| c.iter().sum()).collect(),
        )]
    })
}

fn fft256(prng: &mut Prng) -> Launch {
    let signal = floats(prng, 2 * 512, -1.0, 1.0);
    Launch::line(2, 128, vec![input(signal), output(4096)], |_, args| {
        let signal = values::<f32>(&args[0]);
        // The definition: a sum over all samples for each frequency.
        let one = |at: usize| {
            let (block, frequency) = (at / 512, at / 2 % 256);
            let samples = signal[block * 512..][..512].chunks(2).enumerate();
            let part = |(t, s): (usize, &[f32])| {
                let turn = f64::from(super::size(t * frequency % 256)) / 256.0;
                let (sine, cosine) = (-2.0 * std::f64::consts::PI * turn).sin_cos();
                let (re, im) = (f64::from(s[0]), f64::from(s[1]));
                if at.is_multiple_of(2) {
                    re * cosine - im * sine
                } else {
                    re * sine + im * cosine
                }
            };
            near(samples.map(part).sum(), 0.0, 2e-4)
        };
        vec![Expected::F32((0..1024).map(one).collect())]
    })
}

fn nbody(prng: &mut Prng) -> Launch {
    const N: usize = 150;
    let bodies = floats(prng, 4 * N, -1.0, 1.0);
    Launch::line(
        3,
        64,
        vec![input(bodies), output(16 * N), Arg::S32(150)],
        |_, args| {
            let bodies = values::<f32>(&args[0]);
            let body =
                |i: usize| -> [f64; 4] { std::array::from_fn(|k| f64::from(bodies[4 * i + k])) };
            let one = |i: usize| {
                let me = body(i);
                let mut sum = [0.0; 4];
                let mut size = [0.0; 4];
                for other in (0..N).map(body) {
                    let d: [f64; 3] = std::array::from_fn(|k| other[k] - me[k]);
                    let scale = other[3] / (d.iter().map(|d| d * d).sum::<f64>() + 0.01).powf(1.5);
                    for k in 0..3 {
                        sum[k] += d[k] * scale;
                        size[k] += (d[k] * scale).abs();
                    }
                }
                // The reciprocal square root is within two units in the last place, and enters cubed.
                std::array::from_fn::<_, 4, _>(|k| near(sum[k], 0.0, size[k] * 2e-5))
            };
            vec![Expected::F32((0..N).flat_map(one).collect())]
        },
    )
    .with_shared(1024)
}
