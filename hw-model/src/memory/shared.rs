//! Ranges of a window that stand for the pages of a file which others have mapped, too: host memory that kernels reach.
//!
//! The client maps the file at the same addresses in its own process, which a window's addresses leave free there: so
//! host and device share one space of addresses, as CUDA promises, and what one writes the other sees at once.
//!
//! Rules: a range has its pages for itself, and a page behind it that is never handed out; whoever hands the file over
//! sees to it that it keeps its length and has no holes, so that an access is never a signal. Others write to the pages
//! at any time: bytes of them are copied, and no reference to them is made. What is freed becomes memory of the window
//! again, and the file keeps what it holds.

use super::{Domain, DomainId, Memory, MemoryError, PAGE};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A range whose pages hold nothing else.
#[derive(Debug, Clone, Copy)]
struct SharedRange {
    /// Its bytes count as used.
    counts: bool,
    /// A file's pages stand there; else the window's own do, until a file takes their place.
    has_file: bool,
}

/// The shared ranges of a domain, by their first address.
#[derive(Debug, Default)]
pub(super) struct SharedRanges(BTreeMap<u64, SharedRange>);

impl SharedRanges {
    fn holds(&self, start: u64) -> bool {
        self.0.contains_key(&start)
    }
}

impl Domain {
    /// Returns whether an address lies in a shared range.
    pub(super) fn is_shared(&self, address: u64) -> bool {
        !self.shared.0.is_empty()
            && self
                .find(address)
                .is_some_and(|a| self.shared.holds(a.start))
    }

    /// Frees the shared range that begins at an address; false when none does.
    pub(super) fn free_shared(&mut self, address: u64) -> Result<bool, MemoryError> {
        let Some(range) = self.shared.0.get(&address).copied() else {
            return Ok(false);
        };
        let Some(found) = self.find(address) else {
            return Ok(false);
        };
        // Only where it is the window's own memory again it may be given to others.
        self.map_pages(address, found.bytes, None)?;
        self.shared.0.remove(&address);
        self.allocator.free_pages(address, PAGE, range.counts);
        Ok(true)
    }

    /// Replaces whole pages of the window by a file's from an offset on, or by fresh ones.
    pub(super) fn map_pages(
        &self,
        at: u64,
        bytes: u64,
        file: Option<(BorrowedFd<'_>, u64)>,
    ) -> Result<(), MemoryError> {
        let place = self
            .host_bias()
            .wrapping_add(usize::try_from(at).unwrap_or(0));
        let length = usize::try_from(bytes.next_multiple_of(PAGE)).unwrap_or(0);
        let (flags, fd, offset) = match file {
            Some((fd, offset)) => (libc::MAP_SHARED, fd.as_raw_fd(), offset.cast_signed()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        // SAFETY: the pages are those of one allocation of this domain, which has them for itself, inside the mapping
        // that `host` owns and unmaps as a whole; MAP_FIXED replaces only them, and `&mut` access to the memory
        // excludes a running kernel.
        let mapped = unsafe {
            libc::mmap(
                place.cast(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_FIXED | libc::MAP_NORESERVE,
                fd,
                offset,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(MemoryError::Host {
                bytes,
                reason: std::io::Error::last_os_error().to_string(),
            });
        }
        Ok(())
    }
}

impl Memory {
    /// Puts `bytes` bytes of a file, from `offset` on, at device addresses, and returns the first, a multiple of 4096.
    /// Whoever has the file mapped sees what kernels write, and they what is written there. If `counts`, the bytes are
    /// used memory of the domain's. [`Memory::free`] takes them out again.
    ///
    /// The file must be as long as the last page, keep that length, and have no holes.
    ///
    /// # Errors
    /// As [`Memory::alloc`]; [`MemoryError::Host`]: the file cannot be mapped there.
    pub fn map_file(
        &mut self,
        domain: DomainId,
        (file, offset): (BorrowedFd<'_>, u64),
        bytes: u64,
        counts: bool,
    ) -> Result<u64, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::ZeroBytes);
        }
        let stamp = self.fresh_stamp();
        let domain = self.domain_mut(domain)?;
        let address = domain.allocator.alloc_pages(bytes, PAGE, counts)?;
        if let Err(error) = domain.map_pages(address, bytes, Some((file, offset))) {
            // What was there may be gone.
            domain.map_pages(address, bytes, None)?;
            domain.allocator.free_pages(address, PAGE, counts);
            return Err(error);
        }
        let range = SharedRange {
            counts,
            has_file: true,
        };
        domain.shared.0.insert(address, range);
        domain.stamp = stamp;
        Ok(address)
    }

    /// Allocates `bytes` in pages that hold nothing else, so that a file can take their place.
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
        let address = domain.allocator.alloc_pages(bytes, PAGE, true)?;
        let range = SharedRange {
            counts: true,
            has_file: false,
        };
        domain.shared.0.insert(address, range);
        domain.stamp = stamp;
        Ok(address)
    }

    /// Puts a file's bytes, from `offset` on, in the place of memory that [`Memory::alloc_to_share`] gave, with what
    /// the memory holds. The file must be as [`Memory::map_file`] asks.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`]: no such memory begins there, or a file has taken its place already;
    /// [`MemoryError::Host`].
    pub fn share(
        &mut self,
        domain: DomainId,
        address: u64,
        (file, offset): (BorrowedFd<'_>, u64),
        file_bytes: u64,
    ) -> Result<(), MemoryError> {
        let missing = MemoryError::NotAllocated {
            address,
            nearest: super::Nearest(None),
        };
        let owner = self.domain(domain)?;
        let range = owner.shared.0.get(&address);
        let is_free = range.is_some_and(|range| !range.has_file);
        let found = owner.find(address).filter(|_| is_free);
        let found = found.filter(|found| found.bytes.next_multiple_of(PAGE) <= file_bytes);
        let bytes = found.ok_or(missing)?.bytes;
        let mut held = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.read(domain, address, &mut held)?;
        let owner = self.domain_mut(domain)?;
        owner.map_pages(address, bytes, Some((file, offset)))?;
        if let Some(range) = owner.shared.0.get_mut(&address) {
            range.has_file = true;
        }
        self.write(domain, address, &held)
    }

    /// Puts memory of the window's own, zeroed, in the place of a file's pages.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`]: no file's pages begin there; [`MemoryError::Host`].
    pub fn unshare(&mut self, domain: DomainId, address: u64) -> Result<(), MemoryError> {
        let owner = self.domain_mut(domain)?;
        let found = owner.find(address);
        let range = owner.shared.0.get_mut(&address);
        let (Some(found), Some(range)) = (found, range) else {
            return Err(MemoryError::NotAllocated {
                address,
                nearest: super::Nearest(None),
            });
        };
        range.has_file = false;
        owner.map_pages(address, found.bytes, None)
    }

    /// Returns how many ranges of all domains stand for a file's pages.
    #[must_use]
    pub fn shared_ranges(&self) -> usize {
        let domains = self.domains.iter().flatten();
        let of_files = |domain: &Domain| {
            domain
                .shared
                .0
                .values()
                .filter(|range| range.has_file)
                .count()
        };
        domains.map(of_files).sum()
    }

    /// Returns whether an address lies in a range that others have mapped, too ([`Memory::map_file`]).
    #[must_use]
    pub fn is_shared(&self, domain: DomainId, address: u64) -> bool {
        self.domain(domain)
            .is_ok_and(|domain| domain.is_shared(address))
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;
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

    #[test]
    fn a_files_bytes_are_the_devices_and_stay_the_files() {
        let mut memory = Memory::default();
        let d = memory.create_domain(1 << 20).expect("domain");
        let before = memory.alloc(d, 100).expect("fits");
        let file = file(12288);
        file.write_all_at(&[7; 100], 4096).expect("inside");
        let fd = (file.as_fd(), 4096);
        let shared = memory.map_file(d, fd, 5000, false).expect("mapped");
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
        let share = |memory: &mut Memory, address, file: &File| {
            memory.share(d, address, (file.as_fd(), 0), 4096)
        };
        assert!(share(&mut memory, variable + 4, &file).is_err());
        share(&mut memory, variable, &file).expect("it is free");
        assert!(share(&mut memory, variable, &other).is_err(), "taken");
        let mut bytes = [0; 1];
        file.read_exact_at(&mut bytes, 99).expect("inside");
        assert_eq!(bytes, [3]);
        file.write_all_at(&[4], 1).expect("inside");
        memory.read(d, variable + 1, &mut bytes).expect("inside");
        assert_eq!((bytes, memory.shared_ranges()), ([4], 1));
        memory.free(d, variable).expect("live");
        assert_eq!((memory.used_bytes(d), memory.shared_ranges()), (Ok(0), 0));
        let large = memory.alloc_to_share(d, 5000).expect("fits");
        assert!(
            share(&mut memory, large, &other).is_err(),
            "longer than the file"
        );
        let plain = memory.alloc(d, 100).expect("fits");
        assert!(
            share(&mut memory, plain, &other).is_err(),
            "not made for it"
        );
    }

    #[test]
    fn shared_ranges_that_count_are_held_to_the_limit_and_leave_nothing_behind() {
        let mut memory = Memory::default();
        let d = memory.create_domain(64 << 10).expect("domain");
        let file = file(128 << 10);
        let fd = (file.as_fd(), 0);
        for _ in 0..100 {
            let a = memory.map_file(d, fd, 60 << 10, true).expect("fits");
            assert_eq!(memory.used_bytes(d), Ok(60 << 10));
            let refused = memory.map_file(d, fd, 8 << 10, true);
            assert!(matches!(refused, Err(MemoryError::OutOfMemory { .. })));
            let b = memory.map_file(d, fd, 128 << 10, false).expect("no limit");
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
