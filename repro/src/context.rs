//! What experiments share: threads, the store of finished parts, progress on stderr.
//!
//! An experiment is cut into parts that know nothing of each other ([`Context::parts`]).
//!
//! Rules: results come back in the order of the parts, whichever thread was first; a part that fails ends the run, and
//! what was finished before stays in the store.

use crate::store::Store;
use anyhow::Result;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Where kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    /// The discrete-event executor.
    Event,
    /// The SM model in plan mode.
    Model,
}

/// How a run was asked for.
#[derive(Debug)]
pub(crate) struct Context {
    store: Store,
    runs: Store,
    threads: usize,
    /// Part of the drawn sets, above 0 and at most 1.
    pub(crate) part: f64,
    on: Option<On>,
    /// Where pictures and finished parts lie.
    pub(crate) out: PathBuf,
    /// Whether figures are held to what they have to be.
    pub(crate) check: bool,
}

impl Context {
    /// Returns a run that keeps its results below a folder; without `on` experiments of both executors run.
    pub(crate) fn new(out: PathBuf, part: f64, on: Option<On>) -> Result<Self> {
        Ok(Self {
            store: Store::open(&out.join("cache"))?,
            runs: Store::of_sources(&out.join("cache"))?,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            part,
            on,
            out,
            check: false,
        })
    }

    /// Returns whether experiments on an executor are wanted.
    pub(crate) fn wants(&self, on: On) -> bool {
        self.on.is_none_or(|only| only == on)
    }

    /// Returns the result of each part, from the store where it was finished before. A part's key says what determines
    /// its result.
    pub(crate) fn parts<I: Sync, T>(
        &self,
        name: &str,
        parts: &[I],
        key: impl Fn(&I) -> String,
        work: impl Fn(&I) -> Result<T> + Sync,
    ) -> Result<Vec<T>>
    where
        T: DeserializeOwned + Serialize + Send,
    {
        self.kept(&self.store, name, parts, key, work)
    }

    /// As [`Context::parts`], for parts that only the sources decide of what runs on the SM model ([`crate::corun`]).
    pub(crate) fn runs<I: Sync, T>(
        &self,
        name: &str,
        parts: &[I],
        key: impl Fn(&I) -> String,
        work: impl Fn(&I) -> Result<T> + Sync,
    ) -> Result<Vec<T>>
    where
        T: DeserializeOwned + Serialize + Send,
    {
        self.kept(&self.runs, name, parts, key, work)
    }

    fn kept<I: Sync, T>(
        &self,
        store: &Store,
        name: &str,
        parts: &[I],
        key: impl Fn(&I) -> String,
        work: impl Fn(&I) -> Result<T> + Sync,
    ) -> Result<Vec<T>>
    where
        T: DeserializeOwned + Serialize + Send,
    {
        let keys: Vec<String> = parts
            .iter()
            .map(|part| format!("{name}: {}", key(part)))
            .collect();
        let mut results: Vec<Option<T>> = keys.iter().map(|key| store.get(key)).collect();
        let missing: Vec<usize> = (0..parts.len())
            .filter(|at| results[*at].is_none())
            .collect();
        let bar = bar(name, parts.len(), parts.len() - missing.len());
        in_parallel(
            self.threads,
            &missing,
            |at| work(&parts[*at]),
            |place, result| {
                let at = missing[place];
                store.put(&keys[at], &result)?;
                results[at] = Some(result);
                bar.inc(1);
                Ok(())
            },
        )?;
        bar.finish_and_clear();
        Ok(results.into_iter().flatten().collect())
    }
}

/// Returns a progress bar, which is hidden where stderr is no terminal.
fn bar(name: &str, parts: usize, finished: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(parts as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg:<44} [{bar:30}] {pos}/{len} {eta}");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(name.to_owned());
    bar.set_position(finished as u64);
    bar.reset_eta();
    bar
}

/// Works on items with some threads and hands each result, with its item's place, to `take` on this one.
fn in_parallel<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            let (sender, work, next, stop) = (sender.clone(), &work, &next, &stop);
            scope.spawn(move || {
                // relaxed: the counter hands out places and the flag ends the thread early; results go by the channel.
                while !stop.load(Ordering::Relaxed) {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(place) else { break };
                    if sender.send((place, work(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let taken = results
            .iter()
            .try_for_each(|(place, result)| take(place, result?));
        // relaxed: the flag only ends threads early.
        stop.store(true, Ordering::Relaxed);
        taken
    })
}

#[cfg(test)]
mod tests {
    use super::{Context, in_parallel};
    use anyhow::bail;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn parts_run_once_and_come_back_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let context = Context::new(folder.path().to_owned(), 1.0, None).expect("opens");
        let runs = AtomicUsize::new(0);
        let square = |n: &u64| {
            // relaxed: the threads are joined before it is read.
            runs.fetch_add(1, Ordering::Relaxed);
            Ok(n * n)
        };
        let some = context.parts("squares", &[1, 2, 3], u64::to_string, square);
        assert_eq!(some.expect("they run"), [1, 4, 9]);
        let more = context.parts("squares", &[4, 3, 2, 1], u64::to_string, square);
        assert_eq!(more.expect("they run"), [16, 9, 4, 1]);
        assert_eq!(runs.into_inner(), 4, "three of them were kept");
    }

    #[test]
    fn what_was_finished_before_a_failure_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut context = Context::new(folder.path().to_owned(), 1.0, None).expect("opens");
        context.threads = 1;
        let fails = |n: &u64| match n {
            3 => bail!("part 3 fails"),
            n => Ok(*n),
        };
        let error = context.parts("parts", &[1, 2, 3, 4], u64::to_string, fails);
        assert_eq!(error.expect_err("it fails").to_string(), "part 3 fails");
        let never = |n: &u64| -> anyhow::Result<u64> { bail!("{n} runs again") };
        let again = context.parts("parts", &[1, 2], u64::to_string, never);
        assert_eq!(again.expect("both were kept"), [1, 2]);
    }

    #[test]
    fn every_item_is_worked_on_by_any_number_of_threads() {
        for threads in [1, 2, 7] {
            let items: Vec<usize> = (0..20).collect();
            let mut seen = vec![0; items.len()];
            let taken = in_parallel(
                threads,
                &items,
                |n| Ok(n + 1),
                |place, result| {
                    seen[place] += result;
                    Ok(())
                },
            );
            taken.expect("nothing fails");
            assert_eq!(seen, (1..=20).collect::<Vec<usize>>());
        }
    }
}
