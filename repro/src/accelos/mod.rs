//! accelOS: sets of 2, 4 and 8 of our kernels that start together (the paper's sections 8.1 to 8.4).
//!
//! [`sets`] draws sets and runs them on `event`, [`tables`] makes the paper's figures of them, [`on_model`] runs a
//! sample on the SM model, [`example`] is the paper's Figure 2.

mod example;
mod on_model;
mod sets;
mod tables;

use crate::context::{Context, On};
use crate::measure::device;
use crate::tables::Report;
use crate::world::{Contender, World};
use anyhow::Result;
use gridmux_mix::event::{MeasuredKernel, measured_kernels};
use gridmux_policy::policies::gridmux;

pub(crate) use sets::{Draw, Results};
pub(crate) use tables::means;

/// Size in which our kernels are launched.
const SIZE: &str = "large";
/// Policies of the tables, stock hardware first.
const POLICIES: [&str; 4] = ["fifo", "accelos", "elastic", "gridmux"];
/// The kernel that is left out where runtimes are compared: it takes many times as long as the next one.
pub(crate) const LONGEST: &str = "pointer_chase";

/// Names of our kernels, and the kernels on the device that they were measured on.
pub(crate) fn kernels() -> Result<(Vec<String>, World)> {
    let kernels = measured_kernels(SIZE);
    let names = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let device = device()?;
    let launch = |kernel: &MeasuredKernel| kernel.submission(&device);
    let launches = kernels.iter().map(launch).collect::<Result<_, _>>()?;
    let world = World::new(device, launches)?;
    Ok((names, world))
}

/// Says how far apart the kernels' runtimes alone are, on the event executor and as they were measured.
fn span(names: &[String], world: &World) -> String {
    let on_event: Vec<f64> = world
        .runtimes
        .iter()
        .map(|cycles| cycles.0 as f64)
        .collect();
    let measured: Vec<f64> = measured_kernels(SIZE)
        .iter()
        .map(|kernel| kernel.runtime_cycles as f64)
        .collect();
    let apart = |runtimes: &[f64], left_out: Option<&str>| {
        let kept = names
            .iter()
            .zip(runtimes)
            .filter(|(name, _)| left_out != Some(name.as_str()))
            .map(|(_, cycles)| *cycles);
        let (least, most) = kept.fold((f64::MAX, 0.0_f64), |(least, most), cycles| {
            (least.min(cycles), most.max(cycles))
        });
        most / least
    };
    format!(
        "Launches are of size `{SIZE}`. Without `{LONGEST}` the longest kernel takes {:.0} times as long alone as the \
         shortest one ({:.0} times as measured on the SM model), with it {:.0} times.",
        apart(&on_event, Some(LONGEST)),
        apart(&measured, Some(LONGEST)),
        apart(&on_event, None)
    )
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
    let mut report = Report::new("accelos");
    if context.wants(On::Event) {
        let (names, world) = kernels()?;
        report.tables.push(example::table(&world, &names)?);
        let contenders = contenders();
        let mut all = Vec::new();
        for draw in Draw::of_the_paper(world.kernels.len(), context.part) {
            let results = Results::of(context, &world, &contenders, &draw)?;
            all.push((draw, results));
        }
        report
            .tables
            .extend(tables::all(&all, &span(&names, &world)));
        report.pictures.extend(tables::pictures(&all));
    }
    if context.wants(On::Model) {
        report.tables.push(on_model::table(context)?);
    }
    Ok(report)
}
