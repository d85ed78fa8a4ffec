//! Reading TOML, with errors that name the key.
//!
//! Rules: which key it is comes from the deserializer, through `serde_path_to_error`; what was found there and what was
//! expected is told in the parser's own words, which nothing here takes apart. A text without quotes gets one sentence
//! more, because the parser takes one that begins with `f` or `t` for a wrong boolean.

use serde::de::DeserializeOwned;
use serde_path_to_error::deserialize;
use toml::Table;
use toml::de::{Deserializer, Error};

/// Reads a value from a text.
///
/// # Errors
/// The place, the line, and a sentence that begins with the key.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let parsed = Deserializer::parse(text).map_err(|error| match unquoted(text, &error) {
        Some((key, word)) => {
            let told = error.to_string();
            format!("{}\ntext needs quotes: {key} = \"{word}\"", told.trim_end())
        }
        None => error.to_string(),
    })?;
    deserialize(parsed).map_err(|error| with_key(&error))
}

/// Reads a value from a table.
///
/// # Errors
/// A sentence that begins with the key.
pub fn from_table<T: DeserializeOwned>(table: Table) -> Result<T, String> {
    deserialize(table).map_err(|error| with_key(&error))
}

/// Returns what is wrong: the place and the line, where the parser knows them, and a sentence that begins with the key.
fn with_key(error: &serde_path_to_error::Error<Error>) -> String {
    let (key, error) = (error.path().to_string(), error.inner());
    let sentence = match &*key {
        "." => error.message().to_owned(),
        key => format!("{key}: {}", error.message()),
    };
    let shown = error.to_string();
    // Without a place, the text in front of the parser's sentence says nothing.
    match shown.trim_end().strip_suffix(error.message()) {
        Some(place) if error.span().is_some() => format!("{place}{sentence}"),
        _ => sentence,
    }
}

/// Returns the key and the value of the line that an error is about, if the value is a word without quotes.
fn unquoted<'a>(text: &'a str, error: &Error) -> Option<(&'a str, &'a str)> {
    let at = error.span()?.start;
    let begin = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let (key, value) = text[begin..].lines().next()?.split_once('=')?;
    let word = value.split('#').next()?.trim();
    let is_word = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c));
    let is_value = ["true", "false", "inf", "nan"].contains(&word);
    (is_word && !is_value).then_some((key.trim(), word))
}

#[cfg(test)]
mod tests {
    use super::{from_table, from_text};
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "what is read is not looked at")]
    struct Whole {
        name: Option<String>,
        #[serde(default)]
        list: Vec<Part>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "what is read is not looked at")]
    struct Part {
        number: u16,
    }

    #[test]
    fn each_mistake_is_told_with_its_key_its_value_and_what_is_expected() {
        for (text, due) in [
            ("name = 5", ["name: ", "`5`", "expected a string"]),
            ("list = 7", ["list: ", "`7`", "expected a sequence"]),
            (
                "[[list]]\nnumber = 1\n[[list]]\nnumber = 1.5",
                ["list[1].number: ", "`1.5`", "expected u16"],
            ),
            (
                "[[list]]\nnumbr = 1",
                ["list[0].numbr: ", "`numbr`", "expected `number`"],
            ),
            ("[[list]]", ["list[0]: ", "missing", "`number`"]),
        ] {
            let told = from_text::<Whole>(text).unwrap_err();
            let sentence = told.lines().last().unwrap();
            assert!(sentence.starts_with(due[0]), "{told}");
            assert!(due.iter().all(|part| sentence.contains(part)), "{told}");
            assert!(told.starts_with("TOML parse error at line "), "{told}");
            let table = toml::from_str(text).unwrap();
            assert_eq!(from_table::<Whole>(table).unwrap_err(), sentence);
        }
    }

    #[test]
    fn what_is_no_toml_is_told_as_the_parser_does() {
        let text = "name = ";
        let error = toml::from_str::<Whole>(text).unwrap_err();
        assert_eq!(from_text::<Whole>(text).unwrap_err(), error.to_string());
    }

    #[test]
    fn a_text_without_quotes_is_told_to_need_them() {
        for word in ["fifo", "trusted", "smk-p", "model:h200"] {
            let told = from_text::<Whole>(&format!("list = []\nname = {word} # a name\n"));
            let told = told.unwrap_err();
            let hint = format!("text needs quotes: name = \"{word}\"");
            assert_eq!(told.lines().last(), Some(&*hint), "{told}");
        }
        for other in ["name = 1.2.3", "name = 'a", "name = true false", "name"] {
            let told = from_text::<Whole>(other).unwrap_err();
            assert!(!told.contains("quotes: "), "{told}");
        }
    }
}
