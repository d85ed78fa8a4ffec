//! Addresses apart from memory: reservations of addresses, physical memory, and what is mapped where.
//!
//! Rules: a reservation is a range of the window that holds nothing until physical memory is mapped in it; what is
//! mapped is accessible once it is made so, and neighbours that are accessible are one allocation to kernels and
//! copies. Physical memory counts as used from when it is made until it was released and is mapped nowhere. It is an
//! anonymous shared mapping of the host's, which a second mapping at the window's addresses shows again; where nothing
//! is mapped the window has pages of its own, so that no address of it is ever a hole.

use super::host::{HostRange, Places};
use super::names::bad;
use super::{Domain, DomainId, Memory, MemoryError, Nearest, PAGE};
use std::collections::BTreeMap;

/// Most reservations, pieces of physical memory and mappings of a domain, of each.
const MOST: usize = 4096;

/// Physical memory of the host's.
#[derive(Debug)]
struct Physical {
    host: HostRange,
    bytes: u64,
    mappings: usize,
    /// Its handle was given back.
    is_released: bool,
    _place: Places,
}

impl Physical {
    fn new(bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self {
            _place: Places::take(1)?,
            host: HostRange::memory(bytes)?,
            bytes,
            mappings: 0,
            is_released: false,
        })
    }

    fn is_gone(&self) -> bool {
        self.is_released && self.mappings == 0
    }
}

/// Physical memory that nobody reaches any more. It is given back to the host when this is dropped, which takes long
/// where much of it was touched.
#[derive(Debug, Default)]
pub struct Gone(Vec<Physical>);

impl Gone {
    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Physical memory at addresses.
#[derive(Debug)]
struct Mapping {
    bytes: u64,
    physical: u64,
    is_accessible: bool,
    /// It divides the window's mapping in three.
    _places: Places,
}

/// What a domain has of it: the sizes of reservations and the mappings by first address, physical memory by number.
#[derive(Debug, Default)]
pub(super) struct Paging {
    reservations: BTreeMap<u64, u64>,
    mappings: BTreeMap<u64, Mapping>,
    physical: BTreeMap<u64, Physical>,
    next: u64,
}

impl Paging {
    /// Returns how many mappings of the process it takes.
    pub(super) fn mapped(&self) -> u64 {
        (self.physical.len() + 2 * self.mappings.len()) as u64
    }

    /// Returns the mappings that begin from `first` to before `end`.
    fn within(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, &Mapping)> + '_ {
        self.mappings.range(first..end).map(|(at, m)| (*at, m))
    }

    /// Returns the reservation that some bytes lie in, its first address and its end.
    pub(super) fn reservation(&self, address: u64, bytes: u64) -> Option<(u64, u64)> {
        let (first, size) = self.reservations.range(..=address).next_back()?;
        let end = address.checked_add(bytes)?;
        (end <= first + size).then_some((*first, first + size))
    }

    /// Returns whether mappings begin at `address`, end at `end`, and leave no gap in between.
    fn is_whole(&self, address: u64, end: u64) -> bool {
        let mut at = address;
        for (start, mapping) in self.within(address, end) {
            if start != at {
                return false;
            }
            at = start + mapping.bytes;
        }
        at == end
    }
}

fn check(address: u64, bytes: u64) -> Result<u64, MemoryError> {
    let end = address.checked_add(bytes);
    let is_whole = bytes > 0 && (address | bytes).is_multiple_of(PAGE);
    end.filter(|_| is_whole).ok_or(bad(address, bytes))
}

impl Domain {
    /// Makes the accessible mappings of a range the allocations that there are in it, one with those beside it. The
    /// reservation begins at `floor`.
    fn show_accessible(&mut self, floor: u64, first: u64, end: u64) {
        let found = self.paging.within(first, end);
        let found = found.filter(|(_, mapping)| mapping.is_accessible);
        let ranges: Vec<_> = found.map(|(at, m)| (at, at + m.bytes)).collect();
        self.allocator.show_live((first, end), floor, &ranges);
    }

    /// Takes physical memory out that nobody can reach any more.
    fn take_gone(&mut self, physical: u64, gone: &mut Gone) {
        let found = self.paging.physical.get(&physical);
        if found.is_some_and(Physical::is_gone)
            && let Some(found) = self.paging.physical.remove(&physical)
        {
            self.allocator.uncount(found.bytes);
            gone.0.push(found);
        }
    }
}

impl Memory {
    /// Reserves `bytes` addresses, whole pages, at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]: no whole pages; [`MemoryError::OutOfMemory`]: no such range is free.
    pub fn reserve_addresses(
        &mut self,
        domain: DomainId,
        bytes: u64,
        align: u64,
    ) -> Result<u64, MemoryError> {
        check(0, bytes)?;
        let domain = self.domain_mut(domain)?;
        let full = MemoryError::OutOfMemory {
            asked: bytes,
            used: 0,
            limit: domain.window_bytes,
        };
        if !align.is_power_of_two() || domain.paging.reservations.len() >= MOST {
            return Err(full);
        }
        let address = domain.allocator.reserve(bytes, align.max(PAGE), PAGE);
        let address = address.ok_or(full)?;
        domain.paging.reservations.insert(address, bytes);
        Ok(address)
    }

    /// Gives reserved addresses back, in which nothing is mapped.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`]: no reservation begins there; [`MemoryError::OutOfBounds`]: something is mapped.
    pub fn free_addresses(&mut self, domain: DomainId, address: u64) -> Result<(), MemoryError> {
        let domain = self.domain_mut(domain)?;
        let found = domain.paging.reservations.get(&address).copied();
        let bytes = found.ok_or(MemoryError::NotAllocated {
            address,
            nearest: Nearest(None),
        })?;
        if domain
            .paging
            .within(address, address + bytes)
            .next()
            .is_some()
        {
            return Err(bad(address, bytes));
        }
        domain.paging.reservations.remove(&address);
        domain.allocator.unreserve(address, bytes, PAGE);
        Ok(())
    }

    /// Makes physical memory of whole pages, which counts as used, and returns its number.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]: no whole pages; [`MemoryError::OutOfMemory`]; [`MemoryError::Host`].
    pub fn create_physical(&mut self, domain: DomainId, bytes: u64) -> Result<u64, MemoryError> {
        check(0, bytes)?;
        let domain = self.domain_mut(domain)?;
        domain.allocator.check_limit(bytes)?;
        if domain.paging.physical.len() >= MOST {
            return Err(MemoryError::OutOfMemory {
                asked: bytes,
                used: domain.allocator.used_bytes(),
                limit: domain.allocator.used_bytes(),
            });
        }
        let physical = Physical::new(bytes)?;
        domain.allocator.count(bytes);
        domain.paging.next += 1;
        let number = domain.paging.next;
        domain.paging.physical.insert(number, physical);
        Ok(number)
    }

    /// Gives the number of physical memory back, and returns the memory if it is mapped nowhere.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`]: there is none of that number.
    pub fn release_physical(&mut self, domain: DomainId, number: u64) -> Result<Gone, MemoryError> {
        let domain = self.domain_mut(domain)?;
        let found = domain.paging.physical.get_mut(&number);
        let found = found.filter(|physical| !physical.is_released);
        let found = found.ok_or(MemoryError::NotAllocated {
            address: number,
            nearest: Nearest(None),
        })?;
        found.is_released = true;
        let mut gone = Gone::default();
        domain.take_gone(number, &mut gone);
        Ok(gone)
    }

    /// Maps `bytes` bytes of physical memory, from `offset` on, at reserved addresses. They are not accessible yet.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]: no whole pages, not inside one reservation or the memory, or something is mapped
    /// there; [`MemoryError::NotAllocated`]: no such memory; [`MemoryError::OutOfMemory`] or [`MemoryError::Mappings`]:
    /// too many mappings; [`MemoryError::Host`].
    pub fn map_physical(
        &mut self,
        domain: DomainId,
        address: u64,
        bytes: u64,
        (number, offset): (u64, u64),
    ) -> Result<(), MemoryError> {
        let end = check(address, bytes)?;
        check(offset, bytes)?;
        let places = Places::take(2)?;
        let domain = self.domain_mut(domain)?;
        domain.make_divisible();
        let place = domain.host_of(address);
        let paging = &mut domain.paging;
        let before = paging.mappings.range(..end).next_back();
        let is_taken = before.is_some_and(|(start, mapping)| start + mapping.bytes > address);
        if is_taken || paging.reservation(address, bytes).is_none() {
            return Err(bad(address, bytes));
        }
        if paging.mappings.len() >= MOST {
            return Err(MemoryError::OutOfMemory {
                asked: bytes,
                used: 0,
                limit: 0,
            });
        }
        let physical = paging.physical.get_mut(&number);
        let physical = physical.filter(|physical| !physical.is_released);
        let physical = physical.ok_or(MemoryError::NotAllocated {
            address: number,
            nearest: Nearest(None),
        })?;
        if offset
            .checked_add(bytes)
            .is_none_or(|end| end > physical.bytes)
        {
            return Err(bad(offset, bytes));
        }
        let [from, length] = [offset, bytes].map(|b| usize::try_from(b).unwrap_or(0));
        // SAFETY: the target is whole pages inside this domain's window, reserved for this alone and not accessible,
        // and `&mut self` excludes a running kernel; where it fails they are renewed.
        if let Err(error) = unsafe { physical.host.show_at(from, length, place) } {
            domain.renew_pages(address, bytes)?;
            return Err(error);
        }
        physical.mappings += 1;
        let mapping = Mapping {
            bytes,
            physical: number,
            is_accessible: false,
            _places: places,
        };
        paging.mappings.insert(address, mapping);
        Ok(())
    }

    /// Makes mappings accessible, or no more so: all that begin and end in a range, which they fill.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]: they do not.
    pub fn set_access(
        &mut self,
        domain: DomainId,
        address: u64,
        bytes: u64,
        is_accessible: bool,
    ) -> Result<(), MemoryError> {
        let end = check(address, bytes)?;
        let stamp = self.fresh_stamp();
        let domain = self.domain_mut(domain)?;
        let found = domain.paging.reservation(address, bytes);
        let (floor, _) = found.ok_or(bad(address, bytes))?;
        if !domain.paging.is_whole(address, end) {
            return Err(bad(address, bytes));
        }
        for (_, mapping) in domain.paging.mappings.range_mut(address..end) {
            mapping.is_accessible = is_accessible;
        }
        domain.show_accessible(floor, address, end);
        domain.stamp = stamp;
        Ok(())
    }

    /// Checks that [`Memory::unmap`] can take mappings away.
    ///
    /// # Errors
    /// As there.
    pub fn check_unmap(
        &self,
        domain: DomainId,
        address: u64,
        bytes: u64,
    ) -> Result<(), MemoryError> {
        let end = check(address, bytes)?;
        let paging = &self.domain(domain)?.paging;
        let is_inside = paging.reservation(address, bytes).is_some();
        match is_inside && paging.is_whole(address, end) {
            true => Ok(()),
            false => Err(bad(address, bytes)),
        }
    }

    /// Takes mappings away: all that begin and end in a range, which they fill. Returns the physical memory that was
    /// released and is mapped nowhere else.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]: they do not; [`MemoryError::Host`].
    pub fn unmap(
        &mut self,
        domain: DomainId,
        address: u64,
        bytes: u64,
    ) -> Result<Gone, MemoryError> {
        self.check_unmap(domain, address, bytes)?;
        let end = check(address, bytes)?;
        let stamp = self.fresh_stamp();
        let domain = self.domain_mut(domain)?;
        let found = domain.paging.reservation(address, bytes);
        let (floor, _) = found.ok_or(bad(address, bytes))?;
        domain.renew_pages(address, bytes)?;
        let mut gone = Gone::default();
        let starts = domain.paging.within(address, end).map(|(start, _)| start);
        for start in starts.collect::<Vec<_>>() {
            let Some(mapping) = domain.paging.mappings.remove(&start) else {
                continue;
            };
            if let Some(physical) = domain.paging.physical.get_mut(&mapping.physical) {
                physical.mappings -= 1;
            }
            domain.take_gone(mapping.physical, &mut gone);
        }
        domain.show_accessible(floor, address, end);
        domain.stamp = stamp;
        Ok(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, PAGE};
    use crate::memory::MemoryError;

    #[test]
    fn neighbours_are_one_piece_and_the_same_memory_shows_twice() {
        let mut memory = Memory::default();
        let d = memory.create_domain(1 << 20).expect("domain");
        let at = memory
            .reserve_addresses(d, 8 * PAGE, 1 << 21)
            .expect("free");
        assert!(at.is_multiple_of(1 << 21));
        let [one, two] = [2 * PAGE, 3 * PAGE].map(|b| memory.create_physical(d, b).expect("fits"));
        assert_eq!(memory.used_bytes(d), Ok(5 * PAGE));
        memory
            .map_physical(d, at, 2 * PAGE, (one, 0))
            .expect("free");
        memory
            .map_physical(d, at + 2 * PAGE, 3 * PAGE, (two, 0))
            .expect("free");
        memory
            .map_physical(d, at + 6 * PAGE, PAGE, (two, PAGE))
            .expect("free");
        assert!(memory.write(d, at, &[1]).is_err(), "not accessible yet");
        memory.set_access(d, at, 5 * PAGE, true).expect("mapped");
        assert!(memory.set_access(d, at, 7 * PAGE, true).is_err(), "a gap");
        memory
            .set_access(d, at + 6 * PAGE, PAGE, true)
            .expect("mapped");
        memory.fill(d, at, 5 * PAGE, 7).expect("one piece");
        assert!(memory.fill(d, at, 5 * PAGE + 1, 7).is_err());
        let mut byte = [0];
        memory
            .read(d, at + 6 * PAGE, &mut byte)
            .expect("accessible");
        assert_eq!(byte, [7], "the second view of the same memory");
        memory.set_access(d, at, 2 * PAGE, false).expect("mapped");
        assert!(memory.read(d, at, &mut byte).is_err());
        memory.unmap(d, at + 2 * PAGE, 3 * PAGE).expect("mapped");
        memory
            .read(d, at + 6 * PAGE, &mut byte)
            .expect("the other view stays");
        assert_eq!(byte, [7]);
    }

    #[test]
    fn what_is_accessible_is_as_large_as_the_neighbours_make_it() {
        let mut memory = Memory::default();
        let d = memory.create_domain(1 << 20).expect("domain");
        let before = memory.alloc(d, 100).expect("fits");
        let at = memory.reserve_addresses(d, 9 * PAGE, PAGE).expect("free");
        let behind = memory.reserve_addresses(d, PAGE, PAGE).expect("free");
        let one = memory.create_physical(d, PAGE).expect("fits");
        for place in (0..9).map(|n| at + n * PAGE).chain([behind]) {
            memory.map_physical(d, place, PAGE, (one, 0)).expect("free");
        }
        memory.set_access(d, behind, PAGE, true).expect("mapped");
        // Each page for itself: on and off, whatever its neighbours are.
        let mut on = [false; 9];
        for step in 0..200_u64 {
            let n = step * 7 % 9 * (step % 5 + 1) % 9;
            let count = (step % 3 + 1).min(9 - n);
            let value = step % 4 != 0;
            memory
                .set_access(d, at + n * PAGE, count * PAGE, value)
                .expect("mapped");
            let [first, count] = [n, count].map(|n| usize::try_from(n).expect("small"));
            on[first..first + count].fill(value);
            for (page, is_on) in (0..).zip(on) {
                let found = memory.allocation_at(d, at + page * PAGE);
                let run = |pages: &[bool]| pages.iter().take_while(|on| **on).count() as u64;
                let place = usize::try_from(page).expect("small");
                let (mut left, right) = (on[..place].to_vec(), run(&on[place..]));
                left.reverse();
                let left = run(&left);
                let expected = is_on.then_some((at + (page - left) * PAGE, (left + right) * PAGE));
                assert_eq!(found.map(|a| (a.start, a.bytes)), expected, "step {step}");
            }
        }
        assert!(memory.unmap(d, at, 9 * PAGE).expect("mapped").is_empty());
        assert!(memory.allocation_at(d, at).is_none());
        let others = [before, behind].map(|a| memory.allocation_at(d, a).map(|a| a.bytes));
        assert_eq!(others, [Some(100), Some(PAGE)]);
        assert_eq!(memory.host_mappings_of([d].into_iter()).count, 3);
        assert!(memory.let_go(d, behind, PAGE).is_ok() && memory.let_go(d, before, 1).is_err());
    }

    #[test]
    fn memory_goes_when_it_is_released_and_mapped_nowhere() {
        let mut memory = Memory::default();
        let d = memory.create_domain(8 * PAGE).expect("domain");
        for _ in 0..50 {
            let at = memory.reserve_addresses(d, 8 * PAGE, PAGE).expect("free");
            let one = memory.create_physical(d, 8 * PAGE).expect("fits");
            let full = memory.create_physical(d, PAGE);
            assert!(matches!(full, Err(MemoryError::OutOfMemory { .. })));
            assert!(memory.alloc(d, 1).is_err(), "it counts with all else");
            memory
                .map_physical(d, at, 8 * PAGE, (one, 0))
                .expect("free");
            memory.release_physical(d, one).expect("its number");
            assert!(memory.release_physical(d, one).is_err());
            assert_eq!(memory.used_bytes(d), Ok(8 * PAGE), "mapped still");
            assert!(memory.free_addresses(d, at).is_err(), "mapped still");
            memory.set_access(d, at, 8 * PAGE, true).expect("mapped");
            memory.fill(d, at, 8 * PAGE, 3).expect("accessible");
            memory.unmap(d, at, 8 * PAGE).expect("mapped");
            assert_eq!(memory.used_bytes(d), Ok(0));
            assert!(memory.read(d, at, &mut [0]).is_err());
            memory.free_addresses(d, at).expect("nothing is mapped");
            assert!(memory.free_addresses(d, at).is_err());
        }
        let plain = memory.alloc(d, 8 * PAGE).expect("nothing is left");
        memory.write(d, plain, &[1]).expect("memory of its own");
    }

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        let mut memory = Memory::default();
        let d = memory.create_domain(1 << 20).expect("domain");
        let at = memory.reserve_addresses(d, 4 * PAGE, PAGE).expect("free");
        let one = memory.create_physical(d, 2 * PAGE).expect("fits");
        let mut map = |at, bytes, from| memory.map_physical(d, at, bytes, from).is_err();
        assert!(
            map(at + 3 * PAGE, 2 * PAGE, (one, 0)),
            "beyond the reservation"
        );
        assert!(map(at - PAGE, PAGE, (one, 0)), "before it");
        assert!(map(at, 3 * PAGE, (one, 0)), "beyond the memory");
        assert!(map(at, PAGE, (one, 2 * PAGE)) && map(at, PAGE, (one, u64::MAX - PAGE + 1)));
        assert!(map(at + 1, PAGE, (one, 0)) && map(at, 1, (one, 0)) && map(at, 0, (one, 0)));
        assert!(map(at, PAGE, (one + 1, 0)), "no such memory");
        assert!(map(u64::MAX - PAGE + 1, PAGE, (one, 0)));
        assert!(!map(at + PAGE, 2 * PAGE, (one, 0)));
        assert!(
            map(at, 2 * PAGE, (one, 0)) && map(at + 2 * PAGE, PAGE, (one, 0)),
            "taken"
        );
        assert!(memory.unmap(d, at + PAGE, PAGE).is_err(), "half a mapping");
        assert!(memory.unmap(d, at, 3 * PAGE).is_err(), "a gap");
        assert!(memory.set_access(d, at + PAGE, PAGE, true).is_err());
        assert!(memory.unmap(d, at + PAGE, 2 * PAGE).is_ok());
        assert!(memory.reserve_addresses(d, 0, PAGE).is_err());
        assert!(memory.reserve_addresses(d, PAGE, 3).is_err());
        assert!(memory.reserve_addresses(d, 1 << 60, PAGE).is_err());
        assert!(memory.create_physical(d, !(PAGE - 1)).is_err());
    }
}
