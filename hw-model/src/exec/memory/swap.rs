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

/// Does the same with a cell that other processes may change as well. Where the host cannot exchange 16 bytes, what
/// they change in between is lost.
///
/// # Safety
/// `at` must be the host address of a checked access of global memory of 16 bytes.
pub(super) unsafe fn swap_among_others(at: *mut u8, lane: Swap) -> [u64; 2] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("cmpxchg16b") {
        // SAFETY: the host has the instruction, and the caller says the rest.
        return unsafe { exchange(at, lane) };
    }
    // SAFETY: the access was checked; this process touches the cell by no other way meanwhile.
    unsafe { swap(at, lane) }
}

/// Exchanges 16 bytes.
///
/// # Safety
/// As [`swap_among_others`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "cmpxchg16b")]
unsafe fn exchange(at: *mut u8, lane: Swap) -> [u64; 2] {
    // Not the shim's: what the instruction is told.
    use std::sync::atomic::Ordering;
    let whole = |low: u64, high: u64| u128::from(low) | u128::from(high) << 64;
    let (expected, new) = (whole(lane[0], lane[1]), whole(lane[2], lane[3]));
    // AcqRel, and Acquire where it differs: pairs with the program's operations on the same cell.
    let (set, differs) = (Ordering::AcqRel, Ordering::Acquire);
    // SAFETY: the caller's access was found inside an allocation, at a multiple of 16 bytes on the device and so in the
    // host, where a window begins at a whole page as well.
    let old = unsafe { std::arch::x86_64::cmpxchg16b(at.cast(), expected, new, set, differs) };
    #[allow(clippy::cast_possible_truncation, reason = "the low half")]
    [old as u64, (old >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::{swap, swap_among_others};

    #[repr(align(16))]
    struct Cell([u64; 2]);

    #[test]
    fn both_halves_count_and_change_together() {
        for run in [swap, swap_among_others] {
            let mut cell = Cell([1, 2]);
            let mut lane = |words| {
                // SAFETY: the cell is this function's own, of 16 bytes at a multiple of them.
                unsafe { run((&raw mut cell.0).cast(), words) }
            };
            assert_eq!(lane([1, 3, 7, 7]), [1, 2], "the high half differs");
            assert_eq!(lane([1, 2, 3, 4]), [1, 2]);
            assert_eq!(lane([0, 0, 0, 0]), [3, 4]);
            assert_eq!(cell.0, [3, 4]);
        }
    }
}
