//! accelOS: sets of 2, 4 and 8 of our kernels that start together (the paper's sections 8.1 to 8.4).
//!
//! [`sets`] draws sets and runs them, [`tables`] makes the paper's figures of them, [`example`] is its Figure 2.

mod example;
mod sets;
mod tables;

use crate::context::{Context, On};
use crate::measure::device;
use crate::tables::Report;
use crate::world::{Contender, World};
use anyhow::Result;
use gridmux_policy::executor::{MeasuredKernel, Work, measured_kernels};
use gridmux_policy::policies::gridmux;

pub(crate) use sets::{Draw, Results};
pub(crate) use tables::means;

/// Names of our kernels, and the kernels on the device that they were measured on.
pub(crate) fn kernels() -> Result<(Vec<String>, World)> {
    let kernels = measured_kernels("large");
    let names = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let device = device()?;
    // What was measured with few blocks on an SM counts as work at full residency.
    let launch = |kernel: &MeasuredKernel| {
        let mut launch = kernel.submission();
        if let Work::Random { mean, .. } = &mut launch.work {
            *mean = device.work_of(&kernel.block, kernel.blocks, *mean);
        }
        launch
    };
    let world = World::new(device, kernels.iter().map(launch).collect())?;
    Ok((names, world))
}

/// Returns the policies that run every set: stock hardware first.
fn contenders() -> Vec<Contender> {
    let mut all: Vec<Contender> = ["fifo", "accelos", "elastic"]
        .into_iter()
        .map(Contender::named)
        .collect();
    all.push(Contender::gridmux(
        "gridmux",
        gridmux::Settings::default(),
        false,
    ));
    all
}

/// Runs every experiment.
pub(crate) fn run(context: &Context) -> Result<Report> {
    let mut report = Report {
        paper: "accelos",
        tables: Vec::new(),
        pictures: Vec::new(),
    };
    if context.wants(On::Event) {
        let (names, world) = kernels()?;
        report.tables.push(example::table(&world, &names)?);
        let contenders = contenders();
        let mut all = Vec::new();
        for draw in Draw::of_the_paper(world.kernels.len(), context.part) {
            let results = Results::of(context, &world, &contenders, &draw)?;
            all.push((draw, results));
        }
        report.tables.extend(tables::all(&all));
        report.pictures.extend(tables::pictures(&all));
    }
    Ok(report)
}
