//! The one place that chooses between the standard atomics and loom's.
//!
//! Everything lock-free in this room imports its atomics from here, so that
//! the loom tests explore exactly the code that runs.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The tenant's half of the asymmetric barrier: the compiler keeps the order,
/// and the mediator's `membarrier` makes the processor keep it.
#[cfg(not(loom))]
#[inline]
pub(crate) fn light_fence() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// loom knows no `membarrier`. What the two halves guarantee together is what
/// two full fences guarantee, so that is what it explores.
#[cfg(loom)]
pub(crate) fn light_fence() {
    fence(Ordering::SeqCst);
}

/// Asks for the cache line of `place` to write it soon.
#[inline]
pub(crate) fn prefetch_write<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: a prefetch is a hint and accesses nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = place;
}
