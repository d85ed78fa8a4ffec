//! The division of the configuration into keys that may change while a service runs and keys that may not.
//!
//! Rules: the tenants and the policy may, and the limits that are looked at when something is asked for; the others are
//! built into what was started, and stay as they were until the service is started anew. Each key is on one side or the
//! other, which the patterns without a rest below make sure of.

use super::{AccountingConfig, Config, ConfigError, DeviceConfig, Limits, ProfilesConfig};

impl Config {
    /// Returns what is in force when a service that obeys `self` reads `new`, and the keys in which `new` says
    /// something that needs a restart.
    ///
    /// # Errors
    /// `new` makes no sense with what stays as it was.
    pub fn reloaded_as(&self, mut new: Self) -> Result<(Self, Vec<&'static str>), ConfigError> {
        let mut kept = Vec::new();
        let Self {
            schema_version: _,
            run_dir,
            instance,
            policy: _,
            device,
            limits,
            profiles,
            accounting,
            host_user,
            operator_group,
            tenants: _,
        } = &mut new;
        keep("run_dir", &self.run_dir, run_dir, &mut kept);
        keep("instance", &self.instance, instance, &mut kept);
        self.device.keep_in(device, &mut kept);
        self.profiles.keep_in(profiles, &mut kept);
        self.accounting.keep_in(accounting, &mut kept);
        keep("host_user", &self.host_user, host_user, &mut kept);
        keep(
            "operator_group",
            &self.operator_group,
            operator_group,
            &mut kept,
        );
        self.limits.keep_in(limits, &mut kept);
        let checked = new.check();
        match checked {
            Ok(()) => Ok((new, kept)),
            Err(ConfigError::Value { key, message }) if !kept.is_empty() => {
                let kept = kept.join(", ");
                let message = format!("{message}; {kept} changed too, which needs a restart");
                Err(ConfigError::Value { key, message })
            }
            Err(error) => Err(error),
        }
    }
}

impl DeviceConfig {
    fn keep_in(&self, new: &mut Self, kept: &mut Vec<&'static str>) {
        let Self {
            kind,
            sms,
            memory_bytes,
            clock,
            timing,
            lenient_bounds,
            isolation,
            unfenceable,
        } = new;
        keep("device.kind", &self.kind, kind, kept);
        keep("device.sms", &self.sms, sms, kept);
        let own = &self.memory_bytes;
        keep("device.memory_bytes", own, memory_bytes, kept);
        keep("device.clock", &self.clock, clock, kept);
        keep("device.timing", &self.timing, timing, kept);
        let own = &self.lenient_bounds;
        keep("device.lenient_bounds", own, lenient_bounds, kept);
        keep("device.isolation", &self.isolation, isolation, kept);
        let own = &self.unfenceable;
        keep("device.unfenceable", own, unfenceable, kept);
    }
}

impl ProfilesConfig {
    fn keep_in(&self, new: &mut Self, kept: &mut Vec<&'static str>) {
        let Self { file } = new;
        keep("profiles.file", &self.file, file, kept);
    }
}

impl AccountingConfig {
    fn keep_in(&self, new: &mut Self, kept: &mut Vec<&'static str>) {
        let Self { file } = new;
        keep("accounting.file", &self.file, file, kept);
    }
}

impl Limits {
    fn keep_in(&self, new: &mut Self, kept: &mut Vec<&'static str>) {
        let Self {
            compile_memory_bytes,
            compile_cpu_seconds,
            kernel_budget_cycles,
            clock_hold_ms,
            kernel_budget_cpu_seconds,
            // What follows may change.
            module_bytes: _,
            module_memory_bytes: _,
            module_memory_total_bytes: _,
            tenants: _,
            clients: _,
            connects_per_second: _,
            host_patience_seconds: _,
        } = new;
        let own = &self.compile_memory_bytes;
        keep(
            "limits.compile_memory_bytes",
            own,
            compile_memory_bytes,
            kept,
        );
        let own = &self.compile_cpu_seconds;
        keep("limits.compile_cpu_seconds", own, compile_cpu_seconds, kept);
        let own = &self.kernel_budget_cycles;
        keep(
            "limits.kernel_budget_cycles",
            own,
            kernel_budget_cycles,
            kept,
        );
        keep(
            "limits.clock_hold_ms",
            &self.clock_hold_ms,
            clock_hold_ms,
            kept,
        );
        let own = &self.kernel_budget_cpu_seconds;
        keep(
            "limits.kernel_budget_cpu_seconds",
            own,
            kernel_budget_cpu_seconds,
            kept,
        );
    }
}

/// Puts back what a key said before, and names the key if that was something else.
fn keep<T: PartialEq + Clone>(
    key: &'static str,
    own: &T,
    new: &mut T,
    kept: &mut Vec<&'static str>,
) {
    if *own != *new {
        new.clone_from(own);
        kept.push(key);
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, EXAMPLE};

    fn parse(text: &str) -> Config {
        Config::parse(&format!("schema_version = 1\n{text}")).unwrap()
    }

    #[test]
    fn tenants_policy_and_some_limits_change_and_the_rest_is_named() {
        let before = parse("[[tenant]]\nname = \"a\"\n");
        let text = "run_dir = \"/x\"\ninstance = \"other\"\npolicy = \"fifo\"\nhost_user = \"daemon\"\n\
                    operator_group = \"daemon\"\n\
                    [device]\nkind = \"model:gtx480\"\nsms = 2\nmemory_bytes = 1048576\nclock = \"lockstep\"\n\
                    isolation = \"fenced\"\nunfenceable = \"shared\"\n\
                    [limits]\nmodule_bytes = 2048\ncompile_memory_bytes = 268435456\ncompile_cpu_seconds = 1\n\
                    module_memory_bytes = 1048576\nkernel_budget_cycles = 1000\nclock_hold_ms = 1\n\
                    kernel_budget_cpu_seconds = 1\ntenants = 3\nclients = 4\nconnects_per_second = 5\n\
                    host_patience_seconds = 6\n[profiles]\nfile = \"/y\"\n\
                    [accounting]\nfile = \"/z\"\n\
                    [[tenant]]\nname = \"b\"\nweight = 9\n[[tenant]]\nname = \"a\"\n";
        let (after, kept) = before.reloaded_as(parse(text)).unwrap();
        let mut expected = before.clone();
        expected.tenants = parse(text).tenants;
        expected.policy = "fifo".into();
        let limits = &mut expected.limits;
        (limits.module_bytes, limits.module_memory_bytes) = (2048, 1 << 20);
        (limits.tenants, limits.clients) = (3, 4);
        (limits.connects_per_second, limits.host_patience_seconds) = (5, 6);
        assert_eq!(after, expected);
        let named = [
            "run_dir",
            "instance",
            "device.kind",
            "device.sms",
            "device.memory_bytes",
            "device.clock",
            "device.isolation",
            "device.unfenceable",
            "profiles.file",
            "accounting.file",
            "host_user",
            "operator_group",
            "limits.compile_memory_bytes",
            "limits.compile_cpu_seconds",
            "limits.kernel_budget_cycles",
            "limits.clock_hold_ms",
            "limits.kernel_budget_cpu_seconds",
        ];
        assert_eq!(kept, named);
        let functional = "[device]\ntiming = \"functional\"\n";
        assert_eq!(
            before.reloaded_as(parse(functional)).unwrap().1,
            ["device.timing"]
        );
        let same = before.reloaded_as(before.clone()).unwrap();
        assert_eq!(same, (before, Vec::new()));
    }

    #[test]
    fn a_value_that_makes_sense_after_a_restart_only_is_refused() {
        let before = parse("[[tenant]]\nname = \"a\"\n");
        let text = "[device]\nmemory_bytes = 8589934592\n[[tenant]]\nname = \"a\"\nmemory_limit_bytes = 6442450944\n";
        let error = before.reloaded_as(parse(text)).unwrap_err().to_string();
        for part in [
            "tenant.a.memory_limit_bytes",
            "device.memory_bytes changed too",
            "restart",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_example_says_which_limits_a_reload_applies() {
        let (_, rest) = EXAMPLE.split_once("A reload").unwrap();
        let (said, _) = rest.split_once("\n\n").unwrap();
        for key in [
            "module_bytes",
            "module_memory_bytes",
            "tenants",
            "clients",
            "connects_per_second",
            "host_patience_seconds",
        ] {
            assert!(said.contains(&format!("`{key}`")), "{key}: {said}");
        }
    }
}
