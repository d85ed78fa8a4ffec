//! Table 3: each ERCBench kernel alone. Its mean duration of a block is what goes in; runtime and deviation come out.

use crate::tables::{Figures, Note, Row};
use crate::world::World;
use anyhow::Result;
use gridmux_mix::driver::{BlockChange, DriverOptions};
use gridmux_mix::event::{ErcKernel, EventDriver, EventExecutor};
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, DeviceId, Profiles, TenantId, by_name};

const NOTES: &[Note] = &[
    Note {
        rows: &["raytracing"],
        metrics: &["cycles"],
        why: "RayTracing's blocks differ by 66 % of their mean, and our draw of log-normal durations, of which a wave \
              shares most, has longer late waves than the paper's scene.",
    },
    Note {
        rows: &[],
        metrics: &["block_cycles", "deviation_percent"],
        why: "Blocks of the last, partial wave run faster on SMs that are not full, and one draw of log-normal \
              durations has another mean and deviation than its distribution.",
    },
];

/// Returns the table.
pub(super) fn table(kernels: &[ErcKernel], world: &World) -> Result<Figures> {
    let metrics = ["cycles", "block_cycles", "deviation_percent"];
    let mut rows = Vec::new();
    for (place, kernel) in kernels.iter().enumerate() {
        let paper = [
            kernel.runtime_cycles as f64,
            kernel.block_cycles,
            kernel.deviation_percent,
        ];
        let (mean, deviation) = blocks(world, place)?;
        let ours = [world.runtimes[place].0 as f64, mean, deviation];
        rows.push(Row::new(&kernel.name, metrics, paper, ours));
    }
    Ok(Figures {
        name: "Kernels alone (Table 3)".to_owned(),
        about: "Runtime, mean duration of a block and its relative standard deviation.".to_owned(),
        rows,
        notes: NOTES.to_vec(),
    })
}

/// Returns the mean duration in cycles of a kernel's blocks, and their relative standard deviation in percent.
fn blocks(world: &World, kernel: usize) -> Result<(f64, f64)> {
    let policy = by_name(
        "fifo",
        DeviceId(0),
        &world.config.shape,
        &Profiles::default(),
    )?;
    let options = DriverOptions {
        record: true,
        ..DriverOptions::default()
    };
    let mut driver = EventDriver::new(
        EventExecutor::new(world.config),
        policy,
        DeviceId(0),
        options,
    );
    driver.tenant(TenantId(0), 1, Class::Normal);
    driver.submit(TenantId(0), world.kernels[kernel].clone(), Cycles(0))?;
    driver.run(Cycles(u64::MAX));
    let ran = driver
        .take_block_events()
        .into_iter()
        .filter_map(|event| match event.change {
            BlockChange::Retired { ran } => Some(ran.0 as f64),
            _ => None,
        });
    Ok(crate::measure::mean_and_deviation(
        &ran.collect::<Vec<f64>>(),
    ))
}
