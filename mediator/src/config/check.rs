//! Which values of a configuration make sense: each key for itself, and beside the others.
//!
//! Rule: an error names the key and what would be right; a range stands in it as the constants say.

use super::{
    Clock, Config, ConfigError, DeviceConfig, LEAST_MEMORY_BYTES, Limits, MAX_CLIENTS, MAX_TENANTS,
    NOBODY, Principal,
};
use crate::device::{Isolation, Timing, Unfenceable};
use gridmux_channel::control::MAX_TENANT_NAME_BYTES;
use gridmux_hw_model::{GpuConfig, builtin_names};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Largest `limits.connects_per_second`.
const MAX_CONNECTS: u32 = 1_000_000;
/// Largest `limits.host_patience_seconds`.
const MAX_PATIENCE: u32 = 3600;
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
/// Most bytes of the longest module.
const MOST_MODULE_BYTES: u64 = 64 << 20;

impl Config {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that makes no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.schema_version != 1 {
            let message = format!("{} is unknown; this version reads 1", self.schema_version);
            return Err(ConfigError::value("schema_version", message));
        }
        check_name("instance", &self.instance)?;
        let known = gridmux_policy::all_policies().iter().map(|info| info.name);
        let known: Vec<&str> = known.collect();
        if !known.contains(&&*self.policy) {
            let known = known.join(", ");
            let message = format!("{:?} is unknown; known are {known}", self.policy);
            return Err(ConfigError::value("policy", message));
        }
        let group = self.operator_group.as_ref().and_then(Principal::number);
        if group == Some(NOBODY) {
            let message = format!("{NOBODY} is no number of anybody");
            return Err(ConfigError::value("operator_group", message));
        }
        self.device.check()?;
        self.limits.check()?;
        self.profiles.check()?;
        self.accounting.check()?;
        if let Some(file) = &self.accounting.file
            && self.profiles.file.as_ref() == Some(file)
        {
            let message = format!("{file:?} is that of profiles.file, too; name two files");
            return Err(ConfigError::value("accounting.file", message));
        }
        let mut seen = BTreeSet::new();
        for tenant in &self.tenants {
            check_name("tenant.name", &tenant.name)?;
            if !seen.insert(&tenant.name) {
                let key = format!("tenant.{}", tenant.name);
                return Err(ConfigError::value(key, "is configured twice"));
            }
            tenant.check()?;
            tenant.check_against(&self.limits, &self.device)?;
        }
        let (tenants, most) = (self.tenants.len(), self.limits.tenants);
        if tenants > usize::from(most) {
            let message = format!("{tenants} tenants, limits.tenants is {most}");
            return Err(ConfigError::value("tenant", message));
        }
        Ok(())
    }
}

impl DeviceConfig {
    /// Returns whether the device is the SM model.
    pub(super) fn is_model(&self) -> bool {
        self.kind.starts_with("model:")
    }

    fn check(&self) -> Result<(), ConfigError> {
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
            return Err(ConfigError::value("device.kind", message));
        }
        if self.sms == Some(0) {
            return Err(ConfigError::value("device.sms", "0 SMs can run nothing"));
        }
        if let (Some(asked), Some(all)) = (self.sms, sms)
            && asked > all
        {
            let message = format!("{asked} is more than the {all} SMs of {}", self.kind);
            return Err(ConfigError::value("device.sms", message));
        }
        let bytes = self.memory_bytes;
        if bytes < LEAST_MEMORY_BYTES {
            let least = shown_bytes(LEAST_MEMORY_BYTES);
            let message = format!("{bytes} bytes hold no tenant's buffers; at least {least}");
            return Err(ConfigError::value("device.memory_bytes", message));
        }
        if bytes > MOST_MEMORY_BYTES {
            let message = format!("at most {}, not {bytes}", shown_bytes(MOST_MEMORY_BYTES));
            return Err(ConfigError::value("device.memory_bytes", message));
        }
        self.check_kind()
    }

    /// Checks that no key is given that the kind of device does not have.
    fn check_kind(&self) -> Result<(), ConfigError> {
        if !self.is_model() {
            let own = Self::default();
            let is_set = [
                ("device.sms", self.sms.is_some()),
                ("device.memory_bytes", self.memory_bytes != own.memory_bytes),
                ("device.clock", self.clock != own.clock),
            ];
            if let Some((key, _)) = is_set.into_iter().find(|(_, is_set)| *is_set) {
                let message = "is for model:NAME; a GPU has its own";
                return Err(ConfigError::value(key, message));
            }
        }
        if self.lenient_bounds && (self.timing != Timing::Functional || !self.is_model()) {
            return Err(ConfigError::value(
                "device.lenient_bounds",
                "is for model:NAME with device.timing = \"functional\"",
            ));
        }
        if !self.is_model() && self.isolation == Isolation::Fenced {
            return Err(ConfigError::value(
                "device.isolation",
                "\"fenced\" is for model:NAME so far; on a GPU memory between allocations has no sink yet",
            ));
        }
        if self.unfenceable != Unfenceable::default() && self.isolation != Isolation::Fenced {
            return Err(ConfigError::value(
                "device.unfenceable",
                "is for device.isolation = \"fenced\"",
            ));
        }
        if self.lenient_bounds && self.isolation == Isolation::Fenced {
            return Err(ConfigError::value(
                "device.lenient_bounds",
                "is needless with device.isolation = \"fenced\": no address faults there",
            ));
        }
        match self.timing {
            Timing::Functional if !self.is_model() => Err(ConfigError::value(
                "device.timing",
                "\"functional\" is for model:NAME; a GPU has its own time",
            )),
            Timing::Functional if self.clock == Clock::Lockstep => Err(ConfigError::value(
                "device.clock",
                "\"lockstep\" needs device.timing = \"timed\": a functional device has no cycles to repeat",
            )),
            _ => Ok(()),
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        let bytes = |key: &str, value: u64, range: RangeInclusive<u64>| {
            let (least, most) = (shown_bytes(*range.start()), shown_bytes(*range.end()));
            let message = format!("must be {least} to {most}");
            match range.contains(&value) {
                true => Ok(()),
                false => Err(ConfigError::value(key, message)),
            }
        };
        let range = LEAST_MODULE_BYTES..=MOST_MODULE_BYTES;
        bytes("limits.module_bytes", self.module_bytes, range)?;
        // The compiler itself needs a part of it.
        let range = LEAST_COMPILE_BYTES..=MOST_HOST_BYTES;
        let value = self.compile_memory_bytes;
        bytes("limits.compile_memory_bytes", value, range)?;
        let range = LEAST_MODULES_BYTES..=MOST_HOST_BYTES;
        bytes(
            "limits.module_memory_bytes",
            self.module_memory_bytes,
            range.clone(),
        )?;
        let value = self.module_memory_total_bytes;
        bytes("limits.module_memory_total_bytes", value, range)?;
        let value = self.clock_hold_ms;
        check_range(
            "limits.clock_hold_ms",
            value,
            1..=MOST_HOLD_MS,
            "milliseconds",
        )?;
        let value = self.compile_cpu_seconds;
        let range = 1..=MAX_COMPILE_SECONDS;
        check_range("limits.compile_cpu_seconds", value, range, "seconds")?;
        if self.kernel_budget_cycles < LEAST_CYCLES {
            let message = format!("must be at least {LEAST_CYCLES}");
            return Err(ConfigError::value("limits.kernel_budget_cycles", message));
        }
        let value = self.kernel_budget_cpu_seconds;
        let range = LEAST_CPU_SECONDS..=MOST_CPU_SECONDS;
        check_range("limits.kernel_budget_cpu_seconds", value, range, "seconds")?;
        check_range("limits.tenants", self.tenants, 1..=MAX_TENANTS, "tenants")?;
        check_range("limits.clients", self.clients, 1..=MAX_CLIENTS, "clients")?;
        let value = self.connects_per_second;
        let range = 1..=MAX_CONNECTS;
        check_range("limits.connects_per_second", value, range, "connections")?;
        let value = self.host_patience_seconds;
        let range = 1..=MAX_PATIENCE;
        check_range("limits.host_patience_seconds", value, range, "seconds")
    }
}

/// Checks that a value lies in its range; what is no number lies in none.
fn check_range<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<(), ConfigError> {
    let (least, most) = (range.start(), range.end());
    match range.contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::value(
            key,
            format!("must be {least} to {most} {unit}"),
        )),
    }
}

/// Returns a number of bytes, and the same in the largest unit of which it is a multiple.
pub(super) fn shown_bytes(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units
        .into_iter()
        .find(|(bits, _)| bytes > 0 && bytes.is_multiple_of(1 << bits));
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(bits, unit)| format!("{bytes} ({} {unit})", bytes >> bits),
    )
}

fn check_name(key: &str, name: &str) -> Result<(), ConfigError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match (1..=MAX_TENANT_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(ConfigError::value(
            key,
            format!("{name:?} must be 1 to {MAX_TENANT_NAME_BYTES} letters, digits, '-' or '_'"),
        )),
    }
}
