//! Host pages behind a window: given back to the host, and put in the place of others'.
//!
//! Rule: no page of a window is ever a hole; where a file's pages or physical memory are taken out, fresh ones of the
//! window's own take their place, and who cannot put them there lets nobody reach the addresses any more.

use super::host::host_error;
use super::names::bad;
use super::{Allocation, Domain, DomainId, Memory, MemoryError};

/// Bytes of a page of the host.
pub(super) const PAGE: u64 = 4096;

impl Domain {
    /// Returns the host address of a device address.
    pub(super) fn host_of(&self, address: u64) -> *mut u8 {
        self.host_bias()
            .wrapping_add(usize::try_from(address).unwrap_or(0))
    }

    /// Lets the window be divided into several mappings from now on that become one again. Linux joins neighbours that
    /// have been written to only where they have been one mapping when it was first written to; else each range that
    /// comes and goes might leave a mapping behind.
    pub(super) fn make_divisible(&mut self) {
        if !self.is_divisible {
            // SAFETY: the window's first byte is its own, in front of all allocations, and `&mut self` excludes every
            // other access. The write is there for its effect on the mapping.
            unsafe { self.host.as_mut_ptr().write_volatile(0) };
            self.is_divisible = true;
        }
    }

    /// Replaces whole pages of the window by fresh ones.
    pub(super) fn renew_pages(&self, at: u64, bytes: u64) -> Result<(), MemoryError> {
        let length = usize::try_from(bytes.next_multiple_of(PAGE)).unwrap_or(0);
        // SAFETY: callers hand in whole pages of an allocation or a reservation of this domain, inside the mapping that
        // `host` owns and unmaps as a whole; MAP_FIXED replaces only them, and exclusive access to the memory excludes
        // a running kernel.
        let mapped = unsafe {
            libc::mmap(
                self.host_of(at).cast(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match mapped == libc::MAP_FAILED {
            true => Err(host_error(bytes)),
            false => Ok(()),
        }
    }

    /// Gives the host pages of an allocation that was freed back, those that are its own alone.
    pub(super) fn give_whole_pages_back(&self, freed: &Allocation) {
        let first = freed.start.next_multiple_of(PAGE);
        let last = freed.end() / PAGE * PAGE;
        if first < last {
            // A refusal leaves the pages in place, which is harmless.
            self.give_pages_back(first, last);
        }
    }

    /// Gives the host pages from `first` to `last` back, device addresses inside one allocation or reservation, live or
    /// just freed. Those of the window's own read as zero afterwards; what a file or physical memory holds stays, and
    /// is mapped again as it is accessed. Returns whether the host did so.
    pub(super) fn give_pages_back(&self, first: u64, last: u64) -> bool {
        let length = usize::try_from(last - first).unwrap_or(0);
        // SAFETY: the whole pages lie inside one allocation or reservation, hence inside the mapping; the caller's
        // exclusive access to the memory excludes every other use by this process. The advice drops the contents of
        // private pages, which nobody else has, and only this mapping of shared ones.
        let given =
            unsafe { libc::madvise(self.host_of(first).cast(), length, libc::MADV_DONTNEED) };
        given == 0
    }
}

impl Memory {
    /// Lets go of how the host has mapped pages of a file's or of physical memory, which is about to be freed or
    /// unmapped: a piece of it at a time, so that no call takes long. What they hold stays.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]: the range lies neither in one that is shared nor in a reservation.
    pub fn let_go(
        &mut self,
        domain: DomainId,
        address: u64,
        bytes: u64,
    ) -> Result<(), MemoryError> {
        let owner = self.domain_mut(domain)?;
        let is_reserved = owner.paging.reservation(address, bytes).is_some();
        let is_shared = owner.is_shared(address) && owner.span(address, bytes).is_ok();
        if !is_reserved && !is_shared {
            return Err(bad(address, bytes));
        }
        let (first, last) = (
            address.next_multiple_of(PAGE),
            (address + bytes) / PAGE * PAGE,
        );
        if first < last {
            owner.give_pages_back(first, last);
        }
        Ok(())
    }
}
