//! A reader's end of a publication.
//!
//! Rule: a reader neither allocates nor frees (P4); what it no longer looks at goes back through its mailbox.

use super::Stamped;
use super::mailbox::Mailbox;
use crate::shim::Arc;
use std::fmt;

/// A reader's end. Belongs to one thread at a time. Made by [`super::Publisher::reader`].
pub struct Reader<T: Stamped> {
    mailbox: Arc<Mailbox<T>>,
    /// From `Arc::into_raw`; owned by the reader until it goes into the mailbox.
    held: *const T,
}

impl<T: Stamped> Reader<T> {
    /// Makes a reader that holds `newest`.
    pub(super) fn new(mailbox: Arc<Mailbox<T>>, newest: Arc<T>) -> Self {
        Self {
            mailbox,
            held: Arc::into_raw(newest),
        }
    }

    /// Returns the newest value. Wait-free: one load when nothing new was published, else that, one
    /// more load and two swaps.
    #[inline]
    pub fn read(&mut self) -> &T {
        if self.mailbox.has_newer() {
            self.take();
        }
        // SAFETY: `held` came from `Arc::into_raw`, and its count is given up only in `take` and
        // `drop`, both of which need `&mut self`, which the returned borrow rules out (P3).
        unsafe { &*self.held }
    }

    /// Returns the value that the last [`Reader::read`] returned, or the first one before any.
    #[inline]
    #[must_use]
    pub fn held(&self) -> &T {
        // SAFETY: as in `read`.
        unsafe { &*self.held }
    }

    #[cold]
    fn take(&mut self) {
        self.held = self.mailbox.exchange(self.held);
    }
}

impl<T: Stamped> Drop for Reader<T> {
    fn drop(&mut self) {
        self.mailbox.close(self.held);
    }
}

// SAFETY: a reader is a counted pointer to a `T: Send + Sync` and its mailbox; moving it to another
// thread moves its ownership of both.
unsafe impl<T: Stamped> Send for Reader<T> {}

impl<T: Stamped> fmt::Debug for Reader<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reader").finish_non_exhaustive()
    }
}
