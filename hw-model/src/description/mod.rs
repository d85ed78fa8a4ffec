//! Reading and writing descriptions of GPUs: built in, of a file, on top of another one, with single keys changed.
//!
//! A file whose first key is `base = "h200"` has every key of that built-in description but for those that it gives
//! itself; tables are merged key by key. Without a base it must give every key that has no default.
//! What has no source is listed in the file ([`estimates`]).
//! Rules: a key that does not exist is refused before anything else is looked at; what was changed has another name
//! than what it was made from, unless it is given one, because figures are kept by name; a description that is written
//! out reads back as the same.

mod check;
mod error;
mod estimates;
mod keys;
mod range;

pub use error::ConfigError;

use crate::config::GpuConfig;
use crate::words;
use keys::KEYS;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use toml::{Table, Value};

/// A built-in description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Name.
    pub name: &'static str,
    /// What it stands for.
    pub stands_for: &'static str,
    text: &'static str,
}

/// Makes an entry of the list, whose text is the file of its name.
macro_rules! builtin {
    ($name:literal, $stands_for:literal) => {
        Builtin {
            name: $name,
            stands_for: $stands_for,
            text: include_str!(concat!("../../configs/", $name, ".toml")),
        }
    };
}

const BUILTIN: [Builtin; 13] = [
    builtin!("h200", "NVIDIA H200 SXM (Hopper)"),
    builtin!("h100", "NVIDIA H100 SXM5 80 GB (Hopper)"),
    builtin!("a100", "NVIDIA A100 SXM4 80 GB (Ampere)"),
    builtin!("a6000", "NVIDIA RTX A6000 (Ampere)"),
    builtin!("v100", "NVIDIA V100 PCIe (Volta)"),
    builtin!(
        "v100-gpgpusim",
        "NVIDIA V100 (Volta) as GPGPU-Sim configures it"
    ),
    builtin!("gtx980", "NVIDIA GTX 980 (Maxwell), the GPU of SMK"),
    builtin!(
        "k20m",
        "NVIDIA Tesla K20m (Kepler GK110), the GPU of accelOS"
    ),
    builtin!(
        "gtx680",
        "NVIDIA GTX 680 (Kepler GK104), one of Kernelet's two"
    ),
    builtin!(
        "gtx480",
        "NVIDIA GTX 480 (Fermi), after GPGPU-Sim's configuration, with the card's nominal rates"
    ),
    builtin!(
        "gtx480-lrr",
        "the GTX 480 of SRTF: gtx480 with loose round robin"
    ),
    builtin!(
        "c2050",
        "NVIDIA Tesla C2050 (Fermi), the other one of Kernelet's two"
    ),
    builtin!(
        "warped-slicer",
        "the GPU of Warped-Slicer (ISCA 2016), Table I"
    ),
];

/// Returns the built-in descriptions.
pub fn builtins() -> impl Iterator<Item = Builtin> {
    BUILTIN.into_iter()
}

/// Returns the names that [`GpuConfig::builtin`] knows.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    builtins().map(|builtin| builtin.name)
}

/// A description that may still be changed.
#[derive(Debug, Clone)]
pub struct Description(Table);

impl Description {
    /// Returns a built-in one.
    ///
    /// # Errors
    /// [`ConfigError::UnknownBuiltin`], which lists the known names.
    pub fn builtin(name: &str) -> Result<Self, ConfigError> {
        let unknown = || ConfigError::UnknownBuiltin {
            name: name.to_owned(),
            known: builtin_names().collect::<Vec<_>>().join(", "),
        };
        let found = builtins().find(|builtin| builtin.name == name);
        Self::from_toml(found.ok_or_else(unknown)?.text)
    }

    /// Reads one from a text. With a base and without a name it is called `BASE,changed`.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`], [`ConfigError::UnknownKey`], [`ConfigError::UnknownBuiltin`] for the base.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::read(text, None)
    }

    /// Reads one from the text of a file. With a base and without a name it is called `stem`, as the file is without
    /// its ending.
    ///
    /// # Errors
    /// As for [`Description::from_toml`].
    pub fn from_file(text: &str, stem: &str) -> Result<Self, ConfigError> {
        Self::read(text, Some(stem))
    }

    fn read(text: &str, name: Option<&str>) -> Result<Self, ConfigError> {
        let mut own: Table = words::from_text(text).map_err(ConfigError::Syntax)?;
        let has_base = own.remove("base").is_some();
        let mut estimated = estimates::take(&mut own)?;
        check_keys("", &own)?;
        // Both are read from the text, so that what is missing or of the wrong kind is shown where it stands.
        if !has_base {
            words::from_text::<GpuConfig>(text).map_err(ConfigError::Syntax)?;
            estimates::put(&mut own, estimated);
            return Ok(Self(own));
        }
        let Based { base } = words::from_text(text).map_err(ConfigError::Syntax)?;
        let Self(mut table) = Self::builtin(&base)?;
        match name {
            _ if own.contains_key("name") => {}
            Some(name) => _ = table.insert("name".to_owned(), name.into()),
            None => mark(&mut table, "changed"),
        }
        estimates::strike(&mut table, &own);
        estimated.extend(estimates::take(&mut table)?);
        merge(&mut table, own);
        estimates::put(&mut table, estimated);
        Ok(Self(table))
    }

    /// Changes a key: `sm.scheduler=lrr`. A value that is no TOML is text.
    ///
    /// # Errors
    /// [`ConfigError::Change`], [`ConfigError::UnknownKey`].
    pub fn set(&mut self, change: &str) -> Result<(), ConfigError> {
        let split = change.split_once('=');
        let split = split.map(|(key, value)| (key.trim(), value.trim()));
        // Each dot is a table in a table; no key has more than two.
        let found = split.filter(|(key, value)| {
            !key.is_empty() && !value.is_empty() && key.matches('.').count() <= 8
        });
        let (key, value) = found.ok_or_else(|| ConfigError::Change(change.to_owned()))?;
        let value = value
            .parse::<Value>()
            .unwrap_or_else(|_| Value::String(value.to_owned()));
        let mut own = value;
        for name in key.rsplit('.') {
            own = Value::Table(Table::from_iter([(name.to_owned(), own)]));
        }
        let Value::Table(own) = own else {
            return Err(ConfigError::Change(change.to_owned()));
        };
        check_keys("", &own)?;
        if key != "name" {
            mark(&mut self.0, change);
        }
        estimates::strike(&mut self.0, &own);
        merge(&mut self.0, own);
        Ok(())
    }

    /// Returns the GPU that it describes.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`] for a value of the wrong kind, [`ConfigError::Value`] for one that makes no sense,
    /// [`ConfigError::Contradiction`] for two that contradict each other.
    pub fn config(self) -> Result<GpuConfig, ConfigError> {
        // The type of a key is wider than what makes sense, and knows no range to tell.
        check::whole_numbers(&self.0)?;
        let config: GpuConfig = words::from_table(self.0).map_err(ConfigError::Syntax)?;
        config.validate()?;
        Ok(config)
    }
}

/// What a text says of the description that it is built on.
#[derive(Debug, Deserialize)]
struct Based {
    base: String,
}

/// A key of a description with its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// Dotted name.
    pub key: &'static str,
    /// Value.
    pub value: Value,
    /// Unit, what is counted, or the values that there are; empty for the name.
    pub unit: &'static str,
    /// The value has no source.
    pub estimate: bool,
}

impl GpuConfig {
    /// Returns one of the descriptions in `configs/`.
    ///
    /// # Errors
    /// [`ConfigError::UnknownBuiltin`], which lists the known names.
    pub fn builtin(name: &str) -> Result<Self, ConfigError> {
        Description::builtin(name)?.config()
    }

    /// Reads and checks a description.
    ///
    /// # Errors
    /// As [`Description::from_toml`] and [`Description::config`].
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Description::from_toml(text)?.config()
    }

    /// Returns every key that it has, in the order in which a description is written.
    ///
    /// # Panics
    /// If a figure lies beyond the numbers of TOML, which none can that was read from it.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let table = self.table();
        let known = KEYS.iter().filter_map(|(key, unit, _)| {
            Some(Parameter {
                key,
                value: value(&table, key)?.clone(),
                unit,
                estimate: self.estimates.iter().any(|estimate| estimate == key),
            })
        });
        known.collect()
    }

    /// Returns its keys and values as tables in tables.
    fn table(&self) -> Table {
        Table::try_from(self).expect("its figures are numbers of TOML")
    }

    /// Returns it as the text of a description, each key with its unit.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let (mut text, mut table) = (String::new(), "");
        for Parameter {
            key, value, unit, ..
        } in self.parameters()
        {
            let (within, name) = key.rsplit_once('.').unwrap_or(("", key));
            if within != table {
                if table.is_empty() {
                    text += &estimates::line(&self.estimates);
                }
                let _ = write!(text, "\n[{within}]\n");
                table = within;
            }
            let note = match unit {
                "" => String::new(),
                unit => format!("  # {unit}"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} = {value}{note}");
        }
        text
    }
}

/// Returns the value of a dotted name.
fn value<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut names = key.split('.');
    let first = table.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

fn dotted(table: &str, name: &str) -> String {
    match table {
        "" => name.to_owned(),
        _ => format!("{table}.{name}"),
    }
}

/// Checks that each key of a table, and of those in it, exists.
fn check_keys(table: &str, own: &Table) -> Result<(), ConfigError> {
    let known = keys::within(table);
    for (name, value) in own {
        if !known.contains(&name.as_str()) {
            return Err(ConfigError::unknown(table, name));
        }
        if let Value::Table(inner) = value {
            check_keys(&dotted(table, name), inner)?;
        }
    }
    Ok(())
}

/// Puts the keys of one table in place of those of another.
fn merge(table: &mut Table, own: Table) {
    for (name, value) in own {
        match (table.get_mut(&name), value) {
            (Some(Value::Table(inner)), Value::Table(own)) => merge(inner, own),
            (_, value) => {
                table.insert(name, value);
            }
        }
    }
}

/// Has the name say that something was changed.
fn mark(table: &mut Table, change: &str) {
    if let Some(Value::String(name)) = table.get_mut("name") {
        name.push(',');
        name.push_str(change);
    }
}

#[cfg(test)]
mod tests;
