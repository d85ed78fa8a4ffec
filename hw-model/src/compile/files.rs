//! Names of source files: the module's `.file` directives (PTX ISA section 11.5.3), which `.loc` refers to by number.
//!
//! Rule: a directive that does not read as expected names nothing; messages then give the number.

use std::sync::Arc;

/// Returns the number and name of each `.file NUMBER "NAME"` of a text.
pub(super) fn named(text: &[u8]) -> Arc<[(u32, Arc<str>)]> {
    let lines = text.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| named_in(line.trim_ascii()))
        .collect()
}

fn named_in(line: &[u8]) -> Option<(u32, Arc<str>)> {
    let rest = line.strip_prefix(b".file")?;
    let rest = std::str::from_utf8(rest).ok()?.trim_start();
    let (number, rest) = rest.split_once(|c: char| !c.is_ascii_digit())?;
    let (_, rest) = rest.split_once('"')?;
    let (name, _) = rest.split_once('"')?;
    Some((number.parse().ok()?, name.into()))
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn directives_are_found_and_anything_else_is_not() {
        let text = b".version 8.0\n\t.file\t1 \"/src/a b.cu\"\n.file 2 \"x.h\", 1, 2\r\n.file\n// .file 3 \"no\"\n\
            .filename 4 \"no\"\n";
        let found: Vec<_> = named(text)
            .iter()
            .map(|(n, s)| (*n, s.to_string()))
            .collect();
        assert_eq!(
            found,
            [(1, "/src/a b.cu".to_owned()), (2, "x.h".to_owned())]
        );
    }
}
