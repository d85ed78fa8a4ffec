//! The service's configuration: one TOML file, every key checked before anything starts.
//!
//! Rules: an unknown key is an error that names it; every value has a default that is safe; nothing here touches
//! the system, so a configuration can be validated anywhere.

use gridmux_hw_model::config::builtin_names;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Largest weight of a tenant.
pub const MAX_WEIGHT: u32 = 1000;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of this format; 1.
    pub schema_version: u32,
    /// Where sockets live.
    #[serde(default = "default_run_dir")]
    pub run_dir: PathBuf,
    /// Name under which maps are pinned and metrics are labelled.
    #[serde(default = "default_instance")]
    pub instance: String,
    /// Policy by name (`gridmux policy list`).
    #[serde(default = "default_policy")]
    pub policy: String,
    /// The device.
    #[serde(default)]
    pub device: DeviceConfig,
    /// Limits that protect the service and tenants from one another.
    #[serde(default)]
    pub limits: Limits,
    /// User that device hosts run as when the service is root.
    #[serde(default = "default_user")]
    pub host_user: String,
    /// Tenants, one socket each.
    #[serde(default, rename = "tenant")]
    pub tenants: Vec<TenantConfig>,
}

/// The device to share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceConfig {
    /// `model:NAME` for the SM model of that GPU, `cuda:N` for a GPU.
    pub kind: String,
    /// For the model: this many SMs instead of all, with caches and bandwidth in proportion.
    pub sms: Option<u16>,
    /// For the model: memory that tenants may share.
    pub memory_bytes: u64,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self {
            kind: "model:h200".into(),
            sms: None,
            memory_bytes: 4 << 30,
        }
    }
}

/// Limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest PTX module.
    pub module_bytes: u64,
    /// Longest time a slice may run, in core cycles.
    pub kernel_budget_cycles: u64,
    /// Longest wall time for which a tenant may hold the virtual clock, in milliseconds.
    pub clock_hold_ms: u64,
    /// Tenants at once.
    pub tenants: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            module_bytes: 64 << 20,
            kernel_budget_cycles: 2_000_000_000,
            clock_hold_ms: 200,
            tenants: 64,
        }
    }
}

/// One tenant that may connect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantConfig {
    /// Name; its socket is `RUN_DIR/NAME.sock`.
    pub name: String,
    /// Weight of its share, relative to the others'.
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// Device memory it may hold.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// Only processes of this user may connect; without it, root and the service's own user.
    #[serde(default)]
    pub uid: Option<u32>,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be; the text names the key and the line.
    #[error("{path}: {message}")]
    Parse {
        /// File.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// A value makes no sense.
    #[error("{key}: {message}")]
    Value {
        /// Key, dotted.
        key: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file and the key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let config = Self::parse(&text).map_err(|error| ConfigError::Parse {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        Ok(config)
    }

    /// Parses and checks the text of a configuration.
    ///
    /// # Errors
    /// [`ConfigError::Parse`] or [`ConfigError::Value`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::Parse {
            path: PathBuf::from("configuration"),
            message: error.to_string(),
        })?;
        config.check()?;
        Ok(config)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that makes no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        let bad = |key: &str, message: String| {
            Err(ConfigError::Value {
                key: key.into(),
                message,
            })
        };
        if self.schema_version != 1 {
            return bad(
                "schema_version",
                format!("{} is unknown; this version reads 1", self.schema_version),
            );
        }
        if !is_plain_name(&self.instance) {
            return bad(
                "instance",
                format!(
                    "{:?} must be 1 to 32 letters, digits, '-' or '_'",
                    self.instance
                ),
            );
        }
        if !gridmux_policy::all_policies()
            .iter()
            .any(|p| p.name == self.policy)
        {
            let names: Vec<&str> = gridmux_policy::all_policies()
                .iter()
                .map(|p| p.name)
                .collect();
            return bad(
                "policy",
                format!(
                    "{:?} is unknown; known are {}",
                    self.policy,
                    names.join(", ")
                ),
            );
        }
        self.device.check()?;
        self.limits.check()?;
        let mut seen = std::collections::BTreeSet::new();
        for tenant in &self.tenants {
            let key = format!("tenant.{}", tenant.name);
            if !is_plain_name(&tenant.name) || tenant.name == "control" {
                return bad(
                    "tenant.name",
                    format!(
                        "{:?} must be 1 to 32 letters, digits, '-' or '_', and not \"control\"",
                        tenant.name
                    ),
                );
            }
            if !seen.insert(&tenant.name) {
                return bad(&key, "is configured twice".into());
            }
            if tenant.weight == 0 || tenant.weight > MAX_WEIGHT {
                return bad(
                    &format!("{key}.weight"),
                    format!("{} is outside 1..={MAX_WEIGHT}", tenant.weight),
                );
            }
        }
        if self.tenants.len() > usize::from(self.limits.tenants) {
            return bad(
                "tenant",
                format!(
                    "{} tenants, limits.tenants is {}",
                    self.tenants.len(),
                    self.limits.tenants
                ),
            );
        }
        Ok(())
    }
}

impl DeviceConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let known = match self.kind.split_once(':') {
            Some(("model", name)) => builtin_names().any(|known| known == name),
            Some(("cuda", ordinal)) => ordinal.parse::<u16>().is_ok(),
            _ => false,
        };
        if !known {
            return Err(ConfigError::Value {
                key: "device.kind".into(),
                message: format!(
                    "{:?} is unknown; use cuda:N, or model:NAME with NAME one of {}",
                    self.kind,
                    builtin_names().collect::<Vec<_>>().join(", ")
                ),
            });
        }
        if self.sms == Some(0) {
            return Err(ConfigError::Value {
                key: "device.sms".into(),
                message: "0 SMs can run nothing".into(),
            });
        }
        Ok(())
    }
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        let bad = |key: &str, message: &str| {
            Err(ConfigError::Value {
                key: key.into(),
                message: message.into(),
            })
        };
        if self.module_bytes == 0 || self.module_bytes > 64 << 20 {
            return bad("limits.module_bytes", "must be 1 to 67108864 (64 MiB)");
        }
        if self.kernel_budget_cycles == 0 {
            return bad("limits.kernel_budget_cycles", "0 cycles let nothing run");
        }
        if self.tenants == 0 || self.tenants > 64 {
            return bad("limits.tenants", "must be 1 to 64");
        }
        Ok(())
    }
}

fn is_plain_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn default_run_dir() -> PathBuf {
    PathBuf::from("/run/gridmux")
}

fn default_instance() -> String {
    "gridmux".into()
}

fn default_policy() -> String {
    "smk-p".into()
}

fn default_user() -> String {
    "nobody".into()
}

fn default_weight() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    use super::{Config, ConfigError};

    #[test]
    fn a_minimal_file_has_safe_defaults() {
        let config = Config::parse("schema_version = 1\n[[tenant]]\nname = \"a\"\n").unwrap();
        assert_eq!(config.device.kind, "model:h200");
        assert_eq!(config.tenants[0].weight, 1);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = Config::parse("schema_version = 1\npolcy = \"fifo\"\n").unwrap_err();
        assert!(error.to_string().contains("polcy"), "{error}");
    }

    #[test]
    fn values_are_checked_and_named() {
        for (text, key) in [
            ("schema_version = 2", "schema_version"),
            ("schema_version = 1\npolicy = \"best\"", "policy"),
            (
                "schema_version = 1\n[device]\nkind = \"tpu\"",
                "device.kind",
            ),
            (
                "schema_version = 1\n[limits]\ntenants = 0",
                "limits.tenants",
            ),
            (
                "schema_version = 1\n[[tenant]]\nname = \"a\"\nweight = 0",
                "tenant.a.weight",
            ),
            (
                "schema_version = 1\n[[tenant]]\nname = \"../x\"",
                "tenant.name",
            ),
            (
                "schema_version = 1\n[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"a\"",
                "tenant.a",
            ),
        ] {
            match Config::parse(text) {
                Err(ConfigError::Value { key: found, .. }) => assert_eq!(found, key, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
