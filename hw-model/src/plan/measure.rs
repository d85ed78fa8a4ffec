//! Measuring a kernel: one launch alone on a GPU, and how long each of its blocks was resident.
//!
//! The `event` executor of the policy room takes its blocks' durations from such a measurement.

use super::{BlockChange, DriverOptions, PolicyDriver, Submission, SubmitError};
use crate::gpu::Gpu;
use gridmux_policy::driver::Engine;
use gridmux_policy::policies::fifo::Fifo;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, DeviceId, TenantId};

/// A launch that was alone on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// What each block takes.
    pub block: BlockShape,
    /// From arrival to end.
    pub runtime: Cycles,
    /// Cycles for which each block was resident, by its number in the grid.
    pub durations: Vec<u32>,
}

/// A launch could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The launch cannot run.
    #[error(transparent)]
    Refused(#[from] SubmitError),
    /// It did not end in good order.
    #[error("{0}")]
    Failed(String),
    /// It did not end until the cycle that was given.
    #[error("kernel '{kernel}' does not end within {limit} cycles")]
    Endless {
        /// The kernel.
        kernel: String,
        /// The cycle.
        limit: u64,
    },
}

/// Runs a launch alone on an idle GPU, in order of arrival, and returns what was measured.
///
/// # Errors
/// [`MeasureError`]; `limit` is the cycle until which the launch must end.
pub fn measure(gpu: Gpu, submission: Submission, limit: Cycles) -> Result<Measured, MeasureError> {
    let (device, tenant) = (DeviceId(0), TenantId(0));
    let kernel = submission.kernel.name.to_string();
    let described = gpu.describe(&submission).map_err(SubmitError::Launch)?;
    let policy = Box::new(Fifo::new(device, &Engine::shape(&gpu)));
    let options = DriverOptions {
        record: true,
        ..DriverOptions::default()
    };
    let mut driver = PolicyDriver::new(gpu, policy, device, options);
    driver.tenant(tenant, 1, Class::Normal);
    let number = driver.submit(tenant, submission, Cycles(0))?;
    let in_time = driver.run(limit);
    let outcome = driver.outcome(number);
    if let Some(error) = outcome.and_then(|outcome| outcome.error.as_ref()) {
        return Err(MeasureError::Failed(error.to_string()));
    }
    let runtime = outcome.and_then(|outcome| Some(outcome.end? - outcome.arrival));
    let Some(runtime) = runtime.filter(|_| in_time) else {
        let limit = limit.0;
        return Err(MeasureError::Endless { kernel, limit });
    };
    let mut durations = vec![0; usize::try_from(described.blocks).unwrap_or(usize::MAX)];
    for event in driver.take_block_events() {
        if let BlockChange::Retired { ran } = event.change
            && let Ok(at) = usize::try_from(event.block)
        {
            durations[at] = u32::try_from(ran.0).unwrap_or(u32::MAX);
        }
    }
    Ok(Measured {
        block: described.block,
        runtime,
        durations,
    })
}
