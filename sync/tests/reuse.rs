//! Publishing through drafts: buffers are reused, and in the steady state nobody calls the allocator.
//!
//! A binary of its own, because the allocator is the process's.
#![cfg(not(loom))]

use gridmux_sync::publish::{Publisher, Stamped};
use gridmux_testkit::allocator::{CountingAllocator, calls};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A value with memory of its own, which a reused buffer keeps.
#[derive(Default)]
struct Table {
    epoch: u64,
    rows: Vec<u64>,
}

impl Stamped for Table {
    fn stamp(&mut self, epoch: u64) {
        self.epoch = epoch;
    }
}

fn publish(publisher: &mut Publisher<Table>) -> u64 {
    let mut draft = publisher.edit();
    let next = draft.newest().epoch + 1;
    let table = &mut *draft;
    table.rows.clear();
    table.rows.resize(32, next);
    draft.publish()
}

fn check(table: &Table) {
    assert!(table.rows.iter().all(|&row| row == table.epoch));
}

#[test]
fn publishing_allocates_nothing_after_warm_up() {
    let mut publisher = Publisher::new(Table::default());
    let mut busy = publisher.reader();
    let mut slow = publisher.reader();
    let mut before = 0;
    for round in 0..300_u64 {
        if round == 5 {
            before = calls();
        }
        let held = slow.read();
        let held_epoch = held.epoch;
        for _ in 0..37 {
            let epoch = publish(&mut publisher);
            let seen = busy.read();
            assert_eq!(seen.epoch, epoch);
            // Overwrites the next buffer at once; neither reader may notice.
            publisher.edit().rows.fill(u64::MAX);
            check(seen);
        }
        assert_eq!(held.epoch, held_epoch, "P6: written under the slow reader");
        check(held);
    }
    assert_eq!(calls(), before, "publishing called the allocator");
}

#[test]
fn two_reading_threads_need_a_bounded_number_of_buffers() {
    static BUFFERS: AtomicUsize = AtomicUsize::new(0);
    struct Counted(Table);
    impl Default for Counted {
        fn default() -> Self {
            // Relaxed: read by the same thread.
            BUFFERS.fetch_add(1, Ordering::Relaxed);
            Self(Table::default())
        }
    }
    impl Stamped for Counted {
        fn stamp(&mut self, epoch: u64) {
            self.0.stamp(epoch);
        }
    }

    let mut publisher = Publisher::new(Counted(Table::default()));
    let readers = [(publisher.reader(), 0), (publisher.reader(), 1000)];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (mut reader, pause) in readers {
            let stop = &stop;
            scope.spawn(move || {
                let mut epoch = 0;
                // Relaxed: carries nothing.
                while !stop.load(Ordering::Relaxed) {
                    let table = &reader.read().0;
                    assert!(table.epoch >= epoch, "epochs never fall");
                    epoch = table.epoch;
                    for _ in 0..pause {
                        std::hint::spin_loop();
                    }
                    // Looked at late, after the pause: nobody wrote it meanwhile.
                    check(table);
                }
            });
        }
        for _ in 0..100_000_u64 {
            let mut draft = publisher.edit();
            let next = draft.newest().0.epoch + 1;
            let rows = &mut draft.0.rows;
            rows.clear();
            rows.resize(32, next);
            draft.publish();
        }
        // Relaxed: as above.
        stop.store(true, Ordering::Relaxed);
    });
    // Relaxed: written by this thread.
    let made = BUFFERS.load(Ordering::Relaxed);
    assert!(made <= 2 + 3 * 2, "{made} buffers for two readers");
}

#[test]
fn a_dropped_draft_is_continued_and_reaping_frees() {
    let mut publisher = Publisher::new(Table::default());
    publisher.edit().rows.push(5);
    assert!(publisher.newest().rows.is_empty(), "not published yet");
    assert_eq!(publisher.edit().rows, [5]);
    assert_eq!(publisher.edit().publish(), 2);
    assert_eq!(publisher.newest().rows, [5]);
    publisher.edit().rows.push(6);
    publisher.reap();
    assert!(publisher.edit().rows.is_empty(), "reaping frees the draft");
}

#[test]
fn a_published_value_is_freed_with_what_it_owns() {
    let owned = std::sync::Arc::new(());
    #[derive(Default)]
    struct Owner(#[allow(dead_code, reason = "held, not read")] Option<std::sync::Arc<()>>);
    impl Stamped for Owner {
        fn stamp(&mut self, _epoch: u64) {}
    }
    let mut publisher = Publisher::new(Owner::default());
    let mut reader = publisher.reader();
    publisher.publish_value(Owner(Some(std::sync::Arc::clone(&owned))));
    reader.read();
    publisher.publish_value(Owner(None));
    reader.read();
    assert_eq!(std::sync::Arc::strong_count(&owned), 2, "in the mailbox");
    publisher.reap();
    assert_eq!(std::sync::Arc::strong_count(&owned), 1);
}
