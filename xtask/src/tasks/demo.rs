//! `cargo xtask demo`: makes the machine ready, builds `gridmux`, and becomes its demonstration on the SM model.
//!
//! Rule: it is the same process from then on, so that whoever ends it ends the demonstration. The profile is `quick`: a
//! first user waits for the build longer than for the demonstration.

use crate::{process, repo, setup};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Three tenants share a modelled GPU: builds gridmux and runs `gridmux demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Arguments of `gridmux demo`, as `--json`, `--sms N`, `--policy NAME` or `--work PERCENT`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs the task.
///
/// # Errors
/// Something is missing and cannot be installed, or the build fails.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    // With the CUDA libraries, which a user's own programs need next: their features change how others are built.
    process::aloud(repo::cargo("build").args([
        "--profile",
        "quick",
        "--package",
        "gridmux",
        "--package",
        "gridmux-cud*",
        "--package",
        "gridmux-nv*",
    ]))?;
    let mut demo = Command::new(repo::target().join("quick/gridmux"));
    demo.arg("demo").args(&args.arguments);
    // It returns only if that is not possible.
    let error = demo.exec();
    Err(error).with_context(|| format!("cannot run `{}`", process::shown(&demo)))
}
