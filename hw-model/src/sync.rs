//! The one place that chooses between the standard library's atomics and threads and loom's.
//!
//! Rule: what has a loom test imports them from here, so that `--cfg loom` explores the very code that ships.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::{self, JoinHandle},
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::{self, JoinHandle, yield_now as spin_loop},
};
