//! `gridmux sim`: the SM model and the `event` executor by themselves.
//!
//! `kernel` runs one kernel on a GPU that `gpus` describes. `mix` and `trace` run programs together under a policy:
//! the room `mix` runs them, [`programs`] reads traces and says what came of a run, [`loading`] loads users' PTX.

mod argument;
mod comparison;
mod counters;
mod gpus;
mod kernel;
mod launch;
mod lines;
mod loading;
mod mix;
mod notes;
mod programs;
mod ptx_file;
mod random;
mod report;
mod trace;

use crate::failure::Failure;
use crate::output::Output;
use clap::Subcommand;
use programs::{Passed, When, recording};

/// Commands on the SM model and the event executor.
#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Run one kernel of a PTX file on a modelled GPU, with nothing else around it
    Kernel(kernel::Kernel),
    /// List the GPUs that are built in
    Gpus(gpus::Gpus),
    /// The description of a modelled GPU
    #[command(subcommand)]
    Gpu(gpus::GpuCommand),
    /// What each counter and rate of `sim kernel` counts
    Counters(counters::ShowCounters),
    /// Run any mix of kernels and recorded programs together under a policy, beside each alone
    Mix(mix::Mix),
    /// Run recorded launches again, as tenants under a policy
    Trace(trace::Trace),
}

impl Sim {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::Kernel(kernel) => kernel.run(out),
            Self::Gpus(gpus) => gpus.run(out),
            Self::Gpu(gpu) => gpu.run(out),
            Self::Counters(counters) => counters.run(out),
            Self::Mix(mix) => mix.run(out),
            Self::Trace(trace) => trace.run(out),
        }
    }
}
