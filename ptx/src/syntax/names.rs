//! Scoped names of a module: what is declared, what a use means, what is declared twice.
//!
//! A binding table indexed by name gives the innermost declaration; closing a scope undoes its declarations.
//! A register range (`%r<10>`) is one declaration in a table of its own, and its members come into being when they
//! are first used, so `%r<4000000000>` costs nothing. Labels may be used before they are defined, so a use waits
//! until its scope closes and, when the scope has no such label, moves on to the enclosing one. Labels are local
//! to their scope, which is what inline assembly that repeats `LAB_WAIT:` in braces relies on.

use super::intern::{Interner, Sym};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Register,
    Range,
    Variable,
    ExternVariable,
    Param,
    ReturnParam,
    Function,
    Label,
    BranchTable,
    Prototype,
}

/// One declaration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration {
    pub(crate) meaning: Meaning,
    /// Register, variable, parameter, function or instruction index, as the user of the table chose.
    pub(crate) value: u32,
    /// Count of a range; free for other meanings.
    pub(crate) extra: u32,
    sym: Sym,
    /// The binding that this one shadows.
    shadowed: u32,
    depth: u32,
    /// For members of ranges: the range generation they were derived in; otherwise `u32::MAX`.
    generation: u32,
}

impl Declaration {
    /// Returns whether it stands outside all functions.
    pub(crate) fn is_of_module(self) -> bool {
        self.depth == 0
    }
}

/// A use of a name that is not declared yet and may be a label further down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingUse {
    pub(crate) sym: Sym,
    /// Byte offset, for the message.
    pub(crate) offset: u32,
    /// What to patch, as the user of the table chose.
    pub(crate) site: u32,
}

/// The table.
pub(crate) struct Names {
    bindings: Vec<u32>,
    /// The same for the bases of register ranges, which do not clash with plain names.
    ranges: Vec<u32>,
    declarations: Vec<Declaration>,
    scopes: Vec<(usize, usize)>,
    pending: Vec<PendingUse>,
    generation: u32,
}

const DECLARED: u32 = u32::MAX;

impl Names {
    pub(crate) fn new(interner: &Interner) -> Self {
        Self {
            bindings: vec![0; interner.len()],
            ranges: vec![0; interner.len()],
            declarations: Vec::new(),
            scopes: Vec::new(),
            pending: Vec::new(),
            generation: 0,
        }
    }

    /// Returns the nesting depth; module scope is 0.
    pub(crate) fn depth(&self) -> usize {
        self.scopes.len()
    }

    pub(crate) fn open(&mut self) {
        self.scopes
            .push((self.declarations.len(), self.pending.len()));
    }

    /// Ends the innermost scope. `resolved` gets each waiting use whose label the scope declares.
    pub(crate) fn close(&mut self, mut resolved: impl FnMut(PendingUse, Declaration)) {
        let Some((declarations, pending)) = self.scopes.pop() else {
            return;
        };
        let depth = self.scopes.len() + 1;
        let mut kept = pending;
        for i in pending..self.pending.len() {
            let waiting = self.pending[i];
            match self.bound(waiting.sym) {
                Some(d) if d.depth as usize == depth && d.generation == DECLARED => {
                    resolved(waiting, d);
                }
                _ => {
                    self.pending[kept] = waiting;
                    kept += 1;
                }
            }
        }
        self.pending.truncate(kept);
        for d in self.declarations.drain(declarations..).rev() {
            if d.meaning == Meaning::Range {
                self.ranges[d.sym.0 as usize] = d.shadowed;
                if d.shadowed != 0 {
                    self.generation += 1;
                }
            } else {
                self.bindings[d.sym.0 as usize] = d.shadowed;
            }
        }
    }

    /// Uses that no scope resolved; they are forgotten.
    pub(crate) fn take_unresolved(&mut self) -> Option<PendingUse> {
        let first = self.pending.first().copied();
        self.pending.clear();
        first
    }

    /// Declares a name in the innermost scope; gives back the clashing declaration when it has one there.
    pub(crate) fn declare(
        &mut self,
        interner: &Interner,
        sym: Sym,
        meaning: Meaning,
        value: u32,
    ) -> Result<(), Declaration> {
        if let Some(d) = self.bound(sym)
            && d.depth as usize == self.depth()
            && d.generation == DECLARED
        {
            return Err(d);
        }
        if let Some(range) = self.range_of(interner, sym)
            && range.0.depth as usize == self.depth()
        {
            return Err(range.0);
        }
        self.push(sym, meaning, value, 0, DECLARED);
        Ok(())
    }

    /// Declares the range `base<count>`.
    pub(crate) fn declare_range(
        &mut self,
        base: Sym,
        count: u32,
        value: u32,
    ) -> Result<(), Declaration> {
        if let Some(d) = self.range(base) {
            if d.depth as usize == self.depth() {
                return Err(d);
            }
            self.generation += 1;
        }
        self.push(base, Meaning::Range, value, count, DECLARED);
        Ok(())
    }

    /// Returns the declaration that a use means now. `member` gives the value of a range's member from the range and
    /// the member's number; it is asked once per scope that uses the member and has to answer the same each time.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        interner: &Interner,
        sym: Sym,
        member: impl FnOnce(Declaration, u32) -> u32,
    ) -> Option<Declaration> {
        if let Some(d) = self.bound(sym)
            && (d.generation == DECLARED || d.generation == self.generation)
        {
            // A range of an inner scope hides a name of an outer one.
            let hidden = || {
                let range = self.range_of(interner, sym);
                range.is_some_and(|(range, _)| range.depth > d.depth)
            };
            let is_outer = d.generation == DECLARED && (d.depth as usize) < self.depth();
            if !(is_outer && hidden()) {
                return Some(d);
            }
        }
        let (range, number) = self.range_of(interner, sym)?;
        let value = member(range, number);
        let generation = self.generation;
        self.push(sym, Meaning::Register, value, number, generation);
        self.bound(sym)
    }

    /// Remembers a use that may be a label further down.
    pub(crate) fn wait(&mut self, sym: Sym, offset: u32, site: u32) {
        self.pending.push(PendingUse { sym, offset, site });
    }

    #[inline]
    fn bound(&self, sym: Sym) -> Option<Declaration> {
        match self.bindings.get(sym.0 as usize) {
            Some(&i) if i != 0 => Some(self.declarations[i as usize - 1]),
            _ => None,
        }
    }

    fn range(&self, base: Sym) -> Option<Declaration> {
        match self.ranges.get(base.0 as usize) {
            Some(&i) if i != 0 => Some(self.declarations[i as usize - 1]),
            _ => None,
        }
    }

    /// Returns the range that `sym` is a member of, and its number.
    fn range_of(&self, interner: &Interner, sym: Sym) -> Option<(Declaration, u32)> {
        let name = interner.bytes(sym);
        let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 || digits > 9 || digits == name.len() {
            return None;
        }
        let (base, number) = name.split_at(name.len() - digits);
        if number[0] == b'0' && digits > 1 {
            return None;
        }
        let range = self.range(interner.find(base)?)?;
        let number = number.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'));
        (number < range.extra).then_some((range, number))
    }

    fn push(&mut self, sym: Sym, meaning: Meaning, value: u32, extra: u32, generation: u32) {
        let depth = u32::try_from(self.depth()).unwrap_or(u32::MAX);
        let table = if meaning == Meaning::Range {
            &mut self.ranges
        } else {
            &mut self.bindings
        };
        let binding = &mut table[sym.0 as usize];
        self.declarations.push(Declaration {
            meaning,
            value,
            extra,
            sym,
            shadowed: *binding,
            depth,
            generation,
        });
        // Every declaration comes from a token of a source that is at most 64 MiB long.
        *binding = u32::try_from(self.declarations.len()).unwrap_or(0);
    }
}
