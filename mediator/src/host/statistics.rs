//! The statistics that a device host writes into its page: when, and what.
//!
//! Rules: the page is written when the supervisor asks, at the end, and every 200 ms while there are clients and
//! something changed; a host without clients looks once a second. A snapshot that cannot be written is left out, and
//! the log says so once.

use crate::page::{MappedPage, Snapshot};
use std::time::{Duration, Instant};

/// Time between two looks at whether something changed, with clients and without.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));

/// The page, and what was written last.
#[derive(Debug)]
pub(super) struct Statistics {
    page: MappedPage,
    /// Counters from before this host, or those that were written last.
    last: Snapshot,
    due: Instant,
    has_warned: bool,
}

impl Statistics {
    /// Takes a page that was mapped, and what it held.
    pub(super) fn new(page: MappedPage, before: Snapshot) -> Self {
        Self {
            page,
            last: before,
            due: Instant::now(),
            has_warned: false,
        }
    }

    /// Returns what was counted before this host, as long as nothing was written.
    pub(super) fn before(&self) -> &Snapshot {
        &self.last
    }

    /// Returns how long it is until a look is due.
    pub(super) fn time_left(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// Returns whether a look is due, and says when the next one is.
    pub(super) fn is_due(&mut self, has_clients: bool, now: Instant) -> bool {
        if self.due > now {
            return false;
        }
        self.due = now + if has_clients { PAUSES.0 } else { PAUSES.1 };
        true
    }

    /// Writes a snapshot if it says something new, or if it was asked for.
    pub(super) fn write(&mut self, snapshot: Snapshot, was_asked: bool) {
        self.last.at_ns = snapshot.at_ns;
        if !was_asked && self.last == snapshot {
            return;
        }
        self.last = snapshot;
        if let Err(error) = self.page.write(&self.last)
            && !std::mem::replace(&mut self.has_warned, true)
        {
            tracing::error!(%error, "statistics are not written");
        }
    }
}
