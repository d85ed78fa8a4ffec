//! Dense matrices: products of every precision, transposition.

use super::{
    Kernel, Launch, bytes, doubles, draws, floats, halves, input, near, output, row, values,
};
use crate::case::Arg;
use crate::half;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "gemm_tiled", "gemm_f32", gemm_f32),
    row!("nvcc", "gemm_tiled", "gemm_f64", gemm_f64),
    row!("nvcc", "gemm_register", "gemm_register", gemm_register),
    row!("nvcc", "gemm_wmma", "gemm_wmma", gemm_wmma),
    row!("nvcc", "gemm_wmma", "gemm_wmma_s8", gemm_wmma_s8),
    row!("nvcc", "gemm_mma", "gemm_mma", gemm_mma),
    row!("nvcc", "gemm_dp4a", "gemm_dp4a", gemm_dp4a),
    row!("nvcc", "gemm_dp4a", "requantise", requantise),
    row!("nvcc", "transpose", "transpose_u32", transpose_u32),
    row!("nvcc", "transpose", "transpose_u8", transpose_u8),
    row!("nvrtc", "jit_matmul", "jit_matmul", jit_matmul),
    row!(
        "clang",
        "matrix_vector",
        "clang_matrix_vector",
        clang_matrix_vector
    ),
    row!(
        "triton",
        "matmul_f16",
        "triton_matmul_f16",
        "triton_matmul",
        triton_matmul_f16
    ),
    row!(
        "triton",
        "matmul_tf32",
        "triton_matmul_tf32",
        "triton_matmul",
        triton_matmul_tf32
    ),
    row!(
        "triton",
        "matmul_s8",
        "triton_matmul_s8",
        "triton_matmul_int",
        triton_matmul_s8
    ),
    row!("triton", "transpose", "triton_transpose", triton_transpose),
];

/// Multiplies `a` by `b`, both in rows, in double precision, with the sum of magnitudes beside each result.
fn product(a: &[f64], b: &[f64], [m, n, k]: [usize; 3]) -> Vec<(f64, f64)> {
    let one = |i: usize| {
        let (row, column) = (i / n, i % n);
        let each = (0..k).rev().map(|j| a[row * k + j] * b[j * n + column]);
        each.fold((0.0, 0.0), |(sum, all), p| (sum + p, all + f64::abs(p)))
    };
    (0..m * n).map(one).collect()
}

/// Returns how near any order of `k` additions of products in single precision is.
fn single(results: Vec<(f64, f64)>, k: f64) -> Vec<Bounded> {
    let bound = |(value, magnitude)| Bounded {
        value,
        tolerance: magnitude * k * 1.2e-7 + 1e-12,
    };
    results.into_iter().map(bound).collect()
}

/// Returns exactly these integers, as words.
fn integers(results: Vec<(f64, f64)>) -> Vec<u32> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "sums of products of bytes are integers of 32 bits"
    )]
    let word = |(value, _)| (value as i32).cast_unsigned();
    results.into_iter().map(word).collect()
}

fn widened<T: super::Element>(arg: &Arg) -> Vec<f64>
where
    f64: From<T>,
{
    values::<T>(arg).into_iter().map(f64::from).collect()
}

fn of_halves(arg: &Arg) -> Vec<f64> {
    values::<u16>(arg).into_iter().map(half::to_f64).collect()
}

/// Returns the columns of a matrix of `n` columns as rows.
fn transposed<T: Copy>(matrix: &[T], n: usize) -> Vec<T> {
    (0..n)
        .flat_map(|c| matrix.iter().skip(c).step_by(n).copied())
        .collect()
}

fn sizes(m: i32, n: i32, k: i32) -> [Arg; 3] {
    [Arg::S32(m), Arg::S32(n), Arg::S32(k)]
}

fn gemm_f32(prng: &mut Prng) -> Launch {
    let (a, b) = (
        floats(prng, 50 * 37, -1.0, 1.0),
        floats(prng, 37 * 45, -1.0, 1.0),
    );
    let mut args = vec![input(a), input(b), output(4 * 50 * 45)];
    args.extend(sizes(50, 45, 37));
    Launch::boxed([3, 4, 1], [16, 16, 1], args, |_, args| {
        let c = product(
            &widened::<f32>(&args[0]),
            &widened::<f32>(&args[1]),
            [50, 45, 37],
        );
        vec![Expected::F32(single(c, 37.0))]
    })
}

fn gemm_f64(prng: &mut Prng) -> Launch {
    let (a, b) = (
        doubles(prng, 20 * 30, -1.0, 1.0),
        doubles(prng, 30 * 25, -1.0, 1.0),
    );
    let mut args = vec![input(a), input(b), output(8 * 20 * 25)];
    args.extend(sizes(20, 25, 30));
    Launch::boxed([4, 3, 1], [8, 8, 1], args, |_, args| {
        let c = product(
            &values::<f64>(&args[0]),
            &values::<f64>(&args[1]),
            [20, 25, 30],
        );
        vec![Expected::F64(
            c.into_iter().map(|(v, _)| near(v, 0.0, 1e-13)).collect(),
        )]
    })
}

fn gemm_register(prng: &mut Prng) -> Launch {
    let (a, b) = (
        floats(prng, 128 * 24, -1.0, 1.0),
        floats(prng, 24 * 64, -1.0, 1.0),
    );
    let args = vec![
        input(a),
        input(b),
        output(4 * 128 * 64),
        Arg::S32(64),
        Arg::S32(24),
    ];
    Launch::boxed([1, 2, 1], [64, 1, 1], args, |_, args| {
        let c = product(
            &widened::<f32>(&args[0]),
            &widened::<f32>(&args[1]),
            [128, 64, 24],
        );
        vec![Expected::F32(single(c, 24.0))]
    })
}

fn gemm_wmma(prng: &mut Prng) -> Launch {
    let (a, b) = (halves(prng, 32 * 48), halves(prng, 48 * 32));
    let args = vec![
        input(a),
        input(b),
        output(4 * 32 * 32),
        Arg::S32(32),
        Arg::S32(48),
    ];
    Launch::boxed([2, 2, 1], [32, 1, 1], args, |_, args| {
        let c = product(&of_halves(&args[0]), &of_halves(&args[1]), [32, 32, 48]);
        vec![Expected::F32(single(c, 48.0))]
    })
}

/// Makes the case: the second matrix is given by columns.
fn gemm_wmma_s8(prng: &mut Prng) -> Launch {
    let (a, b) = (bytes(prng, 32 * 48), bytes(prng, 48 * 16));
    let args = vec![
        input(a),
        input(b),
        output(4 * 32 * 16),
        Arg::S32(16),
        Arg::S32(48),
    ];
    Launch::boxed([1, 2, 1], [32, 1, 1], args, |_, args| {
        let b = transposed(&widened::<i8>(&args[1]), 48);
        vec![Expected::U32(integers(product(
            &widened::<i8>(&args[0]),
            &b,
            [32, 16, 48],
        )))]
    })
}

fn gemm_mma(prng: &mut Prng) -> Launch {
    let (a, b) = (halves(prng, 32 * 64), halves(prng, 64 * 24));
    let args = vec![
        input(a),
        input(b),
        output(4 * 32 * 24),
        Arg::S32(24),
        Arg::S32(64),
    ];
    Launch::boxed([3, 2, 1], [32, 1, 1], args, |_, args| {
        let c = product(&of_halves(&args[0]), &of_halves(&args[1]), [32, 24, 64]);
        vec![Expected::F32(single(c, 64.0))]
    })
}

/// Makes the case: both matrices are given by rows of bytes along the sum.
fn gemm_dp4a(prng: &mut Prng) -> Launch {
    let (a, b) = (bytes(prng, 6 * 40), bytes(prng, 50 * 40));
    let args = vec![
        input(a),
        input(b),
        output(4 * 6 * 50),
        Arg::S32(50),
        Arg::S32(10),
    ];
    Launch::boxed([1, 6, 1], [64, 1, 1], args, |_, args| {
        let b = transposed(&widened::<i8>(&args[1]), 40);
        vec![Expected::U32(integers(product(
            &widened::<i8>(&args[0]),
            &b,
            [6, 50, 40],
        )))]
    })
}

/// Scales are powers of two, so that the product is exact and only the conversion rounds, to even.
fn requantise(prng: &mut Prng) -> Launch {
    let sums = draws(prng, 6 * 50, |p| p.below(4000).cast_signed() - 2000);
    let scales = draws(prng, 6, |p| [0.0625_f32, 0.125, 0.25][p.below(3) as usize]);
    let args = vec![input(sums), input(scales), output(6 * 50), Arg::S32(50)];
    Launch::boxed([1, 6, 1], [64, 1, 1], args, |_, args| {
        let (sums, scales) = (values::<i32>(&args[0]), values::<f32>(&args[1]));
        let one = |(i, sum): (usize, &i32)| {
            let value = f64::from(*sum) * f64::from(scales[i / 50]);
            #[allow(
                clippy::cast_possible_truncation,
                reason = "it was brought into the range of a byte"
            )]
            let byte = value.round_ties_even().clamp(-128.0, 127.0) as i8;
            byte.cast_unsigned()
        };
        vec![Expected::Bytes(sums.iter().enumerate().map(one).collect())]
    })
}

fn transpose_u32(prng: &mut Prng) -> Launch {
    let matrix = draws(prng, 70 * 45, Prng::next_u32);
    let args = vec![
        input(matrix),
        output(4 * 70 * 45),
        Arg::S32(70),
        Arg::S32(45),
    ];
    Launch::boxed([3, 2, 1], [32, 8, 1], args, |_, args| {
        vec![Expected::U32(transposed(&values(&args[0]), 70))]
    })
}

fn transpose_u8(prng: &mut Prng) -> Launch {
    let matrix = bytes(prng, 40 * 64);
    let args = vec![input(matrix), output(40 * 64), Arg::S32(40), Arg::S32(64)];
    Launch::boxed([2, 2, 1], [32, 8, 1], args, |_, args| {
        vec![Expected::Bytes(transposed(&values(&args[0]), 40))]
    })
}

fn jit_matmul(prng: &mut Prng) -> Launch {
    let (a, b) = (
        doubles(prng, 48 * 24, -1.0, 1.0),
        doubles(prng, 24 * 40, -1.0, 1.0),
    );
    let args = vec![input(a), input(b), output(8 * 48 * 40)];
    Launch::line(30, 64, args, |_, args| {
        let c = product(
            &values::<f64>(&args[0]),
            &values::<f64>(&args[1]),
            [48, 40, 24],
        );
        vec![Expected::F64(
            c.into_iter().map(|(v, _)| near(v, 0.0, 1e-13)).collect(),
        )]
    })
}

fn clang_matrix_vector(prng: &mut Prng) -> Launch {
    let (a, x) = (
        doubles(prng, 100 * 30, -1.0, 1.0),
        doubles(prng, 30, -1.0, 1.0),
    );
    let args = vec![input(a), input(x), output(800), Arg::S32(100), Arg::S32(30)];
    Launch::line(2, 64, args, |_, args| {
        let y = product(
            &values::<f64>(&args[0]),
            &values::<f64>(&args[1]),
            [100, 1, 30],
        );
        vec![Expected::F64(
            y.into_iter().map(|(v, _)| near(v, 0.0, 1e-13)).collect(),
        )]
    })
}

/// Shared memory that is enough for every product of Triton's here: three stages of two tiles.
const TRITON_SHARED_BYTES: u32 = 32 << 10;

fn triton_matmul_f16(prng: &mut Prng) -> Launch {
    let (a, b) = (halves(prng, 64 * 96), halves(prng, 96 * 32));
    let mut args = vec![input(a), input(b), output(4 * 64 * 32)];
    args.extend(sizes(64, 32, 96));
    Launch::boxed([2, 1, 1], [128, 1, 1], args, |_, args| {
        let c = product(&of_halves(&args[0]), &of_halves(&args[1]), [64, 32, 96]);
        vec![Expected::F32(single(c, 96.0))]
    })
    .of_triton()
    .with_shared(TRITON_SHARED_BYTES)
}

/// Returns small multiples of one eighth, which are exact in TF32 as well.
fn triton_matmul_tf32(prng: &mut Prng) -> Launch {
    let eighths = |prng: &mut Prng, n: usize| -> Vec<f32> {
        draws(prng, n, |p| {
            f32::from(i16::try_from(p.below(17)).expect("it is below 17") - 8) / 8.0
        })
    };
    let (a, b) = (eighths(prng, 32 * 48), eighths(prng, 48 * 64));
    let mut args = vec![input(a), input(b), output(4 * 32 * 64)];
    args.extend(sizes(32, 64, 48));
    Launch::boxed([1, 2, 1], [128, 1, 1], args, |_, args| {
        let c = product(
            &widened::<f32>(&args[0]),
            &widened::<f32>(&args[1]),
            [32, 64, 48],
        );
        vec![Expected::F32(single(c, 48.0))]
    })
    .of_triton()
    .with_shared(TRITON_SHARED_BYTES)
}

fn triton_matmul_s8(prng: &mut Prng) -> Launch {
    let (a, b) = (bytes(prng, 32 * 64), bytes(prng, 64 * 32));
    let args = vec![
        input(a),
        input(b),
        output(4 * 32 * 32),
        Arg::S32(32),
        Arg::S32(64),
    ];
    Launch::boxed([1, 1, 1], [128, 1, 1], args, |_, args| {
        let c = product(
            &widened::<i8>(&args[0]),
            &widened::<i8>(&args[1]),
            [32, 32, 64],
        );
        vec![Expected::U32(integers(c))]
    })
    .of_triton()
    .with_shared(TRITON_SHARED_BYTES)
}

fn triton_transpose(prng: &mut Prng) -> Launch {
    let matrix = floats(prng, 50 * 40, -1.0, 1.0);
    let args = vec![
        input(matrix),
        output(4 * 50 * 40),
        Arg::S32(50),
        Arg::S32(40),
    ];
    Launch::boxed([2, 2, 1], [128, 1, 1], args, |_, args| {
        vec![Expected::U32(transposed(&values(&args[0]), 40))]
    })
    .of_triton()
    .with_shared(8192)
}
