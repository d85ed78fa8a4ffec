//! A rewritten kernel computes the same bits: every workload, and kernels from seeds, in every form.
//!
//! `GRIDMUX_EQUIVALENCE_SEEDS` sets the number of seeds (`cargo xtask test --long` takes 10,000) and
//! `GRIDMUX_EQUIVALENCE_FIRST` the first, with which a single seed is looked at again.

use gridmux_ptx::forms::Form;
use gridmux_tests::equivalence::{Counts, Judge, Subject};
use gridmux_tests::generate::generate;
use gridmux_workloads::{Size, workloads};
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of an ordinary run.
const SAMPLE: u64 = 300;
/// Of a hundred kernels so many must take each form.
const LEAST_PERCENT: u32 = 80;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_workload_computes_the_same_bits_in_every_form() {
    let mut judge = Judge::new();
    let mut counts = Counts::default();
    for workload in workloads() {
        for seed in 0..4 {
            let case = workload.case(Size::Tiny, seed);
            let verdicts = judge.judge(&Subject::from(&case), seed);
            counts.add(&verdicts.unwrap_or_else(|failure| panic!("{failure}")));
        }
    }
    println!("{counts}");
}

#[test]
fn generated_kernels_compute_the_same_bits_in_every_form() {
    let first = number("GRIDMUX_EQUIVALENCE_FIRST").unwrap_or(0);
    let seeds = number("GRIDMUX_EQUIVALENCE_SEEDS").unwrap_or(SAMPLE);
    let next = AtomicU64::new(first);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<(Counts, Vec<String>)> = std::thread::scope(|scope| {
        let work = || judge_seeds(&next, first + seeds);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
        running.into_iter().map(join).collect()
    });
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for (some, failed) in results {
        counts.merge(some);
        failures.extend(failed);
    }
    println!("{counts}");
    assert!(
        failures.is_empty(),
        "{} of {seeds} kernels fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
    if seeds >= SAMPLE {
        for form in Form::ALL {
            let taken = counts.taken(form);
            assert!(
                taken * 100 >= counts.subjects * LEAST_PERCENT,
                "only {taken} of {} kernels take {form}",
                counts.subjects
            );
        }
    }
}

/// Judges seeds from a common counter.
fn judge_seeds(next: &AtomicU64, end: u64) -> (Counts, Vec<String>) {
    let mut judge = Judge::new();
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    loop {
        // Relaxed: the counter alone decides who takes a seed; nothing is published through it.
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end || failures.len() >= 5 {
            return (counts, failures);
        }
        let made = generate(seed);
        match judge.judge(&Subject::from(&made), seed) {
            Ok(verdicts) => counts.add(&verdicts),
            Err(failure) => failures.push(failure.to_string()),
        }
        if (seed + 1).is_multiple_of(1000) {
            println!("{} seeds judged", seed + 1);
        }
    }
}
