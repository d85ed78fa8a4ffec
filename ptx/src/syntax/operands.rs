//! The shape of an operand list, checked without building anything: brackets match, separators stand where they
//! must, the statement ends in `;`.
//!
//! One loop with a bracket stack does all of `%r1`, `!%p`, `%p|%q`, `{a, b}`, `[%rd1+8]`, `[t, {x, y}]`,
//! `(ret), f, (a)`, constant expressions and whatever an unknown opcode takes; it cannot recurse.

use super::constant::{self, MAX_NESTING};
use super::cursor::Cursor;
use super::intern::Sym;
use super::lex::kind;
use crate::error::Fault;

/// Reads operands up to and including the `;`. `each` gets every name that is not a suffix.
#[inline]
pub(crate) fn operands(
    c: &mut Cursor<'_>,
    brackets: &mut Vec<u8>,
    mut each: impl FnMut(Sym, u32),
) -> Result<(), Fault> {
    brackets.clear();
    if c.accept(b';') {
        return Ok(());
    }
    // Whether an operand must come next, rather than a separator, and whether `(` was the token before.
    let (mut wanted, mut opened) = (true, false);
    loop {
        let token = c.token();
        let k = token.kind();
        if wanted {
            wanted = false;
            match k {
                kind::NAME => each(token.sym(), token.start),
                kind::INT | kind::FLOAT => {}
                b'[' | b'{' | b'(' => {
                    if brackets.len() >= MAX_NESTING as usize {
                        return Err(c.fault("more than 256 levels of nesting"));
                    }
                    brackets.push(match k {
                        b'[' => b']',
                        b'{' => b'}',
                        _ => b')',
                    });
                    wanted = true;
                }
                b'!' | b'-' | b'+' | b'~' => wanted = true,
                b')' if opened && brackets.pop() == Some(b')') => {}
                // `(.s64)`.
                kind::DOT if opened && constant::cast(c).is_some() => {
                    brackets.pop();
                    c.at += 1;
                    wanted = true;
                }
                _ if c.tokens[c.at - 1].kind() == b',' => return Err(c.expected("an operand")),
                _ => return Err(c.expected("an operand or `;`")),
            }
            opened = k == b'(';
        } else {
            match k {
                b',' => wanted = true,
                b';' if brackets.is_empty() => {
                    c.at += 1;
                    return Ok(());
                }
                b']' | b'}' | b')' if brackets.last() == Some(&k) => {
                    brackets.pop();
                }
                kind::DOT if c.tokens[c.at - 1].kind() == kind::NAME => {}
                // An element of an array, `name[index]`.
                b'[' if c.tokens[c.at - 1].kind() == kind::NAME && !brackets.contains(&b']') => {
                    brackets.push(b']');
                    wanted = true;
                }
                b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'?' | b':' => wanted = true,
                b'|' | b'&' => {
                    wanted = true;
                    c.at += usize::from(c.kind_after() == k);
                }
                b'<' | b'>' | b'=' | b'!' => {
                    wanted = true;
                    if matches!(c.kind_after(), b'<' | b'>' | b'=') {
                        c.at += 1;
                    }
                }
                _ => return Err(missing(c, brackets)),
            }
        }
        c.at += 1;
    }
}

#[cold]
fn missing(c: &Cursor<'_>, brackets: &[u8]) -> Fault {
    match brackets.last() {
        Some(&open) => c.expected(&format!("`,` or `{}`", char::from(open))),
        None => c.expected("`,` or `;` (is a `;` missing before this?)"),
    }
}
