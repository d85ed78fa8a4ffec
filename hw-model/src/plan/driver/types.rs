//! What a driver is given and what it gives back.

use crate::counters::Counters;
use crate::gpu::RunError;
use crate::kernel::Kernel;
use crate::launch::{Launch, LaunchError, QueueId};
use crate::plan::PlanOptions;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::units::Cycles;
use std::sync::Arc;

/// Settings of a driver.
#[derive(Debug, Clone, Copy)]
pub struct DriverOptions {
    /// How the hardware behaves.
    pub plan: PlanOptions,
    /// Rows that a tenant may have, its spill row apart.
    pub rows_per_tenant: usize,
    /// Number of the first row, so that it can be shown that numbers of rows change nothing.
    pub first_row: u32,
    /// The least time between two rounds of [`gridmux_policy::Event::Sample`], which are sent when the policy is woken;
    /// zero for every time.
    pub sample_every: Cycles,
    /// Keep every block's event for [`PolicyDriver::take_block_events`].
    pub record: bool,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            plan: PlanOptions::default(),
            rows_per_tenant: 256,
            first_row: 0,
            sample_every: Cycles(50_000),
            record: false,
        }
    }
}

/// A launch that a tenant asks for.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Queue; launches of one queue run in order.
    pub queue: QueueId,
    /// Kernel, loaded into the driver's GPU.
    pub kernel: Arc<Kernel>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: u32,
    /// The parameter block.
    pub params: Vec<u8>,
    /// Cycles after its first start in which it must end.
    pub budget: Option<Cycles>,
}

/// Result of a launch, as far as it is known.
#[derive(Debug)]
pub struct Outcome {
    /// The tenant that asked for it.
    pub tenant: TenantId,
    /// Its row, from its arrival on.
    pub row: Option<RowId>,
    /// When it arrives.
    pub arrival: Cycles,
    /// When its first block started.
    pub first_start: Option<Cycles>,
    /// When it ended, faulted or was cancelled.
    pub end: Option<Cycles>,
    /// What it did, if it ended in good order.
    pub counters: Option<Counters>,
    /// Why it did not.
    pub error: Option<RunError>,
}

/// Counts of a driver since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Events that the policy heard.
    pub events: u64,
    /// Times that it was asked for a plan.
    pub replans: u64,
    /// Plans that it made.
    pub plans: u64,
}

/// A launch was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Nobody has introduced the tenant.
    #[error("{0} is not known; introduce it with `tenant` first")]
    NoTenant(TenantId),
    /// The launch cannot run.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

impl Submission {
    /// Returns the launch as the GPU takes it.
    pub(super) fn request(&self, tag: u64) -> Launch<'_> {
        Launch {
            queue: self.queue,
            tag,
            domain: self.kernel.domain,
            kernel: Arc::clone(&self.kernel),
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            params: &self.params,
            budget: self.budget,
        }
    }
}
