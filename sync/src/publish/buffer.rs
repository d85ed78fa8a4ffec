//! A counted buffer with one owner: what a value is before its publication and after its last reader gave it back.
//!
//! Rule (P6): only [`UniqueBuffer::reclaim`] makes one of a buffer that was published, and it asks the count.

use crate::shim::Arc;
use std::ops::{Deref, DerefMut};

/// A buffer that nobody else holds.
pub(super) struct UniqueBuffer<T>(Arc<T>);

impl<T> UniqueBuffer<T> {
    /// Allocates a buffer for `value`.
    pub(super) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Takes the buffer back if `buffer` is its last handle; otherwise gives that handle up.
    ///
    /// No new handle can appear meanwhile: handles are made by the publisher alone, of its newest value alone.
    pub(super) fn reclaim(mut buffer: Arc<T>) -> Option<Self> {
        Arc::get_mut(&mut buffer).is_some().then_some(Self(buffer))
    }

    /// Begins to share the buffer.
    pub(super) fn share(self) -> Arc<T> {
        self.0
    }
}

impl<T> Deref for UniqueBuffer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for UniqueBuffer<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::get_mut(&mut self.0).expect("P6: a spare buffer has one handle")
    }
}
