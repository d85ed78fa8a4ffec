//! The lossless module: the source bytes, its tokens, and an index of its statements and functions.

use super::cursor::Cursor;
use super::intern::{Interner, Sym};
use super::lex::{Token, lex};
use super::parse::{Parsed, parse};
use super::uses::ModuleUses;
use super::vocabulary::VOCABULARY;
use crate::error::{Fault, ParseError};
use crate::words::Span;
use std::collections::HashSet;

/// A module is at most 64 MiB long.
pub const MAX_BYTES: usize = 64 << 20;
/// A module has at most this many kernels and functions.
pub const MAX_KERNELS: usize = 100_000;

/// A module decodes to at most this many instructions: a file of 64 MiB in the style of compilers has fewer, and a
/// decoded instruction is a hundred times as large as the shortest one written down.
pub const MAX_INSTRUCTIONS: usize = 1 << 21;

/// Bytes of text that a module has for each of its instructions at the least, on average and [`FREE_BYTES`] aside. The
/// shortest ones are half as long, but no program consists of them, and what is made of one takes two hundred bytes.
pub const BYTES_PER_INSTRUCTION: usize = 16;
/// The same for each kernel, function and declaration of one.
pub const BYTES_PER_FUNCTION: usize = 128;
/// What every module may have in excess of its length.
pub const FREE_BYTES: usize = 32 << 10;

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
    /// `.u32;`, which declares nothing.
    Empty,
}

const KINDS: [StatementKind; 18] = {
    use StatementKind as K;
    [
        K::Version,
        K::Target,
        K::AddressSize,
        K::File,
        K::Loc,
        K::Section,
        K::Pragma,
        K::Alias,
        K::Function,
        K::Declaration,
        K::Open,
        K::Close,
        K::Label,
        K::BranchTargets,
        K::CallTargets,
        K::CallPrototype,
        K::Instruction,
        K::Empty,
    ]
};

/// A statement: its kind and its half-open range of tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    pub(crate) first: usize,
    pub(crate) end: usize,
}

/// A statement as it is kept: kind in the upper 5 bits, first token below. Statements follow each other without a
/// gap, so each ends where the next one begins. Four bytes, because `;` alone is a statement and hostile files are
/// made of nothing else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedStatement(u32);

const FIRST_BITS: u32 = 27;

impl PackedStatement {
    /// Packs a statement: token indices are below 2^27, because the source is at most 64 MiB long.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn new(kind: StatementKind, first: usize) -> Self {
        Self((kind as u32) << FIRST_BITS | first as u32)
    }

    pub(crate) fn is_label(self) -> bool {
        KINDS[(self.0 >> FIRST_BITS) as usize] == StatementKind::Label
    }

    fn first(self) -> usize {
        (self.0 & ((1 << FIRST_BITS) - 1)) as usize
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
    pub(crate) statements: Vec<PackedStatement>,
    pub(crate) functions: Vec<FunctionSyntax>,
}

/// Where lines end.
#[derive(Debug, Clone)]
pub struct Lines {
    ends: Vec<u32>,
}

impl Lines {
    /// Finds the lines of a PTX text.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        let ends = text.iter().enumerate().filter(|&(_, &b)| b == b'\n');
        Self {
            // A module is at most 64 MiB long.
            #[allow(clippy::cast_possible_truncation)]
            ends: ends.map(|(at, _)| at as u32).collect(),
        }
    }

    /// Returns the line, from 1, on which a span begins.
    #[must_use]
    pub fn of(&self, span: Span) -> u32 {
        self.line(span.start)
    }

    /// Returns the line, from 1, of a byte offset.
    #[must_use]
    pub fn line(&self, offset: u32) -> u32 {
        let before = self.ends.partition_point(|&end| end < offset);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
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
        let cursor = Cursor {
            source,
            tokens: &tokens,
            interner: &interner,
            at: 0,
        };
        let parsed = parse(cursor, None)?;
        Ok((tokens, interner, parsed))
    }

    /// Returns the module as text: the bytes that it was parsed from.
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

    /// Returns the source bytes.
    #[must_use]
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// Returns each statement's kind and span, in source order; a function's header stands before its body's
    /// statements.
    pub fn statements(&self) -> impl Iterator<Item = (StatementKind, Span)> {
        self.statements_in(0, self.statements.len())
            .map(|s| (s.kind, self.token_span(s.first, s.end)))
    }

    /// Returns the statement of that index.
    pub(crate) fn statement(&self, index: usize) -> Option<Statement> {
        let packed = self.statements.get(index)?;
        let next = self.statements.get(index + 1);
        Some(Statement {
            kind: KINDS[(packed.0 >> FIRST_BITS) as usize],
            first: packed.first(),
            end: next.map_or(self.tokens.len() - 1, |n| n.first()),
        })
    }

    /// Returns the statements of a half-open range of indices.
    pub(crate) fn statements_in(&self, from: usize, to: usize) -> impl Iterator<Item = Statement> {
        (from..to).filter_map(|i| self.statement(i))
    }

    /// Returns the spans of all tokens, each with the white space and comments before it; the last one is the rest of
    /// the file.
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

    /// Returns line, from 1, of a byte offset.
    #[must_use]
    pub fn line(&self, offset: u32) -> u32 {
        crate::error::position(&self.source, offset).0
    }

    /// Returns an index of lines, for looking up many offsets.
    #[must_use]
    pub fn lines(&self) -> Lines {
        Lines::new(&self.source)
    }

    /// Returns every name of the module, and the words of the language.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.interner.names()
    }

    /// Returns where the module uses its own variables and functions.
    pub(crate) fn uses(&self) -> ModuleUses {
        // What was parsed once is parsed again in the same way.
        let again = parse(self.cursor(0), Some(ModuleUses::default()));
        again.ok().and_then(|p| p.uses).unwrap_or_default()
    }

    pub(crate) fn cursor(&self, at: usize) -> Cursor<'_> {
        Cursor {
            source: &self.source,
            tokens: &self.tokens,
            interner: &self.interner,
            at,
        }
    }

    /// Returns the bytes from the first token's text to the last one's, trivia before the first excluded.
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

/// Returns `base`, or `base` with a number, such that none of the names begins with it, a leading `%`, `$` or `_`
/// aside.
pub(crate) fn unused_prefix<'a>(base: &str, names: impl Iterator<Item = &'a str>) -> String {
    let tails =
        names.filter_map(|name| name.trim_start_matches(['%', '$', '_']).strip_prefix(base));
    let mut any = false;
    let mut numbers: HashSet<&str> = HashSet::new();
    for tail in tails {
        any = true;
        numbers.extend(tail.split_once('x').map(|(number, _)| number));
    }
    if !any {
        return base.to_owned();
    }
    let mut free = (1..u32::MAX).map(|n| n.to_string());
    let number = free.find(|n| !numbers.contains(n.as_str()));
    number.map_or_else(String::new, |n| format!("{base}{n}x"))
}
