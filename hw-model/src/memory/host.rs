//! Mappings of the process beside its windows: a file's pages on their way into a window, and physical memory.
//!
//! Linux lets a process have 65,530 mappings, and one that has used them up can do next to nothing. Rule: what tenants
//! can have many of holds [`Places`] as long as the host has it mapped, also while nobody reaches it any more. So
//! windows, stacks, copies' buffers and modules find the rest.

use super::{MemoryError, PAGE};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
// Not the shim's: a static, which loom's atomics cannot be.
use std::sync::atomic::{AtomicU64, Ordering};

/// Mappings of the process that ranges of files and physical memory may take together, in all domains.
pub const MOST_MAPPINGS: u64 = 48 << 10;

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Mappings of the process; they count until it is dropped.
#[derive(Debug)]
pub(super) struct Places(u64);

impl Places {
    pub(super) fn take(count: u64) -> Result<Self, MemoryError> {
        let most = MOST_MAPPINGS;
        let taken = take_from(&TAKEN, most, count).then_some(Self(count));
        taken.ok_or(MemoryError::Mappings { most })
    }
}

/// Adds to a count, unless it would be more than `most`; returns whether it did.
fn take_from(taken: &AtomicU64, most: u64, count: u64) -> bool {
    let add = |taken: u64| Some(taken + count).filter(|sum| *sum <= most);
    // Relaxed: a count that publishes nothing else.
    let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
    taken.fetch_update(set, read, add).is_ok()
}

impl Drop for Places {
    fn drop(&mut self) {
        // Relaxed: as in `take_from`.
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Pages at addresses that the host chose; they are unmapped when it is dropped.
#[derive(Debug)]
pub(super) struct HostRange {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns a mapping of the process, which any thread may use; nothing is reached through a shared reference.
unsafe impl Send for HostRange {}
// SAFETY: as above.
unsafe impl Sync for HostRange {}

impl HostRange {
    /// Maps memory that a second mapping can show as well, zeroed.
    pub(super) fn memory(bytes: u64) -> Result<Self, MemoryError> {
        Self::new(bytes, libc::MAP_ANONYMOUS, -1, 0)
    }

    fn new(bytes: u64, flags: i32, fd: i32, offset: i64) -> Result<Self, MemoryError> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: without MAP_FIXED the kernel chooses addresses at which nothing is mapped.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(host_error(bytes));
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| host_error(bytes))?;
        Ok(Self { start, length })
    }

    /// Maps `length` of its bytes, whole pages from `offset` on, at another place as well.
    ///
    /// # Safety
    /// The target must be whole pages of a window, whose domain the caller has for itself, and hold nothing that is
    /// still needed. Where it fails nothing may be mapped there any more.
    pub(super) unsafe fn show_at(
        &self,
        offset: usize,
        length: usize,
        place: *mut u8,
    ) -> Result<(), MemoryError> {
        let source = self.start.as_ptr().wrapping_add(offset);
        // SAFETY: the source lies inside this shared mapping; an old size of zero makes a second mapping of its pages
        // (mremap(2)). The target is the caller's.
        unsafe { remap(source, 0, length, place) }
    }
}

impl Drop for HostRange {
    fn drop(&mut self) {
        if self.length != 0 {
            // SAFETY: the pages are this value's own; what shows them elsewhere is another mapping.
            let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

/// Pages of a file, mapped where the host had room for them, until they take their places in a window.
#[derive(Debug)]
pub struct FilePages {
    range: HostRange,
    /// What the range of the window holds once the first page stands there.
    pub(super) places: Option<Places>,
}

impl FilePages {
    /// Maps `bytes` bytes of a file, from `offset` on, in whole pages. Nothing is read or written.
    ///
    /// # Errors
    /// [`MemoryError::ZeroBytes`]; [`MemoryError::Mappings`]; [`MemoryError::Host`]: the file cannot be mapped for
    /// reading and writing.
    pub fn map(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<Self, MemoryError> {
        let whole = bytes.checked_next_multiple_of(PAGE).unwrap_or(0);
        if whole == 0 {
            return Err(MemoryError::ZeroBytes);
        }
        // In a window it divides a mapping in three.
        let places = Some(Places::take(2)?);
        let range = HostRange::new(whole, 0, file.as_raw_fd(), offset.cast_signed())?;
        Ok(Self { range, places })
    }

    /// Returns how many bytes of it stand in no window yet, whole pages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.range.length as u64
    }

    /// Returns where its first byte stands.
    pub(super) fn start(&self) -> *mut u8 {
        self.range.start.as_ptr()
    }

    /// Moves its first `length` bytes, whole pages, to a place of a window.
    ///
    /// # Safety
    /// As [`HostRange::show_at`]; `length` must not be more than there is.
    pub(super) unsafe fn move_front(
        &mut self,
        length: usize,
        place: *mut u8,
    ) -> Result<(), MemoryError> {
        let range = &mut self.range;
        let (start, rest) = (range.start, range.length - length);
        // SAFETY: the source is the front of this value's own mapping, which it has no more afterwards; the target is
        // the caller's.
        unsafe { remap(start.as_ptr(), length, length, place)? };
        // SAFETY: the result is at most one past the end of the mapping.
        range.start = unsafe { start.add(length) };
        range.length = rest;
        Ok(())
    }
}

/// Moves a mapping to a place, or with an old length of zero shows it there as well.
///
/// # Safety
/// As mremap(2) with MREMAP_FIXED: what is mapped at the target goes.
unsafe fn remap(
    source: *mut u8,
    old_length: usize,
    length: usize,
    place: *mut u8,
) -> Result<(), MemoryError> {
    // SAFETY: the caller answers for source and target.
    let mapped = unsafe {
        libc::mremap(
            source.cast(),
            old_length,
            length,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            place.cast::<libc::c_void>(),
        )
    };
    match mapped == libc::MAP_FAILED {
        true => Err(host_error(length as u64)),
        false => Ok(()),
    }
}

/// Returns why the host refused a mapping just now.
pub(super) fn host_error(bytes: u64) -> MemoryError {
    MemoryError::Host {
        bytes,
        reason: std::io::Error::last_os_error().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{AtomicU64, Places, take_from};

    #[test]
    fn no_more_mappings_are_taken_than_there_are() {
        let taken = AtomicU64::new(0);
        assert!(take_from(&taken, 10, 8) && !take_from(&taken, 10, 3));
        assert!(take_from(&taken, 10, 2) && !take_from(&taken, 10, 1));
        assert!(Places::take(2).is_ok());
    }
}
