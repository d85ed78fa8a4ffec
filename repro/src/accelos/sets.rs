//! Drawing sets of kernels, and running them.
//!
//! Rules: the same part of a draw is always the same sets; a set that is drawn again, in whatever order, is run once,
//! in the order in which it was drawn first, and counts as often as it was drawn.

use crate::context::Context;
use crate::world::{Contender, World};
use anyhow::Result;
use gridmux_policy::metrics::{antt, overlap, stp, unfairness};
use gridmux_policy::units::Cycles;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Sets in one part of the store.
const SETS_OF_A_PART: usize = 256;

/// A set, and how often it was drawn.
type Counted = (Vec<usize>, u32);

/// Sets of one size.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    /// Kernels of a set.
    pub(crate) size: usize,
    /// Each different set, and how often it was drawn.
    pub(crate) sets: Vec<Counted>,
}

/// What a policy made of a set.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Made {
    /// Greatest slowdown over the least.
    pub(crate) unfairness: f64,
    /// Time with all running over the time with any running.
    pub(crate) overlap: f64,
    /// Time until the last kernel ended, in cycles.
    pub(crate) makespan: f64,
    /// Sum of time alone over time together.
    pub(crate) stp: f64,
    /// Mean slowdown.
    pub(crate) antt: f64,
}

/// What each policy made of each set of a draw.
#[derive(Clone, Debug)]
pub(crate) struct Results(Vec<(String, Vec<Made>)>);

impl Draw {
    /// Returns all ordered pairs, and part of the 16,384 sets of 4 and 32,768 of 8 that the paper drew (section 7.2).
    pub(crate) fn of_the_paper(kernels: usize, part: f64) -> [Self; 3] {
        let pair = |at: usize| (vec![at / kernels, at % kernels], 1);
        let pairs = Self {
            size: 2,
            sets: (0..kernels * kernels).map(pair).collect(),
        };
        [
            pairs,
            Self::new(kernels, 4, 16_384, part),
            Self::new(kernels, 8, 32_768, part),
        ]
    }

    /// Draws part of a number of sets, with repetition.
    #[allow(clippy::cast_possible_truncation, reason = "a number of sets")]
    pub(crate) fn new(kernels: usize, size: usize, drawn: usize, part: f64) -> Self {
        let drawn = ((drawn as f64 * part).round() as usize).max(1);
        let mut state = size as u64;
        let mut next = || {
            // Knuth's MMIX generator; its upper bits are good enough to choose kernels.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap_or(0) % kernels
        };
        let mut sets: Vec<Counted> = Vec::new();
        let mut places = HashMap::new();
        for _ in 0..drawn {
            let set: Vec<usize> = (0..size).map(|_| next()).collect();
            let mut sorted = set.clone();
            sorted.sort_unstable();
            let place = *places.entry(sorted).or_insert_with(|| {
                sets.push((set, 0));
                sets.len() - 1
            });
            sets[place].1 += 1;
        }
        Self { size, sets }
    }

    /// Returns how many sets were drawn.
    pub(crate) fn drawn(&self) -> u32 {
        self.sets.iter().map(|(_, times)| times).sum()
    }

    /// Returns the mean over the sets of a value that each set has.
    pub(crate) fn mean(&self, value: impl Fn(usize) -> f64) -> f64 {
        let weighted = (0..)
            .zip(&self.sets)
            .map(|(at, (_, times))| f64::from(*times) * value(at));
        weighted.sum::<f64>() / f64::from(self.drawn())
    }

    /// Returns the part of the sets of which something holds.
    pub(crate) fn part(&self, holds: impl Fn(usize) -> bool) -> f64 {
        self.mean(|at| f64::from(u8::from(holds(at))))
    }
}

impl Results {
    /// Runs every set under every policy.
    pub(crate) fn of(
        context: &Context,
        world: &World,
        contenders: &[Contender],
        draw: &Draw,
    ) -> Result<Self> {
        let chunks = || draw.sets.chunks(SETS_OF_A_PART);
        let parts: Vec<(&Contender, &[Counted])> = contenders
            .iter()
            .flat_map(|contender| chunks().map(move |chunk| (contender, chunk)))
            .collect();
        let worlds = world.key();
        let name = format!("sets of {} kernels", draw.size);
        let made = context.parts(
            &name,
            &parts,
            |(contender, sets)| format!("{} {sets:?}, {worlds}", contender.key()),
            |(contender, sets)| {
                let all = sets.iter().map(|(set, _)| one(world, contender, set));
                all.collect::<Result<Vec<Made>>>()
            },
        )?;
        let mut made = made.into_iter();
        let by_policy = |contender: &Contender| {
            let own = made.by_ref().take(chunks().count());
            (contender.name.clone(), own.flatten().collect())
        };
        Ok(Self(contenders.iter().map(by_policy).collect()))
    }

    /// Returns what a policy made of each set.
    ///
    /// # Panics
    /// If it was not run.
    pub(crate) fn get(&self, policy: &str) -> &[Made] {
        let found = self.0.iter().find(|(name, _)| name == policy);
        &found.unwrap_or_else(|| panic!("{policy} was not run")).1
    }
}

/// Runs a set whose kernels start together.
pub(super) fn one(world: &World, contender: &Contender, set: &[usize]) -> Result<Made> {
    let launches: Vec<(usize, Cycles)> = set.iter().map(|kernel| (*kernel, Cycles(0))).collect();
    let went = world.run(contender, &launches, |policy| policy)?;
    let times = world.times(&launches, &went);
    let spans = went
        .iter()
        .map(|went| (went.start.0 as f64, went.end.0 as f64));
    let spans: Vec<(f64, f64)> = spans.collect();
    Ok(Made {
        unfairness: unfairness(&times),
        overlap: overlap(&spans),
        makespan: spans.iter().fold(0.0, |last, span| last.max(span.1)),
        stp: stp(&times),
        antt: antt(&times),
    })
}

#[cfg(test)]
mod tests {
    use super::Draw;

    #[test]
    fn a_draw_counts_sets_whatever_their_order() {
        let draw = Draw::new(3, 2, 600, 1.0);
        assert_eq!(draw.drawn(), 600);
        assert_eq!(
            draw.sets.len(),
            6,
            "pairs of three kernels: {:?}",
            draw.sets
        );
        assert!(
            draw.sets.iter().all(|(_, times)| (40..240).contains(times)),
            "{:?}",
            draw.sets
        );
        assert!((draw.mean(|_| 2.0) - 2.0).abs() < 1e-12);
        assert!((draw.part(|at| at == 0) - f64::from(draw.sets[0].1) / 600.0).abs() < 1e-12);
    }

    #[test]
    fn a_part_of_a_draw_is_its_beginning() {
        let (all, tenth) = (Draw::new(20, 8, 1000, 1.0), Draw::new(20, 8, 1000, 0.1));
        assert_eq!(tenth.drawn(), 100);
        let first = |draw: &Draw, at: usize| draw.sets[at].0.clone();
        assert!((0..tenth.sets.len()).all(|at| first(&all, at) == first(&tenth, at)));
        assert_eq!(
            Draw::of_the_paper(20, 0.01)[0].sets.len(),
            400,
            "pairs are always all"
        );
    }
}
