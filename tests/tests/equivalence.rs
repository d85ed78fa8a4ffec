//! A rewritten kernel computes the same bits: every workload, and kernels from seeds, in every form.
//!
//! `GRIDMUX_EQUIVALENCE_SEEDS` sets the number of seeds (`cargo xtask test --long` takes 10,000) and
//! `GRIDMUX_EQUIVALENCE_FIRST` the first, with which a single seed is looked at again.

use gridmux_ptx::forms::Form;
use gridmux_tests::equivalence::{Counts, Judge, Subject};
use gridmux_tests::generate::generate;
use gridmux_workloads::{Prng, Size, corpus, workloads};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

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
    let mut counts = Counts::of("workloads");
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
fn every_kernel_of_the_corpus_computes_the_same_bits_in_every_form() {
    let kernels: Vec<_> = corpus::kernels().collect();
    let least = u32::try_from(kernels.len()).expect("some") * LEAST_PERCENT / 100;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut judge = Judge::new();
        let (mut counts, mut failures) = (Counts::default(), Vec::new());
        // Relaxed: the counter alone decides who takes a kernel; nothing is published through it.
        while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
            let case = kernel.case(1);
            let started = Instant::now();
            match judge.judge(&Subject::from(&case), 1) {
                Ok(verdicts) => counts.add(&verdicts),
                Err(failure) => failures.push(failure.to_string()),
            }
            println!("{} in {} ms", kernel.name, started.elapsed().as_millis());
        }
        (counts, failures)
    };
    let (counts, failures) = on_all_cores("corpus", work);
    println!("{counts}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for form in Form::ALL {
        assert!(
            counts.taken(form) >= least,
            "{form}: {}",
            counts.taken(form)
        );
    }
}

/// Runs the same work on every core, and puts together what comes of it.
fn on_all_cores(
    name: &'static str,
    work: impl Fn() -> (Counts, Vec<String>) + Sync,
) -> (Counts, Vec<String>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<(Counts, Vec<String>)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
        running.into_iter().map(join).collect()
    });
    let mut counts = Counts::of(name);
    let mut failures = Vec::new();
    for (some, failed) in results {
        counts.merge(some);
        failures.extend(failed);
    }
    (counts, failures)
}

#[test]
fn generated_kernels_compute_the_same_bits_in_every_form() {
    let first = number("GRIDMUX_EQUIVALENCE_FIRST").unwrap_or(0);
    let seeds = number("GRIDMUX_EQUIVALENCE_SEEDS").unwrap_or(SAMPLE);
    let next = AtomicU64::new(first);
    let (counts, failures) = on_all_cores("generated", || judge_seeds(&next, first + seeds));
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
            if taken == 0 && counts.is_not_built(form) {
                println!("SKIPPED: {form} is not built yet");
                continue;
            }
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
        let judged = catch_unwind(AssertUnwindSafe(|| {
            judge.judge(&Subject::from(&made), seed)
        }));
        match judged {
            Ok(Ok(verdicts)) => counts.add(&verdicts),
            Ok(Err(failure)) => failures.push(failure.to_string()),
            Err(_) => {
                failures.push(format!("seed {seed}: a panic, printed above"));
                judge = Judge::new();
            }
        }
        if (seed + 1).is_multiple_of(1000) {
            println!("{} seeds judged", seed + 1);
        }
    }
}

/// Statements that the rewriter adds and that may go without a trace: an order of memory that the model keeps anyway,
/// address conversions that change no bits, the time that a refused worker holds its place, the
/// place of our words where nothing else stands yet.
const HARMLESS: [&str; 10] = [
    "fence.",
    "cvta.",
    "nanosleep",
    "globaltimer",
    "ld.relaxed",
    "hold",
    ", 20000",
    "sub.u64",
    "%dynamic_smem_size",
    ", -16",
];

/// Leaves out one statement that the rewriter added.
fn leave_one_out(text: &[u8], dice: &mut Prng) -> Option<(Vec<u8>, String)> {
    let text = std::str::from_utf8(text).ok()?;
    let starts = |at: usize| text[..at].rfind([';', '{', '}', ':']).map_or(0, |n| n + 1);
    let ends = text.match_indices(';').map(|(at, _)| at);
    let added: Vec<(usize, usize)> = ends
        .map(|end| (starts(end), end))
        .filter(|(start, end)| {
            let statement = text[*start..*end].trim();
            let line = text[..*start].rfind('\n').map_or(0, |n| n + 1);
            let ours = statement == "bar.sync 0" && text[line..*start].contains("gridmux_");
            (statement.contains("gridmux_") || ours)
                && !statement.starts_with('.')
                && !HARMLESS.iter().any(|word| statement.contains(word))
        })
        .collect();
    let most = u32::try_from(added.len()).ok().filter(|n| *n > 0)?;
    let (start, end) = added[dice.below(most) as usize];
    let changed = [&text[..start], " ", &text[end + 1..]].concat();
    Some((changed.into_bytes(), text[start..end].trim().to_owned()))
}

#[test]
fn a_form_that_lacks_one_statement_is_caught() {
    let mut judge = Judge::new();
    for form in [Form::SLICE, Form::GATE, Form::WORKER] {
        let mut missed = Vec::new();
        let mut tried = 0;
        for seed in 0..600 {
            let made = generate(seed);
            // In flat grids and single warps most of a form has nothing to do.
            if made.grid[1] == 1 || made.grid[2] == 1 || made.block.iter().product::<u32>() <= 32 {
                continue;
            }
            let mut left_out = String::new();
            // A change may show only under some windows, stops and caps: three runs of each.
            let judged = catch_unwind(AssertUnwindSafe(|| {
                let mut verdict = None;
                for run in 0..3 {
                    let change = |text: &[u8]| {
                        let (text, statement) = leave_one_out(text, &mut Prng::new(seed))?;
                        left_out = statement;
                        Some(text)
                    };
                    let judged =
                        judge.judge_changed(&Subject::from(&made), seed + run * 1000, form, change);
                    match judged {
                        Some(Ok(())) => verdict = judged,
                        caught_or_none => return caught_or_none,
                    }
                }
                verdict
            }));
            match judged {
                Ok(None) => continue,
                Ok(Some(Ok(()))) => missed.push(format!("{seed}: {left_out}")),
                Ok(Some(Err(_))) => {}
                Err(_) => judge = Judge::new(),
            }
            tried += 1;
        }
        println!(
            "{form}: {} of {tried} missed\n    {}",
            missed.len(),
            missed.join("\n    ")
        );
        assert!(tried >= 20, "{form}: only {tried} kernels were changed");
        assert!(
            missed.len() * 5 <= tried * 2,
            "{form}: {} of {tried} changes went unnoticed",
            missed.len()
        );
    }
}
