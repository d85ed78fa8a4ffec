//! The papers' experiments on the event executor and the SM model, beside the papers' figures.
//!
//! A paper is a folder, an experiment a file in it, which returns tables ([`tables`]) and pictures ([`picture`]).
//! [`context`] runs what experiments are made of, [`document`] writes `docs/reproduction.md`.

mod accelos;
mod calibrate;
mod claims;
mod context;
mod corun;
mod document;
mod fixed;
mod gridmux;
mod kernelet;
mod measure;
mod mixes;
mod model;
mod picture;
mod predictors;
mod smk;
mod srtf;
mod store;
mod tables;
mod traces;
mod warped_slicer;
mod world;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use context::{Context, On};
use document::{Document, Keep};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::Report;

/// A paper, or what belongs to the experiments of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Paper {
    /// Preemptive thread block scheduling with online structural runtime prediction.
    Srtf,
    /// Portable and transparent software managed scheduling on accelerators for fair resource sharing.
    Accelos,
    /// Simultaneous multikernel GPU: multi-tasking throughput processors via fine-grained sharing.
    Smk,
    /// Kernelet: high-throughput GPU kernel executions with dynamic slicing and scheduling.
    Kernelet,
    /// Efficient intra-SM slicing through dynamic resource partitioning for GPU multiprogramming.
    WarpedSlicer,
    /// No paper: the combined policy beside the papers', term by term.
    Gridmux,
    /// No paper: mixes of recorded CUDA programs under every policy.
    Traces,
    /// Every paper; writes docs/reproduction.md.
    All,
    /// No paper: how well parameters of the event executor fit what the SM model and Table 3 say.
    Calibrate,
    /// No paper: measures our kernels on the SM model and prints their shapes for the event executor.
    Measure,
}

/// Part of accelOS's draws that is run where nothing else is asked for; docs/reproduction.md is of no less.
const PART: f64 = 0.1;

/// Repeats the experiments of a paper and prints what came out beside the paper's figures.
#[derive(Debug, Parser)]
struct Args {
    /// The paper.
    paper: Paper,
    /// Part of the sets of 4 and 8 kernels that accelOS's experiments draw, above 0 and at most 1
    #[arg(long, default_value_t = PART, value_parser = part, conflicts_with = "full")]
    part: f64,
    /// As many sets as accelOS's paper draws
    #[arg(long)]
    full: bool,
    /// Only experiments of one executor [default: both]
    #[arg(long)]
    on: Option<On>,
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    json: bool,
    /// Folder of pictures and of finished parts [default: target/repro]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The program `gridmux`, which runs mixes of traces [default: target/debug/gridmux]
    #[arg(long, value_name = "FILE")]
    gridmux: Option<PathBuf>,
    /// Replaces the tables that are made in docs/reproduction.md, which `all` writes as a whole
    #[arg(long, conflicts_with = "check")]
    write: bool,
    /// Compares docs/reproduction.md with what comes out instead of writing it
    #[arg(long)]
    check: bool,
}

/// Parses a part, above 0 and at most 1.
fn part(text: &str) -> Result<f64, String> {
    let part: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    match part > 0.0 && part <= 1.0 {
        true => Ok(part),
        false => Err("give a number above 0 and at most 1".to_owned()),
    }
}

fn main() -> ExitCode {
    let json = std::env::args().any(|arg| arg == "--json");
    let args = match Args::try_parse().and_then(checked) {
        Ok(args) => args,
        Err(error) if json && error.use_stderr() => {
            println!(
                "{}",
                serde_json::json!({ "error": error.to_string().trim() })
            );
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match json {
                true => println!("{}", serde_json::json!({ "error": format!("{error:#}") })),
                false => eprintln!("error: {error:#}"),
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns the arguments if they hold no option that says nothing of the paper.
fn checked(args: Args) -> Result<Args, clap::Error> {
    let given = [
        (args.check, "--check"),
        (args.write, "--write"),
        (args.json, "--json"),
        (args.full, "--full"),
        (args.on.is_some(), "--on"),
    ];
    let given = given.iter().find(|(is_given, _)| *is_given);
    match (args.paper, given) {
        (Paper::Measure, Some((_, option))) => Err(Args::command().error(
            ErrorKind::ArgumentConflict,
            format!(
                "{option} says nothing of `measure`, which prints mix/data/kernels.toml and compares nothing"
            ),
        )),
        _ => Ok(args),
    }
}

fn run(args: &Args) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| root.join("target/repro"));
    let part = if args.full { 1.0 } else { args.part };
    let mut context = Context::new(out, part, args.on)?;
    context.check = args.check;
    let gridmux = args
        .gridmux
        .clone()
        .unwrap_or_else(|| root.join("target/debug/gridmux"));
    let reports = match args.paper {
        Paper::Srtf => vec![srtf::run(&context)?],
        Paper::Accelos => vec![accelos::run(&context)?],
        Paper::Smk => vec![smk::run(&context)?],
        Paper::Kernelet => vec![kernelet::run(&context)?],
        Paper::WarpedSlicer => vec![warped_slicer::run(&context)?],
        Paper::Gridmux => vec![gridmux::run(&context)?],
        Paper::Traces => vec![traces::run(&context, &gridmux)?],
        Paper::Calibrate => vec![calibrate::run(&context)?],
        Paper::All => vec![
            srtf::run(&context)?,
            accelos::run(&context)?,
            smk::run(&context)?,
            kernelet::run(&context)?,
            warped_slicer::run(&context)?,
            gridmux::run(&context)?,
            traces::run(&context, &gridmux)?,
            calibrate::run(&context)?,
        ],
        Paper::Measure => return measure::print(&context),
    };
    for report in &reports {
        let file = picture::write(report, &context.out)?;
        eprintln!("pictures: {}", file.display());
    }
    if args.paper == Paper::All && args.on.is_none() && !args.check && part < PART {
        eprintln!("docs/reproduction.md stays as it is: it is written from --part {PART} or more");
        return show(&reports, args.json);
    }
    let keep = match (args.paper, args.check, args.write) {
        (_, true, _) => Some(Keep::Check),
        (Paper::All, ..) if args.on.is_none() => Some(Keep::Whole),
        (_, _, true) => Some(Keep::Tables),
        _ => None,
    };
    let file = root.join("docs/reproduction.md");
    if let Some(keep) = keep {
        document::keep(&reports, &file, keep)?;
    }
    let mut reports = reports;
    if let Some(report) = reports
        .iter_mut()
        .find(|report| report.paper == gridmux::PAPER)
    {
        add_cells(report, &file, keep)?;
    }
    show(&reports, args.json)
}

/// Adds the table of cells to the report of `gridmux`, from the document as it is now, and keeps it there. Where the
/// document lacks a figure, it is said which, and nothing is added.
///
/// # Errors
/// The document cannot be read or written, or is to be checked and lacks a figure.
fn add_cells(report: &mut Report, file: &Path, keep: Option<Keep>) -> Result<()> {
    let text = document::read(file)?;
    let table = match (gridmux::cells::table(&Document(&text)), keep) {
        (Ok(table), _) => table,
        (Err(error), Some(Keep::Check)) => return Err(error),
        (Err(error), _) => {
            eprintln!("no table of each paper's measures: {error:#}");
            return Ok(());
        }
    };
    report.tables.push(table.clone());
    let Some(keep) = keep else {
        return Ok(());
    };
    let cells = Report {
        tables: vec![table],
        ..Report::new(report.paper)
    };
    let how = match keep {
        Keep::Check => Keep::Check,
        Keep::Whole | Keep::Tables => Keep::Tables,
    };
    document::keep(&[cells], file, how)
}

/// Prints reports: one JSON object for one paper, a list of them for several.
fn show(reports: &[Report], json: bool) -> Result<()> {
    match (json, reports) {
        (true, [one]) => println!("{}", serde_json::to_string_pretty(one)?),
        (true, several) => println!("{}", serde_json::to_string_pretty(several)?),
        (false, all) => all.iter().for_each(|report| print!("{report}")),
    }
    Ok(())
}
