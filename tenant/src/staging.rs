//! Staging memory: a sealed memfd that the mediator may read and write, cut
//! into chunks through which copies pass.
//!
//! Small chunks serve the many small copies, large ones keep a big copy
//! streaming. A chunk belongs to one submission until its completion.

use crate::error::ClientError;
use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::session::Session;
use memmap2::{MmapOptions, MmapRaw};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

/// The address of the staging memory in the DMA space.
const STAGING_IOVA: u64 = 1 << 32;
const SMALL_BYTES: usize = 16 << 10;
const SMALL_COUNT: usize = 64;
const LARGE_BYTES: usize = 1 << 20;
const LARGE_COUNT: usize = 8;
const TOTAL_BYTES: usize = SMALL_BYTES * SMALL_COUNT + LARGE_BYTES * LARGE_COUNT;

/// A piece of the staging memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    offset: usize,
    capacity: usize,
}

impl Chunk {
    pub(crate) fn iova(self) -> u64 {
        STAGING_IOVA + self.offset as u64
    }

    pub(crate) fn capacity(self) -> usize {
        self.capacity
    }
}

/// The staging memory of a connection.
#[derive(Debug)]
pub(crate) struct Staging {
    map: MmapRaw,
    memfd: SealedMemfd,
    /// Whether all of it has memory.
    is_whole: OnceLock<()>,
}

/// The chunks that are free.
#[derive(Debug)]
pub(crate) struct Chunks {
    small: Vec<Chunk>,
    large: Vec<Chunk>,
}

impl Staging {
    /// Makes the memory and maps it for the device.
    pub(crate) fn new(session: &mut Session) -> Result<Self, ClientError> {
        let memfd = SealedMemfd::create("gridmux-staging", TOTAL_BYTES as u64)?;
        let both = Protection::READ_WRITE;
        session.dma_map(STAGING_IOVA, TOTAL_BYTES as u64, 0, both, memfd.as_fd())?;
        let map = MmapOptions::new()
            .len(TOTAL_BYTES)
            .map_raw(memfd.as_fd().as_raw_fd())
            .map_err(gridmux_channel::memory::MemoryError::from)?;
        // The mediator does not like to fill holes; without this memory small copies cost more, and are no less right.
        let _ = memfd.fill(SMALL_BYTES as u64 * SMALL_COUNT as u64);
        Ok(Self {
            map,
            memfd,
            is_whole: OnceLock::new(),
        })
    }

    /// Sees to it that large copies go at full speed: the mediator reads and
    /// writes a memfd without holes as memory. The first large copy pays.
    pub(crate) fn make_ready(&self, chunk: Chunk) {
        if chunk.capacity == LARGE_BYTES {
            // Without memory for all of it copies are slower, and no less right.
            self.is_whole.get_or_init(|| drop(self.memfd.fill_holes()));
        }
    }

    /// Copies `data`, which fits, into a chunk that the caller took.
    pub(crate) fn write(&self, chunk: Chunk, data: &[u8]) {
        assert!(data.len() <= chunk.capacity);
        // SAFETY: the chunk lies within the mapping, which is sealed against
        // shrinking; until the submission the device does not use it, and
        // only its holder, who took it out of `Chunks`, refers to it.
        unsafe {
            let place = self.map.as_mut_ptr().add(chunk.offset);
            std::ptr::copy_nonoverlapping(data.as_ptr(), place, data.len());
        }
    }

    /// Copies from a chunk whose submission has ended.
    pub(crate) fn read(&self, chunk: Chunk, out: &mut [u8]) {
        assert!(out.len() <= chunk.capacity);
        // SAFETY: as in `write`; the device is done with the chunk.
        unsafe {
            let place = self.map.as_ptr().add(chunk.offset);
            std::ptr::copy_nonoverlapping(place, out.as_mut_ptr(), out.len());
        }
    }
}

impl Default for Chunks {
    /// Returns all of them.
    fn default() -> Self {
        let chunks = |start: usize, capacity: usize, count: usize| {
            (0..count)
                .rev()
                .map(|i| Chunk {
                    offset: start + i * capacity,
                    capacity,
                })
                .collect()
        };
        Self {
            small: chunks(0, SMALL_BYTES, SMALL_COUNT),
            large: chunks(SMALL_BYTES * SMALL_COUNT, LARGE_BYTES, LARGE_COUNT),
        }
    }
}

impl Chunks {
    /// Takes a free chunk for a copy of which `len` bytes remain.
    pub(crate) fn take(&mut self, len: usize) -> Option<Chunk> {
        if len <= SMALL_BYTES {
            self.small.pop()
        } else {
            self.large.pop()
        }
    }

    /// Gives a chunk back.
    pub(crate) fn give(&mut self, chunk: Chunk) {
        let list = if chunk.capacity == SMALL_BYTES {
            &mut self.small
        } else {
            &mut self.large
        };
        list.push(chunk);
    }
}
