//! `cargo xtask demo`: makes the machine ready, builds `gridmux`, and runs its demonstration on the SM model.

use crate::{process, repo, setup};
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Three tenants share a modelled GPU: builds gridmux and runs `gridmux demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Device: model:NAME or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
}

/// Runs the task.
///
/// # Errors
/// Something is missing and cannot be installed, the build fails, or a result of the demo is wrong.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    process::aloud(repo::cargo("build").args(["--release", "--package", "gridmux"]))?;
    let mut demo = Command::new(repo::target().join("release/gridmux"));
    if args.json {
        demo.arg("--json");
    }
    demo.arg("demo");
    if let Some(device) = &args.device {
        demo.args(["--device", device]);
    }
    // Its stdout is ours: tables, or the JSON object.
    let status = demo
        .status()
        .with_context(|| format!("cannot run `{}`", process::shown(&demo)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", process::shown(&demo));
    }
    Ok(())
}
