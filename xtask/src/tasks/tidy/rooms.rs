//! The direction of dependencies between rooms: the table of the architecture, as code.

use crate::repo::Package;

/// What a room may know.
#[derive(Debug, Clone, Copy)]
enum MayKnow {
    All,
    Only(&'static [&'static str]),
}

/// One row per crate: its name, its folder, and the rooms that its ordinary and build dependencies may name.
/// Tests of a room (development dependencies) may also use the workloads and the test kit.
const ROOMS: [(&str, &str, MayKnow); 25] = [
    ("gridmux-ptx", "ptx", MayKnow::Only(&[])),
    ("gridmux-launch", "launch", MayKnow::Only(&["gridmux-ptx"])),
    ("gridmux-sync", "sync", MayKnow::Only(&[])),
    ("gridmux-policy", "policy", MayKnow::Only(&["gridmux-sync"])),
    (
        "gridmux-hw-model",
        "hw-model",
        MayKnow::Only(&["gridmux-ptx", "gridmux-sync", "gridmux-policy"]),
    ),
    (
        "gridmux-mix",
        "mix",
        MayKnow::Only(&[
            "gridmux-ptx",
            "gridmux-policy",
            "gridmux-hw-model",
            "gridmux-workloads",
        ]),
    ),
    (
        "gridmux-channel",
        "channel",
        MayKnow::Only(&["gridmux-sync"]),
    ),
    ("gridmux-usdt", "bpf/usdt", MayKnow::Only(&[])),
    ("gridmux-bpf", "bpf", MayKnow::Only(&["gridmux-usdt"])),
    (
        "gridmux-mediator",
        "mediator",
        MayKnow::Only(&[
            "gridmux-ptx",
            "gridmux-launch",
            "gridmux-sync",
            "gridmux-policy",
            "gridmux-hw-model",
            "gridmux-mix",
            "gridmux-channel",
            "gridmux-bpf",
        ]),
    ),
    (
        "gridmux-tenant",
        "tenant",
        MayKnow::Only(&["gridmux-channel"]),
    ),
    (
        "gridmux-cuda",
        "tenant/cuda",
        MayKnow::Only(&[
            "gridmux-tenant",
            "gridmux-channel",
            "gridmux-sync",
            "gridmux-usdt",
        ]),
    ),
    ("gridmux-cudart", "tenant/cudart", MayKnow::Only(&[])),
    ("gridmux-cudart12", "tenant/cudart12", MayKnow::Only(&[])),
    ("gridmux-nvrtc", "tenant/nvrtc", MayKnow::Only(&[])),
    ("gridmux-nvrtc12", "tenant/nvrtc12", MayKnow::Only(&[])),
    ("gridmux-nvml", "tenant/nvml", MayKnow::Only(&[])),
    ("gridmux-search", "tenant/search", MayKnow::Only(&[])),
    ("gridmux", "cli", MayKnow::All),
    ("gridmux-workloads", "workloads", MayKnow::Only(&[])),
    (
        "gridmux-repro",
        "repro",
        MayKnow::Only(&[
            "gridmux-policy",
            "gridmux-hw-model",
            "gridmux-mix",
            "gridmux-workloads",
        ]),
    ),
    (
        "gridmux-gpu-check",
        "gpu-check",
        MayKnow::Only(&["gridmux-ptx", "gridmux-launch", "gridmux-workloads"]),
    ),
    (
        "gridmux-testkit",
        "testkit",
        MayKnow::Only(&["gridmux-hw-model", "gridmux-workloads"]),
    ),
    ("xtask", "xtask", MayKnow::Only(&[])),
    ("gridmux-tests", "tests", MayKnow::All),
];

/// The crates that any room's tests may use.
const FOR_TESTS: [&str; 2] = ["gridmux-workloads", TEST_KIT];
/// The crate that only tests may use; one room's library is made for tests.
const TEST_KIT: &str = "gridmux-testkit";
const ROOM_OF_TESTS: &str = "gridmux-tests";

pub(super) fn check(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages {
        let manifest = crate::repo::shown(&package.manifest_path);
        let Some((_, folder, may_know)) = ROOMS.iter().find(|(name, ..)| *name == package.name)
        else {
            findings.push(format!(
                "{manifest}: crate {} has no row in xtask/src/tasks/tidy/rooms.rs",
                package.name
            ));
            continue;
        };
        if !package.folder().ends_with(folder) {
            findings.push(format!(
                "{manifest}: crate {} belongs into {folder}/",
                package.name
            ));
        }
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some())
        {
            let for_tests = dependency.kind.as_deref() == Some("dev");
            if !allowed(*may_know, &package.name, &dependency.name, for_tests) {
                findings.push(format!(
                    "{manifest}: {} must not know {}: the direction of rooms is in ARCHITECTURE.md",
                    package.name, dependency.name
                ));
            }
        }
    }
    findings
}

fn allowed(may_know: MayKnow, from: &str, to: &str, for_tests: bool) -> bool {
    let known = match may_know {
        MayKnow::All => to != TEST_KIT || from == ROOM_OF_TESTS,
        MayKnow::Only(rooms) => rooms.contains(&to),
    };
    known || for_tests && (FOR_TESTS.contains(&to) || to == from)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::repo::{Dependency, Package, root};

    fn finding(from: &str, folder: &str, to: &str, kind: Option<&str>) -> bool {
        let package = Package {
            name: from.into(),
            manifest_path: root().join(folder).join("Cargo.toml"),
            dependencies: vec![Dependency {
                name: to.into(),
                kind: kind.map(Into::into),
                path: Some(root().join(to)),
            }],
            targets: vec![],
        };
        !check(&[package]).is_empty()
    }

    #[test]
    fn edges_against_the_direction_are_found() {
        assert!(finding("gridmux-policy", "policy", "gridmux-ptx", None));
        assert!(finding("gridmux-sync", "sync", "gridmux-policy", None));
        assert!(finding("gridmux-bpf", "bpf", "gridmux-sync", None));
        assert!(finding(
            "gridmux-tenant",
            "tenant",
            "gridmux-mediator",
            Some("dev")
        ));
        assert!(finding(
            "gridmux-ptx",
            "ptx",
            "gridmux-channel",
            Some("build")
        ));
        assert!(
            finding("gridmux", "cli", "gridmux-testkit", None),
            "a product with what is made for tests"
        );
        assert!(
            finding("gridmux-new", "new", "gridmux-ptx", None),
            "a crate without a row"
        );
        assert!(
            finding("gridmux-ptx", "parser", "gridmux-workloads", Some("dev")),
            "a crate in another folder"
        );
    }

    #[test]
    fn edges_along_the_direction_pass() {
        assert!(!finding("gridmux-policy", "policy", "gridmux-sync", None));
        assert!(!finding(
            "gridmux-hw-model",
            "hw-model",
            "gridmux-policy",
            None
        ));
        assert!(!finding(
            "gridmux-ptx",
            "ptx",
            "gridmux-workloads",
            Some("dev")
        ));
        assert!(!finding("gridmux", "cli", "gridmux-testkit", Some("dev")));
        assert!(!finding("gridmux-tests", "tests", "gridmux-testkit", None));
        assert!(!finding(
            "gridmux-tests",
            "tests",
            "gridmux-mediator",
            Some("dev")
        ));
    }
}
