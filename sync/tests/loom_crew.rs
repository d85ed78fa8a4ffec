//! Explores the interleavings of a crew's claims; one test per invariant of `crew`.
//!
//! A binary of its own, because loom replaces the atomic operations of the whole build.
#![cfg(loom)]

use gridmux_sync::crew::Crew;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(body);
}

#[test]
fn c1_every_item_runs_exactly_once() {
    explore(|| {
        let mut crew = Crew::new(2);
        for _ in 0..2 {
            let runs: Vec<AtomicUsize> = (0..2).map(|_| AtomicUsize::new(0)).collect();
            crew.run(2, &|at| {
                // Relaxed: C3 orders it before the loads below.
                runs[at].fetch_add(1, Ordering::Relaxed);
            });
            // Relaxed: see above.
            assert!(runs.iter().all(|n| n.load(Ordering::Relaxed) == 1), "C1");
        }
    });
}

#[test]
fn c2_no_item_runs_after_its_job_returned() {
    explore(|| {
        // A panic of an item would be caught; the count is outside loom's view and orders nothing.
        let (over, late) = (
            AtomicBool::new(false),
            std::sync::atomic::AtomicUsize::new(0),
        );
        let mut crew = Crew::new(2);
        crew.run(2, &|_| {
            // Relaxed, all: an item that runs late may see the store below, which loom explores.
            late.fetch_add(over.load(Ordering::Relaxed).into(), Ordering::Relaxed);
        });
        over.store(true, Ordering::Relaxed);
        drop(crew);
        assert_eq!(late.into_inner(), 0, "C2");
    });
}

#[test]
fn c3_effects_are_seen_by_the_caller_and_the_next_job() {
    struct Words([UnsafeCell<u32>; 2]);
    // SAFETY: items write different words, and loom watches that nothing else touches them meanwhile.
    unsafe impl Sync for Words {}
    explore(|| {
        let mut crew = Crew::new(2);
        let words = Words([UnsafeCell::new(0), UnsafeCell::new(0)]);
        let words = &words;
        for job in 0..2_usize {
            // The next job's items touch the words that the other thread may have written.
            crew.run(2, &|at| {
                // SAFETY: item `at` alone touches this word in this job.
                words.0[(at + job) % 2].with_mut(|word| unsafe { *word += 1 });
            });
        }
        for word in &words.0 {
            // SAFETY: the jobs are over.
            assert_eq!(word.with(|word| unsafe { *word }), 2, "C3");
        }
    });
}
