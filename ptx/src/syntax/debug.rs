//! `.section` and `.loc`: what debuggers read (PTX ISA sections 11.5.3 and 11.5.4).
//!
//! Rule: a section's data is numbers that fit their type, and labels or sections in types as wide as an address.

use super::constant::integer;
use super::cursor::Cursor;
use super::lex::kind;
use super::vocabulary::VOCABULARY;
use crate::error::Fault;

/// Reads `name { data }`, behind `.section`.
pub(crate) fn section(c: &mut Cursor<'_>) -> Result<(), Fault> {
    // A directive's word is no name.
    if c.kind() != kind::DOT || c.directive().is_some() {
        return Err(c.expected("a section name such as `.debug_info`"));
    }
    c.at += 1;
    if c.kind() != b'{' {
        return Err(c.expected("`{`"));
    }
    data(c)
}

/// Reads `, function_name label {+ n}, inlined_at file line column`.
pub(crate) fn inlined_location(c: &mut Cursor<'_>) -> Result<(), Fault> {
    c.at += 1;
    let word = c.expect(kind::NAME, "`function_name`")?;
    if word.sym() != VOCABULARY.function_name {
        c.at -= 1;
        return Err(c.expected("`function_name`"));
    }
    c.expect(kind::NAME, "a label")?;
    if c.accept(b'+') {
        c.expect(kind::INT, "a number")?;
    }
    c.expect(b',', "`,`")?;
    let word = c.expect(kind::NAME, "`inlined_at`")?;
    if word.sym() != VOCABULARY.inlined_at {
        c.at -= 1;
        return Err(c.expected("`inlined_at`"));
    }
    for _ in 0..3 {
        c.expect(kind::INT, "file, line and column")?;
    }
    Ok(())
}

/// Reads `{ .b8 1, 2 .b32 label+4 label: … }`: what DWARF sections are made of.
fn data(c: &mut Cursor<'_>) -> Result<(), Fault> {
    let start = *c;
    c.at += 1;
    loop {
        match c.kind() {
            b'}' => {
                c.at += 1;
                return Ok(());
            }
            kind::END => return Err(start.fault("this `{` is not closed")),
            kind::NAME if c.kind_after() == b':' => c.at += 2,
            kind::DOT => {
                let bits = match c.name(c.token().sym()) {
                    "b8" => 8,
                    "b16" => 16,
                    "b32" => 32,
                    "b64" => 64,
                    _ => return Err(c.expected("`.b8`, `.b16`, `.b32` or `.b64`")),
                };
                c.at += 1;
                value(c, bits)?;
                while c.accept(b',') {
                    value(c, bits)?;
                }
            }
            _ => return Err(c.expected("a label, data or `}`")),
        }
    }
}

/// Parses a number, or a label or section with an offset or less another label.
fn value(c: &mut Cursor<'_>, bits: u32) -> Result<(), Fault> {
    let start = *c;
    let negative = c.accept(b'-');
    if negative || c.kind() == kind::INT {
        let token = c.expect(kind::INT, "a number")?;
        // Wider ones are cut off.
        let most = match negative {
            true => 1_u64 << (bits - 1),
            false => u64::MAX >> (64 - bits),
        };
        let fits = bits > 16 || integer(c.text(token)).is_some_and(|n| n <= most);
        return match fits {
            true => Ok(()),
            false => Err(start.fault(format!("this number does not fit `.b{bits}`"))),
        };
    }
    if !matches!(c.kind(), kind::NAME | kind::DOT) {
        return Err(c.expected("a number or a label"));
    }
    if bits < 32 {
        return Err(c.fault(format!("a label does not fit `.b{bits}`")));
    }
    c.at += 1;
    loop {
        let minus = c.kind() == b'-';
        if !minus && c.kind() != b'+' {
            return Ok(());
        }
        c.at += 1;
        match c.kind() {
            kind::NAME | kind::DOT => c.at += 1,
            kind::INT if !minus => c.at += 1,
            _ => return Err(c.expected("a number or a label")),
        }
    }
}
