//! The queue under every interleaving that loom can make: what is pushed is
//! popped once, in order and whole, while indices wrap around the slots.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p gridmux-channel --profile loom
//! --target-dir target/loom --test 'loom*'`.
#![cfg(loom)]

use gridmux_channel::ring::queue::{Consumer, Producer, Queue};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;

const SLOTS: usize = 2;

struct Shared {
    head: AtomicU32,
    slots: [[AtomicU64; 2]; SLOTS],
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            head: AtomicU32::new(0),
            slots: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
        })
    }

    fn queue(&self) -> Queue<'_, 2, 1> {
        Queue {
            head: &self.head,
            slots: &self.slots,
        }
    }
}

fn entry(i: u64) -> [u64; 2] {
    [!i, i]
}

#[test]
fn nothing_is_lost_doubled_reordered_or_torn() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        let theirs = shared.clone();
        let producer = thread::spawn(move || {
            let mut end = Producer::default();
            for i in 0..4 {
                while !end.push(&theirs.queue(), &entry(i)).unwrap() {
                    thread::yield_now();
                }
            }
        });
        let mut end = Consumer::default();
        for i in 0..4 {
            let words = loop {
                if let Some(words) = end.pop(&shared.queue()).unwrap() {
                    break words;
                }
                thread::yield_now();
            };
            assert_eq!(words, entry(i));
            end.release(&shared.queue());
        }
        assert_eq!(end.pop(&shared.queue()).unwrap(), None);
        producer.join().unwrap();
    });
}

#[test]
fn staged_entries_are_seen_all_or_none() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        let theirs = shared.clone();
        let producer = thread::spawn(move || {
            let mut end = Producer::default();
            for i in 0..2 {
                assert!(end.stage(&theirs.queue(), &entry(i)).unwrap());
            }
            end.publish(&theirs.queue());
        });
        let mut end = Consumer::default();
        if let Some(first) = end.pop(&shared.queue()).unwrap() {
            assert_eq!(first, entry(0));
            assert_eq!(end.pop(&shared.queue()).unwrap(), Some(entry(1)));
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_slot_is_not_overwritten_before_it_is_released() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        let theirs = shared.clone();
        let producer = thread::spawn(move || {
            let mut end = Producer::default();
            let pushed = (0..3).filter(|i| end.push(&theirs.queue(), &entry(*i)).unwrap());
            pushed.count()
        });
        let mut end = Consumer::default();
        let first = end.pop(&shared.queue()).unwrap();
        // Without a release the producer finds no third slot, so what stands
        // in the first one is still what was popped.
        if let Some(words) = first {
            assert_eq!(words, entry(0));
        }
        assert!(producer.join().unwrap() <= SLOTS);
    });
}
