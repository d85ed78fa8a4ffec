//! Runs every figure and sums up the errors by class.
//!
//! Rule: results stand in the order of the files, whatever thread ran them.

use super::measure::{Judged, judge};
use super::schema::{Class, Figure, Measurements};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Errors of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Class.
    pub class: Class,
    /// Figures.
    pub figures: usize,
    /// Mean error.
    pub mean: f64,
    /// Median error.
    pub median: f64,
    /// Figures off by more than 15 %.
    pub over_15: usize,
    /// Figures off by more than 30 %.
    pub over_30: usize,
}

/// Runs the figures that `chosen` takes and tells `progress` how long each took; returns for each file one entry a
/// figure, nothing for those left out.
pub fn run(
    files: &[Measurements],
    chosen: &(dyn Fn(&Figure) -> bool + Sync),
    progress: &(dyn Fn(&Measurements, &Figure, Duration) + Sync),
) -> Vec<Vec<Option<Judged>>> {
    let jobs: Vec<(usize, usize)> = (0..files.len())
        .flat_map(|file| (0..files[file].figures.len()).map(move |figure| (file, figure)))
        .filter(|(file, figure)| chosen(&files[*file].figures[*figure]))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        // Relaxed: the counter only deals numbers; results are handed over when the threads are joined.
        while let Some((file, figure)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let of = &files[*file];
            let began = Instant::now();
            done.push((*file, *figure, judge(&of.card, &of.figures[*figure])));
            progress(of, &of.figures[*figure], began.elapsed());
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<Vec<Option<Judged>>> = files
        .iter()
        .map(|file| vec![None; file.figures.len()])
        .collect();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads.min(4)).map(|_| scope.spawn(work)).collect();
        for thread in all {
            for (file, figure, judged) in thread.join().expect("no thread panicked") {
                results[file][figure] = Some(judged);
            }
        }
    });
    results
}

/// Returns the errors of each class that has figures.
pub fn summaries(files: &[Measurements], judged: &[Vec<Option<Judged>>]) -> Vec<Summary> {
    let of = |class: Class| {
        let all = files
            .iter()
            .zip(judged)
            .flat_map(|(file, judged)| file.figures.iter().zip(judged));
        let errors: Vec<f64> = all
            .filter(|(figure, _)| figure.class == class)
            .filter_map(|(_, judged)| judged.map(|j| j.error))
            .collect();
        summary(class, errors)
    };
    Class::ALL.iter().copied().filter_map(of).collect()
}

fn summary(class: Class, mut errors: Vec<f64>) -> Option<Summary> {
    errors.sort_by(f64::total_cmp);
    let count = errors.len();
    if count == 0 {
        return None;
    }
    let over = |limit: f64| errors.iter().filter(|e| **e > limit).count();
    let mean = errors.iter().sum::<f64>() / count as f64;
    Some(Summary {
        class,
        figures: count,
        mean,
        median: f64::midpoint(errors[(count - 1) / 2], errors[count / 2]),
        over_15: over(0.15),
        over_30: over(0.30),
    })
}
