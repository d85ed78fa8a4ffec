//! The mapping of a ring memory and typed views of its parts.
//!
//! Every access goes through an atomic: the memory is shared with a process
//! that may write any byte of it at any time.

use super::layout::{
    LINE_BYTES, Line, MAGIC, RELEASE_STREAMS, RELEASES_OFFSET, RingLayout, VERSION,
};
use super::queue::Queue;
use super::{RingError, layout::LayoutError};
use gridmux_sync::shim::{AtomicU32, AtomicU64, Ordering};
use memmap2::{MmapOptions, MmapRaw};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A mapped ring memory; it lives as long as this value.
#[derive(Debug)]
pub(crate) struct RingMap {
    map: MmapRaw,
    layout: RingLayout,
}

impl RingMap {
    /// Maps `memfd`, which must be sealed against shrinking and at least
    /// `layout.total_bytes()` long: otherwise a later access could fault.
    pub(crate) fn new(memfd: BorrowedFd<'_>, layout: RingLayout) -> Result<Self, RingError> {
        let map = MmapOptions::new()
            .len(layout.total_bytes())
            .map_raw(memfd.as_raw_fd())?;
        Ok(Self { map, layout })
    }

    /// Maps a memory that describes itself, `bytes` long.
    pub(crate) fn from_header(memfd: BorrowedFd<'_>, bytes: usize) -> Result<Self, RingError> {
        let smallest = RingLayout::new(1, 1, 4096)?;
        if bytes < smallest.total_bytes() {
            return Err(LayoutError::Magic.into());
        }
        let header = Self::new(memfd, smallest)?;
        // relaxed: the host wrote the header before it sent the descriptor, and what a hostile one writes is checked.
        if header.header64(0).load(Ordering::Relaxed) != MAGIC {
            return Err(LayoutError::Magic.into());
        }
        // relaxed: as above.
        let word = |i| header.header32(i).load(Ordering::Relaxed);
        let (version, submissions, completions, args) = (word(2), word(3), word(4), word(5));
        if version != VERSION {
            return Err(LayoutError::Version(version).into());
        }
        let layout = RingLayout::new(submissions, completions, args)?;
        if layout.total_bytes() > bytes {
            return Err(LayoutError::Magic.into());
        }
        Self::new(memfd, layout)
    }

    /// Writes the header that [`RingMap::from_header`] reads.
    pub(crate) fn write_header(&self, membarrier: bool) {
        let words = [
            VERSION,
            self.layout.submission_entries(),
            self.layout.completion_entries(),
            self.layout.args_bytes(),
            u32::from(membarrier),
        ];
        for (i, word) in words.into_iter().enumerate() {
            // relaxed: the tenant gets the descriptor over the socket afterwards.
            self.header32(i + 2).store(word, Ordering::Relaxed);
        }
        // relaxed: as above.
        self.header64(0).store(MAGIC, Ordering::Relaxed);
    }

    /// Returns whether the mediator said that it runs the barrier of all processes.
    pub(crate) fn host_runs_membarrier(&self) -> bool {
        // relaxed: written before the descriptor was sent, and never again.
        self.header32(6).load(Ordering::Relaxed) == 1
    }

    pub(crate) fn layout(&self) -> &RingLayout {
        &self.layout
    }

    fn header64(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < LINE_BYTES / 8);
        // SAFETY: the mapping is page aligned and at least a page long, and it
        // lives as long as `self`; atomics may be shared with other processes.
        unsafe { &*self.map.as_mut_ptr().cast::<AtomicU64>().add(index) }
    }

    fn header32(&self, index: usize) -> &AtomicU32 {
        debug_assert!(index < LINE_BYTES / 4);
        // SAFETY: as in `header64`.
        unsafe { &*self.map.as_mut_ptr().cast::<AtomicU32>().add(index) }
    }

    #[inline]
    pub(crate) fn word(&self, line: Line) -> &AtomicU32 {
        // SAFETY: every line lies in the first page (6 * 128 + 8 <= 4096), the
        // offset is a multiple of 128, and the mapping lives as long as `self`.
        unsafe {
            &*self
                .map
                .as_mut_ptr()
                .add(line as usize * LINE_BYTES)
                .cast::<AtomicU32>()
        }
    }

    #[inline]
    pub(crate) fn tenant_state(&self) -> &AtomicU64 {
        let offset = Line::TenantState as usize * LINE_BYTES;
        // SAFETY: as in `word`.
        unsafe { &*self.map.as_mut_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Returns how many holds of each stream the tenant has released.
    #[inline]
    pub(crate) fn releases(&self) -> &[AtomicU64] {
        // SAFETY: that many words stand at this 8-aligned offset of the first page, inside the mapping.
        unsafe { self.slice(RELEASES_OFFSET, RELEASE_STREAMS.into()) }
    }

    #[inline]
    pub(crate) fn submissions(&self) -> Queue<'_, 8, 7> {
        Queue {
            head: self.word(Line::SubmissionHead),
            // SAFETY: the layout places this many entries of 64 bytes at this
            // page-aligned offset inside the mapping.
            slots: unsafe {
                self.slice(
                    self.layout.submissions_offset(),
                    self.layout.submission_entries() as usize,
                )
            },
        }
    }

    #[inline]
    pub(crate) fn completions(&self) -> Queue<'_, 4, 1> {
        Queue {
            head: self.word(Line::CompletionHead),
            // SAFETY: the layout places this many entries of 32 bytes at this
            // page-aligned offset inside the mapping.
            slots: unsafe {
                self.slice(
                    self.layout.completions_offset(),
                    self.layout.completion_entries() as usize,
                )
            },
        }
    }

    /// Returns the argument area as words.
    #[inline]
    pub(crate) fn args(&self) -> &[AtomicU64] {
        // SAFETY: the layout places this many bytes, a multiple of 4096, at
        // this page-aligned offset inside the mapping.
        unsafe {
            self.slice(
                self.layout.args_offset(),
                self.layout.args_bytes() as usize / 8,
            )
        }
    }

    /// # Safety
    /// `count` values of `T`, which must be made of atomics alone, fit into
    /// the mapping at `offset`, which is aligned for them.
    #[inline]
    unsafe fn slice<T>(&self, offset: usize, count: usize) -> &[T] {
        // SAFETY: promised by the caller; the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().add(offset).cast(), count) }
    }
}
