//! The one place that chooses between the standard atomics and loom's.
//!
//! Everything lock-free in this room imports its atomics from here, so that
//! the loom tests explore exactly the code that runs.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
