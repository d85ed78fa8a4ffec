//! A GPU of the paper with its eight kernels: what each does alone, every pair at every ratio, and the chain's inputs.
//!
//! Rules: traits are what was counted of a kernel alone, as Kernelet's profiler counts them (section 4.4), by the
//! policy's own rule ([`Counts::candidate`](gridmux_policy::predict::co_run::Counts::candidate)); the machine is what
//! the GPU's description says. [`Machine::INDEPENDENT`] is the one figure that is fitted.

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
        did.counts().utilisation(&self.machine, did.ipc(SMS))
    }

    /// Returns a kernel as the chain takes it.
    pub(super) fn candidate(&self, kernel: usize) -> Candidate {
        let did = &self.full[kernel];
        let candidate = did.counts().candidate(did.block, did.stay());
        candidate.unwrap_or(Candidate {
            traits: Traits::default(),
            block: did.block,
            instructions: 0.0,
        })
    }
}

/// Returns what a GPU's description says of an SM.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few schedulers"
)]
fn machine(gpu: &GpuConfig) -> Machine {
    let shape = device_shape(gpu);
    let pipelines = &gpu.pipelines;
    let peak = f64::from(shape.issued_per_kcycle) / 1e3;
    // Schedulers that take turns at too few units are as many as these keep busy.
    let virtual_sms = f64::from(gpu.sm.schedulers).min(peak).floor().max(1.0);
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

#[cfg(test)]
mod tests {
    use super::machine;
    use gridmux_hw_model::{GpuConfig, builtin_names, device_shape};
    use gridmux_policy::predict::co_run::Machine;

    /// Returns what a GPU's description says, and what the policy takes it for by its shape.
    fn both(name: &str) -> [Machine; 2] {
        let gpu = GpuConfig::builtin(name).expect("it is built in");
        [machine(&gpu), Machine::like(&device_shape(&gpu))]
    }

    /// Of the GPUs whose figures it has, the policy knows all that the description says.
    #[test]
    fn the_policy_takes_three_gpus_for_what_their_descriptions_say() {
        for name in ["c2050", "gtx680", "h100"] {
            let [described, taken] = both(name);
            let off = taken.bytes_per_cycle / described.bytes_per_cycle - 1.0;
            assert!(off.abs() < 1e-4, "{name}: {taken:?}");
            let taken = Machine {
                bytes_per_cycle: described.bytes_per_cycle,
                ..taken
            };
            assert_eq!(taken, described, "{name}");
        }
    }

    /// Of others it knows what the shape says, bandwidth and issue rate; latencies are those of another GPU.
    #[test]
    fn of_other_gpus_the_policy_knows_bandwidth_and_issue_rate() {
        for name in builtin_names() {
            let [described, taken] = both(name);
            let off = taken.bytes_per_cycle / described.bytes_per_cycle - 1.0;
            assert!(off.abs() < 1e-4, "{name}: {taken:?}");
            let peak = |of: &Machine| f64::from(of.schedulers) * of.width;
            assert_eq!(peak(&taken), peak(&described), "{name}: {taken:?}");
            for (known, own) in taken.latencies.iter().zip(described.latencies) {
                assert!((0.3..3.0).contains(&(known / own)), "{name}: {taken:?}");
            }
        }
    }
}
