//! Explores the sample ring's interleavings against the kernel's consumer, as kernel/bpf/ringbuf.c moves it.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p gridmux-bpf --profile loom --target-dir target/loom --test loom_ring`.
#![cfg(loom)]

use gridmux_bpf::layout::RawSample;
use gridmux_bpf::ring::{Producer, RECORD_BYTES, Record, Shared};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

const SLOTS: u64 = 2;

struct Memory {
    consumer: AtomicU64,
    producer: AtomicU64,
    slots: [UnsafeCell<Record>; SLOTS as usize],
}

impl Memory {
    fn new() -> Arc<Self> {
        let empty = || {
            UnsafeCell::new(Record {
                length: 0,
                zero: 0,
                sample: RawSample::default(),
            })
        };
        Arc::new(Self {
            consumer: AtomicU64::new(0),
            producer: AtomicU64::new(0),
            slots: [empty(), empty()],
        })
    }

    fn slot(&self, position: u64) -> &UnsafeCell<Record> {
        &self.slots[usize::try_from(position / RECORD_BYTES % SLOTS).unwrap()]
    }

    /// Returns one step of `__bpf_user_ringbuf_peek` and its release: the record, if one is complete.
    fn take(&self) -> Option<Record> {
        // Acquire: pairs with the Release that ends this function.
        let consumed = self.consumer.load(Ordering::Acquire);
        // Acquire: pairs with the producer's release of its position.
        if consumed >= self.producer.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: loom checks that no write runs at the same time; that is what this test is for.
        let record = self.slot(consumed).with(|slot| unsafe { *slot });
        // Release: pairs with the producer's acquire of the consumer's position.
        self.consumer
            .store(consumed + RECORD_BYTES, Ordering::Release);
        Some(record)
    }
}

struct Ours(Arc<Memory>);

impl Shared for Ours {
    fn consumer(&self) -> &AtomicU64 {
        &self.0.consumer
    }

    fn producer(&self) -> &AtomicU64 {
        &self.0.producer
    }

    fn store(&self, position: u64, record: Record) {
        // SAFETY: as in `take`.
        self.0
            .slot(position)
            .with_mut(|slot| unsafe { *slot = record });
    }
}

/// Every accepted record arrives once, in order and complete, and drops are told: none is overwritten unread.
#[test]
fn accepted_records_arrive_once_in_order_and_complete() {
    const PUSHES: u64 = 4;
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memory = Memory::new();
        let producer = loom::thread::spawn({
            let memory = memory.clone();
            move || {
                let mut producer = Producer::new(Ours(memory), SLOTS * RECORD_BYTES);
                let mut accepted = Vec::new();
                for n in 1..=PUSHES {
                    if producer.push(RawSample {
                        latency_ns: [n; 3],
                        ..RawSample::default()
                    }) {
                        accepted.push(n);
                    }
                }
                (accepted, producer.dropped())
            }
        });
        let mut seen = Vec::new();
        for _ in 0..PUSHES {
            match memory.take() {
                Some(record) => seen.push(record),
                None => loom::thread::yield_now(),
            }
        }
        let (accepted, dropped) = producer.join().unwrap();
        while let Some(record) = memory.take() {
            seen.push(record);
        }
        assert_eq!(accepted.len() as u64 + dropped, PUSHES);
        let values: Vec<u64> = seen
            .iter()
            .map(|record| record.sample.latency_ns[2])
            .collect();
        assert_eq!(values, accepted);
        assert!(
            seen.iter()
                .all(|record| u64::from(record.length) == RECORD_BYTES - 8
                    && record.sample.latency_ns[0] == record.sample.latency_ns[2])
        );
        let told: u64 = seen
            .iter()
            .map(|record| u64::from(record.sample.lost_before))
            .sum();
        assert!(told <= dropped, "no drop is told twice");
    });
}
