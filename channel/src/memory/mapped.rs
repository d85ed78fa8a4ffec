//! A tenant's memfd in our address space, for large copies: one pass, where
//! `pread` and `pwrite` cost two to three times as much.
//!
//! Rules: the mapping is shared with a hostile tenant, so no reference to its
//! bytes is ever made. Its length is sealed, so that an access within it never
//! leaves the file, and a memfd has no file system that could be full. Only a
//! file without holes is read or written through it: touching a hole would
//! take memory of ours, where `pread` reads zeroes. How many files are mapped
//! at once is bounded, because address space is; the others go the slow way.

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{Stat, fstat};
use std::fs::File;
use std::os::fd::AsRawFd;
// Not the shim's: a static, which loom's atomics cannot be.
use std::sync::atomic::{AtomicUsize, Ordering};

/// Copies from this length on go through a mapping, in bytes.
pub(super) const LEAST_BYTES: usize = 64 << 10;
/// The largest buffer that is mapped, in bytes.
const MOST_BYTES: u64 = 16 << 30;
/// Buffers that are mapped at once, in the whole process.
const MOST_MAPPED: usize = 1024;
/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// One buffer, mapped.
#[derive(Debug)]
pub(super) struct Mapped {
    map: MmapRaw,
    is_writable: bool,
    /// Counts it.
    _place: MappedCount,
}

/// One of the buffers that are mapped at once; counted until it is dropped.
#[derive(Debug)]
struct MappedCount;

impl MappedCount {
    fn take() -> Option<Self> {
        // relaxed: a counter that publishes nothing else.
        if MAPPED.fetch_add(1, Ordering::Relaxed) < MOST_MAPPED {
            return Some(Self);
        }
        // relaxed: as above.
        MAPPED.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for MappedCount {
    fn drop(&mut self) {
        // Relaxed: as above.
        MAPPED.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Mapped {
    /// Maps `size` bytes from `offset`, for writing too where the descriptor
    /// permits it; nothing where that cannot be.
    pub(super) fn new(file: &File, offset: u64, size: u64) -> Option<Self> {
        if size > MOST_BYTES {
            return None;
        }
        let place = MappedCount::take()?;
        let mut options = MmapOptions::new();
        options.offset(offset).len(usize::try_from(size).ok()?);
        let (map, is_writable) = match options.map_raw(file.as_raw_fd()) {
            Ok(map) => (map, true),
            Err(_) => (options.map_raw_read_only(file.as_raw_fd()).ok()?, false),
        };
        Some(Self {
            map,
            is_writable,
            _place: place,
        })
    }

    /// Copies bytes at `offset` into `out`, if they lie inside and the file has
    /// no holes; returns whether it did.
    pub(super) fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> bool {
        let Some(at) = self.place(offset, out.len()).filter(|_| has_no_holes(file)) else {
            return false;
        };
        // SAFETY: `place` found the bytes inside the mapping, which is as long as the file's sealed length
        // allows; `out` is memory of ours. The tenant may change the bytes meanwhile: then it gets what it wrote,
        // in some order.
        unsafe { std::ptr::copy_nonoverlapping(at.cast_const(), out.as_mut_ptr(), out.len()) };
        true
    }

    /// Copies `data` to `offset`, if it lies inside and the file can be written
    /// and has no holes; returns whether it did.
    pub(super) fn write(&self, file: &File, offset: u64, data: &[u8]) -> bool {
        let place = self.place(offset, data.len());
        let Some(at) = place.filter(|_| self.is_writable && has_no_holes(file)) else {
            return false;
        };
        // SAFETY: as in `read`; the mapping is writable.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), at, data.len()) };
        true
    }

    fn place(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(len)?;
        (end <= self.map.len()).then(|| self.map.as_mut_ptr().wrapping_add(offset))
    }
}

/// Returns whether a file has as many blocks as its length needs.
pub(super) fn is_whole(facts: &Stat) -> bool {
    bytes_of(facts) >= u64::try_from(facts.st_size).unwrap_or(0)
}

/// Returns the memory that a file has, in bytes.
pub(super) fn bytes_of(facts: &Stat) -> u64 {
    let blocks = u64::try_from(facts.st_blocks).unwrap_or(0);
    blocks.saturating_mul(BLOCK_BYTES)
}

fn has_no_holes(file: &File) -> bool {
    fstat(file).is_ok_and(|facts| is_whole(&facts))
}
