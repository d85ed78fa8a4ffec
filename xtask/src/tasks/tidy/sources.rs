//! The form of each Rust file: a module document first, files and functions of readable length, no test ignored,
//! nothing left to do, no wildcard import from the parent module, no line that is too wide.
//!
//! Atomics: an ordering is written as `Ordering::…`, so that it is found, and a comment near it says which operation it
//! pairs with or why relaxed is enough. In a room with loom tests types come from the shim of `sync/`, so that these
//! explore the code that ships, or a comment says why not. Clippy cannot hold that, because the shim passes on the very
//! types of the standard library.
//!
//! A file that is longer for a good reason says so in a line `//! Length: …`, a function in a line `// Length: …`
//! directly above it.

use super::columns;
use super::mask::code_only;
use crate::repo::{self, Package};
use anyhow::{Context, Result};
use std::fs;

/// Lines of a file, its inline tests aside.
const LONGEST_FILE: usize = 600;
/// Lines of a function, from `fn` to the closing brace.
const LONGEST_FUNCTION: usize = 80;
/// An atomic ordering's comment stands on its line or at most this many lines above.
const COMMENT_REACH: usize = 3;
/// What such a comment contains, in small letters.
const ORDERING_WORDS: [&str; 2] = ["pairs with", "relaxed:"];
/// What a comment that permits an atomic of the standard library contains; it stands as near.
const STD_ATOMIC_WORDS: &str = "not the shim's:";
/// The shim.
const SHIM: &str = "sync/src/shim.rs";

/// Code that must not occur, and what to do instead.
const FORBIDDEN: [(&str, &str); 4] = [
    (
        "#[ignore",
        "a test that cannot run prints `SKIPPED: reason` and returns",
    ),
    (
        "todo!(",
        "finish it, or return an error that says what is missing",
    ),
    (
        "unimplemented!(",
        "finish it, or return an error that says what is missing",
    ),
    ("use super::*", "name what is imported"),
];

const ORDERINGS: [&str; 5] = [
    "Ordering::Relaxed",
    "Ordering::Acquire",
    "Ordering::Release",
    "Ordering::AcqRel",
    "Ordering::SeqCst",
];

pub(super) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for package in packages {
        // A room without a loom test has nothing that such a test could miss.
        let is_explored = package
            .targets_of("test")
            .any(|name| name.starts_with("loom_"));
        for path in repo::files(package.folder(), &|path| {
            path.extension().is_some_and(|e| e == "rs")
        })? {
            let source = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let shown = repo::shown(&path);
            let is_test_or_bench = ["/tests/", "/benches/", "/fuzz/"]
                .iter()
                .any(|folder| shown.contains(folder));
            let of_file = check_file(&source, is_test_or_bench);
            let bypasses = match is_explored && !is_test_or_bench && shown != SHIM {
                true => std_atomics(&source),
                false => Vec::new(),
            };
            findings.extend(
                of_file
                    .into_iter()
                    .chain(bypasses)
                    .map(|(line, what)| format!("{shown}:{line}: {what}")),
            );
        }
    }
    Ok(findings)
}

/// Findings with their lines, counted from one.
fn check_file(source: &str, is_test_or_bench: bool) -> Vec<(usize, String)> {
    let code = code_only(source);
    let mut findings = Vec::new();
    let first = source
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    if !first.is_some_and(|line| line.starts_with("//!")) {
        findings.push((
            1,
            "no module document: begin with `//!`, the concept and then the rules".to_owned(),
        ));
    }
    let without_tests = code
        .lines()
        .position(|line| line.starts_with("mod tests {"))
        .unwrap_or(code.lines().count());
    if without_tests > LONGEST_FILE && !source.lines().any(|line| line.starts_with("//! Length: "))
    {
        findings.push((
            without_tests,
            format!(
                "{without_tests} lines, over {LONGEST_FILE}: split the file, or give the reason in a line \
                 `//! Length: …`"
            ),
        ));
    }
    for (number, line) in code.lines().enumerate() {
        for (forbidden, instead) in FORBIDDEN {
            if line.contains(forbidden) {
                findings.push((number + 1, format!("`{forbidden}`: {instead}")));
            }
        }
    }
    findings.extend(long_functions(source, &code));
    findings.extend(columns::of_source(source));
    findings.extend(imported_orderings(&code));
    if !is_test_or_bench {
        findings.extend(bare_orderings(source, &code, without_tests));
    }
    findings.sort();
    findings
}

/// Atomic orderings in code that ships, without a comment near them.
fn bare_orderings(source: &str, code: &str, without_tests: usize) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.lines().collect();
    let uses_ordering = |line: &str| ORDERINGS.iter().any(|ordering| line.contains(ordering));
    code.lines()
        .take(without_tests)
        .enumerate()
        .filter(|(number, line)| {
            uses_ordering(line) && !is_explained(&lines, *number, &ORDERING_WORDS)
        })
        .map(|(number, _)| {
            (
                number + 1,
                format!(
                    "an atomic ordering without its reason: within {COMMENT_REACH} lines above, a comment says \
                     `pairs with …` or `relaxed: …`"
                ),
            )
        })
        .collect()
}

/// Returns whether a comment on this line, counted from zero, or at most [`COMMENT_REACH`] lines above contains one of
/// these words. A sentence may go on in the next line, so that its parts are joined.
fn is_explained(lines: &[&str], number: usize, words: &[&str]) -> bool {
    let first = number.saturating_sub(COMMENT_REACH);
    let near = lines[first..=number].iter();
    let comments = near.filter_map(|line| line.split_once("//"));
    let said: Vec<&str> = comments
        .map(|(_, said)| said.trim_matches(['/', ' ']))
        .collect();
    let said = said.join(" ").to_lowercase();
    words.iter().any(|word| said.contains(word))
}

/// Atomics of the standard library in code that ships and may know the shim's.
fn std_atomics(source: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.lines().collect();
    let code = code_only(source);
    let shipped = code
        .lines()
        .take_while(|line| !line.starts_with("mod tests {"));
    let named = shipped.enumerate().filter(|(_, line)| {
        line.contains("std::sync::atomic") || line.contains("core::sync::atomic")
    });
    named
        .filter(|(number, _)| !is_explained(&lines, *number, &[STD_ATOMIC_WORDS]))
        .map(|(number, _)| {
            (
                number + 1,
                format!(
                    "an atomic of the standard library: take `gridmux_sync::shim`, or say `{STD_ATOMIC_WORDS} …` above"
                ),
            )
        })
        .collect()
}

/// Imports of atomic orderings themselves, which would then be used without `Ordering::` before them.
fn imported_orderings(code: &str) -> Vec<(usize, String)> {
    let begins_line = |at: usize| {
        let line = &code[code[..at].rfind('\n').map_or(0, |end| end + 1)..at];
        matches!(line.trim(), "" | "pub" | "pub(crate)" | "pub(super)")
    };
    let imports = code
        .match_indices("use ")
        .filter(|(at, _)| begins_line(*at));
    let of_import = imports.filter_map(|(at, _)| {
        let import = code[at..].split(';').next()?;
        let variants = ORDERINGS
            .iter()
            .copied()
            .chain(["Ordering::{", "Ordering::*"]);
        let found = variants.filter_map(|variant| import.find(variant)).min()?;
        let line = code[..at + found].matches('\n').count() + 1;
        let what = "an atomic ordering is imported: import `Ordering`, and write `Ordering::…`";
        Some((line, what.to_owned()))
    });
    of_import.collect()
}

/// Functions over the limit that give no reason.
fn long_functions(source: &str, code: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.lines().collect();
    let mut findings = Vec::new();
    for (offset, name) in functions(code) {
        let Some(length) = body_end(&code[offset..])
            .map(|end| code[offset..offset + end].matches('\n').count() + 1)
        else {
            continue;
        };
        let line = code[..offset].matches('\n').count();
        // Attributes and documents may stand between the reason and the function.
        let above = lines[..line].iter().rev().map(|line| line.trim_start());
        let excused = above
            .take_while(|line| line.starts_with("//") || line.starts_with("#["))
            .any(|line| line.starts_with("// Length: "));
        if length > LONGEST_FUNCTION && !excused {
            findings.push((
                line + 1,
                format!(
                    "function `{name}` has {length} lines, over {LONGEST_FUNCTION}: split it, or give the reason in a \
                     line `// Length: …` above it"
                ),
            ));
        }
    }
    findings
}

/// Returns the offset and name of each `fn` item.
fn functions(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices("fn ").filter_map(|(offset, _)| {
        let starts_word = !code[..offset].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = code[offset + 3..].trim_start();
        let name = &rest[..rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len())];
        (starts_word && !name.is_empty()).then_some((offset, name))
    })
}

/// Returns where the function's closing brace is, counted from `fn`; `None` for a declaration without a body.
fn body_end(code: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{check_file, std_atomics};

    fn lines_of(findings: &[(usize, String)], needle: &str) -> Vec<usize> {
        findings
            .iter()
            .filter(|(_, what)| what.contains(needle))
            .map(|(line, _)| *line)
            .collect()
    }

    #[test]
    fn a_plain_file_passes() {
        let source = "//! What it is.\n\n/// Says todo!() in a document only.\n\
            pub fn f() -> [u8; 2] {\n    [0; 2]\n}\n";
        assert_eq!(check_file(source, false), []);
        assert_eq!(check_file(&format!("#![cfg(loom)]\n{source}"), true), []);
    }

    #[test]
    fn each_rule_finds_its_line() {
        let source = "use std::fmt;\nfn f() { todo!() }\n#[ignore]\nfn g() {}\nmod m { use super::*; }\
            \n\n\n\n\n\n\n\n\n\n\n\nfn h(a: &A) { a.store(1, Ordering::Release) }\n";
        let findings = check_file(source, false);
        assert_eq!(lines_of(&findings, "module document"), [1]);
        assert_eq!(lines_of(&findings, "todo!("), [2]);
        assert_eq!(lines_of(&findings, "#[ignore"), [3]);
        assert_eq!(lines_of(&findings, "super::*"), [5]);
        assert_eq!(lines_of(&findings, "ordering"), [17]);
        assert_eq!(
            lines_of(&check_file(source, true), "ordering"),
            [0_usize; 0],
            "tests are free of that rule"
        );
    }

    #[test]
    fn orderings_are_not_imported_by_themselves() {
        let due = "ordering is imported";
        for (source, line) in [
            ("use std::sync::atomic::{AtomicU64, Ordering::Relaxed};", 2),
            ("use std::sync::atomic::Ordering::*;", 2),
            (
                "pub use std::sync::atomic::{\n    AtomicU64,\n    Ordering::{Acquire, Release},\n};",
                4,
            ),
        ] {
            let source = format!("//! M.\n{source}\n");
            assert_eq!(lines_of(&check_file(&source, false), due), [line]);
            assert_eq!(lines_of(&check_file(&source, true), due), [line]);
        }
        let used = "//! M.\nuse std::sync::atomic::Ordering;\n// Relaxed: a count.\n\
            fn f() { because(Ordering::Relaxed) }\n";
        assert_eq!(check_file(used, false), []);
    }

    #[test]
    fn an_ordering_names_its_partner_or_says_why_relaxed_is_enough_and_close_by() {
        let due = "without its reason";
        for (comment, between, is_fine) in [
            ("// Pairs with the load in `f`.", 0, true),
            (
                "// Release: what was written before; pairs\n// with the load in `f`.",
                0,
                true,
            ),
            ("// relaxed: a count.", 2, true),
            ("// relaxed: a count.", 3, false),
            ("// Release.", 0, false),
            ("// A count.", 0, false),
            ("let s = \"pairs with\";", 0, false),
        ] {
            let between = "f();\n".repeat(between);
            let source =
                format!("//! M.\n\n\n\n{comment}\n{between}a.store(1, Ordering::Release);\n");
            let found = lines_of(&check_file(&source, false), due);
            assert_eq!(found.is_empty(), is_fine, "{source}");
            assert!(lines_of(&check_file(&source, true), due).is_empty());
        }
    }

    #[test]
    fn atomics_come_from_the_shim_or_say_why_not() {
        let source = "//! M.\nuse std::sync::atomic::AtomicU64;\n\n\n\n\n// Not the shim's: a static.\n\
            static A: core::sync::atomic::AtomicU64 = f();\nmod tests {\n    use std::sync::atomic::AtomicU64;\n}\n";
        assert_eq!(lines_of(&std_atomics(source), "shim"), [2]);
        let shim = "//! M.\nuse gridmux_sync::shim::AtomicU64; // in place of std::sync::atomic\n";
        assert_eq!(std_atomics(shim), []);
    }

    #[test]
    fn long_functions_need_a_reason() {
        let body = "    x();\n".repeat(90);
        let source =
            format!("//! M.\n\nfn long(a: [u8; 4]) -> u8 {{\n{body}}}\n\nfn short() {{}}\n");
        let findings = check_file(&source, false);
        assert_eq!(lines_of(&findings, "function `long` has 92 lines"), [3]);
        assert_eq!(findings.len(), 1);
        let excused = source.replace(
            "fn long",
            "// Length: one arm per opcode.\n#[inline]\nfn long",
        );
        assert_eq!(check_file(&excused, false), []);
    }

    #[test]
    fn long_files_need_a_reason_and_inline_tests_do_not_count() {
        let filler = "const A: u8 = 0;\n".repeat(650);
        assert_eq!(
            lines_of(
                &check_file(&format!("//! M.\n{filler}"), false),
                "split the file"
            )
            .len(),
            1
        );
        assert_eq!(
            check_file(
                &format!("//! M.\n//! Length: a table of one row per opcode.\n{filler}"),
                false
            ),
            []
        );
        assert_eq!(
            check_file(
                &format!("//! M.\n#[cfg(test)]\nmod tests {{\n{filler}}}\n"),
                false
            ),
            []
        );
    }
}
