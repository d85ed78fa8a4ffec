//! Why a description is refused.

use super::keys;
use std::borrow::Cow;

/// Why a GPU description was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is no valid TOML, lacks a key or has a value of the wrong kind.
    #[error("the GPU description cannot be read: {0}")]
    Syntax(String),
    /// No built-in description has this name.
    #[error("no built-in GPU is called '{name}'; there are: {known}")]
    UnknownBuiltin {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A description has no such key.
    #[error("a GPU description has no key '{key}'{}; {}", nearest_text(nearest.as_deref()), known_text(table, known))]
    UnknownKey {
        /// Dotted name of the key.
        key: String,
        /// Dotted name of the table that it stands in; empty for the whole description.
        table: String,
        /// Name of the key in that table that is most like it, if one is.
        nearest: Option<String>,
        /// Names that there are in the table; none where there is no such table.
        known: Vec<&'static str>,
    },
    /// A change of a key is not written as one.
    #[error("{0:?} is not KEY=VALUE, as sm.scheduler=lrr")]
    Change(String),
    /// A value makes no sense.
    #[error("{key} = {value} makes no sense: {reason}")]
    Value {
        /// Dotted name of the key.
        key: &'static str,
        /// The value given.
        value: String,
        /// What it must be.
        reason: Cow<'static, str>,
    },
    /// Two parts of a description contradict each other.
    #[error("{key} = {value} and {other} = {other_value} contradict each other: {reason}")]
    Contradiction {
        /// Dotted name of one key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Dotted name of the other one.
        other: &'static str,
        /// Its value.
        other_value: String,
        /// What must be true of them.
        reason: &'static str,
    },
}

impl ConfigError {
    /// Makes the error of a key that does not exist in a table.
    pub(super) fn unknown(table: &str, name: &str) -> Self {
        let known = keys::within(table);
        let close = known
            .iter()
            .map(|key| (strsim::jaro_winkler(key, name), key));
        let nearest = close.max_by(|one, other| one.0.total_cmp(&other.0));
        Self::UnknownKey {
            key: super::dotted(table, name),
            table: table.to_owned(),
            nearest: (nearest.filter(|(close, _)| *close > ALIKE))
                .map(|(_, key)| (*key).to_owned()),
            known,
        }
    }
}

/// From here on two names are so much alike that one may be meant by the other.
const ALIKE: f64 = 0.8;

fn nearest_text(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" ('{name}' is the nearest)"))
}

fn known_text(table: &str, known: &[&str]) -> String {
    match (table, known) {
        (_, []) => format!("'{table}' is a value and no table"),
        ("", _) => format!(
            "it has: {}; a file may begin with base, and have estimates",
            known.join(", ")
        ),
        _ => format!("[{table}] has: {}", known.join(", ")),
    }
}
