//! What a configuration that is read again changes, in words for the log.
//!
//! An operator who changes a setting while the service runs, and another one who takes a key out of the file, find here
//! that the next reading has put it back.

use super::tenant::default_weight;
use super::{Config, Limits, TenantConfig, default_policy};
use gridmux_policy::Class;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashMap;

impl Config {
    /// Returns which settings `new` changes of the policy, the limits and the tenants that `self` has too: the key, the
    /// value before and the one now, and where that is the default.
    #[must_use]
    pub fn changes_to(&self, new: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if self.policy != new.policy {
            let (before, now) = (self.policy.clone().into(), new.policy.clone().into());
            changes.push(change("policy", (&before, &now), &default_policy().into()));
        }
        let limits = [&self.limits, &new.limits, &Limits::default()];
        changes.extend(differences("limits", limits));
        let before: HashMap<&str, &TenantConfig> =
            self.tenants.iter().map(|of| (&*of.name, of)).collect();
        for now in &new.tenants {
            if let Some(before) = before.get(&*now.name).copied() {
                let default = TenantConfig::new(&*now.name, default_weight(), Class::default());
                let table = format!("tenant.{}", now.name);
                changes.extend(differences(&table, [before, now, &default]));
            }
        }
        changes
    }
}

/// Returns the keys of a table whose values differ, of the table before, the one now and the one of a file that says
/// nothing.
fn differences<T: Serialize>(table: &str, tables: [&T; 3]) -> Vec<String> {
    let [before, now, default] = tables.map(keys);
    let changed = before.iter().filter(|(key, value)| now[*key] != **value);
    let said = |(key, value): (&String, &Value)| {
        change(&format!("{table}.{key}"), (value, &now[key]), &default[key])
    };
    changed.map(said).collect()
}

fn keys(table: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(table) {
        Ok(Value::Object(keys)) => keys,
        // Tables of a configuration are tables.
        _ => Map::new(),
    }
}

fn change(key: &str, (before, now): (&Value, &Value), default: &Value) -> String {
    let shown = |value: &Value| match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_default = if now == default { ", the default" } else { "" };
    format!(
        "{key} was {} and is {}{is_default}",
        shown(before),
        shown(now)
    )
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn parse(text: &str) -> Config {
        Config::parse(&format!("schema_version = 1\n{text}")).unwrap()
    }

    #[test]
    fn what_changes_is_named_and_what_goes_back_to_its_default() {
        let before = parse(
            "policy = \"fifo\"\n[limits]\nclients = 9\n[[tenant]]\nname = \"a\"\nweight = 5\nclass = \"latency\"\n\
             user = \"daemon\"\n[[tenant]]\nname = \"gone\"\n",
        );
        let text = "[limits]\nclients = 8\n[[tenant]]\nname = \"new\"\nweight = 7\n[[tenant]]\nname = \"a\"\n\
                    memory_limit_bytes = 1048576\n";
        let named = [
            "policy was fifo and is gridmux, the default",
            "limits.clients was 9 and is 8",
            "tenant.a.class was latency and is normal, the default",
            "tenant.a.memory_limit_bytes was not set and is 1048576",
            "tenant.a.user was daemon and is not set, the default",
            "tenant.a.weight was 5 and is 1, the default",
        ];
        assert_eq!(before.changes_to(&parse(text)), named);
        assert!(before.changes_to(&before).is_empty());
    }
}
