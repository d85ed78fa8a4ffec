//! Explores every interleaving of publishing and reading; one test per invariant of `publish`.
#![cfg(loom)]

use gridmux_sync::publish::{Publisher, Reader, Stamped};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};

/// A plan whose contents loom watches: reading while it is freed is a failure.
struct Watched {
    epoch: u64,
    contents: UnsafeCell<u64>,
    /// Who may free it; anyone when nobody is named.
    freer: Option<thread::ThreadId>,
    freed: std::sync::Arc<AtomicUsize>,
}

// SAFETY: `contents` is written only before publication and in the drop; that no read overlaps the
// drop is what these tests show.
unsafe impl Sync for Watched {}

impl Stamped for Watched {
    fn stamp(&mut self, epoch: u64) {
        self.epoch = epoch;
        // SAFETY: `&mut self` excludes everybody else.
        self.contents
            .with_mut(|contents| unsafe { *contents = epoch * 10 });
    }
}

impl Default for Watched {
    fn default() -> Self {
        plan(None, &std::sync::Arc::default())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(freer) = self.freer {
            assert_eq!(thread::current().id(), freer, "P4: a reader freed a plan");
        }
        // SAFETY: `&mut self` excludes everybody else; loom checks that this is so.
        self.contents.with_mut(|contents| unsafe { *contents = 0 });
        // relaxed: a count for the test alone.
        self.freed.fetch_add(1, StdOrdering::Relaxed);
    }
}

fn plan(freer: Option<thread::ThreadId>, freed: &std::sync::Arc<AtomicUsize>) -> Watched {
    let freed = std::sync::Arc::clone(freed);
    Watched {
        epoch: 0,
        contents: UnsafeCell::new(0),
        freer,
        freed,
    }
}

/// Reads once and checks that the contents belong to the epoch.
fn read(reader: &mut Reader<Watched>) -> u64 {
    let plan = reader.read();
    // SAFETY: the reader holds the plan; loom fails if it is freed meanwhile (P3).
    let contents = plan.contents.with(|contents| unsafe { *contents });
    assert_eq!(contents, plan.epoch * 10, "P3: contents of another epoch");
    plan.epoch
}

/// Reads as [`read`] does, but looks for longer, so that a write would come in between.
fn look(reader: &mut Reader<Watched>) {
    let plan = reader.read();
    plan.contents.with(|contents| {
        thread::yield_now();
        // SAFETY: as in `read`; loom fails if the buffer is written while this closure runs (P6).
        let contents = unsafe { *contents };
        assert_eq!(contents, plan.epoch * 10, "P6: contents of another epoch");
    });
}

/// Publishes through `edit`, writing the buffer first; returns whether the buffer had been published before.
fn edit(publisher: &mut Publisher<Watched>) -> bool {
    let mut draft = publisher.edit();
    let buffer = &mut *draft;
    let is_reused = buffer.epoch > 0;
    // SAFETY: the draft excludes everybody else (P6); loom fails if a reader looks meanwhile.
    buffer
        .contents
        .with_mut(|contents| unsafe { *contents = 7 });
    draft.publish();
    is_reused
}

fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

#[test]
fn p1_epochs_never_fall() {
    explore(3, || {
        let freed = std::sync::Arc::default();
        let mut publisher = Publisher::new(plan(None, &freed));
        let mut reader = publisher.reader();
        let reading = thread::spawn(move || {
            let seen = [read(&mut reader), read(&mut reader), read(&mut reader)];
            assert!(seen.is_sorted(), "P1: {seen:?}");
        });
        publisher.publish_value(plan(None, &freed));
        publisher.publish_value(plan(None, &freed));
        reading.join().unwrap();
    });
}

#[test]
fn p2_a_finished_publication_is_seen() {
    explore(3, || {
        let freed = std::sync::Arc::default();
        let mut publisher = Publisher::new(plan(None, &freed));
        let mut reader = publisher.reader();
        let published = Arc::new(AtomicU64::new(1));
        let ended = Arc::clone(&published);
        let reading = thread::spawn(move || {
            for _ in 0..2 {
                // Acquire: pairs with the Release store after each publication.
                let least = ended.load(Ordering::Acquire);
                let epoch = read(&mut reader);
                assert!(
                    epoch >= least,
                    "P2: saw {epoch} after {least} was published"
                );
            }
        });
        for _ in 0..2 {
            let epoch = publisher.publish_value(plan(None, &freed));
            // Release: pairs with the Acquire load in the reader.
            published.store(epoch, Ordering::Release);
        }
        reading.join().unwrap();
    });
}

#[test]
fn p3_every_plan_is_freed_once_and_never_under_a_reader() {
    explore(2, || {
        let freed = std::sync::Arc::default();
        let mut publisher = Publisher::new(plan(None, &freed));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut reader = publisher.reader();
                thread::spawn(move || {
                    read(&mut reader);
                    read(&mut reader);
                })
            })
            .collect();
        publisher.publish_value(plan(None, &freed));
        publisher.publish_value(plan(None, &freed));
        for reader in readers {
            reader.join().unwrap();
        }
        drop(publisher);
        // relaxed: a count for the test alone.
        assert_eq!(freed.load(StdOrdering::Relaxed), 3);
    });
}

#[test]
fn p3_reader_and_publisher_drop_in_any_order() {
    explore(3, || {
        let freed = std::sync::Arc::default();
        let mut publisher = Publisher::new(plan(None, &freed));
        let mut reader = publisher.reader();
        let reading = thread::spawn(move || {
            read(&mut reader);
            drop(reader);
        });
        publisher.publish_value(plan(None, &freed));
        publisher.publish_value(plan(None, &freed));
        drop(publisher);
        reading.join().unwrap();
        // relaxed: a count for the test alone.
        assert_eq!(freed.load(StdOrdering::Relaxed), 3);
    });
}

#[test]
fn p4_only_the_writer_frees() {
    explore(3, || {
        let freed = std::sync::Arc::default();
        let writer = Some(thread::current().id());
        let mut publisher = Publisher::new(plan(writer, &freed));
        let mut reader = publisher.reader();
        let reading = thread::spawn(move || {
            for _ in 0..3 {
                read(&mut reader);
            }
            // Dropping the reader leaves its plan to the writer, which still lives.
        });
        publisher.publish_value(plan(writer, &freed));
        publisher.publish_value(plan(writer, &freed));
        reading.join().unwrap();
        publisher.reap();
        // relaxed: a count for the test alone.
        assert_eq!(
            freed.load(StdOrdering::Relaxed),
            2,
            "P4: reaping frees what is not newest"
        );
    });
}

#[test]
fn p5_two_returned_slots_suffice() {
    // `give_back` asserts it; three takes against four publications cover the argument's cases,
    // among them an emptying that ends between a return and its take.
    explore(3, || {
        let freed = std::sync::Arc::default();
        let mut publisher = Publisher::new(plan(None, &freed));
        let mut reader = publisher.reader();
        let reading = thread::spawn(move || {
            for _ in 0..4 {
                read(&mut reader);
            }
        });
        for _ in 0..4 {
            publisher.publish_value(plan(None, &freed));
        }
        reading.join().unwrap();
        drop(publisher);
        // relaxed: a count for the test alone.
        assert_eq!(
            freed.load(StdOrdering::Relaxed),
            5,
            "P5: an overwritten return leaks"
        );
    });
}

#[test]
fn p6_a_buffer_is_reused_only_when_no_reader_looks_at_it() {
    let reused = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&reused);
    explore(3, move || {
        let mut publisher = Publisher::new(Watched::default());
        let mut reader = publisher.reader();
        let reading = thread::spawn(move || {
            for _ in 0..3 {
                look(&mut reader);
            }
        });
        for _ in 0..3 {
            let is_reused = edit(&mut publisher);
            // relaxed: a count for the test alone.
            count.fetch_add(usize::from(is_reused), StdOrdering::Relaxed);
        }
        reading.join().unwrap();
        // The reader is gone: its buffer comes back too.
        publisher.edit().publish();
        assert!(edit(&mut publisher), "P6: a buffer got lost");
    });
    // relaxed: a count for the test alone.
    assert!(reused.load(StdOrdering::Relaxed) > 0, "nothing was reused");
}

#[test]
fn p6_holds_with_two_readers() {
    let reused = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&reused);
    explore(2, move || {
        let mut publisher = Publisher::new(Watched::default());
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut reader = publisher.reader();
                thread::spawn(move || {
                    look(&mut reader);
                    look(&mut reader);
                })
            })
            .collect();
        for _ in 0..3 {
            let is_reused = edit(&mut publisher);
            // relaxed: a count for the test alone.
            count.fetch_add(usize::from(is_reused), StdOrdering::Relaxed);
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
    // relaxed: a count for the test alone.
    assert!(reused.load(StdOrdering::Relaxed) > 0, "nothing was reused");
}
