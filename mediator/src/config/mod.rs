//! The service's configuration: one TOML file, every key checked before anything starts.
//!
//! Rules: an unknown key is an error that names it; every value has a default that is safe; nothing here touches
//! the system, so a configuration can be validated anywhere.

mod accounting;
mod changes;
mod check;
mod example;
mod file;
mod live;
mod principal;
mod profiles;
mod tenant;

pub use accounting::AccountingConfig;
pub use example::EXAMPLE;
pub use principal::Principal;
pub use profiles::ProfilesConfig;
pub use tenant::TenantConfig;

use crate::device::{Isolation, Timing, Unfenceable};
use gridmux_hw_model::words;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Largest weight of a tenant.
pub const MAX_WEIGHT: u32 = 1000;
/// Most tenants of a service.
pub const MAX_TENANTS: u16 = 1024;
/// Most clients of a service, over all tenants together.
pub const MAX_CLIENTS: u16 = 1024;
/// Least memory of a modelled device and of a tenant, in bytes.
pub const LEAST_MEMORY_BYTES: u64 = 1 << 20;

/// The number that stands for no user and no group in system calls (chown(2)).
const NOBODY: u32 = u32::MAX;

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
    /// Settings of the profiles of kernels.
    #[serde(default)]
    pub profiles: ProfilesConfig,
    /// Settings of the accounts of use.
    #[serde(default)]
    pub accounting: AccountingConfig,
    /// User that device hosts run as when the service is root; without it, `gridmux` if there is such a user, and
    /// `nobody` otherwise.
    #[serde(default)]
    pub host_user: Option<String>,
    /// Group, by name or number, whose members may read the service's statistics: `gridmux tenant show`,
    /// `gridmux device show`, `gridmux metrics`. Only the service's user and root may change it, and without a group
    /// only they may read.
    #[serde(default)]
    pub operator_group: Option<Principal>,
    /// Tenants, in the order in which a client that names none is matched with them.
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
    /// For the model: how its virtual clock and the clients' wall time go together.
    pub clock: Clock,
    /// For the model: `timed` counts cycles, `functional` gives results as fast as the host can, in estimated time.
    pub timing: Timing,
    /// For the functional model: loads of kernels may run past the end of an allocation, as far as a card lets them.
    pub lenient_bounds: bool,
    /// What keeps tenants' kernels out of each other's memory.
    pub isolation: Isolation,
    /// What becomes of kernels that cannot be fenced.
    pub unfenceable: Unfenceable,
}

/// How the virtual clock of a modelled device goes on while clients compute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// It waits for nobody: for use.
    #[default]
    Live,
    /// It stands still while a client is between a completion and its next submission, so that runs are repeatable.
    Lockstep,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self {
            kind: "model:h200".into(),
            sms: None,
            memory_bytes: 4 << 30,
            clock: Clock::Live,
            timing: Timing::Timed,
            lenient_bounds: false,
            isolation: Isolation::default(),
            unfenceable: Unfenceable::default(),
        }
    }
}

/// Limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest PTX module.
    pub module_bytes: u64,
    /// Memory that compiling one module may take, in bytes.
    pub compile_memory_bytes: u64,
    /// Processor time that compiling one module may take, in seconds.
    pub compile_cpu_seconds: u64,
    /// Memory of the host that all loaded modules of one tenant may take together, in bytes, as estimated.
    pub module_memory_bytes: u64,
    /// Memory of the host that the loaded modules of all tenants may take together, in bytes, as estimated.
    pub module_memory_total_bytes: u64,
    /// Longest time a slice may run, in core cycles.
    pub kernel_budget_cycles: u64,
    /// Longest wall time for which a tenant may hold the virtual clock, in milliseconds.
    pub clock_hold_ms: u64,
    /// Processor time that a launch may cost on a modelled device, in seconds.
    pub kernel_budget_cpu_seconds: f64,
    /// Most tenants that may be configured.
    pub tenants: u16,
    /// Most clients connected at once, over all tenants together.
    pub clients: u16,
    /// Connections that the processes of one user may make each second in the long run; four times as many, or
    /// `clients`, at once.
    pub connects_per_second: u32,
    /// How long a device host may say nothing before it is replaced, in seconds.
    pub host_patience_seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            module_bytes: 64 << 20,
            compile_memory_bytes: 4 << 30,
            compile_cpu_seconds: 30,
            module_memory_bytes: 1 << 30,
            module_memory_total_bytes: 4 << 30,
            kernel_budget_cycles: 2_000_000_000,
            clock_hold_ms: 200,
            kernel_budget_cpu_seconds: 20.0,
            tenants: MAX_TENANTS,
            clients: MAX_CLIENTS,
            connects_per_second: 50,
            host_patience_seconds: 15,
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the read.
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
        /// The fault, and what would be right.
        message: String,
    },
}

impl ConfigError {
    /// Makes the error of a value that makes no sense.
    fn value(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Value {
            key: key.into(),
            message: message.into(),
        }
    }
}

/// Most characters of a line of an error: enough for a list of all keys of a table, which it may hold.
const QUOTED_CHARACTERS: usize = 500;

/// Makes a text that quotes a file fit for a terminal and a log: long lines are cut, control characters shown as such.
fn presentable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let line = |line: &str| -> String { line.chars().take(QUOTED_CHARACTERS).map(shown).collect() };
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("\n")
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file and the key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::read_with_writer(path).map(|(config, _)| config)
    }

    /// Reads and checks a file, and says who beside root and this user may write it, if somebody may. Root reads no
    /// such file.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file and the key.
    pub fn read_with_writer(path: &Path) -> Result<(Self, Option<String>), ConfigError> {
        let read = file::read(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let config = Self::parse(&read.text).map_err(|error| ConfigError::Parse {
            path: path.to_owned(),
            message: match error {
                ConfigError::Parse { message, .. } => message,
                error => error.to_string(),
            },
        })?;
        Ok((config, read.writer))
    }

    /// Parses and checks the text of a configuration.
    ///
    /// # Errors
    /// [`ConfigError::Parse`] or [`ConfigError::Value`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = words::from_text(text).map_err(|error| ConfigError::Parse {
            path: PathBuf::from("configuration"),
            message: presentable(&error),
        })?;
        config.check()?;
        Ok(config)
    }
}

fn default_run_dir() -> PathBuf {
    PathBuf::from("/run/gridmux")
}

fn default_instance() -> String {
    "gridmux".into()
}

fn default_policy() -> String {
    "gridmux".into()
}

#[cfg(test)]
mod tests;
