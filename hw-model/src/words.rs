//! Reading TOML, with errors in plain words: the key, what was expected there, and what was found.
//!
//! Rules: which key it is comes from the deserializer, through `serde_path_to_error`; the parser's own sentence is
//! reworded where it is known, and kept where it is not, so that nothing is lost.

use serde::de::DeserializeOwned;
use serde_path_to_error::deserialize;
use toml::Table;
use toml::de::{Deserializer, Error};

/// Reads a value from a text.
///
/// # Errors
/// The place, the line, and a sentence that names the key.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let parsed = Deserializer::parse(text).map_err(|error| error.to_string())?;
    deserialize(parsed).map_err(|error| reworded(&error))
}

/// Reads a value from a table.
///
/// # Errors
/// A sentence that names the key.
pub fn from_table<T: DeserializeOwned>(table: Table) -> Result<T, String> {
    deserialize(table).map_err(|error| reworded(&error))
}

/// Returns what is wrong: the place and the line, as far as they are known, and a sentence that names the key.
fn reworded(error: &serde_path_to_error::Error<Error>) -> String {
    let (key, error) = (error.path().to_string(), error.inner());
    let said = error.message();
    let sentence = translated(said).unwrap_or_else(|| said.to_owned());
    let sentence = match &*key {
        "." => sentence,
        key => format!("{key}: {sentence}"),
    };
    let shown = error.to_string();
    // Without a place, the text in front of the sentence says nothing.
    match shown.rfind(said).filter(|_| error.span().is_some()) {
        Some(at) => {
            let rest = shown[at + said.len()..].trim_end();
            format!("{}{sentence}{rest}", &shown[..at])
        }
        None => sentence,
    }
}

/// Returns a sentence of the parser in plain words, if it is one that is known.
fn translated(said: &str) -> Option<String> {
    let wrong = said.strip_prefix("invalid type: ");
    if let Some(wrong) = wrong.or_else(|| said.strip_prefix("invalid value: ")) {
        let (found, expected) = wrong.rsplit_once(", expected ")?;
        let (found, expected) = (self::found(found), self::expected(expected));
        return Some(format!("expected {expected}, found {found}"));
    }
    if let Some(unknown) = said.strip_prefix("unknown field ") {
        let (key, known) = unknown.split_once(", ")?;
        let key = key.replace('`', "\"");
        let known = choice(known).map_or_else(String::new, |known| format!("; use {known}"));
        return Some(format!("there is no key {key} here{known}"));
    }
    if let Some(unknown) = said.strip_prefix("unknown variant ") {
        let (value, known) = unknown.split_once(", ")?;
        let (value, known) = (value.replace('`', "\""), choice(known)?);
        return Some(format!("{value} is unknown; use {known}"));
    }
    let missing = said.strip_prefix("missing field ")?;
    let missing = missing.replace('`', "\"");
    Some(format!("the key {missing} is missing"))
}

/// Returns what may be chosen, of a sentence with each name in backquotes.
fn choice(expected: &str) -> Option<String> {
    let names = expected.split('`').skip(1).step_by(2);
    let mut names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    let last = names.pop()?;
    Some(match names.is_empty() {
        true => last,
        false => format!("{} or {last}", names.join(", ")),
    })
}

/// Returns what a value is called.
fn found(value: &str) -> String {
    let of = |kind: &str| value.strip_prefix(kind).map(|rest| rest.trim_matches('`'));
    if let Some(text) = of("string ") {
        return format!("the string {text}");
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
fn expected(kind: &str) -> String {
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
        "a string" | "path string" | "string or map" => "a quoted string".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other if other.starts_with("enum ") => "a quoted string".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{expected, found, from_table, from_text};
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
    fn each_mistake_is_told_with_its_key_and_what_is_expected() {
        for (text, due) in [
            (
                "name = 5",
                "name: expected a quoted string, found the number 5",
            ),
            (
                "[part]\nnumber = \"9\"",
                "part.number: expected a whole number from 0 to 65535, found the string \"9\"",
            ),
            (
                "[part]\nnumber = 70000",
                "part.number: expected a whole number from 0 to 65535, found the number 70000",
            ),
            (
                "part = { ratio = 1.5, number = -1 }",
                "part.number: expected a whole number from 0 to 65535, found the number -1",
            ),
            (
                "[[list]]\nnumber = 1\n[[list]]\nnumber = 1.5",
                "list[1].number: expected a whole number from 0 to 65535, found the number 1.5",
            ),
            (
                "[[list]]\nnumber = 1\nratio = true",
                "list[0].ratio: expected a number, found true",
            ),
            (
                "[part]\nnumber = 1\nis_on = \"yes\"",
                "part.is_on: expected true or false, found the string \"yes\"",
            ),
            ("part = 7", "part: expected a table, found the number 7"),
            ("name = [1]", "name: expected a quoted string, found a list"),
            (
                "shape = \"oval\"",
                "shape: \"oval\" is unknown; use \"round\" or \"square\"",
            ),
            (
                "[part]\nnumbr = 1",
                "part.numbr: there is no key \"numbr\" here; use \"number\", \"ratio\" or \"is_on\"",
            ),
            ("[part]\nratio = 1", "part: the key \"number\" is missing"),
        ] {
            let told = from_text::<Whole>(text).unwrap_err();
            assert_eq!(told.lines().last(), Some(due), "{told}");
            assert!(told.starts_with("TOML parse error at line "), "{told}");
            let table = toml::from_str(text).unwrap();
            assert_eq!(from_table::<Whole>(table).unwrap_err(), due);
        }
    }

    #[test]
    fn what_is_not_known_is_kept() {
        let text = "name = ";
        let error = toml::from_str::<Whole>(text).unwrap_err();
        assert_eq!(from_text::<Whole>(text).unwrap_err(), error.to_string());
        assert_eq!(expected("a name, or a number"), "a name, or a number");
        assert_eq!(found("unit value"), "unit value");
    }
}
