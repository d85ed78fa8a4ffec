//! What the package holds, laid out as debhelper packs it: `debian/` with what it reads, `files/` with what gets
//! installed, and the documents beside them.

use crate::tasks::wheel::FILES;
use crate::{process, repo};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository, each with the folder that it gets into.
const INSTALLED: [(&str, &str); 4] = [
    ("packaging/gridmux.toml", "etc/gridmux"),
    (
        "packaging/grafana/gridmux.json",
        "usr/share/gridmux/grafana",
    ),
    (
        "packaging/prometheus/alerts.yml",
        "usr/share/gridmux/prometheus",
    ),
    (
        "packaging/prometheus/alerts_test.yml",
        "usr/share/gridmux/prometheus",
    ),
];
/// Folder of scripts, and where they get to.
const SCRIPTS: (&str, &str) = ("packaging/bpftrace", "usr/share/gridmux/bpftrace");
/// Files that debhelper looks for under names of its own.
const NAMED: [(&str, &str); 3] = [
    ("packaging/gridmux.service", "gridmux.gridmux.service"),
    (
        "packaging/gridmux-metrics.service",
        "gridmux.gridmux-metrics.service",
    ),
    ("packaging/sysusers.conf", "gridmux.sysusers"),
];
/// Documents.
const DOCUMENTS: [&str; 3] = ["README.md", "CHANGELOG.md", "docs"];
/// Where completions of each shell get to, as `gridmux completions --help` says.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/gridmux"),
    ("zsh", "usr/share/zsh/vendor-completions/_gridmux"),
    ("fish", "usr/share/fish/vendor_completions.d/gridmux.fish"),
];
const DOC: &str = "usr/share/doc/gridmux";

/// Lays out everything in an empty folder; returns the time of the last commit, in seconds since 1970.
pub(super) fn lay_out(source: &Path, version: &str) -> Result<u64> {
    let debian = source.join("debian");
    copy_folder(&repo::root().join("packaging/debian"), &debian)?;
    for (file, name) in NAMED {
        copy(&repo::root().join(file), &debian.join(name))?;
    }
    let (time, date) = last_commit()?;
    let maintainer = maintainer(&debian.join("control"))?;
    let changelog = format!(
        "gridmux ({version}) unstable; urgency=medium\n\n  * What is new stands in {DOC}/CHANGELOG.md.gz.\n\n -- \
         {maintainer}  {date}\n"
    );
    write(&debian.join("changelog"), &changelog)?;
    for name in DOCUMENTS {
        let (from, to) = (repo::root().join(name), source.join(name));
        match from.is_dir() {
            true => copy_folder(&from, &to)?,
            false => copy(&from, &to)?,
        }
    }
    install(&source.join("files"))?;
    Ok(time)
}

/// Puts what is installed below a folder that stands for the root.
fn install(root: &Path) -> Result<()> {
    let built = repo::target().join("release");
    for (_, file, place) in FILES {
        let (kind, below) = place
            .split_once('/')
            .context("a file of the wheel has no place")?;
        let folder = if kind == "scripts" { "usr/bin" } else { "usr" };
        copy(&built.join(file), &root.join(folder).join(below))?;
    }
    for (file, folder) in INSTALLED {
        let from = repo::root().join(file);
        let name = from.file_name().context("a file has a name")?;
        copy(&from, &root.join(folder).join(name))?;
    }
    copy_folder(&repo::root().join(SCRIPTS.0), &root.join(SCRIPTS.1))?;
    let gridmux = built.join("gridmux");
    let said = |arguments: &[&str]| process::output(Command::new(&gridmux).args(arguments));
    for (shell, place) in COMPLETIONS {
        write(&root.join(place), &said(&["completions", shell])?)?;
    }
    let pages = root.join("usr/share/man/man1");
    said(&["man", &pages.display().to_string()])?;
    let example = said(&["serve", "--example-config"])?;
    write(&root.join(DOC).join("examples/gridmux.toml"), &example)?;
    write(&root.join(DOC).join("crates.txt"), &crates()?)
}

/// Returns the crates of others that the programs hold, a line each with version and license.
fn crates() -> Result<String> {
    let mut tree = repo::cargo("tree");
    tree.args([
        "--prefix", "none", "--edges", "normal", "--format", "{p}: {l}",
    ]);
    for (package, ..) in FILES {
        tree.args(["--package", package]);
    }
    let text = process::output(&mut tree)?;
    let ours = repo::root().display().to_string();
    // What cargo said before is marked with a star.
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    let mut lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.contains(&ours))
        .collect();
    lines.sort_unstable();
    lines.dedup();
    Ok(lines.join("\n") + "\n")
}

/// Returns the time of the last commit, in seconds since 1970 and as changelogs write it (RFC 5322); outside of a
/// clone, that of now.
fn last_commit() -> Result<(u64, String)> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"])
        .current_dir(repo::root());
    let seconds = match process::output(&mut git) {
        Ok(seconds) => seconds,
        Err(_) => process::output(Command::new("date").arg("+%s"))?,
    };
    let seconds = seconds.trim();
    let mut date = Command::new("date");
    date.args(["--utc", "--rfc-email", &format!("--date=@{seconds}")]);
    let date = process::output(&mut date)?;
    Ok((
        seconds.parse().context("git tells no time")?,
        date.trim().to_owned(),
    ))
}

/// Returns who maintains the package, as its control file says.
fn maintainer(control: &Path) -> Result<String> {
    let text = fs::read_to_string(control).with_context(|| repo::shown(control))?;
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix("Maintainer: "));
    Ok(found
        .context("the control file names no maintainer")?
        .to_owned())
}

fn write(path: &Path, text: &str) -> Result<()> {
    make_parent(path)?;
    fs::write(path, text).with_context(|| repo::shown(path))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    fs::copy(from, to).with_context(|| format!("{} to {}", repo::shown(from), repo::shown(to)))?;
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let files: Vec<PathBuf> = repo::files(from, &|_| true)?;
    for file in files {
        copy(&file, &to.join(file.strip_prefix(from)?))?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().context("a path has a folder")?;
    fs::create_dir_all(parent).with_context(|| repo::shown(parent))
}
