//! What was predicted of pairs: each ratio once, a few at a time.
//!
//! A prediction is a steady state of the chain, which takes up to milliseconds, and many kernels have many pairs; so
//! that nobody waits for all of them, a search begins with [`Predictions::begin`] and ends after [`MOST`] of them.
//!
//! Rule: a pair is known when each of its ratios was predicted; until then nothing is said of it.

use super::ratio::{self, Candidate, Choice, CoSchedule, ratios};
use super::{Machine, Thresholds, Utilisation, find_co_schedule};
use crate::ids::ProfileKey;
use crate::shape::DeviceShape;
use std::collections::BTreeMap;

/// Predictions of one search at most.
pub const MOST: u32 = 8;

/// A kernel of pairs.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Its name.
    pub key: ProfileKey,
    /// What the chain takes.
    pub candidate: Candidate,
    /// How far it uses the device alone.
    pub used: Utilisation,
    /// Instructions a cycle and SM that are predicted of it alone.
    pub alone: f64,
}

/// What was predicted so far of a pair.
#[derive(Clone, Copy, Debug, Default)]
struct Predicted {
    /// The best of the ratios that were tried.
    best: Option<CoSchedule>,
    tried: usize,
    /// There is no other ratio.
    is_known: bool,
}

/// Predictions of pairs by the names of their kernels, the lesser one first.
#[derive(Debug)]
pub struct Predictions {
    machine: Machine,
    device: DeviceShape,
    choice: Choice,
    pairs: BTreeMap<[ProfileKey; 2], Predicted>,
    /// Predictions that are left of this search.
    left: u32,
    /// Some were not made for that reason.
    is_unfinished: bool,
}

impl Predictions {
    /// Returns none, for SMs of that kind.
    #[must_use]
    pub fn new(machine: Machine, device: &DeviceShape, choice: Choice) -> Self {
        Self {
            machine,
            device: *device,
            choice,
            pairs: BTreeMap::new(),
            left: 0,
            is_unfinished: false,
        }
    }

    /// Begins a search.
    pub fn begin(&mut self) {
        self.left = MOST;
        self.is_unfinished = false;
    }

    /// Returns whether a search has to follow because the last one made as many predictions as it may.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Forgets all pairs.
    pub fn clear(&mut self) {
        self.pairs.clear();
    }

    /// Returns the instructions a cycle and SM that are predicted of a kernel alone; nothing in this search any more.
    pub fn alone(&mut self, kernel: &Candidate) -> Option<f64> {
        self.spend()
            .then(|| ratio::alone(&self.machine, &self.device, kernel))
    }

    /// Returns the places of the two kernels with the greatest profit of those pairs that are known, the one with the
    /// lesser name first, and their slices; nothing where no pair gains anything.
    pub fn best(
        &mut self,
        thresholds: Thresholds,
        kernels: &[Kernel],
    ) -> Option<([usize; 2], CoSchedule)> {
        let device = self.device;
        let resides = move |pair: &[usize; 2]| {
            let blocks = pair.map(|at| &kernels[at].candidate.block);
            ratios(&device, blocks).next().is_some()
        };
        let pairs = (0..kernels.len())
            .flat_map(|one| (0..one).map(move |other| [other, one]))
            .map(|[one, other]| match kernels[one].key > kernels[other].key {
                true => [other, one],
                false => [one, other],
            })
            .filter(resides)
            .map(|pair| (pair, pair.map(|at| kernels[at].used)));
        find_co_schedule(thresholds, pairs, |pair| {
            let of = self.predict(pair.map(|at| &kernels[at]))?;
            Some((of.profit, of))
        })
    }

    /// Returns the slices of a pair once all of its ratios were predicted.
    fn predict(&mut self, pair: [&Kernel; 2]) -> Option<CoSchedule> {
        let keys = pair.map(|kernel| kernel.key);
        let mut of = self.pairs.get(&keys).copied().unwrap_or_default();
        if of.is_known {
            return of.best;
        }
        let candidates = pair.map(|kernel| &kernel.candidate);
        let blocks = pair.map(|kernel| &kernel.candidate.block);
        let alone = pair.map(|kernel| kernel.alone);
        let device = self.device;
        of.is_known = true;
        for ratio in ratios(&device, blocks).skip(of.tried) {
            if !self.spend() {
                of.is_known = false;
                break;
            }
            let next = ratio::at_ratio(&self.machine, candidates, alone, ratio);
            of.best = Some(self.choice.better(candidates, of.best, next));
            of.tried += 1;
        }
        self.pairs.insert(keys, of);
        of.best.filter(|_| of.is_known)
    }

    /// Takes one of the predictions that are left; returns whether there was one.
    fn spend(&mut self) -> bool {
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        self.is_unfinished |= !may;
        may
    }
}

#[cfg(test)]
mod tests {
    use super::{Kernel, MOST, Predictions};
    use crate::ids::ProfileKey;
    use crate::predict::co_run::{
        Candidate, Choice, Machine, Thresholds, Traits, Utilisation, best_ratio,
    };
    use crate::shape::{BlockShape, DeviceShape};

    const DEVICE: DeviceShape = DeviceShape::h200(2);

    /// A kernel whose blocks hold a thirty-second of an SM.
    fn kernel(predictions: &mut Predictions, key: u64, memory_ratio: f64) -> Kernel {
        let candidate = Candidate {
            traits: Traits {
                memory_ratio,
                lines: 1.0,
                independent: 1.0,
                warps: 2,
                ..Traits::default()
            },
            block: BlockShape::of_threads(64),
            instructions: 100.0,
        };
        predictions.begin();
        Kernel {
            key: ProfileKey(key),
            candidate,
            used: Utilisation {
                pur: 1.0 - memory_ratio,
                mur: memory_ratio,
            },
            alone: predictions.alone(&candidate).expect("a search has begun"),
        }
    }

    /// 31 ratios take four searches of eight, whatever is asked in between, and then none.
    #[test]
    fn a_search_makes_few_predictions_and_the_next_one_goes_on() {
        let machine = Machine::like(&DEVICE);
        let mut predictions = Predictions::new(machine, &DEVICE, Choice::Profitable);
        let kernels = [(2, 0.0), (1, 0.5)].map(|(key, ratio)| kernel(&mut predictions, key, ratio));
        let mut searches = 0;
        let found = loop {
            searches += 1;
            predictions.begin();
            let found = predictions.best(Thresholds::default(), &kernels);
            if !predictions.is_unfinished() {
                break found.expect("they complement each other");
            }
            assert!(searches < 9, "it does not end");
            assert_eq!(found, None, "it is not known yet");
        };
        assert_eq!(searches, 31_u32.div_ceil(MOST));
        let pair = [&kernels[1].candidate, &kernels[0].candidate];
        let best = best_ratio(&machine, &DEVICE, pair, Choice::Profitable);
        assert_eq!(found, ([1, 0], best.expect("they fit")));
        predictions.left = 0;
        let again = predictions.best(Thresholds::default(), &kernels);
        assert_eq!(again, Some(found), "what is known costs nothing");
    }

    /// Two kernels that fill an SM each use it as unlike as can be, and cannot reside together: the other pairs, which
    /// would be left out beside them, are what is looked at.
    #[test]
    fn pairs_that_cannot_reside_together_hold_no_threshold_up() {
        let machine = Machine::like(&DEVICE);
        let mut predictions = Predictions::new(machine, &DEVICE, Choice::Profitable);
        let mut kernels = [(1, 0.0), (2, 0.5), (3, 0.0)]
            .map(|(key, ratio)| kernel(&mut predictions, key, ratio))
            .to_vec();
        kernels[1].used = Utilisation { pur: 0.9, mur: 0.0 };
        kernels[2].candidate.block = BlockShape::of_threads(2048);
        kernels[2].used = Utilisation::default();
        let found = loop {
            predictions.begin();
            let found = predictions.best(Thresholds::default(), &kernels);
            if !predictions.is_unfinished() {
                break found;
            }
        };
        let (pair, of) = found.expect("the first two gain by each other");
        assert_eq!(pair, [0, 1]);
        assert!(of.profit > 0.0);
    }
}
