//! Kernels where each thread makes its own results of its own elements.

use super::{
    Kernel, Launch, around, below, count, doubles, draws, floats, halves, inout, input, near,
    output, row, values,
};
use crate::case::Arg;
use crate::half;
use crate::prng::Prng;
use crate::verify::Expected;

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "saxpy", "saxpy", saxpy),
    row!("nvcc", "grid_stride", "scale_shift_i32", scale_shift_i32),
    row!("nvcc", "grid_stride", "scale_shift_f64", scale_shift_f64),
    row!("nvcc", "grid_stride", "scale_shift_i64", scale_shift_i64),
    row!("nvcc", "half_math", "half2_axpy", half2_axpy),
    row!("nvcc", "half_math", "half_relu", half_relu),
    row!("nvcc", "bit_tricks", "bit_tricks", bit_tricks),
    row!("nvcc", "integers", "divisions", divisions),
    row!("nvcc", "integers", "modular_power", modular_power),
    row!("nvcc", "integers", "wide_multiply", wide_multiply),
    row!("nvcc", "special_float", "special_float", special_float),
    row!("nvcc", "special_double", "special_double", special_double),
    row!(
        "nvcc",
        "special_double",
        "trigonometry_double",
        trigonometry_double
    ),
    row!("nvcc", "lambdas", "lambdas", lambdas),
    row!("clang", "polynomial", "clang_polynomial", clang_polynomial),
    row!(
        "clang",
        "unoptimised",
        "clang_unoptimised",
        clang_unoptimised
    ),
    row!("triton", "add", "triton_add", triton_add),
    row!("triton", "clip", "triton_clip", triton_clip),
    row!("triton", "gather", "triton_gather", triton_gather),
    row!("triton", "inline", "triton_inline", triton_inline),
    row!("triton", "silu", "triton_silu", triton_silu),
];

const N: usize = 1000;
const N_S32: i32 = 1000;
const N_U32: u32 = 1000;

fn saxpy(prng: &mut Prng) -> Launch {
    let (x, y) = (floats(prng, N, -4.0, 4.0), floats(prng, N, -4.0, 4.0));
    let args = vec![Arg::F32(1.5), input(x), inout(y), Arg::S32(N_S32)];
    Launch::line(8, 128, args, |_, args| {
        let (x, y) = (values::<f32>(&args[1]), values::<f32>(&args[2]));
        let each = x
            .iter()
            .zip(&y)
            .map(|(x, y)| 1.5 * f64::from(*x) + f64::from(*y));
        vec![Expected::F32(each.map(|v| near(v, 1e-6, 1e-6)).collect())]
    })
}

fn scale_shift_i32(prng: &mut Prng) -> Launch {
    let data = around(prng, N, 1 << 30);
    let args = vec![inout(data), Arg::S32(-7), Arg::S32(11), Arg::U32(N_U32)];
    Launch::line(3, 96, args, |_, args| {
        let each = values::<i32>(&args[0])
            .into_iter()
            .map(|v| v.wrapping_mul(-7).wrapping_add(11).cast_unsigned());
        vec![Expected::U32(each.collect())]
    })
}

fn scale_shift_f64(prng: &mut Prng) -> Launch {
    let data = doubles(prng, N, -9.0, 9.0);
    let args = vec![inout(data), Arg::F64(0.3), Arg::F64(-2.5), Arg::U32(N_U32)];
    Launch::line(2, 128, args, |_, args| {
        let each = values::<f64>(&args[0])
            .into_iter()
            .map(|v| near(v * 0.3 - 2.5, 1e-15, 1e-14));
        vec![Expected::F64(each.collect())]
    })
}

fn scale_shift_i64(prng: &mut Prng) -> Launch {
    let data = draws(prng, N, Prng::next_u64);
    let args = vec![
        inout(data),
        Arg::U64(0x1_0000_0001),
        Arg::U64(5),
        Arg::U32(N_U32),
    ];
    Launch::line(2, 64, args, |_, args| {
        let each = values::<u64>(&args[0])
            .into_iter()
            .map(|v| v.wrapping_add(v << 32).wrapping_add(5));
        vec![Expected::U64(each.collect())]
    })
}

/// Makes the case: the scalar is a half, two bytes before an aligned word: it is given as a word of its own.
fn half2_axpy(prng: &mut Prng) -> Launch {
    let (x, y) = (halves(prng, 2 * N), halves(prng, 2 * N));
    let a = Arg::U32(u32::from(half::exact(0.5)));
    Launch::line(
        8,
        128,
        vec![input(x), inout(y), a, Arg::S32(N_S32)],
        |_, args| {
            let (x, y) = (values::<u16>(&args[0]), values::<u16>(&args[1]));
            let each = x
                .iter()
                .zip(&y)
                .map(|(x, y)| near(0.5 * half::to_f64(*x) + half::to_f64(*y), 0.0, 0.0));
            vec![Expected::F16(each.collect())]
        },
    )
}

fn half_relu(prng: &mut Prng) -> Launch {
    let x = halves(prng, N);
    Launch::line(
        8,
        128,
        vec![input(x), output(2 * N), Arg::S32(N_S32)],
        |_, args| {
            let each = values::<u16>(&args[0])
                .into_iter()
                .map(|x| near(half::to_f64(x).max(0.0), 0.0, 0.0));
            vec![Expected::F16(each.collect())]
        },
    )
}

fn bit_tricks(prng: &mut Prng) -> Launch {
    let (a, mut b) = (
        draws(prng, N, Prng::next_u32),
        draws(prng, N, Prng::next_u32),
    );
    b[0] = 0;
    let args = vec![
        input(a),
        input(b),
        output(4 * N),
        output(8 * N),
        Arg::S32(N_S32),
    ];
    Launch::line(8, 128, args, |_, args| {
        let (a, b) = (values::<u32>(&args[0]), values::<u32>(&args[1]));
        let narrow = |x: u32, y: u32| {
            let first_set = if y == 0 { 0 } else { y.trailing_zeros() + 1 };
            let mut r = x.count_ones() + (x.leading_zeros() << 8) + (first_set << 16);
            let pair = u64::from(y) << 32 | u64::from(x);
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the upper half is what is left"
            )]
            let shifted = (pair << (y & 31) >> 32) as u32;
            // A clamped shift by 40 is one by 32: the upper word.
            r ^= x.reverse_bits().wrapping_add(shifted).wrapping_add(y);
            let bytes = [x.to_le_bytes(), y.to_le_bytes()].concat();
            let permuted = u32::from_le_bytes([bytes[1], bytes[6], bytes[4], bytes[2]]);
            let high =
                u32::try_from((u64::from(x) * u64::from(y)) >> 32).expect("it is the upper half");
            let halved = u32::try_from((u64::from(x) + u64::from(y)) >> 1).expect("an average");
            r ^ permuted
                .wrapping_add(high)
                .wrapping_add(x.abs_diff(y))
                .wrapping_add(7)
                .wrapping_add(halved)
                .wrapping_add((x & 0xfff) * (y & 0xfff))
        };
        let wide = |x: u32, y: u32| {
            let w = u64::from(x) << 32 | u64::from(y);
            let product = u128::from(w) * u128::from(w ^ 0x0123_4567_89ab_cdef);
            let high = u64::try_from(product >> 64).expect("it is the upper half");
            high.wrapping_add(u64::from(w.count_ones()))
                .wrapping_add(u64::from(w.leading_zeros()))
                .wrapping_add(w.reverse_bits())
        };
        let pairs = || a.iter().zip(&b);
        vec![
            Expected::U32(pairs().map(|(x, y)| narrow(*x, *y)).collect()),
            Expected::U64(pairs().map(|(x, y)| wide(*x, *y)).collect()),
        ]
    })
}

fn divisions(prng: &mut Prng) -> Launch {
    let a = around(prng, N, 1 << 30);
    let b = draws(prng, N, |p| p.below(1000).cast_signed() * 3 - 1499);
    let c = draws(prng, N, |p| p.next_u64().cast_signed() >> p.below(40));
    let d = draws(prng, N, |p| (p.next_u64().cast_signed() >> p.below(60)) | 1);
    let args = vec![
        input(a),
        input(b),
        input(c),
        input(d),
        output(4 * N),
        output(8 * N),
        Arg::S32(N_S32),
    ];
    Launch::line(8, 128, args, |_, args| {
        let (a, b) = (values::<i32>(&args[0]), values::<i32>(&args[1]));
        let (c, d) = (values::<i64>(&args[2]), values::<i64>(&args[3]));
        let narrow = a.iter().zip(&b).map(|(&a, &b)| {
            let q = a / b + a / 7;
            q.wrapping_add((a - a / b * b) * 3).cast_unsigned()
        });
        let wide = c.iter().zip(&d).map(|(&c, &d)| {
            let rest = (c.wrapping_rem(d) << 1).cast_unsigned();
            c.wrapping_div(d)
                .cast_unsigned()
                .wrapping_add(rest)
                .wrapping_add(c.cast_unsigned() / 1_000_003)
        });
        vec![
            Expected::U32(narrow.collect()),
            Expected::U64(wide.collect()),
        ]
    })
}

/// A prime below 2³², so that a square fits in 64 bits.
const MODULUS: u64 = 4_294_967_291;

fn modular_power(prng: &mut Prng) -> Launch {
    let base = draws(prng, N, Prng::next_u64);
    let args = vec![
        input(base),
        output(8 * N),
        Arg::U64(MODULUS - 2),
        Arg::U64(MODULUS),
        Arg::S32(N_S32),
    ];
    Launch::line(8, 128, args, |_, args| {
        // By Fermat's theorem the power is the inverse, which Euclid's algorithm finds as well.
        let inverse = |x: u64| {
            let (mut r, mut next) = (i128::from(MODULUS), i128::from(x % MODULUS));
            let (mut t, mut t_next) = (0_i128, 1_i128);
            while next != 0 {
                let q = r / next;
                (r, next) = (next, r - q * next);
                (t, t_next) = (t_next, t - q * t_next);
            }
            u64::try_from(t.rem_euclid(i128::from(MODULUS))).expect("a remainder is small")
        };
        vec![Expected::U64(
            values::<u64>(&args[0]).into_iter().map(inverse).collect(),
        )]
    })
}

fn wide_multiply(prng: &mut Prng) -> Launch {
    let (a, b) = (
        draws(prng, N, Prng::next_u64),
        draws(prng, N, Prng::next_u64),
    );
    Launch::line(
        8,
        128,
        vec![input(a), input(b), output(16 * N), Arg::S32(N_S32)],
        |_, args| {
            let (a, b) = (values::<u64>(&args[0]), values::<u64>(&args[1]));
            let halves = a.iter().zip(&b).flat_map(|(&a, &b)| {
                let (low, high) = a.carrying_mul_by_parts(b);
                let (low, carry) = low.overflowing_add(a);
                [low, high + u64::from(carry)]
            });
            vec![Expected::U64(halves.collect())]
        },
    )
}

/// The product of two words in two words, made of 32-bit parts.
trait ByParts {
    fn carrying_mul_by_parts(self, other: Self) -> (u64, u64);
}

impl ByParts for u64 {
    fn carrying_mul_by_parts(self, other: Self) -> (u64, u64) {
        const LOW: u64 = 0xffff_ffff;
        let (a0, a1, b0, b1) = (self & LOW, self >> 32, other & LOW, other >> 32);
        let (p00, p01, p10, p11) = (a0 * b0, a0 * b1, a1 * b0, a1 * b1);
        let middle = (p00 >> 32) + (p01 & LOW) + (p10 & LOW);
        let high = p11 + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
        (p00 & LOW | middle << 32, high)
    }
}

fn special_float(prng: &mut Prng) -> Launch {
    let x = floats(prng, N, -3.0, 3.0);
    Launch::line(
        8,
        128,
        vec![input(x), output(4 * N), Arg::S32(N_S32)],
        |_, args| {
            let each = |x: f32| {
                let x = f64::from(x);
                let sum =
                    x.sin() + x.cos() + x.exp() + (x.abs() + 1.0).ln() + (x.abs() + 0.5).powf(1.5);
                // The remainder of a float by the float nearest to 0.7 is exact.
                let rest = x % f64::from(0.7_f32);
                let value = sum + x.atan() + x.tanh() + erf(x) + x.cbrt() + rest;
                near(value, 2e-6, 1e-5)
            };
            vec![Expected::F32(
                values::<f32>(&args[0]).into_iter().map(each).collect(),
            )]
        },
    )
}

/// Returns the error function by its series (Abramowitz and Stegun, 7.1.6), which converges fast for small arguments.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

fn special_double(prng: &mut Prng) -> Launch {
    let x = doubles(prng, N, -3.0, 3.0);
    Launch::line(
        8,
        128,
        vec![input(x), output(8 * N), Arg::S32(N_S32)],
        |_, args| {
            let each = |x: f64| {
                let sum = x.exp() + (x.abs() + 1.0).ln() + (x.abs() + 0.5).powf(1.5) + x.atan2(2.0);
                near(
                    sum + x.cbrt() + x.abs().sqrt() + erf(x) + x.tanh(),
                    1e-14,
                    1e-14,
                )
            };
            vec![Expected::F64(
                values::<f64>(&args[0]).into_iter().map(each).collect(),
            )]
        },
    )
}

fn trigonometry_double(prng: &mut Prng) -> Launch {
    let x = doubles(prng, N, -100.0, 100.0);
    Launch::line(
        8,
        128,
        vec![input(x), output(8 * N), Arg::S32(N_S32)],
        |_, args| {
            let each = |x: f64| {
                near(
                    0.5 * (2.0 * x).sin() + x.sin() / (1.0 + x.cos()),
                    1e-11,
                    1e-13,
                )
            };
            vec![Expected::F64(
                values::<f64>(&args[0]).into_iter().map(each).collect(),
            )]
        },
    )
}

fn lambdas(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 10_000);
    Launch::line(
        2,
        96,
        vec![input(x), output(4 * N), Arg::S32(N_S32), Arg::S32(17)],
        |_, args| {
            let each = (0..)
                .zip(values::<i32>(&args[0]))
                .map(|(i, x): (i32, i32)| (3 * x + 51) ^ i);
            vec![Expected::U32(each.map(i32::cast_unsigned).collect())]
        },
    )
}

fn clang_polynomial(prng: &mut Prng) -> Launch {
    let x = floats(prng, N, -2.0, 2.0);
    Launch::line(
        8,
        128,
        vec![input(x), output(4 * N), Arg::S32(N_S32)],
        |_, args| {
            let each = |x: f32| {
                let x = f64::from(x);
                near(
                    0.125 * x.powi(4) - 0.5 * x.powi(3) + 1.5 * x.powi(2) - 2.0 * x + 3.0,
                    1e-6,
                    2e-6,
                )
            };
            vec![Expected::F32(
                values::<f32>(&args[0]).into_iter().map(each).collect(),
            )]
        },
    )
}

fn clang_unoptimised(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    Launch::line(
        8,
        128,
        vec![input(x), output(4 * N), Arg::S32(N_S32)],
        |_, args| {
            let x = values::<i32>(&args[0]);
            let at = |i: usize| (x[i.saturating_sub(1)] + 2 * x[i] + x[(i + 1).min(N - 1)]) / 4;
            vec![Expected::U32(
                (0..N).map(|i| at(i).cast_unsigned()).collect(),
            )]
        },
    )
}

fn triton_add(prng: &mut Prng) -> Launch {
    let (x, y) = (floats(prng, N, -4.0, 4.0), floats(prng, N, -4.0, 4.0));
    let args = vec![input(x), input(y), output(4 * N), Arg::S32(N_S32)];
    Launch::line(4, 128, args, |_, args| {
        let (x, y) = (values::<f32>(&args[0]), values::<f32>(&args[1]));
        let each = x
            .iter()
            .zip(&y)
            .map(|(x, y)| near(f64::from(*x) + f64::from(*y), 6e-8, 0.0));
        vec![Expected::F32(each.collect())]
    })
    .of_triton()
}

fn triton_clip(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 500);
    let args = vec![
        input(x),
        output(4 * N),
        Arg::S32(-100),
        Arg::S32(150),
        Arg::S32(N_S32),
    ];
    Launch::line(8, 64, args, |_, args| {
        // As in C, the remainder of a multiple of three is zero, whatever the sign.
        let each = values::<i32>(&args[0])
            .into_iter()
            .map(|v| match v.rem_euclid(3) {
                0 => v.clamp(-100, 150),
                _ => -v,
            });
        vec![Expected::U32(each.map(i32::cast_unsigned).collect())]
    })
    .of_triton()
}

fn triton_gather(prng: &mut Prng) -> Launch {
    let (x, indices) = (floats(prng, 300, -4.0, 4.0), below(prng, N, 300));
    let args = vec![input(x), input(indices), output(4 * N), Arg::S32(N_S32)];
    Launch::line(4, 128, args, |_, args| {
        let x = values::<u32>(&args[0]);
        let each = values::<u32>(&args[1]).into_iter().map(|i| x[i as usize]);
        vec![Expected::U32(each.collect())]
    })
    .of_triton()
}

fn triton_inline(prng: &mut Prng) -> Launch {
    let x = draws(prng, N, Prng::next_u32);
    let args = vec![input(x), output(4 * N), Arg::S32(N_S32)];
    Launch::line(8, 128, args, |_, args| {
        let n = count(&args[2]);
        let each = values::<u32>(&args[0]).into_iter().take(n).map(|v| {
            // The third operand of the logical operation is a constant, so its table is taken bit by bit.
            let (a, b, c) = (v << 3, v, 0xff_u32);
            let table = 0x6a_u32;
            let bit = |k: u32| table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1;
            let t1 = (0..32).fold(0, |word, k| word | bit(k) << k);
            // The selector 0x1032 exchanges the halves of the first word.
            t1.rotate_left(16)
        });
        vec![Expected::U32(each.collect())]
    })
    .of_triton()
}

fn triton_silu(prng: &mut Prng) -> Launch {
    let mut x = halves(prng, N);
    x[0] = half::exact(4.0);
    let args = vec![input(x), output(2 * N), Arg::S32(N_S32)];
    Launch::line(1, 128, args, |_, args| {
        let each = values::<u16>(&args[0]).into_iter().map(|x| {
            let x = half::to_f64(x);
            near(x / (1.0 + (-x).exp()), 1e-3, 1e-6)
        });
        vec![Expected::F16(each.collect())]
    })
    .of_triton()
}
