//! `gridmux device-host`: the unprivileged half of the service, started by `gridmux serve`.

use crate::failure::Failure;

/// Runs until the supervisor ends it.
pub(super) fn run() -> Result<(), Failure> {
    gridmux_mediator::host::run().map_err(|error| {
        Failure::from(anyhow::Error::from(error).context("device host"))
            .hint("`gridmux serve` starts device hosts; they are of no use alone")
    })
}
