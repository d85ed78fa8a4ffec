//! Debian's packages that tests run programs of: unpacked beside what is built, and not installed.
//!
//! An installed Prometheus would run as a service of the machine; an unpacked one is only there for the tests. Where
//! there is no apt, or it cannot fetch the package, the tests say themselves what they lack.

use crate::process;
use crate::{repo, setup};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages, each with a program of it that is enough where the machine has it.
const WANTED: [(&str, &str); 1] = [("prometheus", "promtool")];
/// The variable that tells tests where packages are unpacked (`cli/tests/cli/tools.rs`).
pub const UNPACKED: &str = "GRIDMUX_UNPACKED";

/// Returns the folder that packages are unpacked into, the root of a file system.
#[must_use]
pub fn root() -> PathBuf {
    repo::target().join("debian")
}

/// Unpacks what tests run and the machine lacks. What cannot be had is said on stderr, and is no error.
pub fn unpack_wanted() {
    for (package, program) in WANTED {
        let is_unpacked = root().join("usr/bin").join(program).is_file();
        if is_unpacked || process::find(program).is_some() || process::find("apt-get").is_none() {
            continue;
        }
        eprintln!("setup: unpacking {package} in {}", repo::shown(&root()));
        if let Err(error) = unpack(package) {
            eprintln!("setup: {package}: {error:#}; tests that need it will be skipped");
        }
    }
}

/// Fetches a package and unpacks it.
fn unpack(package: &str) -> Result<()> {
    let folder = root();
    let fetched = folder.join("fetched");
    fs::create_dir_all(&fetched).with_context(|| repo::shown(&fetched))?;
    if fetch(package, &fetched).is_err() {
        // The package lists may be missing or old.
        setup::refresh_package_lists()?;
        fetch(package, &fetched)?;
    }
    for file in repo::files(&fetched, &|path| {
        path.extension().is_some_and(|end| end == "deb")
    })? {
        process::output(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(&file)
                .arg(&folder),
        )?;
        fs::remove_file(&file).with_context(|| repo::shown(&file))?;
    }
    Ok(())
}

fn fetch(package: &str, folder: &Path) -> Result<()> {
    let mut fetch = Command::new("apt-get");
    fetch.args(["-q", "download", package]).current_dir(folder);
    process::output(&mut fetch).map(|_| ())
}
