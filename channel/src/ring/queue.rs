//! One single-producer single-consumer queue over memory that both ends share.
//!
//! An entry carries its own publication: the upper half of its stamp word is
//! the **turn**, how often the producer has been around the ring when it wrote
//! the slot. The consumer knows which turn it waits for and looks at the slot
//! itself, so that handing over an entry moves one cache line and not two (a
//! shared tail index was measured at a third of the throughput when the
//! consumer is at the producer's heels). The consumer's index is shared, for
//! the producer to know what is free; it caches it and reloads it only when
//! the cache says full.
//!
//! Each end keeps its own position privately and never reads back what it
//! wrote, so that a hostile peer cannot move it. A slot is an array of atomic
//! words: a peer that writes it while it is read can spoil the copy and
//! nothing else.
//!
//! Several entries can be published at once: they are **staged**, and the
//! stamp of the first is written last, so that a consumer that sees one of them
//! sees all.
//!
//! Invariant (`tests/loom_ring.rs`): what is pushed is popped once, in order,
//! whole.

use gridmux_sync::shim::{AtomicU32, AtomicU64, Ordering, prefetch_write};
use thiserror::Error;

/// How many slots ahead of use the producer asks for a cache line, so that the
/// transfers from the consumer's processor overlap.
const AHEAD: u32 = 8;
/// Where the turn stands in the stamp word.
const TURN_SHIFT: u32 = 32;
const PAYLOAD_MASK: u64 = (1 << TURN_SHIFT) - 1;

/// The peer wrote an index or a turn that no honest peer can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{what} {theirs} cannot stand where ours is {ours}")]
pub struct Corrupt {
    /// An index or a turn.
    pub what: &'static str,
    /// Our index.
    pub ours: u32,
    /// The index that the peer wrote.
    pub theirs: u32,
}

/// The shared part of a queue whose entries are `W` words, of which word `S`
/// is the stamp: its lower half is the entry's, its upper half the turn's. The
/// number of slots is a power of two; all memory starts as zeroes.
#[derive(Debug)]
pub struct Queue<'a, const W: usize, const S: usize> {
    /// How many entries the consumer has released; written by it alone.
    pub head: &'a AtomicU32,
    /// The entries; written by the producer alone.
    pub slots: &'a [[AtomicU64; W]],
}

impl<const W: usize, const S: usize> Queue<'_, W, S> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "layouts hold at most 2^18 slots"
    )]
    fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    fn slot(&self, position: u32) -> &[AtomicU64; W] {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    /// Returns the turn of an entry at `position`: 1 in the first round.
    fn turn(&self, position: u32) -> u32 {
        (position >> self.slots.len().trailing_zeros()).wrapping_add(1) & self.turn_mask()
    }

    /// Positions wrap at 2^32, so turns wrap with them.
    fn turn_mask(&self) -> u32 {
        u32::MAX >> self.slots.len().trailing_zeros()
    }
}

/// The producer's private state.
#[derive(Debug, Default)]
pub struct Producer<const W: usize, const S: usize> {
    tail: u32,
    head_seen: u32,
    /// Entries written behind `tail` and not published: the stamp of the first
    /// of them is still to be written, and with it all become visible.
    staged: u32,
    first_stamp: u64,
}

impl<const W: usize, const S: usize> Producer<W, S> {
    /// Writes and publishes one entry; `false` if there is no room. The upper
    /// half of the stamp word is the queue's and is not carried.
    ///
    /// # Errors
    /// [`Corrupt`] if the consumer's index is impossible.
    #[inline]
    pub fn push(&mut self, queue: &Queue<'_, W, S>, words: &[u64; W]) -> Result<bool, Corrupt> {
        let staged = self.stage(queue, words)?;
        self.publish(queue);
        Ok(staged)
    }

    /// Writes one entry behind those that are staged, for [`Producer::publish`]
    /// to publish; `false` if there is no room.
    ///
    /// # Errors
    /// [`Corrupt`] if the consumer's index is impossible.
    #[inline]
    pub fn stage(&mut self, queue: &Queue<'_, W, S>, words: &[u64; W]) -> Result<bool, Corrupt> {
        let free_behind = queue.capacity() - self.staged;
        if self.tail.wrapping_sub(self.head_seen) >= free_behind
            && self.refresh(queue)? >= free_behind
        {
            return Ok(false);
        }
        let position = self.tail.wrapping_add(self.staged);
        prefetch_write(queue.slot(position.wrapping_add(AHEAD)));
        let slot = queue.slot(position);
        for i in (0..W).filter(|i| *i != S) {
            // Relaxed: published by the Release store of the stamp in `publish`.
            slot[i].store(words[i], Ordering::Relaxed);
        }
        let turn = u64::from(queue.turn(position)) << TURN_SHIFT;
        let stamp = (words[S] & PAYLOAD_MASK) | turn;
        if self.staged == 0 {
            self.first_stamp = stamp;
        } else {
            // Relaxed: the consumer looks at no slot before the one in front of
            // it, whose stamp is published later.
            slot[S].store(stamp, Ordering::Relaxed);
        }
        self.staged += 1;
        Ok(true)
    }

    /// Publishes every staged entry at once; returns how many there were.
    #[inline]
    pub fn publish(&mut self, queue: &Queue<'_, W, S>) -> u32 {
        let staged = std::mem::take(&mut self.staged);
        if staged > 0 {
            // Release: pairs with the Acquire load of the stamp in
            // `Consumer::look`, which makes the words of all of them visible.
            queue.slot(self.tail)[S].store(self.first_stamp, Ordering::Release);
            self.tail = self.tail.wrapping_add(staged);
        }
        staged
    }

    /// Returns how many entries were published so far, modulo 2^32.
    #[must_use]
    pub fn published(&self) -> u32 {
        self.tail
    }

    /// Returns how many published entries the consumer is known to have released,
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
    pub fn refresh(&mut self, queue: &Queue<'_, W, S>) -> Result<u32, Corrupt> {
        // Acquire: pairs with the Release store in `Consumer::release`, after
        // which the slots may be overwritten.
        let head = queue.head.load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        // The consumer's index may neither overtake ours nor fall back behind
        // what it said before.
        if used > self.tail.wrapping_sub(self.head_seen) {
            return Err(Corrupt {
                what: "consumer index",
                ours: self.tail,
                theirs: head,
            });
        }
        self.head_seen = head;
        Ok(used)
    }
}

/// The consumer's private state. A clone looks at the place at which the
/// original stood; it must not pop.
#[derive(Debug, Clone, Default)]
pub struct Consumer<const W: usize, const S: usize> {
    head: u32,
}

impl<const W: usize, const S: usize> Consumer<W, S> {
    /// Copies the next entry out, if there is one; the upper half of its stamp
    /// word is zero. The slot stays the consumer's until
    /// [`Consumer::release`].
    ///
    /// # Errors
    /// [`Corrupt`] if the slot's turn is impossible.
    #[inline]
    pub fn pop(&mut self, queue: &Queue<'_, W, S>) -> Result<Option<[u64; W]>, Corrupt> {
        let Some(stamp) = self.look(queue)? else {
            return Ok(None);
        };
        let slot = queue.slot(self.head);
        // Relaxed: ordered by the Acquire load of the stamp in `look`. A peer
        // that breaks the protocol spoils only this copy.
        let mut words = std::array::from_fn(|i| slot[i].load(Ordering::Relaxed));
        words[S] = stamp & PAYLOAD_MASK;
        self.head = self.head.wrapping_add(1);
        Ok(Some(words))
    }

    /// Gives every popped slot back to the producer.
    #[inline]
    pub fn release(&mut self, queue: &Queue<'_, W, S>) {
        // Release: pairs with the Acquire load of `head` in
        // `Producer::refresh`; our reads of the slots come before it.
        queue.head.store(self.head, Ordering::Release);
    }

    /// Returns how many entries were popped so far, modulo 2^32.
    #[must_use]
    pub fn popped(&self) -> u32 {
        self.head
    }

    /// Returns whether an entry is there to be popped.
    ///
    /// # Errors
    /// [`Corrupt`] if the slot's turn is impossible.
    #[inline]
    pub fn has_entry(&self, queue: &Queue<'_, W, S>) -> Result<bool, Corrupt> {
        Ok(self.look(queue)?.is_some())
    }

    /// The stamp of the next entry, if it was published.
    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the turn is the upper half"
    )]
    fn look(&self, queue: &Queue<'_, W, S>) -> Result<Option<u64>, Corrupt> {
        // Acquire: pairs with the Release store of the stamp in
        // `Producer::push`.
        let stamp = queue.slot(self.head)[S].load(Ordering::Acquire);
        let (turn, awaited) = ((stamp >> TURN_SHIFT) as u32, queue.turn(self.head));
        if turn == awaited {
            return Ok(Some(stamp));
        }
        // What stands there otherwise is the entry of the round before.
        if turn == awaited.wrapping_sub(1) & queue.turn_mask() {
            return Ok(None);
        }
        Err(Corrupt {
            what: "turn",
            ours: awaited,
            theirs: turn,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Consumer, Producer, Queue};
    use gridmux_sync::shim::{AtomicU32, AtomicU64};

    /// Positions and turns wrap around together; a new ring is put shortly
    /// before that by giving both ends the same late position.
    #[test]
    fn positions_wrap_around() {
        let start = u32::MAX - 9;
        let head = AtomicU32::new(start);
        let turn_before = u64::from(start >> 2) << 32;
        let slots: [[AtomicU64; 1]; 4] =
            std::array::from_fn(|i| [AtomicU64::new(turn_before + (u64::from(i < 2) << 32))]);
        let queue: Queue<'_, 1, 0> = Queue {
            head: &head,
            slots: &slots,
        };
        let mut producer = Producer {
            tail: start,
            head_seen: start,
            ..Producer::default()
        };
        let mut consumer = Consumer { head: start };
        for i in 0..40_u64 {
            assert_eq!(consumer.pop(&queue), Ok(None), "before {i}");
            for j in 0..4 {
                assert_eq!(producer.push(&queue, &[i + j]), Ok(true));
            }
            assert_eq!(producer.push(&queue, &[99]), Ok(false));
            for j in 0..4 {
                assert_eq!(consumer.pop(&queue), Ok(Some([i + j])));
            }
            consumer.release(&queue);
        }
    }

    #[test]
    fn staged_entries_are_seen_all_at_once() {
        let head = AtomicU32::new(0);
        let slots: [[AtomicU64; 1]; 4] = std::array::from_fn(|_| [AtomicU64::new(0)]);
        let queue: Queue<'_, 1, 0> = Queue {
            head: &head,
            slots: &slots,
        };
        let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
        for round in 0..5_u64 {
            for i in 0..3 {
                assert_eq!(producer.stage(&queue, &[round + i]), Ok(true));
                assert_eq!(consumer.pop(&queue), Ok(None), "{i} of round {round}");
            }
            assert_eq!(producer.publish(&queue), 3);
            assert_eq!(producer.push(&queue, &[9]), Ok(true));
            assert_eq!(producer.stage(&queue, &[99]), Ok(false), "it is full");
            assert_eq!(producer.publish(&queue), 0);
            for word in [round, round + 1, round + 2, 9] {
                assert_eq!(consumer.pop(&queue), Ok(Some([word])));
            }
            consumer.release(&queue);
        }
    }
}
