//! Pragmas that could undo the fence.
//!
//! What the fence computes is in registers, and `enable_smem_spilling` lets the assembler keep registers in shared
//! memory, which the kernel may write as a whole. Rule: a pragma passes only when it is listed here as one that changes
//! nothing but speed (PTX ISA section 11.5.5 and «Pragma Strings»).

use crate::syntax::cursor::Cursor;
use crate::syntax::lex::kind;
use crate::syntax::module::{FunctionSyntax, Module, StatementKind};
use crate::syntax::vocabulary::Directive;

/// Words that harmless pragmas begin with.
const HARMLESS: [&str; 3] = ["nounroll", "used_bytes_mask", "frequency"];

/// Returns a pragma for the whole module that is not known to be harmless.
pub(super) fn of_module(module: &Module) -> Option<String> {
    let mut bodies = module.functions.iter().map(|f| f.statements).peekable();
    let mut at = 0;
    while let Some(statement) = module.statement(at) {
        if let Some((_, end)) = bodies.next_if(|b| b.0 == at) {
            at = end;
            continue;
        }
        at += 1;
        if statement.kind == StatementKind::Pragma
            && let Some((what, _)) = harmful(module.cursor(statement.first), statement.end)
        {
            return Some(what);
        }
    }
    None
}

/// Returns one in a function's header or body, and the byte offset of the string.
pub(super) fn of_function(module: &Module, function: &FunctionSyntax) -> Option<(String, u32)> {
    let mut header = module.cursor(function.first);
    while header.at < function.header_end {
        if header.directive() == Some(Directive::Pragma) {
            let found = harmful(header, function.header_end);
            if found.is_some() {
                return found;
            }
        }
        header.at += 1;
    }
    let (from, to) = function.statements;
    module
        .statements_in(from, to)
        .filter(|s| s.kind == StatementKind::Pragma)
        .find_map(|s| harmful(module.cursor(s.first), s.end))
}

/// Returns the first string up to the `;` that is not known.
fn harmful(mut c: Cursor<'_>, end: usize) -> Option<(String, u32)> {
    while c.at < end && c.kind() != b';' {
        let token = c.bump();
        if token.kind() != kind::STRING {
            continue;
        }
        let text = String::from_utf8_lossy(c.text(token)).into_owned();
        let text = text.trim_matches('"');
        let word = text.split_whitespace().next().unwrap_or("");
        if !HARMLESS.contains(&word) {
            return Some((text.to_owned(), token.start));
        }
    }
    None
}
