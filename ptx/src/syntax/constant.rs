//! Literals and constant expressions (PTX ISA sections 4.5 and 4.6).
//!
//! Integers are 64 bits wide and wrap. The one use of floating constants in an expression is a leading sign.

use super::cursor::Cursor;
use super::lex::kind;
use super::vocabulary::VOCABULARY;
use crate::error::Fault;

/// Expressions nest no deeper than this.
pub(crate) const MAX_NESTING: u32 = 256;

/// Value of an integer literal, `None` when it does not fit 64 bits or is malformed octal.
pub(crate) fn integer(text: &[u8]) -> Option<u64> {
    let text = text
        .strip_suffix(b"U")
        .or(text.strip_suffix(b"u"))
        .unwrap_or(text);
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        [b'0', b'b' | b'B', rest @ ..] => (rest, 2),
        [b'0', rest @ ..] if !rest.is_empty() => (rest, 8),
        _ => (text, 10),
    };
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// A floating literal: the bits, and whether it was `0f` (32 bits).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Float {
    /// `0f…`.
    Single(u32),
    /// `0d…` or decimal.
    Double(u64),
}

/// Value of a floating literal.
pub(crate) fn float(text: &[u8]) -> Option<Float> {
    let str = std::str::from_utf8(text).ok()?;
    match text {
        [b'0', b'f' | b'F', ..] => u32::from_str_radix(&str[2..], 16).ok().map(Float::Single),
        [b'0', b'd' | b'D', ..] => u64::from_str_radix(&str[2..], 16).ok().map(Float::Double),
        _ => str.parse::<f64>().ok().map(|v| Float::Double(v.to_bits())),
    }
}

/// Evaluates the integer constant expression at the cursor.
pub(crate) fn expression(cursor: &mut Cursor<'_>) -> Result<i64, Fault> {
    ternary(cursor, 0)
}

fn ternary(c: &mut Cursor<'_>, depth: u32) -> Result<i64, Fault> {
    let condition = binary(c, 0, depth)?;
    if !c.accept(b'?') {
        return Ok(condition);
    }
    let yes = ternary(c, nested(c, depth)?)?;
    c.expect(b':', "`:`")?;
    let no = ternary(c, nested(c, depth)?)?;
    Ok(if condition != 0 { yes } else { no })
}

fn nested(c: &Cursor<'_>, depth: u32) -> Result<u32, Fault> {
    if depth >= MAX_NESTING {
        return Err(c.fault("more than 256 levels of nesting"));
    }
    Ok(depth + 1)
}

/// Binary operator at the cursor: its two-byte code (second byte zero for one-character ones) and precedence.
fn operator(c: &Cursor<'_>) -> Option<([u8; 2], u8)> {
    let first = c.kind();
    let second = match c.tokens.get(c.at + 1) {
        Some(t) if t.start == c.token().start + 1 => t.kind(),
        _ => 0,
    };
    let double = match (first, second) {
        (b'|', b'|') => 1,
        (b'&', b'&') => 2,
        (b'=' | b'!', b'=') => 6,
        (b'<' | b'>', b'=') => 7,
        (b'<', b'<') | (b'>', b'>') => 8,
        _ => 0,
    };
    if double != 0 {
        return Some(([first, second], double));
    }
    let single = match first {
        b'|' => 3,
        b'^' => 4,
        b'&' => 5,
        b'<' | b'>' => 7,
        b'+' | b'-' => 9,
        b'*' | b'/' | b'%' => 10,
        _ => return None,
    };
    Some(([first, 0], single))
}

fn binary(c: &mut Cursor<'_>, least: u8, depth: u32) -> Result<i64, Fault> {
    let mut left = unary(c, depth)?;
    while let Some((op, precedence)) = operator(c) {
        if precedence <= least {
            break;
        }
        let here = *c;
        c.at += if op[1] == 0 { 1 } else { 2 };
        let right = binary(c, precedence, nested(c, depth)?)?;
        left = apply(op, left, right).ok_or_else(|| here.fault("division by zero"))?;
    }
    Ok(left)
}

fn apply(op: [u8; 2], a: i64, b: i64) -> Option<i64> {
    let shift = u32::try_from(b.rem_euclid(64)).unwrap_or(0);
    Some(match &op {
        b"||" => i64::from(a != 0 || b != 0),
        b"&&" => i64::from(a != 0 && b != 0),
        b"==" => i64::from(a == b),
        b"!=" => i64::from(a != b),
        b"<=" => i64::from(a <= b),
        b">=" => i64::from(a >= b),
        b"<<" => a.wrapping_shl(shift),
        b">>" => a.wrapping_shr(shift),
        b"|\0" => a | b,
        b"^\0" => a ^ b,
        b"&\0" => a & b,
        b"<\0" => i64::from(a < b),
        b">\0" => i64::from(a > b),
        b"+\0" => a.wrapping_add(b),
        b"-\0" => a.wrapping_sub(b),
        b"*\0" => a.wrapping_mul(b),
        b"/\0" if b != 0 => a.wrapping_div(b),
        b"%\0" if b != 0 => a.wrapping_rem(b),
        _ => return None,
    })
}

fn unary(c: &mut Cursor<'_>, depth: u32) -> Result<i64, Fault> {
    let depth = nested(c, depth)?;
    match c.kind() {
        b'-' => {
            c.at += 1;
            Ok(unary(c, depth)?.wrapping_neg())
        }
        b'+' => {
            c.at += 1;
            unary(c, depth)
        }
        b'~' => {
            c.at += 1;
            Ok(!unary(c, depth)?)
        }
        b'!' => {
            c.at += 1;
            Ok(i64::from(unary(c, depth)? == 0))
        }
        b'(' => {
            c.at += 1;
            if c.kind() == kind::DOT {
                // A cast, `(.s64)` or `(.u64)`: integers are 64 bits wide either way.
                c.at += 1;
                c.expect(b')', "`)`")?;
                return unary(c, depth);
            }
            let value = ternary(c, depth)?;
            c.expect(b')', "`)`")?;
            Ok(value)
        }
        kind::INT => {
            let here = *c;
            let token = c.bump();
            integer(c.text(token))
                .map(u64::cast_signed)
                .ok_or_else(|| here.fault("this integer does not fit 64 bits"))
        }
        kind::NAME if c.token().sym() == VOCABULARY.warp_sz => {
            c.at += 1;
            Ok(32)
        }
        _ => Err(c.expected("a constant")),
    }
}
