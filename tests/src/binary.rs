//! What is under test, built once per test process into the folder that the test itself was built into: the command
//! `gridmux`, the driver library and the check of a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the `gridmux` binary, which is built first.
///
/// # Panics
/// If it does not build, or if this test does not lie in a target folder.
#[must_use]
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build("gridmux").join("gridmux"))
}

/// The path of the driver library, which is built first.
///
/// # Panics
/// If it does not build, or if this test does not lie in a target folder.
#[must_use]
pub fn driver_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("gridmux-cuda").join("libcuda.so"))
}

/// The path of the program that checks a GPU, which is built first.
///
/// # Panics
/// If it does not build, or if this test does not lie in a target folder.
#[must_use]
pub fn gpu_check() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build("gridmux-gpu-check").join("gridmux-gpu-check"))
}

/// Builds a package and returns the folder that its programs and libraries are put into.
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
