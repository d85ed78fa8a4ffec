//! What tests across rooms are built from: a real service, tenants in this process and beside it, and a tenant without
//! manners.
//!
//! Rules:
//! - A test starts its own [`Service`], in a folder and under an instance name of its own, so tests run in parallel.
//! - Everything that a test waits for ends: a service has a lifetime, after which it is killed, and whoever waits on it
//!   hears so. No outcome depends on how long anything took.
//! - What a test starts ends with it, also when it panics.

mod bench;
mod binary;
mod busy;
mod bystander;
pub mod equivalence;
pub mod formed;
mod process;
mod ptx;
mod raw;
pub mod reload;
mod service;
mod text;

pub use bench::{Bench, failure, run_once};
pub use binary::{driver_library, gpu_check, program, runtime_library, runtime_library_of_cuda_12};
pub use busy::BusyHost;
pub use bystander::Bystander;
pub use gridmux_testkit::until;
pub use process::{Speaker, run};
pub use ptx::ENDLESS;
pub use raw::{RawTenant, bare_launch};
pub use service::{Service, ServiceBuilder, connect, host_of};
pub use text::assert_names;
