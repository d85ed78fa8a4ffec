//! What of a service may change while it runs: what a device host is told of it ([`Settings`]), and what an operator
//! asks for ([`Change`]).
//!
//! Rules: a host is always told all settings, so that the newest message counts, whatever was said or found no room
//! before; a change is applied to a whole configuration, which is then checked as one that was read.

use crate::config::{Config, ConfigError, Limits, TenantConfig};
use crate::dispatch::accounts::TenantState;
use crate::link::TenantFacts;
use gridmux_policy::Class;
use serde::{Deserialize, Serialize};

/// The settings of a device host that hold from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Every configured tenant; a tenant that is not among them is removed.
    pub tenants: Vec<TenantFacts>,
    /// Limits, of which some are obeyed from the start of the service only.
    pub limits: Limits,
    /// Generation of the rules that say who may be which tenant. A client that was matched by older ones is not let in.
    pub rules: u64,
    /// Name of the policy.
    pub policy: String,
}

/// A change that an operator makes to a running service. It holds until the configuration is read again; whether a
/// tenant is paused, which no configuration says, until the next such change or the service's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The settings of a tenant.
    Tenant(TenantChange),
    /// The policy, by name.
    Policy(String),
    /// Whether a tenant is paused.
    State {
        /// The tenant's name.
        name: String,
        /// Its state from now on.
        state: TenantState,
    },
}

/// New settings of a tenant; what is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantChange {
    /// The tenant's name.
    pub name: String,
    /// Weight of its share.
    pub weight: Option<u32>,
    /// Kind of service that it asks for.
    pub class: Option<Class>,
    /// Device memory that its clients may hold together, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Most clients of it at once.
    pub clients: Option<u16>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Nobody has that name.
    #[error("there is no tenant {name:?}; configured are: {known}")]
    NoTenant {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The configuration would not be valid with the change in it.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Change {
    /// Returns a configuration with the change in it.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn apply(&self, config: &Config) -> Result<Config, ChangeError> {
        let mut changed = config.clone();
        match self {
            Self::Tenant(change) => change.apply(find(&mut changed, &change.name)?),
            Self::Policy(name) => name.clone_into(&mut changed.policy),
            // No part of a configuration.
            Self::State { name, .. } => _ = find(&mut changed, name)?,
        }
        changed.check()?;
        Ok(changed)
    }
}

impl TenantChange {
    /// Returns this change and then another one of the same tenant, as one change.
    #[must_use]
    pub(crate) fn and_then(self, later: &Self) -> Self {
        Self {
            name: self.name,
            weight: later.weight.or(self.weight),
            class: later.class.or(self.class),
            memory_limit_bytes: later.memory_limit_bytes.or(self.memory_limit_bytes),
            clients: later.clients.or(self.clients),
        }
    }

    fn apply(&self, tenant: &mut TenantConfig) {
        tenant.weight = self.weight.unwrap_or(tenant.weight);
        tenant.class = self.class.unwrap_or(tenant.class);
        tenant.memory_limit_bytes = self.memory_limit_bytes.or(tenant.memory_limit_bytes);
        tenant.clients = self.clients.or(tenant.clients);
    }
}

fn find<'a>(config: &'a mut Config, name: &str) -> Result<&'a mut TenantConfig, ChangeError> {
    let tenants = &mut config.tenants;
    let Some(place) = tenants.iter().position(|tenant| tenant.name == name) else {
        let names: Vec<&str> = tenants.iter().map(|tenant| &*tenant.name).collect();
        return Err(ChangeError::NoTenant {
            name: name.to_owned(),
            known: names.join(", "),
        });
    };
    Ok(&mut tenants[place])
}

#[cfg(test)]
mod tests {
    use super::{Change, TenantChange};
    use crate::config::Config;
    use gridmux_policy::Class;

    fn config() -> Config {
        let text =
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nclients = 3\n[[tenant]]\nname = \"b\"\n";
        Config::parse(text).unwrap()
    }

    #[test]
    fn a_setting_that_no_tenant_has_is_refused() {
        let parse = |text: &str| serde_json::from_str::<TenantChange>(text);
        assert_eq!(parse(r#"{"name":"a","weight":2}"#).unwrap().weight, Some(2));
        let error = parse(r#"{"name":"a","wieght":2}"#).unwrap_err().to_string();
        assert!(error.contains("wieght"), "{error}");
    }

    #[test]
    fn a_change_says_what_becomes_of_one_tenant_and_leaves_the_rest() {
        let change = Change::Tenant(TenantChange {
            name: "a".into(),
            weight: Some(7),
            memory_limit_bytes: Some(1 << 20),
            ..TenantChange::default()
        });
        let mut expected = config();
        expected.tenants[0].weight = 7;
        expected.tenants[0].memory_limit_bytes = Some(1 << 20);
        assert_eq!(change.apply(&config()).unwrap(), expected);
        let change = Change::Tenant(TenantChange {
            name: "b".into(),
            class: Some(Class::Batch),
            clients: Some(9),
            ..TenantChange::default()
        });
        expected = config();
        (expected.tenants[1].class, expected.tenants[1].clients) = (Class::Batch, Some(9));
        assert_eq!(change.apply(&config()).unwrap(), expected);
    }

    #[test]
    fn a_policy_is_one_of_those_that_there_are() {
        let mut expected = config();
        expected.policy = "even".into();
        assert_eq!(
            Change::Policy("even".into()).apply(&config()).unwrap(),
            expected
        );
        let error = Change::Policy("nope".into()).apply(&config()).unwrap_err();
        let error = error.to_string();
        let listed = gridmux_policy::all_policies()
            .iter()
            .all(|info| error.contains(info.name));
        assert!(listed && error.contains("nope"), "{error}");
    }

    #[test]
    fn what_no_configuration_may_say_no_change_may() {
        let refused = |change: TenantChange| {
            let error = Change::Tenant(change).apply(&config()).unwrap_err();
            error.to_string()
        };
        let of = |name: &str| TenantChange {
            name: name.into(),
            ..TenantChange::default()
        };
        let error = refused(of("c"));
        assert!(error.contains("\"c\"") && error.contains("a, b"), "{error}");
        let zero = refused(TenantChange {
            weight: Some(0),
            ..of("a")
        });
        let much = refused(TenantChange {
            memory_limit_bytes: Some(u64::MAX),
            ..of("a")
        });
        let crowd = refused(TenantChange {
            clients: Some(2000),
            ..of("b")
        });
        for (error, key) in [
            (zero, "tenant.a.weight"),
            (much, "tenant.a.memory_limit_bytes"),
            (crowd, "tenant.b.clients"),
        ] {
            assert!(error.starts_with(key), "{error}");
        }
    }
}
