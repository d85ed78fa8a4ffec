//! Kernels and launches of the event executor: what blocks take of an SM, how long they work, what they do to others.

use super::demand::Uses;
use gridmux_policy::hash::Fnv;
use gridmux_policy::shape::{BlockShape, DeviceShape, max_residency};
use std::f64::consts::TAU;
use std::sync::Arc;
use thiserror::Error;

/// A kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct EventKernel {
    /// Its name; profiles are kept under a hash of it and of the block shape.
    pub name: String,
    /// What each block takes.
    pub block: BlockShape,
    /// How its blocks load the SM for others, relative to their part of a full SM; 1 where nothing is known.
    pub pressure: f64,
    /// How the load of others slows its blocks down; 1 where nothing is known.
    pub sensitivity: f64,
    /// What it uses of the device.
    pub uses: Uses,
}

/// How long the blocks of a launch work, in cycles alone at full residency.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Log-normal.
    Random {
        /// Mean in cycles.
        mean: f64,
        /// Standard deviation, relative to the mean.
        deviation: f64,
        /// Blocks of one wave have a part of it in common ([`super::Contention::wave_part`]).
        by_wave: bool,
    },
    /// As measured, block by block, in cycles; the last one stands for all blocks behind it.
    Measured(Arc<[f64]>),
}

/// A launch.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSubmission {
    /// Queue; launches of one queue run in order.
    pub queue: u32,
    /// Kernel.
    pub kernel: Arc<EventKernel>,
    /// Number of blocks.
    pub blocks: u64,
    /// What the blocks do.
    pub work: Work,
}

/// What a launch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaunchCounters {
    /// Sum of the residences of its blocks in cycles.
    pub block_cycles: u64,
    /// Bytes of context that were moved to memory.
    pub switched_bytes: u64,
}

/// A launch cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It has no blocks.
    #[error("launch of `{kernel}` has no blocks; give it at least one")]
    NoBlocks {
        /// The kernel.
        kernel: String,
    },
    /// A block needs more than an SM has.
    #[error(
        "a block of `{kernel}` needs {needs:?}, more than an SM has; \
         an SM has {has:?}: use smaller blocks"
    )]
    TooLarge {
        /// The kernel.
        kernel: String,
        /// What a block takes.
        needs: BlockShape,
        /// What an SM has.
        has: BlockShape,
    },
    /// A number that describes the kernel or its work cannot be meant.
    #[error("`{kernel}`: {what} is {value}; give a finite number that is not negative")]
    Number {
        /// The kernel.
        kernel: String,
        /// What the number is.
        what: &'static str,
        /// The number, as text.
        value: String,
    },
}

impl EventSubmission {
    /// Returns why a device cannot run it.
    pub(super) fn check(&self, device: &DeviceShape) -> Result<(), Refusal> {
        let kernel = || self.kernel.name.clone();
        if self.blocks == 0 {
            return Err(Refusal::NoBlocks { kernel: kernel() });
        }
        if max_residency(device, &self.kernel.block) == 0 {
            return Err(Refusal::TooLarge {
                kernel: kernel(),
                needs: self.kernel.block,
                has: BlockShape {
                    threads: device.threads,
                    registers: device.registers,
                    shared_bytes: device.shared_bytes,
                },
            });
        }
        let mut numbers = vec![
            ("pressure", self.kernel.pressure),
            ("sensitivity", self.kernel.sensitivity),
            ("its use of issue slots", self.kernel.uses.issue),
            ("its use of load/store units", self.kernel.uses.lsu),
            ("its use of DRAM", self.kernel.uses.dram),
            ("its least time", self.kernel.uses.least),
            ("its waits", self.kernel.uses.waits.unwrap_or_default()),
        ];
        if let Work::Random {
            mean, deviation, ..
        } = self.work
        {
            numbers.extend([("the mean work", mean), ("the deviation", deviation)]);
        }
        if let Work::Measured(cycles) = &self.work {
            let cannot_be = |cycles: &&f64| !(cycles.is_finite() && **cycles >= 0.0);
            let bad = cycles.iter().find(cannot_be);
            numbers.extend(bad.map(|cycles| ("the work of a block", *cycles)));
        }
        for (what, value) in numbers {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Refusal::Number {
                    kernel: kernel(),
                    what,
                    value: value.to_string(),
                });
            }
        }
        Ok(())
    }
}

/// The work of the blocks of one launch.
#[derive(Debug)]
pub(super) struct Blocks {
    work: Work,
    /// Blocks of a wave: as many as the device holds.
    wave: u64,
    seed: u64,
    /// Logarithm of the median, and parts of the deviation of a logarithm that a wave and a block have.
    median: f64,
    of_wave: f64,
    of_block: f64,
    /// The wave that was drawn last, and its part.
    drawn: (u64, f64),
}

impl Blocks {
    pub(super) fn new(submission: &EventSubmission, device: &DeviceShape, wave_part: f64) -> Self {
        let resident = u64::from(max_residency(device, &submission.kernel.block));
        let (mut median, mut variance, mut of_wave) = (0.0, 0.0, 0.0);
        if let Work::Random {
            mean,
            deviation,
            by_wave,
        } = submission.work
        {
            variance = (1.0 + deviation * deviation).ln();
            median = mean.max(1.0).ln() - variance / 2.0;
            of_wave = if by_wave { variance * wave_part } else { 0.0 };
        }
        Self {
            work: submission.work.clone(),
            wave: (resident * u64::from(device.sms)).max(1),
            seed: Fnv::default()
                .bytes(submission.kernel.name.as_bytes())
                .finish(),
            median,
            of_wave: of_wave.sqrt(),
            of_block: (variance - of_wave).sqrt(),
            drawn: (u64::MAX, 0.0),
        }
    }

    /// Returns the work of a block in cycles, at least 1: always the same for the same kernel and block.
    pub(super) fn work_of(&mut self, block: u64) -> f64 {
        if let Work::Measured(cycles) = &self.work {
            let at = usize::try_from(block).unwrap_or(usize::MAX);
            let at = at.min(cycles.len().saturating_sub(1));
            return cycles.get(at).map_or(1.0, |cycles| cycles.max(1.0));
        }
        if self.of_wave == 0.0 && self.of_block == 0.0 {
            return self.median.exp().max(1.0);
        }
        let wave = block / self.wave;
        if self.drawn.0 != wave {
            self.drawn = (wave, self.median + self.of_wave * normal(self.seed ^ !wave));
        }
        let own = self.of_block * normal(self.seed.wrapping_add(block));
        (self.drawn.1 + own).exp().max(1.0)
    }
}

/// Returns a number of the standard normal distribution (Box and Muller) that depends on the key alone.
fn normal(key: u64) -> f64 {
    let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let (one, other) = (mix(key), mix(!key));
    (-2.0 * unit(one).ln()).sqrt() * (TAU * unit(other)).cos()
}

/// Mixes the bits of a key (the finaliser of `SplitMix64`).
fn mix(key: u64) -> u64 {
    let mut bits = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Blocks, EventKernel, EventSubmission, Uses, Work};
    use crate::event::EventConfig;
    use gridmux_policy::shape::BlockShape;
    use std::sync::Arc;

    #[test]
    fn work_has_its_mean_and_deviation_and_does_not_depend_on_the_order() {
        let submission = EventSubmission {
            queue: 0,
            kernel: Arc::new(EventKernel {
                name: "any".to_owned(),
                block: BlockShape::of_threads(1536),
                pressure: 1.0,
                sensitivity: 1.0,
                uses: Uses::UNKNOWN,
            }),
            blocks: 1,
            work: Work::Random {
                mean: 1000.0,
                deviation: 0.3,
                by_wave: true,
            },
        };
        let device = EventConfig::gtx480().shape;
        let mut blocks = Blocks::new(&submission, &device, 0.5);
        let n = 60_000;
        let drawn: Vec<f64> = (0..n).map(|block| blocks.work_of(block)).collect();
        let mean = drawn.iter().sum::<f64>() / n as f64;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((mean / 1000.0 - 1.0).abs() < 0.02, "mean {mean}");
        assert!(
            (variance.sqrt() / 300.0 - 1.0).abs() < 0.05,
            "deviation {}",
            variance.sqrt()
        );
        for block in (0..n).rev().step_by(997) {
            let again = blocks.work_of(block);
            let first = drawn[usize::try_from(block).expect("small")];
            assert!((again - first).abs() < 1e-9, "block {block}");
        }
    }
}
