//! `cargo xtask tidy`: what the compiler cannot see.
//!
//! - [`arrows`]: parts of a room know only what they may, circles of files stay small, no file is shared by `#[path]`.
//! - [`binaries`]: a room has one integration test binary, and more only for a reason.
//! - [`columns`]: no line of a source or a document is wider than 120 columns.
//! - [`rooms`]: dependencies between rooms go only where `rooms.rs` allows.
//! - [`sources`]: module documents, lengths, comments on atomics, atomics from the shim, nothing ignored or left to do.
//! - [`documents`]: every path and crate that a document names exists; every crate is in `ARCHITECTURE.md`.
//!
//! It also runs as a test of this package.

mod arrows;
mod binaries;
mod columns;
mod documents;
mod mask;
mod modules;
mod rooms;
mod sources;

use crate::repo;
use anyhow::{Result, bail};

/// Check the rooms' dependencies, the sources' form, and the documents' references.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the task.
///
/// # Errors
/// If anything was found; each finding stands on a line of its own.
pub fn run(_: &Args) -> Result<()> {
    let findings = check()?;
    if findings.is_empty() {
        println!("tidy: nothing found");
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!("tidy: {} findings", findings.len());
}

/// Returns all findings, as `path:line: what is wrong and what to do`.
///
/// # Errors
/// If the repository cannot be read.
pub fn check() -> Result<Vec<String>> {
    let packages = repo::packages()?;
    let mut findings = rooms::check(&packages);
    findings.extend(arrows::check(&packages)?);
    findings.extend(binaries::check(&packages)?);
    findings.extend(sources::check(&packages)?);
    findings.extend(documents::check(&packages)?);
    Ok(findings)
}
