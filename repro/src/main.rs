//! The papers' experiments on the event executor, beside the papers' figures.

mod accelos;
mod measure;
mod on_model;
mod srtf;
mod tables;

use clap::{Parser, ValueEnum};

/// A paper.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Paper {
    /// Preemptive thread block scheduling with online structural runtime prediction.
    Srtf,
    /// Accelerating sharing of OpenCL kernels with an operating-system-like runtime.
    Accelos,
    /// No paper: measures our kernels on the SM model and prints their shapes for the event executor.
    Measure,
}

/// Repeats the experiments of a paper and prints what came out beside the paper's figures.
#[derive(Debug, Parser)]
struct Args {
    /// The paper.
    paper: Paper,
    /// Part of the sets of 4 and 8 kernels that accelOS's experiments draw.
    #[arg(long, default_value_t = 1.0)]
    part: f64,
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let report = match args.paper {
        Paper::Srtf => srtf::run()?,
        Paper::Accelos => accelos::run(args.part)?,
        Paper::Measure => return measure::print(),
    };
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{report}"),
    }
    Ok(())
}
