//! The accounts of a device host: one for each configured tenant, whoever is connected.
//!
//! Rules: a tenant's number and name are one, as the supervisor says, and stay so; its counters and its limits are
//! those of all of its clients together and survive each of them. Settings may change at any time. The account of a
//! tenant that is configured no more is closed when its last client is gone; what was counted is kept, and the tenant
//! goes on from it should it come back. Everything here belongs to the control thread, which makes the check of a
//! tenant's memory against what all clients hold exact. What tenants share they have by [`Shared`].
//!
//! Length: a third is tests.

use super::holdings::{Common, Holding, Terms};
use super::parts::Shared;
use crate::device::{DeviceControl, DomainId, HostMappings, MOST_HOST_MAPPINGS};
use crate::dispatch::accounting::TenantCounters;
use crate::link::{ClientFacts, TenantFacts};
use crate::page::{Buckets, Snapshot, TenantSnapshot};
use crate::settings::Settings;
use gridmux_channel::memory::HostPages;
use gridmux_policy::ids::TenantId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of its own memory that a tenant's kernels may reach, beside what counts, where it may have less device memory:
/// 1 GiB. The system takes them for this process's when it looks for memory to free.
const LEAST_UNCOUNTED_BYTES: u64 = 1 << 30;

/// One tenant's account.
#[derive(Debug)]
pub(super) struct TenantAccount {
    /// Number, under which the dispatcher and the policy know the tenant.
    pub(super) number: u32,
    /// Name.
    pub(super) name: String,
    /// Counters over all of its clients.
    pub(super) counters: Arc<TenantCounters>,
    /// Memory of the host's that copies into holes of its clients' buffers have taken.
    pub(super) pages: Arc<HostPages>,
    holding: Rc<Holding>,
    common: Rc<Common>,
}

impl TenantAccount {
    /// Returns the tenant's number as the dispatcher and the policy know it.
    pub(super) fn id(&self) -> TenantId {
        TenantId(self.number)
    }

    /// Returns what the configuration says of the tenant now.
    pub(super) fn terms(&self) -> Terms {
        self.holding.terms.get()
    }

    /// Returns whether the tenant is configured no more.
    pub(super) fn is_removed(&self) -> bool {
        self.holding.is_removed.get()
    }

    /// Returns how long a module may be, in bytes.
    pub(super) fn module_bytes(&self) -> u64 {
        self.common.limits.borrow().module_bytes
    }

    /// Returns how many clients have a domain.
    pub(super) fn clients(&self) -> usize {
        self.holding.domains.borrow().len()
    }

    /// Has the device hold each client to what all of them together may have.
    pub(super) fn limit_domains(&self, device: &dyn DeviceControl) {
        for domain in self.holding.domains.borrow().iter() {
            device.set_limit(*domain, self.terms().memory_limit_bytes);
        }
    }

    /// Takes a client's memory into the account.
    pub(super) fn join(&self, domain: DomainId) {
        self.holding.domains.borrow_mut().push(domain);
    }

    /// Takes a client's memory out of the account.
    pub(super) fn leave(&self, domain: DomainId) {
        let mut domains = self.holding.domains.borrow_mut();
        domains.retain(|known| *known != domain);
    }

    /// Checks that a client may have more of this process's mappings, and of its own memory that does not count.
    ///
    /// # Errors
    /// The reason why it may not, for the client.
    pub(super) fn check_mappings(
        &self,
        device: &dyn DeviceControl,
        more: HostMappings,
    ) -> Result<(), String> {
        let (name, used) = (&self.name, self.holding.host_mappings(device));
        let most = self.terms().memory_limit_bytes.max(LEAST_UNCOUNTED_BYTES);
        if used.uncounted_bytes.saturating_add(more.uncounted_bytes) > most {
            return Err(format!(
                "kernels of tenant {name} reach {} bytes of its own memory that do not count as device memory, of \
                 {most} at most",
                used.uncounted_bytes
            ));
        }
        let held = |other: &Holding| (other.host_mappings(device).count, u64::MAX);
        let shared = Shared::memory(MOST_HOST_MAPPINGS);
        let most = self.common.most_for(self.number, shared, u64::MAX, held);
        if used.count + more.count <= most {
            return Ok(());
        }
        Err(format!(
            "ranges of its own memory and physical memory of tenant {name} take {} of {most} mappings that it may have \
             beside other tenants; free some",
            used.count
        ))
    }

    /// Checks that a module of that many bytes still fits into what all clients' modules may take of the host's memory.
    ///
    /// # Errors
    /// The reason why it does not, for the client.
    pub(super) fn check_modules(&self, more: u64) -> Result<(), String> {
        let limits = self.common.limits.borrow();
        let (own, all) = (limits.module_memory_bytes, limits.module_memory_total_bytes);
        let used = self.holding.modules.get();
        let held = |other: &Holding| (other.modules.get(), own);
        let most = self
            .common
            .most_for(self.number, Shared::memory(all), own, held);
        if used.saturating_add(more) <= most {
            return Ok(());
        }
        let key = match most < own {
            true => "module_memory_total_bytes, less what others hold and a part for each of them",
            false => "module_memory_bytes",
        };
        Err(format!(
            "the module takes {more} bytes of the host's memory, and loaded modules of tenant {} take {used} of the \
             {most} that they may (limits.{key}); unload some",
            self.name
        ))
    }

    /// Takes a module into the account, if it fits.
    ///
    /// # Errors
    /// As [`TenantAccount::check_modules`].
    pub(super) fn take_modules(&self, bytes: u64) -> Result<(), String> {
        self.check_modules(bytes)?;
        let modules = &self.holding.modules;
        modules.set(modules.get() + bytes);
        Ok(())
    }

    /// Takes modules out of the account.
    pub(super) fn give_modules_back(&self, bytes: u64) {
        let modules = &self.holding.modules;
        modules.set(modules.get().saturating_sub(bytes));
    }

    /// Takes descriptors into the account; returns whether there was room.
    pub(super) fn take_descriptors(&self, count: u64) -> bool {
        let after = self.holding.descriptors.get() + count;
        let has_room = after <= self.most_descriptors(Shared::descriptors());
        if has_room {
            self.holding.descriptors.set(after);
        }
        has_room
    }

    fn most_descriptors(&self, shared: Shared) -> u64 {
        let held = |other: &Holding| (other.descriptors.get(), u64::MAX);
        self.common.most_for(self.number, shared, u64::MAX, held)
    }

    /// Checks that one more client has a place.
    ///
    /// # Errors
    /// The reason why it has none, for the client.
    pub(super) fn check_place(&self) -> Result<(), String> {
        let (name, own) = (&self.name, self.terms().clients_limit);
        let (clients, all) = (self.clients() as u64, self.common.limits.borrow().clients);
        if clients >= own.into() {
            return Err(format!(
                "tenant {name} has no place left for a client (its limit is {own})"
            ));
        }
        let held = |other: &Holding| {
            let clients = other.domains.borrow().len() as u64;
            (clients, other.terms.get().clients_limit.into())
        };
        let shared = Shared::places(all);
        if clients < self.common.most_for(self.number, shared, own.into(), held) {
            return Ok(());
        }
        Err(format!(
            "tenant {name} has {clients} clients, and the places that are left of {all} (limits.clients) are kept for \
             other tenants; disconnect one"
        ))
    }

    /// Takes descriptors out of the account.
    pub(super) fn give_descriptors_back(&self, count: u64) {
        let descriptors = &self.holding.descriptors;
        descriptors.set(descriptors.get().saturating_sub(count));
    }

    /// Returns the device memory that all clients hold, in bytes.
    pub(super) fn memory_used(&self, device: &dyn DeviceControl) -> u64 {
        self.holding.memory_used(device)
    }

    /// Returns the most device memory that all clients may hold now, in bytes.
    pub(super) fn memory_limit(&self, device: &dyn DeviceControl) -> u64 {
        let held = |other: &Holding| {
            let limit = other.terms.get().memory_limit_bytes;
            (other.memory_used(device), limit)
        };
        let shared = Shared::memory(device.facts().memory_bytes);
        let own = self.terms().memory_limit_bytes;
        self.common.most_for(self.number, shared, own, held)
    }

    /// Checks that `more` bytes still fit into what all clients may hold.
    ///
    /// # Errors
    /// The reason why they do not, for the client.
    pub(super) fn check_room(&self, device: &dyn DeviceControl, more: u64) -> Result<(), String> {
        let (used, limit) = (self.memory_used(device), self.memory_limit(device));
        let has_room = used.saturating_add(more) <= limit;
        if more > 0 {
            self.holding.note_request(more, has_room);
        }
        if has_room {
            return Ok(());
        }
        let why = match limit {
            limit if limit < self.terms().memory_limit_bytes => {
                "; others hold the rest, or it is kept for them"
            }
            limit if limit < device.facts().memory_bytes => {
                "; its memory_limit_bytes (`gridmux tenant set --memory-limit`) may give it more"
            }
            _ => "",
        };
        Err(format!(
            "out of device memory: asked for {more} bytes, {used} of the {limit} bytes of tenant {} are in use by its \
             clients ({}){why}",
            self.name,
            self.clients()
        ))
    }
}

/// All accounts.
#[derive(Debug)]
pub(super) struct TenantAccounts {
    /// By number; none of a tenant that is configured no more and has no clients.
    accounts: Vec<Option<Rc<TenantAccount>>>,
    /// Counters of tenants without an account.
    former: Vec<TenantSnapshot>,
    common: Rc<Common>,
}

/// The accounts that a change of settings affects.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// New accounts, and those whose weight, class or state changed.
    pub(super) introduced: Vec<Rc<TenantAccount>>,
    /// Accounts whose memory limit changed.
    pub(super) limited: Vec<Rc<TenantAccount>>,
    /// Accounts of tenants that are no longer configured.
    pub(super) removed: Vec<Rc<TenantAccount>>,
}

impl TenantAccounts {
    /// Opens an account for each configured tenant, which goes on from what was counted before.
    pub(super) fn new(settings: &Settings, before: &Snapshot) -> Self {
        let mut accounts = Self {
            accounts: Vec::new(),
            former: before.tenants.clone(),
            common: Rc::default(),
        };
        accounts.set(settings);
        accounts
    }

    /// Obeys settings from now on. What clients hold beyond a smaller limit stays theirs.
    pub(super) fn set(&mut self, settings: &Settings) -> Changes {
        *self.common.limits.borrow_mut() = settings.limits.clone();
        let mut changes = Changes::default();
        let mut named = vec![false; self.accounts.len()];
        for facts in &settings.tenants {
            if let Some(named) = named.get_mut(facts.number as usize) {
                *named = true;
            }
            self.set_tenant(facts, &mut changes);
        }
        for (account, _) in self.accounts.iter().zip(named).filter(|(_, named)| !named) {
            let account = account.iter().filter(|account| !account.is_removed());
            changes.removed.extend(account.cloned());
        }
        for account in &changes.removed {
            account.holding.is_removed.set(true);
        }
        changes
    }

    /// Opens an account or changes one.
    fn set_tenant(&mut self, facts: &TenantFacts, changes: &mut Changes) {
        let place = facts.number as usize;
        let terms = Terms::from(facts);
        if let Some(account) = self.accounts.get(place).and_then(Option::as_ref) {
            account.holding.is_removed.set(false);
            let before = account.holding.terms.replace(terms);
            if before.memory_limit_bytes != terms.memory_limit_bytes {
                changes.limited.push(Rc::clone(account));
            }
            let told = |terms: &Terms| (terms.weight, terms.class, terms.state);
            if told(&before) != told(&terms) {
                changes.introduced.push(Rc::clone(account));
            }
            return;
        }
        let known = self
            .former
            .iter()
            .position(|former| former.name == facts.name);
        let counted = known.map(|place| self.former.swap_remove(place).counters());
        let holding = Rc::new(Holding {
            terms: Cell::new(terms),
            is_removed: Cell::new(false),
            domains: RefCell::default(),
            modules: Cell::new(0),
            descriptors: Cell::new(0),
            refused: Cell::new(None),
        });
        let holdings = &self.common.holdings;
        let holdings = &mut *holdings.borrow_mut();
        holdings.insert(facts.number, Rc::clone(&holding));
        let account = Rc::new(TenantAccount {
            number: facts.number,
            name: facts.name.clone(),
            counters: Arc::new(counted.unwrap_or_default()),
            pages: Arc::default(),
            holding,
            common: Rc::clone(&self.common),
        });
        if self.accounts.len() <= place {
            self.accounts.resize_with(place + 1, || None);
        }
        self.accounts[place] = Some(Rc::clone(&account));
        changes.introduced.push(account);
    }

    /// Closes the account of a tenant that is configured no more and has no clients; returns whether it did. What was
    /// counted is kept.
    pub(super) fn close(&mut self, account: &TenantAccount) -> bool {
        let is_over = account.is_removed() && account.clients() == 0;
        let Some(place) = self.accounts.get_mut(account.number as usize) else {
            return false;
        };
        let is_closed = place.take_if(|_| is_over).is_some();
        if is_closed {
            self.common.holdings.borrow_mut().remove(&account.number);
            self.former.push(snapshot_of(account, Vec::new(), 0, 0.0));
        }
        is_closed
    }

    /// Returns the name of a tenant that has an account.
    pub(super) fn name_of(&self, tenant: TenantId) -> Option<&str> {
        Some(&self.accounts.get(tenant.index())?.as_ref()?.name)
    }

    /// Returns whether some tenant has a client.
    pub(super) fn have_clients(&self) -> bool {
        self.iter().any(|account| account.clients() > 0)
    }

    /// Returns every account.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Rc<TenantAccount>> {
        self.accounts.iter().flatten()
    }

    /// Returns the account that a client gets: that of the tenant it names, else of the first one that it may be.
    ///
    /// # Errors
    /// Why it gets none, in words for the client.
    pub(super) fn choose(
        &self,
        allowed: &[u16],
        named: Option<&str>,
    ) -> Result<&Rc<TenantAccount>, String> {
        let find = |number: &u16| self.accounts.get(usize::from(*number))?.as_ref();
        let found = allowed.iter().filter_map(find);
        let mut allowed = found.filter(|account| !account.is_removed());
        let Some(named) = named else {
            return allowed.next().ok_or_else(|| NOBODY.to_owned());
        };
        let found = allowed.clone().find(|account| account.name == named);
        found.ok_or_else(|| {
            let names: Vec<&str> = allowed.map(|account| account.name.as_str()).collect();
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
        clients: impl Fn(&TenantAccount) -> Vec<ClientFacts>,
    ) -> Vec<TenantSnapshot> {
        let weight_of = |account: &Rc<TenantAccount>| u64::from(account.terms().weight);
        let present: u64 = self
            .iter()
            .filter(|account| account.clients() > 0)
            .map(weight_of)
            .sum();
        let read = |account: &Rc<TenantAccount>| {
            let own = weight_of(account);
            let all = if account.clients() > 0 {
                present
            } else {
                present + own
            };
            let held = account.memory_used(device);
            let mut read = snapshot_of(account, clients(account), held, ratio(own, all));
            let said = read.usage.binding;
            read.usage.binding = account
                .holding
                .binding(said, held, || account.memory_limit(device));
            read
        };
        self.iter()
            .map(read)
            .chain(self.former.iter().cloned())
            .collect()
    }
}

fn snapshot_of(
    account: &TenantAccount,
    clients: Vec<ClientFacts>,
    memory_used_bytes: u64,
    share_by_weight: f64,
) -> TenantSnapshot {
    TenantSnapshot {
        name: account.name.clone(),
        clients,
        memory_used_bytes,
        share_by_weight,
        usage: account.counters.read(),
        start: Buckets::of(account.counters.start_latency()),
        complete: Buckets::of(account.counters.complete_latency()),
        preemption: Buckets::of(account.counters.preemption_latency()),
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

fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{Shared, Snapshot, TenantAccount, TenantAccounts, TenantSnapshot};
    use crate::config::Limits;
    use crate::device::DomainId;
    use crate::dispatch::accounting::TenantUsage;
    use crate::dispatch::accounts::TenantState;
    use crate::link::TenantFacts;
    use crate::settings::Settings;
    use gridmux_policy::Class;
    use std::rc::Rc;

    fn settings(numbers: impl IntoIterator<Item = u32>) -> Settings {
        let tenant = |number: u32| TenantFacts {
            number,
            name: format!("t{number}"),
            weight: 1,
            class: Class::Normal,
            memory_limit_bytes: 1 << 20,
            clients_limit: 9,
            state: TenantState::Running,
        };
        Settings {
            tenants: numbers.into_iter().map(tenant).collect(),
            limits: Limits::default(),
            rules: 1,
            policy: "fifo".into(),
        }
    }

    fn accounts(count: u32) -> TenantAccounts {
        TenantAccounts::new(&settings(0..count), &Snapshot::default())
    }

    fn names(accounts: &[Rc<TenantAccount>]) -> Vec<&str> {
        accounts.iter().map(|account| &*account.name).collect()
    }

    #[test]
    fn the_dispatcher_hears_of_what_changed_and_of_nothing_else() {
        let mut accounts = accounts(3);
        let changes = accounts.set(&settings(0..3));
        assert!(
            changes.introduced.is_empty()
                && changes.limited.is_empty()
                && changes.removed.is_empty()
        );
        let mut paused = settings(0..3);
        paused.tenants[2].state = TenantState::Paused;
        assert_eq!(names(&accounts.set(&paused).introduced), ["t2"]);
        let mut other = settings([0, 1, 4]);
        other.tenants[0].weight = 5;
        other.tenants[1].memory_limit_bytes = 1;
        other.limits.module_memory_bytes = 10;
        let changes = accounts.set(&other);
        assert_eq!(names(&changes.introduced), ["t0", "t4"]);
        assert_eq!(names(&changes.limited), ["t1"]);
        assert_eq!(names(&changes.removed), ["t2"]);
        assert_eq!(changes.introduced[0].terms().weight, 5);
        let refused = changes.introduced[1].check_modules(11).unwrap_err();
        assert!(refused.contains("of the 10 that"), "{refused}");
        assert!(accounts.set(&other).removed.is_empty(), "removed once");
    }

    #[test]
    fn an_account_is_closed_behind_its_last_client_and_goes_on_when_its_tenant_comes_back() {
        let counted = TenantSnapshot {
            name: "t1".into(),
            usage: TenantUsage {
                completed: 1,
                ..TenantUsage::default()
            },
            ..TenantSnapshot::default()
        };
        let before = Snapshot {
            tenants: vec![counted],
            ..Snapshot::default()
        };
        let mut accounts = TenantAccounts::new(&settings([0, 1]), &before);
        let account = Rc::clone(accounts.choose(&[1], Some("t1")).unwrap());
        account.join(DomainId(0));
        accounts.set(&settings([0]));
        assert!(
            account.is_removed() && !accounts.close(&account),
            "a client is there"
        );
        let error = accounts.choose(&[0, 1], Some("t1")).unwrap_err();
        assert_eq!(error, "may not be tenant \"t1\"; you may be: t0");
        // It comes back before its clients are gone: nothing has happened.
        accounts.set(&settings([0, 1]));
        account.leave(DomainId(0));
        assert!(!accounts.close(&account));
        accounts.set(&settings([0]));
        assert!(accounts.close(&account) && !accounts.close(&account));
        assert_eq!((accounts.iter().count(), accounts.former.len()), (1, 1));
        let changes = accounts.set(&settings([0, 1]));
        assert_eq!(names(&changes.introduced), ["t1"]);
        assert_eq!(changes.introduced[0].counters.read().completed, 1);
        assert!(accounts.former.is_empty());
    }

    #[test]
    fn a_client_is_who_it_names_if_it_may_be_and_else_the_first_that_it_may_be() {
        let accounts = accounts(4);
        let name = |allowed: &[u16], named| {
            let chosen = accounts.choose(allowed, named);
            chosen.map(|account| account.name.clone())
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
        let accounts = accounts(3);
        let accounts = accounts.accounts.iter().flatten();
        let mut taken = Vec::new();
        for account in accounts.clone() {
            let mut own = 0;
            while account.take_descriptors(1) {
                own += 1;
            }
            taken.push(own);
        }
        let all = Shared::descriptors().most_for(u64::MAX, &[]);
        assert!(taken.iter().sum::<u64>() <= all, "{taken:?} of {all}");
        // A twelfth of what there is, and no less than a client needs.
        let part = (all / 12).max(32);
        assert!(taken.iter().all(|own| *own >= part), "{taken:?}");
        let mut accounts = accounts;
        let greedy = accounts.next().unwrap();
        greedy.give_descriptors_back(taken[0]);
        assert!(
            greedy.take_descriptors(1),
            "what was given back is there again"
        );
    }

    #[test]
    fn a_tenant_leaves_places_to_the_others_and_more_to_those_that_may_have_more() {
        let mut settings = settings(0..3);
        settings.limits.clients = 12;
        settings.tenants[0].clients_limit = 12;
        let accounts = TenantAccounts::new(&settings, &Snapshot::default());
        let mut domains = (0..).map(DomainId);
        let mut fill = |number: usize| {
            let account = accounts.accounts[number].as_ref().unwrap();
            while account.check_place().is_ok() {
                account.join(domains.next().unwrap());
            }
            (account.clients(), account.check_place().unwrap_err())
        };
        let (clients, why) = fill(0);
        assert_eq!(clients, 10);
        assert!(why.contains("kept for other tenants"), "{why}");
        assert_eq!((fill(1).0, fill(2).0), (1, 1));
    }

    #[test]
    fn modules_of_all_tenants_take_no_more_than_they_may_together() {
        let mut settings = settings(0..2);
        settings.limits.module_memory_bytes = 1000;
        settings.limits.module_memory_total_bytes = 1200;
        let accounts = TenantAccounts::new(&settings, &Snapshot::default());
        let [greedy, other] = [0, 1].map(|place| accounts.accounts[place].as_ref().unwrap());
        greedy.take_modules(1000).unwrap();
        let why = greedy.take_modules(1).unwrap_err();
        assert!(why.contains("(limits.module_memory_bytes)"), "{why}");
        other.take_modules(200).unwrap();
        let why = other.take_modules(1).unwrap_err();
        assert!(why.contains("limits.module_memory_total_bytes"), "{why}");
        greedy.give_modules_back(500);
        other.take_modules(500).unwrap();
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
