//! Memory of the program's own that kernels reach: its pages are replaced by those of a memfd with the same bytes, at
//! the same addresses, and the device has them at addresses of its own. Children made by `fork` have copies
//! ([`forked`]).
//!
//! Rules: only whole pages that belong to the memory alone are replaced, so that nobody else's bytes change their
//! place; and they are given back only where all of them are still those of the memfd, because a program may have
//! unmapped or protected them, or mapped something else there.

use crate::buffer::Buffer;
use crate::error::ClientError;
use crate::forked;
use crate::host_map::HostMap;
use crate::link::LinkRef;
use crate::pinned::Window;
use gridmux_channel::regions::PAGE_BYTES;
use std::ffi::c_void;
use std::ptr::NonNull;

/// Memory of the program's that kernels reach; when dropped it is the program's alone again, with what it holds then.
#[derive(Debug)]
pub struct Adopted {
    link: LinkRef,
    buffer: Buffer,
    start: NonNull<c_void>,
    /// The file behind the pages.
    file: FileId,
}

// SAFETY: the pointer is an address of memory that whoever made the value promised to leave there; it is used when the
// value is dropped, on one thread.
unsafe impl Send for Adopted {}
// SAFETY: as above.
unsafe impl Sync for Adopted {}

impl Adopted {
    /// Takes `bytes` bytes at `start`.
    ///
    /// # Safety
    /// Nobody else accesses the memory until this returns, nor while the value is dropped, and it stays mapped until
    /// then.
    pub(crate) unsafe fn new(
        link: &LinkRef,
        start: *mut u8,
        bytes: u64,
    ) -> Result<Self, ClientError> {
        let address = start.addr() as u64;
        let (Some(place), Some(end)) = (NonNull::new(start), address.checked_add(bytes)) else {
            return Err(ClientError::Unfit("it is nowhere in the process"));
        };
        if bytes == 0 || !(address | bytes).is_multiple_of(PAGE_BYTES) {
            return Err(ClientError::Unfit(
                "it must begin and end at a boundary of pages of 4096 bytes (aligned_alloc, mmap)",
            ));
        }
        if !is_private(address, end) {
            return Err(ClientError::Unfit(
                "it must be memory that the process has for itself and may write, of no file and no stack",
            ));
        }
        let (window, mut map) = Window::make(link, bytes, true)?;
        let buffer = window.for_kernels(bytes, false)?;
        buffer.nothing_uses_it();
        let len = usize::try_from(bytes).unwrap_or(0);
        let replaced = forked::with(|forked| {
            // SAFETY: the memory is there, in whole pages, and nobody changes it, as the caller promised; the map is as
            // long and new.
            unsafe { std::ptr::copy_nonoverlapping(start, map.start(), len) };
            // SAFETY: the pages belong to the memory alone, which the caller handed over, and hold the same bytes.
            unsafe { map.replace(place.cast())? };
            forked.add(place.cast(), len);
            let mut file = None;
            every_piece((address, end), |piece| {
                file = Some(piece.file);
                true
            });
            file.ok_or(ClientError::Unfit("it was unmapped meanwhile"))
        });
        let file = replaced.ok_or(ClientError::Unfit(
            "the process is a child of the one that has such memory",
        ))??;
        map.leave();
        Ok(Self {
            link: link.clone(),
            buffer,
            start: place.cast(),
            file,
        })
    }

    /// Returns whether all of its pages are still there, to be read and written.
    fn is_whole(&self) -> bool {
        let start = self.host_address();
        every_piece((start, start + self.buffer.bytes()), |piece| {
            piece.is_shared && piece.file == self.file
        })
    }

    /// Returns the address of its first byte in this process.
    #[must_use]
    pub fn host_address(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// Returns the device address of its first byte.
    #[must_use]
    pub fn device_address(&self) -> u64 {
        self.buffer.address()
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        let _ = self.link.drain();
        let len = usize::try_from(self.buffer.bytes()).unwrap_or(0);
        forked::with(|forked| {
            forked.remove(self.start);
            if !self.is_whole() {
                return;
            }
            // Where there is no memory for a copy the shared pages stay, which the program does not notice.
            let Ok(mut own) = HostMap::private(len) else {
                return;
            };
            let start: *const u8 = self.start.as_ptr().cast();
            // SAFETY: the pages are there, as was looked just now, and nobody changes them, as promised at the making;
            // the map is as long and new.
            unsafe { std::ptr::copy_nonoverlapping(start, own.start(), len) };
            // SAFETY: the pages are those that the making put there, as was looked, and the new ones hold the same
            // bytes.
            if unsafe { own.replace(self.start) }.is_ok() {
                own.leave();
            }
        });
    }
}

/// Returns whether the process has all of the addresses for itself, to read and write, and no file stands behind them.
fn is_private(start: u64, end: u64) -> bool {
    every_piece((start, end), |piece| piece.is_private)
}

/// Returns whether all of the addresses are mapped, and `is_so` is true of each mapping with some of them.
fn every_piece((start, end): (u64, u64), mut is_so: impl FnMut(Piece) -> bool) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut at = start;
    for line in maps.lines() {
        let Some(piece) = Piece::of(line) else {
            return false;
        };
        if piece.end <= at {
            continue;
        }
        if piece.start > at {
            return false;
        }
        at = piece.end;
        if !is_so(piece) {
            return false;
        }
        if at >= end {
            return true;
        }
    }
    false
}

/// A file by its device and inode, as `/proc/self/maps` has them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileId(String, u64);

/// A line of `/proc/self/maps`.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    start: u64,
    end: u64,
    /// The process has it for itself, to read and write, and no file stands behind it.
    is_private: bool,
    /// It may be read and written, and others see what is written.
    is_shared: bool,
    file: FileId,
}

impl Piece {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let access = words.next()?;
        let device = words.nth(1)?;
        let inode = words.next()?.parse().ok()?;
        let name = words.next().unwrap_or_default();
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            is_private: access == "rw-p" && inode == 0 && !name.starts_with("[stack"),
            is_shared: access == "rw-s",
            file: FileId(device.to_owned(), inode),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{FileId, Piece, is_private};

    #[test]
    fn memory_of_the_process_is_told_from_files_and_stacks() {
        let piece = |line| Piece::of(line).expect("a line of the kernel's");
        let heap = piece("55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0   [heap]");
        assert_eq!((heap.start, heap.end), (0x55d0_c0a0_0000, 0x55d0_c0a2_1000));
        assert!(heap.is_private && piece("7f00-7f10 rw-p 00000000 00:00 0 ").is_private);
        let shared = piece("7f00-7f10 rw-s 00000000 00:01 77 /memfd:gridmux (deleted)");
        assert!(shared.is_shared && shared.file == FileId("00:01".to_owned(), 77));
        for other in [
            "7f00-7f10 r--p 00000000 00:00 0",
            "7f00-7f10 rw-s 00000000 00:00 0",
            "7f00-7f10 rw-p 00000000 fd:01 77 /lib/libc.so",
            "7f00-7f10 rw-p 00000000 00:00 0 [stack]",
        ] {
            assert!(!piece(other).is_private, "{other}");
        }
        assert_eq!(Piece::of("nonsense"), None);
    }

    #[test]
    fn a_range_is_the_processs_own_only_where_every_page_is() {
        let own = vec![0_u8; 1 << 20];
        let start = own.as_ptr().addr() as u64;
        assert!(is_private(start, start + (1 << 20)));
        let on_stack = 0_u8;
        let stack = (&raw const on_stack).addr() as u64;
        assert!(!is_private(1, 4096) && !is_private(start, u64::MAX));
        let code = (is_private as *const ()).addr() as u64;
        assert!(!is_private(code, code + 1));
        assert!(!is_private(stack, u64::MAX));
    }
}
