//! The sleeping flag: how one end falls asleep and the other wakes it, with no
//! wake-up lost and no system call while both are awake.
//!
//! The sleeper sets the flag, fences, looks at its queue **once more**, and
//! only then sleeps. The waker publishes its entry, fences, and then looks at
//! the flag. Both fences are sequentially consistent, so at least one of the
//! two sees what the other wrote (the store-buffering pattern):
//!
//! ```text
//! sleeper                     waker
//!   flag := 1                   tail := n        (publish)
//!   fence  <──── pairs ────>    fence
//!   tail unchanged? sleep       flag = 1? clear it, wake
//! ```
//!
//! The waker clears the flag with a swap, so that a burst of submissions
//! wakes once. A wake may be spurious (the sleeper found work and withdrew
//! while the waker had already claimed), never missing.
//! `tests/loom_park.rs` explores it.

use crate::shim::{AtomicU32, Ordering, fence, light_fence};

/// The value of a flag whose owner is awake.
pub const AWAKE: u32 = 0;
/// The value of a flag whose owner sleeps or is about to.
pub const ASLEEP: u32 = 1;

/// Says that its owner is about to sleep. The owner **must** look at its queue
/// again between this and sleeping.
#[inline]
pub fn announce(flag: &AtomicU32) {
    // Relaxed: the fence below orders it before the second look.
    flag.store(ASLEEP, Ordering::Relaxed);
    // SeqCst: pairs with the fence in `must_wake`. Either the waker sees the
    // flag, or the sleeper's next look at the queue sees the entry.
    fence(Ordering::SeqCst);
}

/// Says that the owner is awake again.
#[inline]
pub fn withdraw(flag: &AtomicU32) {
    // Relaxed: a waker that still sees ASLEEP wakes once too often.
    flag.store(AWAKE, Ordering::Relaxed);
}

/// Returns whether the other end sleeps or is about to. Called after an entry was published.
#[inline]
#[must_use]
pub fn must_wake(flag: &AtomicU32) -> bool {
    // SeqCst: pairs with the fence in `announce`.
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != AWAKE
}

/// Returns what [`must_wake`] returns, without a fence of the processor: for a waker whose sleeper runs a barrier of
/// all processes (`membarrier`) between [`announce`] and its second look.
#[inline]
#[must_use]
pub fn must_wake_light(flag: &AtomicU32) -> bool {
    // Pairs with the sleeper's barrier of all processes as a full fence would.
    light_fence();
    // Relaxed: ordered behind the publication by the fence.
    flag.load(Ordering::Relaxed) != AWAKE
}

/// Clears the flag; returns true to the one caller that has to wake the sleeper.
#[must_use]
pub fn claim(flag: &AtomicU32) -> bool {
    // AcqRel: pairs with the swaps of other claims, so that one of those between two announcements returns true; what
    // orders it behind the publication is the fence in `must_wake`.
    flag.swap(AWAKE, Ordering::AcqRel) != AWAKE
}
