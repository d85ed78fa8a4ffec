//! Where things are: the repository's root, its packages, its files.

use crate::process;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the repository's root folder.
#[must_use]
pub fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask
        .parent()
        .expect("xtask stands in the repository's root")
}

/// Returns where tasks keep what they make: virtual environments, logs, comparisons.
#[must_use]
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Returns a cargo command in the repository's root.
#[must_use]
pub fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg(subcommand).current_dir(root());
    command
}

/// One package of the workspace, as `cargo metadata` has it.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// What it declares to depend on.
    pub dependencies: Vec<Dependency>,
    /// What it builds.
    pub targets: Vec<Target>,
}

/// One line of a package's dependencies.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The package depended on.
    pub name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    pub kind: Option<String>,
    /// Its folder, where it is a package of this workspace.
    pub path: Option<PathBuf>,
}

/// A library, binary, test or benchmark.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// `lib`, `bin`, `test`, `bench` …
    pub kind: Vec<String>,
    /// Its name.
    pub name: String,
    /// Its first file.
    pub src_path: PathBuf,
}

impl Package {
    /// Returns its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.manifest_path
            .parent()
            .expect("a manifest stands in a folder")
    }

    /// Names of its targets of one kind.
    pub fn targets_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a str> {
        let of_kind = move |target: &&Target| target.kind.iter().any(|k| k == kind);
        self.targets
            .iter()
            .filter(of_kind)
            .map(|target| target.name.as_str())
    }
}

/// Returns all packages of the workspace.
///
/// # Errors
/// If cargo cannot read the manifests.
pub fn packages() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let mut command = cargo("metadata");
    command.args(["--no-deps", "--format-version=1", "--quiet"]);
    let text = process::output(&mut command)?;
    let metadata: Metadata =
        serde_json::from_str(&text).context("cargo metadata prints JSON of another form")?;
    Ok(metadata.packages)
}

/// Returns all files below `folder` that pass `keep`, sorted. Hidden folders and `target` are left out.
///
/// # Errors
/// If a folder cannot be read.
pub fn files(folder: &Path, keep: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in folder
            .read_dir()
            .with_context(|| format!("cannot read {}", folder.display()))?
        {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    pending.push(path);
                }
            } else if keep(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the path as people write it: relative to the root.
#[must_use]
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}
