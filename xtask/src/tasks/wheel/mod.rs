//! `cargo xtask wheel`: gridmux as a Python wheel, for machines with neither Rust nor a GPU.
//!
//! The wheel holds the program, which pip installs beside `python`, and gridmux's CUDA libraries, which it installs
//! into `lib/gridmux` of the environment, where the program looks for them. It holds no Python.
//!
//! Rules: it is built without BPF programs, because libelf is not on every machine; its platform tag is read from what
//! was built ([`platform`]), never assumed; the programs are stripped.

mod archive;
mod platform;

use crate::setup::{self, Need};
use crate::tasks::test::clients;
use crate::{process, python, repo};
use anyhow::{Context, Result, bail};
use archive::Archive;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Make a Python wheel of the program and its CUDA libraries, in target/wheel.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Then install it with numba-cuda into a new environment, and run the README's script with it
    #[arg(long)]
    check: bool,
}

/// Version of the packages of this workspace, and so of the wheel.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Largest size of the wheel in bytes.
const LARGEST: u64 = 60_000_000;
/// What is built: the package, its file in the profile's folder, and its place in the wheel behind the `.data` folder.
/// pip makes files of `scripts` programs of the environment, and puts files of `data` below its root. Debian's package
/// has them at the same places below /usr.
pub(crate) const FILES: [(&str, &str, &str); 7] = [
    ("gridmux", "gridmux", "scripts/gridmux"),
    (
        "gridmux-cuda",
        "libcuda.so",
        "data/lib/gridmux/libcuda.so.1",
    ),
    (
        "gridmux-cudart",
        "libcudart.so",
        "data/lib/gridmux/libcudart.so.13",
    ),
    (
        "gridmux-cudart12",
        "libcudart12.so",
        "data/lib/gridmux/libcudart.so.12",
    ),
    (
        "gridmux-nvrtc",
        "libnvrtc.so",
        "data/lib/gridmux/libnvrtc.so.13",
    ),
    (
        "gridmux-nvrtc12",
        "libnvrtc12.so",
        "data/lib/gridmux/libnvrtc.so.12",
    ),
    (
        "gridmux-nvml",
        "libnvml.so",
        "data/lib/gridmux/libnvidia-ml.so.1",
    ),
];
/// Files of the repository's root that stand beside the description.
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// Packages that the README's script needs.
const SCRIPT_NEEDS: &str = "numba-cuda[cu13]";

/// Runs the task.
///
/// # Errors
/// The build fails, what was built needs a library that not every Linux has, or the check fails.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&[Need::Gcc])?;
    let mut build = repo::cargo("build");
    build.args(["--release", "--no-default-features"]);
    for (package, ..) in FILES {
        build.args(["--package", package]);
    }
    process::aloud(&mut build)?;
    let folder = repo::target().join("wheel");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", repo::shown(&folder)))?;
    let built = stripped(&folder)?;
    let wheel = write(&folder, &built)?;
    let size = fs::metadata(&wheel)?.len();
    eprintln!("{}: {:.1} MB", repo::shown(&wheel), size as f64 / 1e6);
    if size > LARGEST {
        bail!("the wheel is larger than {} MB", LARGEST / 1_000_000);
    }
    if args.check {
        check(&wheel, &folder)?;
    }
    println!("{}", wheel.display());
    Ok(())
}

/// Strips what was built into a folder, and returns the files in the order of [`FILES`].
fn stripped(folder: &Path) -> Result<Vec<PathBuf>> {
    let strip = |(_, file, _)| {
        let stripped = folder.join(file);
        let mut strip = Command::new("strip");
        strip
            .arg("-o")
            .arg(&stripped)
            .arg(repo::target().join("release").join(file));
        process::output(&mut strip)?;
        Ok(stripped)
    };
    FILES.into_iter().map(strip).collect()
}

/// Writes the wheel into a folder and returns its path.
fn write(folder: &Path, built: &[PathBuf]) -> Result<PathBuf> {
    let contents = built
        .iter()
        .map(|file| fs::read(file).with_context(|| format!("cannot read {}", repo::shown(file))));
    let contents = contents.collect::<Result<Vec<_>>>()?;
    let mut glibc = platform::OLDEST;
    for (data, file) in contents.iter().zip(built) {
        let needed = platform::glibc(data).with_context(|| repo::shown(file))?;
        glibc = glibc.max(needed);
    }
    let tag = format!("py3-none-{glibc}");
    let path = folder.join(format!("gridmux-{VERSION}-{tag}.whl"));
    let data = format!("gridmux-{VERSION}.data");
    let info = format!("gridmux-{VERSION}.dist-info");
    let mut archive = Archive::create(&path)?;
    for (contents, (_, _, place)) in contents.iter().zip(FILES) {
        archive.add_program(&format!("{data}/{place}"), contents)?;
    }
    for name in LICENSES {
        let text = fs::read(repo::root().join(name)).with_context(|| format!("reading {name}"))?;
        archive.add(&format!("{info}/licenses/{name}"), &text)?;
    }
    let readme = fs::read_to_string(repo::root().join("README.md")).context("reading README.md")?;
    archive.add(&format!("{info}/METADATA"), metadata(&readme).as_bytes())?;
    archive.add(&format!("{info}/WHEEL"), description(&tag).as_bytes())?;
    archive.finish(&format!("{info}/RECORD"))?;
    Ok(path)
}

/// Returns the wheel's core metadata, version 2.4 (packaging.python.org, "Core metadata specifications").
fn metadata(readme: &str) -> String {
    format!(
        "Metadata-Version: 2.4\n\
         Name: gridmux\n\
         Version: {VERSION}\n\
         Summary: Runs CUDA programs on a modelled GPU, and shares one GPU among many tenants\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-APACHE\n\
         License-File: LICENSE-MIT\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Description-Content-Type: text/markdown\n\
         \n\
         {readme}"
    )
}

/// Returns the file `WHEEL` ("Binary distribution format", version 1.0). Not pure: it goes where machine code goes.
fn description(tag: &str) -> String {
    format!(
        "Wheel-Version: 1.0\nGenerator: gridmux xtask {VERSION}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    )
}

/// Installs the wheel into a new environment and runs the README's script there.
fn check(wheel: &Path, folder: &Path) -> Result<()> {
    let environment = folder.join("check");
    let wheel = wheel.display().to_string();
    python::make(&environment, &[wheel.as_str(), SCRIPT_NEEDS])?;
    let script = folder.join("my_script.py");
    fs::write(&script, clients::readme_script()?)?;
    let mut run = Command::new(environment.join("bin/gridmux"));
    run.args(["run", "--"])
        .arg(environment.join("bin/python"))
        .arg(&script)
        .current_dir(folder);
    let said = process::output(&mut run)?;
    if !said.contains("right:") {
        bail!("the README's script printed {said:?} and not that its result is right");
    }
    eprintln!("installed, and the README's script: {}", said.trim());
    Ok(())
}
