//! Clients: CUDA programs that know nothing of gridmux, each run by `gridmux run` as a user runs it.
//!
//! They are the README's script, numba-cuda with tests of its own, programs on cuda-bindings, cuda-core, CuPy, tinygrad
//! and Triton from the package index, and committed programs, in C, CUDA C++ and Rust on the driver API and in CUDA C++
//! on the runtime API. A program that is a test suite prints a line for each test; any other counts as one test, by its
//! exit status.

use super::{Counts, Stage};
use crate::setup::{self, Need};
use crate::tasks::ptx::Compiler;
use crate::{process, python, repo};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One client.
struct Client {
    name: &'static str,
    /// Program and arguments; `{python}`, `{gridmux}`, `{build}` and `{clients}` stand for paths.
    words: &'static [&'static str],
    /// `false` for one that starts its own service and runs `gridmux run` itself.
    through_run: bool,
    counts: Counts,
}

/// All of them, those that say soonest that something is wrong first.
const CLIENTS: [Client; 20] = [
    program("C program", &["{build}/clients/program"]),
    program("CUDA program", &["{build}/clients/cuda"]),
    program(
        "CUDA program with streams of threads",
        &["{build}/clients/cuda_per_thread"],
    ),
    program(
        "CUDA program linked on the device",
        &["{build}/clients/cuda_linked"],
    ),
    program("CUDA 12 program", &["{build}/clients/cuda12/program"]),
    program("CUDA program with graphs", &["{build}/clients/cuda_graphs"]),
    program(
        "driver program",
        &[
            "{build}/clients/driver",
            "{build}/clients/driver_kernels.ptx",
        ],
    ),
    program("cudarc program", &["{build}/examples/cudarc_program"]),
    program(
        "the README's script",
        &["{python}", "{build}/clients/readme.py"],
    ),
    suite(
        "cuda-bindings",
        &["{python}", "{clients}/suite.py", "bindings"],
    ),
    suite(
        "cuda-bindings' runtime",
        &["{python}", "{clients}/suite.py", "runtime"],
    ),
    suite("cuda-core", &["{python}", "{clients}/suite.py", "core"]),
    suite("cupy", &["{python}", "{clients}/suite.py", "cupy"]),
    suite("numba", &["{python}", "{clients}/suite.py", "numba"]),
    program(
        "numba training",
        &["{python}", "{clients}/numba/training.py"],
    ),
    program(
        "tinygrad training",
        &["{python}", "{clients}/tinygrad/training.py"],
    ),
    program("taichi", &["{python}", "{clients}/taichi/heat.py"]),
    suite("triton", &["{python}", "{clients}/suite.py", "triton"]),
    Client {
        name: "two tenants",
        words: &["{python}", "{clients}/two_tenants.py", "{gridmux}"],
        through_run: false,
        counts: Counts::Program,
    },
    suite(
        "numba's own tests",
        &["{python}", "{clients}/suite.py", "numba-cuda"],
    ),
];

const fn program(name: &'static str, words: &'static [&'static str]) -> Client {
    Client {
        name,
        words,
        through_run: true,
        counts: Counts::Program,
    }
}

const fn suite(name: &'static str, words: &'static [&'static str]) -> Client {
    Client {
        name,
        words,
        through_run: true,
        counts: Counts::Tests,
    }
}

/// After this many seconds a client is told to end, and it has failed.
const PATIENCE_S: &str = "900";

/// What the clients' commands are made from.
struct Places {
    python: PathBuf,
    gridmux: PathBuf,
    build: PathBuf,
    clients: PathBuf,
}

/// How nvcc compiles the CUDA programs: names, sources, and flags beside the usual ones.
const CUDA_PROGRAMS: [(&str, &str, &[&str]); 6] = [
    ("cuda", "runtime.cu", &[]),
    (
        "cuda_per_thread",
        "runtime.cu",
        &["--default-stream=per-thread"],
    ),
    ("cuda_linked", "runtime.cu", &["-rdc=true"]),
    ("cuda_graphs", "graphs.cu", &[]),
    ("driver", "driver.cu", &["-lcuda"]),
    (
        "driver_kernels.ptx",
        "driver_kernels.cu",
        &["-ptx", "-rdc=true"],
    ),
];

/// Packages with the headers of CUDA 12: the runtime's, and those of the C++ library that they include.
const CUDA_12: [&str; 2] = [
    "nvidia-cuda-runtime-cu12==12.9.79",
    "nvidia-cuda-cccl-cu12==12.9.27",
];

/// Builds these targets of the workspace, programs and examples among them, installs what else the clients need, and
/// returns a stage for each client.
///
/// # Errors
/// If something does not build or cannot be installed.
pub(super) fn stages(targets: &[&str]) -> Result<Vec<Stage>> {
    setup::ensure(&[Need::Gcc, Need::PythonVenv, Need::PythonHeaders])?;
    let clients = repo::root().join("tests/clients");
    let environment = environment()?;
    process::aloud(&mut super::build(targets))?;
    let build = super::programs();
    compile_c(&clients, &build)?;
    let compiler = Compiler::ensure()?;
    compile_cuda(&clients, &build, &compiler)?;
    compile_for_cuda_12(&clients, &build, &compiler)?;
    let script = build.join("clients/readme.py");
    fs::write(&script, readme_script()?)
        .with_context(|| format!("cannot write {}", script.display()))?;
    let places = Places {
        python: environment.join("bin/python"),
        gridmux: build.join("gridmux"),
        build,
        clients,
    };
    Ok(CLIENTS.iter().map(|client| client.stage(&places)).collect())
}

/// Returns the Python environment of the clients, installed on first use.
///
/// # Errors
/// If Python is missing and cannot be installed, or the package index cannot be reached.
pub(crate) fn environment() -> Result<PathBuf> {
    let requirements = repo::root().join("tests/clients/requirements.txt");
    let requirements = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", repo::shown(&requirements)))?;
    let packages: Vec<&str> = requirements
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    python::ensure("clients", &packages)
}

/// Compiles the C program and links it with gridmux's libcuda, as it would be with NVIDIA's.
fn compile_c(clients: &Path, build: &Path) -> Result<()> {
    let folder = build.join("clients");
    fs::create_dir_all(&folder)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Werror", "-o"])
        .arg(folder.join("program"))
        .arg(clients.join("c/program.c"))
        .arg("-L")
        .arg(build)
        .arg("-lcuda");
    process::output(&mut gcc).context("the C program does not compile")?;
    Ok(())
}

/// Compiles the CUDA programs as a user does, and links them with gridmux's runtime library, as they would be with
/// NVIDIA's.
fn compile_cuda(clients: &Path, build: &Path, compiler: &Compiler) -> Result<()> {
    for (name, source, flags) in CUDA_PROGRAMS {
        let libraries = format!("-L{}", build.display());
        let usual = ["-arch=sm_80", "-cudart=shared", &libraries];
        let flags: Vec<&str> = usual.iter().chain(flags).copied().collect();
        let source = clients.join("cuda").join(source);
        compiler.compile(&source, &build.join("clients").join(name), &flags)?;
    }
    Ok(())
}

/// Compiles the CUDA program with the headers of CUDA 12, and links it with the runtime library of that version. The
/// package index has the headers, and no nvcc of CUDA 12.
fn compile_for_cuda_12(clients: &Path, build: &Path, compiler: &Compiler) -> Result<()> {
    let environment = python::ensure("cuda12", &CUDA_12)?;
    let pythons = fs::read_dir(environment.join("lib"))?.flatten();
    let packages = pythons
        .map(|python| python.path().join("site-packages/nvidia"))
        .find(|packages| packages.is_dir())
        .context("the packages with the headers of CUDA 12 have none")?;
    // The linker looks for the library under the name that it has in every version.
    let folder = build.join("clients/cuda12");
    fs::create_dir_all(&folder)?;
    let link = folder.join("libcudart.so");
    if !link.exists() {
        std::os::unix::fs::symlink(build.join("libcudart12.so"), link)?;
    }
    let include = |package| format!("-I{}", packages.join(package).join("include").display());
    let [runtime, library] = ["cuda_runtime", "cuda_cccl"].map(include);
    let libraries = format!("-L{}", folder.display());
    let flags = [
        "-arch=sm_80",
        "-cudart=shared",
        &runtime,
        &library,
        &libraries,
    ];
    compiler.compile(
        &clients.join("cuda/runtime.cu"),
        &folder.join("program"),
        &flags,
    )
}

/// Returns the script that the README has its reader keep.
///
/// # Errors
/// README.md cannot be read or has no such block.
pub(crate) fn readme_script() -> Result<String> {
    let readme =
        fs::read_to_string(repo::root().join("README.md")).context("cannot read README.md")?;
    let behind = readme.split_once("```python\n").map(|(_, behind)| behind);
    let script = behind.and_then(|behind| behind.split_once("```"));
    let (script, _) = script.context("README.md has no block of Python")?;
    Ok(script.to_owned())
}

impl Client {
    fn stage(&self, places: &Places) -> Stage {
        // Programs from the package index write caches, which have no place among the sources.
        let caches = repo::target().join("clients/caches");
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=20", PATIENCE_S])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TRITON_CACHE_DIR", caches.join("triton"))
            .env("NUMBA_CACHE_DIR", caches.join("numba"))
            .env("CUPY_CACHE_DIR", caches.join("cupy"));
        if self.through_run {
            command.arg(&places.gridmux).args(["run", "--"]);
        }
        command.args(self.words.iter().map(|word| places.filled(word)));
        Stage {
            name: self.name.to_owned(),
            command,
            counts: self.counts,
            is_alone: false,
        }
    }
}

impl Places {
    fn filled(&self, word: &str) -> String {
        let places = [
            ("{python}", &self.python),
            ("{gridmux}", &self.gridmux),
            ("{build}", &self.build),
            ("{clients}", &self.clients),
        ];
        places
            .into_iter()
            .fold(word.to_owned(), |word, (name, path)| {
                word.replace(name, &path.display().to_string())
            })
    }
}
