//! First-fit allocation inside one window.
//!
//! Rules: live allocations stand sorted by address, so that a lookup is a binary search; free extents stand in
//! an ordered map and neighbours are merged; every allocation is followed by a red zone of one granule at least that is
//! never handed out. Allocations begin at multiples of 512 bytes, as those of NVIDIA's driver do, on which the look-ups
//! of L1 depend; large ones at whole pages where that is asked for and there is room.

use super::names::{Allocation, MemoryError, Nearest};
use std::collections::BTreeMap;

/// Multiples at which allocations begin, where the granule is no larger.
const START: u64 = 512;

#[derive(Debug)]
pub(super) struct Allocator {
    live: Vec<Allocation>,
    free: BTreeMap<u64, u64>,
    /// Least size of a red zone, and what sizes are rounded up to.
    granule: u64,
    used_bytes: u64,
    limit_bytes: u64,
}

impl Allocator {
    pub(super) fn new(start: u64, bytes: u64, limit_bytes: u64, granule: u64) -> Self {
        // The first granule stays unused, so that running off the front of the first allocation is seen, too.
        let first = (start + granule).next_multiple_of(granule.max(START));
        let free = BTreeMap::from([(first, bytes - (first - start))]);
        Self {
            live: Vec::new(),
            free,
            granule,
            used_bytes: 0,
            limit_bytes,
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(super) fn set_limit(&mut self, limit_bytes: u64) {
        self.limit_bytes = limit_bytes;
    }

    pub(super) fn alloc(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        self.alloc_at(bytes, &[])
    }

    /// Allocates at a multiple of the first of some alignments for which there is room, and at any place if there is
    /// for none.
    pub(super) fn alloc_at(&mut self, bytes: u64, aligns: &[u64]) -> Result<u64, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::ZeroBytes);
        }
        let full = MemoryError::OutOfMemory {
            asked: bytes,
            used: self.used_bytes,
            limit: self.limit_bytes,
        };
        let Some(rounded) = bytes.checked_next_multiple_of(self.granule) else {
            return Err(full);
        };
        if rounded > self.limit_bytes.saturating_sub(self.used_bytes) {
            return Err(full);
        }
        let taken = self.with_red_zone(rounded);
        let mut aligns = aligns.iter().copied().chain([1]);
        let Some(start) = aligns.find_map(|align| self.take(0, taken, align)) else {
            return Err(full);
        };
        self.add_live(Allocation { start, bytes });
        self.used_bytes += rounded;
        Ok(start)
    }

    /// Takes `bytes` at a multiple of `page`, in pages that hold nothing else, and a page behind them; only if `counts`
    /// they are used. They are not live, and are given back by [`Allocator::give_pages_back`].
    pub(super) fn take_pages(
        &mut self,
        bytes: u64,
        page: u64,
        counts: bool,
    ) -> Result<u64, MemoryError> {
        let full = MemoryError::OutOfMemory {
            asked: bytes,
            used: self.used_bytes,
            limit: self.limit_bytes,
        };
        let Some(rounded) = bytes.checked_next_multiple_of(page) else {
            return Err(full);
        };
        if counts && rounded > self.limit_bytes.saturating_sub(self.used_bytes) {
            return Err(full);
        }
        // Behind the last page a red zone, a page itself.
        let base = self.reserve(rounded, page, page).ok_or(full)?;
        if counts {
            self.used_bytes += rounded;
        }
        Ok(base)
    }

    /// Gives back what [`Allocator::take_pages`] gave and is not live, with the same `page` and `counts`.
    pub(super) fn give_pages_back(&mut self, freed: &Allocation, page: u64, counts: bool) {
        let rounded = freed.bytes.next_multiple_of(page);
        if counts {
            self.used_bytes -= rounded;
        }
        self.give_back(freed.start, rounded + page);
    }

    /// Takes `bytes` at a multiple of `align`, and a red zone behind them, without anything being live there.
    pub(super) fn reserve(&mut self, bytes: u64, align: u64, red_zone: u64) -> Option<u64> {
        let taken = bytes.checked_add(red_zone)?;
        let fits = |(start, extent): (&u64, &u64)| {
            let base = start.checked_next_multiple_of(align)?;
            let end = base.checked_add(taken)?;
            (end <= start + extent).then_some((*start, *extent, base))
        };
        let (start, extent, base) = self.free.iter().find_map(fits)?;
        self.free.remove(&start);
        if base > start {
            self.free.insert(start, base - start);
        }
        let (end, last) = (base + taken, start + extent);
        if end < last {
            self.free.insert(end, last - end);
        }
        Some(base)
    }

    /// Gives back what [`Allocator::reserve`] gave, with the same `red_zone`.
    pub(super) fn unreserve(&mut self, address: u64, bytes: u64, red_zone: u64) {
        self.give_back(address, bytes + red_zone);
    }

    /// Makes some ranges, sorted, live from `first` to before `end`, and nothing else there; they do not count. What is
    /// live beside them becomes one with them, from address `floor` on.
    pub(super) fn show_live(
        &mut self,
        (first, end): (u64, u64),
        floor: u64,
        ranges: &[(u64, u64)],
    ) {
        let from = self
            .live
            .partition_point(|a| a.end() < first || a.start < floor);
        let to = self.live.partition_point(|a| a.start <= end).max(from);
        let old = &self.live[from..to];
        let before = old.first().map(|a| (a.start, a.end().min(first)));
        let behind = old.last().map(|a| (a.start.max(end), a.end()));
        let mut new: Vec<Allocation> = Vec::with_capacity(ranges.len() + 2);
        let ranges = ranges.iter().copied();
        for (start, end) in before.into_iter().chain(ranges).chain(behind) {
            match new.last_mut() {
                _ if start >= end => {}
                Some(last) if last.end() == start => last.bytes += end - start,
                _ => new.push(Allocation {
                    start,
                    bytes: end - start,
                }),
            }
        }
        self.live.splice(from..to, new);
    }

    /// Checks that `bytes` more may be used.
    pub(super) fn check_limit(&self, bytes: u64) -> Result<(), MemoryError> {
        if bytes <= self.limit_bytes.saturating_sub(self.used_bytes) {
            return Ok(());
        }
        Err(MemoryError::OutOfMemory {
            asked: bytes,
            used: self.used_bytes,
            limit: self.limit_bytes,
        })
    }

    /// Counts memory as used that stands elsewhere.
    pub(super) fn count(&mut self, bytes: u64) {
        self.used_bytes += bytes;
    }

    /// Counts it no more.
    pub(super) fn uncount(&mut self, bytes: u64) {
        self.used_bytes -= bytes;
    }

    /// Makes what was taken live.
    pub(super) fn add_live(&mut self, allocation: Allocation) {
        let at = self.live.partition_point(|a| a.start < allocation.start);
        self.live.insert(at, allocation);
    }

    /// Takes `bytes` at the lowest multiple of `align` that has `apron` free bytes before it and behind it; what is
    /// taken, aprons included, becomes one live allocation that does not count as used.
    pub(super) fn take_aligned(&mut self, bytes: u64, align: u64, apron: u64) -> Option<u64> {
        let base = self.take(apron, bytes.checked_add(apron)?, align)?;
        let first = base - apron;
        let at = self.live.partition_point(|a| a.start < first);
        let taken = Allocation {
            start: first,
            bytes: bytes + 2 * apron,
        };
        self.live.insert(at, taken);
        Some(base)
    }

    /// Takes `bytes` from the free ones at the lowest multiple of `align` with `apron` free bytes before it, which it
    /// takes, too.
    fn take(&mut self, apron: u64, bytes: u64, align: u64) -> Option<u64> {
        let fits = |start: u64, extent: u64| {
            let base = start.checked_add(apron)?.checked_next_multiple_of(align)?;
            (base.checked_add(bytes)? <= start + extent).then_some(base)
        };
        let (start, extent, base) = self
            .free
            .iter()
            .find_map(|(start, extent)| Some((*start, *extent, fits(*start, *extent)?)))?;
        self.free.remove(&start);
        let (first, end) = (base - apron, base + bytes);
        if first > start {
            self.free.insert(start, first - start);
        }
        if end < start + extent {
            self.free.insert(end, start + extent - end);
        }
        Some(base)
    }

    /// Gives back what [`Allocator::take_aligned`] took.
    pub(super) fn give_aligned(&mut self, first: u64) {
        if let Ok(at) = self.live.binary_search_by_key(&first, |a| a.start) {
            let freed = self.live.remove(at);
            self.give_back(freed.start, freed.bytes);
        }
    }

    pub(super) fn free(&mut self, address: u64) -> Result<Allocation, MemoryError> {
        let freed = self.take_one(address)?;
        self.give_freed_back(&freed);
        Ok(freed)
    }

    /// Makes what begins at an address live no more. Its addresses stay taken until they are given back.
    pub(super) fn take_one(&mut self, address: u64) -> Result<Allocation, MemoryError> {
        let found = self.live.binary_search_by_key(&address, |a| a.start);
        let at = found.map_err(|_| MemoryError::NotAllocated {
            address,
            nearest: Nearest(self.nearest(address)),
        })?;
        Ok(self.live.remove(at))
    }

    /// Does the same for all that begins at some addresses, which are sorted, in one pass.
    pub(super) fn take_live(&mut self, addresses: &[u64]) -> Vec<Allocation> {
        let is_taken = |a: &mut Allocation| addresses.binary_search(&a.start).is_ok();
        self.live.extract_if(.., is_taken).collect()
    }

    /// Gives the addresses of an allocation that is live no more back.
    pub(super) fn give_freed_back(&mut self, freed: &Allocation) {
        let rounded = freed.bytes.next_multiple_of(self.granule);
        self.used_bytes -= rounded;
        self.give_back(freed.start, self.with_red_zone(rounded));
    }

    #[inline]
    pub(super) fn find(&self, address: u64) -> Option<Allocation> {
        let at = self.live.partition_point(|a| a.start <= address);
        let candidate = *self.live.get(at.checked_sub(1)?)?;
        (address < candidate.end()).then_some(candidate)
    }

    /// Returns the first allocation that ends behind `address`.
    pub(super) fn next_end(&self, address: u64) -> Option<Allocation> {
        let at = self.live.partition_point(|a| a.end() <= address);
        self.live.get(at).copied()
    }

    pub(super) fn nearest(&self, address: u64) -> Option<Allocation> {
        let distance = |a: &&Allocation| {
            if address < a.start {
                a.start - address
            } else {
                address.saturating_sub(a.end() - 1)
            }
        };
        self.live.iter().min_by_key(distance).copied()
    }

    /// Returns what an allocation of a rounded size takes.
    fn with_red_zone(&self, rounded: u64) -> u64 {
        (rounded + self.granule).next_multiple_of(self.granule.max(START))
    }

    fn give_back(&mut self, start: u64, bytes: u64) {
        let (mut start, mut bytes) = (start, bytes);
        if let Some((before, extent)) = self.free.range(..start).next_back().map(|(s, e)| (*s, *e))
            && before + extent == start
        {
            self.free.remove(&before);
            start = before;
            bytes += extent;
        }
        if let Some(extent) = self.free.remove(&(start + bytes)) {
            bytes += extent;
        }
        self.free.insert(start, bytes);
    }
}
