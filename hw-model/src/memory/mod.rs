//! Device memory: protection domains, one aligned power-of-two window each, and the allocations inside.
//!
//! Rules: a domain's bytes are reachable only through its [`DomainId`]; windows are multiples of 4 GiB so that a
//! fence can mask addresses; host pages are touched lazily, and given back when an allocation is freed; a red
//! zone of 256 bytes follows each allocation, so that running off its end is seen. Device addresses depend only
//! on the sequence of calls, never on where the host maps a window. No allocation lies within [`GUARD_BYTES`] of a
//! window's edge, as the fence's immediate offsets ask. Tenants that share a domain have a [`Partition`] each. Pages of
//! a file that others have mapped, too, may stand in a window ([`FilePages`]); no reference to them is made.

mod allocator;
mod host;
mod in_place;
mod names;
mod pages;
mod paging;
mod partition;
mod shared;

pub use host::{FilePages, MOST_MAPPINGS};
pub use names::{Allocation, DomainId, MemoryError, Nearest};
pub use paging::Gone;
pub use partition::Partition;
pub use shared::HostMappings;

use crate::texture::{Object, Objects, TextureError, complaint};
use allocator::Allocator;
use gridmux_ptx::forms::fence::GUARD_BYTES;
use memmap2::{MmapOptions, MmapRaw};
use pages::PAGE;

/// Smallest window, and what every window is aligned to at least.
pub const MIN_WINDOW_BYTES: u64 = 4 << 30;
/// Unit in bytes that sizes of allocations are rounded up to, and their least alignment.
pub const ALLOCATION_ALIGN: u64 = 256;
/// Generic addresses below this belong to the shared and local windows (PTX ISA section 5.1.7).
const FIRST_WINDOW: u64 = 64 << 30;

/// One domain: its window, the host pages behind it, and what is allocated.
#[derive(Debug)]
pub(crate) struct Domain {
    window_start: u64,
    window_bytes: u64,
    host: MmapRaw,
    allocator: Allocator,
    partitions: Vec<partition::Reserved>,
    /// Ranges that stand for a file's pages.
    shared: shared::SharedRanges,
    /// Reserved addresses, and what is mapped at them.
    paging: paging::Paging,
    /// Changes whenever the set of allocations does, and differs between domains: the key of range caches.
    stamp: u64,
    /// Textures, samplers and surfaces.
    objects: Objects,
    /// What kernels allocate from, once a module needs it.
    heap: Option<u64>,
    /// Loads may run past the ends of allocations.
    is_lenient: bool,
    /// The window may be divided into several mappings.
    is_divisible: bool,
}

impl Domain {
    /// Textures, samplers and surfaces.
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Changes whenever the set of live allocations does.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Returns the host address of a device address; add to it only addresses inside a live allocation.
    #[inline]
    pub(crate) fn host_bias(&self) -> *mut u8 {
        self.host
            .as_mut_ptr()
            .wrapping_sub(usize::try_from(self.window_start).unwrap_or(0))
    }

    /// Returns whether loads may run past the ends of allocations.
    pub(crate) fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// Returns whether bytes of the window lie in pages of a card each of which has part of an allocation.
    pub(crate) fn shares_page(&self, first: u64, last: u64) -> bool {
        let is_in_window =
            |address: u64| address.wrapping_sub(self.window_start) < self.window_bytes;
        let is_used = |address: u64| {
            let page = address / CARD_PAGE * CARD_PAGE;
            let next = self.allocator.next_end(page);
            next.is_some_and(|allocation| allocation.start < page + CARD_PAGE)
        };
        [first, last]
            .into_iter()
            .all(|address| is_in_window(address) && is_used(address))
    }

    /// Returns the allocation that holds `address`.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<Allocation> {
        self.allocator.find(address)
    }

    /// Returns the allocation whose edge is nearest to `address`.
    pub(crate) fn nearest(&self, address: u64) -> Nearest {
        Nearest(self.allocator.nearest(address))
    }

    /// Returns whether the window's own pages stand at an address inside an allocation, which nobody else has.
    fn is_own(&self, address: u64) -> bool {
        !self.is_shared(address) && self.paging.reservation(address, 1).is_none()
    }

    /// Gives the addresses and the host pages of an allocation back that is live no more.
    ///
    /// # Errors
    /// As [`Domain::give_shared_back`].
    fn give_back(&mut self, freed: &Allocation) -> Result<(), MemoryError> {
        if self.shared.holds(freed.start) {
            return self.give_shared_back(freed);
        }
        self.allocator.give_freed_back(freed);
        self.give_whole_pages_back(freed);
        Ok(())
    }

    fn span(&self, address: u64, bytes: u64) -> Result<*mut u8, MemoryError> {
        let found = match self.partition_at(address) {
            Some(reserved) => reserved.find(address),
            None => self.find(address),
        };
        if found.is_some_and(|a| bytes <= a.end() - address) {
            return Ok(self.host_of(address));
        }
        Err(MemoryError::OutOfBounds {
            address,
            bytes,
            nearest: self.nearest(address),
        })
    }
}

/// Bytes of the pages in which a card maps memory.
const CARD_PAGE: u64 = 2 << 20;

/// First line of code, beyond every window and local memory.
const CODE_LINES: u64 = 1 << 51;
/// Kernels begin at multiples of this number of lines.
const KERNEL_LINES: u64 = 1 << 12;

/// All domains of a GPU.
#[derive(Debug, Default)]
pub struct Memory {
    /// Lines that code has taken so far.
    code_lines: u64,
    domains: Vec<Option<Domain>>,
    /// Where a module that is being loaded places its variables, when not in the domain at large.
    placing: Option<Partition>,
    /// Multiples at which large allocations begin, those that are tried first in front; none in particular if empty.
    large_starts: &'static [u64],
    next_stamp: u64,
    /// New domains let loads run past the ends of allocations.
    is_lenient: bool,
    /// New domains have addresses for many reservations.
    is_roomy: bool,
}

/// Least bytes of an allocation that begins at a page, on a functional device.
const LARGE_BYTES: u64 = 1 << 20;
/// A page of the device's, and what programs count on that know no better. Nothing is refused for want of such a place,
/// because a window has not room for as many pages as its tenant may allocate.
const PAGES: [u64; 2] = [2 << 20, 64 << 10];

/// Bytes of a roomy window for each byte that its domain may allocate: programs reserve addresses for all of the
/// device's memory at a time, more than once.
const ROOMY_SHARE: u64 = 16;
/// Most bytes of all windows where some are roomy: an eighth of the addresses of a process.
const ROOMY_BYTES: u64 = 1 << 44;

/// The memory of a domain that is no more.
#[derive(Debug)]
pub struct RemovedDomain {
    _domain: Domain,
}

impl Memory {
    /// Creates a domain that may allocate up to `limit_bytes`.
    ///
    /// # Errors
    /// [`MemoryError::Host`] when the host has no address space left.
    pub fn create_domain(&mut self, limit_bytes: u64) -> Result<DomainId, MemoryError> {
        let window_bytes = self.window_bytes_for(limit_bytes);
        let window_start = self.free_window(window_bytes);
        let refused = |reason: String| MemoryError::Host {
            bytes: window_bytes,
            reason,
        };
        let length = usize::try_from(window_bytes).map_err(|e| refused(e.to_string()))?;
        let host = MmapOptions::new()
            .len(length)
            .no_reserve_swap()
            .map_anon()
            .map_err(|e| refused(e.to_string()))?;
        let domain = Domain {
            window_start,
            window_bytes,
            host: MmapRaw::from(host),
            allocator: Allocator::new(
                window_start + GUARD_BYTES,
                window_bytes - 2 * GUARD_BYTES,
                limit_bytes,
                ALLOCATION_ALIGN,
            ),
            partitions: Vec::new(),
            shared: shared::SharedRanges::default(),
            paging: paging::Paging::default(),
            stamp: self.fresh_stamp(),
            objects: Objects::default(),
            heap: None,
            is_lenient: self.is_lenient,
            is_divisible: false,
        };
        let index = self
            .domains
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.domains.len());
        if index == self.domains.len() {
            self.domains.push(None);
        }
        self.domains[index] = Some(domain);
        Ok(DomainId(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// Lets a domain allocate up to another limit from now on; what it holds beyond that stays. Its window was made for
    /// its first limit, so a much greater one may not be reached.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`].
    pub fn set_limit(&mut self, domain: DomainId, limit_bytes: u64) -> Result<(), MemoryError> {
        self.domain_mut(domain)?.allocator.set_limit(limit_bytes);
        Ok(())
    }

    /// Lets loads of kernels run past the ends of allocations in all domains that are made from now on, as far as a
    /// card lets them: to the end of a page of 2 MiB that has part of one. They get what is there, or zero.
    pub fn read_past_ends(&mut self) {
        self.is_lenient = true;
    }

    /// Removes a domain with everything in it.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`].
    pub fn destroy_domain(&mut self, domain: DomainId) -> Result<(), MemoryError> {
        self.remove_domain(domain).map(drop)
    }

    /// Takes a domain out with everything in it. Its host memory is given back when what is returned is dropped, which
    /// takes long where much of it was touched.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`].
    pub fn remove_domain(&mut self, domain: DomainId) -> Result<RemovedDomain, MemoryError> {
        let found = self.domains.get_mut(domain.0 as usize);
        let removed = found.and_then(Option::take);
        removed
            .map(|domain| RemovedDomain { _domain: domain })
            .ok_or(MemoryError::NoDomain(domain))
    }

    /// Lets allocations of 1 MiB and more begin at multiples of 2 MiB from now on, where there is room, as those of
    /// NVIDIA's driver do. Programs count on pages that divide a large allocation among themselves; what caches hold
    /// depends on where allocations begin, so that times with and without it differ.
    pub fn begin_large_at_pages(&mut self) {
        self.large_starts = &PAGES;
    }

    /// Lets domains that are made from now on have addresses for many reservations of all of their memory, as long as
    /// windows are few. Where a window lies depends on the sizes of those before it, and so do times.
    pub fn make_windows_roomy(&mut self) {
        self.is_roomy = true;
    }

    /// Allocates `bytes`, aligned to 512; fresh memory reads as zero unless it was used before.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`], [`MemoryError::ZeroBytes`], [`MemoryError::OutOfMemory`].
    pub fn alloc(&mut self, domain: DomainId, bytes: u64) -> Result<u64, MemoryError> {
        if let Some(partition) = self.placing {
            return self.alloc_in(partition, bytes);
        }
        let stamp = self.fresh_stamp();
        let starts = match bytes {
            LARGE_BYTES.. => self.large_starts,
            _ => &[],
        };
        let domain = self.domain_mut(domain)?;
        let address = domain.allocator.alloc_at(bytes, starts)?;
        domain.stamp = stamp;
        Ok(address)
    }

    /// Returns first line of a place for the code of a kernel of `operations` operations, of which a line holds one at
    /// least. No place is given twice, so that what caches hold of a kernel is never taken for another one.
    pub(crate) fn place_code(&mut self, operations: usize) -> u64 {
        let first = CODE_LINES + self.code_lines;
        self.code_lines += (operations as u64).next_multiple_of(KERNEL_LINES);
        first
    }

    /// Returns the domain's heap of `bytes` bytes, allocated at the first call.
    pub(crate) fn heap(&mut self, domain: DomainId, bytes: u64) -> Result<u64, MemoryError> {
        let known = self.domain(domain)?.heap;
        let whole = |start: &u64| {
            let found = self.allocation_at(domain, *start);
            found.is_some_and(|a| a.start == *start && a.bytes == bytes)
        };
        if let Some(start) = known.filter(whole) {
            return Ok(start);
        }
        let start = self.alloc(domain, bytes)?;
        self.fill(domain, start, bytes.min(4096), 0)?;
        self.domain_mut(domain)?.heap = Some(start);
        Ok(start)
    }

    /// Frees an allocation by its start address and gives its host pages back.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`], [`MemoryError::NotAllocated`]; [`MemoryError::Host`]: a file's pages cannot be taken
    /// out, and their addresses stay taken and out of reach.
    pub fn free(&mut self, domain: DomainId, address: u64) -> Result<(), MemoryError> {
        let stamp = self.fresh_stamp();
        let domain = self.domain_mut(domain)?;
        if domain.free_in_partition(address)? {
            return Ok(());
        }
        let freed = domain.allocator.take_one(address)?;
        domain.stamp = stamp;
        domain.give_back(&freed)
    }

    /// Frees many allocations by their start addresses, as [`Memory::free`] does, in one pass over all that there are;
    /// addresses at which none begins are left out.
    pub fn free_all(&mut self, domain: DomainId, mut addresses: Vec<u64>) {
        let stamp = self.fresh_stamp();
        let Ok(domain) = self.domain_mut(domain) else {
            return;
        };
        addresses.retain(|address| !matches!(domain.free_in_partition(*address), Ok(true)));
        addresses.sort_unstable();
        let freed = domain.allocator.take_live(&addresses);
        domain.stamp = stamp;
        for allocation in &freed {
            // Where the host refuses, the addresses of a file's pages stay taken and out of reach.
            let _ = domain.give_back(allocation);
        }
    }

    /// Copies device bytes to the host.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`], [`MemoryError::OutOfBounds`] when the span leaves one allocation.
    pub fn read(&self, domain: DomainId, address: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let host = self.domain(domain)?.span(address, into.len() as u64)?;
        // SAFETY: `span` found all the bytes inside one allocation, which lies inside the domain's mapping; a
        // fresh host slice cannot overlap it, and `&self` keeps the mapping alive. Where a file's pages stand there
        // others may write to them meanwhile: then the slice gets what either wrote, in some order.
        unsafe { std::ptr::copy_nonoverlapping(host, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies host bytes to the device.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn write(
        &mut self,
        domain: DomainId,
        address: u64,
        from: &[u8],
    ) -> Result<(), MemoryError> {
        let host = self.domain(domain)?.span(address, from.len() as u64)?;
        // SAFETY: as in `read`; `&mut self` excludes every other access of this process.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), host, from.len()) };
        Ok(())
    }

    /// Sets device bytes to one value.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn fill(
        &mut self,
        domain: DomainId,
        address: u64,
        bytes: u64,
        value: u8,
    ) -> Result<(), MemoryError> {
        let host = self.domain(domain)?.span(address, bytes)?;
        // SAFETY: as in `write`.
        unsafe { std::ptr::write_bytes(host, value, usize::try_from(bytes).unwrap_or(0)) };
        Ok(())
    }

    /// Sets device bytes to zero; whole pages are given back to the host, so that those never touched stay untouched.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn clear(&mut self, domain: DomainId, address: u64, bytes: u64) -> Result<(), MemoryError> {
        let found = self.domain(domain)?;
        found.span(address, bytes)?;
        let end = address + bytes;
        let (first, last) = (address.next_multiple_of(PAGE), end / PAGE * PAGE);
        if first >= last || !found.is_own(address) || !found.give_pages_back(first, last) {
            return self.fill(domain, address, bytes, 0);
        }
        self.fill(domain, address, first - address, 0)?;
        if last == end {
            return Ok(());
        }
        self.fill(domain, last, end - last, 0)
    }

    /// Returns the bytes in use, each allocation rounded up to 256.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`].
    pub fn used_bytes(&self, domain: DomainId) -> Result<u64, MemoryError> {
        Ok(self.domain(domain)?.allocator.used_bytes())
    }

    /// Returns the bytes in use in all domains together, their partitions included, each allocation rounded up.
    #[must_use]
    pub fn used_bytes_of_all(&self) -> u64 {
        let used = |domain: &Domain| domain.allocator.used_bytes() + domain.used_in_partitions();
        self.domains.iter().flatten().map(used).sum()
    }

    /// Returns the first address and size of the domain's window.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`].
    pub fn window(&self, domain: DomainId) -> Result<(u64, u64), MemoryError> {
        let domain = self.domain(domain)?;
        Ok((domain.window_start, domain.window_bytes))
    }

    /// Returns the domain in whose window `address` lies.
    pub(crate) fn domain_at(&self, address: u64) -> Option<DomainId> {
        let holds = |d: &Domain| address.wrapping_sub(d.window_start) < d.window_bytes;
        let found = |d: &Option<Domain>| d.as_ref().is_some_and(holds);
        let index = self.domains.iter().position(found)?;
        u32::try_from(index).ok().map(DomainId)
    }

    /// Returns the partition of a domain that holds `address` or has it in a guard zone.
    pub(crate) fn partition_at(&self, domain: DomainId, address: u64) -> Option<Partition> {
        let found = self.domain(domain).ok()?.partition_at(address)?;
        Some(found.as_partition(domain))
    }

    /// Returns the live allocation that holds `address`; a partition counts as one.
    #[must_use]
    pub fn allocation_at(&self, domain: DomainId, address: u64) -> Option<Allocation> {
        self.domain(domain).ok()?.find(address)
    }

    /// Runs `load` with every allocation made in a partition.
    pub(crate) fn placing_in<R>(
        &mut self,
        partition: Partition,
        load: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.placing = Some(partition);
        let result = load(self);
        self.placing = None;
        result
    }

    /// Makes a texture, sampler or surface in a domain and gives its handle, a 64-bit kernel parameter.
    ///
    /// # Errors
    /// [`TextureError`]; the image must lie inside one allocation.
    pub fn create_object(&mut self, id: DomainId, object: Object) -> Result<u64, TextureError> {
        let slot = self.domains.get_mut(id.0 as usize).and_then(Option::as_mut);
        let domain = slot.ok_or(TextureError::NoDomain(id))?;
        if let Some(image) = object.image() {
            if let Some(what) = complaint(image) {
                return Err(TextureError::Image(what));
            }
            let (address, bytes) = (image.address, image.bytes());
            let found = domain.find(address);
            if found.is_none_or(|a| a.end() - address < bytes) {
                return Err(TextureError::OutOfBounds { address, bytes });
            }
        }
        Ok(domain.objects.insert(object))
    }

    /// Drops an object; its handle stands for nothing afterwards.
    ///
    /// # Errors
    /// [`TextureError`].
    pub fn destroy_object(&mut self, id: DomainId, handle: u64) -> Result<(), TextureError> {
        let slot = self.domains.get_mut(id.0 as usize).and_then(Option::as_mut);
        let domain = slot.ok_or(TextureError::NoDomain(id))?;
        let gone = domain.objects.remove(handle);
        gone.map(|_| ())
            .ok_or_else(|| TextureError::NoObject(format!("{handle:#x}")))
    }

    pub(crate) fn domain(&self, id: DomainId) -> Result<&Domain, MemoryError> {
        self.domains
            .get(id.0 as usize)
            .and_then(Option::as_ref)
            .ok_or(MemoryError::NoDomain(id))
    }

    fn domain_mut(&mut self, id: DomainId) -> Result<&mut Domain, MemoryError> {
        self.domains
            .get_mut(id.0 as usize)
            .and_then(Option::as_mut)
            .ok_or(MemoryError::NoDomain(id))
    }

    fn fresh_stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp
    }

    /// Returns the size of a window for a domain that may allocate up to `limit_bytes`.
    fn window_bytes_for(&self, limit_bytes: u64) -> u64 {
        let sized = |wanted: u64| {
            let whole = wanted.checked_next_power_of_two();
            whole.unwrap_or(1 << 46).clamp(MIN_WINDOW_BYTES, 1 << 46)
        };
        let all = self.domains.iter().flatten();
        let all: u64 = all.map(|domain| domain.window_bytes).sum();
        let roomy = sized(limit_bytes.saturating_mul(ROOMY_SHARE));
        if self.is_roomy && all.saturating_add(roomy) <= ROOMY_BYTES {
            return roomy;
        }
        // Half as much again leaves room for fragmentation and red zones; as much is for host memory and reservations,
        // which do not count.
        let wanted = limit_bytes.saturating_add(limit_bytes / 2);
        sized(wanted.saturating_mul(2))
    }

    /// Returns the lowest window of that size, aligned to it, that no domain holds.
    fn free_window(&self, bytes: u64) -> u64 {
        let mut windows: Vec<(u64, u64)> = self
            .domains
            .iter()
            .flatten()
            .map(|domain| (domain.window_start, domain.window_bytes))
            .collect();
        windows.sort_unstable();
        let mut start = FIRST_WINDOW.next_multiple_of(bytes);
        for (taken, length) in windows {
            if start + bytes <= taken {
                break;
            }
            start = start.max((taken + length).next_multiple_of(bytes));
        }
        start
    }
}

#[cfg(test)]
mod tests;
