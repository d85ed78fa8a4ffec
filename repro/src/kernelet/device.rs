//! A GPU of the paper with its eight kernels: what each does alone, every pair at every ratio, and the chain's inputs.
//!
//! Rules: traits are what was counted of a kernel alone, as Kernelet's profiler counts them (section 4.4); the machine
//! is what the GPU's description says. [`Machine::INDEPENDENT`] is the one figure that is fitted.

use super::kernels::KERNELS;
use super::stage::{Beside, Did};
use crate::context::Context;
use anyhow::Result;
use gridmux_hw_model::{GpuConfig, device_shape};
use gridmux_policy::DeviceShape;
use gridmux_policy::predict::co_run::{
    Candidate, Machine, Ratio, Thresholds, Traits, Utilisation, ratios,
};
use gridmux_policy::shape::max_residency;

/// SMs that are modelled; memory and caches are scaled with them.
pub(super) const SMS: u16 = 2;
/// More blocks of a kernel than an SM holds.
const ALL: u16 = u16::MAX;

/// A pair of kernels at one ratio.
#[derive(Clone, Debug)]
pub(super) struct AtRatio {
    /// Blocks of each on an SM.
    pub(super) ratio: Ratio,
    /// Instructions a cycle and SM of each.
    pub(super) ipc: [f64; 2],
}

/// A GPU with what its kernels do.
#[derive(Debug)]
pub(super) struct Device {
    /// Its name.
    pub(super) name: String,
    pub(super) machine: Machine,
    pub(super) shape: DeviceShape,
    pub(super) thresholds: Thresholds,
    /// Each kernel alone, with as many blocks as fit.
    pub(super) full: Vec<Did>,
    /// With half as many.
    pub(super) half: Vec<Did>,
    /// Pairs by the place of the first kernel, then by that of the second, which is less; none of equal kernels.
    pairs: Vec<Vec<Vec<AtRatio>>>,
}

impl Device {
    /// Runs the kernels on a GPU.
    pub(super) fn new(context: &Context, gpu: &str, thresholds: Thresholds) -> Result<Self> {
        let gpu = GpuConfig::builtin(gpu)?.scaled_to_sms(SMS);
        let shape = device_shape(&gpu);
        let run = |name: &str, runs: &[Beside]| {
            let name = format!("kernelet: {name} on {}", gpu.name);
            context.parts(&name, runs, Beside::key, Beside::run)
        };
        let beside = |kernels: Vec<_>| Beside {
            gpu: gpu.clone(),
            kernels,
        };
        let alone = |did: Vec<Vec<Did>>| did.into_iter().flatten().collect::<Vec<Did>>();
        let full: Vec<Beside> = KERNELS.map(|kernel| beside(vec![(kernel, ALL)])).to_vec();
        let full = alone(run("kernels alone", &full)?);
        let half = KERNELS.iter().zip(&full);
        let half = half.map(|(kernel, did)| {
            let blocks = (max_residency(&shape, &did.block) / 2).max(1);
            beside(vec![(*kernel, blocks)])
        });
        let half = alone(run("kernels at half occupancy", &half.collect::<Vec<_>>())?);
        let (mut runs, mut of) = (Vec::new(), Vec::new());
        for one in 0..KERNELS.len() {
            for other in 0..one {
                for ratio in ratios(&shape, [&full[one].block, &full[other].block]) {
                    let Ratio([first, second]) = ratio;
                    runs.push(beside(vec![
                        (KERNELS[one], first),
                        (KERNELS[other], second),
                    ]));
                    of.push((one, other, ratio));
                }
            }
        }
        let mut pairs: Vec<Vec<Vec<AtRatio>>> = (0..KERNELS.len())
            .map(|one| vec![Vec::new(); one])
            .collect();
        for ((one, other, ratio), did) in of.into_iter().zip(run("pairs", &runs)?) {
            let ipc = [did[0].ipc(SMS), did[1].ipc(SMS)];
            pairs[one][other].push(AtRatio { ratio, ipc });
        }
        Ok(Self {
            machine: machine(&gpu),
            name: gpu.name,
            shape,
            thresholds,
            full,
            half,
            pairs,
        })
    }

    /// Returns a pair at every ratio; the first kernel is the one with the greater place.
    pub(super) fn pair(&self, one: usize, other: usize) -> &[AtRatio] {
        &self.pairs[one][other]
    }

    /// Returns the instructions a cycle of a kernel alone.
    pub(super) fn ipc(&self, kernel: usize) -> f64 {
        self.full[kernel].ipc(SMS)
    }

    /// Returns how far a kernel alone uses the device.
    pub(super) fn utilisation(&self, kernel: usize) -> Utilisation {
        let did = &self.full[kernel];
        let peak = f64::from(self.machine.schedulers) * self.machine.width;
        Utilisation {
            pur: did.ipc(SMS) / peak,
            mur: did.bytes_per_cycle(SMS) / self.machine.bytes_per_cycle,
        }
    }

    /// Returns a kernel as the chain takes it.
    pub(super) fn candidate(&self, kernel: usize) -> Candidate {
        let did = &self.full[kernel];
        let resided = did.block_cycles as f64;
        // Instructions of a block: those of a cycle of residence, times the residence of a block.
        let resident = f64::from(max_residency(&self.shape, &did.block));
        let per_block = match did.blocks {
            0 => did.issued as f64 / (resident * f64::from(SMS)),
            blocks => did.issued as f64 / blocks as f64,
        };
        Candidate {
            traits: traits(did),
            block: did.block,
            instructions: if resided > 0.0 { per_block } else { 0.0 },
        }
    }
}

/// Returns what a GPU's description says of an SM.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few schedulers"
)]
fn machine(gpu: &GpuConfig) -> Machine {
    let pipelines = &gpu.pipelines;
    let schedulers = f64::from(gpu.sm.schedulers);
    // Schedulers that take turns at the units of single precision issue as much as these take.
    let units = f64::from(pipelines.units.fp32) / f64::from(pipelines.fp32.interval);
    let peak = units.min(schedulers * f64::from(gpu.sm.issue_width));
    let virtual_sms = schedulers.min(peak).max(1.0).floor();
    let cycles_per_second = f64::from(gpu.clock.core_mhz) * 1e6;
    let bytes_per_cycle = gpu.dram.gigabytes_per_second * 1e9 / cycles_per_second;
    Machine {
        schedulers: virtual_sms as u16,
        width: peak / virtual_sms,
        special_cycles: f64::from(pipelines.sfu.interval) / f64::from(pipelines.units.sfu.max(1)),
        dependent_cycles: f64::from(pipelines.int.latency),
        shared_cycles: f64::from(gpu.shared.latency),
        latencies: [gpu.l1.latency, gpu.l2.latency, gpu.dram.latency].map(f64::from),
        misses: f64::from(gpu.l1.mshrs),
        bytes_per_cycle: bytes_per_cycle / f64::from(gpu.sm.count),
        a0: 1.0,
        b0: 0.0,
    }
}

fn traits(did: &Did) -> Traits {
    let part = |one: u64, all: u64| one as f64 / all.max(1) as f64;
    let sectors = did.sectors.iter().sum();
    Traits {
        memory_ratio: part(did.loads, did.issued),
        special_ratio: part(did.threads[1], did.threads[0]),
        shared_ratio: part(did.shared, did.issued),
        lines: part(did.lines, did.accesses),
        hits: [part(did.sectors[0], sectors), part(did.sectors[1], sectors)],
        dram_bytes: part(did.dram_bytes, did.loads),
        independent: Machine::INDEPENDENT,
        warps: did.block.threads / 32,
    }
}
