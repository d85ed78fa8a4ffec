//! Pages of a memfd in this process, at any address or at one that is asked for.
//!
//! Rule: a mapping that was there is replaced only where the caller says so ([`HostMap::replace`]).

use gridmux_channel::memory::MemoryError;
use nix::sys::mman::{
    MRemapFlags, MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, mremap, munmap,
};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// `MADV_POPULATE_WRITE` is Linux 5.14's; before that pages are written to one by one.
const PAGE_BYTES: usize = 4096;

/// A mapping that may be read and written; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct HostMap {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: it is a range of addresses; nothing is read or written through it here but in `populate`, before the program
// or another thread knows the address.
unsafe impl Send for HostMap {}
// SAFETY: as above.
unsafe impl Sync for HostMap {}

impl HostMap {
    /// Maps the first `len` bytes of a memfd, which is at least as long.
    pub(crate) fn new(memfd: impl AsFd, len: usize) -> Result<Self, MemoryError> {
        let size = NonZeroUsize::new(len).ok_or(MemoryError::Size {
            what: "mapping size",
            value: 0,
        })?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses addresses that are free.
        let start = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, memfd, 0)? };
        Ok(Self { start, len })
    }

    /// Maps `len` bytes of memory that this process has for itself.
    pub(crate) fn private(len: usize) -> Result<Self, MemoryError> {
        let size = NonZeroUsize::new(len).ok_or(MemoryError::Size {
            what: "mapping size",
            value: 0,
        })?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: as in `new`.
        let start = unsafe { mmap_anonymous(None, size, access, MapFlags::MAP_PRIVATE)? };
        Ok(Self { start, len })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr().cast()
    }

    /// Writes to every page, so that none of the file is a hole; the bytes stay as they are.
    pub(crate) fn populate(&self) {
        // SAFETY: the mapping is this value's own, and the advice changes no byte.
        let done = unsafe { madvise(self.start, self.len, MmapAdvise::MADV_POPULATE_WRITE) };
        if done.is_ok() {
            return;
        }
        for page in (0..self.len).step_by(PAGE_BYTES) {
            let at = self.start().wrapping_add(page);
            // SAFETY: the byte lies in the mapping, and nobody else knows the address.
            unsafe { at.write_volatile(at.read_volatile()) };
        }
    }

    /// Moves the mapping to `address`, where nothing may be.
    pub(crate) fn move_to(&mut self, address: u64) -> Result<(), MemoryError> {
        let place = usize::try_from(address).ok().and_then(NonZeroUsize::new);
        let size = NonZeroUsize::new(self.len);
        let (Some(place), Some(size)) = (place, size) else {
            return Err(MemoryError::Size {
                what: "address",
                value: address,
            });
        };
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_FIXED_NOREPLACE;
        // SAFETY: the kernel refuses the addresses where something is.
        let reserved = unsafe { mmap_anonymous(Some(place), size, ProtFlags::PROT_NONE, flags)? };
        if reserved.addr() != place {
            // Before Linux 4.17 the flag is a hint.
            // SAFETY: it was just mapped, and nobody knows of it.
            unsafe { munmap(reserved, self.len)? };
            return Err(nix::errno::Errno::EEXIST.into());
        }
        // SAFETY: the addresses were reserved above, for this alone.
        if let Err(error) = unsafe { self.replace(reserved) } {
            // SAFETY: what was reserved is unused.
            unsafe { munmap(reserved, self.len)? };
            return Err(error);
        }
        Ok(())
    }

    /// Moves the mapping to `place`, and drops what is mapped there, as long as this is.
    ///
    /// # Safety
    /// The pages there may be replaced by these.
    pub(crate) unsafe fn replace(&mut self, place: NonNull<c_void>) -> Result<(), MemoryError> {
        let flags = MRemapFlags::MREMAP_MAYMOVE | MRemapFlags::MREMAP_FIXED;
        // SAFETY: the old pages are this value's, the new place is the caller's promise.
        self.start = unsafe { mremap(self.start, self.len, self.len, flags, Some(place))? };
        Ok(())
    }

    /// Leaves the pages where they are, for good.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for HostMap {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's own; whoever handed out their address promised that it ends with it.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}
