//! The one lock of this crate: a mutex that counts, per thread, how often it was taken.
//!
//! Rule: locks are for control paths. The dispatcher must take none in its steady state (invariant 4 of
//! `ARCHITECTURE.md`), and `tests/steady_state.rs` reads the count to prove it; clippy's `disallowed-types` keeps
//! other locks out.

#[allow(
    clippy::disallowed_types,
    reason = "this is the lock that others are to use"
)]
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many locks this thread has taken so far.
#[must_use]
pub fn taken_by_this_thread() -> u64 {
    TAKEN.with(Cell::get)
}

/// A mutex whose acquisitions are counted.
#[derive(Debug, Default)]
#[allow(
    clippy::disallowed_types,
    reason = "this is the lock that others are to use"
)]
pub struct CountedMutex<T>(Mutex<T>);

impl<T> CountedMutex<T> {
    /// A free mutex.
    #[allow(
        clippy::disallowed_types,
        reason = "this is the lock that others are to use"
    )]
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Takes the lock; blocks while another thread holds it.
    #[allow(
        clippy::disallowed_types,
        reason = "this is the lock that others are to use"
    )]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
        self.0.lock()
    }
}
