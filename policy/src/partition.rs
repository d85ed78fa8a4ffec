//! Dominant-resource-fair partition of SMs (SMK section 5.3.2, Figures 6 and 8), with weights.
//!
//! An SM starts empty. Again and again the tenant with the lowest weighted dominant share gets one
//! more block, until nothing fits. When the lowest one's block no longer fits, the others go on.
//! Ties go to the smaller block, then to the earlier place in the list.
//!
//! Two things are added to the paper:
//! - **Dither.** Levels carry over from one SM to the next, so what blocks are too coarse to give on
//!   one SM is made up on the next; caps such as (5, 2, 2) here and (4, 3, 2) there average out.
//! - **Start levels.** A tenant that is owed or owes time starts below or above the others.
//!
//! Levels are integers in units of 1 / (1024 · lcm of the SM's limits): comparisons are exact, and
//! without start levels one SM comes out exactly as in the paper.

use crate::shape::{BlockShape, DeviceShape, Room, dominant_share};
use crate::share::{Share, gcd};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Holding some back changes what the lowest gets; the second pass settles it.
const EVEN_PASSES: u32 = 2;

/// A tenant's side of the partition.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Its weight; 0 counts as 1.
    pub weight: u32,
    /// Where its level starts, in SMs held on the whole device: below zero when it is owed time.
    pub start: f64,
}

/// A kernel that wants blocks on SMs.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Whose it is: a place in the list of claims.
    pub claim: usize,
    /// What each block takes.
    pub block: BlockShape,
    /// How many blocks it could use on the whole device.
    pub blocks: u64,
}

/// What a partition gives: caps by part and kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// How many SMs each part has.
    pub parts: Vec<u16>,
    /// For each part, the cap of each kernel per SM, in the order of the demands.
    pub caps: Vec<Vec<u16>>,
}

/// Partitions one empty SM among kernels of distinct tenants with equal weights: the paper's
/// procedure. Returns how many blocks each gets.
#[must_use]
pub fn partition_sm(device: &DeviceShape, blocks: &[BlockShape]) -> Vec<u16> {
    let one = DeviceShape { sms: 1, ..*device };
    let claims = vec![
        Claim {
            weight: 1,
            start: 0.0
        };
        blocks.len()
    ];
    let demand = |(claim, block): (usize, &BlockShape)| Demand {
        claim,
        block: *block,
        blocks: u64::MAX,
    };
    let demands: Vec<Demand> = blocks.iter().enumerate().map(demand).collect();
    partition(&one, &claims, &demands, 1, false)
        .caps
        .swap_remove(0)
}

/// Partitions a device, in at most `parts` groups of SMs.
///
/// With `even`, nobody is filled beyond the weighted level of the tenant that has least although it
/// wants more: room stays empty where filling it would break the ratio of the weights.
#[must_use]
pub fn partition(
    device: &DeviceShape,
    claims: &[Claim],
    demands: &[Demand],
    parts: u16,
    even: bool,
) -> Caps {
    let parts = split(device.sms, parts);
    let mut fill = Filling::new(device, claims, demands, None);
    let mut caps = fill.run(&parts);
    for _ in 0..if even { EVEN_PASSES } else { 0 } {
        let Some(ceiling) = fill.lowest_unsated() else {
            break;
        };
        fill = Filling::new(device, claims, demands, Some(ceiling));
        caps = fill.run(&parts);
    }
    Caps { parts, caps }
}

/// Sizes of at most `parts` groups, as even as they come.
fn split(sms: u16, parts: u16) -> Vec<u16> {
    let parts = parts.clamp(1, sms.max(1));
    (0..parts)
        .map(|part| sms / parts + u16::from(part < sms % parts))
        .collect()
}

/// A weighted level, compared as level / weight.
#[derive(Clone, Copy, Debug)]
struct Ceiling {
    level: i128,
    weight: i128,
}

struct Filling<'a> {
    device: &'a DeviceShape,
    claims: Vec<ClaimLevel>,
    kernels: Vec<KernelLevel>,
    ceiling: Option<Ceiling>,
    sms: i128,
    /// SMs filled so far, the part at hand included.
    reached: i128,
}

/// A claim that can have a block; the lowest weighted level comes first, then the smaller block,
/// then the earlier place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Turn {
    level: i128,
    weight: i128,
    share: i128,
    claim: usize,
    kernel: usize,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let levels = (self.level * other.weight).cmp(&(other.level * self.weight));
        levels.then((self.share, self.claim).cmp(&(other.share, other.claim)))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct ClaimLevel {
    weight: i128,
    start: i128,
    level: i128,
    kernels: Vec<usize>,
}

struct KernelLevel {
    block: BlockShape,
    share: i128,
    level: i128,
    demand: u128,
    given: u128,
}

impl<'a> Filling<'a> {
    fn new(
        device: &'a DeviceShape,
        claims: &[Claim],
        demands: &[Demand],
        ceiling: Option<Ceiling>,
    ) -> Self {
        let unit = unit(device);
        let mut levels: Vec<ClaimLevel> = claims
            .iter()
            .map(|claim| ClaimLevel::new(claim, unit))
            .collect();
        for (kernel, demand) in demands.iter().enumerate() {
            levels[demand.claim].kernels.push(kernel);
        }
        let kernels = demands.iter().map(|demand| KernelLevel {
            block: demand.block,
            share: in_units(dominant_share(device, &demand.block), unit),
            level: 0,
            demand: demand.blocks.into(),
            given: 0,
        });
        Self {
            device,
            claims: levels,
            kernels: kernels.collect(),
            ceiling,
            sms: device.sms.max(1).into(),
            reached: 0,
        }
    }

    fn run(&mut self, parts: &[u16]) -> Vec<Vec<u16>> {
        parts.iter().map(|&sms| self.fill_part(sms)).collect()
    }

    fn fill_part(&mut self, sms: u16) -> Vec<u16> {
        let before = self.reached;
        self.reached += i128::from(sms);
        for claim in &mut self.claims {
            // Start levels come in evenly, so that every SM is shared.
            claim.level += claim.start * self.reached / self.sms - claim.start * before / self.sms;
        }
        let mut room = Room::empty_sm(self.device);
        let mut caps = vec![0_u16; self.kernels.len()];
        let turns = (0..self.claims.len()).filter_map(|claim| self.turn(claim, &room));
        let mut turns: BinaryHeap<Reverse<Turn>> = turns.map(Reverse).collect();
        while let Some(Reverse(turn)) = turns.pop() {
            // Room, demand and the ceiling only ever get tighter within a part, so a claim that has
            // no turn now has none later. One whose kernel no longer fits may have another's.
            let Some(now) = self.turn(turn.claim, &room) else {
                continue;
            };
            if now == turn {
                self.place(turn, sms, &mut room);
                caps[turn.kernel] = caps[turn.kernel].saturating_add(1);
            }
            turns.extend(self.turn(turn.claim, &room).map(Reverse));
        }
        caps
    }

    fn place(&mut self, turn: Turn, sms: u16, room: &mut Room) {
        let kernel = &mut self.kernels[turn.kernel];
        room.take(&kernel.block, 1);
        kernel.level += kernel.share * i128::from(sms);
        kernel.given += u128::from(sms);
        self.claims[turn.claim].level += kernel.share * i128::from(sms);
    }

    /// What the claim would do next, if it can have a block at all.
    fn turn(&self, index: usize, room: &Room) -> Option<Turn> {
        let claim = &self.claims[index];
        if self.above_ceiling(claim) {
            return None;
        }
        let kernel = self.candidate(claim, room)?;
        let (level, weight) = (claim.level, claim.weight);
        Some(Turn {
            level,
            weight,
            share: self.kernels[kernel].share,
            claim: index,
            kernel,
        })
    }

    /// The claim's kernel with the lowest level among those that want a block here and fit.
    fn candidate(&self, claim: &ClaimLevel, room: &Room) -> Option<usize> {
        let wants = |kernel: &KernelLevel| {
            // Demand is spread over the SMs as the levels are.
            let due =
                (kernel.demand * self.reached.unsigned_abs()).div_ceil(self.sms.unsigned_abs());
            kernel.given < due && room.fits(&kernel.block) > 0
        };
        let kernels = claim.kernels.iter().copied();
        kernels
            .filter(|&kernel| wants(&self.kernels[kernel]))
            .min_by_key(|&kernel| {
                let kernel = &self.kernels[kernel];
                (kernel.level, kernel.share)
            })
    }

    fn above_ceiling(&self, claim: &ClaimLevel) -> bool {
        self.ceiling.is_some_and(|ceiling| {
            claim.level * ceiling.weight * self.sms >= ceiling.level * self.reached * claim.weight
        })
    }

    /// The lowest weighted level among the claims that have a kernel that wants more.
    fn lowest_unsated(&self) -> Option<Ceiling> {
        let unsated = |claim: &&ClaimLevel| {
            claim.kernels.iter().any(|&kernel| {
                let kernel = &self.kernels[kernel];
                kernel.given < kernel.demand
            })
        };
        let lowest = self
            .claims
            .iter()
            .filter(unsated)
            .min_by(|one, other| (one.level * other.weight).cmp(&(other.level * one.weight)))?;
        Some(Ceiling {
            level: lowest.level,
            weight: lowest.weight,
        })
    }
}

impl ClaimLevel {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a start level is bounded by the device"
    )]
    #[allow(
        clippy::cast_precision_loss,
        reason = "a start level is a measured quantity"
    )]
    fn new(claim: &Claim, unit: u64) -> Self {
        let weight = i128::from(claim.weight.max(1));
        let start = (claim.start * unit as f64).round() as i128;
        Self {
            weight,
            start,
            level: 0,
            kernels: Vec::new(),
        }
    }
}

/// How many units make one SM. Limits whose least common multiple is beyond 2^40 (no device's) are
/// counted in rounded units, so that products of levels and weights stay within 128 bits.
fn unit(device: &DeviceShape) -> u64 {
    const MOST: u64 = 1 << 40;
    let limits = [
        device.threads,
        device.blocks,
        device.registers,
        device.shared_bytes,
    ];
    let lcm = limits
        .into_iter()
        .map(|limit| u64::from(limit.max(1)))
        .fold(1_u64, |lcm, limit| {
            (lcm / gcd(lcm, limit))
                .checked_mul(limit)
                .filter(|&lcm| lcm <= MOST)
                .unwrap_or(MOST)
        });
    lcm * 1024
}

fn in_units(share: Share, unit: u64) -> i128 {
    i128::from(share.numerator()) * i128::from(unit) / i128::from(share.denominator())
}

#[cfg(test)]
mod tests {
    use super::{Claim, Demand, partition, partition_sm};
    use crate::shape::{BlockShape, DeviceShape, dominant_share};

    /// SMK Figure 8 in whole numbers: 1/10 of the registers and 1/15 of the threads, against 3/100
    /// of the registers, 6/100 of the shared memory and 1/20 of the threads.
    const FIG8: DeviceShape = DeviceShape {
        sms: 1,
        threads: 60,
        blocks: 1000,
        registers: 100,
        shared_bytes: 100,
    };
    const K1: BlockShape = BlockShape {
        threads: 4,
        registers: 10,
        shared_bytes: 0,
    };
    const K2: BlockShape = BlockShape {
        threads: 3,
        registers: 3,
        shared_bytes: 6,
    };

    const H200: DeviceShape = DeviceShape {
        sms: 12,
        threads: 2048,
        blocks: 32,
        registers: 65_536,
        shared_bytes: 233_472,
    };

    #[test]
    fn figure_8_comes_out_at_6_and_12() {
        assert_eq!(partition_sm(&FIG8, &[K1, K2]), [6, 12]);
        assert_eq!(partition_sm(&FIG8, &[K2, K1]), [12, 6]);
    }

    fn held(
        device: &DeviceShape,
        demands: &[Demand],
        parts: u16,
        claims: &[Claim],
        even: bool,
    ) -> Vec<f64> {
        let caps = partition(device, claims, demands, parts, even);
        let mut held = vec![0.0; claims.len()];
        for (caps, sms) in caps.caps.iter().zip(&caps.parts) {
            for (demand, cap) in demands.iter().zip(caps) {
                let share = dominant_share(device, &demand.block).as_f64();
                held[demand.claim] += share * f64::from(*cap) * f64::from(*sms);
            }
        }
        held
    }

    fn demand(claim: usize, threads: u32) -> Demand {
        let block = BlockShape {
            threads,
            registers: threads * 16,
            shared_bytes: 0,
        };
        Demand {
            claim,
            block,
            blocks: u64::MAX,
        }
    }

    #[test]
    fn coarse_blocks_average_out_over_sms() {
        let claims = [2, 1, 1].map(|weight| Claim { weight, start: 0.0 });
        let demands = [demand(0, 512), demand(1, 768), demand(2, 256)];
        let held = held(&H200, &demands, 12, &claims, true);
        let total: f64 = held.iter().sum();
        for (held, weight) in held.iter().zip([0.5, 0.25, 0.25]) {
            assert!(
                (held / total / weight - 1.0).abs() < 0.06,
                "{held} of {total}"
            );
        }
        assert!(total > 10.5, "{total} of 12 SMs are in use");
    }

    #[test]
    fn who_is_owed_starts_lower() {
        let claims = [
            Claim {
                weight: 1,
                start: -3.0,
            },
            Claim {
                weight: 1,
                start: 3.0,
            },
        ];
        let held = held(&H200, &[demand(0, 256), demand(1, 256)], 12, &claims, false);
        assert!(
            (held[0] - 9.0).abs() < 0.3 && (held[1] - 3.0).abs() < 0.3,
            "{held:?}"
        );
    }

    #[test]
    fn what_one_cannot_use_goes_to_others() {
        let claims = [1, 1].map(|weight| Claim { weight, start: 0.0 });
        let few = Demand {
            blocks: 8,
            ..demand(0, 256)
        };
        let held = held(&H200, &[few, demand(1, 256)], 12, &claims, true);
        assert!(
            (held[0] - 1.0).abs() < 1e-9 && (held[1] - 11.0).abs() < 1e-9,
            "{held:?}"
        );
    }

    #[test]
    fn an_even_partition_holds_back_the_complementary_kernel() {
        // One takes registers only, the other threads only: together they would hold 100 % each.
        let a = BlockShape {
            threads: 32,
            registers: 8192,
            shared_bytes: 0,
        };
        let b = BlockShape {
            threads: 256,
            registers: 256,
            shared_bytes: 0,
        };
        let demands = [(0, a), (1, b)].map(|(claim, block)| Demand {
            claim,
            block,
            blocks: u64::MAX,
        });
        let claims = [
            Claim {
                weight: 2,
                start: 0.0,
            },
            Claim {
                weight: 1,
                start: 0.0,
            },
        ];
        let held = held(&H200, &demands, 12, &claims, true);
        assert!((held[0] / held[1] - 2.0).abs() < 0.1, "{held:?}");
    }
}
