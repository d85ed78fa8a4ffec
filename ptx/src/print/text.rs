//! Text in the making: statements on lines of their own, or on the lines where they stood in the original.

use crate::decode::Span;
use crate::syntax::module::Lines;
use std::fmt;

/// How statements are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Each instruction stands on the line on which it stood in the original, and what was added stands with the
    /// instruction that it belongs to, so that whoever reads the text names the tenant's lines.
    #[default]
    OriginalLines,
    /// Each statement stands on a line of its own.
    OneEach,
}

/// A text and where it is.
#[derive(Debug)]
pub(super) struct Text<'a> {
    pub(super) out: String,
    /// Lines of the original, where they are kept.
    original: Option<&'a Lines>,
    /// The line that is being written.
    line: u32,
}

impl<'a> Text<'a> {
    /// Begins a text that keeps these lines, or none.
    pub(super) fn new(original: Option<&'a Lines>) -> Self {
        Self {
            out: String::new(),
            original,
            line: 1,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Ends a statement.
    pub(super) fn end(&mut self) {
        self.out
            .push(if self.original.is_some() { ' ' } else { '\n' });
    }

    /// Adds what indents an instruction.
    pub(super) fn indent(&mut self) {
        if self.original.is_none() {
            self.out.push('\t');
        }
    }

    /// Goes on to the line of the original on which a statement stood, if that is further down.
    pub(super) fn to(&mut self, span: Span) {
        let Some(lines) = self.original.filter(|_| span != Span::default()) else {
            return;
        };
        let line = lines.line(span.start);
        while self.line < line {
            self.out.push('\n');
            self.line += 1;
        }
    }

    /// Returns where the text ends.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            bytes: self.out.len(),
            line: self.line,
        }
    }

    /// Takes back what was written since.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.out.truncate(mark.bytes);
        self.line = mark.line;
    }
}

/// An end that a text had.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    bytes: usize,
    line: u32,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.push_str(text);
        Ok(())
    }
}
