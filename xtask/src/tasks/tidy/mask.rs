//! Blanks comments, strings and characters out of Rust source, so that a search finds code only.
//!
//! Every byte outside code becomes a space and line ends stay, so that positions in the masked text are positions in
//! the source.

/// Returns the source with everything that is not code blanked.
pub(super) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut masked = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = skip(bytes, at);
        if end == at {
            at += 1;
            continue;
        }
        for byte in &mut masked[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Blanking whole characters keeps the text valid UTF-8; a cut one would show as a replacement character.
    String::from_utf8_lossy(&masked).into_owned()
}

/// Returns where the comment, string or character that starts at `at` ends; `at` itself if none starts there.
fn skip(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return rest
            .iter()
            .position(|&b| b == b'\n')
            .map_or(bytes.len(), |n| at + n);
    }
    if rest.starts_with(b"/*") {
        return block_comment(bytes, at);
    }
    if rest[0] == b'"' {
        return string(bytes, at + 1);
    }
    if rest[0] == b'\'' {
        return character(bytes, at);
    }
    let starts_word = at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest[0] == b'r' && (starts_word || matches!(bytes[at - 1], b'b' | b'c')) {
        return raw_string(bytes, at);
    }
    at
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start + 2, 1);
    while at < bytes.len() && depth > 0 {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    at
}

/// `at` is behind the opening quote.
fn string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `r"…"`, `r#"…"#` and so on; a raw identifier such as `r#type` is none.
fn raw_string(bytes: &[u8], start: usize) -> usize {
    let hashes = bytes[start + 1..]
        .iter()
        .take_while(|&&b| b == b'#')
        .count();
    if bytes.get(start + 1 + hashes) != Some(&b'"') {
        return start;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = start + 2 + hashes;
    bytes[body..]
        .windows(close.len())
        .position(|window| window == close)
        .map_or(bytes.len(), |n| body + n + close.len())
}

/// `'a'`, `'\n'`, `'—'`; a lifetime or a label is none.
fn character(bytes: &[u8], start: usize) -> usize {
    if bytes.get(start + 1) == Some(&b'\\') {
        let close = bytes[start + 3..].iter().position(|&b| b == b'\'');
        return close.map_or(start, |n| start + 4 + n);
    }
    // One character of up to four bytes, then the quote.
    let width = match bytes.get(start + 1) {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        _ => 1,
    };
    if bytes.get(start + 1 + width) == Some(&b'\'') {
        start + 2 + width
    } else {
        start
    }
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn only_code_is_left() {
        let source = "let a = \"{ todo!() \\\" }\"; // {\nlet b = r#\"}\"\"#; \
            /* { /* } */ */ let c = '{';\nfn f<'a>(x: &'a str) -> char { '\\'' }";
        let masked = code_only(source);
        assert_eq!(masked.len(), source.len());
        assert_eq!(masked.matches('{').count(), 1);
        assert_eq!(masked.matches('}').count(), 1);
        assert!(masked.contains("fn f<'a>(x: &'a str)"));
        assert!(masked.contains("let c =") && !masked.contains("todo"));
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "/*\n\n*/ fn f() {}\nlet r#type = \"…\n\";\nlet x = 'é'; let y = b\"{\";\n";
        let masked = code_only(source);
        assert_eq!(masked.lines().count(), source.lines().count());
        assert!(masked.contains("let r#type =") && !masked.contains("b\"{"));
        assert_eq!(masked.matches('{').count(), 1);
    }
}
