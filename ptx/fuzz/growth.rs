//! How much memory one input costs: an allocator that counts, and the bound that every input is held to.
//!
//! A tenant's module must not make the service grow out of proportion. The bound is a multiple of the input's size
//! with an allowance for what any module costs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of memory that a byte of input may cost at the most.
pub const TIMES: usize = 20;
/// What the smallest module may cost besides.
pub const ALLOWANCE_BYTES: usize = 1 << 20;
/// Bytes that a byte of text costs at the most as a part of the typed tree and of the text.
pub const TREE_TIMES: usize = 18;

/// The counting allocator; each target installs it.
pub struct Counting;

// relaxed: each order below, because a target has one thread, and the counts publish nothing else.
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

fn count(grown_by: usize) {
    // relaxed: a target has one thread, and the counts publish nothing else.
    let held = HELD.fetch_add(grown_by, Ordering::Relaxed) + grown_by;
    PEAK.fetch_max(held, Ordering::Relaxed);
    ALLOCATED.fetch_add(grown_by, Ordering::Relaxed);
}

/// Returns the bytes that were ever allocated.
pub fn allocated() -> usize {
    // relaxed: a target has one thread, and the counts publish nothing else.
    ALLOCATED.load(Ordering::Relaxed)
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches none of the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // relaxed: a target has one thread, and the counts publish nothing else.
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, and so from the system's allocator, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs one input; gives the most bytes that the heap held more than before, and what the run gave.
pub fn grown<T>(bytes: &[u8], run: impl FnOnce(&[u8]) -> T) -> (usize, T) {
    // relaxed: a target has one thread, and the counts publish nothing else.
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = run(bytes);
    // relaxed: a target has one thread, and the counts publish nothing else.
    (PEAK.load(Ordering::Relaxed).saturating_sub(before), result)
}

/// Runs one input and panics if it made the heap grow past the bound.
pub fn bounded<T>(bytes: &[u8], run: impl FnOnce(&[u8]) -> T) -> T {
    bounded_besides(bytes, run, |_| 0)
}

/// As [`bounded`], for a run that makes a text from the typed tree: a function is there twice while it is made, and
/// each of the `text_bytes` that were added costs [`TREE_TIMES`] bytes then.
pub fn bounded_besides<T>(
    bytes: &[u8],
    run: impl FnOnce(&[u8]) -> T,
    text_bytes: impl FnOnce(&T) -> usize,
) -> T {
    let (grown, result) = grown(bytes, run);
    let made = TREE_TIMES * (bytes.len() + text_bytes(&result));
    let bound = TIMES * bytes.len() + ALLOWANCE_BYTES + made;
    assert!(
        grown <= bound,
        "{grown} bytes for an input of {}: more than {bound}",
        bytes.len()
    );
    result
}
