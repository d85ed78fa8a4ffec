//! The dispatcher's end: one launch's latencies into the sample ring, without a system call.
//!
//! The process needs no privilege: it receives the map's file descriptor from the supervisor and maps it. It maps
//! only what a producer may touch; the kernel allows the consumer's position to be read and not written.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::layout::{KINDS, RING_BYTES, RawSample};
use crate::ring::{Producer, RECORD_BYTES, Record, Shared};
use crate::sync::AtomicU64;

/// One finished launch. A latency that is not known is left out; all are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The tenant, as the dispatcher numbers it.
    pub tenant: u32,
    /// The device.
    pub device: u16,
    /// On the device's clock, from submission to the first block's start.
    pub submit_to_start_ns: Option<u64>,
    /// On the device's clock, from submission to the end of the last block.
    pub submit_to_complete_ns: Option<u64>,
    /// In wall time, from submission to the hand-over to the device.
    pub wall_submit_to_start_ns: Option<u64>,
}

impl Sample {
    #[inline]
    fn to_raw(self) -> RawSample {
        // In the order of `Kind`.
        let fields: [Option<u64>; KINDS] = [
            self.submit_to_start_ns,
            self.submit_to_complete_ns,
            self.wall_submit_to_start_ns,
        ];
        let mut raw = RawSample {
            tenant: self.tenant,
            device: self.device,
            ..RawSample::default()
        };
        for (kind, field) in fields.into_iter().enumerate() {
            raw.present |= u16::from(field.is_some()) << kind;
            raw.latency_ns[kind] = field.unwrap_or(0);
        }
        raw
    }
}

/// The one producer of an instance's samples.
#[derive(Debug)]
pub struct Recorder {
    ring: Producer<MappedRing>,
}

impl Recorder {
    /// Maps the ring behind a descriptor that `LatencyProgram::producer_fd` gave.
    ///
    /// At most one recorder of a ring may exist, in whatever process. The descriptor is closed; the mapping lives on.
    ///
    /// # Errors
    /// The kernel's error when the descriptor is no sample ring, and `InvalidData` when its positions make no
    /// sense (an earlier producer was hostile; the supervisor has to load a new program).
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let ring = Producer::new(MappedRing::map(&fd)?, RING_BYTES as u64);
        if ring.pending() > RING_BYTES as u64 / RECORD_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the sample ring's positions make no sense",
            ));
        }
        Ok(Self { ring })
    }

    /// Hands a sample to the kernel's program; `false` when the ring is full and the sample was dropped.
    #[inline]
    pub fn record(&mut self, sample: &Sample) -> bool {
        self.ring.push(sample.to_raw())
    }

    /// Samples dropped by this recorder; the program's statistics learn of them with the next that finds room.
    pub fn dropped(&self) -> u64 {
        self.ring.dropped()
    }

    /// Samples that the program has not taken yet.
    pub fn pending(&self) -> u64 {
        self.ring.pending()
    }
}

/// The ring as the kernel maps it: the consumer's page, the producer's page, and the data twice in a row, so that a
/// record that wraps around is contiguous.
#[derive(Debug)]
struct MappedRing {
    consumer: Mapping,
    producer: Mapping,
    page_bytes: usize,
}

impl MappedRing {
    fn map(fd: &OwnedFd) -> io::Result<Self> {
        // SAFETY: sysconf only reads.
        let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
            .map_err(io::Error::other)?;
        let consumer = Mapping::new(fd, page_bytes, libc::PROT_READ, 0)?;
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let producer = Mapping::new(fd, page_bytes + 2 * RING_BYTES, writable, page_bytes)?;
        Ok(Self {
            consumer,
            producer,
            page_bytes,
        })
    }
}

impl Shared for MappedRing {
    #[inline]
    fn consumer(&self) -> &AtomicU64 {
        // SAFETY: a mapped page, aligned, alive as long as `self`; all sides access the word atomically.
        unsafe { &*self.consumer.start.cast::<AtomicU64>() }
    }

    #[inline]
    fn producer(&self) -> &AtomicU64 {
        // SAFETY: as for the consumer.
        unsafe { &*self.producer.start.cast::<AtomicU64>() }
    }

    #[inline]
    fn store(&self, position: u64, record: Record) {
        #[allow(clippy::cast_possible_truncation)] // Masked to the ring's size.
        let offset = (position & (RING_BYTES as u64 - 1)) as usize & !7;
        // SAFETY: offset + size of a record < 2 * RING_BYTES, which are mapped behind the first page; the place is
        // aligned to 8, and the protocol keeps the kernel away from it until the position is published.
        unsafe {
            self.producer
                .start
                .add(self.page_bytes + offset)
                .cast::<Record>()
                .write(record)
        }
    }
}

/// A shared mapping that is undone on drop.
#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the memory belongs to the process, not to a thread; access is governed by `Producer`, which needs `&mut`.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: &OwnedFd, bytes: usize, protection: libc::c_int, offset: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // Populated now, so that recording never faults.
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses the place; nothing of ours is replaced.
        let start = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                bytes,
                protection,
                flags,
                fd.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: start.cast(),
            bytes,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

const _: () = assert!(RING_BYTES.is_power_of_two() && size_of::<Record>() as u64 == RECORD_BYTES);
