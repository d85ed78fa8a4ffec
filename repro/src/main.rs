//! The papers' experiments on the event executor, beside the papers' figures.

mod srtf;
mod tables;

use clap::{Parser, ValueEnum};

/// A paper.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Paper {
    /// Preemptive thread block scheduling with online structural runtime prediction.
    Srtf,
}

/// Repeats the experiments of a paper and prints what came out beside the paper's figures.
#[derive(Debug, Parser)]
struct Args {
    /// The paper.
    paper: Paper,
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let report = match args.paper {
        Paper::Srtf => srtf::run()?,
    };
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{report}"),
    }
    Ok(())
}
