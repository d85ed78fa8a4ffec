//! What is said on stderr.

use std::fmt::Arguments;
use std::io::Write;

/// Says a line on stderr, as gridmux.
pub fn say(text: Arguments<'_>) {
    let line = format!("gridmux: {text}\n");
    // A closed stderr harms nobody.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
