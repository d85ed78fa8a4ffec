//! `gridmux ptx rewrite --form identity`: a module as it is printed, with nothing changed.
//!
//! Rule: the text is the printer's alone; a kernel that it cannot express is left out, and said to be.

use super::at;
use crate::failure::Failure;
use crate::names;
use crate::output::{Output, note};
use gridmux_ptx::Module;
use gridmux_ptx::print::{Printed, print};
use serde_json::{Value, json};
use std::path::Path;

/// Prints a module.
pub(super) fn run(file: &Path, module: &Module, out: &Output) -> Result<(), Failure> {
    let program = module.decode().map_err(|error| at(file, &error))?;
    let printed = print(&program);
    for refused in &printed.refused {
        note(&format!(
            "warning: {}: kernel {} is left out: line {}: {}",
            file.display(),
            names::shown(&refused.kernel),
            module.line(refused.span.start),
            refused.what
        ));
    }
    if !out.is_json() {
        return out.bytes(printed.text.as_bytes());
    }
    out.show(&report(module, &printed), String::new)
}

/// Returns the text, and each kernel with its name in it or why it is not there.
fn report(module: &Module, printed: &Printed) -> Value {
    let there = printed.kernels.iter().map(
        |name| json!({ "name": name, "entries": { "identity": name }, "reason": null, "line": null }),
    );
    let left_out = printed.refused.iter().map(|refused| {
        json!({
            "name": refused.kernel, "entries": {}, "reason": refused.what.to_string(),
            "line": module.line(refused.span.start),
        })
    });
    let kernels: Vec<Value> = there.chain(left_out).collect();
    json!({ "ptx": printed.text, "kernels": kernels })
}
