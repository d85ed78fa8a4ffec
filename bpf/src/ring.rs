//! The producer's half of the kernel's user ring buffer (`BPF_MAP_TYPE_USER_RINGBUF`).
//!
//! Protocol (kernel/bpf/ringbuf.c, `__bpf_user_ringbuf_peek`): a record is an 8-byte header (length, then zero) and
//! its data, rounded up to 8 bytes, at the producer's position modulo the ring's size; positions only grow. The
//! kernel reads up to the producer's position and then moves the consumer's.
//!
//! Rules: one producer; a record is complete before the position that covers it is published, so that the busy bit
//! is never needed; nothing blocks, and a full ring drops the record and counts it.
//!
//! Invariant (explored by `tests/loom_ring.rs`): the consumer sees every record that was accepted, once, in order
//! and complete; a record is never overwritten before it was consumed.

use crate::layout::RawSample;
use crate::sync::{AtomicU64, Ordering};

/// Bytes that one record takes in the ring.
pub const RECORD_BYTES: u64 = 8 + size_of::<RawSample>() as u64;

/// A sample with its header, as it stands in the ring.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// Bytes of data that follow; bits 30 and 31 would mean "discard" and "busy".
    pub length: u32,
    /// Zero.
    pub zero: u32,
    /// The data.
    pub sample: RawSample,
}

/// Memory shared with the consumer.
pub trait Shared {
    /// Position up to which the consumer is done.
    fn consumer(&self) -> &AtomicU64;
    /// Position up to which records are complete.
    fn producer(&self) -> &AtomicU64;
    /// Stores a record at a position modulo the ring's size. No one else touches that place meanwhile.
    fn store(&self, position: u64, record: Record);
}

/// The one producer of a ring.
#[derive(Debug)]
pub struct Producer<S> {
    shared: S,
    ring_bytes: u64,
    position: u64,
    /// The consumer's position when last looked at: its cache line is read only when the ring seems full.
    consumed: u64,
    dropped: u64,
    /// Drops that no record has told yet.
    untold: u32,
}

impl<S: Shared> Producer<S> {
    /// Takes a ring of `ring_bytes` data bytes over where the last producer left it.
    pub fn new(shared: S, ring_bytes: u64) -> Self {
        // Relaxed: the last producer is this process or one that has ended, and nobody else writes it.
        let position = shared.producer().load(Ordering::Relaxed);
        // Acquire: pairs with the kernel's release of the consumer's position; what lies before is free again.
        let consumed = shared.consumer().load(Ordering::Acquire);
        Self {
            shared,
            ring_bytes,
            position,
            consumed,
            dropped: 0,
            untold: 0,
        }
    }

    /// Appends a sample; `false` when the ring is full, which is counted and told with the next that finds room.
    #[inline]
    pub fn push(&mut self, mut sample: RawSample) -> bool {
        if self.free_bytes() < RECORD_BYTES {
            // Acquire: pairs with the kernel's release store after it has read a record; only then is it ours again.
            self.consumed = self.shared.consumer().load(Ordering::Acquire);
            if self.free_bytes() < RECORD_BYTES {
                self.dropped += 1;
                self.untold = self.untold.saturating_add(1);
                return false;
            }
        }
        sample.lost_before = core::mem::take(&mut self.untold);
        #[allow(clippy::cast_possible_truncation)] // 48.
        let length = size_of::<RawSample>() as u32;
        self.shared.store(
            self.position,
            Record {
                length,
                zero: 0,
                sample,
            },
        );
        self.position = self.position.wrapping_add(RECORD_BYTES);
        // Release: pairs with the kernel's acquire load of the producer's position; the record is complete.
        self.shared
            .producer()
            .store(self.position, Ordering::Release);
        true
    }

    /// Samples dropped because the ring was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Samples that the consumer has not taken yet.
    pub fn pending(&self) -> u64 {
        // Acquire: pairs with the kernel's release store of the consumer's position.
        let taken = self.shared.consumer().load(Ordering::Acquire);
        self.position.wrapping_sub(taken) / RECORD_BYTES
    }

    fn free_bytes(&self) -> u64 {
        self.ring_bytes
            .saturating_sub(self.position.wrapping_sub(self.consumed))
    }
}
