//! Policies on the SM model.
//!
//! [`ModelDriver`] puts any policy in charge of `plan` mode; [`measure`](fn@measure) finds how long the blocks of a
//! kernel last, from which the event executor takes them ([`event_config`] is its device); [`OwnKernel`] is a kernel of
//! ours with its buffers.
//!
//! Rule: a run is deterministic to the cycle, whatever the number of threads.

mod engine;
mod measure;
mod own;

pub use engine::{ModelDriver, ModelSubmission, Outcome, SubmitError};
pub use measure::{MeasureError, Measured, measure, uses};
pub use own::{OwnKernel, OwnKernelError, SPARE_BYTES};

use crate::event::{Contention, EventConfig};
use gridmux_hw_model::{GpuConfig, device_shape};
use gridmux_policy::DeviceShape;

/// Returns the device of the event executor that stands for a GPU.
#[must_use]
pub fn event_config(config: &GpuConfig) -> EventConfig {
    EventConfig {
        // Launches of the event executor do not wait for each other.
        shape: DeviceShape {
            submission_ns: 0,
            ..device_shape(config)
        },
        clock_mhz: config.clock.core_mhz,
        issue_width: u32::from(config.sm.schedulers) * u32::from(config.sm.issue_width),
        launch_cycles: config.launch.kernel_cycles.into(),
        dependent_cycles: config.launch.dependent_cycles.into(),
        contention: Contention::calibrated(),
    }
}
