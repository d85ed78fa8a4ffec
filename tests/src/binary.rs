//! What is under test: the command `gridmux`, the CUDA libraries and the check of a GPU.
//!
//! Each is built once per test process into the folder that the test itself was built into, or taken from the folder
//! that the variable [`PROGRAMS`] names. `cargo xtask test` builds them with the tests and sets it: cargo builds a
//! package that is asked for alone with other features of its dependencies, and so everything again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The variable that names a folder with everything that is under test.
const PROGRAMS: &str = "GRIDMUX_PROGRAMS";

/// Returns the path of `gridmux`, built first unless [`PROGRAMS`] is set.
///
/// # Panics
/// If it does not build or is not where it should be, or if this test does not lie in a target folder.
#[must_use]
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("gridmux", "gridmux"))
}

/// Returns the path of the driver library, built first unless [`PROGRAMS`] is set.
///
/// # Panics
/// If it does not build or is not where it should be, or if this test does not lie in a target folder.
#[must_use]
pub fn driver_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built("gridmux-cuda", "libcuda.so"))
}

/// Returns the path of the runtime library, built first unless [`PROGRAMS`] is set.
///
/// # Panics
/// If it does not build or is not where it should be, or if this test does not lie in a target folder.
#[must_use]
pub fn runtime_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built("gridmux-cudart", "libcudart.so"))
}

/// Returns the path of the runtime library for programs of CUDA 12, built first unless [`PROGRAMS`] is set.
///
/// # Panics
/// If it does not build or is not where it should be, or if this test does not lie in a target folder.
#[must_use]
pub fn runtime_library_of_cuda_12() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built("gridmux-cudart12", "libcudart12.so"))
}

/// Returns the path of the program that checks a GPU, built first unless [`PROGRAMS`] is set.
///
/// # Panics
/// If it does not build or is not where it should be, or if this test does not lie in a target folder.
#[must_use]
pub fn gpu_check() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("gridmux-gpu-check", "gridmux-gpu-check"))
}

/// Returns the path of a file of a package, which is built unless [`PROGRAMS`] says where it has been.
fn built(package: &str, file: &str) -> PathBuf {
    let Some(folder) = std::env::var_os(PROGRAMS) else {
        return build(package).join(file);
    };
    let path = Path::new(&folder).join(file);
    eprintln!("{PROGRAMS} is set: {} is tested", path.display());
    assert!(
        path.is_file(),
        "there is no {}; unset {PROGRAMS}, and it is built",
        path.display()
    );
    path
}

/// Builds a package and returns the folder that its programs and libraries are in.
fn build(package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    // TARGET/PROFILE/deps/TEST
    let profile_folder = test
        .ancestors()
        .nth(2)
        .expect("a test lies in TARGET/PROFILE/deps");
    let target = profile_folder
        .parent()
        .expect("a profile folder lies in a target folder");
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package",
            package,
            "--profile",
            profile,
            "--manifest-path",
        ])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo starts");
    assert!(status.success(), "building {package} failed: {status}");
    profile_folder.to_owned()
}
