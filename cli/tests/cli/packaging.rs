//! The unit files and the configuration that are installed: systemd reads the ones, and finds them closed enough; the
//! service finds the other right.

use crate::command::{PROGRAM, gridmux};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most that `systemd-analyze security` may say of a unit, in tenths.
const MOST_EXPOSURE: f64 = 2.0;

fn units() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut units: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|end| end == "service"))
        .collect();
    units.sort();
    assert!(!units.is_empty());
    units
}

/// Returns whether `systemd-analyze` is here; says so where it is not.
fn is_skipped() -> bool {
    let version = Command::new("systemd-analyze").arg("--version").output();
    let is_here = version.is_ok();
    if !is_here {
        println!("SKIPPED: systemd-analyze is not installed (Debian's package systemd has it)");
    }
    !is_here
}

/// Runs `systemd-analyze` and returns whether it succeeded, with all that it printed.
fn analyze(arguments: &[&str], unit: &Path) -> (bool, String) {
    let output = Command::new("systemd-analyze")
        .args(arguments)
        .arg(unit)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for unit in units() {
        // The program lies where it was built, and not where the unit will find it.
        let text = fs::read_to_string(&unit).unwrap();
        let text = text.replace("=gridmux ", &format!("={PROGRAM} "));
        let copy = folder.path().join(unit.file_name().unwrap());
        fs::write(&copy, text).unwrap();
    }
    for unit in units() {
        let copy = folder.path().join(unit.file_name().unwrap());
        let (is_right, text) = analyze(&["verify", "--man=no"], &copy);
        let of_ours: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("gridmux"))
            .collect();
        assert!(is_right && of_ours.is_empty(), "{}: {text}", unit.display());
    }
}

#[test]
fn the_units_are_closed() {
    if is_skipped() {
        return;
    }
    for unit in units() {
        let (_, text) = analyze(&["security", "--offline=true", "--no-pager"], &unit);
        let level = text
            .lines()
            .find(|line| line.contains("Overall exposure level"));
        let level = level.unwrap_or_else(|| panic!("{}: {text}", unit.display()));
        let (_, level) = level.rsplit_once(": ").unwrap();
        let level: f64 = level.split_whitespace().next().unwrap().parse().unwrap();
        assert!(
            level <= MOST_EXPOSURE,
            "{}: {level}\n{text}",
            unit.display()
        );
    }
}

#[test]
fn the_configuration_that_is_installed_is_right() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/gridmux.toml");
    let folder = tempfile::tempdir().unwrap();
    // The package makes the group and the folder; this machine has neither.
    let text = fs::read_to_string(file).unwrap();
    let text = text
        .replace("\"gridmux-operators\"", "0")
        .replace("/var/lib/gridmux", folder.path().to_str().unwrap());
    let copy = folder.path().join("gridmux.toml");
    fs::write(&copy, text).unwrap();
    let run_dir = folder.path().join("run");
    let [copy, run_dir] = [&copy, &run_dir].map(|path| path.to_str().unwrap());
    let check = [
        "serve",
        "--check",
        "-j",
        "--config",
        copy,
        "--run-dir",
        run_dir,
    ];
    gridmux(check).succeeded();
}
