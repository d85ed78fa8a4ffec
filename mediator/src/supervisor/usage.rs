//! Accounts of use ([`crate::accounting`]): what clients used is taken from what their host says, and handed to the
//! thread that writes it.
//!
//! Rules: nothing is taken where no file is configured. The page is read once in a flush; what a client used that is
//! gone comes with the message that it is gone, and what clients used whose host has ended from the last page of that
//! host. The answer to an operator comes when the thread has it.

use super::Supervisor;
use super::admin::AdminReply;
use super::identity::Peer;
use super::tenants::Tenants;
use crate::accounting::count::{self, At, Counts};
use crate::accounting::queue::Queue;
use crate::accounting::{Accountant, FLUSH_PAUSE, UsageQuery, unix_now};
use crate::config::Config;
use crate::link::LastUse;
use crate::page::{Snapshot, monotonic_ns};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long the last flush may take when the service ends.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// Why nobody can say what was used.
const OFF: &str = "this service keeps no accounts; name a file for them in its configuration (accounting.file) and \
                   start it anew";

/// The accounts of a service that keeps them.
#[derive(Debug)]
pub(super) struct Accounts {
    file: PathBuf,
    accountant: Accountant,
    counts: Counts,
    /// What the thread had no room for yet.
    queue: Queue,
    due: Instant,
}

impl Accounts {
    /// Starts to keep accounts, if the configuration names a file for them.
    pub(super) fn start(config: &Config) -> Option<Self> {
        let file = config.accounting.file.as_deref()?;
        if let Some((above, owner)) = crate::trusted_path::endangered(file) {
            let (above, file) = (above.display(), file.display());
            tracing::warn!(
                "{above} is user {owner}'s or can be written by others, who could put another file in the place of \
                 {file} (accounting.file)"
            );
        }
        match Accountant::start(file) {
            Ok(accountant) => Some(Self {
                file: file.to_owned(),
                accountant,
                counts: Counts::default(),
                queue: Queue::default(),
                due: Instant::now(),
            }),
            Err(error) => {
                tracing::error!(%error, "no accounts are kept: there is no thread for them");
                None
            }
        }
    }

    /// Begins to count for a client that was handed to a host.
    pub(super) fn begin(&mut self, id: u32, peer: &Peer, allowed: Vec<u16>) {
        let who = (peer.credentials.uid, peer.cgroup.clone());
        self.counts.begin(id, who, allowed, now());
    }

    /// Takes what a client used that is gone.
    pub(super) fn end(&mut self, id: u32, last: Option<&LastUse>, tenants: &Tenants) {
        self.counts.end(id, last, (tenants, now()), &mut self.queue);
    }

    /// Takes what clients used until a reading of the page.
    fn read(&mut self, snapshot: &Snapshot, tenants: &Tenants) {
        self.counts.read(snapshot, tenants, now(), &mut self.queue);
    }

    /// Returns whether a flush is due, and says when the next one is.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now + FLUSH_PAUSE;
        }
        is_due
    }
}

fn now() -> At {
    At {
        monotonic_ns: monotonic_ns(),
        unix: unix_now(),
    }
}

impl count::Tenants for Tenants {
    fn number_of(&self, name: &str) -> Option<u16> {
        self.number(name)
    }

    fn name_of(&self, number: u16) -> Option<&str> {
        self.name(number)
    }
}

impl Supervisor {
    /// Takes what clients used and has it written, when that is due.
    pub(super) fn keep_accounts(&mut self, now: Instant) {
        if let Some(accounts) = &mut self.accounts
            && accounts.is_due(now)
        {
            self.take_use();
        }
        self.answer_with_use(now);
    }

    /// Returns how long it is until a flush is due, if accounts are kept.
    pub(super) fn time_to_flush(&self, now: Instant) -> Option<Duration> {
        let accounts = self.accounts.as_ref()?;
        Some(accounts.due.saturating_duration_since(now))
    }

    /// Takes what clients used until now and hands it to the thread.
    pub(super) fn take_use(&mut self) {
        let Some(accounts) = &mut self.accounts else {
            return;
        };
        let snapshot = self.readings.newest(&self.tenants);
        accounts.read(snapshot, &self.tenants);
        accounts.accountant.flush(&mut accounts.queue);
    }

    /// Takes what clients used whose host has ended.
    pub(super) fn take_last_use(&mut self) {
        self.take_use();
        if let Some(accounts) = &mut self.accounts {
            accounts.counts.clear();
        }
    }

    /// Asks the thread for an operator, with what was used until now.
    pub(super) fn ask_for_use(&mut self, operator: u64, query: UsageQuery, now: Instant) {
        self.take_use();
        let error = match &self.accounts {
            None => OFF,
            Some(accounts) if accounts.accountant.ask(operator, query) => return,
            Some(_) => {
                "too many ask for use at once, or the disk under its database does not keep up; ask again"
            }
        };
        let reply = AdminReply::Error(error.into());
        self.operators.answer(operator, &reply, now);
    }

    fn answer_with_use(&mut self, now: Instant) {
        let Some(accounts) = &self.accounts else {
            return;
        };
        for (operator, answer) in accounts.accountant.answers() {
            let reply = match answer {
                Ok(report) => AdminReply::Usage(Box::new(report)),
                Err(why) => AdminReply::Error(why),
            };
            self.operators.answer(operator, &reply, now);
        }
    }

    /// Writes what clients used until the end.
    pub(super) fn close_accounts(&mut self) {
        self.take_use();
        let Some(accounts) = self.accounts.take() else {
            return;
        };
        if !accounts.accountant.stop(accounts.queue, STOP_PATIENCE) {
            let file = accounts.file.display();
            tracing::error!(%file, "what was used last is not written: its disk does not answer");
        }
    }
}
