//! What is wrong in a file of TOML, in plain words: the key, what it was given, and what is due there.
//!
//! Rule: the parser's own sentence is translated where it is known, and kept where it is not, so that nothing is lost.

use std::fmt::Write;

/// Returns what the parser found wrong in a text: the place, the line, and a sentence about it.
#[must_use]
pub fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let shown = error.to_string();
    let said = error.message();
    let Some(sentence) = translated(said) else {
        return shown;
    };
    let key = error.span().and_then(|span| key_at(text, span.start));
    let sentence = match (key, sentence) {
        (Some(key), Sentence::OfValue(sentence)) => format!("{key}: {sentence}"),
        (_, Sentence::OfValue(sentence) | Sentence::Whole(sentence)) => sentence,
    };
    match shown.rfind(said) {
        Some(at) => {
            let rest = shown[at + said.len()..].trim_end();
            format!("{}{sentence}{rest}", &shown[..at])
        }
        None => sentence,
    }
}

/// A translation.
#[derive(Debug, PartialEq, Eq)]
enum Sentence {
    /// It speaks of the value of a key that it does not name.
    OfValue(String),
    /// It names what it speaks of.
    Whole(String),
}

fn translated(said: &str) -> Option<Sentence> {
    let wrong = said.strip_prefix("invalid type: ");
    if let Some(wrong) = wrong.or_else(|| said.strip_prefix("invalid value: ")) {
        let (given, due) = wrong.rsplit_once(", expected ")?;
        let (given, due) = (self::given(given), self::due(due));
        return Some(Sentence::OfValue(format!(
            "{given} stands where {due} is due"
        )));
    }
    if let Some(unknown) = said.strip_prefix("unknown field ") {
        let (key, known) = unknown.split_once(", ")?;
        let known = listed(known).unwrap_or_else(|| "none is due".to_owned());
        return Some(Sentence::Whole(format!(
            "there is no key {key} here; {known}"
        )));
    }
    if let Some(unknown) = said.strip_prefix("unknown variant ") {
        let (value, known) = unknown.split_once(", ")?;
        let known = listed(known)?;
        return Some(Sentence::OfValue(format!("{value} is unknown; {known}")));
    }
    let missing = said.strip_prefix("missing field ")?;
    Some(Sentence::Whole(format!("the key {missing} is missing")))
}

/// Returns what there is, of `expected one of …` or `expected …`.
fn listed(expected: &str) -> Option<String> {
    let names = expected.strip_prefix("expected ")?;
    let names = names.strip_prefix("one of ").unwrap_or(names);
    Some(match names.contains(", ") || names.contains(" or ") {
        true => format!("there are {names}"),
        false => format!("there is {names}"),
    })
}

/// Returns what a value is called.
fn given(value: &str) -> String {
    let of = |kind: &str| value.strip_prefix(kind).map(|rest| rest.trim_matches('`'));
    if let Some(text) = of("string ") {
        return format!("the text {text}");
    }
    if let Some(number) = of("integer ").or_else(|| of("floating point ")) {
        return format!("the number {number}");
    }
    if let Some(truth) = of("boolean ") {
        return truth.to_owned();
    }
    match value {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns what a type is called.
fn due(kind: &str) -> String {
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    match kind {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        // The format's integers have a sign.
        "u64" | "usize" => whole(i64::MAX.unsigned_abs()),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "path string" | "string or map" => "a text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other if other.starts_with("enum ") => "a text in quotes".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the key whose value begins at a byte of the text, with the tables that it is in.
fn key_at(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at)?;
    let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
    let (key, value) = line.split_once('=')?;
    let mut name = String::new();
    let header = before.lines().rev().map(str::trim);
    let mut header = header.filter(|line| line.starts_with('[') && line.contains(']'));
    if let Some(header) = header.next() {
        let table = header.trim_start_matches('[');
        let table = table.split(']').next().unwrap_or(table);
        // Writing to a string cannot fail.
        let _ = write!(name, "{}.", table.trim());
    }
    name.push_str(key.trim());
    // In a table that stands on one line the last key before the value is meant.
    let within = value
        .rsplit(['{', ','])
        .next()
        .filter(|_| value.contains('{'));
    if let Some((key, _)) = within.and_then(|within| within.split_once('=')) {
        let _ = write!(name, ".{}", key.trim());
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::{due, given, toml_error};
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "what is read is not looked at")]
    struct Whole {
        name: Option<String>,
        shape: Option<Shape>,
        part: Option<Part>,
        #[serde(default)]
        list: Vec<Part>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "what is read is not looked at")]
    struct Part {
        number: u16,
        ratio: Option<f64>,
        is_on: Option<bool>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Shape {
        Round,
        Square,
    }

    #[test]
    fn each_mistake_is_told_with_its_key_and_what_is_due() {
        for (text, due) in [
            (
                "name = 5",
                "name: the number 5 stands where a text in quotes is due",
            ),
            (
                "[part]\nnumber = \"9\"",
                "part.number: the text \"9\" stands where a whole number from 0 to 65535 is due",
            ),
            (
                "[part]\nnumber = 70000",
                "part.number: the number 70000 stands where a whole number from 0 to 65535 is due",
            ),
            (
                "part = { ratio = 1.5, number = -1 }",
                "part.number: the number -1 stands where a whole number from 0 to 65535 is due",
            ),
            (
                "[[list]]\nnumber = 1.5",
                "list.number: the number 1.5 stands where a whole number from 0 to 65535 is due",
            ),
            (
                "[[list]]\nnumber = 1\nratio = true",
                "list.ratio: true stands where a number is due",
            ),
            (
                "[part]\nnumber = 1\nis_on = \"yes\"",
                "part.is_on: the text \"yes\" stands where true or false is due",
            ),
            ("part = 7", "part: the number 7 stands where a table is due"),
            (
                "name = [1]",
                "name: a list stands where a text in quotes is due",
            ),
            (
                "shape = \"oval\"",
                "shape: `oval` is unknown; there are `round` or `square`",
            ),
            (
                "[part]\nnumbr = 1",
                "there is no key `numbr` here; there are `number`, `ratio`, `is_on`",
            ),
            ("[part]\nratio = 1", "the key `number` is missing"),
        ] {
            let error = toml::from_str::<Whole>(text).unwrap_err();
            let told = toml_error(text, &error);
            assert_eq!(told.lines().last(), Some(due), "{told}");
            assert!(told.starts_with("TOML parse error at line "), "{told}");
        }
    }

    #[test]
    fn what_is_not_known_is_kept() {
        let text = "name = ";
        let error = toml::from_str::<Whole>(text).unwrap_err();
        assert_eq!(toml_error(text, &error), error.to_string());
        assert_eq!(due("a name, or a number"), "a name, or a number");
        assert_eq!(given("unit value"), "unit value");
    }
}
