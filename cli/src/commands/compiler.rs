//! `gridmux compiler`: the fork server of the processes that compile tenants' modules, started by `gridmux serve`.

use crate::failure::Failure;
use clap::Args;
use gridmux_mediator::compiler::{self, JobLimits};

/// The limits of a compiler.
#[derive(Debug, Args)]
pub(crate) struct Compiler {
    /// Memory of one compiler
    #[arg(long, value_name = "BYTES")]
    memory_bytes: u64,
    /// Processor time of one compiler
    #[arg(long, value_name = "SECONDS")]
    cpu_seconds: u64,
    /// User to become when started as root
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

impl Compiler {
    /// Runs until the device host or the supervisor ends.
    pub(super) fn run(self) -> Result<(), Failure> {
        let limits = JobLimits {
            memory_bytes: self.memory_bytes,
            cpu_seconds: self.cpu_seconds,
        };
        compiler::run(limits, self.user.as_deref()).map_err(|error| {
            Failure::from(anyhow::Error::from(error).context("compiler"))
                .hint("`gridmux serve` starts compilers; they are of no use alone")
        })
    }
}
