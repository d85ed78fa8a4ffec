//! The link between control thread and dispatcher: a queue in each direction, and counters that the dispatcher shows.
//!
//! Rules: neither end waits for the other; each counter publishes nothing but itself, so every access to one is
//! `Relaxed`.

use super::message::{Message, Notice};
use crossbeam::queue::ArrayQueue;
use nix::sys::eventfd::EventFd;
use std::collections::VecDeque;
use std::sync::Arc;
// Not the shim's: figures that order nothing, so that the loom test need not see them.
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages of the control thread that may wait.
const MESSAGES: usize = if cfg!(loom) { 16 } else { 4096 };
/// Notices to the control thread for which there is room from the start; half of them are kept for notices other than
/// texts of failures, which may be lost.
const NOTICES: usize = if cfg!(loom) { 16 } else { 8192 };

/// Queues between the dispatcher and the control thread.
pub struct ControlLink<P> {
    /// To the dispatcher.
    pub messages: ArrayQueue<Message<P>>,
    /// From the dispatcher.
    pub notices: ArrayQueue<Notice<P>>,
    /// Rung after a notice, if the control thread listens.
    bell: Option<Arc<EventFd>>,
    /// Holds of the virtual clock that ran out.
    holds_expired: AtomicU64,
    /// Number of the dispatcher's newest turn.
    turn: AtomicU64,
}

impl<P> Default for ControlLink<P> {
    fn default() -> Self {
        Self {
            messages: ArrayQueue::new(MESSAGES),
            notices: ArrayQueue::new(NOTICES),
            bell: None,
            holds_expired: AtomicU64::new(0),
            turn: AtomicU64::new(0),
        }
    }
}

impl<P> ControlLink<P> {
    /// Makes a link that rings a bell for each notice.
    #[must_use]
    pub fn with_bell(bell: Arc<EventFd>) -> Self {
        Self {
            bell: Some(bell),
            ..Self::default()
        }
    }

    /// Returns the number of the dispatcher's newest turn. A dispatcher that is woken turns.
    #[must_use]
    pub fn turn(&self) -> u64 {
        // Relaxed: a sign of life that publishes nothing but itself.
        self.turn.load(Ordering::Relaxed)
    }

    /// Returns how often a client held the virtual clock for the longest wall time permitted.
    #[must_use]
    pub fn holds_expired(&self) -> u64 {
        // Relaxed: a counter that publishes nothing but itself.
        self.holds_expired.load(Ordering::Relaxed)
    }

    /// Says how often a client held the virtual clock for the longest wall time permitted.
    pub(in crate::dispatch) fn show_expired(&self, holds: u64) {
        // Relaxed: a counter that publishes nothing but itself.
        self.holds_expired.store(holds, Ordering::Relaxed);
    }

    /// Says which turn the dispatcher is in.
    pub(in crate::dispatch) fn show_turn(&self, turn: u64) {
        // Relaxed: a sign of life that publishes nothing but itself.
        self.turn.store(turn, Ordering::Relaxed);
    }
}

/// The dispatcher's notices on their way to the control thread.
pub(in crate::dispatch) struct Outbox<P> {
    pub(in crate::dispatch) link: Arc<ControlLink<P>>,
    /// Notices that found the queue full.
    unsent: VecDeque<Notice<P>>,
}

impl<P> Outbox<P> {
    /// Makes the dispatcher's end of a link.
    pub(in crate::dispatch) fn new(link: Arc<ControlLink<P>>) -> Self {
        let unsent = VecDeque::with_capacity(NOTICES);
        Self { link, unsent }
    }

    /// Says something to the control thread.
    pub(in crate::dispatch) fn notify(&mut self, notice: Notice<P>) {
        // Texts of failures are the clients' doing and may be lost; the rest of the queue is kept for what must arrive.
        let is_text = matches!(notice, Notice::Failed { .. } | Notice::Refused { .. });
        if is_text && self.link.notices.len() > NOTICES / 2 {
            return;
        }
        self.unsent.push_back(notice);
        self.send();
    }

    /// Hands over notices as far as there is room; the rest is handed over in a later turn.
    pub(in crate::dispatch) fn send(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        while let Some(notice) = self.unsent.pop_front() {
            if let Err(notice) = self.link.notices.push(notice) {
                self.unsent.push_front(notice);
                break;
            }
        }
        if let Some(bell) = &self.link.bell {
            // Non-blocking: a full counter means that it rings already.
            let _ = bell.write(1);
        }
    }
}
