//! Shapes of our kernels for the event executor: each alone on the SM model, its blocks' durations taken.
//!
//! The result is `repro/data/kernels.toml`, which `cargo xtask repro measure` makes anew.

use crate::model::submission;
use anyhow::{Context, Result};
use gridmux_hw_model::{BlockChange, DriverOptions, Gpu, GpuConfig, PolicyDriver};
use gridmux_policy::driver::Engine;
use gridmux_policy::executor::{Contention, EventConfig, EventKernel, EventSubmission, Work};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, DeviceId, TenantId, by_name};
use gridmux_workloads::{Size, Workload, workloads};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The modelled GPU on which kernels are measured.
const GPU: &str = "gtx980";
/// What was measured.
const TABLE: &str = include_str!("../data/kernels.toml");

/// A kernel's shape.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shape {
    /// Its name in the table of workloads.
    pub(crate) name: String,
    /// Threads, registers and bytes of shared memory of a block.
    pub(crate) block: BlockShape,
    /// Blocks of its `large` launch.
    pub(crate) blocks: u64,
    /// From arrival to end, in cycles.
    pub(crate) runtime_cycles: u64,
    /// Mean duration of a block, in cycles.
    pub(crate) block_cycles: f64,
    /// Standard deviation of the durations, in percent of the mean.
    pub(crate) deviation_percent: f64,
}

#[derive(Deserialize, Serialize)]
struct Table {
    kernel: Vec<Shape>,
}

/// Returns what was measured of all kernels.
pub(crate) fn shapes() -> Result<Vec<Shape>> {
    let table: Table = toml::from_str(TABLE).context("repro/data/kernels.toml")?;
    Ok(table.kernel)
}

/// Returns the event executor's device that stands for the measured GPU.
pub(crate) fn device() -> Result<EventConfig> {
    let config = GpuConfig::builtin(GPU)?;
    Ok(EventConfig {
        shape: gridmux_hw_model::device_shape(&config),
        clock_mhz: config.clock.core_mhz,
        contention: Contention::calibrated(),
    })
}

impl Shape {
    /// Returns the launch on the event executor.
    pub(crate) fn submission(&self) -> EventSubmission {
        EventSubmission {
            queue: 0,
            kernel: Arc::new(EventKernel {
                name: self.name.clone(),
                block: self.block,
                pressure: 1.0,
                sensitivity: 1.0,
            }),
            blocks: self.blocks,
            work: Work::Random {
                mean: self.block_cycles,
                deviation: self.deviation_percent / 100.0,
            },
        }
    }
}

/// Measures every kernel and prints the table.
pub(crate) fn print() -> Result<()> {
    println!(
        "# Our kernels alone on the model `{GPU}` at their `large` size; made by `cargo xtask repro measure`."
    );
    for workload in workloads() {
        let kernel = vec![measure(workload).with_context(|| workload.name)?];
        print!("\n{}", toml::to_string(&Table { kernel })?);
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "cycles of one launch")]
fn measure(workload: &Workload) -> Result<Shape> {
    let mut gpu = Gpu::new(GpuConfig::builtin(GPU)?);
    let submission = submission(&mut gpu, workload, &workload.case(Size::Large, 1), 0)?;
    let described = gpu.describe(&submission)?;
    let policy = by_name("fifo", DeviceId(0), &gpu.shape())?;
    let options = DriverOptions {
        record: true,
        ..DriverOptions::default()
    };
    let mut driver = PolicyDriver::new(gpu, policy, DeviceId(0), options);
    driver.tenant(TenantId(0), 1, Class::Normal);
    let number = driver.submit(TenantId(0), submission, Cycles(0))?;
    driver.run(Cycles(u64::MAX / 2));
    let events = driver.take_block_events();
    let ran = events.iter().filter_map(|event| match event.change {
        BlockChange::Retired { ran } => Some(ran.0 as f64),
        _ => None,
    });
    let (mean, deviation) = mean_and_deviation(&ran.collect::<Vec<f64>>());
    let outcome = driver.outcome(number).context("it was submitted")?;
    let round = |x: f64| (x * 100.0).round() / 100.0;
    Ok(Shape {
        name: workload.name.to_owned(),
        block: described.block,
        blocks: described.blocks,
        runtime_cycles: (outcome.end.context("it ended")? - outcome.arrival).0,
        block_cycles: round(mean),
        deviation_percent: round(deviation),
    })
}

/// Returns the mean of values and their standard deviation, in percent of the mean.
#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 values")]
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (mean, 100.0 * variance.sqrt() / mean)
}
