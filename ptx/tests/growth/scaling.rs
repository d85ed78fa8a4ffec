//! What each stage allocates grows with the input and not with its square.
//!
//! Each shape is run at two sizes, one four times the other, and the ratio of the bytes that a stage allocates is
//! bounded between linear and quadratic. Bytes are counted because they are the same on every machine; how the time of
//! the same shapes grows, `cargo xtask bench ptx` prints.

use crate::growth::allocated;
use crate::shapes::{Shape, linked_modules, read};
use gridmux_ptx::Module;
use gridmux_ptx::check::check_with;
use gridmux_ptx::forms::{Form, FormVerdicts, Options, rewrite_with};
use gridmux_ptx::link::{self, link};

/// Bytes of the smaller text.
const SMALL: usize = 128 << 10;
/// How many times as long the larger one is.
const TIMES: usize = 4;
/// How many times as much a stage may allocate for the larger one; a quadratic one allocates 16 times as much.
const BOUND: usize = 10;

/// Bytes that each stage allocates, by its name.
fn costs(text: &str) -> Vec<(String, usize)> {
    let mut costs = Vec::new();
    let mut before = allocated();
    let mut note = |what: String| {
        costs.push((what, allocated() - before));
        before = allocated();
    };
    let Ok(module) = Module::parse(text) else {
        note("parse refuses".into());
        return costs;
    };
    note("parse".into());
    let Ok(program) = module.decode() else {
        note("decode refuses".into());
        return costs;
    };
    note("decode".into());
    let verdicts = FormVerdicts::new(&module, &program);
    note("judge".into());
    let _ = check_with(&program, &verdicts);
    note("check".into());
    for form in Form::ALL {
        let _ = rewrite_with(&module, &program, &verdicts, &Options::default(), |_| form);
        note(form.to_string());
    }
    costs
}

/// Returns stages whose allocations grow nearly as the square of the text does, with the bytes of both sizes.
fn suspects(shape: &Shape, bytes: usize) -> Vec<(String, usize, usize)> {
    let (before, after) = (
        costs(&shape.padded(bytes)),
        costs(&shape.padded(bytes * TIMES)),
    );
    let pairs = before.into_iter().zip(after);
    let found = pairs.filter(|((what, a), (other, b))| what != other || *b > a * BOUND);
    found.map(|((what, a), (_, b))| (what, a, b)).collect()
}

/// Returns the bytes that linking two modules allocates.
fn cost_of_link(count: usize, name_bytes: usize) -> usize {
    let parts = linked_modules(count, name_bytes).map(|text| link::Part {
        name: text.len().to_string(),
        module: Module::parse(text).expect("it parses"),
    });
    let before = allocated();
    let module = link(parts.into()).unwrap_or_else(|error| panic!("{error}"));
    assert!(module.source().windows(8).any(|w| w == b"linked2_"));
    allocated() - before
}

/// Panics if a stage allocates as the square of what some shape holds.
pub(crate) fn check() {
    let mut wrong = Vec::new();
    for shape in &read(include_str!("pairs.txt")) {
        // Some work is spared for small modules, which looks like growth once: only what grows on from the larger size
        // as well is a fault.
        if suspects(shape, SMALL).is_empty() {
            continue;
        }
        for (what, a, b) in suspects(shape, SMALL * TIMES) {
            wrong.push(format!("{}: {what} {a} bytes, {b} bytes", shape.name));
        }
    }
    for ((one, four), what) in [
        (((400, 4), (1600, 4)), "names"),
        (((200, 400), (200, 1600)), "bytes of a name"),
    ] {
        let [a, b] = [one, four].map(|(count, bytes)| cost_of_link(count, bytes));
        if b > a * BOUND {
            wrong.push(format!(
                "linking four times as many {what}: {a} bytes, {b} bytes"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
