//! `cargo xtask gpu-check`: builds the program that asks a GPU everything that gridmux assumes of one, and runs it;
//! with `--service`, also gridmux's service and its driver library, which it then measures through clients.
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

/// The folder beside the programs from which `gridmux` takes the libraries of [`CARRIED`] first.
const LIBRARIES: &str = "lib";
/// Shared libraries that `gridmux` needs and that a machine without a compiler may lack.
const CARRIED: [&str; 2] = ["libelf.so.1", "libz.so.1"];

/// Asks a GPU everything that gridmux assumes of one: builds `gridmux-gpu-check` and runs it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Build the program, print its path, and do not run it; with --service, print a folder that holds all that is
    /// needed, for a GPU's machine, where this runs: FOLDER/gridmux-gpu-check service --device cuda:0 --out FILE
    #[arg(long)]
    build: bool,
    /// Run gridmux's service on the device, the SM model unless --device behind `--` names another, and measure it
    /// through programs that know nothing of it: what mediation costs, latencies, shares, mixes under three policies
    #[arg(long, conflicts_with_all = ["cubins", "import"])]
    service: bool,
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
    if args.service {
        let folder = gather(&program)?;
        if args.build {
            println!("{}", folder.display());
            return Ok(());
        }
        let mut command = Command::new(folder.join("gridmux-gpu-check"));
        return run_program(command.arg("service").args(&args.arguments));
    }
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
    run_program(command.args(&args.arguments))
}

/// Runs the program to its end.
fn run_program(command: &mut Command) -> Result<()> {
    let what = process::shown(command);
    let status = command.status();
    let status = status.with_context(|| format!("cannot run `{what}`"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{status}; its lines above say what failed"),
    }
}

/// Builds the service and its driver library, and puts them into a folder with the program and what they need of this
/// system; returns the folder. Whoever may use the GPU must be able to enter it, because the device host runs as
/// another user than root.
fn gather(program: &Path) -> Result<PathBuf> {
    // The variable is the program's, which its loader replaces by the folder that the program lies in.
    let search = format!("link-arg=-Wl,-rpath,$ORIGIN/{LIBRARIES}");
    let service = ["--release", "--package", "gridmux", "--bin", "gridmux"];
    process::aloud(
        repo::cargo("rustc")
            .args(service)
            .args(["--", "-C", &search]),
    )?;
    process::aloud(repo::cargo("build").args(["--release", "--package", "gridmux-cuda"]))?;
    let built = repo::target().join("release");
    let folder = repo::target().join("gpu-check/service");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join(LIBRARIES))?;
    let gridmux = built.join("gridmux");
    let mut files = vec![
        (program.to_owned(), folder.join("gridmux-gpu-check")),
        (gridmux.clone(), folder.join("gridmux")),
        (built.join("libcuda.so"), folder.join("libcuda.so")),
    ];
    let needed = process::output(Command::new("ldd").arg(&gridmux))?;
    for library in CARRIED {
        if let Some(path) = place_of(&needed, library) {
            files.push((path.into(), folder.join(LIBRARIES).join(library)));
        }
    }
    for (from, to) in files {
        check_glibc(&from)?;
        fs::copy(&from, &to).with_context(|| format!("copying {}", from.display()))?;
        // Four fifths of their size, and nobody looks at them on a GPU's machine.
        process::output(Command::new("strip").arg("--strip-debug").arg(&to))?;
    }
    Ok(folder)
}

/// Returns where ldd has found a library, if it is needed.
fn place_of<'a>(needed: &'a str, library: &str) -> Option<&'a str> {
    let mut lines = needed.lines().map(str::split_whitespace);
    lines.find_map(|mut words| {
        let is_it = words.next() == Some(library) && words.next() == Some("=>");
        is_it.then(|| words.next()).flatten()
    })
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
    use super::{newest_glibc, place_of};

    #[test]
    fn versions_are_compared_as_numbers() {
        let symbols =
            "DF *UND* (GLIBC_2.2.5) read\nDF *UND* (GLIBC_2.34) open\nDO *UND* (GLIBC_2.9) x\n";
        assert_eq!(newest_glibc(symbols), Some((2, 34)));
        assert_eq!(newest_glibc("no symbols\n"), None);
    }

    #[test]
    fn a_library_is_where_ldd_has_found_it() {
        let needed = "\tlinux-vdso.so.1 (0x7f)\n\tlibelf.so.1 => /lib/libelf.so.1 (0x7e)\n\tlibc.so.6 => not found\n";
        assert_eq!(place_of(needed, "libelf.so.1"), Some("/lib/libelf.so.1"));
        assert_eq!(place_of(needed, "libz.so.1"), None);
    }
}
