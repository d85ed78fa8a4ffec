//! An allocator that counts what is asked of it, per thread and in the whole process.
//!
//! A test program that uses it says so at its top, because a process has one allocator; for that reason it is a test
//! program of its own:
//!
//! ```
//! use gridmux_testkit::allocator::{CountingAllocator, calls};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! let before = calls();
//! drop(std::hint::black_box(Box::new(5)));
//! assert_eq!(calls() - before, 2);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that the process holds.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// The most bytes that the process held at once.
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with counters.
#[derive(Debug)]
pub struct CountingAllocator;

fn count_call() {
    // A thread that is ending has no counter any more, and nobody reads it.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

fn count_allocated(bytes: usize) {
    // relaxed: the two figures order nothing, and whoever reads them runs or has joined the threads that allocate.
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

fn count_freed(bytes: usize) {
    // relaxed: as in `count_allocated`.
    HELD.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_call();
        count_allocated(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count_call();
        count_freed(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count_call();
        count_freed(layout.size());
        count_allocated(bytes);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(block, layout, bytes) }
    }
}

/// Returns how often this thread has called the allocator: allocations, reallocations and releases.
#[must_use]
pub fn calls() -> u64 {
    CALLS.with(Cell::get)
}

/// Returns the bytes that the process holds.
#[must_use]
pub fn held_bytes() -> usize {
    // relaxed: as in `count_allocated`.
    HELD.load(Ordering::Relaxed)
}

/// Returns the most bytes that the process held at once since [`forget_peak`] was called.
#[must_use]
pub fn peak_bytes() -> usize {
    // relaxed: as in `count_allocated`.
    PEAK.load(Ordering::Relaxed)
}

/// Lets the peak begin again at what the process holds now.
pub fn forget_peak() {
    // relaxed: as in `count_allocated`.
    PEAK.store(held_bytes(), Ordering::Relaxed);
}
