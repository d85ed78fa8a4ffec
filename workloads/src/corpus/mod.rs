//! Kernels of the corpus that can be run: what nvcc, NVRTC, clang and Triton make for `sm_80` of the sources in
//! `workloads/corpus`, with a launch and a host reference for each.
//!
//! One file per family, each with a table of [`rows`] and, for each row, a function that makes the launch's arguments
//! and says what it leaves in its buffers. They check what runs PTX: small, varied, and not benchmarks.
//!
//! - Integers must match exactly. Floating-point tolerances stand beside each reference; they allow any rounding and
//!   order of the same sum, and for approximations of special functions the error that CUDA's tables state.
//! - A kernel whose source keeps state in module variables leaves them as it found them.

mod control;
mod digest;
mod graph;
mod image;
mod linear;
mod neural;
mod pointwise;
mod reduce;
mod scan;
mod sort;

use crate::case::{Arg, Case, Reference, Role};
use crate::half;
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};

/// One kernel of the corpus with the launch that checks it.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// The tool that compiled it and the name of its entry: `nvcc/saxpy`.
    pub name: &'static str,
    /// Name of the `.entry` in [`Kernel::ptx`].
    pub entry: &'static str,
    /// The PTX module, for `sm_80`.
    pub ptx: &'static str,
    build: fn(&mut Prng) -> Launch,
}

impl Kernel {
    /// Returns the launch for a seed; equal seeds give equal bytes.
    #[must_use]
    pub fn case(&self, seed: u64) -> Case {
        let launch = (self.build)(&mut Prng::new(seed));
        Case {
            workload: self.name,
            entry: self.entry,
            ptx: self.ptx,
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.shared_bytes,
            args: launch.args,
            params: Params {
                elements: 0,
                rounds: 0,
                seed,
            },
            reference: Reference::Known(launch.expected),
        }
    }
}

/// Returns every kernel, family by family.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    let families: [&'static [Kernel]; 10] = [
        pointwise::ROWS,
        reduce::ROWS,
        scan::ROWS,
        sort::ROWS,
        linear::ROWS,
        image::ROWS,
        graph::ROWS,
        neural::ROWS,
        digest::ROWS,
        control::ROWS,
    ];
    families.into_iter().flatten()
}

/// Returns the kernel of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Kernel> {
    kernels().find(|kernel| kernel.name == name)
}

/// Makes a family's table: the tool and the file's stem, then the kernels of that file. A kernel is called as the
/// function that makes its launch, and so is its entry unless another name follows.
macro_rules! rows {
    ($($tool:ident/$file:ident: $($build:ident $(as $entry:ident)?),+;)*) => {
        /// The family's rows.
        pub(super) const ROWS: &[$crate::corpus::Kernel] = &[$($($crate::corpus::Kernel {
            name: concat!(stringify!($tool), "/", stringify!($build)),
            entry: $crate::corpus::rows!(@entry $build $($entry)?),
            ptx: include_str!(
                concat!("../../corpus/out/", stringify!($tool), "/", stringify!($file), ".sm80.ptx")
            ),
            build: $build,
        },)+)*];
    };
    (@entry $build:ident) => { stringify!($build) };
    (@entry $build:ident $entry:ident) => { stringify!($entry) };
}
use rows;

/// What a row's function makes: dimensions, then argument after argument in parameter order, each written buffer with
/// what the kernel leaves there.
struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    args: Vec<Arg>,
    expected: Vec<Expected>,
}

impl Launch {
    /// Returns a launch in one dimension, without dynamic shared memory and arguments.
    fn line(blocks: u32, threads: u32) -> Self {
        Self::boxed([blocks, 1, 1], [threads, 1, 1])
    }

    /// Returns a launch without dynamic shared memory and arguments.
    fn boxed(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            grid,
            block,
            shared_bytes: 0,
            args: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// Sets the bytes of dynamic shared memory.
    fn with_shared(self, shared_bytes: u32) -> Self {
        Self {
            shared_bytes,
            ..self
        }
    }

    /// Appends scalars.
    fn scalars(mut self, values: impl IntoIterator<Item = Arg>) -> Self {
        self.args.extend(values);
        self
    }

    /// Appends numbers of elements, as 32-bit integers of either sign.
    fn sizes<const N: usize>(self, numbers: [usize; N]) -> Self {
        self.scalars(numbers.map(|n| Arg::U32(size(n))))
    }

    /// Appends a number of elements.
    fn size(self, n: usize) -> Self {
        self.sizes([n])
    }

    fn buffer(mut self, bytes: Vec<u8>, role: Role) -> Self {
        self.args.push(Arg::Buffer { bytes, role });
        self
    }

    /// Appends an input buffer.
    fn input<T: Element>(self, values: impl IntoIterator<Item = T>) -> Self {
        self.buffer(bytes_of(values), Role::In)
    }

    /// Appends a buffer that is read and written.
    fn inout<T: Element>(
        mut self,
        before: impl IntoIterator<Item = T>,
        after: impl Into<Expected>,
    ) -> Self {
        self.expected.push(after.into());
        self.buffer(bytes_of(before), Role::InOut)
    }

    /// Appends an output buffer; it starts as ones, which are a NaN in every float.
    fn output(mut self, after: impl Into<Expected>) -> Self {
        let after = after.into();
        let bytes = match &after {
            Expected::Bytes(values) => values.len(),
            Expected::F16(values) => 2 * values.len(),
            Expected::U32(values) | Expected::AnyOrder(values) => 4 * values.len(),
            Expected::F32(values) => 4 * values.len(),
            Expected::U64(values) => 8 * values.len(),
            Expected::F64(values) => 8 * values.len(),
        };
        self.expected.push(after);
        self.buffer(vec![0xff; bytes], Role::Out)
    }

    /// Appends the two pointers that every Triton kernel has and these do not use: scratch memory and a profile's.
    fn of_triton(self) -> Self {
        self.scalars([Arg::U64(0), Arg::U64(0)])
    }
}

/// A value of a type that buffers hold.
trait Element: Copy {
    const BYTES: usize = size_of::<Self>();
    fn put(self, into: &mut Vec<u8>);
}

macro_rules! element {
    ($($type:ty),*) => {
        $(impl Element for $type {
            fn put(self, into: &mut Vec<u8>) {
                into.extend(self.to_le_bytes());
            }
        })*
    };
}
element!(u8, u16, i16, u32, i32, u64, i64, f32, f64);

impl<T: Element> Element for &T {
    const BYTES: usize = T::BYTES;
    fn put(self, into: &mut Vec<u8>) {
        (*self).put(into);
    }
}

fn bytes_of<T: Element>(values: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        value.put(&mut bytes);
    }
    bytes
}

/// Returns an expectation of exactly these values, as words of their width; narrower ones as bytes.
fn exactly<T: Element>(values: impl IntoIterator<Item = T>) -> Expected {
    fn words<const WIDTH: usize, W>(bytes: &[u8], word: fn([u8; WIDTH]) -> W) -> Vec<W> {
        bytes.as_chunks().0.iter().copied().map(word).collect()
    }
    let bytes = bytes_of(values);
    match T::BYTES {
        4 => Expected::U32(words(&bytes, u32::from_le_bytes)),
        8 => Expected::U64(words(&bytes, u64::from_le_bytes)),
        _ => Expected::Bytes(bytes),
    }
}

impl<T: Element> From<Vec<T>> for Expected {
    fn from(values: Vec<T>) -> Self {
        exactly(values)
    }
}

/// Returns a value that may be missed by a relative error, and an absolute one for values near zero.
fn near(value: f64, relative: f64, absolute: f64) -> Bounded {
    Bounded {
        value,
        tolerance: value.abs() * relative + absolute,
    }
}

fn all_near(values: impl IntoIterator<Item = f64>, relative: f64, absolute: f64) -> Vec<Bounded> {
    let bounded = |value| near(value, relative, absolute);
    values.into_iter().map(bounded).collect()
}

/// Returns an expectation of floats, each [`near`] a value.
fn f32s(values: impl IntoIterator<Item = f64>, relative: f64, absolute: f64) -> Expected {
    Expected::F32(all_near(values, relative, absolute))
}

/// Returns an expectation of doubles, each [`near`] a value.
fn f64s(values: impl IntoIterator<Item = f64>, relative: f64, absolute: f64) -> Expected {
    Expected::F64(all_near(values, relative, absolute))
}

/// Returns an expectation of halves, each [`near`] a value.
fn f16s(values: impl IntoIterator<Item = f64>, relative: f64, absolute: f64) -> Expected {
    Expected::F16(all_near(values, relative, absolute))
}

/// Returns the results of a function of two values, one of each list.
fn pairwise<A: Copy, B: Copy, R>(
    a: &[A],
    b: &[B],
    result: impl Fn(A, B) -> R,
) -> impl Iterator<Item = R> {
    a.iter().zip(b).map(move |(a, b)| result(*a, *b))
}

/// Draws `n` values.
fn draws<T>(prng: &mut Prng, n: usize, mut draw: impl FnMut(&mut Prng) -> T) -> Vec<T> {
    (0..n).map(|_| draw(prng)).collect()
}

/// Draws words.
fn words(prng: &mut Prng, n: usize) -> Vec<u32> {
    draws(prng, n, Prng::next_u32)
}

/// Draws double words.
fn double_words(prng: &mut Prng, n: usize) -> Vec<u64> {
    draws(prng, n, Prng::next_u64)
}

/// Draws bytes.
fn bytes(prng: &mut Prng, n: usize) -> Vec<u8> {
    draws(prng, n, |p| p.next_u32().to_le_bytes()[0])
}

/// Draws words below a bound.
fn below(prng: &mut Prng, n: usize, bound: u32) -> Vec<u32> {
    draws(prng, n, |p| p.below(bound))
}

/// Draws integers from `-bound` to `bound`, both left out.
fn around(prng: &mut Prng, n: usize, bound: u32) -> Vec<i32> {
    draws(prng, n, |p| {
        p.below(2 * bound - 1).cast_signed() - (bound.cast_signed() - 1)
    })
}

/// Draws integers as [`around`] does, as words.
fn words_around(prng: &mut Prng, n: usize, bound: u32) -> Vec<u32> {
    let numbers = around(prng, n, bound).into_iter();
    numbers.map(i32::cast_unsigned).collect()
}

/// Draws numbers of a range, on a grid that single precision holds.
fn reals(prng: &mut Prng, n: usize, low: f32, high: f32) -> Vec<f64> {
    draws(prng, n, |p| f64::from(p.f32_in(low, high)))
}

/// Draws small multiples of one eighth, which halves hold and short sums of whose products are exact.
fn eighths(prng: &mut Prng, n: usize) -> Vec<f64> {
    draws(prng, n, |p| (f64::from(p.below(17)) - 8.0) / 8.0)
}

/// Returns numbers rounded to single precision, which holds exactly what [`reals`] and [`eighths`] draw.
#[allow(
    clippy::cast_possible_truncation,
    reason = "rounding is what is asked for"
)]
fn singles(values: &[f64]) -> impl Iterator<Item = f32> {
    values.iter().map(|value| *value as f32)
}

/// Returns the bits of numbers in half precision, which holds each of them exactly.
fn halves(values: &[f64]) -> impl Iterator<Item = u16> {
    values.iter().copied().map(half::exact)
}

/// Returns the number as an index or a size that fits in 32 bits.
fn size(n: usize) -> u32 {
    u32::try_from(n).expect("launches of the corpus are small")
}
