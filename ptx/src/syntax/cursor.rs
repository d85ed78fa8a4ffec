//! A position in the token stream, shared by the parser and the decoder.

use super::intern::{Interner, Sym};
use super::lex::{Token, kind};
use super::vocabulary::{Directive, VOCABULARY};
use crate::error::Fault;

/// Tokens, what they point into, and where we are. Copying one is how to look ahead.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) source: &'a [u8],
    pub(crate) tokens: &'a [Token],
    pub(crate) interner: &'a Interner,
    /// Index of the next token.
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn token(&self) -> Token {
        self.tokens[self.at]
    }

    #[inline]
    pub(crate) fn kind(&self) -> u8 {
        self.tokens[self.at].kind()
    }

    /// Returns the kind of the token after the next one.
    #[inline]
    pub(crate) fn kind_after(&self) -> u8 {
        self.tokens.get(self.at + 1).map_or(kind::END, |t| t.kind())
    }

    /// Moves past one token, never past the end token.
    #[inline]
    pub(crate) fn bump(&mut self) -> Token {
        let token = self.token();
        if token.kind() != kind::END {
            self.at += 1;
        }
        token
    }

    /// Moves past the next token when it is of this kind.
    #[inline]
    pub(crate) fn accept(&mut self, kind: u8) -> bool {
        let is = self.kind() == kind;
        if is {
            self.at += 1;
        }
        is
    }

    pub(crate) fn expect(&mut self, kind: u8, what: &str) -> Result<Token, Fault> {
        if self.kind() == kind {
            Ok(self.bump())
        } else {
            Err(self.expected(what))
        }
    }

    /// Returns «expected X, found Y» at the next token.
    #[cold]
    pub(crate) fn expected(&self, what: &str) -> Fault {
        let found = match self.kind() {
            kind::END => "the end of the file".to_owned(),
            _ => {
                let text = self.text(self.token());
                let shown = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
                format!("`{shown}`")
            }
        };
        self.fault(format!("expected {what}, found {found}"))
    }

    #[cold]
    pub(crate) fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(self.token().start, message)
    }

    pub(crate) fn text(&self, token: Token) -> &'a [u8] {
        &self.source[token.start as usize..token.end(self.interner) as usize]
    }

    /// Moves past one token and gives its text.
    pub(crate) fn bump_text(&mut self) -> &'a [u8] {
        let token = self.bump();
        self.text(token)
    }

    pub(crate) fn name(&self, sym: Sym) -> &'a str {
        self.interner.name(sym)
    }

    /// Returns the directive that the next token is, when it is one.
    pub(crate) fn directive(&self) -> Option<Directive> {
        match self.kind() {
            kind::DOT => VOCABULARY.directive(self.token().sym()),
            _ => None,
        }
    }

    /// Returns an unsigned integer literal that fits `u32`.
    pub(crate) fn small_int(&mut self, what: &str) -> Result<u32, Fault> {
        let here = *self;
        let token = self.expect(kind::INT, what)?;
        let value = super::constant::integer(self.text(token));
        value
            .and_then(|v| u32::try_from(v).ok())
            .ok_or_else(|| here.fault(format!("{what} is too large")))
    }

    /// Skips a bracketed group; its opening bracket must be next.
    pub(crate) fn skip_group(&mut self, open: u8, close: u8) -> Result<(), Fault> {
        let start = *self;
        if self.kind() != open {
            return Err(start.fault(format!("expected `{}`", char::from(open))));
        }
        let mut depth = 0_u32;
        loop {
            match self.kind() {
                kind::END => {
                    return Err(start.fault(format!("this `{}` is not closed", char::from(open))));
                }
                k if k == open => depth += 1,
                k if k == close => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }
}
