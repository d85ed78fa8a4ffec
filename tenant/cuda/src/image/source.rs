//! Where an image is read from: bytes whose end is known, or memory of the process whose end only the image knows.
//!
//! Rule: a read that goes beyond the end gives nothing. For memory of the process the kernel checks that
//! ([`address::look`]), so that an image with wrong lengths cannot end the program; where the system forbids that
//! check, as a sandbox may, the lengths are believed.

use super::MAX_UNPACKED_BYTES;
use crate::address;
use std::ffi::c_void;

/// Bytes of memory that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;

/// Something that an image is read from.
pub trait Source {
    /// Appends the `len` bytes at `offset`; `None` where there are fewer, or they are more than a limit.
    fn append(&self, offset: u64, len: u64, into: &mut Vec<u8>) -> Option<()>;

    /// Returns the bytes from the start up to the first zero, without it, or up to a known end.
    fn text(&self) -> Option<Vec<u8>>;

    /// Returns the `len` bytes at `offset`.
    fn read(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.append(offset, len, &mut bytes)?;
        Some(bytes)
    }

    /// Returns the `N` bytes at `offset`.
    fn read_array<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.read(offset, N as u64)?.try_into().ok()
    }
}

impl Source for [u8] {
    fn append(&self, offset: u64, len: u64, into: &mut Vec<u8>) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        into.extend_from_slice(self.get(start..end)?);
        Some(())
    }

    fn text(&self) -> Option<Vec<u8>> {
        let end = self.iter().position(|&byte| byte == 0);
        Some(self[..end.unwrap_or(self.len())].to_vec())
    }
}

/// Memory of this process from an address on.
#[derive(Debug, Clone, Copy)]
pub struct ProcessMemory {
    start: usize,
}

impl ProcessMemory {
    /// Takes the memory at a pointer for an image.
    ///
    /// # Safety
    /// Nobody writes the image while it is read, and all that its lengths say belongs to it: where the kernel cannot be
    /// asked to check them, they are believed.
    pub unsafe fn at(start: *const c_void) -> Self {
        Self {
            start: start.expose_provenance(),
        }
    }

    /// Copies what is mapped of the bytes at `address`; returns how many these were.
    fn copy(address: usize, into: &mut [u8]) -> usize {
        address::look(address as u64, into).unwrap_or_else(|| {
            let source: *const u8 = std::ptr::with_exposed_provenance(address);
            // SAFETY: the system does not let the process look, so the image's own lengths are believed, which the
            // caller of `at` promised to be right. The target is a slice of this library's, which is no part of an
            // image.
            unsafe { std::ptr::copy_nonoverlapping(source, into.as_mut_ptr(), into.len()) };
            into.len()
        })
    }
}

impl Source for ProcessMemory {
    fn append(&self, offset: u64, len: u64, into: &mut Vec<u8>) -> Option<()> {
        if len > MAX_UNPACKED_BYTES {
            return None;
        }
        let mut at = self.start.checked_add(usize::try_from(offset).ok()?)?;
        let mut rest = usize::try_from(len).ok()?;
        at.checked_add(rest)?;
        while rest > 0 {
            let step = rest.min(CHUNK_BYTES);
            let filled = into.len();
            into.resize(filled + step, 0);
            if Self::copy(at, &mut into[filled..]) != step {
                return None;
            }
            (at, rest) = (at + step, rest - step);
        }
        Some(())
    }

    fn text(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut at = self.start;
        while (text.len() as u64) < MAX_UNPACKED_BYTES {
            // A page at a time, because the next one need not be there.
            let mut page = [0; PAGE_BYTES];
            let step = PAGE_BYTES - at % PAGE_BYTES;
            if Self::copy(at, &mut page[..step]) != step {
                return None;
            }
            let found = page[..step].iter().position(|&byte| byte == 0);
            text.extend_from_slice(&page[..found.unwrap_or(step)]);
            if found.is_some() {
                return Some(text);
            }
            at = at.checked_add(step)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{ProcessMemory, Source};

    #[test]
    fn memory_that_is_not_mapped_is_no_image() {
        let size = 2 * super::PAGE_BYTES;
        // SAFETY: a fresh mapping, which nobody else knows.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the second page of the mapping, which is given back; the first one is written.
        unsafe {
            assert_eq!(
                libc::munmap(start.byte_add(super::PAGE_BYTES), super::PAGE_BYTES),
                0
            );
            start.cast::<u8>().write_bytes(b'x', super::PAGE_BYTES);
        }
        // SAFETY: the page is ours, and the test is about what stands behind it.
        let memory = unsafe { ProcessMemory::at(start) };
        assert_eq!(memory.text(), None, "a text without an end");
        assert_eq!(memory.read(0, size as u64), None);
        assert_eq!(memory.read(4000, 96).map(|b| b.len()), Some(96));
        assert_eq!(memory.read(u64::MAX, 1), None);
        assert_eq!(memory.read(0, u64::MAX), None);
        // SAFETY: the first page is mapped and writable.
        unsafe { start.cast::<u8>().add(4095).write(0) };
        assert_eq!(memory.text().map(|text| text.len()), Some(4095));
        // SAFETY: nobody uses the page any more.
        unsafe { libc::munmap(start, super::PAGE_BYTES) };
    }
}
