//! Where an instruction's operands stand in the text, and other text in their place.
//!
//! Rule: the decoded instruction and its tokens have the same operands in the same order.

use super::Pass;
use crate::decode::Span;
use crate::syntax::lex::kind;

impl Pass<'_, '_> {
    /// Returns the spans of an instruction's operands, in source order.
    fn operand_spans(&mut self, n: u32) -> Vec<Span> {
        let module = self.frame.module;
        let statement = self.frame.statement(n);
        let tokens = &module.cursor(0).tokens[statement.first..statement.end];
        let mut at = 0;
        if tokens.first().is_some_and(|t| t.kind() == b'@') {
            at = 1 + usize::from(tokens[1].kind() == b'!') + 1;
        }
        // The opcode and its words.
        at += 1;
        while tokens.get(at).is_some_and(|t| t.kind() == kind::DOT) {
            at += 1;
        }
        let (mut spans, mut depth, mut first) = (Vec::new(), 0_i32, at);
        for (k, t) in tokens.iter().enumerate().skip(at) {
            match t.kind() {
                b'[' | b'{' | b'(' => depth += 1,
                b']' | b'}' | b')' => depth -= 1,
                b',' | b';' if depth == 0 => {
                    if k > first {
                        spans.push(module.token_span(statement.first + first, statement.first + k));
                    }
                    first = k + 1;
                }
                _ => {}
            }
        }
        spans
    }

    pub(super) fn replace_operand(&mut self, n: u32, operand: usize, text: String) {
        let spans = self.operand_spans(n);
        let span = spans.get(operand).copied();
        // The instruction was decoded with an operand there, so its text has one.
        debug_assert!(span.is_some(), "operand {operand} of instruction {n}");
        if let Some(span) = span {
            self.frame.edits.replace(span, text);
        }
    }

    /// Replaces the callee: the first operand, or the second where returned values stand before it.
    pub(super) fn replace_callee(&mut self, n: u32, text: &str) {
        let spans = self.operand_spans(n);
        let source = self.frame.module.source();
        let is_list = |s: &Span| source.get(s.start as usize) == Some(&b'(');
        let at = usize::from(spans.first().is_some_and(is_list));
        if let Some(span) = spans.get(at) {
            self.frame.edits.replace(*span, text);
        }
    }
}
