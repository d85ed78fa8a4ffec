//! Bytes to tokens: eight bytes a token, no text copied, every byte of the source inside exactly one token.
//!
//! White space and comments before a token belong to it (its *trivia*), and the end token takes what is left, so
//! the tokens in order are the file. Bytes above 0x7f are allowed in comments and strings only (PTX ISA section 4:
//! PTX is ASCII).

use super::intern::{Interner, MAX_NAMES, Sym};
use crate::error::Fault;

/// Token kinds. Punctuation is its own ASCII byte; the rest are the constants below.
pub(crate) mod kind {
    /// Identifier, opcode, register, number-free word: its name is interned.
    pub(crate) const NAME: u8 = b'a';
    /// Dot-word (`.u32`, `.shared::cta`, `.2d`): interned without the dot.
    pub(crate) const DOT: u8 = b'.';
    /// Integer literal.
    pub(crate) const INT: u8 = b'0';
    /// Floating literal, hexadecimal (`0f`, `0d`) or decimal.
    pub(crate) const FLOAT: u8 = b'f';
    /// String with its quotes.
    pub(crate) const STRING: u8 = b'"';
    /// One past the last token.
    pub(crate) const END: u8 = 0;
}

/// A token: where its text starts, its kind, and 24 bits that hold its name or its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) start: u32,
    packed: u32,
}

impl Token {
    fn new(start: usize, kind: u8, payload: u32) -> Self {
        // The source is at most 64 MiB long.
        #[allow(clippy::cast_possible_truncation)]
        let start = start as u32;
        Self {
            start,
            packed: payload << 8 | u32::from(kind),
        }
    }

    #[inline]
    pub(crate) fn kind(self) -> u8 {
        (self.packed & 0xff) as u8
    }

    /// Returns the name of a `NAME` or `DOT` token.
    #[inline]
    pub(crate) fn sym(self) -> Sym {
        Sym(self.packed >> 8)
    }

    /// Returns one past the last byte.
    pub(crate) fn end(self, names: &Interner) -> u32 {
        self.start
            + match self.kind() {
                kind::NAME => names.name_len(self.sym()),
                kind::DOT => 1 + names.name_len(self.sym()),
                kind::INT | kind::FLOAT | kind::STRING => self.packed >> 8,
                kind::END => 0,
                _ => 1,
            }
    }
}

/// Longest name in bytes: far beyond what compilers make of C++ templates, and short enough to be repeated.
const MAX_NAME_BYTES: usize = 64 << 10;

const SPACE: u8 = 1;
const LETTER: u8 = 2;
const DIGIT: u8 = 4;
const PUNCT: u8 = 8;

static CLASS: [u8; 256] = {
    let mut t = [0; 256];
    let mut b = 0;
    while b < 128 {
        #[allow(clippy::cast_possible_truncation)]
        let c = b as u8;
        t[b] = match c {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => SPACE,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'%' => LETTER,
            b'0'..=b'9' => DIGIT,
            b',' | b';' | b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>' | b':' | b'='
            | b'+' | b'-' | b'*' | b'!' | b'~' | b'&' | b'|' | b'^' | b'@' | b'?' => PUNCT,
            _ => 0,
        };
        b += 1;
    }
    t
};

#[inline]
fn class(b: u8) -> u8 {
    CLASS[b as usize]
}

/// Returns whether a byte continues a name; `%` starts one and never continues one.
#[inline]
fn continues(b: u8) -> bool {
    class(b) & (LETTER | DIGIT) != 0 && b != b'%'
}

/// Splits the source into tokens and interns its names.
pub(crate) fn lex(source: &[u8], names: &mut Interner) -> Result<Vec<Token>, Fault> {
    let mut lexer = Lexer {
        source,
        at: 0,
        names,
        tokens: Vec::with_capacity(source.len() / 3 + 16),
    };
    lexer.run()?;
    lexer.tokens.push(Token::new(source.len(), kind::END, 0));
    lexer.tokens.shrink_to_fit();
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    names: &'a mut Interner,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        while let Some(&b) = self.source.get(self.at) {
            let start = self.at;
            match class(b) {
                SPACE => self.at += 1,
                PUNCT => {
                    self.at += 1;
                    self.tokens.push(Token::new(start, b, 0));
                }
                LETTER => self.word()?,
                DIGIT => self.number()?,
                _ => match b {
                    b'.' if self.is_fraction() => self.number()?,
                    b'.' => self.dot_word()?,
                    b'/' => self.comment_or_slash()?,
                    b'"' => self.string()?,
                    b'#' => self.preprocessor_line()?,
                    _ => {
                        let what = format!(
                            "unexpected byte 0x{b:02x}; outside comments and strings PTX is ASCII text"
                        );
                        return Err(self.fault(start, what));
                    }
                },
            }
        }
        Ok(())
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn fault(&self, at: usize, message: impl Into<String>) -> Fault {
        Fault::new(u32::try_from(at).unwrap_or(u32::MAX), message)
    }

    fn push_name(&mut self, start: usize, kind: u8, text_start: usize) -> Result<(), Fault> {
        if self.at - text_start > MAX_NAME_BYTES {
            let bytes = self.at - text_start;
            let what = format!("a name of {bytes} bytes; {MAX_NAME_BYTES} is the most");
            return Err(self.fault(start, what));
        }
        let sym = self.names.intern(&self.source[text_start..self.at]);
        if self.names.len() >= MAX_NAMES {
            return Err(self.fault(start, "more than 16777215 distinct names in one module"));
        }
        self.tokens.push(Token::new(start, kind, sym.0));
        Ok(())
    }

    fn word(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        while continues(self.peek(0)) {
            self.at += 1;
        }
        if self.at == start + 1 && self.source[start] == b'%' {
            // A lone percent sign is the remainder operator of constant expressions.
            self.tokens.push(Token::new(start, b'%', 0));
            return Ok(());
        }
        self.push_name(start, kind::NAME, start)
    }

    /// Lexes a dot-word, whose parts may be joined by `::` (`.shared::cluster`).
    fn dot_word(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        loop {
            while continues(self.peek(0)) {
                self.at += 1;
            }
            if self.peek(0) == b':' && self.peek(1) == b':' && continues(self.peek(2)) {
                self.at += 2;
            } else {
                break;
            }
        }
        if self.at == start + 1 {
            return Err(self.fault(
                start,
                "a `.` must be followed by the name of a directive or modifier",
            ));
        }
        self.push_name(start, kind::DOT, start + 1)
    }

    /// Literals (PTX ISA section 4.5): hexadecimal, octal, binary, decimal, `U` suffix, `0f`/`0d`, decimal floats.
    fn number(&mut self) -> Result<(), Fault> {
        let start = self.at;
        let second = self.peek(1) | 0x20;
        let mut kind = kind::INT;
        if self.peek(0) == b'0' && matches!(second, b'x' | b'b' | b'f' | b'd') {
            self.at += 2;
            let digits = self.at;
            while match second {
                b'b' => matches!(self.peek(0), b'0' | b'1'),
                _ => self.peek(0).is_ascii_hexdigit(),
            } {
                self.at += 1;
            }
            let wanted = match second {
                b'f' => 8,
                b'd' => 16,
                _ => 0,
            };
            if wanted != 0 {
                kind = kind::FLOAT;
            }
            let got = self.at - digits;
            if got == 0 || (wanted != 0 && got != wanted) {
                let what = "malformed literal: `0x`, `0b` need digits, `0f` needs 8 and `0d` 16 hexadecimal digits";
                return Err(self.fault(start, what));
            }
        } else {
            kind = self.decimal();
        }
        if kind == kind::INT && self.peek(0) == b'U' {
            self.at += 1;
        }
        if continues(self.peek(0)) {
            return Err(self.fault(start, "malformed number"));
        }
        self.push_sized(start, kind)
    }

    /// Returns whether `.5`, `.5e3` or `.5e-3` stands here and not a word such as `.2d`.
    fn is_fraction(&self) -> bool {
        let word = &self.source[self.at + 1..];
        let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
        let whole = digits(word);
        let rest = &word[whole..];
        let exponent = match rest {
            [b'e' | b'E', b'+' | b'-', tail @ ..] => 2 + digits(tail),
            [b'e' | b'E', tail @ ..] => 1 + digits(tail),
            _ => 0,
        };
        whole > 0 && !rest.get(exponent).is_some_and(|&b| continues(b))
    }

    fn decimal(&mut self) -> u8 {
        let mut kind = kind::INT;
        let digits = |l: &mut Self| {
            while class(l.peek(0)) == DIGIT {
                l.at += 1;
            }
        };
        digits(self);
        let exponent = |l: &Self, at: usize| {
            let sign = usize::from(matches!(l.peek(at + 1), b'+' | b'-'));
            l.peek(at) | 0x20 == b'e' && class(l.peek(at + 1 + sign)) == DIGIT
        };
        let fraction = class(self.peek(1)) == DIGIT || !continues(self.peek(1));
        if self.peek(0) == b'.' && (fraction || exponent(self, 1)) {
            kind = kind::FLOAT;
            self.at += 1;
            digits(self);
        }
        if exponent(self, 0) {
            kind = kind::FLOAT;
            self.at += 1 + usize::from(matches!(self.peek(1), b'+' | b'-'));
            digits(self);
        }
        kind
    }

    fn push_sized(&mut self, start: usize, kind: u8) -> Result<(), Fault> {
        match u32::try_from(self.at - start) {
            Ok(n) if n < 1 << 24 => {
                self.tokens.push(Token::new(start, kind, n));
                Ok(())
            }
            _ => Err(self.fault(start, "a literal longer than 16 MiB")),
        }
    }

    fn string(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.source.get(self.at) {
                None | Some(b'\n') => {
                    return Err(self.fault(start, "this string is not closed on its line"));
                }
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        self.push_sized(start, kind::STRING)
    }

    fn comment_or_slash(&mut self) -> Result<(), Fault> {
        let start = self.at;
        match self.peek(1) {
            b'/' => self.skip_line(),
            b'*' => {
                self.at += 2;
                while !(self.peek(0) == b'*' && self.peek(1) == b'/') {
                    if self.at >= self.source.len() {
                        return Err(self.fault(start, "this comment is not closed"));
                    }
                    self.at += 1;
                }
                self.at += 2;
            }
            _ => {
                self.at += 1;
                self.tokens.push(Token::new(start, b'/', 0));
            }
        }
        Ok(())
    }

    fn skip_line(&mut self) {
        self.at = self.source[self.at..]
            .iter()
            .position(|&b| b == b'\n')
            .map_or(self.source.len(), |n| self.at + n);
    }

    /// Skips the line markers (`# 12 "file"`, `#line 12`) are trivia; other preprocessor lines would change the text.
    fn preprocessor_line(&mut self) -> Result<(), Fault> {
        let start = self.at;
        let begins_line = self.source[..start]
            .iter()
            .rev()
            .find(|&&b| !matches!(b, b' ' | b'\t'))
            .is_none_or(|&b| b == b'\n');
        let rest = &self.source[start + 1..];
        let is_marker = rest.starts_with(b"line")
            || rest
                .iter()
                .find(|&&b| !matches!(b, b' ' | b'\t'))
                .is_some_and(u8::is_ascii_digit);
        if !begins_line || !is_marker {
            return Err(self.fault(
                start,
                "preprocessor directives are not supported; run the preprocessor first",
            ));
        }
        self.skip_line();
        Ok(())
    }
}
