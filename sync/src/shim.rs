//! The one place that chooses between the atomics and threads of the standard library, with the lock of `parking_lot`,
//! and loom's.
//!
//! Rule: whatever has a loom test imports its atomics, cells, counted pointers, fences, locks and threads from here, so
//! that `--cfg loom` explores the very code that ships. The names and signatures are those of both libraries; where
//! they differ, one interface is taken: loom's for [`UnsafeCell`], `parking_lot`'s for [`RwLock`].

#[cfg(not(loom))]
#[allow(
    clippy::disallowed_types,
    reason = "what the dispatcher runs does not use it"
)]
pub use parking_lot::RwLock;
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::{self, JoinHandle, yield_now},
};

// A spin is a yield under loom: otherwise it would explore endless executions in which only the spinner runs.
#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::{self, JoinHandle, yield_now, yield_now as spin_loop},
};

/// Keeps what one thread writes off the cache lines that another reads. 128 bytes on x86-64 and AArch64, where the
/// processor prefetches lines of 64 bytes in pairs.
pub use crossbeam_utils::CachePadded;

#[cfg(all(not(loom), any(target_arch = "x86_64", target_arch = "aarch64")))]
const _: () = assert!(align_of::<CachePadded<u8>>() == 128);

/// loom's lock with `parking_lot`'s interface: a panic of a model ends that model, so no lock is seen poisoned.
#[cfg(loom)]
#[derive(Debug)]
pub struct RwLock<T>(loom::sync::RwLock<T>);

#[cfg(loom)]
#[allow(missing_docs, reason = "see parking_lot")]
impl<T> RwLock<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    pub fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("no model goes on after a panic")
    }

    pub fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("no model goes on after a panic")
    }
}

/// A cell with loom's interface: access goes through a closure, so that loom can see its extent.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Makes a cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer to the value, to be read through while the closure runs.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer to the value, to be written through while the closure runs.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Orders the caller's memory accesses for the compiler only. It is the cheap half of an asymmetric barrier: the other
/// half, `membarrier` in another process, makes the processor keep the order.
#[cfg(not(loom))]
#[inline]
pub fn light_fence() {
    // SeqCst: pairs with the barrier of the other process.
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Orders as a full fence. loom knows no `membarrier`; what the two halves of an asymmetric barrier guarantee together
/// is what two full fences guarantee, so that is what it explores.
#[cfg(loom)]
pub fn light_fence() {
    // SeqCst: pairs with the `fence` of the thread that plays the other half.
    fence(Ordering::SeqCst);
}

/// Asks the processor for the cache line of `place`, to write it soon.
#[inline]
pub fn prefetch_write<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: a prefetch is a hint and accesses nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = place;
}
