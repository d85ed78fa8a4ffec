//! NVIDIA's compiler: nvcc with the tools around it, from PyPI, in a virtual environment; no GPU and no toolkit needed.

use crate::setup::{self, Need};
use crate::{process, python, repo};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pinned: another version writes other bytes. The last four are the tools around it that work on PTX and cubins.
const PACKAGES: [&str; 5] = [
    "nvidia-cuda-nvcc==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6",
    "nvidia-cuda-cuobjdump==13.5.37",
    "nvidia-cuda-nvdisasm==13.5.37",
    "nvidia-cuda-nvrtc==13.5.37",
];

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
        setup::ensure(&[Need::Cxx])?;
        let environment =
            python::ensure("nvcc", &PACKAGES).context("the CUDA compiler cannot be had")?;
        Self::inside(&environment)
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

    /// Returns the folder that stands for a CUDA installation.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Assembles a file of PTX for one architecture, as `sm_90`.
    ///
    /// # Errors
    /// If the text does not assemble; the message holds what the assembler said.
    pub fn assemble(&self, ptx: &Path, cubin: &Path, architecture: &str) -> Result<()> {
        let mut ptxas = Command::new(self.home.join("bin/ptxas"));
        ptxas
            .args(["-arch", architecture, "-o"])
            .arg(cubin)
            .arg(ptx);
        process::output(&mut ptxas)
            .with_context(|| format!("{} does not assemble", repo::shown(ptx)))?;
        Ok(())
    }

    /// Compiles one source. The compiler runs in the source's folder, so that no path gets into the output.
    ///
    /// # Errors
    /// If the source does not compile; the message holds what the compiler said.
    pub fn compile(&self, source: &Path, output: &Path, flags: &[impl AsRef<OsStr>]) -> Result<()> {
        let bin = self.home.join("bin");
        let path = std::env::join_paths([bin.clone()].into_iter().chain(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        )))?;
        let mut nvcc = Command::new(bin.join("nvcc"));
        nvcc.args(flags)
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
