//! SRTF: the paper's experiments on its eight ERCBench kernels, and on ours where the SM model is to say it.
//!
//! [`alone`] is Table 3; [`pairs`] runs the 56 ordered pairs, of which [`tables`] makes Tables 5 and 6, [`text`] what
//! the text counts, [`adaptive`] what hangs on the slowdowns of SRTF/Adaptive, [`order`] the order of the policies, and
//! [`figure_1`] Figure 1; [`bars`] says how near they have to be to the paper.

mod adaptive;
mod alone;
mod bars;
mod figure_1;
mod order;
mod pairs;
mod tables;
mod text;

use crate::context::{Context, On};
use crate::predictors;
use crate::tables::Report;
use crate::world::World;
use anyhow::Result;
use gridmux_mix::event::{ErcKernel, EventConfig, ercbench};

pub(crate) use pairs::{OFFSETS, Runs};

/// Returns the kernels in the paper's order, which is alphabetical there, and their launches on a GTX 480.
pub(crate) fn kernels() -> Result<(Vec<ErcKernel>, World)> {
    let config = EventConfig::gtx480();
    let kernels = ercbench();
    let launches = kernels
        .iter()
        .map(|kernel| kernel.submission(&config.shape));
    let world = World::new(config, launches.collect())?;
    Ok((kernels, world))
}

/// Runs every experiment.
pub(crate) fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("srtf");
    if context.wants(On::Event) {
        let (kernels, world) = kernels()?;
        report.tables.push(alone::table(&kernels, &world)?);
        let runs = Runs::of(context, &world)?;
        let mut tables = tables::all(&runs);
        tables.push(tables::zero_sampling(context, &world)?);
        tables.push(order::on_event(&runs));
        tables.push(tables::derived(&runs));
        tables.push(text::counts(&runs, &kernels));
        tables.push(adaptive::table(context, &world)?);
        tables.push(text::examples(&runs));
        if context.check {
            bars::check(&runs, &tables)?;
        }
        report.tables.extend(tables);
        let (table, picture) = figure_1::table(&runs);
        report.tables.push(table);
        report.pictures.push(picture);
        report.pictures.extend(pairs::pictures(&runs, &kernels));
    }
    if context.wants(On::Model) {
        report.tables.extend(order::on_model(context)?);
        report.tables.extend(predictors::tables(context)?);
    }
    Ok(report)
}
