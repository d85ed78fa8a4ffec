//! The formats of `printf` (ISO C, section 7.23.6.1), as far as device code may use them (CUDA C++ Programming
//! Guide, section "Format Specifiers").
//!
//! Rules: a conversion that is not known is copied as it stands; an argument that is not there ends the text; text and
//! work of one call are bounded, and what a bound cuts off is counted.

use std::fmt::Write;

/// What a conversion takes from the argument list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// `int` and what is promoted to it.
    Int,
    /// `long`, `long long`, `size_t`, pointers.
    Long,
    /// `double`.
    Double,
    /// Address of a string, and the most characters of it that are shown.
    Text(usize),
}

impl Value {
    /// Returns the bytes and alignment in the argument list.
    pub(crate) fn bytes(self) -> usize {
        if self == Self::Int { 4 } else { 8 }
    }
}

/// An argument as found in memory.
#[derive(Debug)]
pub(crate) enum Argument {
    Word(u64),
    Text(String),
}

#[derive(Debug, Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// Bytes of an integer.
    bytes: u32,
}

/// Longest field; a wider one is hostile.
const MAX_WIDTH: usize = 4096;

/// Most bytes that one call prints.
const MAX_BYTES: usize = 8 << 10;
/// Most work of one call: digits and characters that its conversions look at, shown or not.
const MAX_WORK: usize = 32 << 10;

/// What a call came to, beside its text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes that were cut off, of text or of a template that was not looked at.
    pub(crate) lost_bytes: u64,
    /// Bytes that were looked at or made.
    pub(crate) work: u64,
}

/// Appends `template` to `out`, with arguments from `next`.
pub(crate) fn format(
    template: &str,
    out: &mut String,
    mut next: impl FnMut(Value) -> Option<Argument>,
) -> Cost {
    let start = out.len();
    let mut rest = template;
    let mut work = 0;
    while let Some(at) = rest.find('%') {
        if out.len() - start > MAX_BYTES || work > MAX_WORK {
            break;
        }
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        match convert(tail, out, &mut next, &mut work) {
            Some(length) => rest = &tail[length..],
            None => rest = "",
        }
    }
    let mut lost = 0;
    if out.len() - start <= MAX_BYTES && work <= MAX_WORK {
        out.push_str(rest);
    } else {
        lost = rest.len();
    }
    let made = out.len() - start;
    let end = out.floor_char_boundary(start + MAX_BYTES);
    lost += out.len() - end;
    out.truncate(end);
    Cost {
        lost_bytes: lost as u64,
        work: (template.len() + work + made) as u64,
    }
}

/// Returns one conversion at the beginning of `tail`; its length, or `None` when an argument is missing.
fn convert(
    tail: &str,
    out: &mut String,
    next: &mut impl FnMut(Value) -> Option<Argument>,
    work: &mut usize,
) -> Option<usize> {
    let bytes = tail.as_bytes();
    let (c, mut at) = prefix(bytes, next)?;
    let Some(kind) = bytes.get(at).copied() else {
        out.push_str(tail);
        return Some(tail.len());
    };
    at += 1;
    let integer = if c.bytes == 8 {
        Value::Long
    } else {
        Value::Int
    };
    let mut word = |value| match next(value)? {
        Argument::Word(word) => Some(word),
        Argument::Text(_) => None,
    };
    match kind {
        b'%' => out.push('%'),
        b'd' | b'i' => signed(&c, word(integer)?, out),
        b'u' | b'x' | b'X' | b'o' => unsigned(&c, kind, word(integer)?, out),
        b'c' => {
            let byte = u8::try_from(word(Value::Int)? & 0xff).unwrap_or(b'?');
            pad(&c, "", &char::from(byte).to_string(), false, out);
        }
        b'p' => pad(&c, "", &format!("{:#x}", word(Value::Long)?), false, out),
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
            *work += c.precision.unwrap_or(0);
            double(&c, kind, f64::from_bits(word(Value::Double)?), out);
        }
        b's' => {
            let most = c.precision.unwrap_or(usize::MAX);
            let Argument::Text(text) = next(Value::Text(most))? else {
                return None;
            };
            *work += text.len();
            let shown: String = text.chars().take(most).collect();
            pad(&c, "", &shown, false, out);
        }
        _ => {
            // The byte may begin a longer character, which stays whole.
            let end = (at..=tail.len()).find(|end| tail.is_char_boundary(*end))?;
            out.push_str(&tail[..end]);
            return Some(end);
        }
    }
    Some(at)
}

/// Flags, width, precision and length, and where they end.
fn prefix(
    bytes: &[u8],
    next: &mut impl FnMut(Value) -> Option<Argument>,
) -> Option<(Conversion, usize)> {
    let mut c = Conversion {
        bytes: 4,
        ..Conversion::default()
    };
    let mut at = 1;
    while let Some(flag) = bytes.get(at) {
        match flag {
            b'-' => c.left = true,
            b'+' => c.plus = true,
            b' ' => c.space = true,
            b'#' => c.alternative = true,
            b'0' => c.zero = true,
            _ => break,
        }
        at += 1;
    }
    let width = number(bytes, &mut at, next)?;
    c.left |= width.is_some_and(|w| w < 0);
    c.width = usize::try_from(width.unwrap_or(0).unsigned_abs())
        .unwrap_or(0)
        .min(MAX_WIDTH);
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        let precision = number(bytes, &mut at, next)?.unwrap_or(0);
        c.precision = usize::try_from(precision).ok().map(|p| p.min(MAX_WIDTH));
    }
    while let Some(length) = bytes.get(at) {
        match length {
            b'h' => c.bytes = if c.bytes == 2 { 1 } else { 2 },
            b'l' | b'j' | b'z' | b't' => c.bytes = 8,
            _ => break,
        }
        at += 1;
    }
    Some((c, at))
}

/// A width or precision: digits or `*`; the outer `None` when an argument is missing.
fn number(
    bytes: &[u8],
    at: &mut usize,
    next: &mut impl FnMut(Value) -> Option<Argument>,
) -> Option<Option<i64>> {
    if bytes.get(*at) == Some(&b'*') {
        *at += 1;
        let Argument::Word(word) = next(Value::Int)? else {
            return None;
        };
        return Some(Some(sign_extended(word, 4)));
    }
    let mut found = None;
    while let Some(digit) = bytes.get(*at).filter(|b| b.is_ascii_digit()) {
        let value = found.unwrap_or(0_i64) * 10 + i64::from(digit - b'0');
        found = Some(value.min(1 << 20));
        *at += 1;
    }
    Some(found)
}

fn sign_extended(word: u64, bytes: u32) -> i64 {
    let unused = 64 - 8 * bytes;
    (word << unused).cast_signed() >> unused
}

fn signed(c: &Conversion, word: u64, out: &mut String) {
    let value = sign_extended(word, c.bytes);
    let digits = at_least(c, value.unsigned_abs().to_string(), value == 0);
    pad(c, sign(c, value < 0), &digits, c.precision.is_none(), out);
}

fn unsigned(c: &Conversion, kind: u8, word: u64, out: &mut String) {
    let value = word & (u64::MAX >> (64 - 8 * c.bytes));
    let (digits, prefix) = match kind {
        b'x' => (format!("{value:x}"), "0x"),
        b'X' => (format!("{value:X}"), "0X"),
        b'o' => (format!("{value:o}"), "0"),
        _ => (value.to_string(), ""),
    };
    let digits = at_least(c, digits, value == 0);
    let shows = c.alternative && value != 0 && !(kind == b'o' && digits.starts_with('0'));
    let prefix = if shows { prefix } else { "" };
    pad(c, prefix, &digits, c.precision.is_none(), out);
}

/// Returns digits, with zeros before them as the precision asks for; none for zero with precision 0.
fn at_least(c: &Conversion, digits: String, is_zero: bool) -> String {
    match c.precision {
        Some(0) if is_zero => String::new(),
        Some(least) if digits.len() < least => "0".repeat(least - digits.len()) + &digits,
        _ => digits,
    }
}

fn sign(c: &Conversion, negative: bool) -> &'static str {
    match (negative, c.plus, c.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

fn double(c: &Conversion, kind: u8, value: f64, out: &mut String) {
    let magnitude = value.abs();
    let upper = kind.is_ascii_uppercase();
    let mut digits = if magnitude.is_nan() {
        "nan".to_owned()
    } else if magnitude.is_infinite() {
        "inf".to_owned()
    } else {
        match kind.to_ascii_lowercase() {
            b'f' => fixed(c, magnitude, c.precision.unwrap_or(6)),
            b'e' => exponential(c, magnitude, c.precision.unwrap_or(6)),
            b'a' => hexadecimal(c, magnitude),
            _ => shortest(c, magnitude),
        }
    };
    if upper {
        digits.make_ascii_uppercase();
    }
    let negative = value.is_sign_negative() && !value.is_nan();
    pad(c, sign(c, negative), &digits, value.is_finite(), out);
}

fn fixed(c: &Conversion, value: f64, precision: usize) -> String {
    let point = if c.alternative && precision == 0 {
        "."
    } else {
        ""
    };
    format!("{value:.precision$}{point}")
}

fn exponential(c: &Conversion, value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if c.alternative && precision == 0 {
        "."
    } else {
        ""
    };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{point}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the text of `%g`: exponential for exponents below -4 or not below the precision, without trailing zeros.
fn shortest(c: &Conversion, value: f64) -> String {
    let precision = c.precision.unwrap_or(6).max(1);
    let text = format!("{value:.*e}", precision - 1);
    let exponent = text
        .split_once('e')
        .and_then(|(_, e)| e.parse::<i64>().ok());
    let exponent = exponent.unwrap_or(0);
    let digits = i64::try_from(precision).unwrap_or(i64::MAX);
    let scientific = exponent < -4 || exponent >= digits;
    let text = if scientific {
        exponential(c, value, precision - 1)
    } else {
        fixed(
            c,
            value,
            usize::try_from(digits - 1 - exponent).unwrap_or(0),
        )
    };
    if c.alternative {
        return text;
    }
    let (mantissa, tail) = match text.split_once('e') {
        Some((mantissa, tail)) => (mantissa, Some(tail)),
        None => (&*text, None),
    };
    let mut short = mantissa;
    if short.contains('.') {
        short = short.trim_end_matches('0').trim_end_matches('.');
    }
    match tail {
        Some(tail) => format!("{short}e{tail}"),
        None => short.to_owned(),
    }
}

/// Returns the text of `%a`: one hexadecimal digit, the fraction, and a binary exponent.
fn hexadecimal(c: &Conversion, value: f64) -> String {
    let bits = value.to_bits();
    let (biased, mut fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    let mut leading = u64::from(biased != 0);
    let exponent = match (biased, fraction) {
        (0, 0) => 0,
        (0, _) => -1022,
        _ => i64::try_from(biased).unwrap_or(0) - 1023,
    };
    let digits = c.precision.unwrap_or(13).min(13);
    if digits < 13 {
        // Round to nearest, ties to even, which may carry into the leading digit.
        let drop = 4 * (13 - digits);
        let whole = leading << 52 | fraction;
        let half = 1_u64 << (drop - 1);
        let odd = whole >> drop & 1;
        let rounded = (whole + half - 1 + odd) >> drop << drop;
        leading = rounded >> 52;
        fraction = rounded & ((1 << 52) - 1);
    }
    let mut text = format!("{fraction:013x}");
    text.truncate(digits);
    if c.precision.is_none() {
        text.truncate(text.trim_end_matches('0').len());
    }
    let point = if text.is_empty() && !c.alternative {
        ""
    } else {
        "."
    };
    format!("0x{leading}{point}{text}p{exponent:+}")
}

/// Appends prefix and digits in a field; zeros go between them.
fn pad(c: &Conversion, prefix: &str, digits: &str, zeros: bool, out: &mut String) {
    let length = prefix.len() + digits.chars().count();
    let missing = c.width.saturating_sub(length);
    let _ = if c.left {
        write!(out, "{prefix}{digits}{:missing$}", "")
    } else if c.zero && zeros {
        write!(out, "{prefix}{}{digits}", "0".repeat(missing))
    } else {
        write!(out, "{:missing$}{prefix}{digits}", "")
    };
}

#[cfg(test)]
mod tests {
    use super::{Argument, Value, format};

    /// Checks a text against what glibc prints.
    fn check(template: &str, words: &[u64], expected: &str) {
        let mut left = words.iter().copied();
        let mut out = String::new();
        format(template, &mut out, |value| {
            let word = left.next()?;
            Some(match value {
                Value::Text(_) => Argument::Text(format!("text{word}")),
                _ => Argument::Word(word),
            })
        });
        assert_eq!(out, expected, "{template}");
    }

    #[test]
    fn integers_as_c_prints_them() {
        check(
            "%d|%5d|%-5d|%05d|%+d|% d",
            &[0xffff_ffff, 42, 42, 42, 7, 7],
            "-1|   42|42   |00042|+7| 7",
        );
        check(
            "%u %x %X %#x %o %#o",
            &[0xffff_ffff, 255, 255, 255, 8, 8],
            "4294967295 ff FF 0xff 10 010",
        );
        check(
            "%ld %llu %zx",
            &[u64::MAX, u64::MAX, 1 << 40],
            "-1 18446744073709551615 10000000000",
        );
        check(
            "%hhd %hu %.3d %.0d|%8.3d|%*d",
            &[0x1ff, 0x1_0001, 5, 0, 5, 6, 9],
            "-1 1 005 |     005|     9",
        );
    }

    #[test]
    fn doubles_as_c_prints_them() {
        let bits = f64::to_bits;
        check(
            "%f %.2f %8.3f|%-8.1f|%+.0f",
            &[bits(1.5), bits(2.675), bits(-3.2517), bits(2.25), bits(2.5)],
            "1.500000 2.67   -3.252|2.2     |+2",
        );
        check(
            "%e %.3E %g %g %g %g",
            &[
                bits(12345.678),
                bits(0.00012),
                bits(100_000.0),
                bits(1_000_000.0),
                bits(0.0001),
                bits(1e-5),
            ],
            "1.234568e+04 1.200E-04 100000 1e+06 0.0001 1e-05",
        );
        check(
            "%a %a %.1a",
            &[bits(1.0), bits(-0.15625), bits(1.999)],
            "0x1p+0 -0x1.4p-3 0x2.0p+0",
        );
        check(
            "%f %F %5.1f|%05.1f",
            &[bits(f64::INFINITY), bits(f64::NAN), bits(0.25), bits(-0.5)],
            "inf NAN   0.2|-00.5",
        );
    }

    #[test]
    fn a_call_is_bounded_in_text_and_work() {
        let long = "é".repeat(2000);
        let (mut out, mut taken) = ("before".to_owned(), 0);
        let cost = format(&"%s".repeat(2000), &mut out, |_| {
            taken += 1;
            Some(Argument::Text(long.clone()))
        });
        assert_eq!((out.len(), taken), (6 + 8192, 3));
        assert_eq!(cost.lost_bytes, 12000 - 8192 + 2 * 1997);
        // What shows one digit may look at thousands.
        let (mut out, mut taken) = (String::new(), 0);
        let cost = format(&"%.4096g".repeat(500), &mut out, |_| {
            taken += 1;
            Some(Argument::Word(1_f64.to_bits()))
        });
        assert_eq!((&*out, taken, cost.lost_bytes), ("111111111", 9, 491 * 7));
        let mut asked = Vec::new();
        format("%.3s%s", &mut String::new(), |value| {
            asked.push(value);
            Some(Argument::Text("text".to_owned()))
        });
        assert_eq!(asked, [Value::Text(3), Value::Text(usize::MAX)]);
    }

    #[test]
    fn text_and_what_is_no_conversion() {
        check(
            "%s|%6s|%-6s|%.2s|%c|%%|%p",
            &[1, 2, 3, 4, 65, 4096],
            "text1| text2|text3 |te|A|%|0x1000",
        );
        check("100%, sure", &[7], "100%, sure");
        check("%y and ä%", &[], "%y and ä%");
        check("one %d two %d", &[1], "one 1 two ");
    }
}
