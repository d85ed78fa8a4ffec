//! The comparison and exchange of 16 bytes, which executes at once or, from the log of an epoch, later.
//!
//! Rule: both halves count for the comparison and change together. What the program's own threads write to the same 16
//! bytes meanwhile, in a file's pages ([`super::exchange`]), may come in between: no stable operation of the host's
//! exchanges as much.

/// What a lane brings: the value that it expects and the one that it leaves, low words first.
pub(super) type Swap = [u64; 4];

/// Swaps one cell; gives what it held, low word first.
///
/// # Safety
/// 16 bytes at `at` must be readable and writable, and nobody else's of this process for the time.
pub(super) unsafe fn swap(at: *mut u8, lane: Swap) -> [u64; 2] {
    let at = at.cast::<[u64; 2]>();
    // SAFETY: the caller answers for the 16 bytes; what another process writes meanwhile is read as a whole or in part.
    unsafe {
        let old = at.read_unaligned();
        if old == [lane[0], lane[1]] {
            at.write_unaligned([lane[2], lane[3]]);
        }
        old
    }
}
