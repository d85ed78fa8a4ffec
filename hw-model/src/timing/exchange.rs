//! Messages between the two halves of an epoch: requests from SMs to partitions, and replies in return.
//!
//! There is one box for each pair of sender and receiver, so that both sides run on several threads without a lock: in
//! one half each sender uses its own row of boxes, in the other each receiver its own column.
//! Rule: a row or column belongs to one thread at a time; the end of a job of the crew hands it over.

use std::cell::UnsafeCell;

/// Letters that a box holds before it grows.
const CAPACITY: usize = 32;

/// Boxes by sender and receiver.
#[derive(Debug)]
pub(crate) struct Exchange<T> {
    boxes: Box<[UnsafeCell<Vec<T>>]>,
    receivers: usize,
}

// SAFETY: a box is reached only through `of`, whose callers hold different boxes at the same time.
unsafe impl<T: Send> Sync for Exchange<T> {}

impl<T> Exchange<T> {
    pub(crate) fn new(senders: usize, receivers: usize) -> Self {
        let boxes = (0..senders * receivers).map(|_| UnsafeCell::new(Vec::with_capacity(CAPACITY)));
        Self {
            boxes: boxes.collect(),
            receivers,
        }
    }

    /// Returns the box from a sender to a receiver.
    ///
    /// # Safety
    /// Nobody else may hold this box at the same time.
    #[allow(clippy::mut_from_ref, reason = "that is its purpose")]
    #[inline]
    pub(crate) unsafe fn of(&self, sender: usize, receiver: usize) -> &mut Vec<T> {
        assert!(receiver < self.receivers);
        // SAFETY: the caller promises that nobody else holds the box.
        unsafe { &mut *self.boxes[sender * self.receivers + receiver].get() }
    }
}
