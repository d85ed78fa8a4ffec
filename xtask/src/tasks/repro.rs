//! `cargo xtask repro PAPER [--json]`: repeats a paper's experiments and prints its figures beside ours.

use crate::{process, repo, setup};
use anyhow::{Context, Result, bail};

/// Repeat the experiments of a paper.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The paper: `srtf` (preemptive thread block scheduling with online structural runtime prediction) or `accelos`
    /// (sharing an accelerator as an operating system would); `measure` prints the shapes of our kernels anew.
    paper: String,
    /// Part of the sets of kernels that accelOS's experiments draw, from 0 to 1.
    #[arg(long)]
    part: Option<f64>,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// Runs the task.
///
/// # Errors
/// The build fails, or there is no such paper.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    let mut repro = repo::cargo("run");
    repro.args(["--release", "--quiet", "--package", "gridmux-repro", "--"]);
    repro.arg(&args.paper);
    if let Some(part) = args.part {
        repro.args(["--part", &part.to_string()]);
    }
    if args.json {
        repro.arg("--json");
    }
    // Its stdout is ours: tables, or the JSON object.
    let status = repro.status();
    let status = status.with_context(|| format!("cannot run `{}`", process::shown(&repro)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", process::shown(&repro));
    }
    Ok(())
}
