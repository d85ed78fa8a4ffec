//! The service's configuration: one TOML file, every key checked before anything starts.
//!
//! Rules: an unknown key is an error that names it; every value has a default that is safe; nothing here touches
//! the system, so a configuration can be validated anywhere.
//!
//! Length: every key stands here with its default and its check.

mod example;
mod file;
mod live;
mod principal;
mod profiles;
mod tenant;

pub use example::EXAMPLE;
pub use principal::Principal;
pub use profiles::ProfilesConfig;
pub use tenant::TenantConfig;

use crate::device::Timing;
use gridmux_channel::control::MAX_TENANT_NAME_BYTES;
use gridmux_hw_model::words::toml_error;
use gridmux_hw_model::{GpuConfig, builtin_names};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Largest weight of a tenant.
pub const MAX_WEIGHT: u32 = 1000;
/// Most tenants of a service.
pub const MAX_TENANTS: u16 = 1024;
/// Most clients of a service, over all tenants together.
pub const MAX_CLIENTS: u16 = 1024;
/// Largest `limits.connects_per_second`.
const MAX_CONNECTS: u32 = 1_000_000;
/// Largest `limits.host_patience_seconds`.
const MAX_PATIENCE: u32 = 3600;
/// Least memory of a modelled device and of a tenant, in bytes.
pub const LEAST_MEMORY_BYTES: u64 = 1 << 20;
/// Least memory of a compiler, in bytes.
const LEAST_COMPILE_BYTES: u64 = 256 << 20;
/// Most processor time of a compiler, in seconds.
const MAX_COMPILE_SECONDS: u64 = 3600;
/// Most memory of a modelled device, in bytes; no GPU of today has more.
const MOST_MEMORY_BYTES: u64 = 1 << 40;
/// Least length of the longest module, in bytes.
const LEAST_MODULE_BYTES: u64 = 1024;
/// Longest time for which a client may hold the virtual clock: ten minutes.
const MOST_HOLD_MS: u64 = 600_000;
/// Least processor time of a launch, in seconds: a millisecond, in which a small kernel ends.
const LEAST_CPU_SECONDS: f64 = 1e-3;
/// Most processor time of a launch, in seconds: more than eleven days.
const MOST_CPU_SECONDS: f64 = 1e6;
/// Least cycles of a slice: what a block needs to start and to end.
const LEAST_CYCLES: u64 = 1000;
/// Least memory of the host for the modules of a tenant, in bytes.
const LEAST_MODULES_BYTES: u64 = 1 << 20;
/// Most memory of a process of this host that can be meant, in bytes.
const MOST_HOST_BYTES: u64 = 1 << 40;

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
    /// What is learnt of kernels.
    #[serde(default)]
    pub profiles: ProfilesConfig,
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

/// What is wrong with a configuration.
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
        /// What is wrong and what would be right.
        message: String,
    },
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
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::Parse {
            path: PathBuf::from("configuration"),
            message: presentable(&toml_error(text, &error)),
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
        let group = self.operator_group.as_ref().and_then(Principal::number);
        if group == Some(u32::MAX) {
            let message = format!("{} is no number of anybody", u32::MAX);
            return bad("operator_group", message);
        }
        self.device.check()?;
        self.limits.check()?;
        self.profiles.check()?;
        let mut seen = std::collections::BTreeSet::new();
        for tenant in &self.tenants {
            let key = format!("tenant.{}", tenant.name);
            if !is_plain_name(&tenant.name) {
                return bad(
                    "tenant.name",
                    format!(
                        "{:?} must be 1 to 32 letters, digits, '-' or '_'",
                        tenant.name
                    ),
                );
            }
            if !seen.insert(&tenant.name) {
                return bad(&key, "is configured twice".into());
            }
            tenant.check()?;
            tenant.check_against(&self.limits, &self.device)?;
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
    fn is_model(&self) -> bool {
        self.kind.starts_with("model:")
    }

    fn check(&self) -> Result<(), ConfigError> {
        let bad = |key: &str, message: String| {
            Err(ConfigError::Value {
                key: key.into(),
                message,
            })
        };
        let (known, sms) = match self.kind.split_once(':') {
            Some(("model", name)) => {
                let model = GpuConfig::builtin(name).ok();
                (model.is_some(), model.map(|model| model.sm.count))
            }
            Some(("cuda", ordinal)) => (ordinal.parse::<u16>().is_ok(), None),
            _ => (false, None),
        };
        if !known {
            let message = format!(
                "{:?} is unknown; use cuda:N, or model:NAME with NAME one of {}",
                self.kind,
                builtin_names().collect::<Vec<_>>().join(", ")
            );
            return bad("device.kind", message);
        }
        if self.sms == Some(0) {
            return bad("device.sms", "0 SMs can run nothing".into());
        }
        if let (Some(asked), Some(all)) = (self.sms, sms)
            && asked > all
        {
            let message = format!("{asked} is more than the {all} SMs of {}", self.kind);
            return bad("device.sms", message);
        }
        if self.memory_bytes < LEAST_MEMORY_BYTES {
            let message = format!(
                "{} bytes hold no tenant's buffers; at least {LEAST_MEMORY_BYTES} (1 MiB)",
                self.memory_bytes
            );
            return bad("device.memory_bytes", message);
        }
        if self.memory_bytes > MOST_MEMORY_BYTES {
            let message = format!(
                "at most {MOST_MEMORY_BYTES} (1 TiB), not {}",
                self.memory_bytes
            );
            return bad("device.memory_bytes", message);
        }
        if !self.is_model() {
            let own = Self::default();
            let is_set = [
                ("device.sms", self.sms.is_some()),
                ("device.memory_bytes", self.memory_bytes != own.memory_bytes),
                ("device.clock", self.clock != own.clock),
            ];
            if let Some((key, _)) = is_set.into_iter().find(|(_, is_set)| *is_set) {
                return bad(key, "is for model:NAME; a GPU has its own".into());
            }
        }
        if self.timing == Timing::Functional {
            let refused = |key: &str, message: &str| {
                Err(ConfigError::Value {
                    key: key.into(),
                    message: message.into(),
                })
            };
            if !self.is_model() {
                return refused(
                    "device.timing",
                    "\"functional\" is for model:NAME; a GPU has its own time",
                );
            }
            if self.clock == Clock::Lockstep {
                return refused(
                    "device.clock",
                    "\"lockstep\" needs device.timing = \"timed\": a functional device has no cycles to repeat",
                );
            }
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
        if !(LEAST_MODULE_BYTES..=64 << 20).contains(&self.module_bytes) {
            return bad("limits.module_bytes", "must be 1024 to 67108864 (64 MiB)");
        }
        if !(1..=MOST_HOLD_MS).contains(&self.clock_hold_ms) {
            return bad("limits.clock_hold_ms", "must be 1 to 600000 (ten minutes)");
        }
        if !(LEAST_COMPILE_BYTES..=MOST_HOST_BYTES).contains(&self.compile_memory_bytes) {
            return bad(
                "limits.compile_memory_bytes",
                "must be 268435456 (256 MiB), of which the compiler itself needs a part, to 1099511627776 (1 TiB)",
            );
        }
        if !(1..=MAX_COMPILE_SECONDS).contains(&self.compile_cpu_seconds) {
            return bad("limits.compile_cpu_seconds", "must be 1 to 3600");
        }
        if !(LEAST_MODULES_BYTES..=MOST_HOST_BYTES).contains(&self.module_memory_bytes) {
            return bad(
                "limits.module_memory_bytes",
                "must be 1048576 (1 MiB) to 1099511627776 (1 TiB)",
            );
        }
        if self.kernel_budget_cycles < LEAST_CYCLES {
            return bad("limits.kernel_budget_cycles", "must be at least 1000");
        }
        // What is no number lies in no range.
        if !(LEAST_CPU_SECONDS..=MOST_CPU_SECONDS).contains(&self.kernel_budget_cpu_seconds) {
            return bad(
                "limits.kernel_budget_cpu_seconds",
                "must be a number of seconds from 0.001 to 1000000",
            );
        }
        if self.tenants == 0 || self.tenants > MAX_TENANTS {
            return bad("limits.tenants", "must be 1 to 1024");
        }
        if self.clients == 0 || self.clients > MAX_CLIENTS {
            return bad("limits.clients", "must be 1 to 1024");
        }
        if self.connects_per_second == 0 || self.connects_per_second > MAX_CONNECTS {
            return bad(
                "limits.connects_per_second",
                "must be 1 to 1000000 connections",
            );
        }
        if self.host_patience_seconds == 0 || self.host_patience_seconds > MAX_PATIENCE {
            return bad("limits.host_patience_seconds", "must be 1 to 3600 seconds");
        }
        Ok(())
    }
}

fn is_plain_name(name: &str) -> bool {
    (1..=MAX_TENANT_NAME_BYTES).contains(&name.len())
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
    "gridmux".into()
}

#[cfg(test)]
mod tests;
