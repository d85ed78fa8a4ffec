//! Makes the machine ready: what the build needs beyond Rust, found or installed.
//!
//! A [`Need`] knows how to tell whether it is met, and which Debian package meets it. As root on a machine with apt,
//! missing packages are installed; otherwise the error is the one line to run. Progress goes to stderr.

use crate::process;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Something outside Rust that a task needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A C compiler and linker.
    Gcc,
    /// GNU make, which builds the C library inside `libbpf-sys`.
    Make,
    /// pkg-config, which finds the two libraries below.
    PkgConfig,
    /// Headers of libelf, which libbpf reads objects with.
    Libelf,
    /// Headers of zlib, for libelf.
    Zlib,
    /// clang 19 or later, which compiles the BPF programs.
    Clang,
    /// Python with virtual environments, which the CUDA compiler is installed into.
    PythonVenv,
    /// Headers of Python, which Triton compiles a part of itself with.
    PythonHeaders,
    /// A C++ compiler, which the CUDA compiler preprocesses with.
    Cxx,
    /// Debian's tools that make a package of a tree of files.
    Debhelper,
    /// Debian's check of packages.
    Lintian,
    /// What makes the root folder of a Debian.
    Debootstrap,
}

/// What building and testing the whole workspace needs.
pub const BUILD: [Need; 6] = [
    Need::Gcc,
    Need::Make,
    Need::PkgConfig,
    Need::Libelf,
    Need::Zlib,
    Need::Clang,
];

const OLDEST_CLANG: u32 = 19;

impl Need {
    const fn package(self) -> &'static str {
        match self {
            Self::Gcc => "gcc libc6-dev",
            Self::Make => "make",
            Self::PkgConfig => "pkg-config",
            Self::Libelf => "libelf-dev",
            Self::Zlib => "zlib1g-dev",
            Self::Clang => "clang-19",
            Self::PythonVenv => "python3 python3-venv",
            Self::PythonHeaders => "python3-dev",
            Self::Cxx => "g++",
            Self::Debhelper => "debhelper dpkg-dev",
            Self::Lintian => "lintian",
            Self::Debootstrap => "debootstrap",
        }
    }

    fn met(self) -> bool {
        match self {
            Self::Gcc => process::find("cc")
                .or_else(|| process::find("gcc"))
                .is_some(),
            Self::Make => process::find("make").is_some(),
            Self::PkgConfig => process::find("pkg-config").is_some(),
            Self::Libelf => header("libelf.h"),
            Self::Zlib => header("zlib.h"),
            Self::Clang => clang_is_new_enough(),
            Self::Cxx => process::find("g++").is_some(),
            Self::Debhelper => ["dh", "dpkg-buildpackage"]
                .iter()
                .all(|name| process::find(name).is_some()),
            Self::Lintian => process::find("lintian").is_some(),
            Self::Debootstrap => process::find("debootstrap").is_some(),
            Self::PythonHeaders => {
                let script = "import os, sysconfig, sys; \
                              sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))";
                succeeds(Command::new("python3").args(["-c", script]))
            }
            Self::PythonVenv => {
                succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"]))
            }
        }
    }
}

fn header(name: &str) -> bool {
    ["/usr/include", "/usr/local/include"]
        .iter()
        .any(|folder| Path::new(folder).join(name).is_file())
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|done| done.status.success())
}

/// Returns whether the programs' build script will find a compiler: it looks for `$GRIDMUX_CLANG`, `clang-19` and
/// upwards, then `clang`.
fn clang_is_new_enough() -> bool {
    if std::env::var_os("GRIDMUX_CLANG").is_some()
        || (OLDEST_CLANG..=22).any(|v| process::find(&format!("clang-{v}")).is_some())
    {
        return true;
    }
    let version = process::output(Command::new("clang").arg("-dumpversion")).unwrap_or_default();
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.trim().parse::<u32>().ok());
    major.is_some_and(|major| major >= OLDEST_CLANG)
}

/// Makes sure that every need is met, installing packages where that is possible.
///
/// # Errors
/// If something is missing and cannot be installed from here; the message ends with the line to run.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let missing: Vec<Need> = needs.iter().copied().filter(|need| !need.met()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing
        .iter()
        .flat_map(|need| need.package().split(' '))
        .collect();
    let names = packages.join(" ");
    if process::find("apt-get").is_none() {
        bail!(
            "this needs {names} (Debian's names): install them with this system's package manager"
        );
    }
    if !is_root() {
        bail!(
            "this needs packages that are not installed; run this line, then try again:\n  sudo apt-get update && \
             sudo apt-get install -y --no-install-recommends {names}"
        );
    }
    eprintln!("setup: installing {names}");
    install(&packages).with_context(|| format!("could not install {names}"))?;
    match missing.iter().find(|need| !need.met()) {
        None => Ok(()),
        Some(need) => bail!(
            "{} is installed, and {need:?} is still not found",
            need.package()
        ),
    }
}

/// Returns whether this process is root's.
#[must_use]
pub fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Installs with the package lists at hand, and refreshes them if that fails: they may be missing or old.
fn install(packages: &[&str]) -> Result<()> {
    let install = || {
        let mut command = apt(&["install", "--no-install-recommends"]);
        command.args(packages);
        command
    };
    if succeeds(&mut install()) {
        return Ok(());
    }
    refresh_package_lists()?;
    process::aloud(&mut install())
}

/// Fetches the lists of packages anew.
///
/// # Errors
/// If apt cannot, as another user than root.
pub fn refresh_package_lists() -> Result<()> {
    eprintln!("setup: refreshing the package lists");
    process::aloud(&mut apt(&["update"]))
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-q", "-y", "-o", "Dpkg::Use-Pty=0"])
        .args(arguments);
    command
}
