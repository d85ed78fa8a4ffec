//! Which tenants a process may be: the configuration's rules, looked up once, against what the kernel says of a peer.
//!
//! Rules: a process must meet every rule that a tenant has. `user`, `group` and `cgroup` hold for root as for others;
//! `uid` lets root in as well, and so does a tenant without a rule, which is root's and the service's own user's. Users
//! and groups are looked up when the service starts, so one that does not exist is an error then.

use super::identity::Peer;
use crate::config::{Config, ConfigError, Principal, TenantConfig};
use crate::sandbox;
use nix::unistd::{Group, User};
use std::path::Path;

/// Where the unified hierarchy of control groups is mounted (cgroups(7)).
const UNIFIED: &str = "/sys/fs/cgroup";

/// The rules of one tenant, as numbers.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    user: Option<u32>,
    group: Option<u32>,
    cgroup: Option<String>,
    uid: Option<u32>,
}

/// The rules of every tenant, in the order of the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// The service's own user.
    own: u32,
}

impl Rules {
    /// Looks up every user and group that the configuration names.
    ///
    /// # Errors
    /// One that does not exist, with its key.
    pub(super) fn resolve(config: &Config) -> Result<Self, ConfigError> {
        let rules = config
            .tenants
            .iter()
            .map(Rule::resolve)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            rules,
            own: nix::unistd::geteuid().as_raw(),
        })
    }

    /// Warns of tenants that may end the hosts, and of control groups that are not there. These may come later, so they
    /// are no error.
    pub(super) fn warn_of_doubts(config: &Config) {
        for tenant in tenants_of_host_user(config) {
            tracing::warn!(
                tenant,
                "processes of the hosts' user may be this tenant and may end the hosts; set host_user"
            );
        }
        for (tenant, cgroup) in missing_groups(config, Path::new(UNIFIED)) {
            tracing::warn!(
                tenant,
                "there is no control group {cgroup:?}: nobody can be this tenant until there is"
            );
        }
    }

    /// Returns whether some tenant is told by control group, so that a peer's must be read.
    pub(super) fn need_cgroup(&self) -> bool {
        self.rules.iter().any(|rule| rule.cgroup.is_some())
    }

    /// Returns the places in the configuration of the tenants that a peer may be, in that order.
    pub(super) fn allowed(&self, peer: &Peer) -> Vec<u16> {
        let matching = |(place, rule): (u16, &Rule)| rule.admits(peer, self.own).then_some(place);
        (0..).zip(&self.rules).filter_map(matching).collect()
    }
}

/// Returns the tenants that processes of the hosts' user may be: these could end the hosts by a signal.
#[must_use]
pub fn tenants_of_host_user(config: &Config) -> Vec<&str> {
    let Some(host) = sandbox::host_uid(config.host_user.as_deref()) else {
        return Vec::new();
    };
    let is_host = |tenant: &&TenantConfig| {
        let user = tenant.user.as_ref();
        let named = user.and_then(|user| user.number().or_else(|| user_number(user.as_str())));
        named == Some(host) || tenant.uid == Some(host)
    };
    let found = config.tenants.iter().filter(is_host);
    found.map(|tenant| tenant.name.as_str()).collect()
}

/// Returns the tenants whose control group is not there, each with that group; none where the unified hierarchy is not
/// mounted at `root`.
fn missing_groups<'a>(config: &'a Config, root: &Path) -> Vec<(&'a str, &'a str)> {
    if !root.join("cgroup.controllers").exists() {
        return Vec::new();
    }
    let groups = config.tenants.iter().filter_map(|tenant| {
        let cgroup = tenant.cgroup.as_deref()?;
        let is_there = root.join(cgroup.trim_start_matches('/')).is_dir();
        (!is_there).then_some((&*tenant.name, cgroup))
    });
    groups.collect()
}

impl Rule {
    fn resolve(tenant: &TenantConfig) -> Result<Self, ConfigError> {
        let number = |principal: &Option<Principal>, kind: &str, find: fn(&str) -> Option<u32>| {
            let Some(principal) = principal else {
                return Ok(None);
            };
            let found = principal.number().or_else(|| find(principal.as_str()));
            found.map(Some).ok_or_else(|| ConfigError::Value {
                key: format!("tenant.{}.{kind}", tenant.name),
                message: format!("there is no {kind} {:?} on this system", principal.as_str()),
            })
        };
        Ok(Self {
            user: number(&tenant.user, "user", user_number)?,
            group: number(&tenant.group, "group", group_number)?,
            cgroup: tenant.cgroup.clone(),
            uid: tenant.uid,
        })
    }

    fn admits(&self, peer: &Peer, own: u32) -> bool {
        let credentials = &peer.credentials;
        let has_rule = self.user.is_some()
            || self.group.is_some()
            || self.cgroup.is_some()
            || self.uid.is_some();
        if !has_rule {
            return credentials.uid == 0 || credentials.uid == own;
        }
        let in_group = |group: u32| credentials.gid == group || peer.groups.contains(&group);
        let below = |path: &String| peer.cgroup.as_ref().is_some_and(|own| is_below(own, path));
        self.user.is_none_or(|user| credentials.uid == user)
            && self.group.is_none_or(in_group)
            && self.cgroup.as_ref().is_none_or(below)
            && self
                .uid
                .is_none_or(|uid| credentials.uid == uid || credentials.uid == 0)
    }
}

/// Returns whether a path is another one or lies below it.
fn is_below(path: &str, top: &str) -> bool {
    let top = top.trim_end_matches('/');
    path.strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn user_number(name: &str) -> Option<u32> {
    Some(User::from_name(name).ok()??.uid.as_raw())
}

pub(super) fn group_number(name: &str) -> Option<u32> {
    Some(Group::from_name(name).ok()??.gid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::{Rules, is_below, missing_groups, tenants_of_host_user};
    use crate::config::Config;
    use crate::link::Credentials;
    use crate::supervisor::identity::Peer;

    fn rules(tenants: &[&str]) -> Rules {
        let mut text = "schema_version = 1\n".to_owned();
        for (number, tenant) in tenants.iter().enumerate() {
            text += &format!("[[tenant]]\nname = \"t{number}\"\n{tenant}\n");
        }
        Rules::resolve(&Config::parse(&text).unwrap()).unwrap()
    }

    fn peer(uid: u32, gid: u32, groups: &[u32], cgroup: &str) -> Peer {
        let process = std::fs::File::open("/dev/null").unwrap().into();
        Peer {
            credentials: Credentials { pid: 1, uid, gid },
            groups: groups.to_vec(),
            cgroup: Some(cgroup.to_owned()),
            process,
        }
    }

    #[test]
    fn a_process_may_be_the_tenants_all_of_whose_rules_it_meets() {
        let rules = rules(&[
            "user = 1000",
            "group = 44",
            "user = 1000\ngroup = 44",
            "cgroup = \"/batch.slice\"",
            "uid = 1000",
            "",
        ]);
        assert!(rules.need_cgroup());
        let stranger = u32::MAX - 7;
        assert_eq!(rules.allowed(&peer(1000, 1, &[], "/")), [0, 4]);
        assert_eq!(rules.allowed(&peer(1000, 44, &[], "/")), [0, 1, 2, 4]);
        assert_eq!(rules.allowed(&peer(stranger, 1, &[7, 44], "/")), [1]);
        let below = peer(stranger, 1, &[], "/batch.slice/job-1.scope");
        assert_eq!(rules.allowed(&below), [3]);
        assert_eq!(
            rules.allowed(&peer(stranger, 1, &[], "/batch.slices")),
            [0_u16; 0]
        );
        assert_eq!(rules.allowed(&peer(0, 0, &[], "/")), [4, 5]);
        let own = nix::unistd::geteuid().as_raw();
        assert!(rules.allowed(&peer(own, 1, &[], "/")).contains(&5));
    }

    #[test]
    fn a_user_that_does_not_exist_is_named() {
        for kind in ["user", "group"] {
            let text = format!(
                "schema_version = 1\n[[tenant]]\nname = \"a\"\n{kind} = \"no-such-{kind}\"\n"
            );
            let error = Rules::resolve(&Config::parse(&text).unwrap())
                .unwrap_err()
                .to_string();
            for part in [format!("tenant.a.{kind}"), format!("no-such-{kind}")] {
                assert!(error.contains(&part), "{error}");
            }
        }
    }

    #[test]
    fn a_control_group_that_is_not_there_is_found() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("batch.slice")).unwrap();
        let text = "schema_version = 1\n[[tenant]]\nname = \"a\"\ncgroup = \"/batch.slice\"\n\
                    [[tenant]]\nname = \"b\"\ncgroup = \"/nightly.slice\"\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(missing_groups(&config, root.path()), [], "not mounted");
        std::fs::write(root.path().join("cgroup.controllers"), "").unwrap();
        assert_eq!(
            missing_groups(&config, root.path()),
            [("b", "/nightly.slice")]
        );
    }

    #[test]
    fn a_control_group_is_matched_by_whole_names() {
        assert!(is_below("/a/b", "/a") && is_below("/a", "/a") && is_below("/a/b", "/a/"));
        assert!(is_below("/a", "/"));
        assert!(!is_below("/ab", "/a") && !is_below("/", "/a"));
    }

    #[test]
    fn a_tenant_that_is_the_hosts_user_is_found() {
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: only root's hosts have another user");
            return;
        }
        let text = "schema_version = 1\nhost_user = \"nobody\"\n\
                    [[tenant]]\nname = \"a\"\nuser = \"nobody\"\n[[tenant]]\nname = \"b\"\nuid = 65534\n\
                    [[tenant]]\nname = \"c\"\nuser = 1\n[[tenant]]\nname = \"d\"\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(tenants_of_host_user(&config), ["a", "b"]);
    }
}
