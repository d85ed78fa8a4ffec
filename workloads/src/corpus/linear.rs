//! Dense matrices: products of every precision, transposition.

use super::{
    Launch, bytes, draws, eighths, exactly, f64s, halves, reals, rows, singles, size, words,
};
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};

rows! {
    nvcc/gemm_tiled: gemm_f32, gemm_f64;
    nvcc/gemm_register: gemm_register;
    nvcc/gemm_wmma: gemm_wmma, gemm_wmma_s8;
    nvcc/gemm_mma: gemm_mma;
    nvcc/gemm_dp4a: gemm_dp4a, requantise;
    nvcc/transpose: transpose_u32, transpose_u8;
    nvrtc/jit_matmul: jit_matmul;
    clang/matrix_vector: clang_matrix_vector;
    triton/matmul_f16: triton_matmul_f16 as triton_matmul;
    triton/matmul_tf32: triton_matmul_tf32 as triton_matmul;
    triton/matmul_s8: triton_matmul_s8 as triton_matmul_int;
    triton/transpose: triton_transpose;
}

/// Multiplies `a`, of `m` rows and `k` columns, by `b`, of `k` rows and `n` columns, both stored in rows; returns each
/// result with the sum of the magnitudes that it is made of.
fn product(a: &[f64], b: &[f64], [m, n, k]: [usize; 3]) -> impl Iterator<Item = (f64, f64)> {
    (0..m * n).map(move |i| {
        let (row, column) = (i / n, i % n);
        let each = (0..k).rev().map(|j| a[row * k + j] * b[j * n + column]);
        each.fold((0.0, 0.0), |(sum, all), p| (sum + p, all + f64::abs(p)))
    })
}

/// Returns a product as near as any order of `k` additions of products in single precision is.
fn single(a: &[f64], b: &[f64], extents: [usize; 3]) -> Expected {
    let k = f64::from(size(extents[2]));
    let bound = |(value, magnitude)| Bounded {
        value,
        tolerance: magnitude * k * 1.2e-7 + 1e-12,
    };
    Expected::F32(product(a, b, extents).map(bound).collect())
}

/// Returns a product in double precision.
fn double(a: &[f64], b: &[f64], extents: [usize; 3]) -> Expected {
    f64s(product(a, b, extents).map(|(value, _)| value), 0.0, 1e-13)
}

/// Returns exactly the product of signed bytes.
fn integers(a: &[f64], b: &[f64], extents: [usize; 3]) -> Expected {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "sums of products of bytes are integers of 32 bits"
    )]
    exactly(product(a, b, extents).map(|(value, _)| value as i32))
}

/// Draws numbers from -1 to 1.
fn unit(prng: &mut Prng, n: usize) -> Vec<f64> {
    reals(prng, n, -1.0, 1.0)
}

/// Returns bytes as the signed numbers that they are.
fn signed(bytes: &[u8]) -> Vec<f64> {
    bytes.iter().map(|b| f64::from(b.cast_signed())).collect()
}

/// Returns the columns of a matrix of `n` columns as rows.
fn transposed<T: Copy>(matrix: &[T], n: usize) -> Vec<T> {
    (0..n)
        .flat_map(|c| matrix.iter().skip(c).step_by(n).copied())
        .collect()
}

fn gemm_f32(prng: &mut Prng) -> Launch {
    let (a, b) = (unit(prng, 50 * 37), unit(prng, 37 * 45));
    Launch::boxed([3, 4, 1], [16, 16, 1])
        .input(singles(&a))
        .input(singles(&b))
        .output(single(&a, &b, [50, 45, 37]))
        .sizes([50, 45, 37])
}

fn gemm_f64(prng: &mut Prng) -> Launch {
    let (a, b) = (unit(prng, 20 * 30), unit(prng, 30 * 25));
    Launch::boxed([4, 3, 1], [8, 8, 1])
        .input(&a)
        .input(&b)
        .output(double(&a, &b, [20, 25, 30]))
        .sizes([20, 25, 30])
}

fn gemm_register(prng: &mut Prng) -> Launch {
    let (a, b) = (unit(prng, 128 * 24), unit(prng, 24 * 64));
    Launch::boxed([1, 2, 1], [64, 1, 1])
        .input(singles(&a))
        .input(singles(&b))
        .output(single(&a, &b, [128, 64, 24]))
        .sizes([64, 24])
}

fn gemm_wmma(prng: &mut Prng) -> Launch {
    let (a, b) = (eighths(prng, 32 * 48), eighths(prng, 48 * 32));
    Launch::boxed([2, 2, 1], [32, 1, 1])
        .input(halves(&a))
        .input(halves(&b))
        .output(single(&a, &b, [32, 32, 48]))
        .sizes([32, 48])
}

/// Makes the case: the second matrix is given by columns.
fn gemm_wmma_s8(prng: &mut Prng) -> Launch {
    let (a, b) = (bytes(prng, 32 * 48), bytes(prng, 48 * 16));
    let rows = transposed(&signed(&b), 48);
    Launch::boxed([1, 2, 1], [32, 1, 1])
        .input(&a)
        .input(&b)
        .output(integers(&signed(&a), &rows, [32, 16, 48]))
        .sizes([16, 48])
}

fn gemm_mma(prng: &mut Prng) -> Launch {
    let (a, b) = (eighths(prng, 32 * 64), eighths(prng, 64 * 24));
    Launch::boxed([3, 2, 1], [32, 1, 1])
        .input(halves(&a))
        .input(halves(&b))
        .output(single(&a, &b, [32, 24, 64]))
        .sizes([24, 64])
}

/// Makes the case: both matrices are given by rows of bytes along the sum.
fn gemm_dp4a(prng: &mut Prng) -> Launch {
    let (a, b) = (bytes(prng, 6 * 40), bytes(prng, 50 * 40));
    let rows = transposed(&signed(&b), 40);
    Launch::boxed([1, 6, 1], [64, 1, 1])
        .input(&a)
        .input(&b)
        .output(integers(&signed(&a), &rows, [6, 50, 40]))
        .sizes([50, 10])
}

/// Makes the case: scales are powers of two, so that the product is exact and only the conversion rounds, to even.
fn requantise(prng: &mut Prng) -> Launch {
    let sums = draws(prng, 6 * 50, |p| p.below(4000).cast_signed() - 2000);
    let scales = draws(prng, 6, |p| [0.0625, 0.125, 0.25][p.below(3) as usize]);
    let one = |(i, sum): (usize, &i32)| {
        let value = f64::from(*sum) * scales[i / 50];
        #[allow(
            clippy::cast_possible_truncation,
            reason = "it was brought into the range of a byte"
        )]
        let byte = value.round_ties_even().clamp(-128.0, 127.0) as i8;
        byte.cast_unsigned()
    };
    Launch::boxed([1, 6, 1], [64, 1, 1])
        .input(&sums)
        .input(singles(&scales))
        .output(exactly(sums.iter().enumerate().map(one)))
        .size(50)
}

fn transpose_u32(prng: &mut Prng) -> Launch {
    let matrix = words(prng, 70 * 45);
    Launch::boxed([3, 2, 1], [32, 8, 1])
        .input(&matrix)
        .output(transposed(&matrix, 70))
        .sizes([70, 45])
}

fn transpose_u8(prng: &mut Prng) -> Launch {
    let matrix = bytes(prng, 40 * 64);
    Launch::boxed([2, 2, 1], [32, 8, 1])
        .input(&matrix)
        .output(transposed(&matrix, 40))
        .sizes([40, 64])
}

fn jit_matmul(prng: &mut Prng) -> Launch {
    let (a, b) = (unit(prng, 48 * 24), unit(prng, 24 * 40));
    Launch::line(30, 64)
        .input(&a)
        .input(&b)
        .output(double(&a, &b, [48, 40, 24]))
}

fn clang_matrix_vector(prng: &mut Prng) -> Launch {
    let (a, x) = (unit(prng, 100 * 30), unit(prng, 30));
    Launch::line(2, 64)
        .input(&a)
        .input(&x)
        .output(double(&a, &x, [100, 1, 30]))
        .sizes([100, 30])
}

/// Shared memory that is enough for every product of Triton's here: three stages of two tiles.
const TRITON_SHARED_BYTES: u32 = 32 << 10;

fn triton_matmul_f16(prng: &mut Prng) -> Launch {
    let (a, b) = (eighths(prng, 64 * 96), eighths(prng, 96 * 32));
    Launch::boxed([2, 1, 1], [128, 1, 1])
        .input(halves(&a))
        .input(halves(&b))
        .output(single(&a, &b, [64, 32, 96]))
        .sizes([64, 32, 96])
        .of_triton()
        .with_shared(TRITON_SHARED_BYTES)
}

/// Makes the case: small multiples of one eighth are exact in TF32 as well.
fn triton_matmul_tf32(prng: &mut Prng) -> Launch {
    let (a, b) = (eighths(prng, 32 * 48), eighths(prng, 48 * 64));
    Launch::boxed([1, 2, 1], [128, 1, 1])
        .input(singles(&a))
        .input(singles(&b))
        .output(single(&a, &b, [32, 64, 48]))
        .sizes([32, 64, 48])
        .of_triton()
        .with_shared(TRITON_SHARED_BYTES)
}

fn triton_matmul_s8(prng: &mut Prng) -> Launch {
    let (a, b) = (bytes(prng, 32 * 64), bytes(prng, 64 * 32));
    Launch::boxed([1, 1, 1], [128, 1, 1])
        .input(&a)
        .input(&b)
        .output(integers(&signed(&a), &signed(&b), [32, 32, 64]))
        .sizes([32, 64])
        .of_triton()
        .with_shared(TRITON_SHARED_BYTES)
}

fn triton_transpose(prng: &mut Prng) -> Launch {
    let matrix: Vec<f32> = singles(&unit(prng, 50 * 40)).collect();
    Launch::boxed([2, 2, 1], [128, 1, 1])
        .input(&matrix)
        .output(transposed(&matrix, 40))
        .sizes([50, 40])
        .of_triton()
        .with_shared(8192)
}
