//! The corpus: what nvcc, NVRTC, clang and Triton make of the sources in `workloads/corpus`.
//!
//! A C++ source says in comments for which architectures it is compiled (`// arch: 80 90`) and with which options
//! (`// flags: -G`); a Triton script holds a table. Each compilation gives `TOOL/NAME.smXX.ptx`.
//!
//! Debug information holds the folder that the compiler runs in, so the sources are copied to one that is called the
//! same on every machine.

use super::{Compiler, emptied};
use crate::setup::{self, Need};
use crate::{process, python, repo};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Where compilers see the sources.
const STAGE: &str = "/tmp/gridmux-corpus-stage";

/// Pinned: another version writes other bytes.
const TRITON: [&str; 2] = ["triton==3.9.0", "numpy==2.2.6"];

/// The folders of C++ sources that are compiled one by one, by the tool's name.
const SINGLE: [&str; 2] = ["cuda", "clang"];

/// One run of nvcc or clang.
struct Job {
    tool: &'static str,
    name: String,
    architecture: String,
    flags: Vec<String>,
}

/// Compiles the whole corpus into a folder under `target/` and returns that folder.
pub(super) fn compile() -> Result<PathBuf> {
    setup::ensure(&[Need::Clang])?;
    let clang = (19..=22)
        .find_map(|version| process::find(&format!("clang-{version}")))
        .context("no clang-19 on PATH")?;
    let nvidia = Compiler::ensure()?;
    let triton = python::ensure("triton", &TRITON).context("Triton cannot be had")?;
    let fresh = emptied(&repo::target().join("corpus-fresh"))?;
    let stage = stage()?;

    let jobs = jobs(&stage)?;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        // Relaxed: only the number matters, not its order against anything else.
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = job.run(&nvidia, &clang, &stage, &fresh) {
                failures.push(format!("{error:#}"));
            }
        }
        failures
    };
    let failures: Vec<String> = thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, Into::into);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .flat_map(|failures| failures.unwrap_or_else(|_| vec!["a worker panicked".into()]))
            .collect()
    });
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    eprintln!("ptx: nvrtc");
    compile_nvrtc(&nvidia, &stage, &fresh)?;
    eprintln!("ptx: triton");
    compile_triton(&triton, &stage, &fresh)?;
    Ok(fresh)
}

/// Copies the sources to the folder with the fixed name.
fn stage() -> Result<PathBuf> {
    let stage = emptied(Path::new(STAGE))?;
    let corpus = repo::root().join("workloads/corpus");
    for tool in ["cuda", "nvrtc", "clang", "triton"] {
        fs::create_dir_all(stage.join(tool))?;
        for file in repo::files(&corpus.join(tool), &|_| true)? {
            let name = file.file_name().unwrap_or_default();
            fs::copy(&file, stage.join(tool).join(name))?;
        }
    }
    Ok(stage)
}

fn jobs(stage: &Path) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for tool in SINGLE {
        for file in repo::files(&stage.join(tool), &|f| {
            f.extension().is_some_and(|e| e == "cu")
        })? {
            let text = fs::read_to_string(&file)?;
            let words = |key: &str| -> Vec<String> {
                let line = text.lines().find_map(|line| line.strip_prefix(key));
                let words = line.unwrap_or_default().split_whitespace();
                words.map(str::to_owned).collect()
            };
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let architectures = words("// arch: ");
            if architectures.is_empty() {
                bail!("{tool}/{name}.cu has no line `// arch: 80`");
            }
            jobs.extend(architectures.into_iter().map(|architecture| Job {
                tool,
                name: name.clone().into_owned(),
                architecture,
                flags: words("// flags: "),
            }));
        }
    }
    Ok(jobs)
}

impl Job {
    fn run(&self, nvidia: &Compiler, clang: &Path, stage: &Path, fresh: &Path) -> Result<()> {
        let source = stage.join(self.tool).join(format!("{}.cu", self.name));
        let tool = if self.tool == "cuda" {
            "nvcc"
        } else {
            self.tool
        };
        fs::create_dir_all(fresh.join(tool))?;
        let output = fresh
            .join(tool)
            .join(format!("{}.sm{}.ptx", self.name, self.architecture));
        let own = self.flags.iter().map(String::as_str);
        if tool == "nvcc" {
            let architecture = format!("-arch=compute_{}", self.architecture);
            let flags: Vec<&str> = ["--ptx", "-O3", "-std=c++17", &architecture]
                .into_iter()
                .chain(own)
                .collect();
            return nvidia.compile(&source, &output, &flags);
        }
        let mut clang = Command::new(clang);
        clang
            .args([
                "-x",
                "cuda",
                "-nocudainc",
                "-nocudalib",
                "--cuda-device-only",
            ])
            .arg(format!("--cuda-gpu-arch=sm_{}", self.architecture))
            .args(["-S", "-O2", "-std=c++17"])
            .args(own)
            .arg("-o")
            .arg(&output)
            .arg(source.file_name().unwrap_or_default())
            .current_dir(stage.join(self.tool));
        process::output(&mut clang)
            .with_context(|| format!("{}/{}.cu does not compile", self.tool, self.name))?;
        Ok(())
    }
}

/// The run-time compiler is a library; a script of the corpus calls it.
fn compile_nvrtc(nvidia: &Compiler, stage: &Path, fresh: &Path) -> Result<()> {
    let into = emptied(&fresh.join("nvrtc"))?;
    let mut script = Command::new("python3");
    script
        .arg("compile.py")
        .args([nvidia.home(), &into])
        .current_dir(stage.join("nvrtc"))
        .env("LD_LIBRARY_PATH", nvidia.home().join("lib"));
    process::output(&mut script)?;
    Ok(())
}

fn compile_triton(environment: &Path, stage: &Path, fresh: &Path) -> Result<()> {
    let into = emptied(&fresh.join("triton"))?;
    let mut script = Command::new(environment.join("bin/python"));
    script
        .arg("compile.py")
        .arg(into)
        .current_dir(stage.join("triton"))
        .env("TRITON_CACHE_DIR", repo::target().join("triton-cache"))
        // The default changes with Triton's version.
        .env("TRITON_DEFAULT_FP_FUSION", "1");
    process::output(&mut script)?;
    Ok(())
}
