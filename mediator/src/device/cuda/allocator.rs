//! Which bytes of a tenant's partition are taken: first fit over an ordered free list.
//!
//! The driver's own `cuMemFree` may wait for the whole device, and with it for every other tenant's kernels. A tenant's
//! allocations are therefore cut from its partition by this allocator, which calls no driver.
//!
//! Rules: offsets, not addresses, so that it can be tested anywhere; every offset is a multiple of [`ALIGN_BYTES`], a
//! large allocation's of [`LARGE_ALIGN_BYTES`]; neighbouring free ranges are always one range; first fit keeps the used
//! part low, because the partition backs only what lies below the highest allocation with memory.

use std::collections::BTreeMap;

/// Alignment of every allocation, the one that `cuMemAlloc` promises.
pub(super) const ALIGN_BYTES: u64 = 256;
/// The least size of a large allocation, in bytes.
const LARGE_BYTES: u64 = 1 << 20;
/// Alignment of a large allocation: programs that divide one into pages assume that it begins at a page.
const LARGE_ALIGN_BYTES: u64 = 64 << 10;
/// Most allocations of one tenant: the dispatcher's table of them is copied at each change.
pub(super) const MAX_ALLOCATIONS: usize = 1 << 16;

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    /// No free range is long enough.
    #[error(
        "the longest free range has {longest_bytes} bytes of {free_bytes} free; free something"
    )]
    Full {
        /// Longest free range.
        longest_bytes: u64,
        /// All free ranges together.
        free_bytes: u64,
    },
    /// Too many allocations.
    #[error("{MAX_ALLOCATIONS} allocations are held; free some")]
    TooMany,
}

/// An offset at which no allocation starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAllocated;

/// One allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// First byte.
    pub(super) start: u64,
    /// Length as it was asked for.
    pub(super) bytes: u64,
}

impl Range {
    /// Returns whether `bytes` bytes from `address` on lie inside.
    pub(super) fn holds(self, address: u64, bytes: u64) -> bool {
        address >= self.start
            && (address - self.start)
                .checked_add(bytes)
                .is_some_and(|end| end <= self.bytes)
    }
}

/// The state of one partition.
#[derive(Debug)]
pub(super) struct Allocator {
    size: u64,
    used: u64,
    /// Start to length.
    free: BTreeMap<u64, u64>,
    /// Start to length as asked for.
    taken: BTreeMap<u64, u64>,
}

impl Allocator {
    /// Returns an empty partition of `size` bytes, rounded down to a multiple of [`ALIGN_BYTES`].
    pub(super) fn new(size: u64) -> Self {
        let size = size - size % ALIGN_BYTES;
        let free = (size > 0).then_some((0, size)).into_iter().collect();
        Self {
            size,
            used: 0,
            free,
            taken: BTreeMap::new(),
        }
    }

    /// Returns the bytes taken, rounded up to the alignment.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used
    }

    /// Returns what an allocation of this length takes.
    pub(super) fn footprint(bytes: u64) -> u64 {
        bytes
            .max(1)
            .checked_next_multiple_of(ALIGN_BYTES)
            .unwrap_or(u64::MAX - u64::MAX % ALIGN_BYTES)
    }

    /// Takes the lowest free range that is long enough.
    pub(super) fn alloc(&mut self, bytes: u64) -> Result<u64, NoRoom> {
        if self.taken.len() >= MAX_ALLOCATIONS {
            return Err(NoRoom::TooMany);
        }
        let footprint = Self::footprint(bytes);
        let align = if bytes < LARGE_BYTES {
            ALIGN_BYTES
        } else {
            LARGE_ALIGN_BYTES
        };
        let found = self.free.iter().find_map(|(&first, &length)| {
            let start = first.checked_next_multiple_of(align)?;
            (start.checked_add(footprint)? <= first + length).then_some((first, length, start))
        });
        let Some((first, length, start)) = found else {
            return Err(NoRoom::Full {
                longest_bytes: self.free.values().copied().max().unwrap_or(0),
                free_bytes: self.size - self.used,
            });
        };
        self.free.remove(&first);
        if start > first {
            self.free.insert(first, start - first);
        }
        let (end, all) = (start + footprint, first + length);
        if all > end {
            self.free.insert(end, all - end);
        }
        self.taken.insert(start, bytes);
        self.used += footprint;
        Ok(start)
    }

    /// Gives an allocation back and joins it with its free neighbours.
    pub(super) fn free(&mut self, start: u64) -> Result<(), NotAllocated> {
        let footprint = Self::footprint(self.taken.remove(&start).ok_or(NotAllocated)?);
        self.used -= footprint;
        let (mut from, mut to) = (start, start + footprint);
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == from
        {
            self.free.remove(&before);
            from = before;
        }
        if let Some(length) = self.free.remove(&to) {
            to += length;
        }
        self.free.insert(from, to - from);
        Ok(())
    }

    /// Returns all allocations in ascending order, as addresses.
    pub(super) fn ranges(&self, base: u64) -> impl Iterator<Item = Range> + '_ {
        self.taken.iter().map(move |(&start, &bytes)| Range {
            start: base + start,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ALIGN_BYTES, Allocator, LARGE_ALIGN_BYTES, MAX_ALLOCATIONS, NoRoom, NotAllocated, Range,
    };

    #[test]
    fn allocations_are_aligned_and_do_not_overlap() {
        let mut allocator = Allocator::new(1 << 20);
        let mut ends = 0;
        for bytes in [1, 255, 256, 257, 4096, 0] {
            let start = allocator.alloc(bytes).unwrap();
            assert_eq!(start % ALIGN_BYTES, 0);
            assert!(start >= ends, "{start} overlaps what ends at {ends}");
            ends = start + bytes;
        }
        assert_eq!(
            allocator.used_bytes(),
            256 + 256 + 256 + 512 + 4096 + 256,
            "each takes whole units"
        );
    }

    #[test]
    fn large_allocations_begin_at_whole_pages_and_leave_the_gap_to_small_ones() {
        let mut allocator = Allocator::new(4 << 20);
        assert_eq!(allocator.alloc(1), Ok(0));
        assert_eq!(allocator.alloc(1 << 20), Ok(LARGE_ALIGN_BYTES));
        assert_eq!(allocator.alloc(512), Ok(256));
        for start in [0, LARGE_ALIGN_BYTES, 256] {
            allocator.free(start).unwrap();
        }
        assert_eq!(allocator.alloc(4 << 20), Ok(0));
    }

    #[test]
    fn freeing_twice_or_elsewhere_is_refused() {
        let mut allocator = Allocator::new(4096);
        let start = allocator.alloc(512).unwrap();
        assert_eq!(allocator.free(start + 256), Err(NotAllocated));
        assert_eq!(allocator.free(1 << 40), Err(NotAllocated));
        assert_eq!(allocator.free(start), Ok(()));
        assert_eq!(allocator.free(start), Err(NotAllocated));
        assert_eq!(allocator.used_bytes(), 0);
    }

    #[test]
    fn free_neighbours_become_one_range_whatever_the_order() {
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let mut allocator = Allocator::new(3 * 256);
            let starts = [(); 3].map(|()| allocator.alloc(256).unwrap());
            let full = NoRoom::Full {
                longest_bytes: 0,
                free_bytes: 0,
            };
            assert_eq!(allocator.alloc(1), Err(full));
            for index in order {
                allocator.free(starts[index]).unwrap();
            }
            assert_eq!(allocator.alloc(3 * 256), Ok(0), "order {order:?}");
        }
    }

    #[test]
    fn the_lowest_fitting_range_is_taken_and_fragmentation_is_told() {
        let mut allocator = Allocator::new(4 * 256);
        let starts = [(); 4].map(|()| allocator.alloc(256).unwrap());
        allocator.free(starts[0]).unwrap();
        allocator.free(starts[2]).unwrap();
        let fragmented = NoRoom::Full {
            longest_bytes: 256,
            free_bytes: 512,
        };
        assert_eq!(allocator.alloc(512), Err(fragmented));
        assert_eq!(allocator.alloc(100), Ok(starts[0]));
        assert_eq!(
            allocator.alloc(u64::MAX),
            Err(NoRoom::Full {
                longest_bytes: 256,
                free_bytes: 256
            })
        );
    }

    #[test]
    fn the_number_of_allocations_is_bounded() {
        let mut allocator = Allocator::new(u64::MAX);
        for _ in 0..MAX_ALLOCATIONS {
            allocator.alloc(1).unwrap();
        }
        assert_eq!(allocator.alloc(1), Err(NoRoom::TooMany));
    }

    #[test]
    fn random_use_keeps_the_books() {
        let mut allocator = Allocator::new(1 << 16);
        let mut held: Vec<Range> = Vec::new();
        let mut seed = 1_u64;
        for _ in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = seed >> 33;
            if random.is_multiple_of(3) && !held.is_empty() {
                let index = usize::try_from(random).unwrap() % held.len();
                allocator.free(held.swap_remove(index).start).unwrap();
            } else if let Ok(start) = allocator.alloc(random % 3000) {
                let bytes = random % 3000;
                let clash = held.iter().find(|h| {
                    start < h.start + Allocator::footprint(h.bytes)
                        && h.start < start + Allocator::footprint(bytes)
                });
                assert_eq!(clash, None);
                held.push(Range { start, bytes });
            }
            let used: u64 = held.iter().map(|h| Allocator::footprint(h.bytes)).sum();
            assert_eq!(allocator.used_bytes(), used);
            assert_eq!(allocator.ranges(0).count(), held.len());
        }
        for range in held {
            allocator.free(range.start).unwrap();
        }
        assert_eq!(allocator.alloc(1 << 16), Ok(0));
    }

    #[test]
    fn a_range_holds_only_what_lies_inside() {
        let range = Range {
            start: 1000,
            bytes: 10,
        };
        assert!(range.holds(1000, 10) && range.holds(1010, 0) && range.holds(1005, 5));
        assert!(!range.holds(999, 2) && !range.holds(1005, 6) && !range.holds(1000, u64::MAX));
    }
}
