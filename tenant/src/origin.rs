//! Which process made the connection: a child made by `fork` shares the rings
//! and the socket with its parent and must touch neither.
//!
//! The process id is kept in a page that the kernel empties in a child
//! (`MADV_WIPEONFORK`, `madvise(2)`, Linux 4.14), so that the check in front of
//! every operation is a load and no system call, and holds for `clone` as well.

use crate::error::ClientError;
use memmap2::{MmapOptions, MmapRaw};
use std::io;

const PAGE_BYTES: usize = 4096;

/// The process that connected. A library that is loaded into programs of others keeps one of its own to see that it
/// runs in a child, before it takes any lock.
#[derive(Debug)]
pub struct Origin {
    process: u32,
    page: MmapRaw,
}

impl Origin {
    /// Remembers the calling process.
    ///
    /// # Errors
    /// Out of memory, or a kernel that does not know `MADV_WIPEONFORK`.
    pub fn here() -> io::Result<Self> {
        let page: MmapRaw = MmapOptions::new().len(PAGE_BYTES).map_anon()?.into();
        let process = std::process::id();
        // SAFETY: the page was just mapped, is private and anonymous, and nothing else refers to it; both calls stay
        // inside it.
        let advised = unsafe {
            page.as_mut_ptr().cast::<u32>().write(process);
            libc::madvise(page.as_mut_ptr().cast(), PAGE_BYTES, libc::MADV_WIPEONFORK)
        };
        if advised != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { process, page })
    }

    /// Succeeds in the process that connected.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a child of it.
    #[inline]
    pub fn check(&self) -> Result<(), ClientError> {
        // SAFETY: the page lives as long as `self` and is aligned; after `here` nobody in this process writes it.
        // Volatile, because the kernel empties it behind the compiler's back.
        let here = unsafe { self.page.as_ptr().cast::<u32>().read_volatile() };
        if here == self.process {
            return Ok(());
        }
        Err(ClientError::Forked {
            process: self.process,
        })
    }
}
