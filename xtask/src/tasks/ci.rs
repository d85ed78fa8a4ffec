//! `cargo xtask ci`: what must hold before a change is merged, cheapest first.

use crate::tasks::{deny, ptx, test, tidy};
use crate::{process, repo, setup};
use anyhow::{Context, Result};

/// Formatting, lints, tidiness, dependencies, generated PTX, then every test and every client. It ends with their
/// summary.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the task.
///
/// # Errors
/// At the first step that fails.
pub fn run(_: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    let mut format = repo::cargo("fmt");
    format.args(["--all", "--check"]);
    process::aloud(&mut format).context("formatting: run `cargo fmt --all`")?;
    let mut lint = repo::cargo("clippy");
    lint.args(["--workspace", "--all-targets", "--", "-D", "warnings"]);
    process::aloud(&mut lint).context("lints")?;
    tidy::run(&tidy::Args {})?;
    deny::run(&deny::Args {})?;
    ptx::check_workloads()?;
    test::run_all()
}
