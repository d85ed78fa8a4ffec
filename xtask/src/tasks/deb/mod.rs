//! `cargo xtask deb`: gridmux as packages of Debian, the program and apart from it its symbols.
//!
//! Rules: debhelper makes the packages, by `packaging/debian`, so that units, users and configuration are installed and
//! removed as Debian's own packages do it; here is only built what they hold, and laid out ([`tree`]). Files have the
//! time of the last commit.

mod check;
mod machine;
mod tree;

use crate::setup::{self, Need};
use crate::tasks::wheel::FILES;
use crate::{process, repo};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Make a Debian package of the service, its libraries and units, and one of its symbols, in target/deb.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Then have lintian look at it, and install, upgrade, remove and purge it on a clean Debian 12 with systemd
    #[arg(long)]
    check: bool,
}

/// Version of the packages of this workspace, and so of Debian's.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the task.
///
/// # Errors
/// The build fails, debhelper refuses what is laid out, or the check fails.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    setup::ensure(&[Need::Debhelper])?;
    let mut build = repo::cargo("build");
    build.arg("--release");
    for (package, ..) in FILES {
        build.args(["--package", package]);
    }
    process::aloud(&mut build)?;
    let folder = repo::target().join("deb");
    let package = pack(&folder, VERSION)?;
    let size = fs::metadata(&package)?.len();
    eprintln!("{}: {:.1} MB", repo::shown(&package), size as f64 / 1e6);
    if args.check {
        setup::ensure(&[Need::Lintian, Need::Debootstrap])?;
        check::lint(&package)?;
        let above = format!("{VERSION}+check1");
        let newer = pack(&folder.join("newer"), &above)?;
        check::life(&folder, &package, (&newer, &above))?;
        fs::remove_dir_all(folder.join("newer"))?;
    }
    println!("{}", package.display());
    Ok(())
}

/// Packs what is built under a version into a folder, in which the package of symbols lies then, too; returns the
/// program's package.
fn pack(folder: &Path, version: &str) -> Result<PathBuf> {
    let source = folder.join("tree");
    if source.exists() {
        fs::remove_dir_all(&source).with_context(|| repo::shown(&source))?;
    }
    fs::create_dir_all(&source).with_context(|| repo::shown(&source))?;
    let time = tree::lay_out(&source, version)?;
    let mut pack = Command::new("dpkg-buildpackage");
    // Debian's list of what a build needs is that of its own build machines.
    pack.args(["--build=binary", "--no-sign", "--no-check-builddeps"])
        .env("SOURCE_DATE_EPOCH", time.to_string())
        .env("DEB_BUILD_OPTIONS", "nocheck")
        .current_dir(&source);
    process::output(&mut pack)?;
    fs::remove_dir_all(&source).with_context(|| repo::shown(&source))?;
    Ok(folder.join(format!("gridmux_{version}_amd64.deb")))
}
