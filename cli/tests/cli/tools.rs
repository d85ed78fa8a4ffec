//! Programs of others that tests run where they are.

use std::path::PathBuf;

/// The folder into which `cargo xtask test` unpacks Debian's packages, as the root of a file system.
const UNPACKED: &str = "GRIDMUX_UNPACKED";

/// Returns where a program of Debian's package prometheus is; says so on stdout where it is not.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let unpacked = std::env::var_os(UNPACKED).map(|root| PathBuf::from(root).join("usr/bin"));
    let found = std::env::split_paths(&on_path)
        .chain(unpacked)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        println!("SKIPPED: {name} is not installed (Debian's package prometheus)");
    }
    found
}
