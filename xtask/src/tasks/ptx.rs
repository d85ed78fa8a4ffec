//! `cargo xtask ptx`: compiles `workloads/cuda/*.cu` to `workloads/ptx/*.ptx`, or checks that they are current.
//!
//! The compiler is NVIDIA's own from PyPI, in a virtual environment under `target/`; it needs no GPU and no toolkit.
//! Its version is pinned, the file names it sees are relative, and it writes no time, so that the output is the same
//! bytes everywhere.

use crate::setup::{self, Need};
use crate::{process, repo};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compile the workloads' CUDA sources to PTX.
#[derive(clap::Args)]
pub struct Args {
    /// Compare with the committed PTX instead of writing it.
    #[arg(long)]
    check: bool,
}

/// Pinned: another version writes other bytes. The last four are the tools around it that work on PTX and cubins.
const PACKAGES: [&str; 5] = [
    "nvidia-cuda-nvcc==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6",
    "nvidia-cuda-cuobjdump==13.5.37",
    "nvidia-cuda-nvdisasm==13.5.37",
    "nvidia-cuda-nvrtc==13.5.37",
];

/// `compute_80` is the oldest architecture with asynchronous copies and `redux`, and what the model's V100 and later
/// configurations and every current GPU run.
const FLAGS: [&str; 4] = ["--ptx", "-O3", "-std=c++17", "-arch=compute_80"];

/// Runs the task.
///
/// # Errors
/// If the compiler cannot be had, a source does not compile, or, with `--check`, a committed file is not current.
pub fn run(args: &Args) -> Result<()> {
    let sources = repo::files(&repo::root().join("workloads/cuda"), &|path| {
        path.extension().is_some_and(|e| e == "cu")
    })?;
    let committed = repo::root().join("workloads/ptx");
    let compiler = match Compiler::ensure() {
        Ok(compiler) => compiler,
        Err(error) if args.check => {
            return Err(error.context(
                "NOT CHECKED whether workloads/ptx is current: the CUDA compiler cannot be had",
            ));
        }
        Err(error) => return Err(error.context("the CUDA compiler cannot be had")),
    };
    let fresh = repo::target().join("ptx-check");
    let into = if args.check { &fresh } else { &committed };
    fs::create_dir_all(into)?;
    for source in &sources {
        compiler.compile(source, &output_path(into, source))?;
    }
    if args.check {
        check(&sources, &fresh, &committed)
    } else {
        println!(
            "{} files written to {}",
            sources.len(),
            repo::shown(&committed)
        );
        Ok(())
    }
}

fn output_path(folder: &Path, source: &Path) -> PathBuf {
    folder
        .join(source.file_name().unwrap_or_default())
        .with_extension("ptx")
}

fn check(sources: &[PathBuf], fresh: &Path, committed: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    let mut expected = Vec::new();
    for source in sources {
        let file = output_path(committed, source);
        let want = fs::read(output_path(fresh, source))?;
        match fs::read(&file) {
            Ok(have) if have == want => {}
            Ok(_) => wrong.push(format!("{} is out of date", repo::shown(&file))),
            Err(error) => wrong.push(format!("{}: {error}", repo::shown(&file))),
        }
        expected.push(file);
    }
    for file in repo::files(committed, &|_| true)? {
        if !expected.contains(&file) {
            wrong.push(format!(
                "{} has no source in workloads/cuda",
                repo::shown(&file)
            ));
        }
    }
    if !wrong.is_empty() {
        bail!(
            "{}\nrun `cargo xtask ptx` and commit what it writes",
            wrong.join("\n")
        );
    }
    println!("{} PTX files are current", sources.len());
    Ok(())
}

/// The CUDA compiler in its virtual environment.
#[derive(Debug)]
pub struct Compiler {
    home: PathBuf,
}

impl Compiler {
    /// Finds the compiler, setting the environment up on first use (about 500 MB under `target/`).
    ///
    /// # Errors
    /// If Python is missing and cannot be installed, or the package index cannot be reached.
    pub fn ensure() -> Result<Self> {
        setup::ensure(&[Need::PythonVenv, Need::Cxx])?;
        let environment = repo::target().join("nvcc");
        let stamp = environment.join("installed.txt");
        let wanted = PACKAGES.join("\n");
        // The stamp is written last, so that an installation that was cut short is done again.
        if fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            return Self::inside(&environment);
        }
        eprintln!(
            "ptx: installing the CUDA compiler into {} (once)",
            repo::shown(&environment)
        );
        process::output(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&environment),
        )?;
        let mut pip = Command::new(environment.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args(PACKAGES);
        process::output(&mut pip)
            .context("pip could not install the CUDA compiler from the package index")?;
        let compiler = Self::inside(&environment)?;
        fs::write(&stamp, wanted)?;
        Ok(compiler)
    }

    fn inside(environment: &Path) -> Result<Self> {
        let lib = environment.join("lib");
        let mut homes = lib
            .read_dir()
            .with_context(|| format!("cannot read {}", lib.display()))?
            .flatten()
            .map(|python| python.path().join("site-packages/nvidia/cu13"))
            .filter(|home| home.join("bin/nvcc").is_file());
        match homes.next() {
            Some(home) => Ok(Self { home }),
            None => bail!(
                "no nvcc in {}: delete that folder and try again",
                environment.display()
            ),
        }
    }

    /// Compiles one source. The compiler runs in the source's folder, so that no path gets into the output.
    ///
    /// # Errors
    /// If the source does not compile; the message holds what the compiler said.
    pub fn compile(&self, source: &Path, output: &Path) -> Result<()> {
        let bin = self.home.join("bin");
        let path = std::env::join_paths([bin.clone()].into_iter().chain(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        )))?;
        let mut nvcc = Command::new(bin.join("nvcc"));
        nvcc.args(FLAGS)
            .arg("-o")
            .arg(output)
            .arg(source.file_name().unwrap_or_default())
            .current_dir(source.parent().unwrap_or(Path::new(".")))
            .env("CUDA_HOME", &self.home)
            .env("PATH", path)
            .env("LD_LIBRARY_PATH", self.home.join("lib"))
            // Flags from the caller's environment would change the output.
            .env_remove("NVCC_PREPEND_FLAGS")
            .env_remove("NVCC_APPEND_FLAGS");
        process::output(&mut nvcc)
            .with_context(|| format!("{} does not compile", repo::shown(source)))?;
        Ok(())
    }
}
