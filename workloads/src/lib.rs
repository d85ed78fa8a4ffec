//! Benchmark kernels of our own, with launches that can be checked.
//!
//! A [`Workload`] is one kernel: the CUDA source in `workloads/cuda`, the PTX that `cargo xtask ptx` makes of it, and
//! a host reference in Rust. A [`Case`] is one launch of it: grid, block, arguments with their input bytes, and
//! [`Case::verify`], which judges what the launch left in the output buffers.
//!
//! Beside these, [`microbench`] has the loops from which latencies and rates of single instructions are measured.
//!
//! Rules:
//! - The same workload, [`Params`] and seed give the same bytes on every machine.
//! - A host reference is computed another way than the kernel computes it (another order, `f64`, a closed form), and
//!   only when `verify` is called. Where the last bit decides which way a kernel goes, the reference does the kernel's
//!   own correctly rounded operations, and nothing is tolerated.
//! - Integers must match exactly. Each kernel's module states its floating-point tolerance and where it comes from.
//!
//! ```
//! use gridmux_workloads::{Arg, Size, by_name};
//!
//! let case = by_name("vecadd").expect("it is in the table").case(Size::Tiny, 1);
//! assert!(matches!(case.args[0], Arg::Buffer { .. }));
//! assert!(case.verify(&case.initial_outputs()).is_err(), "nothing has run yet");
//! ```

mod case;
pub mod corpus;
mod half;
mod kernels;
pub mod microbench;
mod params;
mod prng;
mod verify;
mod version;
mod workload;

pub use case::{Arg, Case, Role};
pub use params::{BadParams, Params, Size, UnknownSize};
pub use prng::Prng;
pub use verify::Mismatch;
pub use version::portable;
pub use workload::{Class, Limits, Workload, by_name, workloads};
