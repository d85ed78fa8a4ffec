//! PTX text with lines that a terminal has room for: broken after statements, and statements at blanks.
//!
//! A rewrite adds all that it adds to a line of the original, so that line numbers stay those of the original; such
//! lines are too long to read.
//!
//! Rules: lines that fit stay as they are; nothing is broken in a string or a comment; the text means the same.

use crate::table::TERMINAL;

/// Indentation of the rest of a broken statement, behind that of its line.
const REST: &[u8] = b"    ";
/// Columns from one tabulator to the next.
const TABULATOR: usize = 8;

/// Returns a text whose lines a terminal has room for, as far as they have places at which they can be broken.
pub(super) fn broken(text: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match fits(line) {
            true => shown.extend_from_slice(line),
            false => break_line(line, &mut shown),
        }
    }
    shown
}

/// Returns whether a terminal has room for a line.
fn fits(line: &[u8]) -> bool {
    let width = |columns: usize, byte: &u8| match byte {
        b'\n' | b'\r' => columns,
        b'\t' => (columns / TABULATOR + 1) * TABULATOR,
        // What follows the first byte of a character beyond ASCII has no column.
        0x80..0xc0 => columns,
        _ => columns + 1,
    };
    line.iter().fold(0, width) <= usize::from(TERMINAL)
}

/// Appends a line, with an end of line and its own indentation behind each `;`, `{` and `}`, and where a statement
/// needs one, outside of strings and comments. A comment to the end of the line stays as it is.
fn break_line(line: &[u8], shown: &mut Vec<u8>) {
    let indentation = line.iter().take_while(|byte| b" \t".contains(byte));
    let indentation = &line[..indentation.count()];
    let (mut in_string, mut in_comment, mut is_escaped) = (false, false, false);
    // Where the line begins that is being written, and where it may be broken.
    let (mut begin, mut blank) = (shown.len(), None);
    let mut rest = line;
    while let [byte, tail @ ..] = rest {
        if !in_string && !in_comment && rest.starts_with(b"//") {
            break;
        }
        match byte {
            // A backslash takes what a quotation mark means away from it.
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' => is_escaped = in_string,
            b'"' if !in_comment => in_string = !in_string,
            b'*' if in_comment && tail.first() == Some(&b'/') => in_comment = false,
            b'/' if !in_string && tail.first() == Some(&b'*') => in_comment = true,
            _ => {}
        }
        let is_code = !in_string && !in_comment;
        if *byte == b' ' && is_code && shown.len() > begin + indentation.len() {
            blank = Some(shown.len());
        }
        shown.push(*byte);
        rest = tail;
        if let Some(at) = blank.filter(|_| !fits(&shown[begin..])) {
            let next = [b"\n", indentation, REST].concat();
            shown.splice(at..=at, next);
            (begin, blank) = (at + 1, None);
        }
        if b";{}".contains(byte) && is_code && rest.starts_with(b" ") {
            rest = rest.trim_ascii_start();
            shown.push(b'\n');
            (begin, blank) = (shown.len(), None);
            shown.extend_from_slice(indentation);
        }
    }
    shown.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::{TERMINAL, broken};

    fn shown(text: &str) -> String {
        String::from_utf8(broken(text.as_bytes())).unwrap()
    }

    #[test]
    fn lines_that_fit_stay_as_they_are() {
        let text = "\tadd.u32 %r1, %r1, 1; ret;\n{ a; b; }\n";
        assert_eq!(shown(text), text);
    }

    #[test]
    fn a_long_line_is_broken_after_its_statements() {
        let name = "x".repeat(usize::from(TERMINAL));
        let text = format!("  mov.u32 {name}, 1; {{ ret; }} // a; {name}\n");
        let due =
            format!("  mov.u32\n      {name},\n      1;\n  {{\n  ret;\n  }}\n  // a; {name}\n");
        assert_eq!(shown(&text), due);
    }

    #[test]
    fn a_string_is_not_broken_and_a_quotation_mark_in_it_does_not_end_it() {
        let blanks = "a; b ".repeat(30);
        for string in [format!("\"{blanks}\""), format!("\"\\\" {blanks}\\\\\"")] {
            let text = format!(".pragma {string}; ret;\n");
            let due = format!(".pragma\n    {string};\nret;\n");
            assert_eq!(shown(&text), due);
        }
    }

    #[test]
    fn a_comment_is_not_broken() {
        let comment = format!("/* {} */", "a; \" b ".repeat(30));
        let text = format!("{comment} ret; exit;\n");
        assert_eq!(shown(&text), format!("{comment}\n    ret;\nexit;\n"));
    }
}
