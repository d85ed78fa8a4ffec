//! Traces: our kernels alone and in pairs on a small H200 of the SM model.

use crate::context::Context;
use crate::model::{Mix, Ran, Sized};
use anyhow::Result;
use gridmux_hw_model::GpuConfig;
use gridmux_mix::event::EventConfig;
use gridmux_mix::model::event_config;
use gridmux_policy::{DeviceId, Profiles, by_name};
use gridmux_workloads::{Workload, workloads};

const GPU: &str = "h200";
const SMS: u16 = 2;
/// Waves of blocks that a grid has at least, alone and in a pair, if its kernel can be so large.
const WAVES: [u64; 2] = [16, 5];

fn gpu() -> Result<GpuConfig> {
    Ok(GpuConfig::builtin(GPU)?.scaled_to_sms(SMS))
}

/// Returns all kernels in alphabetical order, in sizes of at least `waves` waves.
fn kernels(waves: u64) -> Result<Vec<Sized>> {
    let mut all: Vec<&'static Workload> = workloads().iter().collect();
    all.sort_by_key(|workload| workload.name);
    let gpu = gpu()?;
    let sized = all
        .into_iter()
        .map(|workload| Sized::with_waves(workload, waves, &gpu));
    sized.collect()
}

fn run(policy: &'static str, launches: &[(Sized, u64)]) -> Result<Ran> {
    let mix = Mix {
        gpu: gpu()?,
        launches: launches.to_vec(),
    };
    mix.run(true, None, |shape, _| {
        Ok(by_name(policy, DeviceId(0), shape, &Profiles::default())?)
    })
}

/// Returns a trace of each kernel alone.
pub(super) fn alone(context: &Context) -> Result<Vec<Ran>> {
    singly(context, &kernels(WAVES[0])?)
}

fn singly(context: &Context, kernels: &[Sized]) -> Result<Vec<Ran>> {
    context.parts(
        "traces of kernels alone",
        kernels,
        |kernel| format!("{} on {SMS} SMs of {GPU}", kernel.key()),
        |kernel| run("fifo", &[(*kernel, 0)]),
    )
}

/// Returns a trace of each kernel alone in the size that it has in pairs.
pub(crate) fn small(context: &Context) -> Result<Vec<Ran>> {
    singly(context, &kernels(WAVES[1])?)
}

/// Returns the event executor's device that stands for the GPU of the traces.
pub(crate) fn device() -> Result<EventConfig> {
    Ok(event_config(&gpu()?))
}

/// Returns traces of pairs: each kernel with the next one in alphabetical order, in both orders, the second arriving at
/// a quarter of the first one's runtime.
pub(crate) fn pairs(context: &Context) -> Result<Vec<Ran>> {
    let all = kernels(WAVES[1])?;
    let alone = small(context)?;
    let mut pairs = Vec::new();
    for one in 0..all.len() {
        let other = (one + 1) % all.len();
        for (first, second) in [(one, other), (other, one)] {
            let quarter = alone[first].launches[0].turnaround() / 4;
            pairs.push([(all[first], 0), (all[second], quarter)]);
        }
    }
    let named = |(kernel, at): (Sized, u64)| (kernel.workload.name, kernel.params, at);
    context.parts(
        "traces of pairs",
        &pairs,
        |pair| format!("{:?} on {SMS} SMs of {GPU}", pair.map(named)),
        |pair| run("mpmax", pair),
    )
}

/// Returns a trace of named kernels with their arrivals.
#[cfg(test)]
pub(super) fn one(launches: &[(&str, u64)]) -> Result<Ran> {
    let gpu = gpu()?;
    let mut mix = Vec::new();
    for (name, at) in launches {
        let workload = gridmux_workloads::by_name(name).expect("a kernel of the table");
        mix.push((Sized::with_waves(workload, WAVES[0], &gpu)?, *at));
    }
    run("mpmax", &mix)
}
