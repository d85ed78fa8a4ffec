//! Golden tests: a file holds the input, a marker line, and what must come of it, as comments.
//!
//! `tests/golden/FORM/*.ptx` are rewritten into that form: the verdict on each kernel, then the text.
//! `tests/golden-errors/*.ptx` are refused: the error as a user sees it. With `GRIDMUX_BLESS=1` the expectations are
//! written instead of compared; read the difference before committing it.

use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::kernel::Entry;
use gridmux_ptx::print::Layout;
use std::fmt::Write as _;
use std::path::Path;

const MARKER: &str = "// ==== expected ====\n";

/// Columns of a line, without the mark in front of it.
const WIDTH: usize = 110;

/// Returns the parts of a line, broken at blanks where it is long; what is moved down is indented.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = parts.last_mut().expect("there is one");
        if last.len() + word.trim_end().len() > WIDTH {
            parts.push(format!("        {word}"));
        } else {
            last.push_str(word);
        }
    }
    parts
}

fn check(dir: &str, produce: impl Fn(&str) -> String) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(dir);
    let bless = std::env::var_os("GRIDMUX_BLESS").is_some();
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).expect("the golden files are in the repository") {
        let path = entry.expect("the directory can be read").path();
        let text = std::fs::read_to_string(&path).expect("golden files are text");
        let (input, expected) = text.split_once(MARKER).unwrap_or((&text, ""));
        let mut produced = String::new();
        for line in produce(input).lines().flat_map(parts) {
            produced.push_str(format!("//| {line}").trim_end());
            produced.push('\n');
        }
        if bless {
            let blessed = format!("{}\n{MARKER}{produced}", input.trim_end());
            std::fs::write(&path, blessed).expect("the golden file can be written");
        } else {
            assert!(
                produced == expected,
                "{}: expected\n{expected}\nproduced\n{produced}",
                path.display()
            );
        }
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn rewritten_as_expected() {
    let mut forms = 0;
    for form in Form::ALL {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(form.name());
        if folder.is_dir() {
            rewritten_into(form);
            forms += 1;
        }
    }
    assert!(forms >= 1);
}

fn rewritten_into(form: Form) {
    check(&format!("golden/{form}"), |input| {
        let module = Module::parse(input).unwrap_or_else(|e| panic!("{e}"));
        let program = module.decode().unwrap_or_else(|e| panic!("{e}"));
        let options = Options {
            layout: Layout::OneEach,
            ..Options::default()
        };
        let rewritten = rewrite(&module, &program, &options, |_| form);
        let mut out = String::new();
        for k in &rewritten.kernels {
            let verdict = match (k.refusal(form), k.entries.first()) {
                (Some(refusal), Some(entry)) => format!("{}, {refusal}", entry.form()),
                (Some(refusal), None) => format!("left out, {refusal}"),
                (None, entry) => {
                    let control = entry.map_or(0, Entry::control_bytes);
                    format!("{form}, {} bytes of parameters", k.params_bytes + control)
                }
            };
            let _ = writeln!(out, "{}: {verdict}", k.name);
        }
        let text = String::from_utf8(rewritten.bytes).expect("golden files are text");
        // What was rewritten must itself be a module, with the control block in front of its own parameters.
        let again = Module::parse(text.clone()).unwrap_or_else(|e| panic!("{e}"));
        let decoded = again.decode().unwrap_or_else(|e| panic!("{e}"));
        for k in rewritten.kernels.iter().filter(|k| !k.entries.is_empty()) {
            let (entry, (_, original)) =
                (&k.entries[0], program.kernel(&k.name).expect("it is there"));
            let (_, kernel) = decoded.kernel(&entry.name).expect("names stay");
            assert_eq!(k.check(entry, kernel), Ok(()), "{}", k.name);
            assert_eq!(
                k.check(&Entry::whole(&k.name), original),
                Ok(()),
                "{}",
                k.name
            );
            let places: Vec<_> = kernel
                .params
                .iter()
                .map(|p| (p.offset, p.size_bytes))
                .collect();
            assert_eq!(k.layout(entry).collect::<Vec<_>>(), places, "{}", k.name);
        }
        out + &text
    });
}

#[test]
fn refused_as_expected() {
    check("golden-errors", |input| {
        let result = Module::parse(input).and_then(|m| m.decode());
        result.expect_err("this file is wrong").to_string()
    });
}
