//! `gridmux sim gpus` and `gridmux sim gpu`: the descriptions of modelled GPUs.

use super::loading::{Changes, gpu};
use crate::failure::Failure;
use crate::offer::gpus;
use crate::output::Output;
use crate::table;
use clap::{Args, Subcommand};
use gridmux_hw_model::GpuConfig;
use gridmux_hw_model::description::{Parameter, builtins};
use serde::Serialize;
use toml::Value;

/// Lists the built-in ones.
#[derive(Debug, Args)]
pub(crate) struct Gpus;

/// Commands on one description.
#[derive(Debug, Subcommand)]
pub(crate) enum GpuCommand {
    /// Print every parameter of a GPU with its unit
    Show(Show),
}

/// Shows one.
#[derive(Debug, Args)]
#[command(
    after_help = "A file of parameters may begin with `base = \"h200\"`; it then needs only the keys that \
                        differ from that built-in GPU.\n\n\
                        Example:\n  gridmux sim gpu show h200 --toml > my.toml\n  \
                        gridmux sim gpu show my.toml --set sm.scheduler=gto"
)]
pub(crate) struct Show {
    /// GPU by name, or a description in TOML
    #[arg(value_name = "NAME|FILE.toml", value_parser = gpus(), hide_possible_values = true)]
    gpu: String,
    #[command(flatten)]
    changes: Changes,
    /// Print a description, as --gpu FILE.toml takes it
    #[arg(long)]
    toml: bool,
    /// Print only the parameters whose values have no source
    #[arg(long, conflicts_with = "toml")]
    estimates: bool,
}

/// A built-in GPU.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    sms: u16,
    core_mhz: u32,
    dram_gigabytes_per_second: f64,
    stands_for: &'static str,
}

impl Gpus {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for builtin in builtins() {
            let config = GpuConfig::builtin(builtin.name)?;
            rows.push(Row {
                name: builtin.name,
                sms: config.sm.count,
                core_mhz: config.clock.core_mhz,
                dram_gigabytes_per_second: config.dram.gigabytes_per_second,
                stands_for: builtin.stands_for,
            });
        }
        let cells = |row: &Row| {
            vec![
                row.name.to_owned(),
                row.sms.to_string(),
                format!("{} MHz", row.core_mhz),
                format!("{} GB/s", row.dram_gigabytes_per_second),
                row.stands_for.to_owned(),
            ]
        };
        let headings = ["name", "sms", "clock", "memory", "stands for"];
        out.show(&rows, || table::of(&headings, rows.iter().map(cells)))
    }
}

impl GpuCommand {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::Show(show) => show.run(out),
        }
    }
}

impl Show {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let config = gpu(&self.gpu, &self.changes)?;
        if self.toml && !out.is_json() {
            return out.text(&config.to_toml());
        }
        let mut lines = config.parameters();
        lines.retain(|line| line.estimate || !self.estimates);
        let cells = |line: &Parameter| {
            let value = match &line.value {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let estimate = if line.estimate { "estimate" } else { "" };
            vec![
                line.key.to_owned(),
                value,
                line.unit.to_owned(),
                estimate.to_owned(),
            ]
        };
        let headings = ["key", "value", "unit", "source"];
        out.show(&lines, || {
            table::with_names(&headings, lines.iter().map(cells))
        })
    }
}
