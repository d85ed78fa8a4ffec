//! `libcudart.so.13` and `libcudart.so.12`: NVIDIA's runtime API, on the driver API of whatever `libcuda.so.1` the
//! process finds. The cfg `cuda` says which of the two is built.
//!
//! Programs that nvcc links with `-cudart shared`, and Python packages that open the library, use it as they are. It
//! knows nothing of the service: kernels, memory, streams and events are the driver's, and handles are the same numbers
//! in both APIs. What it adds is its own state: which device each thread works on, the last error of each thread, what
//! programs registered before `main`, and the configuration of the launch that is being made.
//!
//! Rules: what a program passes is believed as far as the C declaration asks for it ([`border`]); every function notes
//! its error for `cudaGetLastError`; no panic leaves the library. A function that is not covered says so once on stderr
//! and returns `cudaErrorNotSupported`.
//!
//! Source: the public headers of CUDA 13.5 and 12.9 (`cuda_runtime_api.h`, `driver_types.h`) and what nvcc 13.5 writes
//! into host code.

#![allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator, whose dispatcher never runs this code"
)]

pub mod api;
pub mod border;
pub mod current;
pub mod driver;
pub mod report;
pub mod status;

pub mod array;
pub mod batch;
pub mod copy;
pub mod device;
pub mod event;
pub mod feature;
pub mod fill;
pub mod function;
pub mod graph;
pub mod launch;
pub mod library;
pub mod managed;
pub mod memory;
pub mod peer;
pub mod pool;
pub mod properties;
pub mod registered;
pub mod registration;
pub mod stream;
pub mod symbol;
pub mod texture;
pub mod uncovered;
pub mod version;

pub use status::Status;
