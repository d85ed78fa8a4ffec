//! Atomics: loom's when the crate is built to be explored, the standard library's otherwise.

// Not the shim's: this room knows no other one.
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
