//! Partitions: several tenants in one domain, each in a power-of-two reservation of its own.
//!
//! A fence replaces the upper bits of every address, so that each address of a fenced kernel lies in its tenant's
//! reservation; it does not keep the kernel inside the tenant's allocations. Rules: whatever is not allocated, and
//! [`GUARD_BYTES`] beyond both ends, is backed by a sink, so that no such address faults; the sink is the
//! partition's own, a few MiB of host memory mapped again and again, as a GPU's page tables would map it; nothing
//! is allocated within [`GUARD_BYTES`] of either end. Kernels see the reservation as one allocation; the host's
//! copies see what is allocated in it.

use super::allocator::Allocator;
use super::host::host_error;
use super::{Allocation, Domain, DomainId, GUARD_BYTES, MIN_WINDOW_BYTES, Memory, MemoryError};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

/// Allocations of a partition are whole host pages, because pages are what the sink is mapped by.
const PAGE_BYTES: u64 = 4096;
/// The sink of a partition has this fraction of its size.
const SINK_SHARE: u64 = 256;

/// A tenant's reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Partition {
    /// Domain that it lies in.
    pub domain: DomainId,
    /// First address, a multiple of `bytes`: the control block's `fence_base`.
    pub base: u64,
    /// Size, a power of two of at least 4 GiB.
    pub bytes: u64,
}

impl Partition {
    /// Returns the control block's `fence_mask`.
    #[must_use]
    pub const fn mask(self) -> u64 {
        self.bytes - 1
    }
}

/// What a domain keeps of a partition.
#[derive(Debug)]
pub(super) struct Reserved {
    base: u64,
    bytes: u64,
    allocator: Allocator,
    sink: File,
}

impl Reserved {
    /// Returns the live allocation that holds `address`.
    pub(super) fn find(&self, address: u64) -> Option<Allocation> {
        self.allocator.find(address)
    }

    /// Returns how others name it.
    pub(super) fn as_partition(&self, domain: DomainId) -> Partition {
        Partition {
            domain,
            base: self.base,
            bytes: self.bytes,
        }
    }

    fn first(&self) -> u64 {
        self.base - GUARD_BYTES
    }

    fn end(&self) -> u64 {
        self.base + self.bytes + GUARD_BYTES
    }
}

fn create_sink(bytes: u64) -> Result<File, MemoryError> {
    // SAFETY: the name is a literal that ends in NUL; the call touches no other memory.
    let fd = unsafe { libc::memfd_create(c"gridmux-sink".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(host_error(bytes));
    }
    // SAFETY: the descriptor was just made and nobody else owns it.
    let sink = unsafe { File::from_raw_fd(fd) };
    sink.set_len(bytes).map_err(|_| host_error(bytes))?;
    Ok(sink)
}

impl Domain {
    pub(super) fn partition_at(&self, address: u64) -> Option<&Reserved> {
        let holds = |p: &&Reserved| (p.first()..p.end()).contains(&address);
        self.partitions.iter().find(holds)
    }

    /// Returns the bytes in use in all partitions together.
    pub(super) fn used_in_partitions(&self) -> u64 {
        self.partitions
            .iter()
            .map(|p| p.allocator.used_bytes())
            .sum()
    }

    fn partition_mut(&mut self, base: u64) -> Option<&mut Reserved> {
        self.partitions.iter_mut().find(|p| p.base == base)
    }

    /// Frees an allocation of a partition; false when the address lies in none.
    pub(super) fn free_in_partition(&mut self, address: u64) -> Result<bool, MemoryError> {
        let Some(base) = self.partition_at(address).map(|p| p.base) else {
            return Ok(false);
        };
        let Some(reserved) = self.partition_mut(base) else {
            return Ok(false);
        };
        let freed = reserved.allocator.free(address)?;
        let fd = reserved.sink.as_raw_fd();
        let sink_bytes = reserved.bytes / SINK_SHARE;
        self.map_sink(fd, sink_bytes, freed.start, freed.bytes)?;
        Ok(true)
    }

    /// Maps the sink over `[start, start + bytes)`, each page where its place in the reservation says.
    fn map_sink(
        &self,
        fd: i32,
        sink_bytes: u64,
        start: u64,
        bytes: u64,
    ) -> Result<(), MemoryError> {
        let (mut at, end) = (start, start + bytes);
        while at < end {
            let offset = at % sink_bytes;
            let length = (sink_bytes - offset).min(end - at);
            self.map(at, length, Some((fd, offset)))?;
            at += length;
        }
        Ok(())
    }

    /// Replaces the pages of a device range by the sink's, or by fresh zero pages.
    fn map(&self, at: u64, bytes: u64, sink: Option<(i32, u64)>) -> Result<(), MemoryError> {
        let place = self
            .host_bias()
            .wrapping_add(usize::try_from(at).unwrap_or(0));
        let length = usize::try_from(bytes).unwrap_or(0);
        let (flags, fd, offset) = match sink {
            Some((fd, offset)) => (libc::MAP_SHARED, fd, offset.cast_signed()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        // SAFETY: callers hand in whole pages inside this domain's own mapping, which `host` owns and unmaps as a
        // whole; MAP_FIXED replaces only those pages, and `&mut` access to the memory excludes a running kernel.
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
            return Err(host_error(bytes));
        }
        Ok(())
    }
}

impl Memory {
    /// Reserves a partition that may allocate up to `limit_bytes`, in the lowest place of the domain's window that
    /// has room for it.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`]; [`MemoryError::OutOfMemory`] when the window has no such room, so create the
    /// domain with a limit of a few times the partitions' sizes; [`MemoryError::Host`].
    pub fn reserve(
        &mut self,
        domain: DomainId,
        limit_bytes: u64,
    ) -> Result<Partition, MemoryError> {
        let stamp = self.fresh_stamp();
        let owner = self.domain_mut(domain)?;
        let full = || MemoryError::OutOfMemory {
            asked: limit_bytes,
            used: 0,
            limit: owner.window_bytes,
        };
        let wanted = limit_bytes
            .checked_add(limit_bytes / 2)
            .and_then(|b| b.checked_add(2 * GUARD_BYTES))
            .and_then(u64::checked_next_power_of_two);
        let bytes = wanted.ok_or_else(full)?.max(MIN_WINDOW_BYTES);
        let base = owner.allocator.take_aligned(bytes, bytes, GUARD_BYTES);
        let base = base.ok_or(MemoryError::OutOfMemory {
            asked: bytes,
            used: owner.allocator.used_bytes(),
            limit: owner.window_bytes,
        })?;
        let sink_bytes = bytes / SINK_SHARE;
        let mapped = create_sink(sink_bytes).and_then(|sink| {
            let all = bytes + 2 * GUARD_BYTES;
            owner.map_sink(sink.as_raw_fd(), sink_bytes, base - GUARD_BYTES, all)?;
            Ok(sink)
        });
        let sink = match mapped {
            Ok(sink) => sink,
            Err(error) => {
                owner.allocator.give_aligned(base - GUARD_BYTES);
                return Err(error);
            }
        };
        let inner = bytes - 2 * GUARD_BYTES;
        owner.partitions.push(Reserved {
            base,
            bytes,
            allocator: Allocator::new(base + GUARD_BYTES, inner, limit_bytes, PAGE_BYTES),
            sink,
        });
        owner.stamp = stamp;
        Ok(Partition {
            domain,
            base,
            bytes,
        })
    }

    /// Gives a partition back with everything in it.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`]; [`MemoryError::NotAllocated`] when it is no partition (any more).
    pub fn release(&mut self, partition: Partition) -> Result<(), MemoryError> {
        let stamp = self.fresh_stamp();
        let owner = self.domain_mut(partition.domain)?;
        let missing = MemoryError::NotAllocated {
            address: partition.base,
            nearest: owner.nearest(partition.base),
        };
        let at = owner
            .partitions
            .iter()
            .position(|p| p.base == partition.base)
            .ok_or(missing)?;
        let reserved = owner.partitions.swap_remove(at);
        let all = reserved.end() - reserved.first();
        owner.map(reserved.first(), all, None)?;
        owner.allocator.give_aligned(reserved.first());
        owner.stamp = stamp;
        Ok(())
    }

    /// Returns the bytes in use in a partition, each allocation rounded up to 4096; 0 where it is none (any more).
    #[must_use]
    pub fn used_bytes_in(&self, partition: Partition) -> u64 {
        let owner = self.domain(partition.domain).ok();
        let found =
            owner.and_then(|owner| owner.partitions.iter().find(|p| p.base == partition.base));
        found.map_or(0, |found| found.allocator.used_bytes())
    }

    /// Lets a partition allocate up to another limit from now on; what it holds beyond that stays. It was made for its
    /// first limit, so a much greater one may not be reached.
    ///
    /// # Errors
    /// As [`Memory::release`].
    pub fn set_limit_in(
        &mut self,
        partition: Partition,
        limit_bytes: u64,
    ) -> Result<(), MemoryError> {
        let owner = self.domain_mut(partition.domain)?;
        let missing = MemoryError::NotAllocated {
            address: partition.base,
            nearest: owner.nearest(partition.base),
        };
        let found = owner.partition_mut(partition.base).ok_or(missing)?;
        found.allocator.set_limit(limit_bytes);
        Ok(())
    }

    /// Allocates `bytes` in a partition, aligned to 4096 and zero; [`Memory::free`] frees them.
    ///
    /// # Errors
    /// As [`Memory::alloc`], and as [`Memory::release`].
    pub fn alloc_in(&mut self, partition: Partition, bytes: u64) -> Result<u64, MemoryError> {
        let owner = self.domain_mut(partition.domain)?;
        let missing = MemoryError::NotAllocated {
            address: partition.base,
            nearest: owner.nearest(partition.base),
        };
        let reserved = owner.partition_mut(partition.base).ok_or(missing)?;
        let address = reserved.allocator.alloc(bytes)?;
        let pages = bytes.next_multiple_of(PAGE_BYTES);
        if let Err(error) = owner.map(address, pages, None) {
            // The sink is still mapped there, so that only the account has to be undone.
            if let Some(reserved) = owner.partition_mut(partition.base) {
                let _ = reserved.allocator.free(address);
            }
            return Err(error);
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::{GUARD_BYTES, Memory, MemoryError};

    #[test]
    fn partitions_are_aligned_apart_and_accounted() {
        let mut memory = Memory::default();
        let d = memory.create_domain(40 << 30).expect("domain");
        let a = memory.reserve(d, 1 << 20).expect("room");
        let b = memory.reserve(d, 1 << 20).expect("room");
        for p in [a, b] {
            assert_eq!(p.bytes, 4 << 30);
            assert!(p.base.is_multiple_of(p.bytes));
        }
        assert!(b.base >= a.base + a.bytes + 2 * GUARD_BYTES || a.base > b.base);
        let x = memory.alloc_in(a, 100).expect("fits");
        assert!(x >= a.base + GUARD_BYTES && x < a.base + a.bytes - GUARD_BYTES);
        memory.write(d, x, &[7; 100]).expect("inside");
        assert!(matches!(
            memory.write(d, x + 96, &[0; 8]),
            Err(MemoryError::OutOfBounds { .. })
        ));
        assert!(memory.alloc_in(a, 2 << 20).is_err());
        memory.free(d, x).expect("live");
        let again = memory.alloc_in(a, 100).expect("fits");
        let mut back = [1; 100];
        memory.read(d, again, &mut back).expect("inside");
        assert_eq!((again, back), (x, [0; 100]));
        memory.release(a).expect("is one");
        assert!(memory.alloc_in(a, 1).is_err());
        let c = memory.reserve(d, 1 << 20).expect("room again");
        assert_eq!(c.base, a.base);
    }

    #[test]
    fn a_kernel_may_touch_every_address_of_a_partition() {
        let mut memory = Memory::default();
        let d = memory.create_domain(16 << 30).expect("domain");
        let p = memory.reserve(d, 1 << 20).expect("room");
        for address in [
            p.base - GUARD_BYTES,
            p.base,
            p.base + p.mask() + GUARD_BYTES,
        ] {
            let found = memory.allocation_at(d, address).expect("mapped");
            assert!(found.bytes >= p.bytes);
        }
        assert!(memory.allocation_at(d, p.base - GUARD_BYTES - 1).is_none());
    }
}
