//! Our kernels for the event executor: each alone on the SM model, its blocks' durations taken at every size, and what
//! it uses of the device, with as many blocks as an SM holds, with half as many and with one.
//!
//! The result is `mix/data/kernels.toml`, which `cargo xtask repro measure` prints anew.

use crate::context::Context;
use crate::corun::{self, Corun, Ran, Until};
use crate::model::{Sized, submission};
use crate::world::Contender;
use anyhow::{Context as _, Result, ensure};
use gridmux_hw_model::{Gpu, GpuConfig, device_shape};
use gridmux_mix::Engine;
use gridmux_mix::event::{EventConfig, MEASURED_ON, MeasuredKernel, Uses};
use gridmux_mix::model::event_config;
use gridmux_policy::shape::max_residency;
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Size, Workload, workloads};

/// SMs of the GPU on which it is measured what kernels use, so that their grids fill it.
const USES_SMS: u16 = 4;
/// A large launch of fewer waves of blocks gets more elements, as far as its kernel takes them.
const USES_WAVES: u64 = 4;
/// Cycles of such a measurement: four blocks of the longest kernel but `pointer_chase`.
const USES_CYCLES: u64 = 1_000_000;
/// No kernel lasts until this cycle.
const NEVER: Cycles = Cycles(u64::MAX / 2);

/// How many blocks of a kernel an SM holds.
struct Residency {
    most: u16,
    /// Half of them, rounded up.
    half: u16,
    /// The grid has that many for every SM.
    is_filled: bool,
}

/// Returns the event executor's device that stands for the measured GPU.
pub(crate) fn device() -> Result<EventConfig> {
    Ok(event_config(&GpuConfig::builtin(MEASURED_ON)?))
}

/// Measures every kernel at every size and prints the table.
pub(crate) fn print(context: &Context) -> Result<()> {
    println!(
        "# Our kernels alone on the model `{MEASURED_ON}`; made by `cargo xtask repro measure`."
    );
    let workloads: Vec<&'static Workload> = workloads().iter().collect();
    let uses = uses(context, &workloads)?;
    for (workload, uses) in workloads.into_iter().zip(uses) {
        for size in Size::ALL {
            let kernel = measure(workload, size, uses).with_context(|| workload.name)?;
            print!("\n{}", kernel.to_toml()?);
        }
    }
    Ok(())
}

fn measure(workload: &Workload, size: Size, uses: Uses) -> Result<MeasuredKernel> {
    let mut gpu = Gpu::new(GpuConfig::builtin(MEASURED_ON)?);
    let submission = submission(&mut gpu, workload.case(size, 1), 0)?;
    let measured = gridmux_mix::model::measure(gpu, submission, NEVER)?;
    let name = (workload.name, &*size.to_string());
    Ok(MeasuredKernel::of(
        name,
        (measured.block, uses),
        measured.runtime.0,
        &measured.durations,
    ))
}

/// Returns what kernels use of the device.
fn uses(context: &Context, workloads: &[&'static Workload]) -> Result<Vec<Uses>> {
    let gpu = GpuConfig::builtin(MEASURED_ON)?.scaled_to_sms(USES_SMS);
    let shape = device_shape(&gpu);
    let (mut residencies, mut coruns) = (Vec::new(), Vec::new());
    for workload in workloads {
        let large = Sized {
            workload,
            params: workload.params(Size::Large, 1),
        };
        let kernel = large.grown(USES_WAVES, &gpu)?;
        let mut device = Gpu::new(gpu.clone());
        let launch = submission(&mut device, kernel.case()?, 0)?;
        let described = device.describe(&launch)?;
        let most = max_residency(&shape, &described.block);
        let residency = Residency {
            most,
            half: most.div_ceil(2),
            is_filled: described.blocks >= u64::from(most) * u64::from(shape.sms),
        };
        coruns.extend([most, residency.half, 1].map(|blocks| Corun {
            gpu: gpu.clone(),
            programs: vec![vec![kernel]],
            policy: Contender::fixed(vec![blocks]),
            until: Until::Cycles(USES_CYCLES),
            sample_every: USES_CYCLES,
            free_switches: false,
        }));
        residencies.push(residency);
    }
    let ran = corun::run(context, "what kernels use", &coruns)?;
    let kernels = workloads.iter().zip(ran.chunks(3).zip(&residencies));
    kernels
        .map(|(workload, (runs, residency))| {
            uses_of(&gpu, runs, residency).with_context(|| workload.name)
        })
        .collect()
}

/// Returns what a kernel uses that ran with as many blocks on an SM as fit, with half as many, and with one.
fn uses_of(gpu: &GpuConfig, runs: &[Ran], residency: &Residency) -> Result<Uses> {
    let counter = |ran: &Ran, name: &str| ran.programs[0].counters[name];
    let full = &runs[0];
    let (most, half) = (f64::from(residency.most), f64::from(residency.half));
    // Progress, as a block counts while it runs: instructions over residence.
    let pace = |ran: &Ran| {
        let residence = counter(ran, "block_cycles");
        ensure!(residence > 0, "no block ran");
        Ok(counter(ran, "warp_instructions") as f64 / residence as f64)
    };
    let stretch = |ran: &Ran| anyhow::Ok(pace(full)? / pace(ran)?);
    let waits = (1.0 - stretch(&runs[1])?) / (1.0 - half / most);
    let least = stretch(&runs[2])?.min(1.0);
    // What lies between launches is left out.
    let cycles = counter(full, "block_cycles") as f64 / most / f64::from(gpu.sm.count);
    Ok(Uses {
        waits: (half < most && residency.is_filled).then(|| waits.clamp(0.0, 1.0)),
        least,
        ..gridmux_mix::model::uses(gpu, cycles, |name| counter(full, name))
    })
}

/// Returns the mean of values and their standard deviation, in percent of the mean.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (mean, 100.0 * variance.sqrt() / mean)
}
