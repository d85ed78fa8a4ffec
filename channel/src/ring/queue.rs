//! One single-producer single-consumer queue over memory that both ends share.
//!
//! The shared part ([`Queue`]) is a view: two free-running indices and the
//! slots. Each end keeps its own index privately ([`Producer`], [`Consumer`])
//! and never reads back what it wrote, so that a hostile peer cannot move it.
//! A slot is an array of atomic words: a peer that writes it while it is read
//! can spoil the copy and nothing else.
//!
//! Invariant (`tests/loom_ring.rs`): what is pushed is popped once, in order,
//! whole. Each end caches the other's index and reloads it only when the cache
//! says full or empty, so that the index line moves once per batch.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use thiserror::Error;

/// The peer's index is further from ours than the queue is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("index {theirs} cannot follow {ours} in a queue of {capacity}")]
pub struct Corrupt {
    /// The index that we keep.
    pub ours: u32,
    /// The index that the peer wrote.
    pub theirs: u32,
    /// The number of slots.
    pub capacity: u32,
}

/// The shared part of a queue whose entries are `W` words. The number of slots
/// is a power of two.
#[derive(Debug)]
pub struct Queue<'a, const W: usize> {
    /// How many entries the consumer has released; written by it alone.
    pub head: &'a AtomicU32,
    /// How many entries the producer has published; written by it alone.
    pub tail: &'a AtomicU32,
    /// The entries.
    pub slots: &'a [[AtomicU64; W]],
}

impl<const W: usize> Queue<'_, W> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "layouts hold at most 2^18 slots"
    )]
    fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    fn slot(&self, index: u32) -> &[AtomicU64; W] {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }
}

/// The producer's private state.
#[derive(Debug, Default)]
pub struct Producer<const W: usize> {
    tail: u32,
    head_seen: u32,
}

impl<const W: usize> Producer<W> {
    /// Writes and publishes one entry; `false` if there is no room.
    ///
    /// # Errors
    /// [`Corrupt`] if the consumer's index is impossible.
    #[inline]
    pub fn push(&mut self, queue: &Queue<'_, W>, words: &[u64; W]) -> Result<bool, Corrupt> {
        if self.tail.wrapping_sub(self.head_seen) >= queue.capacity()
            && self.refresh(queue)? >= queue.capacity()
        {
            return Ok(false);
        }
        for (slot, word) in queue.slot(self.tail).iter().zip(words) {
            // Relaxed: published by the Release store of `tail` below.
            slot.store(*word, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        // Release: pairs with the Acquire load of `tail` in `Consumer::refresh`,
        // which makes the words above visible.
        queue.tail.store(self.tail, Ordering::Release);
        Ok(true)
    }

    /// How many entries were published so far, modulo 2^32.
    #[must_use]
    pub fn published(&self) -> u32 {
        self.tail
    }

    /// How many published entries the consumer is known to have released,
    /// modulo 2^32, without looking again.
    #[must_use]
    pub fn released(&self) -> u32 {
        self.head_seen
    }

    /// Looks at the consumer's index again; the number of entries not released.
    ///
    /// # Errors
    /// [`Corrupt`] if the consumer's index is impossible.
    #[inline]
    pub fn refresh(&mut self, queue: &Queue<'_, W>) -> Result<u32, Corrupt> {
        // Acquire: pairs with the Release store in `Consumer::release`, after
        // which the slots may be overwritten.
        let head = queue.head.load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        // The consumer's index may neither overtake ours nor fall back behind
        // what it said before.
        if used > self.tail.wrapping_sub(self.head_seen) {
            return Err(Corrupt {
                ours: self.tail,
                theirs: head,
                capacity: queue.capacity(),
            });
        }
        self.head_seen = head;
        Ok(used)
    }
}

/// The consumer's private state.
#[derive(Debug, Default)]
pub struct Consumer<const W: usize> {
    head: u32,
    tail_seen: u32,
}

impl<const W: usize> Consumer<W> {
    /// Copies the next entry out, if there is one. The slot stays the
    /// consumer's until [`Consumer::release`].
    ///
    /// # Errors
    /// [`Corrupt`] if the producer's index is impossible.
    #[inline]
    pub fn pop(&mut self, queue: &Queue<'_, W>) -> Result<Option<[u64; W]>, Corrupt> {
        if self.head == self.tail_seen && self.refresh(queue)? == 0 {
            return Ok(None);
        }
        let slot = queue.slot(self.head);
        // Relaxed: ordered by the Acquire load of `tail` in `refresh`. A peer
        // that breaks the protocol spoils only this copy.
        let words = std::array::from_fn(|i| slot[i].load(Ordering::Relaxed));
        self.head = self.head.wrapping_add(1);
        Ok(Some(words))
    }

    /// Gives every popped slot back to the producer.
    #[inline]
    pub fn release(&mut self, queue: &Queue<'_, W>) {
        // Release: pairs with the Acquire load of `head` in
        // `Producer::refresh`; our reads of the slots come before it.
        queue.head.store(self.head, Ordering::Release);
    }

    /// Looks at the producer's index again; the number of entries to pop.
    ///
    /// # Errors
    /// [`Corrupt`] if the producer's index is impossible.
    #[inline]
    pub fn refresh(&mut self, queue: &Queue<'_, W>) -> Result<u32, Corrupt> {
        // Acquire: pairs with the Release store of `tail` in `Producer::push`.
        let tail = queue.tail.load(Ordering::Acquire);
        let ready = tail.wrapping_sub(self.head);
        if ready > queue.capacity() || ready < self.tail_seen.wrapping_sub(self.head) {
            return Err(Corrupt {
                ours: self.head,
                theirs: tail,
                capacity: queue.capacity(),
            });
        }
        self.tail_seen = tail;
        Ok(ready)
    }
}
