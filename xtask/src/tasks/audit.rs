//! `cargo xtask audit`: proves, in the machine code of fenced kernels, where every global and generic address comes
//! from.
//!
//! The proof is a program of the room `ptx` (`ptx/examples/audit.rs`, over `ptx/tests/ptx/audit`), whose tests audit a
//! sample. This task installs the assembler and the disassembler, and runs it.

use crate::tasks::ptx::Compiler;
use crate::{process, repo};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// Audit the machine code of fenced kernels: prove that each address is confined, and name what is not proved.
#[derive(clap::Args)]
pub struct Args {
    /// PTX files or folders of them; without any, the workloads, the corpus and generated kernels.
    files: Vec<PathBuf>,
    /// How many kernels to generate, 200 unless files are named
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
}

/// Runs the task.
///
/// # Errors
/// If the assembler cannot be had, or a fenced module does not assemble.
pub fn run(args: &Args) -> Result<()> {
    Compiler::ensure()?;
    let mut build = repo::cargo("build");
    build.args(["--package", "gridmux-ptx", "--example", "audit"]);
    process::aloud(&mut build)?;
    let generated = if args.files.is_empty() { 200 } else { 0 };
    let seeds = args.seeds.unwrap_or(generated);
    let program = repo::target().join("debug/examples/audit");
    let mut audit = std::process::Command::new(program);
    audit
        .args(["--seeds", &seeds.to_string()])
        .args(&args.files);
    let status = audit.status().context("cannot run the audit")?;
    if !status.success() {
        bail!("the audit ended with {status}");
    }
    Ok(())
}
