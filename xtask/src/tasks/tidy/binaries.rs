//! Integration tests: a room has one binary, because each links the whole room. One that needs a process of its own is
//! in a table here and gives its reason in its first lines; loom suites, which are built with a flag of their own, are
//! free.

use crate::repo::{self, Package, Target};
use anyhow::{Context, Result};
use std::fs;

/// The binaries beside a room's one, each by its room and its name.
const BESIDE: [(&str, &str); 10] = [
    ("gridmux-hw-model", "allocations"),
    ("gridmux-hw-model", "kept_storage"),
    ("gridmux-hw-model", "module_memory"),
    ("gridmux-mediator", "probes"),
    ("gridmux-mediator", "sandbox"),
    ("gridmux-mediator", "steady_state"),
    ("gridmux-policy", "allocator"),
    ("gridmux-ptx", "growth"),
    ("gridmux-tests", "forms"),
    ("gridmux-tests", "images"),
];

/// How its reason begins, in its `//!`.
const REASON: &str = "//! A binary of its own, because ";

pub(super) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for package in packages {
        findings.extend(too_many(package, &BESIDE));
        for target in
            integration_tests(package).filter(|target| is_beside(package, target, &BESIDE))
        {
            let source = fs::read_to_string(&target.src_path)
                .with_context(|| format!("cannot read {}", target.src_path.display()))?;
            if !source.lines().any(|line| line.starts_with(REASON)) {
                let shown = repo::shown(&target.src_path);
                findings.push(format!("{shown}:1: say `{REASON}…`"));
            }
        }
    }
    findings.extend(stale(packages, &BESIDE));
    Ok(findings)
}

fn integration_tests(package: &Package) -> impl Iterator<Item = &Target> {
    let of_kind = |target: &&Target| target.kind.iter().any(|kind| kind == "test");
    let free = |target: &&Target| !target.name.starts_with("loom_");
    package.targets.iter().filter(of_kind).filter(free)
}

fn is_beside(package: &Package, target: &Target, beside: &[(&str, &str)]) -> bool {
    beside.contains(&(&package.name, &target.name))
}

/// Returns a finding for a room with several binaries that are not in the table.
fn too_many(package: &Package, beside: &[(&str, &str)]) -> Option<String> {
    let tests = integration_tests(package);
    let plain = tests.filter(|target| !is_beside(package, target, beside));
    let names: Vec<&str> = plain.map(|target| target.name.as_str()).collect();
    (names.len() > 1).then(|| {
        format!(
            "{}: {} integration test binaries ({}): make them modules of one, or give a reason as \
             xtask/src/tasks/tidy/binaries.rs says",
            repo::shown(&package.manifest_path),
            names.len(),
            names.join(", ")
        )
    })
}

/// Returns findings for rows of the table whose binary is gone.
fn stale(packages: &[Package], beside: &[(&str, &str)]) -> Vec<String> {
    let exists = |room: &str, name: &str| {
        let mut rooms = packages.iter().filter(|package| package.name == room);
        rooms.any(|package| integration_tests(package).any(|target| target.name == name))
    };
    let gone = beside.iter().filter(|(room, name)| !exists(room, name));
    gone.map(|(room, name)| {
        format!("xtask/src/tasks/tidy/binaries.rs: {room} has no integration test binary {name}")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{stale, too_many};
    use crate::repo::{Package, Target, root};

    fn room(binaries: &[&str]) -> Package {
        let target = |name: &&str| Target {
            kind: vec!["test".into()],
            name: (*name).into(),
            src_path: root().join("room/tests").join(name),
        };
        Package {
            name: "room".into(),
            manifest_path: root().join("room/Cargo.toml"),
            dependencies: vec![],
            targets: binaries.iter().map(target).collect(),
        }
    }

    #[test]
    fn a_second_binary_needs_a_row_and_loom_suites_need_none() {
        let table = [("room", "alone")];
        assert_eq!(
            too_many(&room(&["room", "loom_a", "loom_b", "alone"]), &table),
            None
        );
        let found = too_many(&room(&["room", "another", "alone"]), &table);
        assert!(found.is_some_and(|found| found.contains("(room, another)")));
    }

    #[test]
    fn a_row_without_its_binary_is_found() {
        let table = [("room", "alone"), ("room", "gone"), ("nowhere", "alone")];
        let found = stale(&[room(&["alone"])], &table);
        assert!(found.len() == 2 && found[0].contains("gone"), "{found:?}");
    }
}
