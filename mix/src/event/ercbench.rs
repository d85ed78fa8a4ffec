//! ERCBench as the SRTF paper's Tables 2 and 3 give it: eight kernels of which only shapes and durations are known.

use super::{EventKernel, EventSubmission, Uses, Work};
use gridmux_policy::shape::{BlockShape, DeviceShape};
use serde::Deserialize;
use std::sync::Arc;

const TABLE: &str = include_str!("../../data/ercbench.toml");

/// A kernel of the table.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ErcKernel {
    /// Its name.
    pub name: String,
    /// Blocks that reside on an SM of the GTX 480.
    pub residency: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Runtime alone in the paper, in cycles.
    pub runtime_cycles: u64,
    /// Mean duration of a block in the paper, in cycles.
    pub block_cycles: f64,
    /// Its standard deviation in the paper, in percent of the mean.
    pub deviation_percent: f64,
    #[serde(default = "one")]
    pressure: f64,
    #[serde(default = "one")]
    sensitivity: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kernel: Vec<ErcKernel>,
}

fn one() -> f64 {
    1.0
}

/// Returns the kernels in the paper's order.
///
/// # Panics
/// Never: the table is part of the program, and a test reads it.
#[must_use]
pub fn ercbench() -> Vec<ErcKernel> {
    let table: Table = toml::from_str(TABLE).expect("a test reads the table");
    table.kernel
}

impl ErcKernel {
    /// Returns a launch of the whole grid. Registers limit residency to the paper's where threads do not.
    #[must_use]
    pub fn submission(&self, device: &DeviceShape) -> EventSubmission {
        let threads = self.threads.next_multiple_of(32);
        let limited = self.residency < (device.threads / threads).min(device.blocks);
        EventSubmission {
            queue: 0,
            kernel: Arc::new(EventKernel {
                name: self.name.clone(),
                block: BlockShape {
                    threads,
                    registers: match limited {
                        true => device.registers / self.residency,
                        false => threads * 16,
                    },
                    shared_bytes: 0,
                },
                pressure: self.pressure,
                sensitivity: self.sensitivity,
                uses: Uses::UNKNOWN,
            }),
            blocks: self.blocks,
            work: Work::Random {
                mean: self.block_cycles,
                deviation: self.deviation_percent / 100.0,
                by_wave: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ercbench;
    use crate::event::EventConfig;
    use gridmux_policy::shape::max_residency;

    #[test]
    fn residencies_are_those_of_table_2() {
        let device = EventConfig::gtx480().shape;
        let kernels = ercbench();
        assert_eq!(kernels.len(), 8);
        for kernel in kernels {
            let block = kernel.submission(&device).kernel.block;
            let most = max_residency(&device, &block);
            assert_eq!(u32::from(most), kernel.residency, "{}", kernel.name);
        }
    }
}
