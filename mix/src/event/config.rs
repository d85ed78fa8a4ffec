//! Configuration of the event executor: the device, and the slowdown of kernels that share an SM.
//!
//! Rule: one set of parameters holds for every workload; they lie in `mix/data/event.toml`.

use super::demand::{Demand, Uses};
use gridmux_policy::shape::{BlockShape, DeviceShape, max_residency};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The parameters that hold for every workload.
const PARAMETERS: &str = include_str!("../../data/event.toml");

/// A device of the event executor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventConfig {
    /// Its SMs.
    pub shape: DeviceShape,
    /// Core clock in MHz.
    pub clock_mhz: u32,
    /// Warp instructions that an SM issues in a cycle at most.
    pub issue_width: u32,
    /// Cycles from a launch's arrival until its first block may start.
    pub launch_cycles: u64,
    /// The same from the end of the launch before it in its queue.
    pub dependent_cycles: u64,
    /// How residents slow each other down.
    pub contention: Contention,
}

/// The contention model: a block that takes `t` cycles alone at full residency takes
/// `t · (1 + waits · (load − 1))` cycles, and at least `t · least`.
///
/// `load` is that of what its kernel demands (`demand.rs`); `waits` is the kernel's ([`Uses::waits`]) or `shared`, and
/// `least` the kernel's.
/// Of issue slots, others' demand counts `pressure` times for each of them, and `sensitivity` times for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// Part of a block's time that grows with the load, of kernels of which it was not measured; 0 for none.
    pub shared: f64,
    /// Part of the issue slots whose use counts as a demand of 1: more is not to be had beside others.
    pub issue_most: f64,
    /// The power of its demand in proportion to which a kernel waits for something.
    pub sharpness: f64,
    /// Part of the variance of the logarithm of blocks' work that blocks of one wave have in common, of kernels whose
    /// blocks differ by wave ([`super::Work::Random`]).
    pub wave_part: f64,
    /// Cycles in which the device starts one block.
    pub dispatch_cycles: f64,
    /// Bytes of context that an SM moves in a cycle.
    pub context_bytes_per_cycle: f64,
}

/// Parameters cannot be meant.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum EventConfigError {
    /// The text is no such file.
    #[error("event parameters: {0}")]
    Text(String),
    /// A number is outside its range.
    #[error("event parameters: `{name}` is {value}; give a number from {least} to {most}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Its least value.
        least: f64,
        /// Its greatest value.
        most: f64,
    },
}

impl Contention {
    /// No contention of kernels of which nothing was measured: their blocks take the time of their work wherever they
    /// are, start at once and move at no cost.
    pub const NONE: Self = Self {
        shared: 0.0,
        issue_most: 1.0,
        sharpness: 1.0,
        wave_part: 0.0,
        dispatch_cycles: 0.0,
        context_bytes_per_cycle: f64::INFINITY,
    };

    /// Returns the parameters that hold for every workload.
    ///
    /// # Panics
    /// Never: the file is part of the program, and a test reads it.
    #[must_use]
    pub fn calibrated() -> Self {
        Self::parse(PARAMETERS).expect("a test reads the file")
    }

    /// Reads parameters from TOML.
    ///
    /// # Errors
    /// [`EventConfigError`], which names the parameter.
    pub fn parse(text: &str) -> Result<Self, EventConfigError> {
        let read: Self =
            toml::from_str(text).map_err(|error| EventConfigError::Text(error.to_string()))?;
        let most = 1e9;
        let ranges = [
            ("shared", read.shared, 0.0, 1.0),
            ("issue_most", read.issue_most, 1e-3, 1.0),
            ("sharpness", read.sharpness, 1.0, 16.0),
            ("wave_part", read.wave_part, 0.0, 1.0),
            ("dispatch_cycles", read.dispatch_cycles, 0.0, most),
            (
                "context_bytes_per_cycle",
                read.context_bytes_per_cycle,
                1e-3,
                most,
            ),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(EventConfigError::Range {
                    name,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(read)
    }
}

impl EventConfig {
    /// Returns the GTX 480 of the SRTF paper (section 6, Table 3's residencies follow from it) with calibrated
    /// contention. Its cycles are the paper's, taken for those of the card's shader clock; the SM model's are those of
    /// the core clock, which is half of that (`hw-model/configs/gtx480.toml`).
    #[must_use]
    pub fn gtx480() -> Self {
        Self {
            shape: DeviceShape::gtx480(),
            clock_mhz: 1_400,
            // Two schedulers issue an instruction each in a cycle of the core clock, which is two of these.
            issue_width: 1,
            launch_cycles: 0,
            dependent_cycles: 0,
            contention: Contention::calibrated(),
        }
    }

    /// Returns the work of a block of a kernel of which nothing is known, in cycles alone at full residency, that took
    /// `cycles` in a launch of `blocks` blocks alone on this device: a launch that does not fill the SMs loads them
    /// less.
    #[must_use]
    pub fn work_of(&self, block: &BlockShape, blocks: u64, cycles: f64) -> f64 {
        let most = u64::from(max_residency(&self.shape, block)).max(1);
        let sms = u64::from(self.shape.sms.max(1));
        if blocks == 0 || blocks >= most * sms {
            return cycles;
        }
        // Blocks are spread evenly: `more` SMs have one more than the others. A block sees those beside it.
        let (each, more) = (blocks / sms, blocks % sms);
        let seen = more * (each + 1) * (each + 1) + (sms - more) * each * each;
        let beside = seen as f64 / blocks as f64 / most as f64;
        let demand = Demand::new(&self.contention, &Uses::UNKNOWN);
        cycles / demand.stretch(beside, (demand.issue * beside, 0.0, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Contention, EventConfig, EventConfigError};
    use crate::event::{EventKernel, EventSubmission, Uses, Work};
    use crate::together::alone;
    use gridmux_policy::shape::BlockShape;
    use std::sync::Arc;

    #[test]
    fn a_block_takes_the_time_that_its_work_was_made_from() {
        let config = EventConfig::gtx480();
        // Six fit an SM.
        let block = BlockShape::of_threads(256);
        for blocks in [1, 15, 45, 90] {
            let mean = config.work_of(&block, blocks, 10_000.0);
            let submission = EventSubmission {
                queue: 0,
                kernel: Arc::new(EventKernel {
                    name: "any".to_owned(),
                    block,
                    pressure: 1.0,
                    sensitivity: 1.0,
                    uses: Uses::UNKNOWN,
                }),
                blocks,
                work: Work::Random {
                    mean,
                    deviation: 0.0,
                    by_wave: true,
                },
            };
            let took = alone(config, &submission).expect("it fits").0 as f64;
            assert!((took / 10_000.0 - 1.0).abs() < 0.02, "{blocks}: {took}");
        }
        let work = |blocks| config.work_of(&block, blocks, 1.0);
        assert!(work(15) > work(90));
    }

    #[test]
    fn the_file_holds_parameters_and_errors_name_theirs() {
        let read = Contention::calibrated();
        assert!(read.shared > 0.0 && read.context_bytes_per_cycle > 0.0);
        let text = super::PARAMETERS.replace("shared = ", "shared = 1");
        let error = Contention::parse(&text).expect_err("10-fold");
        assert!(
            matches!(error, EventConfigError::Range { name: "shared", .. }),
            "{error}"
        );
        let error = Contention::parse("shard = 1").expect_err("unknown");
        assert!(error.to_string().contains("shard"), "{error}");
    }
}
