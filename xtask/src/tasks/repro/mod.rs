//! `cargo xtask repro PAPER [--json]`: repeats a paper's experiments and prints its figures beside ours.

mod record;

use crate::{process, repo, setup};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;

/// Repeat the experiments of a paper.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The paper, or what belongs to the experiments of all.
    paper: Paper,
    /// Part of the sets of kernels that accelOS's experiments draw, above 0 and at most 1; a tenth by default.
    #[arg(long, conflicts_with = "full")]
    part: Option<f64>,
    /// As many sets as accelOS's paper draws.
    #[arg(long)]
    full: bool,
    /// Only experiments on one executor: `event` or `model`.
    #[arg(long, value_parser = ["event", "model"])]
    on: Option<String>,
    /// Replace the tables that are made in docs/reproduction.md, which `all` writes as a whole.
    #[arg(long, conflicts_with = "check")]
    write: bool,
    /// Compare docs/reproduction.md with what comes out instead of writing it.
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Paper {
    /// Preemptive thread block scheduling with online structural runtime prediction.
    Srtf,
    /// Sharing an accelerator as an operating system would.
    Accelos,
    /// Sharing every SM, and its issue slots.
    Smk,
    /// Slices of kernels that complement each other, chosen by a model of their speed.
    Kernelet,
    /// Room on every SM after how each kernel's speed grows with it.
    WarpedSlicer,
    /// No paper: the combined policy beside the papers', term by term.
    Gridmux,
    /// No paper: mixes of recorded CUDA programs under every policy.
    Traces,
    /// No paper: records those programs anew, into repro/data/traces.
    Record,
    /// Every paper; writes docs/reproduction.md.
    All,
    /// No paper: how well parameters of the event executor fit.
    Calibrate,
    /// No paper: prints the shapes of our kernels anew.
    Measure,
}

/// Runs the task.
///
/// # Errors
/// The build fails, or an experiment does.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    match args.paper {
        Paper::Record => return record::run(),
        Paper::Traces | Paper::All => {
            process::aloud(repo::cargo("build").args(["--package", "gridmux"]))?;
        }
        _ => {}
    }
    let mut repro = repo::cargo("run");
    repro.args(["--release", "--quiet", "--package", "gridmux-repro", "--"]);
    if let Some(paper) = args.paper.to_possible_value() {
        repro.arg(paper.get_name());
    }
    repro.arg("--out").arg(repo::target().join("repro"));
    repro
        .arg("--gridmux")
        .arg(repo::target().join("debug/gridmux"));
    if let Some(part) = args.part {
        repro.args(["--part", &part.to_string()]);
    }
    repro.args(args.full.then_some("--full"));
    if let Some(on) = &args.on {
        repro.args(["--on", on]);
    }
    repro.args(args.write.then_some("--write"));
    repro.args(args.check.then_some("--check"));
    repro.args(args.json.then_some("--json"));
    // Its stdout is ours: tables, or the JSON.
    let status = repro.status();
    let status = status.with_context(|| format!("cannot run `{}`", process::shown(&repro)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", process::shown(&repro));
    }
    Ok(())
}
