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
    /// What the edits put in, one behind the other in the order they were made.
    text: String,
    /// Set when edits are only counted: bytes so far, and how many are of interest.
    counted: Option<(usize, usize)>,
}

/// One of a module's many edits: where it stands, and where its text begins among all of theirs.
#[derive(Debug, Clone, Copy)]
struct Edit {
    span: Span,
    text: u32,
    bytes: u32,
    /// It stands before what else is inserted at its place, whenever that was.
    leads: bool,
}

impl Edits {
    /// Returns no edits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a list that keeps nothing but the length of its text; past `most` bytes nobody wants to know more.
    #[must_use]
    pub fn counting(most: usize) -> Self {
        Self {
            counted: Some((0, most)),
            ..Self::default()
        }
    }

    /// Returns whether it only counts and, with the `to_come` bytes that still follow, has counted more than the most
    /// it may.
    #[must_use]
    pub fn is_over(&self, to_come: usize) -> bool {
        self.counted
            .is_some_and(|(bytes, most)| bytes + to_come > most)
    }

    /// Counts text that is not kept, where text is only counted; false where it is wanted.
    pub fn count(&mut self, more: usize) -> bool {
        match &mut self.counted {
            Some((bytes, _)) => {
                *bytes += more;
                true
            }
            None => false,
        }
    }

    /// Inserts text before the byte at `offset`.
    pub fn insert(&mut self, offset: u32, text: impl AsRef<str>) {
        self.replace(
            Span {
                start: offset,
                end: offset,
            },
            text,
        );
    }

    /// Does as [`Self::insert`], in front of all that is inserted at that place otherwise.
    pub fn insert_first(&mut self, offset: u32, text: impl AsRef<str>) {
        let span = Span {
            start: offset,
            end: offset,
        };
        self.push(span, text.as_ref(), true);
    }

    /// Replaces a span by text.
    pub fn replace(&mut self, span: Span, text: impl AsRef<str>) {
        self.push(span, text.as_ref(), false);
    }

    fn push(&mut self, span: Span, text: &str, leads: bool) {
        if let Some((bytes, _)) = &mut self.counted {
            *bytes += text.len();
            return;
        }
        // By a quarter at a time rather than twofold: a large module's edits are most of what its rewrite holds.
        if self.list.len() == self.list.capacity() {
            self.list.reserve_exact(16 + self.list.len() / 4);
        }
        if self.text.len() + text.len() > self.text.capacity() {
            self.text.reserve_exact(text.len() + self.text.len() / 4);
        }
        self.list.push(Edit {
            span,
            text: index(self.text.len()),
            bytes: index(text.len()),
            leads,
        });
        self.text.push_str(text);
    }

    /// Returns the bytes of text that the edits put in.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.counted.map_or(self.text.len(), |(bytes, _)| bytes)
    }

    /// Returns the module's text with the edits made.
    ///
    /// # Panics
    /// When two edits overlap, which is a mistake of the form that made them and must not reach a GPU.
    #[must_use]
    pub fn apply(mut self, module: &Module) -> Vec<u8> {
        // Insertions at one place stay in the order they were made in, which is that of their texts.
        self.list
            .sort_unstable_by_key(|e| (e.span.start, e.span.end, !e.leads, e.text));
        let source = module.source();
        let mut out = Vec::with_capacity(source.len() + self.text.len());
        let mut at = 0;
        for edit in &self.list {
            let start = edit.span.start as usize;
            assert!(start >= at, "edits overlap at byte {start}");
            out.extend_from_slice(&source[at..start]);
            let text = edit.text as usize;
            out.extend_from_slice(&self.text.as_bytes()[text..text + edit.bytes as usize]);
            at = edit.span.end as usize;
        }
        out.extend_from_slice(&source[at..]);
        out
    }
}

/// Returns the growth that a module is allowed keeps its text well below 4 GiB.
fn index(n: usize) -> u32 {
    u32::try_from(n).expect("a module's added text is below 4 GiB")
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
    fn what_leads_stands_in_front() {
        let mut edits = Edits::new();
        edits.insert(0, "c");
        edits.insert_first(0, "a");
        edits.insert_first(0, "b");
        assert_eq!(edits.apply(&module()), format!("abc{TEXT}").as_bytes());
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
