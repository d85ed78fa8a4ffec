//! The documentation of the configuration: a file that has every key, with its default.
//!
//! Rules: it is a configuration that starts as it is; a key without a default stands there as a comment, with a value
//! that it may have; a new key is added here as well, which a test demands.

/// Text of a configuration with every key.
pub const EXAMPLE: &str = include_str!("example.toml");

#[cfg(test)]
mod tests {
    use super::EXAMPLE;
    use crate::config::{Config, TenantConfig};
    use gridmux_policy::Class;
    use toml::{Table, Value};

    /// Returns the example with the keys that have no default.
    fn uncommented() -> String {
        let line = |line: &str| match line.strip_prefix("# ") {
            Some(rest) if is_setting(rest) => format!("{rest}\n"),
            _ => format!("{line}\n"),
        };
        EXAMPLE.lines().map(line).collect()
    }

    /// Returns whether a line is `key = value`.
    fn is_setting(line: &str) -> bool {
        line.split_once(" = ")
            .is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    }

    /// Returns the keys that a section may have, as the parser names them when it meets another one.
    fn known_keys(section: &str) -> Vec<String> {
        let text = format!("schema_version = 1\n{section}\nno_such_key = 1\n");
        let error = Config::parse(&text).unwrap_err().to_string();
        let (_, list) = error
            .split_once(", expected ")
            .unwrap_or_else(|| panic!("{error}"));
        let names = list.split('`').skip(1).step_by(2);
        names.map(ToOwned::to_owned).collect()
    }

    fn keys(table: &Table) -> Vec<String> {
        let mut keys: Vec<_> = table.keys().cloned().collect();
        keys.sort();
        keys
    }

    #[test]
    fn it_is_the_defaults_and_one_tenant() {
        let example = Config::parse(EXAMPLE).unwrap();
        let mut default = Config::parse("schema_version = 1").unwrap();
        default.tenants = vec![TenantConfig::new("serving", 1, Class::Normal)];
        assert_eq!(example, default);
    }

    #[test]
    fn every_key_stands_there_and_no_other() {
        let text = uncommented();
        Config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let all: Table = toml::from_str(&text).unwrap();
        let sorted = |mut keys: Vec<String>| {
            keys.sort();
            keys
        };
        assert_eq!(keys(&all), sorted(known_keys("")));
        for (name, value) in &all {
            let (table, header) = match value {
                Value::Table(table) => (table, format!("[{name}]")),
                Value::Array(tables) => (tables[0].as_table().unwrap(), format!("[[{name}]]")),
                _ => continue,
            };
            assert_eq!(keys(table), sorted(known_keys(&header)), "{header}");
        }
    }

    #[test]
    fn every_key_has_a_sentence_before_it() {
        let mut said = "";
        for line in EXAMPLE.lines() {
            let setting = line.strip_prefix("# ").unwrap_or(line);
            if is_setting(setting) {
                let is_sentence = said.starts_with("# ") && said.ends_with(['.', ')']);
                assert!(is_sentence, "before {line:?}: {said:?}");
            }
            said = line;
        }
    }
}
