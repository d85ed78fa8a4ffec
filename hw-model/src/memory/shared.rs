//! Ranges of a window that stand for the pages of a file which others have mapped, too: host memory that kernels reach.
//!
//! The client maps the file at the same addresses in its own process, which a window's addresses leave free there: so
//! host and device share one space of addresses, as CUDA promises, and what one writes the other sees at once.
//!
//! Rules: a range has its pages for itself, and a page behind it that is never handed out. A file is mapped elsewhere
//! first ([`FilePages`]). Before it is moved into a window the caller seals its length and checks that it has no holes,
//! so that an access is never a signal and takes no memory of ours. Others write to the pages at any time: bytes of
//! them are copied, no reference to them is made, and atomic operations on them are those of the host
//! ([`Domain::has_files`]). What is freed becomes memory of the window again, and the file keeps what it holds.

use super::host::{FilePages, Places};
use super::{Allocation, Domain, DomainId, Memory, MemoryError, Nearest, PAGE};
use std::collections::BTreeMap;

/// Bytes whose place a file takes at a time, whole pages.
const PIECE_BYTES: u64 = 16 << 20;

/// A range whose pages hold nothing else.
#[derive(Debug)]
struct SharedRange {
    /// Bytes asked for.
    bytes: u64,
    /// Its bytes count as used.
    counts: bool,
    /// A file's pages stand there, some of them at least; else the window's own do, until a file takes their place.
    file: Option<Places>,
}

/// What a domain has of the process's mappings, beside its window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostMappings {
    /// How many there are ([`super::MOST_MAPPINGS`]).
    pub count: u64,
    /// Bytes of files' ranges that do not count as used memory, in whole pages.
    pub uncounted_bytes: u64,
}

/// The shared ranges of a domain, by their first address.
#[derive(Debug, Default)]
pub(super) struct SharedRanges {
    ranges: BTreeMap<u64, SharedRange>,
    /// How many of them stand for a file's pages.
    files: u64,
    uncounted_bytes: u64,
}

impl SharedRanges {
    pub(super) fn holds(&self, start: u64) -> bool {
        self.ranges.contains_key(&start)
    }

    fn has_file(&self, start: u64) -> bool {
        let range = self.ranges.get(&start);
        range.is_some_and(|range| range.file.is_some())
    }

    fn insert(&mut self, start: u64, range: SharedRange) {
        if !range.counts {
            self.uncounted_bytes += range.bytes.next_multiple_of(PAGE);
        }
        self.ranges.insert(start, range);
    }

    /// Takes note that a file's pages stand there.
    fn set_file(&mut self, start: u64, places: Places) {
        if let Some(range) = self.ranges.get_mut(&start) {
            self.files += u64::from(range.file.is_none());
            range.file = Some(places);
        }
    }

    fn remove(&mut self, start: u64) -> Option<SharedRange> {
        let range = self.ranges.remove(&start)?;
        self.files -= u64::from(range.file.is_some());
        if !range.counts {
            self.uncounted_bytes -= range.bytes.next_multiple_of(PAGE);
        }
        Some(range)
    }
}

impl Domain {
    /// Returns whether a file's pages stand in the window, so that others may write to some of it at any time.
    #[inline]
    pub(crate) fn has_files(&self) -> bool {
        self.shared.files != 0
    }

    /// Returns whether an address lies in a range that stands for a file's pages.
    pub(super) fn is_shared(&self, address: u64) -> bool {
        self.has_files()
            && self
                .find(address)
                .is_some_and(|a| self.shared.has_file(a.start))
    }

    /// Makes a shared range that was live memory of the window again.
    ///
    /// # Errors
    /// [`MemoryError::Host`]: a file's pages stand there still, and the addresses stay taken and out of reach.
    pub(super) fn give_shared_back(&mut self, freed: &Allocation) -> Result<(), MemoryError> {
        let Allocation { start, bytes } = *freed;
        if self.shared.has_file(start) {
            self.renew_pages(start, bytes)?;
        } else {
            self.give_pages_back(start, start + bytes.next_multiple_of(PAGE));
        }
        if let Some(range) = self.shared.remove(start) {
            self.allocator.give_pages_back(freed, PAGE, range.counts);
        }
        Ok(())
    }

    /// Renews pages of the shared range that begins at an address, after a file could not take their place. Where that
    /// cannot be either, nobody is to reach what may be a hole, or to have its addresses, and the reason is returned.
    fn renew_or_hide(&mut self, start: u64, pages: Allocation) -> Option<MemoryError> {
        let error = self.renew_pages(pages.start, pages.bytes).err()?;
        self.allocator.take_live(&[start]);
        self.shared.remove(start);
        Some(error)
    }

    /// Takes addresses for a shared range.
    fn take_shared(&mut self, bytes: u64, counts: bool) -> Result<u64, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::ZeroBytes);
        }
        let address = self.allocator.take_pages(bytes, PAGE, counts)?;
        let file = None;
        let range = SharedRange {
            bytes,
            counts,
            file,
        };
        self.shared.insert(address, range);
        Ok(address)
    }

    /// Returns the addresses that are reserved for a file from an address on, if none stands there.
    fn to_be_mapped(&self, start: u64) -> Option<Allocation> {
        let range = self.shared.ranges.get(&start)?;
        let is_free = range.file.is_none() && self.find(start).is_none();
        let bytes = range.bytes;
        is_free.then_some(Allocation { start, bytes })
    }

    /// Returns the memory that begins at an address and was allocated to be shared.
    fn to_be_shared(&self, address: u64) -> Result<Allocation, MemoryError> {
        let found = self.find(address).filter(|found| found.start == address);
        let found = found.filter(|_| self.shared.holds(address));
        found.ok_or(MemoryError::NotAllocated {
            address,
            nearest: Nearest(None),
        })
    }
}

impl Memory {
    /// Allocates `bytes` in pages that hold nothing else, so that a file can take their place; returns the first
    /// address, a multiple of 4096.
    ///
    /// # Errors
    /// As [`Memory::alloc`].
    pub fn alloc_to_share(&mut self, domain: DomainId, bytes: u64) -> Result<u64, MemoryError> {
        if self.placing.is_some() {
            // Partitions are not shared with the host.
            return self.alloc(domain, bytes);
        }
        let stamp = self.fresh_stamp();
        let domain = self.domain_mut(domain)?;
        let start = domain.take_shared(bytes, true)?;
        domain.allocator.add_live(Allocation { start, bytes });
        domain.stamp = stamp;
        Ok(start)
    }

    /// Reserves addresses for `bytes` bytes of a file and returns the first, a multiple of 4096. If `counts`, they are
    /// used memory of the domain's. Nobody reaches them before [`Memory::map_file`];
    /// [`Memory::unreserve_for_file`] gives them back until then.
    ///
    /// # Errors
    /// As [`Memory::alloc`].
    pub fn reserve_for_file(
        &mut self,
        domain: DomainId,
        bytes: u64,
        counts: bool,
    ) -> Result<u64, MemoryError> {
        self.domain_mut(domain)?.take_shared(bytes, counts)
    }

    /// Gives back what [`Memory::reserve_for_file`] gave and no file has come to.
    pub fn unreserve_for_file(&mut self, domain: DomainId, address: u64) {
        let Ok(owner) = self.domain_mut(domain) else {
            return;
        };
        if let Some(found) = owner.to_be_mapped(address) {
            // Nothing but a hole could be in the way, and nobody has been there.
            let _ = owner.give_shared_back(&found);
        }
    }

    /// Puts a file's pages at addresses that [`Memory::reserve_for_file`] gave. Whoever has the file mapped sees what
    /// kernels write, and they what is written there. [`Memory::free`] takes the pages out again.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`]: no such addresses begin there, or they are of another size;
    /// [`MemoryError::Host`].
    pub fn map_file(
        &mut self,
        domain: DomainId,
        address: u64,
        mut pages: FilePages,
    ) -> Result<(), MemoryError> {
        let stamp = self.fresh_stamp();
        let owner = self.domain_mut(domain)?;
        let found = owner.to_be_mapped(address);
        let found = found.filter(|found| found.bytes.next_multiple_of(PAGE) == pages.bytes());
        let (Some(found), Some(places)) = (found, pages.places.take()) else {
            return Err(MemoryError::NotAllocated {
                address,
                nearest: Nearest(None),
            });
        };
        owner.make_divisible();
        let length = usize::try_from(pages.bytes()).unwrap_or(0);
        // SAFETY: the pages are those of one range of this domain, which has them for itself; `&mut self` excludes a
        // running kernel, and where it fails the window's own are renewed.
        if let Err(error) = unsafe { pages.move_front(length, owner.host_of(address)) } {
            return Err(owner.renew_or_hide(address, found).unwrap_or(error));
        }
        owner.shared.set_file(address, places);
        owner.allocator.add_live(found);
        owner.stamp = stamp;
        Ok(())
    }

    /// Returns the size in bytes of memory that [`Memory::alloc_to_share`] gave and whose place no file has taken.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`]: no such memory begins there.
    pub fn bytes_to_share(&self, domain: DomainId, address: u64) -> Result<u64, MemoryError> {
        let owner = self.domain(domain)?;
        let found = owner.to_be_shared(address)?;
        match owner.shared.has_file(address) {
            false => Ok(found.bytes),
            true => Err(MemoryError::NotAllocated {
                address,
                nearest: Nearest(Some(found)),
            }),
        }
    }

    /// Puts the next piece of a file's pages in the place of memory that [`Memory::alloc_to_share`] gave, with what the
    /// memory holds, and returns whether there is more to come. `pages` must be as many as the memory takes
    /// ([`Memory::bytes_to_share`]), and the same for every piece. Kernels may run between two pieces.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`]: no such memory begins there, it is of another size, or another file has taken its
    /// place; [`MemoryError::Host`]: the memory holds what it held, those pieces that the file has included.
    pub fn share_piece(
        &mut self,
        domain: DomainId,
        address: u64,
        pages: &mut FilePages,
    ) -> Result<bool, MemoryError> {
        let stamp = self.fresh_stamp();
        let owner = self.domain_mut(domain)?;
        let found = owner.to_be_shared(address)?;
        let done = found
            .bytes
            .next_multiple_of(PAGE)
            .checked_sub(pages.bytes());
        // Only who has put the first piece there has no places to hold any more.
        let is_first = pages.places.is_some();
        let is_next = done.is_some_and(|done| (done == 0) == is_first);
        let Some(done) = done.filter(|_| is_next && owner.shared.has_file(address) != is_first)
        else {
            return Err(MemoryError::NotAllocated {
                address,
                nearest: Nearest(Some(found)),
            });
        };
        let length = pages.bytes().min(PIECE_BYTES);
        if length == 0 {
            return Ok(false);
        }
        owner.make_divisible();
        let held = length.min(found.bytes - done);
        let (place, count) = (
            owner.host_of(address + done),
            usize::try_from(held).unwrap_or(0),
        );
        let moved = usize::try_from(length).unwrap_or(0);
        // SAFETY: the bytes lie inside one allocation, hence in the window, and the target is at least as long, a
        // mapping of its own; what others write to the file meanwhile is theirs. `&mut self` excludes a running kernel.
        unsafe { std::ptr::copy_nonoverlapping(place, pages.start(), count) };
        // SAFETY: the pages are those of one allocation of this domain, which has them for itself; `&mut self` excludes
        // a running kernel, and where it fails fresh pages take them up again.
        if let Err(error) = unsafe { pages.move_front(moved, place) } {
            let piece = Allocation {
                start: address + done,
                bytes: length,
            };
            if let Some(error) = owner.renew_or_hide(address, piece) {
                owner.stamp = stamp;
                return Err(error);
            }
            // SAFETY: as above; the pages were renewed, and the file's are where they were.
            unsafe { std::ptr::copy_nonoverlapping(pages.start(), place, count) };
            return Err(error);
        }
        if let Some(places) = pages.places.take() {
            owner.shared.set_file(address, places);
        }
        Ok(pages.bytes() > 0)
    }

    /// Returns what several domains have of the process's mappings.
    #[must_use]
    pub fn host_mappings_of(&self, domains: impl Iterator<Item = DomainId>) -> HostMappings {
        let mut all = HostMappings::default();
        for domain in domains.filter_map(|domain| self.domain(domain).ok()) {
            all.count += 2 * domain.shared.files + domain.paging.mapped();
            all.uncounted_bytes += domain.shared.uncounted_bytes;
        }
        all
    }

    /// Returns whether an address lies in a range that others have mapped, too ([`FilePages`]).
    #[must_use]
    pub fn is_shared(&self, domain: DomainId, address: u64) -> bool {
        self.domain(domain)
            .is_ok_and(|domain| domain.is_shared(address))
    }
}

#[cfg(test)]
mod tests {
    use super::{DomainId, FilePages, HostMappings, Memory};
    use crate::memory::MemoryError;
    use std::fs::File;
    use std::os::fd::{AsFd, FromRawFd};
    use std::os::unix::fs::FileExt;

    fn file(bytes: u64) -> File {
        // SAFETY: the name is a literal that ends in NUL; the descriptor is new and owned by nobody else.
        let file = unsafe {
            let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0, "memfd");
            File::from_raw_fd(fd)
        };
        file.set_len(bytes).expect("room");
        file
    }

    fn pages(file: &File, offset: u64, bytes: u64) -> FilePages {
        FilePages::map(file.as_fd(), offset, bytes).expect("it is open for both")
    }

    fn map(
        memory: &mut Memory,
        domain: DomainId,
        pages: FilePages,
        bytes: u64,
        counts: bool,
    ) -> Result<u64, MemoryError> {
        let address = memory.reserve_for_file(domain, bytes, counts)?;
        assert!(memory.write(domain, address, &[1]).is_err(), "no file yet");
        let mapped = memory.map_file(domain, address, pages);
        memory.unreserve_for_file(domain, address);
        mapped.map(|()| address)
    }

    fn share(
        memory: &mut Memory,
        domain: DomainId,
        address: u64,
        mut pages: FilePages,
    ) -> Result<(), MemoryError> {
        while memory.share_piece(domain, address, &mut pages)? {}
        Ok(())
    }

    /// Returns how many mappings of the process lie in a domain's window.
    fn mappings(memory: &Memory, domain: DomainId) -> usize {
        let (first, bytes) = memory.window(domain).expect("it exists");
        let host = memory.domain(domain).expect("it exists").host_of(first) as u64;
        let all = std::fs::read_to_string("/proc/self/maps").expect("a list");
        let starts = all.lines().filter_map(|line| line.split('-').next());
        let starts = starts.filter_map(|start| u64::from_str_radix(start, 16).ok());
        starts
            .filter(|start| (host..host + bytes).contains(start))
            .count()
    }

    #[test]
    fn a_files_bytes_are_the_devices_and_stay_the_files() {
        let mut memory = Memory::default();
        let d = memory.create_domain(1 << 20).expect("domain");
        let before = memory.alloc(d, 100).expect("fits");
        let file = file(12288);
        file.write_all_at(&[7; 100], 4096).expect("inside");
        let part = pages(&file, 4096, 5000);
        let shared = map(&mut memory, d, part, 5000, false).expect("mapped");
        let short = map(&mut memory, d, pages(&file, 0, 4096), 5000, false);
        assert!(matches!(short, Err(MemoryError::NotAllocated { .. })));
        let taken = memory.map_file(d, shared, pages(&file, 0, 8192));
        assert!(matches!(taken, Err(MemoryError::NotAllocated { .. })));
        assert!(shared.is_multiple_of(4096) && memory.is_shared(d, shared + 4999));
        assert!(!memory.is_shared(d, before) && !memory.is_shared(d, shared + 5000));
        assert_eq!(memory.used_bytes(d), Ok(256), "it does not count");
        let mut bytes = [0; 2];
        memory.read(d, shared + 99, &mut bytes).expect("inside");
        assert_eq!(bytes, [7, 0]);
        memory.write(d, shared + 4999, &[9]).expect("inside");
        file.read_exact_at(&mut bytes[..1], 4096 + 4999)
            .expect("inside");
        assert_eq!(bytes[0], 9);
        assert!(memory.write(d, shared + 5000, &[9]).is_err(), "behind it");
        assert!(memory.bytes(d, shared, 1).is_err(), "no references");
        assert!(memory.bytes_mut(d, shared, 1).is_err(), "no references");
        memory.fill_with(d, shared, 4, [1, 2]).expect("inside");
        memory.copy_within(d, shared, before, 4).expect("inside");
        assert_eq!(memory.bytes(d, before, 4), Ok(&[1, 2, 1, 2][..]));
        memory.clear(d, shared, 5000).expect("inside");
        file.read_exact_at(&mut bytes, 4096).expect("inside");
        assert_eq!(bytes, [0, 0], "clearing writes zeroes");
        file.write_all_at(&[5], 4096).expect("inside");
        memory.free(d, shared).expect("live");
        let again = memory.alloc(d, 20_000).expect("fits");
        memory.fill(d, again, 20_000, 1).expect("inside");
        file.read_exact_at(&mut bytes[..1], 4096).expect("inside");
        assert_eq!(bytes[0], 5, "the file keeps what it holds");
    }

    #[test]
    fn a_file_takes_the_place_of_memory_with_what_that_holds() {
        let mut memory = Memory::default();
        let d = memory.create_domain(1 << 20).expect("domain");
        let variable = memory.alloc_to_share(d, 100).expect("fits");
        assert!(variable.is_multiple_of(4096));
        memory.write(d, variable, &[3; 100]).expect("inside");
        let (file, other) = (file(4096), file(4096));
        assert_eq!(memory.bytes_to_share(d, variable), Ok(100));
        assert_eq!(memory.bytes(d, variable, 1), Ok(&[3][..]), "its own still");
        let whole = |file| pages(file, 0, 100);
        assert!(share(&mut memory, d, variable + 4, whole(&file)).is_err());
        assert!(memory.bytes_to_share(d, variable + 4).is_err());
        share(&mut memory, d, variable, whole(&file)).expect("it is free");
        let taken = share(&mut memory, d, variable, whole(&other));
        assert!(taken.is_err() && memory.bytes_to_share(d, variable).is_err());
        let mut bytes = [0; 1];
        file.read_exact_at(&mut bytes, 99).expect("inside");
        assert_eq!(bytes, [3]);
        file.write_all_at(&[4], 1).expect("inside");
        memory.read(d, variable + 1, &mut bytes).expect("inside");
        let of_it = memory.host_mappings_of([d].into_iter());
        assert_eq!((bytes, of_it.count, of_it.uncounted_bytes), ([4], 2, 0));
        memory.free(d, variable).expect("live");
        let of_it = memory.host_mappings_of([d].into_iter());
        assert_eq!((memory.used_bytes(d), of_it.count), (Ok(0), 0));
        let large = memory.alloc_to_share(d, 5000).expect("fits");
        let short = share(&mut memory, d, large, whole(&other));
        assert!(short.is_err(), "longer than the file");
        let plain = memory.alloc(d, 100).expect("fits");
        let other = share(&mut memory, d, plain, whole(&other));
        assert!(other.is_err(), "not made for it");
    }

    #[test]
    fn a_file_takes_the_place_of_large_memory_piece_by_piece() {
        const BYTES: u64 = (40 << 20) + 100;
        let mut memory = Memory::default();
        let d = memory.create_domain(1 << 30).expect("domain");
        let variable = memory.alloc_to_share(d, BYTES).expect("fits");
        let places = [0, 16 << 20, (32 << 20) + 5, BYTES - 1];
        for (place, value) in places.into_iter().zip(1..) {
            memory.write(d, variable + place, &[value]).expect("inside");
        }
        let file = file(BYTES.next_multiple_of(4096));
        let mut pages = pages(&file, 0, BYTES);
        assert_eq!(memory.share_piece(d, variable, &mut pages), Ok(true));
        // Between two pieces it is one piece of memory to kernels, and is written to.
        memory.write(d, variable + 1, &[8]).expect("inside");
        memory.write(d, variable + places[2], &[9]).expect("inside");
        while memory
            .share_piece(d, variable, &mut pages)
            .expect("it is free")
        {}
        assert_eq!(
            memory.share_piece(d, variable, &mut pages),
            Ok(false),
            "no more"
        );
        for (place, value) in places.into_iter().zip([1, 2, 9, 4]).chain([(1, 8)]) {
            let mut bytes = [[0], [0]];
            memory
                .read(d, variable + place, &mut bytes[0])
                .expect("inside");
            file.read_exact_at(&mut bytes[1], place).expect("inside");
            assert_eq!(bytes, [[value]; 2], "{place}");
        }
        memory.let_go(d, variable, BYTES).expect("a file's");
        let mut byte = [0];
        memory
            .read(d, variable + places[1], &mut byte)
            .expect("inside");
        assert_eq!(byte, [2], "the file holds it");
    }

    #[test]
    fn shared_memory_is_freed_all_at_once_and_leaves_no_mappings_behind() {
        let mut memory = Memory::default();
        let d = memory.create_domain(64 << 20).expect("domain");
        let file = file(1 << 20);
        let plain = memory.alloc(d, 100).expect("fits");
        let before = mappings(&memory, d);
        for round in 0..3 {
            let mut all = Vec::new();
            for _ in 0..50 {
                let variable = memory.alloc_to_share(d, 5000).expect("fits");
                let mapped = map(&mut memory, d, pages(&file, 0, 8192), 8192, round == 1);
                let between = memory.alloc(d, 10_000).expect("fits");
                for address in [variable, between] {
                    memory.write(d, address + 4096, &[7]).expect("inside");
                }
                all.extend([variable, between, mapped.expect("fits")]);
                let shared = memory.alloc_to_share(d, 4096).expect("fits");
                share(&mut memory, d, shared, pages(&file, 4096, 4096)).expect("free");
                all.push(shared);
            }
            assert_eq!(memory.host_mappings_of([d].into_iter()).count, 200);
            assert!(mappings(&memory, d) >= 200);
            all.extend([1, plain + 1]);
            if round == 0 {
                for address in all.drain(..) {
                    let _ = memory.free(d, address);
                }
            }
            memory.free_all(d, all);
            assert_eq!(memory.used_bytes(d), Ok(256));
            let none = memory.host_mappings_of([d].into_iter());
            assert_eq!(none, HostMappings::default());
            // The mapping in front may be another test's.
            assert!(mappings(&memory, d) <= before + 1, "round {round}");
        }
        memory.alloc(d, 60 << 20).expect("nothing is left between");
    }

    #[test]
    fn shared_ranges_that_count_are_held_to_the_limit_and_leave_nothing_behind() {
        let mut memory = Memory::default();
        let d = memory.create_domain(64 << 10).expect("domain");
        let file = file(128 << 10);
        for _ in 0..100 {
            let fd = |bytes| pages(&file, 0, bytes);
            let a = map(&mut memory, d, fd(60 << 10), 60 << 10, true);
            let a = a.expect("fits");
            assert_eq!(memory.used_bytes(d), Ok(60 << 10));
            let refused = map(&mut memory, d, fd(8 << 10), 8 << 10, true);
            assert!(matches!(refused, Err(MemoryError::OutOfMemory { .. })));
            let b = map(&mut memory, d, fd(128 << 10), 128 << 10, false);
            let b = b.expect("no limit");
            let of_it = memory.host_mappings_of([d].into_iter());
            assert_eq!((of_it.count, of_it.uncounted_bytes), (4, 128 << 10));
            assert!(b >= a + (60 << 10) + 4096, "a page lies between them");
            memory.free(d, a).expect("live");
            memory.free_all(d, vec![b]);
            assert_eq!(memory.used_bytes(d), Ok(0));
            assert!(memory.free(d, b).is_err());
        }
        let full = memory.alloc(d, 64 << 10);
        assert!(full.is_ok());
    }
}
