//! Literals and constant expressions (PTX ISA sections 4.5 and 4.6).
//!
//! Integers are 64 bits wide and wrap, literals included. They are signed unless a suffix, a cast or their size says
//! otherwise, and what a shift, a quotient or a comparison gives depends on it (table 4 of section 4.6.6; where `ptxas`
//! differs from it, `ptxas` counts). Floating constants add, subtract, multiply and divide, with each other only.

use super::cursor::Cursor;
use super::lex::kind;
use super::vocabulary::VOCABULARY;
use crate::error::Fault;

/// Expressions nest no deeper than this.
pub(crate) const MAX_NESTING: u32 = 256;

/// Returns the value of an integer literal, its low 64 bits when it has more; `None` when it is malformed octal.
pub(crate) fn integer(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b"U").unwrap_or(text);
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        [b'0', b'b' | b'B', rest @ ..] => (rest, 2),
        [b'0', rest @ ..] if !rest.is_empty() => (rest, 8),
        _ => (text, 10),
    };
    let digit = |value: u64, d: &u8| {
        let d = char::from(*d).to_digit(radix)?;
        Some(value.wrapping_mul(radix.into()).wrapping_add(d.into()))
    };
    digits.iter().try_fold(0, digit)
}

/// A floating literal: the bits, and whether it was `0f` (32 bits).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Float {
    /// `0f…`.
    Single(u32),
    /// `0d…` or decimal.
    Double(u64),
}

/// Returns the value of a floating literal.
pub(crate) fn float(text: &[u8]) -> Option<Float> {
    let str = std::str::from_utf8(text).ok()?;
    match text {
        [b'0', b'f' | b'F', ..] => u32::from_str_radix(&str[2..], 16).ok().map(Float::Single),
        [b'0', b'd' | b'D', ..] => u64::from_str_radix(&str[2..], 16).ok().map(Float::Double),
        _ => str.parse::<f64>().ok().map(|v| Float::Double(v.to_bits())),
    }
}

/// An integer of a constant expression.
#[derive(Clone, Copy)]
struct Value {
    bits: i64,
    is_unsigned: bool,
}

impl Value {
    fn signed(bits: i64) -> Self {
        let is_unsigned = false;
        Self { bits, is_unsigned }
    }
}

/// Evaluates the integer constant expression at the cursor.
pub(crate) fn expression(cursor: &mut Cursor<'_>) -> Result<i64, Fault> {
    Ok(ternary(cursor, 0)?.bits)
}

fn ternary(c: &mut Cursor<'_>, depth: u32) -> Result<Value, Fault> {
    let condition = binary(c, 0, depth)?;
    if !c.accept(b'?') {
        return Ok(condition);
    }
    let yes = ternary(c, nested(c, depth)?)?;
    c.expect(b':', "`:`")?;
    let no = ternary(c, nested(c, depth)?)?;
    Ok(if condition.bits != 0 { yes } else { no })
}

fn nested(c: &Cursor<'_>, depth: u32) -> Result<u32, Fault> {
    if depth >= MAX_NESTING {
        return Err(c.fault("more than 256 levels of nesting"));
    }
    Ok(depth + 1)
}

/// Returns the binary operator at the cursor: its two-byte code (second byte zero for one-character ones) and
/// precedence.
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

fn binary(c: &mut Cursor<'_>, least: u8, depth: u32) -> Result<Value, Fault> {
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

fn apply(op: [u8; 2], left: Value, right: Value) -> Option<Value> {
    let (a, b) = (left.bits, right.bits);
    let (x, y) = (a.cast_unsigned(), b.cast_unsigned());
    let is_unsigned = left.is_unsigned || right.is_unsigned;
    let shift = u32::try_from(b.rem_euclid(64)).unwrap_or(0);
    let less = |a: i64, b: i64| match is_unsigned {
        true => a.cast_unsigned() < b.cast_unsigned(),
        false => a < b,
    };
    let truth = match &op {
        b"||" => Some(a != 0 || b != 0),
        b"&&" => Some(a != 0 && b != 0),
        b"==" => Some(a == b),
        b"!=" => Some(a != b),
        b"<=" => Some(!less(b, a)),
        b">=" => Some(!less(a, b)),
        b"<\0" => Some(less(a, b)),
        b">\0" => Some(less(b, a)),
        _ => None,
    };
    if let Some(truth) = truth {
        return Some(Value::signed(truth.into()));
    }
    let bits = match &op {
        b"<<" => a.wrapping_shl(shift),
        b">>" if left.is_unsigned => x.wrapping_shr(shift).cast_signed(),
        b">>" => a.wrapping_shr(shift),
        b"|\0" => a | b,
        b"^\0" => a ^ b,
        b"&\0" => a & b,
        b"+\0" => a.wrapping_add(b),
        b"-\0" => a.wrapping_sub(b),
        b"*\0" => a.wrapping_mul(b),
        // A remainder is that of unsigned numbers, whatever its operands are.
        b"%\0" => x.checked_rem(y)?.cast_signed(),
        b"/\0" if is_unsigned => x.checked_div(y)?.cast_signed(),
        b"/\0" if b != 0 => a.wrapping_div(b),
        _ => return None,
    };
    let is_unsigned = match &op {
        b"<<" | b">>" => left.is_unsigned,
        _ => is_unsigned || op[0] == b'%',
    };
    Some(Value { bits, is_unsigned })
}

fn unary(c: &mut Cursor<'_>, depth: u32) -> Result<Value, Fault> {
    let depth = nested(c, depth)?;
    let of = |bits: i64, v: Value| Value { bits, ..v };
    match c.kind() {
        b'-' => {
            c.at += 1;
            unary(c, depth).map(|v| of(v.bits.wrapping_neg(), v))
        }
        b'+' => {
            c.at += 1;
            unary(c, depth)
        }
        b'~' => {
            c.at += 1;
            let bits = !unary(c, depth)?.bits;
            let is_unsigned = true;
            Ok(Value { bits, is_unsigned })
        }
        b'!' => {
            c.at += 1;
            let is_zero = unary(c, depth)?.bits == 0;
            Ok(Value::signed(is_zero.into()))
        }
        b'(' => {
            c.at += 1;
            if let Some(is_unsigned) = cast(c) {
                c.at += 2;
                return unary(c, depth).map(|v| Value { is_unsigned, ..v });
            }
            let value = ternary(c, depth)?;
            c.expect(b')', "`)`")?;
            Ok(value)
        }
        kind::INT => {
            let here = *c;
            let text = c.bump_text();
            let value = integer(text).ok_or_else(|| here.fault("malformed octal number"))?;
            let suffix = matches!(text, [.., b'U']);
            Ok(Value {
                bits: value.cast_signed(),
                is_unsigned: suffix || i64::try_from(value).is_err(),
            })
        }
        kind::NAME if c.token().sym() == VOCABULARY.warp_sz => {
            c.at += 1;
            Ok(Value::signed(32))
        }
        _ => Err(c.expected("a constant")),
    }
}

/// Returns whether `.s64)` or `.u64)` stands at the cursor, the rest of a cast, and which of them.
pub(crate) fn cast(c: &Cursor<'_>) -> Option<bool> {
    if c.kind() != kind::DOT || c.kind_after() != b')' {
        return None;
    }
    match c.name(c.token().sym()) {
        "s64" => Some(false),
        "u64" => Some(true),
        _ => None,
    }
}

/// Returns whether the constant at the cursor is a floating one: behind signs and parentheses stands a floating
/// literal.
pub(crate) fn is_floating(c: &Cursor<'_>) -> bool {
    let mut kinds = c.tokens[c.at..].iter().map(|t| t.kind());
    kinds.find(|k| !matches!(k, b'-' | b'+' | b'(')) == Some(kind::FLOAT)
}

/// Evaluates the floating constant expression at the cursor; a `0f` literal stands alone.
pub(crate) fn floating(c: &mut Cursor<'_>) -> Result<Float, Fault> {
    let here = *c;
    let malformed = || here.fault("malformed number");
    if c.kind() == kind::FLOAT
        && let Some(single @ Float::Single(_)) = float(c.text(c.token()))
    {
        c.at += 1;
        return Ok(single);
    }
    if c.kind() == kind::FLOAT && !matches!(c.kind_after(), b'+' | b'-' | b'*' | b'/') {
        return float(c.bump_text()).ok_or_else(malformed);
    }
    Ok(Float::Double(sum(c, 0)?.to_bits()))
}

fn sum(c: &mut Cursor<'_>, depth: u32) -> Result<f64, Fault> {
    let mut value = product(c, depth)?;
    loop {
        match c.kind() {
            b'+' => {
                c.at += 1;
                value += product(c, depth)?;
            }
            b'-' => {
                c.at += 1;
                value -= product(c, depth)?;
            }
            _ => return Ok(value),
        }
    }
}

fn product(c: &mut Cursor<'_>, depth: u32) -> Result<f64, Fault> {
    let mut value = factor(c, depth)?;
    loop {
        match c.kind() {
            b'*' => {
                c.at += 1;
                value *= factor(c, depth)?;
            }
            b'/' => {
                c.at += 1;
                value /= factor(c, depth)?;
            }
            _ => return Ok(value),
        }
    }
}

fn factor(c: &mut Cursor<'_>, depth: u32) -> Result<f64, Fault> {
    let depth = nested(c, depth)?;
    match c.kind() {
        b'-' => {
            c.at += 1;
            factor(c, depth).map(|v| -v)
        }
        b'+' => {
            c.at += 1;
            factor(c, depth)
        }
        b'(' => {
            c.at += 1;
            let value = sum(c, depth)?;
            c.expect(b')', "`)`")?;
            Ok(value)
        }
        kind::FLOAT => match float(c.text(c.token())) {
            Some(Float::Double(bits)) => {
                c.at += 1;
                Ok(f64::from_bits(bits))
            }
            Some(Float::Single(_)) => Err(c.fault("a `0f` literal takes no sign or operator")),
            None => Err(c.fault("malformed number")),
        },
        _ => Err(c.expected("a floating constant")),
    }
}
