//! Kernels where each thread makes its own results of its own elements.

use super::{
    Launch, around, below, double_words, draws, eighths, exactly, f16s, f32s, f64s, halves,
    pairwise, reals, rows, singles, words,
};
use crate::case::Arg;
use crate::prng::Prng;

rows! {
    nvcc/saxpy: saxpy;
    nvcc/grid_stride: scale_shift_i32, scale_shift_f64, scale_shift_i64;
    nvcc/half_math: half2_axpy, half_relu;
    nvcc/bit_tricks: bit_tricks;
    nvcc/integers: divisions, modular_power, wide_multiply;
    nvcc/special_float: special_float;
    nvcc/special_double: special_double, trigonometry_double;
    nvcc/lambdas: lambdas;
    clang/polynomial: clang_polynomial;
    clang/unoptimised: clang_unoptimised;
    triton/add: triton_add;
    triton/clip: triton_clip;
    triton/gather: triton_gather;
    triton/inline: triton_inline;
    triton/silu: triton_silu;
}

const N: usize = 1000;

fn saxpy(prng: &mut Prng) -> Launch {
    let (x, y) = (reals(prng, N, -4.0, 4.0), reals(prng, N, -4.0, 4.0));
    let sums = pairwise(&x, &y, |x, y| 1.5 * x + y);
    Launch::line(8, 128)
        .scalars([Arg::F32(1.5)])
        .input(singles(&x))
        .inout(singles(&y), f32s(sums, 1e-6, 1e-6))
        .size(N)
}

fn scale_shift_i32(prng: &mut Prng) -> Launch {
    let data = around(prng, N, 1 << 30);
    let each = data.iter().map(|v| v.wrapping_mul(-7).wrapping_add(11));
    Launch::line(3, 96)
        .inout(&data, exactly(each))
        .scalars([Arg::S32(-7), Arg::S32(11)])
        .size(N)
}

fn scale_shift_f64(prng: &mut Prng) -> Launch {
    let data = reals(prng, N, -9.0, 9.0);
    let each = data.iter().map(|v| v * 0.3 - 2.5);
    Launch::line(2, 128)
        .inout(&data, f64s(each, 1e-15, 1e-14))
        .scalars([Arg::F64(0.3), Arg::F64(-2.5)])
        .size(N)
}

fn scale_shift_i64(prng: &mut Prng) -> Launch {
    let data = double_words(prng, N);
    let each = data.iter().map(|v| v.wrapping_add(v << 32).wrapping_add(5));
    Launch::line(2, 64)
        .inout(&data, exactly(each))
        .scalars([Arg::U64(0x1_0000_0001), Arg::U64(5)])
        .size(N)
}

/// Makes the case: the scalar is a half, two bytes before an aligned word: it is given as a word of its own.
fn half2_axpy(prng: &mut Prng) -> Launch {
    let (x, y) = (eighths(prng, 2 * N), eighths(prng, 2 * N));
    let sums = pairwise(&x, &y, |x, y| 0.5 * x + y);
    Launch::line(8, 128)
        .input(halves(&x))
        .inout(halves(&y), f16s(sums, 0.0, 0.0))
        .scalars(halves(&[0.5]).map(|half| Arg::U32(half.into())))
        .size(N)
}

fn half_relu(prng: &mut Prng) -> Launch {
    let x = eighths(prng, N);
    let each = x.iter().map(|x| x.max(0.0));
    Launch::line(8, 128)
        .input(halves(&x))
        .output(f16s(each, 0.0, 0.0))
        .size(N)
}

fn bit_tricks(prng: &mut Prng) -> Launch {
    let (a, mut b) = (words(prng, N), words(prng, N));
    b[0] = 0;
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
    Launch::line(8, 128)
        .input(&a)
        .input(&b)
        .output(exactly(pairwise(&a, &b, narrow)))
        .output(exactly(pairwise(&a, &b, wide)))
        .size(N)
}

fn divisions(prng: &mut Prng) -> Launch {
    let a = around(prng, N, 1 << 30);
    let b = draws(prng, N, |p| p.below(1000).cast_signed() * 3 - 1499);
    let c = draws(prng, N, |p| p.next_u64().cast_signed() >> p.below(40));
    let d = draws(prng, N, |p| (p.next_u64().cast_signed() >> p.below(60)) | 1);
    let narrow = |a: i32, b: i32| (a / b + a / 7).wrapping_add((a - a / b * b) * 3);
    let wide = |c: i64, d: i64| {
        let rest = (c.wrapping_rem(d) << 1).cast_unsigned();
        c.wrapping_div(d)
            .cast_unsigned()
            .wrapping_add(rest)
            .wrapping_add(c.cast_unsigned() / 1_000_003)
    };
    Launch::line(8, 128)
        .input(&a)
        .input(&b)
        .input(&c)
        .input(&d)
        .output(exactly(pairwise(&a, &b, narrow)))
        .output(exactly(pairwise(&c, &d, wide)))
        .size(N)
}

/// A prime below 2³², so that a square fits in 64 bits.
const MODULUS: u64 = 4_294_967_291;

fn modular_power(prng: &mut Prng) -> Launch {
    let base = double_words(prng, N);
    // By Fermat's theorem the power is the inverse, which Euclid's algorithm finds as well.
    let inverse = |x: &u64| {
        let (mut r, mut next) = (i128::from(MODULUS), i128::from(x % MODULUS));
        let (mut t, mut t_next) = (0_i128, 1_i128);
        while next != 0 {
            let q = r / next;
            (r, next) = (next, r - q * next);
            (t, t_next) = (t_next, t - q * t_next);
        }
        u64::try_from(t.rem_euclid(i128::from(MODULUS))).expect("a remainder is small")
    };
    Launch::line(8, 128)
        .input(&base)
        .output(exactly(base.iter().map(inverse)))
        .scalars([Arg::U64(MODULUS - 2), Arg::U64(MODULUS)])
        .size(N)
}

fn wide_multiply(prng: &mut Prng) -> Launch {
    let (a, b) = (double_words(prng, N), double_words(prng, N));
    let sums = pairwise(&a, &b, |a, b| {
        let (low, high) = product_by_parts(a, b);
        let (low, carry) = low.overflowing_add(a);
        [low, high + u64::from(carry)]
    });
    Launch::line(8, 128)
        .input(&a)
        .input(&b)
        .output(exactly(sums.flatten()))
        .size(N)
}

/// Returns the product of two double words as its low and high double word, made of 32-bit parts.
fn product_by_parts(a: u64, b: u64) -> (u64, u64) {
    const LOW: u64 = 0xffff_ffff;
    let (a0, a1, b0, b1) = (a & LOW, a >> 32, b & LOW, b >> 32);
    let (p00, p01, p10, p11) = (a0 * b0, a0 * b1, a1 * b0, a1 * b1);
    let middle = (p00 >> 32) + (p01 & LOW) + (p10 & LOW);
    let high = p11 + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
    (p00 & LOW | middle << 32, high)
}

fn special_float(prng: &mut Prng) -> Launch {
    let x = reals(prng, N, -3.0, 3.0);
    let each = x.iter().map(|&x| {
        let sum = x.sin() + x.cos() + x.exp() + (x.abs() + 1.0).ln() + (x.abs() + 0.5).powf(1.5);
        // The remainder of a float by the float nearest to 0.7 is exact.
        let rest = x % f64::from(0.7_f32);
        sum + x.atan() + x.tanh() + erf(x) + x.cbrt() + rest
    });
    Launch::line(8, 128)
        .input(singles(&x))
        .output(f32s(each, 2e-6, 1e-5))
        .size(N)
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
    let x = reals(prng, N, -3.0, 3.0);
    let each = x.iter().map(|&x| {
        let sum = x.exp() + (x.abs() + 1.0).ln() + (x.abs() + 0.5).powf(1.5) + x.atan2(2.0);
        sum + x.cbrt() + x.abs().sqrt() + erf(x) + x.tanh()
    });
    Launch::line(8, 128)
        .input(&x)
        .output(f64s(each, 1e-14, 1e-14))
        .size(N)
}

fn trigonometry_double(prng: &mut Prng) -> Launch {
    let x = reals(prng, N, -100.0, 100.0);
    let each = x
        .iter()
        .map(|x| 0.5 * (2.0 * x).sin() + x.sin() / (1.0 + x.cos()));
    Launch::line(8, 128)
        .input(&x)
        .output(f64s(each, 1e-11, 1e-13))
        .size(N)
}

fn lambdas(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 10_000);
    let each = (0..).zip(&x).map(|(i, x): (i32, &i32)| (3 * x + 51) ^ i);
    Launch::line(2, 96)
        .input(&x)
        .output(exactly(each))
        .sizes([N, 17])
}

fn clang_polynomial(prng: &mut Prng) -> Launch {
    let x = reals(prng, N, -2.0, 2.0);
    let each = x
        .iter()
        .map(|x| 0.125 * x.powi(4) - 0.5 * x.powi(3) + 1.5 * x.powi(2) - 2.0 * x + 3.0);
    Launch::line(8, 128)
        .input(singles(&x))
        .output(f32s(each, 1e-6, 2e-6))
        .size(N)
}

fn clang_unoptimised(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    let at = |i: usize| (x[i.saturating_sub(1)] + 2 * x[i] + x[(i + 1).min(N - 1)]) / 4;
    Launch::line(8, 128)
        .input(&x)
        .output(exactly((0..N).map(at)))
        .size(N)
}

fn triton_add(prng: &mut Prng) -> Launch {
    let (x, y) = (reals(prng, N, -4.0, 4.0), reals(prng, N, -4.0, 4.0));
    let sums = pairwise(&x, &y, |x, y| x + y);
    Launch::line(4, 128)
        .input(singles(&x))
        .input(singles(&y))
        .output(f32s(sums, 6e-8, 0.0))
        .size(N)
        .of_triton()
}

fn triton_clip(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 500);
    // As in C, the remainder of a multiple of three is zero, whatever the sign.
    let each = x.iter().map(|v| match v.rem_euclid(3) {
        0 => *v.clamp(&-100, &150),
        _ => -v,
    });
    Launch::line(8, 64)
        .input(&x)
        .output(exactly(each))
        .scalars([Arg::S32(-100), Arg::S32(150)])
        .size(N)
        .of_triton()
}

fn triton_gather(prng: &mut Prng) -> Launch {
    let (x, indices) = (reals(prng, 300, -4.0, 4.0), below(prng, N, 300));
    let x: Vec<f32> = singles(&x).collect();
    let each = indices.iter().map(|i| x[*i as usize]);
    Launch::line(4, 128)
        .input(&x)
        .input(&indices)
        .output(exactly(each))
        .size(N)
        .of_triton()
}

fn triton_inline(prng: &mut Prng) -> Launch {
    let x = words(prng, N);
    let each = x.iter().map(|v| {
        // The third operand of the logical operation is a constant, so its table is taken bit by bit.
        let (a, b, c) = (v << 3, v, 0xff_u32);
        let table = 0x6a_u32;
        let bit = |k: u32| table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1;
        let t1 = (0..32).fold(0, |word, k| word | bit(k) << k);
        // The selector 0x1032 exchanges the halves of the first word.
        t1.rotate_left(16)
    });
    Launch::line(8, 128)
        .input(&x)
        .output(exactly(each))
        .size(N)
        .of_triton()
}

fn triton_silu(prng: &mut Prng) -> Launch {
    let mut x = eighths(prng, N);
    x[0] = 4.0;
    let each = x.iter().map(|x| x / (1.0 + (-x).exp()));
    Launch::line(1, 128)
        .input(halves(&x))
        .output(f16s(each, 1e-3, 1e-6))
        .size(N)
        .of_triton()
}
