//! Traces: our kernels alone and in pairs on a small GTX 480 of the SM model.

use crate::context::Context;
use crate::model::{Mix, Ran, Sized};
use anyhow::Result;
use gridmux_hw_model::GpuConfig;
use gridmux_policy::{DeviceId, Profiles, by_name};
use gridmux_workloads::{Workload, workloads};

const GPU: &str = "gtx480";
const SMS: u16 = 4;
/// Waves of blocks that a grid has at least, if its kernel can be so large; an SM of the GPU holds eight blocks at most.
const WAVES: u64 = 10;

fn gpu() -> Result<GpuConfig> {
    Ok(GpuConfig::builtin(GPU)?.scaled_to_sms(SMS))
}

fn sized(workload: &'static Workload) -> Sized {
    Sized::with_blocks(workload, WAVES * 8 * u64::from(SMS))
}

fn run(policy: &'static str, launches: &[(Sized, u64)]) -> Result<Ran> {
    let mix = Mix {
        gpu: gpu()?,
        launches: launches.to_vec(),
    };
    mix.run(true, |shape, _| {
        Ok(by_name(policy, DeviceId(0), shape, &Profiles::default())?)
    })
}

/// Returns a trace of each kernel alone.
pub(super) fn alone(context: &Context) -> Result<Vec<Ran>> {
    let all: Vec<Sized> = workloads().iter().map(sized).collect();
    context.parts(
        "traces of kernels alone",
        &all,
        |kernel| {
            format!(
                "{} {:?} on {SMS} SMs of {GPU}",
                kernel.workload.name, kernel.params
            )
        },
        |kernel| run("fifo", &[(*kernel, 0)]),
    )
}

/// Returns traces of pairs: each kernel with the next two in alphabetical order, in both orders, the second arriving at
/// a quarter of the first one's runtime.
pub(super) fn pairs(context: &Context) -> Result<Vec<Ran>> {
    let mut all: Vec<&'static Workload> = workloads().iter().collect();
    all.sort_by_key(|workload| workload.name);
    let alone = alone(context)?;
    let runtime = |workload: &Workload| {
        let ran = alone
            .iter()
            .map(|ran| &ran.launches[0])
            .find(|launch| launch.kernel == workload.name);
        ran.map_or(0, |launch| launch.turnaround())
    };
    let mut pairs = Vec::new();
    for place in 0..all.len() {
        for apart in [1, 2] {
            let (one, other) = (all[place], all[(place + apart) % all.len()]);
            for (first, second) in [(one, other), (other, one)] {
                pairs.push([(sized(first), 0), (sized(second), runtime(first) / 4)]);
            }
        }
    }
    context.parts(
        "traces of pairs",
        &pairs,
        |pair| {
            format!(
                "{:?} on {SMS} SMs of {GPU}",
                pair.map(|(kernel, at)| (kernel.workload.name, kernel.params, at))
            )
        },
        |pair| run("mpmax", pair),
    )
}
