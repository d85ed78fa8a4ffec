//! Throughput of mixes under KERNELET, BASE, OPT and random schedules (Figures 13 and 14).
//!
//! KERNELET takes pairs and ratios by what the chain predicts, after pruning: the paper's the balanced ratio of
//! equation 8, our policy the most profitable one. OPT goes by what was measured at every ratio; MC draws both. BASE is
//! kernel consolidation: the oldest launch has as many blocks as fit, the next one whose blocks fit beside them what is
//! left. That is our policy `fifo`.

use super::device::{AtRatio, Device};
use super::kernels::{KERNELS, MIXES};
use super::replay::{Arrivals, Runs, Waiting};
use crate::tables::{Figures, Note, Row};
use anyhow::{Context as _, Result};
use gridmux_policy::predict::co_run::{Choice, Thresholds, best_ratio, find_co_schedule, profit};
use gridmux_policy::shape::max_residency;
use gridmux_workloads::Prng;

/// Launches of each kernel of a mix.
const EACH: u32 = 250;
/// Launches that arrive in the time of one, so that several wait at any time.
const LOAD: f64 = 2.0;
const SEED: u64 = 1;
/// Thresholds that leave nothing out.
const NOTHING_PRUNED: Thresholds = Thresholds { pur: 0.0, mur: 0.0 };
/// Random schedules.
const RANDOM: u64 = 1000;

/// What the paper's figures are of: equation 8's ratios.
pub(super) const KERNELET_OVER_BASE: &str = "kernelet, balanced ratios, over base";
const OPT_OVER_KERNELET: &str = "opt over kernelet, balanced ratios";

const NOTES: &[Note] = &[
    Note {
        rows: &[OPT_OVER_KERNELET],
        metrics: &[],
        why: "Equation 8 takes the ratio at which both slices end together, OPT the one that gains most; how much of \
              the difference is due to that, the rows with the ratios of the greatest predicted profit show. What is \
              left is the chain's error in profit.",
    },
    Note {
        rows: &[],
        metrics: &[],
        why: "The paper gives the least and the greatest of the four mixes; what pairs gain depends on the kernels, \
              which are not the paper's programs.",
    },
];

/// What a scheduler has chosen of a pair: its profit as it sees it, and the speeds that this has in truth.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    profit: f64,
    speeds: [f64; 2],
}

/// Pairs by the places of both kernels, the first one's greater.
type Pairs = Vec<Vec<Option<Chosen>>>;

/// How long a mix takes under each scheduler.
struct Times {
    base: f64,
    kernelet: f64,
    balanced: f64,
    unpruned: f64,
    opt: f64,
    random: Vec<f64>,
}

/// Pairs as KERNELET sees them with two choices of ratios, and as they are.
struct Seen {
    profitable: Pairs,
    balanced: Pairs,
    optimal: Pairs,
}

impl Seen {
    fn of(device: &Device) -> Self {
        let truth = |one: usize, other: usize, at: &AtRatio| {
            [at.ipc[0] / device.ipc(one), at.ipc[1] / device.ipc(other)]
        };
        let predicted = |choice: Choice| {
            pairs(|one, other| {
                let kernels = [device.candidate(one), device.candidate(other)];
                let found = best_ratio(&device.machine, &device.shape, kernels.each_ref(), choice)?;
                let mut all = device.pair(one, other).iter();
                let at = all.find(|at| at.ratio == found.ratio)?;
                Some(Chosen {
                    profit: found.profit,
                    speeds: truth(one, other, at),
                })
            })
        };
        Self {
            profitable: predicted(Choice::Profitable),
            balanced: predicted(Choice::Balanced),
            optimal: pairs(|one, other| {
                let all = device.pair(one, other).iter();
                let all = all.map(|at| chosen_of(truth(one, other, at)));
                all.max_by(|one, other| one.profit.total_cmp(&other.profit))
            }),
        }
    }
}

impl Times {
    /// Replays a mix of kernels, given by their places, under every scheduler.
    fn of(device: &Device, seen: &Seen, mix: &[usize]) -> Self {
        let every = mix.len() as f64 / LOAD;
        let arrivals = Arrivals::poisson(KERNELS.len(), mix, EACH, every, SEED);
        let greedy = |pairs: &Pairs, pruned: bool| {
            arrivals.replay(|waiting| greedy(device, pairs, pruned, waiting))
        };
        let random = |seed: u64| {
            let mut prng = Prng::new(seed);
            arrivals.replay(|waiting| draw(device, waiting, &mut prng))
        };
        Self {
            base: arrivals.replay(|waiting| consolidate(device, waiting)),
            kernelet: greedy(&seen.profitable, true),
            balanced: greedy(&seen.balanced, true),
            unpruned: greedy(&seen.profitable, false),
            opt: greedy(&seen.optimal, false),
            random: (0..RANDOM).map(random).collect(),
        }
    }

    fn row(&self, mix: &'static str) -> Row {
        let better = |than: f64| self.random.iter().filter(|time| **time < than).count() as f64;
        let mean = self.random.iter().sum::<f64>() / self.random.len() as f64;
        let measured = [
            percent(self.base, self.kernelet),
            percent(self.base, self.balanced),
            percent(self.base, self.unpruned),
            percent(self.base, self.opt),
            percent(self.base, mean),
            better(self.kernelet),
            better(self.balanced),
        ];
        let metrics = [
            "kernelet over base",
            KERNELET_OVER_BASE,
            "kernelet, nothing pruned, over base",
            "opt over base",
            "mean of mc over base",
            "mc better than kernelet",
            "mc better than balanced ratios",
        ];
        Row::new(mix, metrics, [f64::NAN; 7], measured)
    }
}

/// Returns by how many percent the throughput is greater with the lesser time.
fn percent(slow: f64, quick: f64) -> f64 {
    100.0 * (slow / quick - 1.0)
}

/// Returns the tables of one GPU; `paper` is the least and greatest gain over BASE and difference from OPT.
pub(super) fn tables(device: &Device, paper: [[f64; 2]; 2]) -> Result<Vec<Figures>> {
    let seen = Seen::of(device);
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for (mix, names) in MIXES {
        let place = |name: &&str| KERNELS.iter().position(|kernel| kernel.name == *name);
        let places: Option<Vec<usize>> = names.iter().map(place).collect();
        let places = places.context("a mix of other kernels")?;
        let times = Times::of(device, &seen, &places);
        rows.push(times.row(mix));
        all.push(times);
    }
    let name = &device.name;
    Ok(vec![
        Figures {
            name: format!("Throughput of mixes on {name} (Figures 13 and 14)"),
            about: format!(
                "In percent; {EACH} launches of each kernel, Poisson arrivals of {LOAD} launches in the time of one, \
                 replayed with the speeds that pairs were measured to have; every launch takes equally long alone, and \
                 slices cost nothing. BASE is our policy fifo. The paper's KERNELET takes the balanced ratio of \
                 equation 8; ours, `kernelet`, the one with the greatest predicted profit; OPT the best that was \
                 measured. The columns of mc count those of {RANDOM} random schedules that are quicker."
            ),
            rows,
            notes: NOTES.to_vec(),
        },
        beside_paper(name, &all, paper),
    ])
}

/// Returns the least and the greatest of all mixes beside the paper's, which are of its balanced ratios.
fn beside_paper(name: &str, all: &[Times], [gain, gap]: [[f64; 2]; 2]) -> Figures {
    let row = |name: &str, paper: [f64; 2], of: fn(&Times) -> f64| {
        let each = || all.iter().map(of);
        let least = each().fold(f64::INFINITY, f64::min);
        let most = each().fold(f64::NEG_INFINITY, f64::max);
        Row::new(name, ["least", "greatest"], paper, [least, most])
    };
    const NONE: [f64; 2] = [f64::NAN; 2];
    Figures {
        name: format!("Throughput of all mixes on {name} beside the paper's (section 5.4)"),
        about: "In percent, the least and the greatest of the four mixes. The paper's figures are of the balanced \
                ratios of equation 8; the other rows are our policy's, the ratios with the greatest predicted profit."
            .to_owned(),
        rows: vec![
            row(KERNELET_OVER_BASE, gain, |t| percent(t.base, t.balanced)),
            row(OPT_OVER_KERNELET, gap, |t| percent(t.balanced, t.opt)),
            row("kernelet over base", NONE, |t| percent(t.base, t.kernelet)),
            row("opt over kernelet", NONE, |t| percent(t.kernelet, t.opt)),
        ],
        notes: NOTES.to_vec(),
    }
}

fn chosen_of(speeds: [f64; 2]) -> Chosen {
    Chosen {
        profit: profit(&speeds, &[1.0, 1.0]),
        speeds,
    }
}

fn pairs(of: impl Fn(usize, usize) -> Option<Chosen>) -> Pairs {
    let row = |one: usize| (0..one).map(|other| of(one, other)).collect();
    (0..KERNELS.len()).map(row).collect()
}

/// Returns the pair with the greatest profit (Algorithm 1), or the oldest launch where no pair has any.
fn greedy(device: &Device, pairs: &Pairs, pruned: bool, waiting: &Waiting) -> Runs {
    let kernels: Vec<usize> = waiting.kernels().collect();
    let candidates = kernels.iter().flat_map(|one| {
        let others = kernels.iter().filter(move |other| *other < one);
        others.map(move |other| (*one, *other))
    });
    let candidates = candidates.filter_map(|(one, other)| {
        let used = [one, other].map(|kernel| device.utilisation(kernel));
        Some(((one, other, pairs[one][other]?), used))
    });
    let thresholds = match pruned {
        true => device.thresholds,
        false => NOTHING_PRUNED,
    };
    let best = find_co_schedule(thresholds, candidates, |(_, _, chosen)| {
        Some((chosen.profit, chosen.speeds))
    });
    match best {
        Some(((one, other, _), speeds)) => Runs::Together([(one, speeds[0]), (other, speeds[1])]),
        None => Runs::Alone(waiting.by_arrival()[0]),
    }
}

/// Returns the oldest launch and the next one that has room beside it.
fn consolidate(device: &Device, waiting: &Waiting) -> Runs {
    let kernels = waiting.by_arrival();
    let oldest = kernels[0];
    let most = max_residency(&device.shape, &device.full[oldest].block);
    let speeds_beside = |other: usize| {
        let (one, second) = (oldest.max(other), oldest.min(other));
        let own = usize::from(oldest < other);
        let all = device.pair(one, second).iter();
        let full = all.filter(|at| at.ratio.0[own] == most);
        let at = full.max_by_key(|at| at.ratio.0[1 - own])?;
        Some([
            (oldest, at.ipc[own] / device.ipc(oldest)),
            (other, at.ipc[1 - own] / device.ipc(other)),
        ])
    };
    let mut beside = kernels[1..].iter();
    match beside.find_map(|other| speeds_beside(*other)) {
        Some(rates) => Runs::Together(rates),
        None => Runs::Alone(oldest),
    }
}

/// Returns a random pair at a random ratio.
fn draw(device: &Device, waiting: &Waiting, prng: &mut Prng) -> Runs {
    let mut kernels: Vec<usize> = waiting.kernels().collect();
    let mut pick = |count: usize| prng.below(u32::try_from(count).unwrap_or(u32::MAX)) as usize;
    let first = kernels.swap_remove(pick(kernels.len()));
    if kernels.is_empty() {
        return Runs::Alone(first);
    }
    let second = kernels[pick(kernels.len())];
    let (one, other) = (first.max(second), first.min(second));
    let all = device.pair(one, other);
    if all.is_empty() {
        return Runs::Alone(first);
    }
    let at = &all[pick(all.len())];
    Runs::Together([
        (one, at.ipc[0] / device.ipc(one)),
        (other, at.ipc[1] / device.ipc(other)),
    ])
}

#[cfg(test)]
mod tests {
    use super::{KERNELET_OVER_BASE, OPT_OVER_KERNELET, Times, beside_paper};

    #[test]
    fn the_papers_figures_stand_beside_its_balanced_ratios_and_ours_beside_none() {
        let times = |balanced: f64| Times {
            base: 120.0,
            kernelet: 60.0,
            balanced,
            unpruned: 60.0,
            opt: 50.0,
            random: vec![55.0, 70.0, 90.0],
        };
        let all = [times(100.0), times(80.0)];
        let table = beside_paper("gpu", &all, [[5.0, 31.1], [0.7, 3.1]]);
        let row = table.row(KERNELET_OVER_BASE);
        assert_eq!(row.paper["greatest"], 31.1);
        assert!((row.measured["least"] - 20.0).abs() < 1e-9, "{row:?}");
        assert!((row.measured["greatest"] - 50.0).abs() < 1e-9, "{row:?}");
        let row = table.row(OPT_OVER_KERNELET);
        assert_eq!(row.paper["least"], 0.7);
        assert!((row.measured["least"] - 60.0).abs() < 1e-9, "{row:?}");
        let ours = table.row("kernelet over base");
        assert!(ours.paper.is_empty() && (ours.measured["least"] - 100.0).abs() < 1e-9);
        let mix = all[1].row("MIX");
        assert_eq!(mix.measured["mc better than kernelet"], 1.0);
        assert_eq!(mix.measured["mc better than balanced ratios"], 2.0);
    }
}
