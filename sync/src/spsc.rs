//! A bounded ring from one producer to one consumer.
//!
//! Positions count up for ever and are masked into the ring; each end keeps a copy of the
//! other's position and looks at the shared one only when the copy says "full" or "empty".
//!
//! Who may touch what: the producer writes `tail` and the slots from `tail` to `head + capacity`;
//! the consumer writes `head` and reads the slots from `head` to `tail`.
//!
//! Invariants, tested in `tests/loom_spsc.rs`: **S1** items come out in order, each once; **S2** a
//! slot is never read and written at the same time; **S3** both operations are wait-free.

use crate::shim::{Arc, AtomicUsize, CachePadded, Ordering, UnsafeCell, prefetch_write};
use std::fmt;
use std::mem::MaybeUninit;

/// How many slots ahead of use the producer asks for a cache line, so that the transfers from the consumer's processor
/// overlap.
const AHEAD: usize = 8;

struct Ring<T> {
    head: CachePadded<AtomicUsize>,
    tail: CachePadded<AtomicUsize>,
    mask: usize,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: the slots are handed between the two ends by `head` and `tail` (S2), and an item only
// needs to be sendable to cross.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above; the ring owns its slots.
unsafe impl<T: Send> Send for Ring<T> {}

/// The end that puts items in.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: usize,
    seen_head: usize,
}

/// The end that takes items out.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: usize,
    seen_tail: usize,
}

/// Makes a ring for `capacity` items, rounded up to a power of two.
#[must_use]
pub fn ring<T: Copy + Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1).next_power_of_two();
    let slots = (0..capacity)
        .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
        .collect();
    let ring = Arc::new(Ring {
        head: CachePadded::new(AtomicUsize::new(0)),
        tail: CachePadded::new(AtomicUsize::new(0)),
        mask: capacity - 1,
        slots,
    });
    let producer = Producer {
        ring: Arc::clone(&ring),
        tail: 0,
        seen_head: 0,
    };
    (
        producer,
        Consumer {
            ring,
            head: 0,
            seen_tail: 0,
        },
    )
}

impl<T: Copy + Send> Producer<T> {
    /// Puts an item in.
    ///
    /// # Errors
    /// Gives the item back when the ring is full.
    #[inline]
    pub fn try_push(&mut self, item: T) -> Result<(), T> {
        if self.tail.wrapping_sub(self.seen_head) > self.ring.mask {
            // Acquire: pairs with the consumer's Release store of `head`; its reads of the slots
            // it frees come before our writes to them (S2).
            self.seen_head = self.ring.head.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.seen_head) > self.ring.mask {
                return Err(item);
            }
        }
        self.ring.slots[self.tail & self.ring.mask].with_mut(|slot| {
            // SAFETY: the check above shows that the slot lies between `tail` and
            // `head + capacity`, where only the producer reaches (S2).
            unsafe { slot.write(MaybeUninit::new(item)) };
        });
        self.tail = self.tail.wrapping_add(1);
        prefetch_write(&self.ring.slots[self.tail.wrapping_add(AHEAD) & self.ring.mask]);
        // Release: pairs with the consumer's Acquire load of `tail`; the item is visible.
        self.ring.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Returns whether the next [`Producer::try_push`] succeeds.
    #[inline]
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        if self.tail.wrapping_sub(self.seen_head) > self.ring.mask {
            // Acquire: pairs with the consumer's Release store of `head`, as in `try_push`.
            self.seen_head = self.ring.head.load(Ordering::Acquire);
        }
        self.tail.wrapping_sub(self.seen_head) <= self.ring.mask
    }

    /// Returns how many calls of [`Producer::try_push`] succeed at least from here on.
    #[must_use]
    pub fn room(&mut self) -> usize {
        // Acquire: pairs with the consumer's Release store of `head`, as in `try_push`.
        self.seen_head = self.ring.head.load(Ordering::Acquire);
        self.capacity() - self.tail.wrapping_sub(self.seen_head)
    }

    /// Returns how many items the ring holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.mask + 1
    }
}

impl<T: Copy + Send> Consumer<T> {
    /// Takes the oldest item out, if there is one.
    #[inline]
    pub fn try_pop(&mut self) -> Option<T> {
        if self.head == self.seen_tail {
            // Acquire: pairs with the producer's Release store of `tail`.
            self.seen_tail = self.ring.tail.load(Ordering::Acquire);
            if self.head == self.seen_tail {
                return None;
            }
        }
        let item = self.read_head();
        self.head = self.head.wrapping_add(1);
        // Release: pairs with the producer's Acquire load of `head`; our read of the slot precedes
        // its next write.
        self.ring.head.store(self.head, Ordering::Release);
        Some(item)
    }

    /// Takes out every item that is there now, oldest first, and returns how many. Frees the slots
    /// all at once, so that the producer's line moves once and not once an item.
    #[inline]
    pub fn drain(&mut self, mut take: impl FnMut(T)) -> usize {
        // Acquire: pairs with the producer's Release store of `tail`.
        self.seen_tail = self.ring.tail.load(Ordering::Acquire);
        let count = self.seen_tail.wrapping_sub(self.head);
        for _ in 0..count {
            take(self.read_head());
            self.head = self.head.wrapping_add(1);
        }
        if count > 0 {
            // Release: pairs with the producer's Acquire load of `head`.
            self.ring.head.store(self.head, Ordering::Release);
        }
        count
    }

    /// Reads the slot at `head`, which must lie before `seen_tail`.
    #[inline]
    fn read_head(&self) -> T {
        self.ring.slots[self.head & self.ring.mask].with(|slot| {
            // SAFETY: the callers checked that the slot lies between `head` and `tail`: the
            // producer wrote it before it published `tail`, and does not reach it until `head`
            // passes (S2). `T: Copy`, so reading leaves nothing to drop.
            unsafe { (*slot).assume_init() }
        })
    }

    /// Returns how many items the ring holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.mask + 1
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Producer")
            .field("pushed", &self.tail)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Consumer")
            .field("popped", &self.head)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::ring;

    #[test]
    fn a_full_ring_gives_the_item_back() {
        let (mut producer, mut consumer) = ring(3);
        assert_eq!(producer.capacity(), 4);
        for item in 0..4 {
            assert_eq!(producer.try_push(item), Ok(()));
        }
        assert_eq!(producer.try_push(9), Err(9));
        assert_eq!(consumer.try_pop(), Some(0));
        assert_eq!(producer.try_push(4), Ok(()));
        assert_eq!(
            std::iter::from_fn(|| consumer.try_pop()).collect::<Vec<_>>(),
            [1, 2, 3, 4]
        );
    }
}
