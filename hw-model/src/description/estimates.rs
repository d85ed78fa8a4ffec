//! Which keys of a description have values without a source: `estimates = ["launch", "shared.latency"]` in its file.
//!
//! An entry is a key, or a table for all keys in it. A description on top of another one has that one's estimates, but
//! for the keys that it gives itself.
//! Rule: an entry that names nothing is refused.

use super::keys::KEYS;
use super::{ConfigError, value};
use toml::{Table, Value};

/// Name of the list.
const LIST: &str = "estimates";

/// Takes the list out of a description; gives the keys that it names.
pub(super) fn take(own: &mut Table) -> Result<Vec<String>, ConfigError> {
    let Some(list) = own.remove(LIST) else {
        return Ok(Vec::new());
    };
    let mut keys = Vec::new();
    let wrong =
        |error: toml::de::Error| ConfigError::Syntax(format!("{LIST}: {}", error.message()));
    for entry in list.try_into::<Vec<String>>().map_err(wrong)? {
        let within = |key: &str| {
            key.strip_prefix(entry.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let before = keys.len();
        keys.extend(
            KEYS.iter()
                .map(|(key, ..)| (*key).to_owned())
                .filter(|key| within(key)),
        );
        if keys.len() == before {
            let (table, name) = entry.rsplit_once('.').unwrap_or(("", &entry));
            return Err(ConfigError::unknown(table, name));
        }
    }
    Ok(keys)
}

/// Puts the list into a description; keys that it does not have are left out.
pub(super) fn put(table: &mut Table, keys: Vec<String>) {
    let there = keys.into_iter().filter(|key| value(table, key).is_some());
    let list: Vec<Value> = there.map(Value::String).collect();
    if !list.is_empty() {
        table.insert(LIST.to_owned(), Value::Array(list));
    }
}

/// Strikes out the keys that a change of a description gives.
pub(super) fn strike(table: &mut Table, change: &Table) {
    if let Some(Value::Array(list)) = table.get_mut(LIST) {
        list.retain(|key| key.as_str().is_none_or(|key| value(change, key).is_none()));
    }
}

/// Returns the line of a description that gives the list; empty without entries.
pub(super) fn line(keys: &[String]) -> String {
    if keys.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = keys.iter().map(|key| format!("    \"{key}\",\n")).collect();
    format!("{LIST} = [\n{}]\n", quoted.concat())
}
