//! How an atomic operation changes a word of memory.
//!
//! A kernel's warps take turns, so that nothing of this process touches a word meanwhile. Where a file's pages stand in
//! the window ([`Domain::has_files`]), the program's own threads may: then the word is exchanged by the host's own
//! atomic operations.
//!
//! Rule: a change that a hostile program keeps undoing is made by force after [`MOST_TRIES`], so that no operation
//! takes for ever.
//!
//! [`Domain::has_files`]: crate::memory::Domain::has_files

use crate::exec::cx::{Cx, Space};
// Not the shim's: words of device memory, which loom's atomics cannot be.
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Exchanges that are tried before a word is overwritten.
const MOST_TRIES: usize = 1024;

/// Returns whether a checked access may be of words that the program's own threads change.
#[inline(always)]
pub(in crate::exec) fn is_among_others(cx: &Cx<'_>) -> bool {
    cx.access.space == Space::Global && cx.domain.has_files()
}

/// Words that the host exchanges as a whole.
pub(in crate::exec) trait HostWord: Copy {
    /// Changes a word that other processes may change as well, and returns what it held.
    ///
    /// # Safety
    /// `at` must be the host address of a checked access of global memory, of this width or a multiple of it.
    unsafe fn exchange(at: *mut Self, change: impl FnMut(Self) -> Self) -> Self;
}

macro_rules! host_word {
    ($($word:ty: $atomic:ty),*) => {
        $(impl HostWord for $word {
            #[inline]
            unsafe fn exchange(at: *mut Self, mut change: impl FnMut(Self) -> Self) -> Self {
                // SAFETY: the caller's access was found inside an allocation, which stays live meanwhile, and at a
                // multiple of its width; a window begins at a whole page in the host as on the device, so that the word
                // is aligned here, too. This process accesses it by no other way meanwhile.
                let word = unsafe { <$atomic>::from_ptr(at) };
                // Acquire: pairs with what the program's threads release on their mapping of the page.
                let mut old = word.load(Ordering::Acquire);
                for _ in 0..MOST_TRIES {
                    let new = change(old);
                    // AcqRel, and Acquire where it was changed: pairs with the program's operations on the same word.
                    match word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(old) => return old,
                        Err(now) => old = now,
                    }
                }
                // AcqRel: pairs with the program's operations, as above.
                word.swap(change(old), Ordering::AcqRel)
            }
        })*
    };
}
host_word!(u16: AtomicU16, u32: AtomicU32, u64: AtomicU64);

/// Changes a word, and returns what it held; `among_others` says that other processes may change it as well.
///
/// # Safety
/// `at` must be the host address of a checked access of this width; where it is not of global memory, `among_others`
/// must be false.
#[inline(always)]
pub(in crate::exec) unsafe fn change<W: HostWord>(
    at: *mut W,
    among_others: bool,
    change: impl Fn(W) -> W,
) -> W {
    if among_others {
        // SAFETY: the caller says so.
        return unsafe { W::exchange(at, change) };
    }
    // SAFETY: the caller's access was checked; warps take turns and no other process has the word, so that nothing
    // else touches it meanwhile.
    unsafe {
        let old = at.read_unaligned();
        at.write_unaligned(change(old));
        old
    }
}

#[cfg(test)]
mod tests {
    use super::{HostWord, change};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn no_change_is_lost_beside_those_of_others() {
        const EACH: u32 = 200_000;
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..EACH {
                    // Relaxed: the sum alone matters, and is read when both have ended.
                    word.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..EACH {
                // SAFETY: the word is aligned and lives, and the other thread changes it atomically.
                unsafe { change(word.as_ptr(), true, |old| old + 1) };
            }
        });
        assert_eq!(word.into_inner(), 2 * EACH);
    }

    #[test]
    fn words_of_each_width_give_what_they_held() {
        let (mut small, mut large) = (7_u16, u64::MAX);
        // SAFETY: words of this function's own, aligned.
        let old = unsafe {
            (
                u16::exchange(&raw mut small, |old| old + 1),
                u64::exchange(&raw mut large, |_| 5),
            )
        };
        assert_eq!((old, small, large), ((7, u64::MAX), 8, 5));
        // SAFETY: as above.
        let old = unsafe { change(&raw mut large, false, |old| old * 2) };
        assert_eq!((old, large), (5, 10));
    }
}
