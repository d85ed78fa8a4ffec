//! Host memory that the device copies to and from without staging: a sealed
//! memfd that stays mapped for DMA as long as it lives.

use crate::error::ClientError;
use crate::link::LinkRef;
use gridmux_channel::memory::{MemoryError, Protection, SealedMemfd};
use gridmux_channel::regions::PAGE_BYTES;
use memmap2::{MmapOptions, MmapRaw};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The address at which pinned memory begins in the DMA space.
const FIRST_IOVA: u64 = 1 << 41;
/// The end of the DMA space for it. Addresses are not used again.
const LAST_IOVA: u64 = 1 << 62;
/// A copy is submitted in pieces of this many bytes, so that it yields to others.
const PIECE_BYTES: u64 = 4 << 20;

/// Host memory of this process that is mapped for the device. When dropped it is unmapped, behind everything that was
/// submitted.
#[derive(Debug)]
pub struct Pinned {
    link: LinkRef,
    map: MmapRaw,
    iova: u64,
    bytes: u64,
    mapped_bytes: u64,
}

impl Pinned {
    pub(crate) fn new(link: &LinkRef, bytes: u64) -> Result<Self, ClientError> {
        static NEXT: AtomicU64 = AtomicU64::new(FIRST_IOVA);
        let size_error = || MemoryError::Size {
            what: "pinned memory",
            value: bytes,
        };
        let mapped_bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let mapped_bytes = mapped_bytes.ok_or_else(size_error)?;
        let memfd = SealedMemfd::create("gridmux-pinned", mapped_bytes)?;
        // Pinned memory is there, and without holes copies from it go at full speed.
        memfd.fill_holes()?;
        let len = usize::try_from(mapped_bytes).map_err(|_| size_error())?;
        let map = MmapOptions::new()
            .len(len)
            .map_raw(memfd.as_fd().as_raw_fd())
            .map_err(MemoryError::from)?;
        // Relaxed: the number is all that counts.
        let iova = NEXT.fetch_add(mapped_bytes, Ordering::Relaxed);
        if iova > LAST_IOVA {
            return Err(size_error().into());
        }
        let both = Protection::READ_WRITE;
        link.with_session(|session| {
            Ok(session.dma_map(iova, mapped_bytes, 0, both, memfd.as_fd())?)
        })?;
        Ok(Self {
            link: link.clone(),
            map,
            iova,
            bytes,
            mapped_bytes,
        })
    }

    /// Returns the first byte's address in this process.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns where `len` bytes at `offset` stand in the DMA space of `link`.
    pub(crate) fn iova(&self, link: &LinkRef, offset: u64, len: u64) -> Result<u64, ClientError> {
        if !Arc::ptr_eq(link, &self.link) {
            return Err(ClientError::Foreign("pinned memory"));
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(self.iova + offset),
            _ => Err(ClientError::OutOfBounds {
                offset,
                len,
                size: self.bytes,
            }),
        }
    }

    /// Returns start and length of the pieces in which `len` bytes are copied.
    pub(crate) fn pieces(len: u64) -> impl Iterator<Item = (u64, u64)> {
        (0..len.div_ceil(PIECE_BYTES)).map(move |i| {
            let start = i * PIECE_BYTES;
            (start, PIECE_BYTES.min(len - start))
        })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The mediator looks a copy's place up when it admits the copy, which may lie in the ring still. On a lost
        // connection it has forgotten the mapping already.
        if self.link.drain().is_ok() {
            let unmapped = self
                .link
                .with_session(|session| Ok(session.dma_unmap(self.iova, self.mapped_bytes)?));
            let _ = unmapped;
        }
    }
}
