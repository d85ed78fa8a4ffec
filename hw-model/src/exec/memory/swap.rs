//! The comparison and exchange of 16 bytes, which executes at once or, from the log of an epoch, later.
//!
//! Rule: both halves count for the comparison and change together.

/// What a lane brings: the value that it expects and the one that it leaves, low words first.
pub(super) type Swap = [u64; 4];

/// Swaps one cell; gives what it held, low word first.
///
/// # Safety
/// 16 bytes at `at` must be readable and writable, and nobody else's for the time.
pub(super) unsafe fn swap(at: *mut u8, lane: Swap) -> [u64; 2] {
    let at = at.cast::<[u64; 2]>();
    // SAFETY: the caller has the 16 bytes for itself.
    unsafe {
        let old = at.read_unaligned();
        if old == [lane[0], lane[1]] {
            at.write_unaligned([lane[2], lane[3]]);
        }
        old
    }
}
