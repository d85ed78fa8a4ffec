//! The lossless module: the source bytes, its tokens, and an index of its statements and functions.

use super::cursor::Cursor;
use super::intern::{Interner, Sym};
use super::lex::{Token, lex};
use super::parse::{Parsed, parse};
use super::vocabulary::VOCABULARY;
use crate::decode::{Program, Span};
use crate::error::{Fault, ParseError};

/// A module is at most 64 MiB long.
pub const MAX_BYTES: usize = 64 << 20;
/// A module has at most this many kernels and functions.
pub const MAX_KERNELS: usize = 100_000;

/// What a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum StatementKind {
    Version,
    Target,
    AddressSize,
    File,
    Loc,
    Section,
    Pragma,
    Alias,
    /// Header of a function or kernel, up to its body or `;`.
    Function,
    /// Registers, variables or call parameters.
    Declaration,
    /// `{`.
    Open,
    /// `}`.
    Close,
    /// `name:`.
    Label,
    BranchTargets,
    CallTargets,
    CallPrototype,
    Instruction,
    /// A lone `;`.
    Empty,
}

/// A statement: its kind and its half-open range of tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    pub(crate) first: u32,
    pub(crate) end: u32,
}

impl Statement {
    /// Token indices are below 2^27, because the source is at most 64 MiB long.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn new(kind: StatementKind, first: usize, end: usize) -> Self {
        Self {
            kind,
            first: first as u32,
            end: end as u32,
        }
    }
}

/// Where a function is; all but `statements` are token indices.
#[derive(Debug, Clone)]
pub(crate) struct FunctionSyntax {
    pub(crate) name: Sym,
    pub(crate) is_entry: bool,
    pub(crate) first: usize,
    /// The parameter list with its parentheses; empty when it has none.
    pub(crate) params: (usize, usize),
    pub(crate) header_end: usize,
    pub(crate) end: usize,
    /// Statements, the header first.
    pub(crate) statements: (usize, usize),
    pub(crate) has_body: bool,
}

/// A parsed PTX module that prints back byte for byte.
#[derive(Debug, Clone)]
pub struct Module {
    source: Vec<u8>,
    tokens: Vec<Token>,
    interner: Interner,
    pub(crate) statements: Vec<Statement>,
    pub(crate) functions: Vec<FunctionSyntax>,
}

impl Module {
    /// Lexes and parses PTX text.
    ///
    /// # Errors
    /// Anything that is not well-formed PTX, with its position; a file over [`MAX_BYTES`], more than
    /// [`MAX_KERNELS`] functions, more than 256 levels of nesting.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Self, ParseError> {
        let source = bytes.into();
        if source.len() > MAX_BYTES {
            let message = format!(
                "the module is {} bytes long; the limit is 64 MiB",
                source.len()
            );
            return Err(Fault::new(0, message).locate(b""));
        }
        match Self::build(&source) {
            Ok((tokens, interner, parsed)) => Ok(Self {
                tokens,
                interner,
                statements: parsed.statements,
                functions: parsed.functions,
                source,
            }),
            Err(fault) => Err(fault.locate(&source)),
        }
    }

    fn build(source: &[u8]) -> Result<(Vec<Token>, Interner, Parsed), Fault> {
        let mut interner = VOCABULARY.interner.clone();
        let tokens = lex(source, &mut interner)?;
        let parsed = parse(Cursor {
            source,
            tokens: &tokens,
            interner: &interner,
            at: 0,
        })?;
        Ok((tokens, interner, parsed))
    }

    /// The typed view.
    ///
    /// # Errors
    /// A declaration or operand that is malformed in a way that the lossless layer does not look at: a variable
    /// that is too large, an initialiser that does not fit, a type that contradicts the use.
    pub fn decode(&self) -> Result<Program, ParseError> {
        crate::decode::decode(self).map_err(|fault| fault.locate(&self.source))
    }

    /// The module as text: the bytes that it was parsed from.
    #[must_use]
    pub fn print(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.source.len());
        self.print_to(&mut out);
        out
    }

    /// Appends the module as text.
    pub fn print_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.source);
    }

    /// The source bytes.
    #[must_use]
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// Each statement's kind and span, in source order; a function's header stands before its body's statements.
    pub fn statements(&self) -> impl Iterator<Item = (StatementKind, Span)> {
        self.statements
            .iter()
            .map(|s| (s.kind, self.token_span(s.first as usize, s.end as usize)))
    }

    /// Spans of all tokens, each with the white space and comments before it; the last one is the rest of the file.
    pub fn token_spans(&self) -> impl Iterator<Item = Span> {
        let mut start = 0;
        self.tokens.iter().map(move |t| {
            let span = Span {
                start,
                end: t.end(&self.interner),
            };
            start = span.end;
            span
        })
    }

    /// Line, from 1, of a byte offset.
    #[must_use]
    pub fn line(&self, offset: u32) -> u32 {
        crate::error::position(&self.source, offset).0
    }

    pub(crate) fn cursor(&self, at: usize) -> Cursor<'_> {
        Cursor {
            source: &self.source,
            tokens: &self.tokens,
            interner: &self.interner,
            at,
        }
    }

    /// Bytes from the first token's text to the last one's, trivia before the first excluded.
    pub(crate) fn token_span(&self, first: usize, end: usize) -> Span {
        Span {
            start: self.tokens[first].start,
            end: if end > first {
                self.tokens[end - 1].end(&self.interner)
            } else {
                self.tokens[first].start
            },
        }
    }
}
