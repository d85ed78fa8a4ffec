//! A tenant of the configuration, and who may be it.

use super::check::shown_bytes;
use super::{ConfigError, DeviceConfig, LEAST_MEMORY_BYTES, Limits, MAX_WEIGHT, NOBODY, Principal};
use gridmux_policy::Class;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};

/// One tenant: who is accounted for what its clients use.
///
/// Who its clients are is told by `user`, `group`, `cgroup` and `uid`: a process must meet every rule that is given.
/// Without a rule they are processes of root and of the service's own user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantConfig {
    /// Name, by which clients ask for it and operators see it.
    pub name: String,
    /// Weight of its share, relative to the others'.
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// Kind of service that it asks for.
    #[serde(default)]
    pub class: Class,
    /// Device memory that its clients may hold together; without it, all of a model's, and 4 GiB of a GPU's.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// Most clients of it at once; without it, `limits.clients`.
    #[serde(default)]
    pub clients: Option<u16>,
    /// Only processes of this user, by name or number.
    #[serde(default)]
    pub user: Option<Principal>,
    /// Only processes in this group, first or supplementary, by name or number.
    #[serde(default)]
    pub group: Option<Principal>,
    /// Only processes in this control group or one below it: an absolute path in the unified hierarchy.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Only processes of this user number, or root's.
    #[serde(default)]
    pub uid: Option<u32>,
}

impl TenantConfig {
    /// Makes a tenant without rules and limits of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, weight: u32, class: Class) -> Self {
        Self {
            name: name.into(),
            weight,
            class,
            ..Self::default()
        }
    }

    /// Returns whether the configuration says who its clients are.
    #[must_use]
    pub fn has_rule(&self) -> bool {
        self.user.is_some() || self.group.is_some() || self.cgroup.is_some() || self.uid.is_some()
    }

    /// Makes the error of one of its keys.
    fn wrong(&self, key: &str, message: impl Into<String>) -> ConfigError {
        ConfigError::value(format!("tenant.{}.{key}", self.name), message)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.weight == 0 || self.weight > MAX_WEIGHT {
            return Err(self.wrong(
                "weight",
                format!("{} is outside 1..={MAX_WEIGHT}", self.weight),
            ));
        }
        let is_small = |bytes: &u64| *bytes < LEAST_MEMORY_BYTES;
        if let Some(bytes) = self.memory_limit_bytes.filter(is_small) {
            let message = format!(
                "{bytes} bytes hold no buffers; at least {}, or leave it out for all of a model's memory, or 4 GiB of \
                 a GPU's",
                shown_bytes(LEAST_MEMORY_BYTES)
            );
            return Err(self.wrong("memory_limit_bytes", message));
        }
        if self.clients == Some(0) {
            return Err(self.wrong("clients", "0 clients can do nothing"));
        }
        let is_path = |path: &&String| {
            let mut parts = Path::new(path.as_str()).components();
            parts.next() == Some(Component::RootDir)
                && parts.all(|part| matches!(part, Component::Normal(_)))
        };
        if let Some(path) = self.cgroup.as_ref().filter(|path| !is_path(path)) {
            return Err(self.wrong(
                "cgroup",
                format!(
                    "{path:?} must be an absolute path without \"..\", as in /proc/PID/cgroup after 0::"
                ),
            ));
        }
        self.check_users()
    }

    /// Checks the users and groups of rules, as far as numbers tell.
    fn check_users(&self) -> Result<(), ConfigError> {
        let user = self.user.as_ref().and_then(Principal::number);
        let group = self.group.as_ref().and_then(Principal::number);
        for (field, number) in [("user", user), ("group", group), ("uid", self.uid)] {
            if number == Some(NOBODY) {
                return Err(self.wrong(field, format!("{NOBODY} is no number of anybody")));
            }
        }
        match (user, self.uid) {
            (Some(user), Some(uid)) if user != uid && user != 0 => Err(self.wrong(
                "uid",
                format!("nobody is user {user} and user {uid}; leave one of the rules out"),
            )),
            _ => Ok(()),
        }
    }

    /// Checks what it may use against what there is.
    pub(super) fn check_against(
        &self,
        limits: &Limits,
        device: &DeviceConfig,
    ) -> Result<(), ConfigError> {
        let (bytes, all) = (self.memory_limit_bytes, device.memory_bytes);
        if let Some(bytes) = bytes.filter(|bytes| device.is_model() && *bytes > all) {
            return Err(self.wrong(
                "memory_limit_bytes",
                format!("{bytes} is more than the {all} bytes of device.memory_bytes"),
            ));
        }
        let all = limits.clients;
        if let Some(clients) = self.clients.filter(|clients| *clients > all) {
            return Err(self.wrong(
                "clients",
                format!("{clients} is more than limits.clients, which is {all}"),
            ));
        }
        Ok(())
    }
}

pub(super) fn default_weight() -> u32 {
    1
}
