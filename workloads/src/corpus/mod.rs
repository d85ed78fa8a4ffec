//! Kernels of the corpus that can be run: what nvcc, NVRTC, clang and Triton make for `sm_80` of the sources in
//! `workloads/corpus`, with a launch and a host reference for each.
//!
//! One file per family, each with a table `ROWS` and, for each row, a function that makes the launch's arguments and
//! holds the reference. They are for checking whoever runs PTX: small, varied, and not benchmarks.
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
use crate::verify::Bounded;

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
            reference: launch.reference,
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

/// A row: the tool, the file's stem, the kernel's name and entry, and what makes its launch.
macro_rules! row {
    ($tool:literal, $file:literal, $name:literal, $entry:literal, $build:ident) => {
        $crate::corpus::Kernel {
            name: concat!($tool, "/", $name),
            entry: $entry,
            ptx: include_str!(concat!("../../corpus/out/", $tool, "/", $file, ".sm80.ptx")),
            build: $build,
        }
    };
    ($tool:literal, $file:literal, $entry:literal, $build:ident) => {
        row!($tool, $file, $entry, $entry, $build)
    };
}
use row;

/// What a row's function makes.
struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    args: Vec<Arg>,
    reference: Reference,
}

impl Launch {
    /// Returns a launch in one dimension without dynamic shared memory.
    fn line(blocks: u32, threads: u32, args: Vec<Arg>, reference: Reference) -> Self {
        Self::boxed([blocks, 1, 1], [threads, 1, 1], args, reference)
    }

    fn boxed(grid: [u32; 3], block: [u32; 3], args: Vec<Arg>, reference: Reference) -> Self {
        Self {
            grid,
            block,
            shared_bytes: 0,
            args,
            reference,
        }
    }

    fn with_shared(self, shared_bytes: u32) -> Self {
        Self {
            shared_bytes,
            ..self
        }
    }

    /// Appends the two pointers that every Triton kernel has and these do not use: scratch memory and a profile's.
    fn of_triton(mut self) -> Self {
        self.args.extend([Arg::U64(0), Arg::U64(0)]);
        self
    }
}

/// A value of a type that buffers hold.
trait Element: Copy {
    fn put(self, into: &mut Vec<u8>);
    fn all(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! element {
    ($($type:ty),*) => {
        $(impl Element for $type {
            fn put(self, into: &mut Vec<u8>) {
                into.extend(self.to_le_bytes());
            }
            fn all(bytes: &[u8]) -> Vec<Self> {
                let (chunks, _) = bytes.as_chunks();
                chunks.iter().map(|chunk| Self::from_le_bytes(*chunk)).collect()
            }
        })*
    };
}
element!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

fn buffer<T: Element>(role: Role, values: impl IntoIterator<Item = T>) -> Arg {
    let mut bytes = Vec::new();
    for value in values {
        value.put(&mut bytes);
    }
    Arg::Buffer { bytes, role }
}

/// Returns an input buffer.
fn input<T: Element>(values: impl IntoIterator<Item = T>) -> Arg {
    buffer(Role::In, values)
}

/// Returns a buffer that is read and written.
fn inout<T: Element>(values: impl IntoIterator<Item = T>) -> Arg {
    buffer(Role::InOut, values)
}

/// Returns an output buffer of `bytes` bytes; it starts as ones, which are a NaN in every float.
fn output(bytes: usize) -> Arg {
    buffer(Role::Out, std::iter::repeat_n(0xff_u8, bytes))
}

/// Returns the contents of a buffer argument before the launch.
fn values<T: Element>(arg: &Arg) -> Vec<T> {
    match arg {
        Arg::Buffer { bytes, .. } => T::all(bytes),
        _ => unreachable!("a row's reference asks only for its own buffers"),
    }
}

/// Returns a 32-bit integer argument as an index.
fn count(arg: &Arg) -> usize {
    match arg {
        Arg::U32(n) => *n as usize,
        Arg::S32(n) => usize::try_from(*n).expect("sizes are positive"),
        _ => unreachable!("a row's reference asks only for its own sizes"),
    }
}

/// Draws `n` values.
fn draws<T>(prng: &mut Prng, n: usize, mut draw: impl FnMut(&mut Prng) -> T) -> Vec<T> {
    (0..n).map(|_| draw(prng)).collect()
}

/// Returns the words below a bound.
fn below(prng: &mut Prng, n: usize, bound: u32) -> Vec<u32> {
    draws(prng, n, |p| p.below(bound))
}

/// Integers from `-bound` to `bound`, both left out.
fn around(prng: &mut Prng, n: usize, bound: u32) -> Vec<i32> {
    draws(prng, n, |p| {
        p.below(2 * bound - 1).cast_signed() - (bound.cast_signed() - 1)
    })
}

/// Floats of a range.
fn floats(prng: &mut Prng, n: usize, low: f32, high: f32) -> Vec<f32> {
    draws(prng, n, |p| p.f32_in(low, high))
}

/// Doubles of a range, on a grid that single precision holds.
fn doubles(prng: &mut Prng, n: usize, low: f32, high: f32) -> Vec<f64> {
    draws(prng, n, |p| f64::from(p.f32_in(low, high)))
}

/// Returns the bytes of any value.
fn bytes(prng: &mut Prng, n: usize) -> Vec<u8> {
    draws(prng, n, |p| p.next_u32().to_le_bytes()[0])
}

/// Halves that are small multiples of one eighth, so that short sums of their products are exact.
fn halves(prng: &mut Prng, n: usize) -> Vec<u16> {
    draws(prng, n, |p| {
        half::exact((f64::from(p.below(17)) - 8.0) / 8.0)
    })
}

/// Returns a value that may be missed by a relative error, and an absolute one for values near zero.
fn near(value: f64, relative: f64, absolute: f64) -> Bounded {
    Bounded {
        value,
        tolerance: value.abs() * relative + absolute,
    }
}

/// Returns the number as an index or a size that fits in 32 bits.
fn size(n: usize) -> u32 {
    u32::try_from(n).expect("launches of the corpus are small")
}
