//! The papers' figures of merit for a mix that ran together.
//!
//! Inputs are pairs (time alone, time shared) in any one unit; a pair with a time of zero or below says nothing and is
//! left out. A program may take less time shared than alone, where another one loaded what it reads into a cache, or
//! its launches wait for less: then the figures go beyond their ideals. Definitions: STP = Σ alone / shared; ANTT = mean shared / alone; StrictF = least slowdown / greatest
//! slowdown (SRTF section 6; SMK section 6 with IPC).

use serde::Serialize;

/// System throughput: Σ alone / shared. Higher is better; the number of programs is ideal, and more only where programs
/// are quicker shared than alone. Zero when there is no pair to go by.
#[must_use]
pub fn stp(runs: &[(f64, f64)]) -> f64 {
    // `sum` of nothing is −0.
    slowdowns(runs).fold(0.0, |sum, slowdown| sum + 1.0 / slowdown)
}

/// Average normalised turnaround time: mean shared / alone. Lower is better; 1 is ideal, and less only where programs
/// are quicker shared than alone. Zero when there is no pair to go by.
#[must_use]
pub fn antt(runs: &[(f64, f64)]) -> f64 {
    let count = slowdowns(runs).count();
    if count == 0 {
        0.0
    } else {
        slowdowns(runs).sum::<f64>() / count as f64
    }
}

/// Fairness: least slowdown / greatest slowdown, from 0 to 1 (everyone suffers alike). Zero when
/// there is no pair to go by.
#[must_use]
pub fn strict_f(runs: &[(f64, f64)]) -> f64 {
    let least = slowdowns(runs).fold(f64::INFINITY, f64::min);
    let greatest = slowdowns(runs).fold(0.0, f64::max);
    if greatest > 0.0 {
        least / greatest
    } else {
        0.0
    }
}

/// accelOS's unfairness U: greatest slowdown / least slowdown. Zero when there is nothing to go by.
#[must_use]
pub fn unfairness(runs: &[(f64, f64)]) -> f64 {
    let fairness = strict_f(runs);
    if fairness > 0.0 { 1.0 / fairness } else { 0.0 }
}

/// Returns the greatest normalised turnaround time of a program: max shared / alone. Lower is better. accelOS's W.ANTT
/// (its Tables 1 and 2) is the greatest over all sets; over the runs of one mix it is this. Zero when there is no pair
/// to go by.
#[must_use]
pub fn worst_antt(runs: &[(f64, f64)]) -> f64 {
    slowdowns(runs).fold(0.0, f64::max)
}

/// Returns Warped-Slicer's minimum speedup: min alone / shared, where a program's speedup is its speed together over
/// that alone (its section V.F). Higher is better; 1 is ideal. Zero when there is no pair to go by.
#[must_use]
pub fn min_speedup(runs: &[(f64, f64)]) -> f64 {
    let worst = worst_antt(runs);
    if worst > 0.0 { 1.0 / worst } else { 0.0 }
}

/// Returns accelOS's throughput speedup `T_baseline / T` (its section 7.4): the time in which the baseline ends all
/// programs over the time in which they ended together. Higher is better. Zero when nothing ran.
#[must_use]
pub fn throughput(baseline: f64, together: f64) -> f64 {
    if together > 0.0 {
        baseline / together
    } else {
        0.0
    }
}

/// accelOS's overlap O: the time during which all programs run, over the time during which any does, given when each
/// started and ended. Zero when nothing ran.
#[must_use]
pub fn overlap(spans: &[(f64, f64)]) -> f64 {
    let all_from = spans.iter().fold(0.0_f64, |from, span| from.max(span.0));
    let all_to = spans.iter().fold(f64::INFINITY, |to, span| to.min(span.1));
    let mut sorted = spans.to_vec();
    sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut any, mut until) = (0.0, f64::NEG_INFINITY);
    for (from, to) in sorted {
        any += (to - from.max(until)).max(0.0);
        until = until.max(to);
    }
    match any > 0.0 {
        true => (all_to - all_from).max(0.0) / any,
        false => 0.0,
    }
}

/// The geometric mean, by which SRTF averages over pairs. Zero for no values.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

fn slowdowns(runs: &[(f64, f64)]) -> impl Iterator<Item = f64> + '_ {
    let told = runs
        .iter()
        .filter(|(alone, shared)| *alone > 0.0 && *shared > 0.0);
    told.map(|(alone, shared)| shared / alone)
}

/// Percentiles; `None` of nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Half of the values are at most this.
    pub p50: Option<u64>,
    /// Nine tenths are at most this.
    pub p90: Option<u64>,
    /// 99 of 100 are at most this.
    pub p99: Option<u64>,
    /// The greatest.
    pub max: Option<u64>,
}

impl Percentiles {
    /// Works out nearest-rank percentiles.
    #[must_use]
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let rank = |percent: usize| {
            let index = (values.len() * percent).div_ceil(100).max(1) - 1;
            values.get(index).copied()
        };
        Self {
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max: values.last().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        antt, geometric_mean, min_speedup, overlap, stp, strict_f, throughput, unfairness,
        worst_antt,
    };

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-9, "{left} is not {right}");
    }

    #[test]
    fn two_programs_by_hand() {
        // One alone in 10, together in 15; the other alone in 20, together in 80.
        let runs = [(10.0, 15.0), (20.0, 80.0)];
        close(stp(&runs), 2.0 / 3.0 + 0.25);
        close(antt(&runs), f64::midpoint(1.5, 4.0));
        close(strict_f(&runs), 1.5 / 4.0);
        close(unfairness(&runs), 4.0 / 1.5);
        close(worst_antt(&runs), 4.0);
        close(min_speedup(&runs), 0.25);
        close(throughput(10.0 + 20.0, 80.0), 30.0 / 80.0);
    }

    #[test]
    fn overlap_counts_pauses_for_nobody() {
        close(overlap(&[(0.0, 10.0), (5.0, 20.0)]), 5.0 / 20.0);
        close(overlap(&[(0.0, 10.0), (15.0, 20.0)]), 0.0);
        // All three run from 4 to 6, somebody from 0 to 8.
        close(overlap(&[(0.0, 6.0), (4.0, 8.0), (3.0, 7.0)]), 2.0 / 8.0);
        close(overlap(&[]), 0.0);
    }

    #[test]
    fn nothing_ran() {
        close(stp(&[]), 0.0);
        assert!(stp(&[]).is_sign_positive());
        close(antt(&[(0.0, 4.0)]), 0.0);
        close(strict_f(&[]), 0.0);
        close(worst_antt(&[]), 0.0);
        close(min_speedup(&[]), 0.0);
        close(throughput(5.0, 0.0), 0.0);
        close(geometric_mean(&[]), 0.0);
    }

    /// SRTF Table 3: runtimes alone, in cycles.
    const SRTF_TABLE_3: [f64; 8] = [
        234_154.0,
        226_335.0,
        692_686.0,
        24_853.0,
        25_383.0,
        416_563.0,
        441_297.0,
        22_224_223.0,
    ];

    /// STP, ANTT and StrictF of running all 56 ordered pairs one kernel after the other.
    fn serial(goes_first: fn(f64, f64) -> bool) -> [f64; 3] {
        let mut metrics = [vec![], vec![], vec![]];
        for (i, &first) in SRTF_TABLE_3.iter().enumerate() {
            for (j, &second) in SRTF_TABLE_3.iter().enumerate().filter(|&(j, _)| j != i) {
                assert_ne!(i, j);
                let both = first + second;
                let runs = match goes_first(first, second) {
                    true => [(first, first), (second, both)],
                    false => [(first, both), (second, second)],
                };
                metrics[0].push(stp(&runs));
                metrics[1].push(antt(&runs));
                metrics[2].push(strict_f(&runs));
            }
        }
        metrics.map(|values| geometric_mean(&values))
    }

    #[test]
    fn serial_execution_gives_srtf_table_5() {
        let near = |got: [f64; 3], paper: [f64; 3], within: f64| {
            let close = got
                .iter()
                .zip(paper)
                .all(|(got, paper)| (got - paper).abs() < within);
            assert!(close, "{got:?} is not {paper:?}");
        };
        near(
            serial(|first, second| first <= second),
            [1.82, 1.13, 0.80],
            0.005,
        );
        // In order of arrival, which the paper's FIFO approaches.
        near(serial(|_, _| true), [1.454, 2.972, 0.245], 0.001);
    }
}
