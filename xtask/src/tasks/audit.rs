//! `cargo xtask audit`: proves, in the machine code of fenced kernels, where every global and generic address comes
//! from.
//!
//! The proof is a program of the room `ptx` (`ptx/examples/audit.rs`, over `ptx/tests/ptx/audit`), whose tests audit a
//! sample. This task installs the assembler and the disassembler, and runs it: over the files that are named, or over
//! the workloads, all of which must be proved, and then over the corpus and generated kernels, of which it counts by
//! reason what is not.

use crate::tasks::ptx::Compiler;
use crate::{process, repo};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// Audit the machine code of fenced kernels: prove that each address is confined, and fail where one is not proved.
#[derive(clap::Args)]
pub struct Args {
    /// PTX files or folders of them; without any, the workloads, then, counted, the corpus and generated kernels.
    files: Vec<PathBuf>,
    /// How many kernels to generate, 200 unless files are named
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Count by reason what is not proved, and do not fail
    #[arg(long)]
    allow_unproved: bool,
}

/// Runs the task.
///
/// # Errors
/// If the assembler cannot be had, a fenced module does not assemble, or anything is not proved that must be.
pub fn run(args: &Args) -> Result<()> {
    Compiler::ensure()?;
    let mut build = repo::cargo("build");
    build.args(["--package", "gridmux-ptx", "--example", "audit"]);
    process::aloud(&mut build)?;
    if !args.files.is_empty() {
        return audit(&args.files, args.seeds.unwrap_or(0), args.allow_unproved);
    }
    let workloads = repo::root().join("workloads");
    audit(&[workloads.join("ptx")], 0, args.allow_unproved)?;
    audit(
        &[workloads.join("corpus/out")],
        args.seeds.unwrap_or(200),
        true,
    )
}

/// Runs the program.
fn audit(files: &[PathBuf], seeds: u64, allow_unproved: bool) -> Result<()> {
    let program = repo::target().join("debug/examples/audit");
    let mut audit = std::process::Command::new(program);
    audit.args(["--seeds", &seeds.to_string()]).args(files);
    if allow_unproved {
        audit.arg("--allow-unproved");
    }
    let status = audit.status().context("cannot run the audit")?;
    if !status.success() {
        bail!(
            "the audit ended with {status}: what it names is not proved, or could not be audited"
        );
    }
    Ok(())
}
