//! Tells the program which commit it is built from, for `gridmux --version`.
//!
//! Rule: without git, or outside of a clone, the version stands alone; nothing fails for it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=GRIDMUX_VERSION={}", version());
}

/// Returns the version, with the commit and its date where they are known.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}

fn commit() -> Option<String> {
    // Sources that were unpacked inside another repository are not of that repository's commit.
    if git(&["rev-parse", "--show-prefix"])? != "cli/" {
        return None;
    }
    // Every commit and every change of branches adds a line to it.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["log", "-1", "--format=%h %cs", "--abbrev=10"])
}

/// Returns what git says, if there is a git and it says something.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
