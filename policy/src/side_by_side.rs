//! SMs on which kernels are sampled at the same time, each with another number of blocks (Warped-Slicer, section IV-A,
//! Figure 4).
//!
//! The SMs are divided evenly between the kernels. A kernel that is sampled has 1, 2, … blocks on its SMs, one after
//! another; where it has fewer SMs than an SM holds blocks of it, it goes on in further rounds, in each of which every
//! SM has one step more, so that none has to wait for blocks to leave. A kernel that is not sampled has as many blocks
//! on its own SMs as they hold.
//!
//! Rules: SMs with the same kernel and number of blocks are a group; rounds are [`MOST_ROUNDS`] at most, and where they
//! are too few the numbers of blocks are spread evenly between one and the most.

use crate::ids::RowId;
use crate::sm_set::SmSet;

/// Rounds in which all numbers of blocks are sampled, at most.
const MOST_ROUNDS: u16 = 8;

/// A kernel that has SMs of its own.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// Its row.
    pub row: RowId,
    /// Blocks that an SM holds of it.
    pub most: u16,
    /// It is sampled.
    pub sampled: bool,
}

/// A group of SMs with one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Own {
    /// Its SMs.
    pub sms: SmSet,
    /// Place of the kernel.
    pub kernel: usize,
    /// Its blocks on each SM.
    pub blocks: u16,
    /// What is sampled there.
    pub point: Option<Point>,
}

/// A point of a kernel's curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The kernel.
    pub row: RowId,
    /// Its blocks on an SM.
    pub blocks: u16,
    /// Its blocks on an SM in this round, the mean of its SMs (CTA_avg in equation 4).
    pub mean: f64,
}

/// Returns the SMs, from and to, of the kernel at a place among `kernels`, of which there are no more than SMs.
#[must_use]
pub fn span(sms: u16, kernel: usize, kernels: usize) -> (u16, u16) {
    let at = |kernel: usize| usize::from(sms) * kernel / kernels.max(1);
    let sm = |at: usize| u16::try_from(at).unwrap_or(sms);
    (sm(at(kernel)), sm(at(kernel + 1)))
}

/// How the numbers of blocks of one kernel are spread over its SMs and the rounds.
#[derive(Clone, Copy, Debug)]
struct Spread {
    most: u16,
    /// Numbers of blocks that are sampled.
    points: u16,
    rounds: u16,
}

impl Spread {
    /// Spreads over `sms` SMs, at least one.
    fn over(sms: u16, most: u16) -> Self {
        let points = most.min(sms.saturating_mul(MOST_ROUNDS)).max(1);
        Self {
            most,
            points,
            rounds: points.div_ceil(sms.max(1)),
        }
    }

    /// Returns how many groups the kernel's SMs are in.
    fn groups(&self) -> u16 {
        self.points.div_ceil(self.rounds)
    }

    /// Returns the number of blocks on an SM of a group in a round.
    fn blocks(&self, group: u16, round: u16) -> u16 {
        let point = group * self.rounds + round.min(self.rounds - 1);
        let point = u32::from(point.min(self.points - 1));
        let steps = u32::from(self.points - 1).max(1);
        let blocks = 1 + (point * u32::from(self.most.max(1) - 1) + steps / 2) / steps;
        u16::try_from(blocks).unwrap_or(self.most)
    }
}

/// Returns how many rounds sampling takes.
#[must_use]
pub fn rounds(sms: u16, owners: &[Owner]) -> u16 {
    let of = |(kernel, owner): (usize, &Owner)| {
        let (from, to) = span(sms, kernel, owners.len());
        Spread::over(to - from, owner.most).rounds
    };
    let sampled = (0..).zip(owners).filter(|(_, owner)| owner.sampled);
    sampled.map(of).max().unwrap_or(0)
}

/// Puts the groups of a round into `own`; there are no more kernels than SMs.
pub fn lay_out(sms: u16, owners: &[Owner], round: u16, own: &mut Vec<Own>) {
    own.clear();
    for (kernel, owner) in (0..).zip(owners) {
        let (from, to) = span(sms, kernel, owners.len());
        if !owner.sampled {
            own.push(Own {
                sms: SmSet::range(from, to),
                kernel,
                blocks: owner.most,
                point: None,
            });
            continue;
        }
        let spread = Spread::over(to - from, owner.most);
        let first = own.len();
        let mut sum = 0;
        for group in 0..spread.groups() {
            let (first_sm, end) = span(to - from, group.into(), spread.groups().into());
            let blocks = spread.blocks(group, round);
            sum += u32::from(blocks) * u32::from(end - first_sm);
            own.push(Own {
                sms: SmSet::range(from + first_sm, from + end),
                kernel,
                blocks,
                point: None,
            });
        }
        for own in &mut own[first..] {
            own.point = Some(Point {
                row: owner.row,
                blocks: own.blocks,
                mean: f64::from(sum) / f64::from(to - from),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_ROUNDS, Own, Owner, lay_out, rounds};
    use crate::ids::RowId;
    use std::collections::BTreeSet;

    fn owners(most: &[u16]) -> Vec<Owner> {
        let owner = |(row, most): (u32, &u16)| Owner {
            row: RowId(row),
            most: *most,
            sampled: true,
        };
        (0..).zip(most).map(owner).collect()
    }

    fn laid_out(sms: u16, owners: &[Owner], round: u16) -> Vec<Own> {
        let mut own = Vec::new();
        lay_out(sms, owners, round, &mut own);
        own
    }

    /// Figure 4: 16 SMs and two kernels of 8 blocks; each runs 1 to 8 blocks on its 8 SMs, 4.5 on average.
    #[test]
    fn figure_4_samples_everything_at_once() {
        let owners = owners(&[8, 8]);
        assert_eq!(rounds(16, &owners), 1);
        let own = laid_out(16, &owners, 0);
        let blocks: Vec<u16> = own.iter().map(|own| own.blocks).collect();
        assert_eq!(blocks, [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(own.iter().all(|own| own.sms.len() == 1));
        assert!(
            own.iter()
                .all(|own| own.point.is_some_and(|p| p.mean == 4.5))
        );
        assert_eq!((own[7].kernel, own[8].kernel), (0, 1));
    }

    #[test]
    fn few_sms_take_rounds_in_which_blocks_only_come() {
        let owners = owners(&[8, 3]);
        assert_eq!(rounds(8, &owners), 2);
        let blocks = |round| {
            let own = laid_out(8, &owners, round);
            own.iter().map(|own| own.blocks).collect::<Vec<_>>()
        };
        assert_eq!(blocks(0), [1, 3, 5, 7, 1, 2, 3]);
        assert_eq!(blocks(1), [2, 4, 6, 8, 1, 2, 3]);
    }

    #[test]
    fn a_kernel_that_is_not_sampled_has_its_sms_to_itself() {
        let mut owners = owners(&[4, 6]);
        owners[0].sampled = false;
        let own = laid_out(4, &owners, 0);
        assert_eq!(
            (own[0].blocks, own[0].sms.len(), own[0].point),
            (4, 2, None)
        );
        assert_eq!(own.len(), 3);
    }

    /// However many SMs and blocks there are, every SM has one kernel, blocks never go down, and the numbers of blocks
    /// from one to the most are all sampled where the rounds suffice.
    #[test]
    fn every_number_of_blocks_is_sampled() {
        for (sms, most) in (1..20).flat_map(|sms| [1, 2, 7, 8, 32].map(|most| (sms, most))) {
            let owners = owners(&[most]);
            let mut seen = BTreeSet::new();
            let mut before: Vec<u16> = Vec::new();
            for round in 0..rounds(sms, &owners) {
                let own = laid_out(sms, &owners, round);
                assert_eq!(
                    own.iter().map(|own| own.sms.len()).sum::<u32>(),
                    u32::from(sms)
                );
                let blocks: Vec<u16> = own.iter().map(|own| own.blocks).collect();
                assert!(
                    before
                        .iter()
                        .zip(&blocks)
                        .all(|(before, now)| before <= now)
                );
                seen.extend(&blocks);
                before = blocks;
            }
            let all = usize::from(most.min(sms * MOST_ROUNDS));
            assert_eq!(seen.len(), all, "{sms} SMs, {most} blocks: {seen:?}");
            assert_eq!((seen.first(), seen.last()), (Some(&1), Some(&most)));
        }
    }
}
