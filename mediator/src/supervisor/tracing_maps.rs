//! The eBPF side of launch latency, as the supervisor keeps it: loaded once, shared with every device host, emptied
//! now and then.
//!
//! Rules: a tenant that is configured no more stays registered, because its operations still end and it may come back;
//! its number is never another's, and there are at most `MAX_TENANTS`. Where eBPF is not permitted the service says so
//! once and goes on without; the dispatcher's own histograms remain.

use gridmux_bpf::{Admission, LatencyOptions, LatencyProgram};
use std::os::fd::BorrowedFd;

/// The program, if it could be loaded.
#[derive(Debug)]
pub(super) struct LatencyMaps {
    program: Option<LatencyProgram>,
    reason: Option<String>,
}

impl LatencyMaps {
    /// Loads the program and pins its maps under the instance's name.
    pub(super) fn load(instance: &str) -> Self {
        let options = LatencyOptions {
            admission: Admission::Registered,
            ..LatencyOptions::default()
        };
        match LatencyProgram::load_with(instance, options) {
            Ok(program) => {
                if let Err(reason) = program.pinned() {
                    tracing::warn!(%reason, "launch latency is measured by eBPF, but its maps are not pinned");
                }
                Self {
                    program: Some(program),
                    reason: None,
                }
            }
            Err(reason) => {
                tracing::warn!(%reason, "eBPF is not available; launch latency comes from the mediator");
                Self {
                    program: None,
                    reason: Some(reason.to_string()),
                }
            }
        }
    }

    /// Returns the ring that a device host writes samples to.
    pub(super) fn producer_fd(&self) -> Option<BorrowedFd<'_>> {
        self.program.as_ref().map(LatencyProgram::producer_fd)
    }

    /// Returns why there is no eBPF; `None` when there is.
    pub(super) fn unavailable(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Lets the program take samples of a tenant.
    pub(super) fn register(&self, tenant: u32) {
        if let Some(program) = &self.program
            && let Err(error) = program.register(tenant)
        {
            tracing::warn!(%error, tenant, "eBPF will not count this tenant");
        }
    }

    /// Empties the samples' ring into the histograms.
    pub(super) fn drain(&self) {
        if let Some(program) = &self.program
            && let Err(error) = program.drain()
        {
            tracing::debug!(%error, "draining the samples' ring");
        }
    }
}
