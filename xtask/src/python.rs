//! Python virtual environments under `target/`: where compilers and clients from the package index live.

use crate::setup::{self, Need};
use crate::{process, repo};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the environment `target/NAME` with these packages in it, made on first use and again when the list changes.
///
/// # Errors
/// If Python is missing and cannot be installed, or the package index cannot be reached.
pub fn ensure(name: &str, packages: &[&str]) -> Result<PathBuf> {
    setup::ensure(&[Need::PythonVenv])?;
    let environment = repo::target().join(name);
    let stamp = environment.join("installed.txt");
    let wanted = packages.join("\n");
    // The stamp is written last, so that an installation that was cut short is done again.
    if fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(environment);
    }
    eprintln!(
        "setup: installing {name} into {} (once)",
        repo::shown(&environment)
    );
    make(&environment, packages)?;
    fs::write(&stamp, wanted)?;
    Ok(environment)
}

/// Makes an environment in place of what a folder holds, and installs packages into it.
///
/// # Errors
/// If Python is missing and cannot be installed, or the package index cannot be reached.
pub fn make(environment: &Path, packages: &[&str]) -> Result<()> {
    setup::ensure(&[Need::PythonVenv])?;
    process::output(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(environment),
    )?;
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ])
    .args(packages);
    process::output(&mut pip).with_context(|| {
        let wanted = packages.join(" ");
        format!("pip could not install {wanted} from the package index")
    })?;
    Ok(())
}
