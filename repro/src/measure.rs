//! Shapes of our kernels for the event executor: each alone on the SM model, its blocks' durations taken.
//!
//! The result is `mix/data/kernels.toml`, which `cargo xtask repro measure` prints anew.

use crate::model::submission;
use anyhow::{Context, Result};
use gridmux_hw_model::{Gpu, GpuConfig};
use gridmux_mix::event::{EventConfig, MEASURED_ON, MeasuredKernel};
use gridmux_mix::model::event_config;
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Size, Workload, workloads};

/// No kernel lasts until this cycle.
const NEVER: Cycles = Cycles(u64::MAX / 2);

/// Returns the event executor's device that stands for the measured GPU.
pub(crate) fn device() -> Result<EventConfig> {
    Ok(event_config(&GpuConfig::builtin(MEASURED_ON)?))
}

/// Measures every kernel at every size and prints the table.
pub(crate) fn print() -> Result<()> {
    println!(
        "# Our kernels alone on the model `{MEASURED_ON}`; made by `cargo xtask repro measure`."
    );
    for workload in workloads() {
        for size in Size::ALL {
            let kernel = measure(workload, size).with_context(|| workload.name)?;
            print!("\n{}", kernel.to_toml()?);
        }
    }
    Ok(())
}

fn measure(workload: &Workload, size: Size) -> Result<MeasuredKernel> {
    let mut gpu = Gpu::new(GpuConfig::builtin(MEASURED_ON)?);
    let submission = submission(&mut gpu, workload.case(size, 1), 0)?;
    let measured = gridmux_mix::model::measure(gpu, submission, NEVER)?;
    let name = (workload.name, &*size.to_string());
    Ok(MeasuredKernel::of(
        name,
        measured.block,
        measured.runtime.0,
        &measured.durations,
    ))
}

/// Returns the mean of values and their standard deviation, in percent of the mean.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (mean, 100.0 * variance.sqrt() / mean)
}
