//! Where a module uses the names of its own scope, which the linker may have to rename.
//!
//! Rule: only what means a variable or function of the module counts; a register, label or parameter of the same name
//! hides it, as everywhere. The parser records this when it is asked to.

use super::cursor::Cursor;
use super::intern::Sym;
use super::lex::kind;
use super::names::{Declaration, Meaning, Names};
use super::vocabulary::VOCABULARY;

/// Uses of a module's own names.
#[derive(Debug, Default)]
pub(crate) struct ModuleUses {
    /// Each use's name and byte offset, in the order of the source.
    pub(crate) found: Vec<(Sym, u32)>,
    /// Names, other than those of branches, that meant nothing where they were used and turned out to be labels
    /// further down. A variable or function of that name in front of them would hide the label.
    pub(crate) awaited: Vec<Sym>,
}

impl ModuleUses {
    /// Records a use that means `declaration`.
    #[inline]
    pub(crate) fn add(&mut self, declaration: Declaration, sym: Sym, offset: u32) {
        let is_symbol = matches!(
            declaration.meaning,
            Meaning::Variable | Meaning::ExternVariable | Meaning::Function
        );
        if is_symbol && declaration.is_of_module() {
            self.found.push((sym, offset));
        }
    }

    /// Records the names in an initialiser, which is a half-open range of tokens.
    pub(crate) fn initialiser(&mut self, names: &mut Names, c: &Cursor<'_>, range: (usize, usize)) {
        for at in range.0..range.1 {
            let token = c.tokens[at];
            if token.kind() != kind::NAME {
                continue;
            }
            let sym = token.sym();
            let opens = c.tokens.get(at + 1).is_some_and(|t| t.kind() == b'(');
            if sym == VOCABULARY.generic && opens {
                continue;
            }
            if let Some(declaration) = names.resolve(c.interner, sym, |_, _| 0) {
                self.add(declaration, sym, token.start);
            }
        }
    }
}
