//! `gridmux sim`: the SM model by itself.

mod argument;
mod kernel;
mod launch;
mod report;
mod trace;

use crate::failure::Failure;
use crate::output::Output;
use clap::Subcommand;

/// Commands on the SM model.
#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Run one kernel of a PTX file on a modelled GPU, with nothing else around it
    Kernel(kernel::Kernel),
    /// Run recorded launches again, as tenants under a policy
    Trace(trace::Trace),
}

impl Sim {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::Kernel(kernel) => kernel.run(out),
            Self::Trace(trace) => trace.run(out),
        }
    }
}
