//! Atomics and shared ownership: std's, or loom's under `--cfg loom`.
//!
//! Rule: whatever two threads of the dispatcher's side share comes from here, so that `tests/loom_dispatcher.rs`
//! explores it.

#[cfg(loom)]
pub(crate) use loom::sync::{Arc, atomic::AtomicU64};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, atomic::AtomicU64};
