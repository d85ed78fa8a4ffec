//! The configuration is read again (SIGHUP), or an operator changes settings; both while the service runs.
//!
//! A thread of its own reads and checks the configuration and looks up the users and groups that it names, because a
//! file system and a directory of users may take their time, or never answer. One reading is in progress at a time, and
//! a few begin in a second; however many signals come meanwhile, one more reading follows. A late reading is given up
//! when another one is asked for; its thread ends when the system lets it. When as many such threads are left as there
//! may be, requests are refused.
//!
//! Rules: every request is answered with [`State::Reloaded`], a refused one too; a configuration that is not right
//! changes nothing; what cannot change while the service runs stays as it was, and the log names it; what an operator
//! changed holds until a reading that began after the change.

use super::admin::AdminReply;
use super::rules::Rules;
use super::{State, Supervisor};
use crate::config::{Config, ConfigError};
use crate::link::TenantFacts;
use crate::settings::{Change, TenantChange};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The configuration that the service was started with.
#[derive(Clone)]
pub struct Source {
    /// The file, for messages and for those who ask.
    pub file: PathBuf,
    /// Reads it again and checks it; the error names the file, the key and what is wrong.
    pub read: Arc<dyn Fn() -> Result<Config, String> + Send + Sync>,
}

/// Interval at which a reading in progress is polled until it counts as late.
const LOOK: Duration = Duration::from_millis(10);
/// Least time between the beginnings of two readings.
const PAUSE: Duration = Duration::from_millis(200);
/// Time after which a reading counts as late: the log says so, and the next request gives it up for a new reading.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most changed settings that the log names at a reload.
const MOST_CHANGES: usize = 100;
/// Most threads that read: the one of the reading in progress, and those of readings given up that have not ended.
const THREADS: usize = 5;

/// Readings of the configuration while the service runs.
pub(super) struct Reloads {
    /// Where the configuration comes from; none when the service was started without a file.
    source: Option<Source>,
    /// The reading in progress.
    reading: Option<Reading>,
    /// A reading was asked for and has not begun.
    is_wanted: bool,
    /// When a reading last began or was refused.
    began: Option<Instant>,
    /// Changes that operators made since the reading in progress began, by tenant.
    changes: BTreeMap<String, TenantChange>,
    /// The policy that they chose since then.
    policy: Option<String>,
    /// Shared with every thread that reads, so that its count says how many there are.
    threads: Arc<()>,
}

/// A reading in progress.
#[derive(Debug)]
struct Reading {
    /// Brings the outcome when the thread has ended.
    outcome: Receiver<ReadingOutcome>,
    /// When it began.
    since: Instant,
    /// It has taken longer than [`PATIENCE`], and the log says so.
    is_late: bool,
}

type ReadingOutcome = Result<(Config, Rules), String>;

/// Result of a request for a reading.
#[derive(Debug, PartialEq, Eq)]
enum Begun {
    /// None was made, or it waits until a reading may begin.
    Nothing,
    /// A reading has begun.
    Reading,
    /// It is refused for this reason.
    Refused(String),
}

impl Reloads {
    pub(super) fn new(source: Option<Source>) -> Self {
        Self {
            source,
            reading: None,
            is_wanted: false,
            began: None,
            changes: BTreeMap::new(),
            policy: None,
            threads: Arc::new(()),
        }
    }

    /// Returns the file that is read.
    pub(super) fn file(&self) -> Option<&Path> {
        self.source.as_ref().map(|source| &*source.file)
    }

    /// Asks for a reading.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Returns how long the service may sleep before it polls the reading in progress or begins one. A late reading is
    /// polled only when the service wakes up for something else.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let is_late = self.reading.as_ref().is_some_and(|reading| reading.is_late);
        let is_under_way = self.reading.is_some() || self.is_wanted;
        (is_under_way && !is_late).then_some(LOOK)
    }

    /// Returns whether a reading may begin or be refused: the last request was not answered just now, and no reading is
    /// in progress that is not late.
    fn may_begin(&self, now: Instant) -> bool {
        let is_soon = |began: Instant| now.saturating_duration_since(began) < PAUSE;
        let is_busy = self
            .reading
            .as_ref()
            .is_some_and(|reading| !reading.is_late);
        !is_busy && !self.began.is_some_and(is_soon)
    }

    /// Keeps a change for the configuration that is being read, if one is.
    fn keep(&mut self, change: &Change) {
        if self.reading.is_none() {
            return;
        }
        match change {
            Change::Policy(name) => self.policy = Some(name.clone()),
            // No reading changes that.
            Change::State { .. } => {}
            Change::Tenant(change) => {
                let all = match self.changes.remove(&change.name) {
                    Some(earlier) => earlier.and_then(change),
                    None => change.clone(),
                };
                self.changes.insert(change.name.clone(), all);
            }
        }
    }

    /// Takes what was kept.
    fn take_changes(&mut self) -> Vec<Change> {
        let policy = self.policy.take().map(Change::Policy);
        let tenants = std::mem::take(&mut self.changes).into_values();
        policy
            .into_iter()
            .chain(tenants.map(Change::Tenant))
            .collect()
    }

    /// Begins the reading that is wanted, once it may.
    fn begin(&mut self, now: Instant) -> Begun {
        if !self.may_begin(now) || !std::mem::take(&mut self.is_wanted) {
            return Begun::Nothing;
        }
        self.began = Some(now);
        let Some(source) = self.source.clone() else {
            let reason = "the service was started without a configuration file; start it with \
                          --config FILE, or change it with `gridmux tenant set` and `gridmux policy set`";
            return Begun::Refused(reason.to_owned());
        };
        if Arc::strong_count(&self.threads) > THREADS {
            return Begun::Refused(format!(
                "{THREADS} readings of it have begun and not ended; send SIGHUP again when its file can be read"
            ));
        }
        let (told, outcome) = channel();
        let thread = Arc::clone(&self.threads);
        let read = move || {
            // The receiver is gone when the reading was given up.
            let _ = told.send(read(&source));
            drop(thread);
        };
        let spawned = std::thread::Builder::new()
            .name("reload".into())
            .spawn(read);
        if let Err(error) = spawned {
            return Begun::Refused(format!("no thread can be started to read it: {error}"));
        }
        let reading = Reading {
            outcome,
            since: now,
            is_late: false,
        };
        if self.reading.replace(reading).is_some() {
            tracing::warn!("the late reading of the configuration is given up for a new one");
            // The new reading began after these changes, so it overrides them.
            self.take_changes();
        }
        Begun::Reading
    }

    /// Returns the outcome of the reading in progress when it has ended.
    fn take(&mut self, now: Instant) -> Option<ReadingOutcome> {
        let reading = self.reading.as_mut()?;
        let outcome = match reading.outcome.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Disconnected) => Err("reading it failed".into()),
            Err(TryRecvError::Empty) => {
                let is_late = now.saturating_duration_since(reading.since) >= PATIENCE;
                if is_late && !std::mem::replace(&mut reading.is_late, true) {
                    let seconds = PATIENCE.as_secs();
                    tracing::warn!(
                        "the configuration could not be read in {seconds} s; the service goes on with what it has"
                    );
                }
                return None;
            }
        };
        self.reading = None;
        Some(outcome)
    }
}

impl fmt::Debug for Reloads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reloads")
            .field("has_source", &self.source.is_some())
            .field("reading", &self.reading)
            .field("is_wanted", &self.is_wanted)
            .finish_non_exhaustive()
    }
}

fn read(source: &Source) -> ReadingOutcome {
    let config = (source.read)()?;
    let rules = Rules::resolve(&config);
    let rules = rules.map_err(|error| format!("{}: {error}", source.file.display()))?;
    Rules::warn_of_doubts(&config);
    Ok((config, rules))
}

impl Supervisor {
    /// Begins a reading that is wanted, and takes over what one read that has ended.
    pub(super) fn go_on_reloading(&mut self, now: Instant) {
        if let Some(outcome) = self.reloads.take(now) {
            let applied = outcome.and_then(|(config, rules)| {
                let taken = self.take_over(config, rules);
                taken.map_err(|error| error.to_string())
            });
            self.tell_reloaded(applied);
        }
        match self.reloads.begin(now) {
            Begun::Nothing => {}
            Begun::Reading => self.news.push(State::Reloading),
            Begun::Refused(reason) => {
                self.news.push(State::Reloading);
                self.tell_reloaded(Err(reason));
            }
        }
    }

    fn tell_reloaded(&mut self, applied: Result<(), String>) {
        if let Err(reason) = &applied {
            tracing::error!(%reason, "the configuration is not applied; what was in force stays");
        }
        self.news.push(State::Reloaded(applied));
    }

    /// Puts a configuration in force as far as it may change while the service runs.
    fn take_over(&mut self, config: Config, rules: Rules) -> Result<(), ConfigError> {
        let (mut config, kept) = self.config.reloaded_as(config)?;
        for change in self.reloads.take_changes() {
            match change.apply(&config) {
                Ok(changed) => config = changed,
                Err(error) => tracing::warn!(
                    %error, ?change, "what an operator changed while the configuration was read is lost"
                ),
            }
        }
        let numbers = |supervisor: &Self| -> BTreeSet<u16> {
            supervisor.tenants.numbers().iter().copied().collect()
        };
        let before = numbers(self);
        self.tenants.set(&config, rules)?;
        let after = numbers(self);
        for number in after.difference(&before) {
            self.maps.register((*number).into());
        }
        for key in kept {
            tracing::warn!("{key} changed, which needs a restart; it stays as it was");
        }
        let changes = self.config.changes_to(&config);
        for change in changes.iter().take(MOST_CHANGES) {
            tracing::info!("the configuration was read again: {change}");
        }
        if let Some(more) = changes.len().checked_sub(MOST_CHANGES + 1) {
            tracing::info!(
                "the configuration was read again: {} more settings changed",
                more + 1
            );
        }
        let (added, removed) = (names(&self.config, &config), names(&config, &self.config));
        tracing::info!(
            ?added,
            ?removed,
            tenants = config.tenants.len(),
            "the configuration was read again"
        );
        self.claim.open_to_clients_of(&config);
        self.doors.set_limits(&config.limits);
        self.hosts.set_limits(&config.limits);
        self.config = config;
        self.is_host_behind = true;
        Ok(())
    }

    /// Makes a change that an operator asks for, who is that user.
    pub(super) fn change(&mut self, change: &Change, user: u32) -> AdminReply {
        let before = match change.apply(&self.config) {
            Ok(config) => std::mem::replace(&mut self.config, config),
            Err(error) => return AdminReply::Error(error.to_string()),
        };
        match change {
            Change::Tenant(change) => tracing::info!(
                ?change,
                user,
                "an operator changed settings, until the configuration is read again"
            ),
            Change::Policy(to) => tracing::info!(
                from = %before.policy,
                %to,
                user,
                "an operator set the policy, until the configuration is read again"
            ),
            Change::State { name, state } => {
                self.tenants.set_state(name, *state);
                tracing::info!(tenant = %name, %state, user, "an operator paused a tenant or let it go on");
            }
        }
        self.is_host_behind = true;
        self.tell_settings();
        self.reloads.keep(change);
        let host_told = !self.is_host_behind;
        let name = match change {
            Change::Tenant(change) => &change.name,
            Change::State { name, .. } => name,
            Change::Policy(policy) => {
                return AdminReply::Policy {
                    policy: policy.clone(),
                    before: before.policy,
                    host_told,
                };
            }
        };
        let facts = self.tenants.facts(&self.config).into_iter();
        let mut changed = facts.filter(|tenant: &TenantFacts| tenant.name == *name);
        let tenant = changed
            .next()
            .expect("a tenant is configured whose change was applied");
        AdminReply::Tenant {
            tenant: Box::new(tenant),
            host_told,
        }
    }
}

/// Returns the names of the tenants of `new` that `old` does not have.
fn names<'a>(old: &Config, new: &'a Config) -> Vec<&'a str> {
    let known: BTreeSet<&str> = old.tenants.iter().map(|tenant| &*tenant.name).collect();
    let names = new.tenants.iter().map(|tenant| &*tenant.name);
    names.filter(|name| !known.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Begun, PATIENCE, PAUSE, Reloads, Source, THREADS};
    use crate::config::Config;
    use crate::settings::{Change, TenantChange};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    fn source(read: impl Fn() -> Result<Config, String> + Send + Sync + 'static) -> Source {
        Source {
            file: "f".into(),
            read: Arc::new(read),
        }
    }

    #[test]
    fn readings_that_never_end_are_given_up_for_others_up_to_a_limit() {
        let (go_on, may_go_on) = crossbeam::channel::unbounded::<()>();
        let mut reloads = Reloads::new(Some(source(move || {
            let _ = may_go_on.recv();
            Err("late".into())
        })));
        let mut now = Instant::now();
        for _ in 0..THREADS {
            reloads.want();
            assert_eq!(reloads.begin(now), Begun::Reading);
            reloads.want();
            let begun = reloads.begin(now + PATIENCE / 2);
            assert_eq!(begun, Begun::Nothing, "one at a time");
            assert!(reloads.time_left().is_some());
            now += PATIENCE;
            assert!(reloads.take(now).is_none());
            assert!(reloads.time_left().is_none(), "nobody is woken for it");
        }
        let refused =
            |begun| matches!(begun, Begun::Refused(reason) if reason.contains("5 readings"));
        assert!(refused(reloads.begin(now)), "there is a limit");
        now += PAUSE;
        assert_eq!(reloads.begin(now), Begun::Nothing, "it was answered");
        reloads.want();
        assert!(refused(reloads.begin(now)), "and so is every request");
        reloads.want();
        now += PAUSE;
        drop(go_on);
        while Arc::strong_count(&reloads.threads) > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(reloads.take(now).unwrap().is_err());
        assert_eq!(reloads.begin(now), Begun::Reading);
    }

    #[test]
    fn changes_during_a_reading_are_kept_as_one_for_each_tenant() {
        let (go_on, may_go_on) = crossbeam::channel::unbounded::<()>();
        let mut reloads = Reloads::new(Some(source(move || {
            let _ = may_go_on.recv();
            Err("ended".into())
        })));
        let change = |weight, clients| TenantChange {
            name: "a".into(),
            weight,
            clients,
            ..TenantChange::default()
        };
        reloads.keep(&Change::Tenant(change(Some(2), None)));
        assert!(reloads.changes.is_empty(), "nothing is being read");
        reloads.want();
        assert_eq!(reloads.begin(Instant::now()), Begun::Reading);
        for (weight, clients) in [(Some(3), None), (None, Some(4)), (Some(5), None)] {
            reloads.keep(&Change::Tenant(change(weight, clients)));
        }
        reloads.keep(&Change::Policy("fifo".into()));
        let expected = [
            Change::Policy("fifo".into()),
            Change::Tenant(change(Some(5), Some(4))),
        ];
        assert_eq!(reloads.take_changes(), expected);
        assert!(reloads.take_changes().is_empty());
        drop(go_on);
    }

    #[test]
    fn signals_without_end_lead_to_one_reading_at_a_time_and_a_last_one() {
        let (go_on, may_go_on) = crossbeam::channel::unbounded::<()>();
        let count = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&count);
        let mut reloads = Reloads::new(Some(source(move || {
            // SeqCst: pairs with the load at the end of the test.
            counter.fetch_add(1, Ordering::SeqCst);
            may_go_on.recv().unwrap();
            Config::parse("schema_version = 1").map_err(|error| error.to_string())
        })));
        let now = Instant::now();
        assert_eq!(reloads.begin(now), Begun::Nothing, "nobody asked");
        for _ in 0..10_000 {
            reloads.want();
            reloads.begin(now);
            assert!(reloads.take(now).is_none());
        }
        assert!(
            reloads.take(now + PATIENCE).is_none(),
            "it is not waited for"
        );
        let take = |reloads: &mut Reloads| loop {
            if let Some(outcome) = reloads.take(now) {
                break outcome.unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        go_on.send(()).unwrap();
        take(&mut reloads);
        assert_eq!(reloads.begin(now), Begun::Nothing, "not at once");
        assert_eq!(reloads.begin(now + PAUSE), Begun::Reading);
        go_on.send(()).unwrap();
        take(&mut reloads);
        assert_eq!(reloads.begin(now + 9 * PAUSE), Begun::Nothing);
        // SeqCst: pairs with the addition in the source.
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_reading_that_fails_says_why() {
        let mut reloads = Reloads::new(Some(source(|| Err("f: k: wrong".into()))));
        let now = Instant::now();
        reloads.want();
        assert_eq!(reloads.begin(now), Begun::Reading);
        let reason = loop {
            if let Some(outcome) = reloads.take(now) {
                break outcome.unwrap_err();
            }
        };
        assert_eq!(reason, "f: k: wrong");
        let mut without = Reloads::new(None);
        without.want();
        assert!(matches!(without.begin(now), Begun::Refused(_)));
        assert!(without.time_left().is_none());
    }
}
