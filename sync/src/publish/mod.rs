//! Handing the newest value from one writer to any number of readers, with no lock on either side.
//!
//! Each reader has a mailbox: one slot in which the writer puts the newest value, and two slots in which the reader
//! gives back the value it held. A read that finds the slot empty is one load. The writer writes the next value into a
//! buffer that every reader has given back ([`Publisher::edit`]), so that publishing allocates nothing once there are
//! enough buffers.
//!
//! Who may touch what: the writer swaps `newest` (to a value) and empties `returned`; the reader
//! swaps `newest` (to null) and fills `returned`. Both keep to this order:
//! - writer, at each publication: empty `returned`, then swap `newest`;
//! - reader, when `newest` is not null: put the held value into `returned`, then swap `newest`.
//!
//! Invariants, each with a test in `tests/loom_publish.rs`:
//! - **P1** a reader sees epochs that never fall;
//! - **P2** a read that begins after a publication has ended sees that value or a newer one;
//! - **P3** a value lives as long as a reader may look at it;
//! - **P4** a read frees nothing and allocates nothing: values are freed by the writer (and, once
//!   the writer is gone, by the drop of the reader);
//! - **P5** two `returned` slots suffice. Take three returns in a row, r1 r2 r3, where r1 comes just
//!   before the take of value a and r2 just before the take of value b. Before r3 the reader saw a
//!   value p, and a < b < p. The emptying for p began after the swap of p - 1, which is at least b,
//!   so after the swap of a + 1, which found a taken, so after r1. It ended before the swap of p,
//!   so before r3. At r3, therefore, r1's slot has been emptied and only r2's can be full. The
//!   return in a drop saw no value; it has a slot of its own, `last`. Emptying more often does no harm.
//! - **P6** a buffer is written again only when no reader can look at it. While the writer lives, it alone makes and
//!   gives up counts of a buffer, and it makes them of the newest value only. So a count that it finds to be its last,
//!   of a value that is not the newest, stays the last, and each reader's last look came before its return of the
//!   buffer, hence before the write.

mod buffer;
mod mailbox;
mod reader;

pub use reader::Reader;

use crate::shim::Arc;
use buffer::UniqueBuffer;
use mailbox::Mailbox;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Buffers that one reader can keep from being reused: the one it holds and the two that it gave back. What waits in
/// its mailbox is the newest value.
const BUFFERS_PER_READER: usize = 3;

/// A value that can be published, and carries the number of its publication.
pub trait Stamped: Send + Sync {
    /// Takes the number that the publisher gives it: 1 for the first value, then one more each time.
    fn stamp(&mut self, epoch: u64);
}

/// The writer's end.
pub struct Publisher<T: Stamped> {
    newest: Arc<T>,
    epoch: u64,
    mailboxes: Vec<Arc<Mailbox<T>>>,
    /// Buffers that nobody looks at. The first is the one being edited; others are added behind it.
    spares: Vec<UniqueBuffer<T>>,
}

/// The next value while it is written; made by [`Publisher::edit`]. Readers see it from [`Draft::publish`] on.
///
/// Dereferences to the buffer. Dropped without publication it keeps what was written for the next
/// [`Publisher::edit`], unless [`Publisher::publish_value`] or [`Publisher::reap`] comes first.
pub struct Draft<'a, T: Stamped> {
    /// Its first spare is the buffer.
    publisher: &'a mut Publisher<T>,
}

impl<T: Stamped> Publisher<T> {
    /// Begins with this value, as epoch 1.
    #[must_use]
    pub fn new(mut first: T) -> Self {
        first.stamp(1);
        Self {
            newest: Arc::new(first),
            epoch: 1,
            mailboxes: Vec::new(),
            spares: Vec::new(),
        }
    }

    /// Makes `next` the newest for every reader and returns its epoch. Allocates a buffer for it and frees what
    /// readers gave back ([`Publisher::reap`]), so that whatever an old value owns is given up early.
    /// [`Publisher::edit`] reuses buffers instead.
    pub fn publish_value(&mut self, next: T) -> u64 {
        let epoch = self.send(UniqueBuffer::new(next));
        self.spares.clear();
        epoch
    }

    /// Frees what readers have given back, with every buffer kept for reuse (also that of a dropped [`Draft`]), and
    /// forgets readers that are gone. `publish_value` does this; calling it now and then keeps a quiet publisher's
    /// memory small.
    pub fn reap(&mut self) {
        self.collect();
        self.spares.clear();
    }

    /// Makes a new reader, which holds the newest value from the start. A control-path operation: it allocates.
    pub fn reader(&mut self) -> Reader<T> {
        let mailbox = Arc::new(Mailbox::new());
        self.mailboxes.push(Arc::clone(&mailbox));
        // The list of spares never grows later: beside what readers keep, there are the newest value and the draft.
        let buffers = 2 + BUFFERS_PER_READER * self.mailboxes.len();
        self.spares
            .reserve(buffers.saturating_sub(self.spares.len()));
        Reader::new(mailbox, Arc::clone(&self.newest))
    }

    /// Returns the value published last.
    #[must_use]
    pub fn newest(&self) -> &T {
        &self.newest
    }

    /// Returns the epoch of the value published last.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Moves every buffer that readers have given back, and that nobody else holds, to the spares; forgets readers
    /// that are gone.
    fn collect(&mut self) {
        let Self {
            mailboxes, spares, ..
        } = self;
        mailboxes.retain(|mailbox| {
            mailbox.empty(&mut |buffer| spares.extend(UniqueBuffer::reclaim(buffer)))
        });
    }

    /// Stamps `next` and makes it the newest for every reader; returns its epoch.
    fn send(&mut self, mut next: UniqueBuffer<T>) -> u64 {
        self.epoch += 1;
        next.stamp(self.epoch);
        let old = std::mem::replace(&mut self.newest, next.share());
        // P5: empties `returned` before the swaps of `newest`.
        self.collect();
        for mailbox in &self.mailboxes {
            let untaken = mailbox.deliver(Arc::clone(&self.newest));
            self.spares.extend(untaken.and_then(UniqueBuffer::reclaim));
        }
        self.spares.extend(UniqueBuffer::reclaim(old));
        self.epoch
    }
}

impl<T: Stamped + Default> Publisher<T> {
    /// Returns the buffer for the next value: one that every reader gave back, with its old content left in it for
    /// the caller to overwrite, or else `T::default()`. After a draft that was dropped unpublished it is that
    /// draft's buffer.
    ///
    /// Allocates nothing once there are two buffers and three for each reader.
    pub fn edit(&mut self) -> Draft<'_, T> {
        if self.spares.is_empty() {
            self.collect();
        }
        if self.spares.is_empty() {
            self.spares.push(UniqueBuffer::new(T::default()));
        }
        Draft { publisher: self }
    }
}

impl<T: Stamped> Draft<'_, T> {
    /// Makes the draft the newest value for every reader and returns its epoch.
    pub fn publish(self) -> u64 {
        let next = self.publisher.spares.swap_remove(0);
        self.publisher.send(next)
    }

    /// Returns the value published last, for comparison.
    #[must_use]
    pub fn newest(&self) -> &T {
        &self.publisher.newest
    }

    /// Returns the value published last and the draft, to write one while reading the other.
    #[must_use]
    pub fn both(&mut self) -> (&T, &mut T) {
        (&self.publisher.newest, &mut self.publisher.spares[0])
    }
}

impl<T: Stamped> Deref for Draft<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.publisher.spares[0]
    }
}

impl<T: Stamped> DerefMut for Draft<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.publisher.spares[0]
    }
}

impl<T: Stamped> fmt::Debug for Publisher<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Publisher")
            .field("epoch", &self.epoch)
            .field("readers", &self.mailboxes.len())
            .field("spares", &self.spares.len())
            .finish_non_exhaustive()
    }
}

impl<T: Stamped> fmt::Debug for Draft<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Draft")
            .field("next_epoch", &(self.publisher.epoch + 1))
            .finish_non_exhaustive()
    }
}
