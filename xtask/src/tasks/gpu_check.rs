//! `cargo xtask gpu-check`: builds the program that asks a GPU everything that gridmux assumes of one, and runs it.
//!
//! Rules: what is built runs on any Linux with NVIDIA's driver and glibc of [`NEWEST_GLIBC`] or newer; a build that
//! needs a newer one than that is an error. Cubins are of the texts that a run over our own library loads.

use crate::tasks::ptx::Compiler;
use crate::{process, repo, setup};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest version of glibc that the program may need: that of Debian 12.
const NEWEST_GLIBC: (u32, u32) = (2, 36);

/// Asks a GPU everything that gridmux assumes of one: builds `gridmux-gpu-check` and runs it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Build the program, print its path, and do not run it
    #[arg(long)]
    build: bool,
    /// Build the program and, for this architecture, as sm_90, a folder of cubins of the modules that a quick run
    /// loads; print both paths, and do not run it. On the GPU's machine the program takes them with --cubins FOLDER
    #[arg(long, value_name = "ARCH", conflicts_with_all = ["build", "import", "arguments"])]
    cubins: Option<String>,
    /// Print the document in this file, which a run has left, as a file of hw-model/validation; --base and --url behind
    /// `--` say what the document does not know, and --allow-quick takes that of a quick run
    #[arg(long, value_name = "FILE", conflicts_with = "build")]
    import: Option<PathBuf>,
    /// Arguments of the program, behind `--`
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Runs the task.
///
/// # Errors
/// Something is missing and cannot be installed, the build fails or needs too new a C library, or the program fails.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    process::aloud(repo::cargo("build").args(["--release", "--package", "gridmux-gpu-check"]))?;
    let program = repo::target().join("release/gridmux-gpu-check");
    check_glibc(&program)?;
    if args.build {
        println!("{}", program.display());
        return Ok(());
    }
    if let Some(architecture) = &args.cubins {
        println!("{}", program.display());
        println!("{}", make_cubins(&program, architecture)?.display());
        return Ok(());
    }
    let mut command = Command::new(&program);
    if let Some(file) = &args.import {
        command.arg("--to-toml").arg(file);
    }
    let status = command
        .args(&args.arguments)
        .status()
        .with_context(|| format!("cannot run `{}`", process::shown(&command)))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{status}; its lines above say what failed"),
    }
}

/// Assembles every module that a quick run of the program loads; returns the folder of the cubins.
fn make_cubins(program: &Path, architecture: &str) -> Result<PathBuf> {
    let number = architecture.strip_prefix("sm_").unwrap_or_default();
    if number.is_empty() || !number.chars().all(|c| c.is_ascii_alphanumeric()) {
        bail!("{architecture:?} is no architecture; an H200 is sm_90");
    }
    let compiler = Compiler::ensure()?;
    let packages = ["--package", "gridmux", "--package", "gridmux-cuda"];
    process::aloud(repo::cargo("build").arg("--release").args(packages))?;
    let folder = repo::target().join("gpu-check").join(architecture);
    // Texts of an earlier build would be assembled, too.
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut keeping = Command::new(repo::target().join("release/gridmux"));
    // A service of its own, on a modelled GPU. Checks of SMs and times fail where the model has neither.
    keeping.args([
        "run",
        "--device",
        "model:h200",
        "--timed",
        "--sms",
        "4",
        "--",
    ]);
    keeping
        .arg(program)
        .args(["--scale", "quick", "--keep-ptx"]);
    process::output(keeping.arg(&folder))
        .context("a quick run over gridmux's own library failed")?;
    let (mut made, mut failures) = (0, Vec::new());
    for entry in fs::read_dir(&folder).context("the run has kept no PTX")? {
        let text = entry?.path();
        match compiler.assemble(&text, &text.with_extension("cubin"), architecture) {
            Ok(()) => made += 1,
            Err(error) => failures.push(error),
        }
    }
    eprintln!(
        "{made} modules assembled for {architecture}, {} left to the driver's compiler",
        failures.len()
    );
    match failures.into_iter().next() {
        Some(error) if made == 0 => Err(error),
        Some(error) => {
            eprintln!("the first of these: {error:#}");
            Ok(folder)
        }
        None => Ok(folder),
    }
}

/// Checks which versions of glibc the program's symbols need.
fn check_glibc(program: &Path) -> Result<()> {
    let symbols = process::output(Command::new("objdump").arg("-T").arg(program))?;
    match newest_glibc(&symbols) {
        Some(newest) if newest > NEWEST_GLIBC => bail!(
            "{} needs glibc {}.{}, and is to run with {}.{}: build it on an older system",
            program.display(),
            newest.0,
            newest.1,
            NEWEST_GLIBC.0,
            NEWEST_GLIBC.1
        ),
        Some(_) => Ok(()),
        None => bail!("{}: objdump names no version of glibc", program.display()),
    }
}

/// Returns the newest version that a list of symbols names.
fn newest_glibc(symbols: &str) -> Option<(u32, u32)> {
    let version = |text: &str| -> Option<(u32, u32)> {
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let mut parts = text[..end].split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    symbols.split("GLIBC_").skip(1).filter_map(version).max()
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn versions_are_compared_as_numbers() {
        let symbols =
            "DF *UND* (GLIBC_2.2.5) read\nDF *UND* (GLIBC_2.34) open\nDO *UND* (GLIBC_2.9) x\n";
        assert_eq!(newest_glibc(symbols), Some((2, 34)));
        assert_eq!(newest_glibc("no symbols\n"), None);
    }
}
