//! Submissions on their way: which cookies are out, and what came back.
//!
//! A cookie is the number of a slot and how often the slot was used, so that a
//! completion that comes twice or out of nowhere is recognised and dropped.
//! The table has one slot for every submission that may be in flight or
//! watched, and grows only when more finished events than that are kept.

use crate::staging::Chunk;
use gridmux_channel::ring::CompletionEntry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an event asks of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Nothing: no event has it.
    Nothing,
    /// When it was executed; a failure is the stream's at once.
    Times,
    /// Its result: a failure is the event's, and the stream's when nobody has asked for it.
    Result,
}

/// A submission, as far as error messages and clean-up need to know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub(crate) operation: &'static str,
    pub(crate) stream: u16,
    pub(crate) watch: Watch,
    /// Staging memory to free when it ends.
    pub(crate) chunk: Option<Chunk>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Free,
    Flying(Ticket),
    Done(Ticket, CompletionEntry),
}

#[derive(Debug)]
struct Slot {
    uses: u32,
    state: State,
}

/// The table of submissions.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    slots: Vec<Slot>,
    free: Vec<u32>,
    streams: Vec<StreamState>,
    ended: u64,
    /// Failures that no event reports, so far.
    failures: Arc<AtomicU64>,
}

/// How much was submitted on each stream at a moment, by the stream's number.
#[derive(Debug)]
pub(crate) struct Submitted(Vec<u64>);

/// What is known of a stream. What is submitted on it ends in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamState {
    /// Submissions so far.
    pub(crate) opened: u64,
    /// The number of those that have ended.
    pub(crate) ended: u64,
    /// Holds submitted so far.
    pub(crate) holds: u64,
    /// The first failure that no event reports.
    pub(crate) failure: Option<(&'static str, CompletionEntry)>,
}

impl Pending {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut pending = Self {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            streams: Vec::new(),
            ended: 0,
            failures: Arc::default(),
        };
        pending.grow(capacity);
        pending
    }

    fn grow(&mut self, by: usize) {
        for _ in 0..by {
            // More than 2^32 slots would take a terabyte.
            let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            self.slots.push(Slot {
                uses: 0,
                state: State::Free,
            });
            self.free.push(index);
        }
    }

    /// Takes a slot for a submission and returns its cookie.
    pub(crate) fn open(&mut self, ticket: Ticket) -> u64 {
        if self.free.is_empty() {
            self.grow(self.slots.len().max(64));
        }
        let index = self.free.pop().unwrap_or(0);
        let slot = &mut self.slots[index as usize];
        slot.uses = slot.uses.wrapping_add(1);
        slot.state = State::Flying(ticket);
        let cookie = u64::from(slot.uses) << 32 | u64::from(index);
        self.stream(ticket.stream).opened += 1;
        cookie
    }

    /// Takes back a slot whose submission was never published.
    pub(crate) fn abandon(&mut self, cookie: u64) {
        if let Some(State::Flying(ticket)) = self.slot(cookie).map(|slot| slot.state) {
            self.release(cookie);
            self.stream(ticket.stream).ended += 1;
        }
    }

    /// Notes a completion; returns staging memory that is free again.
    pub(crate) fn complete(&mut self, entry: CompletionEntry) -> Option<Chunk> {
        let State::Flying(ticket) = self.slot(entry.cookie)?.state else {
            return None;
        };
        self.ended += 1;
        self.stream(ticket.stream).ended += 1;
        if ticket.watch != Watch::Result {
            self.note_failure(ticket, entry);
        }
        if ticket.watch == Watch::Nothing {
            self.release(entry.cookie);
        } else if let Some(slot) = self.slot(entry.cookie) {
            slot.state = State::Done(ticket, entry);
        }
        ticket.chunk
    }

    /// Takes the result of a watched submission that has ended; the slot is free
    /// afterwards.
    pub(crate) fn take(&mut self, cookie: u64) -> Option<(&'static str, CompletionEntry)> {
        let State::Done(ticket, entry) = self.slot(cookie)?.state else {
            return None;
        };
        self.release(cookie);
        Some((ticket.operation, entry))
    }

    /// Returns the result of a watched submission that has ended, and leaves it where it is.
    pub(crate) fn peek(&mut self, cookie: u64) -> Option<CompletionEntry> {
        match self.slot(cookie)?.state {
            State::Done(_, entry) => Some(entry),
            State::Free | State::Flying(_) => None,
        }
    }

    /// Returns whether a watched submission has ended.
    pub(crate) fn is_done(&mut self, cookie: u64) -> bool {
        self.slot(cookie)
            .is_some_and(|slot| matches!(slot.state, State::Done(..)))
    }

    /// Takes note that nobody asks for the result any more: a failure becomes the stream's.
    pub(crate) fn unwatch(&mut self, cookie: u64) {
        let Some(slot) = self.slot(cookie) else {
            return;
        };
        match &mut slot.state {
            State::Flying(ticket) => ticket.watch = Watch::Nothing,
            State::Done(ticket, entry) => {
                let (ticket, entry) = (*ticket, *entry);
                if ticket.watch == Watch::Result {
                    self.note_failure(ticket, entry);
                }
                self.release(cookie);
            }
            State::Free => {}
        }
    }

    pub(crate) fn stream(&mut self, stream: u16) -> &mut StreamState {
        let index = usize::from(stream);
        if self.streams.len() <= index {
            self.streams.resize(index + 1, StreamState::default());
        }
        &mut self.streams[index]
    }

    /// Returns all streams that anything was submitted on, by number.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &StreamState> {
        self.streams.iter()
    }

    /// Returns how much was submitted on each stream so far.
    pub(crate) fn submitted(&self) -> Submitted {
        Submitted(self.streams().map(|stream| stream.opened).collect())
    }

    /// Returns whether what was submitted until then has ended.
    pub(crate) fn have_ended(&self, until: &Submitted) -> bool {
        let ended = self.streams().map(|stream| stream.ended);
        until
            .0
            .iter()
            .zip(ended)
            .all(|(opened, ended)| ended >= *opened)
    }

    /// Returns the number of submissions that have failed so far and that no event reported, for those who have no
    /// lock.
    pub(crate) fn failures(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.failures)
    }

    /// Takes note of a failure, if it is one, that no event reports.
    fn note_failure(&mut self, ticket: Ticket, entry: CompletionEntry) {
        if entry.status == 0 {
            return;
        }
        // Relaxed: who sees the number takes the lock before he looks at the failure.
        self.failures.fetch_add(1, Ordering::Relaxed);
        let failure = &mut self.stream(ticket.stream).failure;
        failure.get_or_insert((ticket.operation, entry));
    }

    /// Returns how many submissions have ended so far.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "the cookie's halves are 32 bits each"
    )]
    fn slot(&mut self, cookie: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(cookie as u32 as usize)?;
        (slot.uses == (cookie >> 32) as u32).then_some(slot)
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "the cookie's low half is the index"
    )]
    fn release(&mut self, cookie: u64) {
        if let Some(slot) = self.slot(cookie) {
            slot.state = State::Free;
            self.free.push(cookie as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pending, Ticket, Watch};
    use gridmux_channel::ring::{CompletionEntry, CompletionStatus};

    fn ticket(watch: Watch) -> Ticket {
        Ticket {
            operation: "launch",
            stream: 3,
            watch,
            chunk: None,
        }
    }

    #[test]
    fn a_completion_counts_once() {
        let mut pending = Pending::with_capacity(1);
        let cookie = pending.open(ticket(Watch::Result));
        let entry = CompletionEntry::new(cookie, CompletionStatus::Ok, 1, 2);
        pending.complete(entry);
        pending.complete(entry);
        assert_eq!((pending.stream(3).opened, pending.stream(3).ended), (1, 1));
        assert_eq!(pending.take(cookie).map(|(_, entry)| entry), Some(entry));
        assert!(pending.take(cookie).is_none());
        pending.complete(entry);
        assert_ne!(pending.open(ticket(Watch::Result)), cookie);
        pending.complete(entry);
        assert_eq!(
            (pending.stream(3).opened, pending.ended()),
            (2, 1),
            "a stale cookie completes nothing"
        );
    }

    #[test]
    fn a_failure_that_nobody_watches_is_the_streams() {
        let mut pending = Pending::with_capacity(2);
        for (watch, at_once) in [
            (Watch::Nothing, true),
            (Watch::Times, true),
            (Watch::Result, false),
        ] {
            let cookie = pending.open(ticket(watch));
            pending.complete(CompletionEntry::new(cookie, CompletionStatus::Trap, 1, 2));
            let found = pending.stream(3).failure.take().is_some();
            pending.unwatch(cookie);
            let later = pending.stream(3).failure.take().is_some();
            assert_eq!((found, later), (at_once, !at_once), "{watch:?}");
        }
    }
}
