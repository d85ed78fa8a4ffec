//! `cargo xtask pictures`: makes the pictures of the documents anew, from the demonstration.
//!
//! Rule: they show what the commands show; nothing in them is drawn by hand. A recording needs eBPF, so that the task
//! needs root.

use crate::{process, repo, setup};
use anyhow::Result;
use std::process::Command;

/// Makes the pictures in docs/pictures: `top`, a plan and a recording's timeline of the demonstration.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the task.
///
/// # Errors
/// Something is missing and cannot be installed, the build fails, or a picture cannot be taken.
pub fn run(_: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    process::aloud(repo::cargo("build").args(["--profile", "quick", "--package", "gridmux"]))?;
    let mut demo = Command::new(repo::target().join("quick/gridmux"));
    demo.args(["demo", "--policy", "gridmux", "--pictures"]);
    demo.arg(repo::root().join("docs/pictures"));
    process::aloud(&mut demo)
}
