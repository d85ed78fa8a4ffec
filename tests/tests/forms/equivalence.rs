//! A rewritten kernel computes the same bits: every workload, and kernels from seeds, in every form.
//!
//! `GRIDMUX_EQUIVALENCE_SEEDS` sets the number of seeds (`cargo xtask test --long` takes 10,000) and
//! `GRIDMUX_EQUIVALENCE_FIRST` the first, with which a single seed is looked at again.

use gridmux_ptx::Module;
use gridmux_ptx::forms::Form;
use gridmux_ptx::print::print;
use gridmux_testkit::generate::{Generated, generate, generate_on};
use gridmux_tests::equivalence::{Counts, Judge, Subject};
use gridmux_workloads::{Size, corpus, workloads};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Seeds of an ordinary run.
const SAMPLE: u64 = 300;
/// Percentage of kernels that must take each form, at least.
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

/// Statements that the rewriter adds and that may go without a trace: address conversions that change no bits, and the
/// place of our words where nothing else stands yet.
const HARMLESS: [&str; 3] = ["cvta.", "%dynamic_smem_size", ", -16"];

/// Grids whose rows are mostly not the first.
const LARGE_GRIDS: [[u32; 3]; 4] = [[7, 9, 1], [5, 3, 5], [47, 2, 1], [3, 8, 3]];

/// Kernels that statements are left out of, the most in which one statement is, and the fewest that must have it.
const POOL: u64 = 400;
const TRIES: usize = 16;
const LEAST_KERNELS: usize = 4;

/// Returns the statements of a printed kernel, each with how it reads without the kernel's own names.
fn statements(text: &str) -> Vec<(String, std::ops::Range<usize>)> {
    let starts = |at: usize| text[..at].rfind([';', '{', '}', ':']).map_or(0, |n| n + 1);
    let mut found = Vec::new();
    for (end, _) in text.match_indices(';') {
        // The braces of a vector of registers are part of their statement.
        let mut start = starts(end);
        while let Some(brace) = start.checked_sub(1)
            && (text.as_bytes()[brace] == b'}' || text[start..end].contains('}'))
            && text.as_bytes()[brace] != b';'
            && text[..brace].ends_with(|c: char| c.is_ascii_alphanumeric() || ", {".contains(c))
        {
            start = starts(brace);
        }
        let statement = text[start..end].trim();
        if !statement.starts_with('.') {
            found.push((without_own_names(statement), start..end + 1));
        }
    }
    found
}

/// Returns the statements of a form that the original's print does not have, each with a key by which it is found in
/// other kernels' texts: how it reads, and how many there were before it that read the same.
fn added(original: &str, text: &str) -> Vec<(String, std::ops::Range<usize>)> {
    let (own, all) = (statements(original), statements(text));
    // The longest common subsequence of what stands from each pair of places on.
    let mut common = vec![vec![0_u32; all.len() + 1]; own.len() + 1];
    for i in (0..own.len()).rev() {
        for j in (0..all.len()).rev() {
            common[i][j] = match own[i].0 == all[j].0 {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut seen, mut found) = (0, BTreeMap::new(), Vec::new());
    for (j, (key, range)) in all.into_iter().enumerate() {
        while i < own.len() && own[i].0 != key && common[i + 1][j] == common[i][j] {
            i += 1;
        }
        if i < own.len() && own[i].0 == key {
            i += 1;
        } else if !HARMLESS.iter().any(|word| key.contains(word)) {
            let nth = seen.entry(key.clone()).or_insert(0_u32);
            *nth += 1;
            found.push((format!("{key} ({nth})"), range));
        }
    }
    found
}

/// Returns the text of a kernel as it is printed in no form.
fn printed(made: &Generated) -> String {
    let module = Module::parse(made.ptx.as_bytes()).expect("it parses");
    print(&module.decode().expect("it decodes")).text
}

/// Returns a statement without the numbers of the kernel's own names; registers are numbered as they come in it.
fn without_own_names(statement: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_%$".contains(c);
    let mut registers = Vec::new();
    let mut key = String::new();
    for part in statement.split_inclusive(|c| !is_name(c)) {
        let name = part.trim_end_matches(|c| !is_name(c));
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
        key.push_str(
            match name.starts_with(['%', '$', '_']) || name.contains('_') {
                true => kind,
                false => name,
            },
        );
        if name.starts_with('%') && name.contains('_') {
            let known = registers.iter().position(|other| *other == name);
            let number = known.unwrap_or(registers.len());
            registers.resize(registers.len().max(number + 1), name);
            key.push_str(&number.to_string());
        }
        key.push_str(&part[name.len()..]);
    }
    key
}

/// Kernels of all shapes: those on large grids first, then those with the most axes, and blocks of one thread among
/// them.
fn pool() -> Vec<Generated> {
    let alone = |made: &Generated| made.block.iter().product::<u32>() == 1;
    let mut pool: Vec<Generated> = (0..POOL).map(generate).collect();
    pool.extend((POOL..POOL * 20).map(generate).filter(alone));
    let axes = |made: &Generated| {
        let long = |size: &[u32; 3]| size.iter().filter(|n| **n > 1).count();
        match alone(made) {
            true => 6,
            false => long(&made.grid) + long(&made.block),
        }
    };
    pool.sort_by_key(|made| std::cmp::Reverse(axes(made)));
    let large = (0..POOL / 5).zip(LARGE_GRIDS.into_iter().cycle());
    let large = large.map(|(seed, grid)| generate_on(seed, Some(grid)));
    large.chain(pool).collect()
}

/// Half of them from the front, the others from everywhere.
fn some_of(kernels: &[usize]) -> Vec<usize> {
    let front = kernels.len().min(TRIES / 2);
    let rest = &kernels[front..];
    let step = rest.len().div_ceil(TRIES - TRIES / 2).max(1);
    let some = kernels[..front].iter().chain(rest.iter().step_by(step));
    some.copied().collect()
}

/// Returns whether leaving the statement out of the kernel's form shows. A change may show only for some slices and
/// numbers of workers: three runs.
fn is_noticed(judge: &mut Judge, made: &Generated, form: Form, key: &str) -> bool {
    let original = printed(made);
    (0..3).any(|run| {
        let change = |text: &[u8]| {
            let text = std::str::from_utf8(text).ok()?;
            let at = added(&original, text)
                .into_iter()
                .find(|(k, _)| k == key)?
                .1;
            Some(
                [&text[..at.start], " ", &text[at.end..]]
                    .concat()
                    .into_bytes(),
            )
        };
        let judged = catch_unwind(AssertUnwindSafe(|| {
            judge.judge_changed(&Subject::from(made), made.seed + run * 1000, form, change)
        }));
        if judged.is_err() {
            *judge = Judge::new();
        }
        !matches!(judged, Ok(None | Some(Ok(()))))
    })
}

#[test]
fn a_form_that_lacks_one_statement_is_caught() {
    let pool = pool();
    for form in [Form::SLICE, Form::WORKER] {
        let mut kernels_with: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut judge = Judge::new();
        for (n, made) in pool.iter().enumerate() {
            let look = |text: &[u8]| {
                for (key, _) in added(&printed(made), std::str::from_utf8(text).ok()?) {
                    kernels_with.entry(key).or_default().push(n);
                }
                None
            };
            let none = judge.judge_changed(&Subject::from(made), made.seed, form, look);
            assert!(none.is_none(), "nothing was changed");
        }
        kernels_with.retain(|_, kernels| kernels.len() >= LEAST_KERNELS);
        let statements: Vec<_> = kernels_with.into_iter().collect();
        let tried = statements.len();
        let next = AtomicUsize::new(0);
        let (_, missed) = on_all_cores(form.name(), || {
            let (mut judge, mut missed) = (Judge::new(), Vec::new());
            // Relaxed: the counter alone decides who takes a statement; nothing is published through it.
            while let Some((key, kernels)) = statements.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut some = some_of(kernels).into_iter();
                if !some.any(|n| is_noticed(&mut judge, &pool[n], form, key)) {
                    missed.push(key.clone());
                }
            }
            (Counts::default(), missed)
        });
        println!(
            "{form}: {} of {tried} missed\n    {}",
            missed.len(),
            missed.join("\n    ")
        );
        assert!(tried >= 20, "{form}: only {tried} statements were left out");
        assert!(
            missed.len() * 5 <= tried * 2,
            "{form}: {} of {tried} changes went unnoticed",
            missed.len()
        );
    }
}
