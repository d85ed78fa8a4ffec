//! The accounts of a device host: one for each configured tenant, whoever is connected.
//!
//! Rules: a tenant's number is its place in the configuration; its counters and its limits are those of all of its
//! clients together and survive each of them. Everything here belongs to the control thread, which makes the check of a
//! tenant's memory against what all of its clients hold exact.

use super::descriptors::Descriptors;
use crate::config::Config;
use crate::device::{DeviceControl, DomainId};
use crate::dispatch::accounting::TenantCounters;
use crate::link::{ClientFacts, TenantFacts};
use crate::page::{Buckets, Snapshot, TenantSnapshot};
use gridmux_policy::ids::TenantId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// One tenant's account.
#[derive(Debug)]
pub(super) struct Account {
    /// What the configuration says.
    pub(super) facts: TenantFacts,
    /// What is counted, over all clients.
    pub(super) counters: Arc<TenantCounters>,
    /// The memory of each of its clients.
    domains: RefCell<Vec<DomainId>>,
    /// What the modules of its clients take of the host's memory, in bytes, and may take.
    modules: Cell<u64>,
    modules_limit: u64,
    /// Descriptors that its clients hold.
    descriptors: Cell<u64>,
    /// What it shares these with.
    all_descriptors: Rc<Descriptors>,
}

impl Account {
    /// Returns the tenant's number, under which the dispatcher and the policy know it.
    pub(super) fn id(&self) -> TenantId {
        TenantId(self.facts.number)
    }

    /// Returns how many clients have a domain.
    pub(super) fn clients(&self) -> usize {
        self.domains.borrow().len()
    }

    /// Takes a client's memory into the account.
    pub(super) fn join(&self, domain: DomainId) {
        let mut domains = self.domains.borrow_mut();
        if domains.is_empty() {
            self.all_descriptors.came();
        }
        domains.push(domain);
    }

    /// Takes a client's memory out of the account.
    pub(super) fn leave(&self, domain: DomainId) {
        let mut domains = self.domains.borrow_mut();
        let before = domains.len();
        domains.retain(|known| *known != domain);
        if before > 0 && domains.is_empty() {
            self.all_descriptors.left();
        }
    }

    /// Checks that a module of that many bytes still fits into what all clients' modules may take of the host's memory.
    ///
    /// # Errors
    /// The reason why it does not, for the client.
    pub(super) fn check_modules(&self, more: u64) -> Result<(), String> {
        let (used, limit) = (self.modules.get(), self.modules_limit);
        if used.saturating_add(more) <= limit {
            return Ok(());
        }
        Err(format!(
            "the module takes {more} bytes of the host's memory, and loaded modules of tenant {} take {used} of the \
             {limit} that they may (limits.module_memory_bytes); unload some",
            self.facts.name
        ))
    }

    /// Takes a module into the account, if it fits.
    ///
    /// # Errors
    /// As [`Account::check_modules`].
    pub(super) fn take_modules(&self, bytes: u64) -> Result<(), String> {
        self.check_modules(bytes)?;
        self.modules.set(self.modules.get() + bytes);
        Ok(())
    }

    /// Takes modules out of the account.
    pub(super) fn give_modules_back(&self, bytes: u64) {
        self.modules.set(self.modules.get().saturating_sub(bytes));
    }

    /// Takes descriptors into the account; returns whether there was room.
    pub(super) fn take_descriptors(&self, count: u64) -> bool {
        let after = self.descriptors.get() + count;
        let has_room = after <= self.all_descriptors.of_a_tenant();
        if has_room {
            self.descriptors.set(after);
        }
        has_room
    }

    /// Takes descriptors out of the account.
    pub(super) fn give_descriptors_back(&self, count: u64) {
        self.descriptors
            .set(self.descriptors.get().saturating_sub(count));
    }

    /// Returns the device memory that all clients hold, in bytes.
    pub(super) fn memory_used(&self, device: &dyn DeviceControl) -> u64 {
        match self.domains.borrow().as_slice() {
            [] => 0,
            domains => device.used_bytes_of(domains),
        }
    }

    /// Checks that `more` bytes still fit into what all clients may hold.
    ///
    /// # Errors
    /// The reason why they do not, for the client.
    pub(super) fn check_room(&self, device: &dyn DeviceControl, more: u64) -> Result<(), String> {
        let (used, limit) = (self.memory_used(device), self.facts.memory_limit_bytes);
        if used.saturating_add(more) <= limit {
            return Ok(());
        }
        Err(format!(
            "out of device memory: asked for {more} bytes, {used} of the {limit} bytes of tenant {} are in use by its \
             clients ({})",
            self.facts.name,
            self.clients()
        ))
    }
}

/// All accounts, in the order of the configuration.
#[derive(Debug)]
pub(super) struct Accounts {
    accounts: Vec<Rc<Account>>,
}

impl Accounts {
    /// Opens an account for each configured tenant, which goes on from what was counted before.
    pub(super) fn new(config: &Config, before: &Snapshot) -> Self {
        let all_descriptors = Rc::new(Descriptors::default());
        let open = |(number, tenant): (u32, &crate::config::TenantConfig)| {
            let counted = before.tenant(&tenant.name).map(TenantSnapshot::counters);
            Rc::new(Account {
                facts: TenantFacts::new(number, tenant, config),
                counters: Arc::new(counted.unwrap_or_default()),
                domains: RefCell::default(),
                modules: Cell::new(0),
                modules_limit: config.limits.module_memory_bytes,
                descriptors: Cell::new(0),
                all_descriptors: Rc::clone(&all_descriptors),
            })
        };
        Self {
            accounts: (0..).zip(&config.tenants).map(open).collect(),
        }
    }

    /// Returns whether some tenant has a client.
    pub(super) fn have_clients(&self) -> bool {
        self.iter().any(|account| account.clients() > 0)
    }

    /// Returns every account.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Rc<Account>> {
        self.accounts.iter()
    }

    /// Returns the account that a client gets: that of the tenant it names, else of the first one that it may be.
    ///
    /// # Errors
    /// Why it gets none, in words for the client.
    pub(super) fn choose(
        &self,
        allowed: &[u16],
        named: Option<&str>,
    ) -> Result<&Rc<Account>, String> {
        let mut allowed = allowed
            .iter()
            .filter_map(|place| self.accounts.get(usize::from(*place)));
        let Some(named) = named else {
            return allowed.next().ok_or_else(|| NOBODY.to_owned());
        };
        let found = allowed.clone().find(|account| account.facts.name == named);
        found.ok_or_else(|| {
            let names: Vec<&str> = allowed.map(|account| account.facts.name.as_str()).collect();
            // What the client wrote is shown no longer than a name may be.
            let shown = &named[..named.floor_char_boundary(32)];
            match names.as_slice() {
                [] => format!("may not be tenant {shown:?}: {NOBODY}"),
                names => format!(
                    "may not be tenant {shown:?}; you may be: {}",
                    some_of(names)
                ),
            }
        })
    }

    /// Reads every account; `clients` returns the clients of one.
    pub(super) fn statistics(
        &self,
        device: &dyn DeviceControl,
        clients: impl Fn(&Account) -> Vec<ClientFacts>,
    ) -> Vec<TenantSnapshot> {
        let weight_of = |account: &Rc<Account>| u64::from(account.facts.weight);
        let present: u64 = self
            .iter()
            .filter(|account| account.clients() > 0)
            .map(weight_of)
            .sum();
        let read = |account: &Rc<Account>| {
            let own = weight_of(account);
            let all = if account.clients() > 0 {
                present
            } else {
                present + own
            };
            TenantSnapshot {
                name: account.facts.name.clone(),
                clients: clients(account),
                memory_used_bytes: account.memory_used(device),
                share_asked: ratio(own, all),
                usage: account.counters.read(),
                start: Buckets::of(account.counters.start_latency().counts()),
                complete: Buckets::of(account.counters.complete_latency().counts()),
            }
        };
        self.iter().map(read).collect()
    }
}

/// Why a process that matches no tenant is refused.
const NOBODY: &str =
    "this process matches no tenant of the service's configuration (user, group, cgroup, uid)";
/// Names that a message lists.
const NAMES: usize = 16;

fn some_of(names: &[&str]) -> String {
    match names.split_at_checked(NAMES) {
        Some((first, rest)) if !rest.is_empty() => {
            format!("{} and {} more", first.join(", "), rest.len())
        }
        _ => names.join(", "),
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "weights are at most 1000 and there are at most 1024 of them"
)]
fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{Accounts, Snapshot};
    use crate::config::Config;
    use crate::device::DomainId;

    fn accounts(count: usize) -> Accounts {
        let mut text = "schema_version = 1\n".to_owned();
        for number in 0..count {
            text += &format!("[[tenant]]\nname = \"t{number}\"\n");
        }
        Accounts::new(&Config::parse(&text).unwrap(), &Snapshot::default())
    }

    #[test]
    fn a_client_is_who_it_names_if_it_may_be_and_else_the_first_that_it_may_be() {
        let accounts = accounts(4);
        let name = |allowed: &[u16], named| {
            let chosen = accounts.choose(allowed, named);
            chosen.map(|account| account.facts.name.clone())
        };
        assert_eq!(name(&[1, 3], Some("t3")).as_deref(), Ok("t3"));
        assert_eq!(name(&[1, 3], None).as_deref(), Ok("t1"));
        let error = name(&[1, 3], Some("t0")).unwrap_err();
        assert_eq!(error, "may not be tenant \"t0\"; you may be: t1, t3");
        let error = name(&[], None).unwrap_err();
        assert!(error.contains("matches no tenant"), "{error}");
        let error = name(&[], Some("t0")).unwrap_err();
        assert!(
            error.contains("t0") && error.contains("matches no tenant"),
            "{error}"
        );
    }

    #[test]
    fn a_tenant_takes_its_part_of_the_descriptors_and_leaves_the_rest() {
        let accounts = accounts(2);
        let [greedy, other] = [0, 1].map(|place| &accounts.accounts[place]);
        greedy.join(DomainId(0));
        let mut taken = 0;
        while greedy.take_descriptors(1) {
            taken += 1;
        }
        assert_eq!(taken, greedy.all_descriptors.of_a_tenant());
        other.join(DomainId(1));
        assert!(other.take_descriptors(other.all_descriptors.of_a_tenant()));
        assert!(!greedy.take_descriptors(1));
        greedy.give_descriptors_back(taken);
        assert!(
            greedy.take_descriptors(1),
            "what was given back is there again"
        );
    }

    #[test]
    fn a_refusal_stays_short_whatever_is_configured_and_named() {
        let accounts = accounts(1000);
        let all: Vec<u16> = (0..1000).collect();
        let error = accounts
            .choose(&all, Some(&"é".repeat(30_000)))
            .unwrap_err();
        assert!(error.len() < 500, "{error}");
        assert!(error.contains("984 more"), "{error}");
    }
}
