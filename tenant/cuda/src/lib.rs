//! `libcuda.so.1`: NVIDIA's driver API over gridmux's channel, for programs that know nothing of gridmux.
//!
//! A program finds the library where it would find NVIDIA's, by its name, and reaches its functions by linking, by
//! `dlsym` or by `cuGetProcAddress`. What the library cannot do returns an error; nothing is ever handed to another
//! driver.
//!
//! Begin reading at [`api`], how functions are declared; then [`border`], how calls enter and leave; [`driver`], what
//! the process has; and a family, as [`event`]. Rules that hold everywhere:
//!
//! - The process is the program's: the library ends it never, neither by a panic nor by a signal. What it says goes to
//!   stderr, one line at a time ([`report`]).
//! - A handle is a number that is looked up, never a pointer that is followed ([`registry`]).
//! - Functions are called from any number of threads at once.
//!
//! The room knows the channel and the Rust client, and nothing of the mediator.

#![allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator, whose dispatcher never runs this code"
)]
#![allow(
    non_camel_case_types,
    non_snake_case,
    clippy::needless_pass_by_value,
    reason = "names and parameters are those of the C API"
)]

pub mod address;
pub mod api;
mod attribute;
pub mod border;
pub mod context;
pub mod core_dump;
pub mod device;
pub mod driver;
pub mod entry_point;
pub mod error_text;
pub mod event;
pub mod feature;
pub mod graph;
pub mod host_function;
pub mod image;
pub mod init;
pub mod launch;
pub mod library;
mod limit;
pub mod link;
pub mod memory;
pub mod module;
pub mod nvtx;
pub mod occupancy;
mod per_thread;
pub mod printing;
pub mod profiler;
pub mod record;
pub mod registry;
pub mod report;
pub mod runtime;
pub mod status;
pub mod stream;
pub mod texture;
pub mod uncovered;
