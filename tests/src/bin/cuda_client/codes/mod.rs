//! The codes for bad arguments, family by family: those that NVIDIA documents in `cuda.h` of CUDA 13.5, and where it
//! leaves them open those that public test suites hold its driver to.
//!
//! A row is a function, its arguments and the code that is due. All rows of a table are tried before it fails.

/// A table: `function(argument, …) = due;` for each row.
macro_rules! rows {
    ($($symbol:ident($($argument:expr),* $(,)?) = $due:expr;)*) => {
        &[$((stringify!($symbol), &[$($argument),*], $due)),*]
    };
}

mod memory;
mod objects;
mod runtime;
mod work;

use crate::session::Session;
use std::ffi::CStr;

pub(crate) use memory::SCENARIOS as MEMORY;
pub(crate) use objects::SCENARIOS as OBJECTS;
pub(crate) use runtime::SCENARIOS as RUNTIME;
pub(crate) use work::SCENARIOS as WORK;

/// A function, its arguments, and the code that is due.
type Row<'a> = (&'a str, &'a [usize], u32);

/// A handle that names nothing.
const DEAD: usize = 77;
/// -1, as any signed argument sees it.
const NEGATIVE: usize = usize::MAX;

/// Succeeds if every row's function returns what is due.
#[track_caller]
fn hold(session: &Session, rows: &[Row<'_>]) {
    hold_any(
        |symbol, arguments| session.call_with(symbol, arguments),
        rows,
    );
}

/// Succeeds if every row's function returns what is due, of whatever library `call` calls.
#[track_caller]
fn hold_any(call: impl Fn(&str, &[usize]) -> u32, rows: &[Row<'_>]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(symbol, arguments, due)| {
            let code = call(symbol, arguments);
            (code != *due).then(|| format!("{symbol}({arguments:x?}) returned {code}, not {due}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Places of the program's that functions may write to.
struct Places([u64; 64]);

impl Places {
    fn new() -> Self {
        Self([0; 64])
    }

    /// Returns the address of the place of a number.
    fn at(&mut self, index: usize) -> usize {
        (&raw mut self.0[index]).expose_provenance()
    }
}

/// Returns a text's address.
fn name(text: &'static CStr) -> usize {
    text.as_ptr().expose_provenance()
}

/// Returns a handle or a device address as an argument.
fn bits(handle: u64) -> usize {
    usize::try_from(handle).expect("as wide as a pointer")
}
