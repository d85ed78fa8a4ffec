//! Edits to spans, applied in one pass.
//!
//! An edit replaces a byte range of the source; what no edit touches comes out as it went in. Edits are collected
//! in any order, must not overlap, and several insertions at one place keep the order they were made in.

use crate::decode::Span;
use crate::syntax::module::Module;

/// A list of edits.
#[derive(Debug, Clone, Default)]
pub struct Edits {
    list: Vec<Edit>,
}

#[derive(Debug, Clone)]
struct Edit {
    span: Span,
    text: Box<str>,
}

impl Edits {
    /// No edits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts text before the byte at `offset`.
    pub fn insert(&mut self, offset: u32, text: impl Into<Box<str>>) {
        self.replace(
            Span {
                start: offset,
                end: offset,
            },
            text,
        );
    }

    /// Replaces a span by text.
    pub fn replace(&mut self, span: Span, text: impl Into<Box<str>>) {
        self.list.push(Edit {
            span,
            text: text.into(),
        });
    }

    /// Adds another list; at one place its insertions come behind those made so far.
    pub fn append(&mut self, other: Self) {
        self.list.extend(other.list);
    }

    /// The module's text with the edits made.
    ///
    /// # Panics
    /// When two edits overlap, which is a mistake of the form that made them and must not reach a GPU.
    #[must_use]
    pub fn apply(mut self, module: &Module) -> Vec<u8> {
        // The sort is stable, so insertions at one place stay in order.
        self.list.sort_by_key(|e| (e.span.start, e.span.end));
        let source = module.source();
        let added: usize = self.list.iter().map(|e| e.text.len()).sum();
        let mut out = Vec::with_capacity(source.len() + added);
        let mut at = 0;
        for edit in &self.list {
            let start = edit.span.start as usize;
            assert!(start >= at, "edits overlap at byte {start}");
            out.extend_from_slice(&source[at..start]);
            out.extend_from_slice(edit.text.as_bytes());
            at = edit.span.end as usize;
        }
        out.extend_from_slice(&source[at..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{Edits, Module};
    use crate::decode::Span;

    const TEXT: &str = ".version 8.0\n.target sm_80\n";

    fn module() -> Module {
        Module::parse(TEXT).expect("it parses")
    }

    #[test]
    fn no_edit_gives_the_source() {
        assert_eq!(Edits::new().apply(&module()), TEXT.as_bytes());
    }

    #[test]
    fn edits_are_applied_by_place_and_insertions_in_order() {
        let mut edits = Edits::new();
        edits.insert(26, "!");
        edits.replace(Span { start: 9, end: 12 }, "9.0");
        edits.insert(0, "a");
        edits.insert(0, "b");
        assert_eq!(edits.apply(&module()), b"ab.version 9.0\n.target sm_80!\n");
    }
}
