//! Arrows between files: which parts of a room may not know which others, that no circle of files grows large, and that
//! no file of another room is compiled into this one by `#[path]`, which the room's dependencies would not show.

use super::mask::code_only;
use super::modules::Modules;
use crate::repo::{self, Package};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// An arrow that must not be: in the crate's folder, from a part to another.
struct Forbidden {
    folder: &'static str,
    from: &'static str,
    to: &'static str,
    because: &'static str,
}

const FORBIDDEN: [Forbidden; 6] = [
    Forbidden {
        folder: "ptx",
        from: "syntax",
        to: "decode",
        because: "the lossless layer knows nothing of the typed one",
    },
    Forbidden {
        folder: "hw-model",
        from: "exec",
        to: "compile",
        because: "what executes operations does not know what made them",
    },
    Forbidden {
        folder: "mediator",
        from: "host",
        to: "supervisor",
        because: "the unprivileged process does not know the privileged one",
    },
    Forbidden {
        folder: "mediator",
        from: "accounting",
        to: "supervisor",
        because: "what keeps accounts does not know who asks for them",
    },
    Forbidden {
        folder: "mediator",
        from: "accounting",
        to: "host",
        because: "accounts are the privileged process's",
    },
    Forbidden {
        folder: "mediator",
        from: "config",
        to: "supervisor",
        because: "every process reads the configuration",
    },
];

/// Files of the largest circle: what executes operations is one, because operations hold function pointers.
const LARGEST_CIRCLE: usize = 35;

pub(super) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for package in packages {
        let sources = sources(package.folder())?;
        for (path, source) in &sources {
            findings.extend(foreign_files(package.folder(), path, source));
        }
        let modules = modules_of(package.folder(), &sources);
        let folder = repo::shown(package.folder());
        findings.extend(forbidden_arrows(&folder, &modules));
        findings.extend(large_circles(&folder, &modules, LARGEST_CIRCLE));
    }
    Ok(findings)
}

/// Returns the Rust files of a room, without those of a package inside its folder.
fn sources(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let is_ours = |path: &Path| {
        let mut folders = path
            .ancestors()
            .skip(1)
            .take_while(|parent| *parent != folder);
        path.extension().is_some_and(|e| e == "rs")
            && !folders.any(|parent| parent.join("Cargo.toml").exists())
    };
    let files = repo::files(folder, &is_ours)?.into_iter();
    let read = |path: PathBuf| {
        let source =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok((path, source))
    };
    files.map(read).collect()
}

fn modules_of(folder: &Path, sources: &[(PathBuf, String)]) -> Modules {
    let src = folder.join("src");
    Modules::read(sources.iter().filter_map(|(path, source)| {
        let below = path.strip_prefix(&src).ok()?.to_str()?;
        Some((below, repo::shown(path), source.as_str()))
    }))
}

fn forbidden_arrows(folder: &str, modules: &Modules) -> Vec<String> {
    let mut findings = Vec::new();
    for rule in FORBIDDEN.iter().filter(|rule| rule.folder == folder) {
        for one in modules.uses() {
            if modules.is_in(one.from, rule.from) && modules.is_in(one.to, rule.to) {
                findings.push(format!(
                    "{}:{}: `{}` must not know `{}`, here {}: {}",
                    modules.shown(one.from),
                    one.line,
                    rule.from,
                    rule.to,
                    modules.shown(one.to),
                    rule.because
                ));
            }
        }
    }
    findings
}

fn large_circles(folder: &str, modules: &Modules, largest: usize) -> Vec<String> {
    let circles = modules.circles().into_iter();
    let too_large = circles.filter(|circle| circle.len() > largest);
    let shown = too_large.map(|circle| {
        let files: Vec<&str> = circle.iter().map(|file| modules.shown(*file)).collect();
        format!(
            "{folder}: {} files use each other in a circle, over {largest}: cut an arrow between {}",
            circle.len(),
            files.join(", ")
        )
    });
    shown.collect()
}

/// Returns findings for `#[path = "…"]` that leads out of the room.
fn foreign_files(folder: &Path, path: &Path, source: &str) -> Vec<String> {
    let code = code_only(source);
    let lines = (1..).zip(source.lines().zip(code.lines()));
    let attributes = lines.filter(|(_, (_, code))| code.trim_start().starts_with("#[path"));
    let foreign = attributes.filter_map(|(number, (line, _))| {
        let target = line.split('"').nth(1)?;
        let to = resolved(&path.parent()?.join(target));
        let leaves = !to.starts_with(folder);
        leaves.then(|| {
            format!(
                "{}:{number}: a file of another room is compiled into this one: what tests share lives in testkit/",
                repo::shown(path)
            )
        })
    });
    foreign.collect()
}

/// Returns the path without `.` and `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::{FORBIDDEN, Modules, forbidden_arrows, foreign_files, large_circles};
    use std::path::Path;

    /// A room of two parts, the first of which has this import.
    fn room(from: &str, to: &str, import: &str) -> Modules {
        let files = [
            (
                "lib.rs".to_owned(),
                format!("mod {from}; mod {to}; pub use {to}::inner::Back;"),
            ),
            (format!("{from}/part.rs"), import.to_owned()),
            (format!("{to}/mod.rs"), "pub mod inner;".to_owned()),
            (format!("{to}/inner.rs"), "pub struct Back;".to_owned()),
        ];
        Modules::read(
            files
                .iter()
                .map(|(path, source)| (path.as_str(), path.clone(), source.as_str())),
        )
    }

    #[test]
    fn each_forbidden_arrow_is_found_by_name_by_path_and_through_a_re_export() {
        for rule in FORBIDDEN {
            let (from, to) = (rule.from, rule.to);
            for breach in [
                format!("\nuse crate::{to}::inner;"),
                format!("\nfn f() {{ crate::{to}::inner::f() }}"),
                "\nuse crate::Back;".to_owned(),
            ] {
                let found = forbidden_arrows(rule.folder, &room(from, to, &breach));
                assert_eq!(found.len(), 1, "{breach}: {found:?}");
                assert!(
                    found[0].starts_with(&format!("{from}/part.rs:2: ")),
                    "{found:?}"
                );
            }
            let fine = room(from, to, "use std::fmt; // use crate::Back;");
            assert_eq!(forbidden_arrows(rule.folder, &fine), [""; 0]);
        }
    }

    #[test]
    fn every_rule_names_modules_that_exist() {
        for rule in FORBIDDEN {
            for part in [rule.from, rule.to] {
                let at = crate::repo::root().join(rule.folder).join("src").join(part);
                let exists = at.is_dir() || at.with_extension("rs").is_file();
                assert!(exists, "{}: there is no module {part}", rule.folder);
            }
        }
    }

    #[test]
    fn a_circle_that_is_too_large_is_found() {
        let names: Vec<String> = (0..36).map(|n| format!("m{n}.rs")).collect();
        let source = |n: usize| format!("use crate::m{}::X;", (n + 1) % 36);
        let sources: Vec<String> = (0..36).map(source).collect();
        let files = names.iter().zip(&sources);
        let modules =
            Modules::read(files.map(|(name, source)| (name.as_str(), name.clone(), &**source)));
        assert_eq!(large_circles("room", &modules, 36), [""; 0]);
        let found = large_circles("room", &modules, 35);
        assert!(
            found.len() == 1 && found[0].contains("36 files"),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_of_another_room_is_found() {
        let folder = Path::new("/repository/policy");
        let file = folder.join("tests/event/main.rs");
        let inside = "#[path = \"../support/mod.rs\"]\nmod support;\n";
        let outside =
            "// #[path = \"../../../x.rs\"]\n#[path = \"../../../tests/src/wait.rs\"]\nmod wait;\n";
        assert_eq!(foreign_files(folder, &file, inside), [""; 0]);
        let found = foreign_files(folder, &file, outside);
        assert!(
            found.len() == 1 && found[0].contains("main.rs:2:"),
            "{found:?}"
        );
    }
}
