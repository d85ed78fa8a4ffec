//! What documents name must exist: paths and crates in backticks, relative links, a row for each crate in
//! `ARCHITECTURE.md`.
//!
//! A word in backticks is taken for a path of ours if it begins with a file or folder of the repository's root, ends
//! with a slash, or ends like a source file; a file's bare name may stand for any file of that name. Absolute paths,
//! placeholders and what tasks make under `target/` are not ours to check. `path.rs::name` is a function of that file,
//! as a document names the test that shows something.

use super::columns;
use crate::repo::{self, Package};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const SUFFIXES: [&str; 9] = [
    ".rs", ".toml", ".md", ".cu", ".ptx", ".c", ".h", ".yml", ".txt",
];

/// Words that stand for something the reader fills in.
const PLACEHOLDERS: [&str; 5] = ["FILE", "GROUP", "NAME", "PAPER", "TASK"];

pub(super) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let crates: Vec<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    for path in repo::files(repo::root(), &|path| {
        path.extension().is_some_and(|e| e == "md")
    })? {
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let shown = repo::shown(&path);
        let folder = path.parent().unwrap_or(repo::root());
        let of_file = check_text(&text, folder, &crates).into_iter();
        for (line, what) in of_file.chain(columns::of_document(&text)) {
            findings.push(format!("{shown}:{line}: {what}"));
        }
    }
    findings.extend(missing_rows(&crates));
    Ok(findings)
}

fn missing_rows(crates: &[&str]) -> Vec<String> {
    let map = fs::read_to_string(repo::root().join("ARCHITECTURE.md")).unwrap_or_default();
    let has_row = |name: &str| {
        map.lines()
            .any(|line| line.starts_with('|') && line.contains(&format!("`{name}`")))
    };
    let missing = crates.iter().filter(|name| !has_row(name));
    missing
        .map(|name| format!("ARCHITECTURE.md: crate `{name}` has no row in the map"))
        .collect()
}

fn check_text(text: &str, folder: &Path, crates: &[&str]) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            continue;
        }
        for word in backticked(line) {
            if is_crate_name(word) && !crates.contains(&word) {
                findings.push((
                    number + 1,
                    format!("`{word}` is no crate of this workspace"),
                ));
            } else if let Some((path, name)) = word.split_once(".rs::") {
                let source = fs::read_to_string(repo::root().join(format!("{path}.rs")));
                if !source.is_ok_and(|source| source.contains(&format!("fn {name}("))) {
                    findings.push((number + 1, format!("`{word}` does not exist")));
                }
            } else if is_path(word) && !exists(word, folder) {
                findings.push((number + 1, format!("`{word}` does not exist")));
            }
        }
        for link in links(line) {
            if !exists(link, folder) {
                findings.push((number + 1, format!("the link to {link} leads nowhere")));
            }
        }
    }
    findings
}

fn backticked(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// `gridmux-` and lower-case words: nothing else in this project is named so.
fn is_crate_name(word: &str) -> bool {
    word.strip_prefix("gridmux-")
        .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
}

fn is_path(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let placeholder = |part: &str| {
        PLACEHOLDERS
            .iter()
            .any(|p| part.split('.').next() == Some(p))
    };
    if !word.chars().all(plain)
        || word.split('/').any(placeholder)
        || word.starts_with(['/', '-'])
        || word.starts_with("target/")
    {
        return false;
    }
    let in_root = word.contains('/')
        && word
            .split('/')
            .next()
            .is_some_and(|first| !first.is_empty() && repo::root().join(first).exists());
    in_root
        || word.ends_with('/')
        || (SUFFIXES.iter().any(|suffix| word.ends_with(suffix)) && !word.starts_with('.'))
}

/// Paths are written from the root or from the document's own folder.
fn exists(word: &str, folder: &Path) -> bool {
    let named_so = |path: &Path| path.file_name().is_some_and(|name| name == word);
    folder.join(word).exists()
        || repo::root().join(word).exists()
        || (!word.contains('/')
            && repo::files(repo::root(), &named_so).is_ok_and(|files| !files.is_empty()))
}

/// Targets of `[text](target)` within the repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::check_text;
    use crate::repo::root;

    fn findings(text: &str) -> Vec<String> {
        check_text(text, root(), &["gridmux-ptx", "xtask"])
            .into_iter()
            .map(|(_, what)| what)
            .collect()
    }

    #[test]
    fn names_of_things_that_exist_pass() {
        assert_eq!(
            findings(
                "`xtask/src/main.rs::main`, `xtask/src/main.rs`, `ptx/`, `gridmux-ptx`, [map](ARCHITECTURE.md#rooms)"
            ),
            [""; 0]
        );
        assert_eq!(
            findings(
                "`/etc/gridmux/gridmux.toml`, `model_speed/matmul`, `target/nvcc`, `benches/GROUP.rs`, `rooms.rs`"
            ),
            [""; 0]
        );
        assert_eq!(
            findings("```\nxtask/no/such.rs\n```\n<https://example.org/no.rs>"),
            [""; 0]
        );
    }

    #[test]
    fn names_of_things_that_do_not_are_found() {
        assert_eq!(
            findings("`xtask/src/gone.rs`"),
            ["`xtask/src/gone.rs` does not exist"]
        );
        assert_eq!(findings("`gone/`"), ["`gone/` does not exist"]);
        for word in ["xtask/src/main.rs::gone", "xtask/src/gone.rs::main"] {
            let expected = format!("`{word}` does not exist");
            assert_eq!(findings(&format!("`{word}`")), [expected]);
        }
        assert_eq!(
            findings("`gridmux-gone`"),
            ["`gridmux-gone` is no crate of this workspace"]
        );
        assert_eq!(
            findings("see [it](gone.md)"),
            ["the link to gone.md leads nowhere"]
        );
    }
}
