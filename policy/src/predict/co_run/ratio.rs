//! Slice sizes of a pair, and what the pair gains.
//!
//! Slices of both kernels should last equally long (equation 8), because a slice that ends early leaves its room empty.
//! Which sizes there are follows from what an SM holds.

use super::chain::{ipc_alone, ipc_together};
use super::{Machine, Resident, Traits};
use crate::shape::{BlockShape, DeviceShape, Room};

/// Blocks of two kernels that reside on an SM together: a slice has as many for each SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(pub [u16; 2]);

/// A pair of slices and what is predicted of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoSchedule {
    /// Slice sizes for each SM.
    pub ratio: Ratio,
    /// Instructions a cycle and SM of each kernel (equations 5 and 6).
    pub ipc: [f64; 2],
    /// Co-scheduling profit (equation 1).
    pub profit: f64,
}

/// A kernel of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// What it does to an SM.
    pub traits: Traits,
    /// What a block takes.
    pub block: BlockShape,
    /// Instructions of a block: in whatever unit, the same for both.
    pub instructions: f64,
}

/// Returns the co-scheduling profit of kernels with instructions a cycle together and alone,
/// `1 - 1 / sum (cIPC / IPC)` (equation 1): the part of the time that is saved. 0 where nothing runs.
#[must_use]
pub fn profit(together: &[f64], alone: &[f64]) -> f64 {
    let speeds = together.iter().zip(alone);
    let speeds = speeds.filter(|(_, alone)| **alone > 0.0);
    let sum: f64 = speeds.map(|(together, alone)| together / alone).sum();
    match sum > 0.0 {
        true => 1.0 - 1.0 / sum,
        false => 0.0,
    }
}

/// Returns every number of blocks of the first kernel with which at least one of the second resides, and the most of
/// the second beside them: the occupancy limit of section 4.4. None where not one block of each fits on an SM.
pub fn ratios(device: &DeviceShape, blocks: [&BlockShape; 2]) -> impl Iterator<Item = Ratio> {
    let empty = Room::empty_sm(device);
    let [first, second] = blocks.map(|block| *block);
    let most = u16::try_from(empty.fits(&first)).unwrap_or(u16::MAX);
    let beside = move |count: u16| {
        let mut room = empty;
        room.take(&first, count.into());
        let others = u16::try_from(room.fits(&second)).unwrap_or(u16::MAX);
        (others > 0).then_some(Ratio([count, others]))
    };
    (1..=most).map_while(beside)
}

/// Which of the ratios of a pair is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// That whose slices' durations differ least, as a part of the longer one (equation 8). A ratio with equal parts
    /// does not depend on how large slices are, where the difference itself would favour small ones.
    Balanced,
    /// That with the greatest profit. Slices need not end together where the next one of a kernel begins as soon as its
    /// last one has ended, whatever the other kernel does.
    #[default]
    Profitable,
}

/// Returns the slices of a pair with what is predicted of them. None where the pair cannot reside together.
#[must_use]
pub fn best_ratio(
    machine: &Machine,
    device: &DeviceShape,
    pair: [&Candidate; 2],
    choice: Choice,
) -> Option<CoSchedule> {
    let alone = pair.map(|kernel| alone(machine, device, kernel));
    let blocks = pair.map(|kernel| &kernel.block);
    let mut best = None;
    for ratio in ratios(device, blocks) {
        let next = at_ratio(machine, pair, alone, ratio);
        best = Some(choice.better(pair, best, next));
    }
    best
}

/// Returns what is predicted of a pair with slices of a ratio; `alone` are the instructions a cycle of each alone.
#[must_use]
pub fn at_ratio(
    machine: &Machine,
    pair: [&Candidate; 2],
    alone: [f64; 2],
    ratio: Ratio,
) -> CoSchedule {
    let ipc = ipc_at(machine, pair, ratio);
    CoSchedule {
        ratio,
        ipc,
        profit: profit(&ipc, &alone),
    }
}

impl Choice {
    /// Returns the better one of two slices of a pair, the first where they are equal.
    #[must_use]
    pub fn better(
        self,
        pair: [&Candidate; 2],
        best: Option<CoSchedule>,
        next: CoSchedule,
    ) -> CoSchedule {
        let worth = |of: &CoSchedule| match self {
            Self::Balanced => -imbalance(pair, of),
            Self::Profitable => of.profit,
        };
        match best {
            Some(best) if worth(&next) > worth(&best) => next,
            Some(best) => best,
            None => next,
        }
    }
}

/// Returns by how much the durations of a pair's slices differ, as a part of the longer one (equation 8).
fn imbalance(pair: [&Candidate; 2], of: &CoSchedule) -> f64 {
    let time = [0, 1].map(|at| {
        let instructions = pair[at].instructions * f64::from(of.ratio.0[at]);
        instructions / of.ipc[at].max(f64::MIN_POSITIVE)
    });
    (time[0] - time[1]).abs() / time[0].max(time[1]).max(f64::MIN_POSITIVE)
}

/// Returns the instructions a cycle of a pair with slices of a ratio.
#[must_use]
pub fn ipc_at(machine: &Machine, pair: [&Candidate; 2], Ratio(blocks): Ratio) -> [f64; 2] {
    let resident = [0, 1].map(|at| Resident {
        traits: pair[at].traits,
        blocks: blocks[at],
    });
    ipc_together(machine, resident.each_ref())
}

/// Returns the instructions a cycle of a kernel that fills its SMs alone.
#[must_use]
pub fn alone(machine: &Machine, device: &DeviceShape, kernel: &Candidate) -> f64 {
    let resident = Resident {
        traits: kernel.traits,
        blocks: crate::shape::max_residency(device, &kernel.block),
    };
    ipc_alone(machine, &resident)
}

#[cfg(test)]
mod tests {
    use super::Choice::{Balanced, Profitable};
    use super::{Candidate, Ratio, alone, best_ratio, profit, ratios};
    use crate::predict::co_run::{Machine, Traits};
    use crate::shape::{BlockShape, DeviceShape};

    /// 1024 threads and 8 blocks.
    const DEVICE: DeviceShape = DeviceShape::small(2);
    const MACHINE: Machine = Machine {
        schedulers: 1,
        width: 1.0,
        special_cycles: 1.0,
        dependent_cycles: 1.0,
        shared_cycles: 1.0,
        latencies: [400.0; 3],
        misses: 1e9,
        bytes_per_cycle: 1e12,
        a0: 1.0,
        b0: 0.0,
    };

    fn candidate(memory_ratio: f64, threads: u32, instructions: f64) -> Candidate {
        Candidate {
            traits: Traits {
                memory_ratio,
                lines: 1.0,
                independent: 1.0,
                warps: threads.div_ceil(32),
                ..Traits::default()
            },
            block: BlockShape::of_threads(threads),
            instructions,
        }
    }

    #[test]
    fn profit_is_the_time_that_is_saved() {
        // Both at three quarters of their speeds: what took two times takes four thirds.
        assert!((profit(&[0.75, 1.5], &[1.0, 2.0]) - 1.0 / 3.0).abs() < 1e-12);
        // Half the speed each gains nothing, less loses.
        assert!(profit(&[0.5, 0.5], &[1.0, 1.0]).abs() < 1e-12);
        assert!(profit(&[0.25, 0.25], &[1.0, 1.0]) < 0.0);
        assert_eq!(profit(&[], &[]), 0.0);
        assert_eq!(profit(&[1.0], &[0.0]), 0.0);
    }

    #[test]
    fn a_ratio_has_as_many_of_the_second_as_fit() {
        let [large, small] = [256, 128].map(BlockShape::of_threads);
        let found: Vec<Ratio> = ratios(&DEVICE, [&large, &small]).collect();
        assert_eq!(found, [Ratio([1, 6]), Ratio([2, 4]), Ratio([3, 2])]);
        let whole = BlockShape::of_threads(1024);
        assert_eq!(ratios(&DEVICE, [&whole, &small]).count(), 0);
        let too_large = BlockShape::of_threads(2048);
        assert_eq!(ratios(&DEVICE, [&too_large, &small]).count(), 0);
        assert_eq!(ratios(&DEVICE, [&small, &too_large]).count(), 0);
    }

    #[test]
    fn slices_of_a_balanced_ratio_last_equally_long() {
        // Equal kernels, one with three times the instructions a block: three blocks of the other one beside one of it.
        let (long, short) = (candidate(0.0, 128, 300.0), candidate(0.0, 128, 100.0));
        let found = best_ratio(&MACHINE, &DEVICE, [&long, &short], Balanced).expect("they fit");
        // They issue in proportion to their warps, so each block makes the same progress, whatever the ratio.
        assert!((found.ipc[0] + found.ipc[1] - 1.0).abs() < 1e-9);
        assert!(found.profit.abs() < 1e-9, "{found:?}");
        let waits = candidate(0.3, 128, 100.0);
        let found = best_ratio(&MACHINE, &DEVICE, [&short, &waits], Balanced).expect("they fit");
        assert!(found.profit > 0.05, "{found:?}");
        let time = [0, 1].map(|at| 100.0 * f64::from(found.ratio.0[at]) / found.ipc[at]);
        for ratio in ratios(&DEVICE, [&short.block, &waits.block]) {
            let ipc = super::ipc_at(&MACHINE, [&short, &waits], ratio);
            let other = [0, 1].map(|at| 100.0 * f64::from(ratio.0[at]) / ipc[at]);
            let apart = |time: [f64; 2]| (time[0] - time[1]).abs() / time[0].max(time[1]);
            assert!(apart(time) <= apart(other) + 1e-12, "{ratio:?}");
        }
        let best = best_ratio(&MACHINE, &DEVICE, [&short, &waits], Profitable).expect("they fit");
        assert!(best.profit > found.profit, "{best:?} {found:?}");
    }

    #[test]
    fn pairs_that_cannot_share_and_kernels_of_nothing_have_results() {
        let whole = candidate(0.1, 1024, 100.0);
        assert_eq!(
            best_ratio(&MACHINE, &DEVICE, [&whole, &whole], Balanced),
            None
        );
        let nothing = candidate(0.1, 128, 0.0);
        let found =
            best_ratio(&MACHINE, &DEVICE, [&nothing, &nothing], Balanced).expect("they fit");
        assert!(found.profit.is_finite() && found.ipc.iter().all(|ipc| ipc.is_finite()));
        let too_large = candidate(0.1, 4096, 1.0);
        assert_eq!(alone(&MACHINE, &DEVICE, &too_large), 0.0);
    }
}
