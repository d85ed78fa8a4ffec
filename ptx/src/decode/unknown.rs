//! Words that cannot be opcodes, not even ones that the table lacks, because the module uses them as names.
//!
//! An opcode of a later PTX version passes through, so that a missing dot or a name in an opcode's place has to be told
//! from one: such a word is, or ends in, a name that the module uses, or ends in a literal.

use super::isa::ROWS;
use crate::syntax::cursor::Cursor;
use crate::syntax::intern::Sym;
use crate::syntax::lex::kind;
use std::collections::HashSet;

/// No opcode of the table is longer.
const LONGEST_OPCODE: usize = 24;

/// The names that a module uses, collected when the first unknown opcode asks.
#[derive(Default)]
pub(crate) struct UsedNames(Option<HashSet<u32>>);

impl UsedNames {
    /// Returns whether the word at the cursor is one of the module's names, or an opcode run together with a name or
    /// literal.
    pub(crate) fn explain(&mut self, c: &Cursor<'_>) -> bool {
        let used = self.0.get_or_insert_with(|| collect(c));
        let sym = c.token().sym();
        if used.contains(&sym.0) {
            return true;
        }
        let word = c.name(sym);
        let is_name = |tail: &str| {
            let found: Option<Sym> = c.interner.find(tail.as_bytes());
            found.is_some_and(|s| used.contains(&s.0))
        };
        (1..word.len().min(LONGEST_OPCODE + 1)).any(|n| {
            word.is_char_boundary(n)
                && ROWS.contains_key(&word[..n])
                && (is_literal(&word[n..]) || is_name(&word[n..]))
        })
    }
}

/// Returns whether a text is `0f3F800000` or the like.
fn is_literal(text: &str) -> bool {
    matches!(text.as_bytes(), [b'0', b'f' | b'F' | b'd' | b'D' | b'x' | b'X', rest @ ..] if !rest.is_empty())
}

/// Names behind what no opcode stands behind: `.b32 name`, `.align 8 name`, `bra name` and not `@%p opcode`.
fn collect(c: &Cursor<'_>) -> HashSet<u32> {
    let is_use = |before: u8, last: u8| match last {
        kind::DOT | b',' | b'[' | b'(' | b'@' | b'!' | b'|' => true,
        kind::NAME => !matches!(before, b'@' | b'!'),
        kind::INT => before == kind::DOT,
        _ => false,
    };
    let names = c
        .tokens
        .windows(3)
        .filter(|t| t[2].kind() == kind::NAME && is_use(t[0].kind(), t[1].kind()));
    names.map(|t| t[2].sym().0).collect()
}
