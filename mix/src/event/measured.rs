//! Our own kernels as they were measured alone on the SM model: what a block takes, how many blocks, how long each
//! lasts.
//!
//! The table is `mix/data/kernels.toml`, which `cargo xtask repro measure` prints anew.

use super::{EventConfig, EventKernel, EventSubmission, Refusal, Uses, Work};
use crate::together::alone;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Cycles;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The modelled GPU on which the kernels of the table were measured; cycles are those of its clock.
pub const MEASURED_ON: &str = "gtx980";

const TABLE: &str = include_str!("../../data/kernels.toml");

/// A kernel of the table at one size.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredKernel {
    /// Its name in the table of workloads.
    pub name: String,
    /// Size of the launch: `tiny`, `small` or `large`.
    pub size: String,
    /// Blocks of the launch.
    pub blocks: u64,
    /// From arrival to end, in cycles.
    pub runtime_cycles: u64,
    /// Mean duration of a block, in cycles.
    pub block_cycles: f64,
    /// Standard deviation of the durations, in percent of the mean.
    pub deviation_percent: f64,
    /// What it uses of the device at full residency, measured with a large launch.
    pub uses: Uses,
    /// Threads, registers and bytes of shared memory of a block.
    pub block: BlockShape,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kernel: Vec<MeasuredKernel>,
}

/// Returns the kernels at a size (`tiny`, `small` or `large`), in the order of the table of workloads; none for another
/// size.
///
/// # Panics
/// Never: the table is part of the program, and a test reads it.
#[must_use]
pub fn measured_kernels(size: &str) -> Vec<MeasuredKernel> {
    let table: Table = toml::from_str(TABLE).expect("a test reads the table");
    let all = table.kernel.into_iter();
    all.filter(|kernel| kernel.size == size).collect()
}

impl MeasuredKernel {
    /// Makes an entry from the durations of a launch's blocks, in cycles.
    #[must_use]
    pub fn of(
        (name, size): (&str, &str),
        (block, uses): (BlockShape, Uses),
        runtime_cycles: u64,
        durations: &[u32],
    ) -> Self {
        let blocks = durations.len() as u64;
        let mean = durations.iter().map(|ran| f64::from(*ran)).sum::<f64>() / blocks as f64;
        let square = |ran: &u32| (f64::from(*ran) - mean).powi(2);
        let variance = durations.iter().map(square).sum::<f64>() / blocks as f64;
        let round = |figure: f64| (figure * 100.0).round() / 100.0;
        let fine = |part: f64| (part * 1e4).round() / 1e4;
        Self {
            name: name.to_owned(),
            size: size.to_owned(),
            blocks,
            runtime_cycles,
            block_cycles: round(mean),
            deviation_percent: round(100.0 * variance.sqrt() / mean),
            uses: Uses {
                issue: fine(uses.issue),
                lsu: fine(uses.lsu),
                dram: fine(uses.dram),
                waits: uses.waits.map(fine),
                least: fine(uses.least),
            },
            block,
        }
    }

    /// Returns the entry as the table has it.
    ///
    /// # Errors
    /// It is no TOML, which cannot be.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let kernel = vec![self.clone()];
        toml::to_string(&Table { kernel })
    }

    /// Returns the launch, with its blocks' work such that alone on `on`, where the kernel was measured, it takes the
    /// time that was measured.
    ///
    /// # Errors
    /// [`Refusal`]: the device cannot run it.
    pub fn submission(&self, on: &EventConfig) -> Result<EventSubmission, Refusal> {
        let launch = EventSubmission {
            queue: 0,
            kernel: Arc::new(EventKernel {
                name: self.name.clone(),
                block: self.block,
                pressure: 1.0,
                sensitivity: 1.0,
                uses: self.uses,
            }),
            blocks: self.blocks,
            work: Work::Random {
                mean: self.block_cycles,
                deviation: self.deviation_percent / 100.0,
                by_wave: false,
            },
        };
        launch.lasting(on, Cycles(self.runtime_cycles))
    }
}

impl EventSubmission {
    /// Returns the launch with its blocks' work scaled so that alone on a device it takes as long as `runtime`.
    ///
    /// # Errors
    /// [`Refusal`]: the device cannot run it.
    pub fn lasting(mut self, on: &EventConfig, runtime: Cycles) -> Result<Self, Refusal> {
        let beyond_latency =
            |cycles: Cycles| (cycles.0.saturating_sub(on.launch_cycles)).max(1) as f64;
        let more = beyond_latency(runtime) / beyond_latency(alone(*on, &self)?);
        match &mut self.work {
            Work::Random { mean, .. } => *mean *= more,
            Work::Measured(cycles) => *cycles = cycles.iter().map(|own| own * more).collect(),
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{MeasuredKernel, Uses, measured_kernels};
    use gridmux_policy::shape::BlockShape;

    #[test]
    fn every_kernel_has_three_sizes_in_one_order() {
        let names = |size| {
            let kernels = measured_kernels(size).into_iter();
            kernels.map(|kernel| kernel.name).collect::<Vec<_>>()
        };
        let large = names("large");
        assert_eq!(large.len(), 20);
        assert_eq!((&names("tiny"), &names("small")), (&large, &large));
        assert!(measured_kernels("huge").is_empty());
    }

    #[test]
    fn an_entry_holds_mean_and_deviation_of_its_blocks() {
        let block = BlockShape::of_threads(32);
        let kernel = MeasuredKernel::of(("k", "tiny"), (block, Uses::UNKNOWN), 500, &[100, 300]);
        assert_eq!((kernel.blocks, kernel.runtime_cycles), (2, 500));
        assert!((kernel.block_cycles - 200.0).abs() < 1e-9, "{kernel:?}");
        assert!((kernel.deviation_percent - 50.0).abs() < 1e-9, "{kernel:?}");
        let text = kernel.to_toml().expect("it is TOML");
        assert!(text.starts_with("[[kernel]]\nname = \"k\"\n"), "{text}");
    }
}
