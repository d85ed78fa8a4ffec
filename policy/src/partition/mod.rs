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
//! A tenant's level is what all of its rows hold together: for each resource the sum over its blocks,
//! and of these the largest. Levels are integers in units of 1 / (1024 · lcm of the SM's limits):
//! comparisons are exact, and without start levels one SM comes out exactly as in the paper.
//!
//! Rule: a [`Partitioner`] keeps its tables, so that partitioning again allocates nothing. Its cost
//! is parts · (claims + blocks of an SM) · log claims.

use crate::shape::{BlockShape, DeviceShape, Room};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A device is partitioned in at most this many parts: enough for dither, few enough to read.
pub const MOST_PARTS: u16 = 16;
/// More SMs than any device has, and few enough for 63 bits.
const MOST_START: f64 = 4096.0;
/// More blocks than any device holds.
const MOST_DEMAND: u64 = 1 << 40;

/// A tenant's side of the partition.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Its weight; 0 counts as 1.
    pub weight: u32,
    /// Where its level starts, in SMs held on the whole device: below zero when it is owed time.
    pub start: f64,
}

/// A row that wants blocks on SMs.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// The tenant's place in the list of claims; demands are sorted by it.
    pub claim: usize,
    /// What each block takes.
    pub block: BlockShape,
    /// How many blocks it could use on the whole device.
    pub blocks: u64,
}

/// Partitions SMs, and holds the result.
#[derive(Clone, Debug, Default)]
pub struct Partitioner {
    /// How many SMs each part has.
    parts: Vec<u16>,
    /// Part by part, the cap of each demand per SM.
    caps: Vec<u16>,
    claims: Vec<ClaimLevel>,
    kernels: Vec<KernelLevel>,
    turns: BinaryHeap<Reverse<Turn>>,
    /// Of each resource the least that any demand's block takes: where this does not fit, none does.
    least: BlockShape,
    sms: i64,
    /// SMs filled so far, the part at hand included.
    reached: i64,
}

/// Partitions one empty SM among kernels of distinct tenants with equal weights: the paper's
/// procedure. Returns how many blocks each gets.
#[must_use]
pub fn partition_sm(device: &DeviceShape, blocks: &[BlockShape]) -> Vec<u16> {
    let one = DeviceShape { sms: 1, ..*device };
    let claim = Claim {
        weight: 1,
        start: 0.0,
    };
    let claims = vec![claim; blocks.len()];
    let demand = |(claim, block): (usize, &BlockShape)| Demand {
        claim,
        block: *block,
        blocks: u64::MAX,
    };
    let demands: Vec<Demand> = blocks.iter().enumerate().map(demand).collect();
    let mut partitioner = Partitioner::default();
    partitioner.partition(&one, &claims, &demands, 1);
    partitioner.caps(0).to_vec()
}

/// A claim that can have a block; the lowest weighted level comes first, then the smaller block,
/// then the earlier place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    level: i64,
    weight: i64,
    share: i64,
    claim: u32,
    kernel: u32,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let levels = match self.weight == other.weight {
            true => self.level.cmp(&other.level),
            false => weigh(self.level, other.weight).cmp(&weigh(other.level, self.weight)),
        };
        levels.then((self.share, self.claim).cmp(&(other.share, other.claim)))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Copy, Debug)]
struct ClaimLevel {
    weight: i64,
    start: i64,
    /// As much of the start level as falls on the SMs filled so far.
    started: i64,
    /// What it was given, of each resource.
    sums: [i64; 4],
    /// Both together.
    level: i64,
    /// Its demands: from, to.
    kernels: (usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct KernelLevel {
    block: BlockShape,
    /// What a block takes of each resource of an SM.
    parts: [i64; 4],
    /// The largest of them.
    share: i64,
    level: i64,
    demand: u64,
    /// How much of the demand falls on the SMs filled so far.
    due: u64,
    given: u64,
}

impl Partitioner {
    /// Partitions a device, in at most `parts` groups of SMs.
    pub fn partition(
        &mut self,
        device: &DeviceShape,
        claims: &[Claim],
        demands: &[Demand],
        parts: u16,
    ) {
        debug_assert!(demands.is_sorted_by_key(|demand| demand.claim));
        self.split(device.sms, parts);
        self.prepare(device, claims, demands);
        self.fill(device);
    }

    /// Returns how many SMs each part has.
    #[must_use]
    pub fn parts(&self) -> &[u16] {
        &self.parts
    }

    /// Returns the cap of each demand per SM of a part, in the order of the demands.
    #[must_use]
    pub fn caps(&self, part: usize) -> &[u16] {
        let demands = self.kernels.len();
        &self.caps[part * demands..(part + 1) * demands]
    }

    /// Returns whether a claim has no block on any SM.
    #[must_use]
    pub fn leaves_out(&self) -> bool {
        let has_block = |claim: &ClaimLevel| {
            let (from, to) = claim.kernels;
            self.kernels[from..to].iter().any(|kernel| kernel.given > 0)
        };
        !self.claims.iter().all(has_block)
    }

    /// Splits the SMs into at most `parts` parts of as equal size as possible.
    fn split(&mut self, sms: u16, parts: u16) {
        let parts = parts.clamp(1, sms.max(1));
        self.parts.clear();
        let size = |part| sms / parts + u16::from(part < sms % parts);
        self.parts.extend((0..parts).map(size));
    }

    /// Lists what is to be partitioned.
    fn prepare(&mut self, device: &DeviceShape, claims: &[Claim], demands: &[Demand]) {
        let units = Units::new(device);
        self.claims.clear();
        let mut from = 0;
        for (number, claim) in claims.iter().enumerate() {
            let own = demands[from..].iter().take_while(|d| d.claim == number);
            let to = from + own.count();
            self.claims
                .push(ClaimLevel::new(claim, units.one, (from, to)));
            from = to;
        }
        self.kernels.clear();
        self.kernels.extend(
            demands
                .iter()
                .map(|demand| KernelLevel::new(demand, &units)),
        );
        self.least = least_of(demands);
        self.sms = device.sms.max(1).into();
    }

    fn fill(&mut self, device: &DeviceShape) {
        self.claims.iter_mut().for_each(ClaimLevel::reset);
        for kernel in &mut self.kernels {
            (kernel.level, kernel.given) = (0, 0);
        }
        self.reached = 0;
        self.caps.clear();
        self.caps.resize(self.parts.len() * self.kernels.len(), 0);
        for part in 0..self.parts.len() {
            self.fill_part(device, part);
        }
    }

    fn fill_part(&mut self, device: &DeviceShape, part: usize) {
        let sms = self.parts[part];
        let first = part * self.kernels.len();
        self.reached += i64::from(sms);
        for claim in &mut self.claims {
            // Start levels come in evenly, so that every SM is shared.
            claim.start_on(self.reached, self.sms);
        }
        let (reached, sms_all) = (self.reached.unsigned_abs(), self.sms.unsigned_abs());
        for kernel in &mut self.kernels {
            // Demand is spread over the SMs as the levels are.
            kernel.due = (kernel.demand * reached).div_ceil(sms_all);
        }
        let mut room = Room::empty_sm(device);
        let mut turns = std::mem::take(&mut self.turns);
        turns.clear();
        turns.extend(
            (0..self.claims.len()).filter_map(|claim| self.turn(claim, &room).map(Reverse)),
        );
        while room.holds(&self.least)
            && let Some(mut lowest) = turns.peek_mut()
        {
            let turn = lowest.0;
            // Room and demand only ever get tighter within a part, so a claim that has
            // no turn now has none later. One whose kernel no longer fits may have another's.
            let mut next = self.turn(turn.claim as usize, &room);
            if next == Some(turn) {
                self.place(turn, sms, &mut room);
                let cap = &mut self.caps[first + turn.kernel as usize];
                *cap = cap.saturating_add(1);
                next = self.turn(turn.claim as usize, &room);
            }
            match next {
                Some(next) => lowest.0 = next,
                None => drop(PeekMut::pop(lowest)),
            }
        }
        self.turns = turns;
    }

    fn place(&mut self, turn: Turn, sms: u16, room: &mut Room) {
        let kernel = &mut self.kernels[turn.kernel as usize];
        room.take(&kernel.block, 1);
        kernel.level += kernel.share * i64::from(sms);
        kernel.given += u64::from(sms);
        self.claims[turn.claim as usize].give(&kernel.parts, sms.into());
    }

    /// Returns the next block that the claim would take, if it can take one.
    fn turn(&self, index: usize, room: &Room) -> Option<Turn> {
        let claim = &self.claims[index];
        let kernel = self.candidate(claim, room)?;
        let (level, weight) = (claim.level, claim.weight);
        Some(Turn {
            level,
            weight,
            share: self.kernels[kernel].share,
            claim: u32::try_from(index).unwrap_or(u32::MAX),
            kernel: u32::try_from(kernel).unwrap_or(u32::MAX),
        })
    }

    /// Returns the claim's kernel with the lowest level among those that want a block here and fit.
    fn candidate(&self, claim: &ClaimLevel, room: &Room) -> Option<usize> {
        let wants = |kernel: &KernelLevel| kernel.given < kernel.due && room.holds(&kernel.block);
        let (from, to) = claim.kernels;
        (from..to)
            .filter(|&kernel| wants(&self.kernels[kernel]))
            .min_by_key(|&kernel| {
                let kernel = &self.kernels[kernel];
                (kernel.level, kernel.share)
            })
    }
}

impl ClaimLevel {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a start level is bounded by the device"
    )]
    fn new(claim: &Claim, unit: i64, kernels: (usize, usize)) -> Self {
        let weight = i64::from(claim.weight.max(1));
        let start = claim.start.clamp(-MOST_START, MOST_START);
        let start = (start * unit as f64).round() as i64;
        Self {
            weight,
            start,
            started: 0,
            sums: [0; 4],
            level: 0,
            kernels,
        }
    }

    fn reset(&mut self) {
        (self.started, self.sums, self.level) = (0, [0; 4], 0);
    }

    /// Brings the start level in for `reached` of all SMs.
    fn start_on(&mut self, reached: i64, sms: i64) {
        if self.start == 0 {
            return;
        }
        self.started = self.start / sms * reached + self.start % sms * reached / sms;
        self.level = self.started + self.largest();
    }

    /// Adds one block on each of `sms` SMs.
    fn give(&mut self, parts: &[i64; 4], sms: i64) {
        for (sum, part) in self.sums.iter_mut().zip(parts) {
            *sum += part * sms;
        }
        self.level = self.started + self.largest();
    }

    fn largest(&self) -> i64 {
        self.sums.into_iter().fold(0, i64::max)
    }
}

impl KernelLevel {
    fn new(demand: &Demand, units: &Units) -> Self {
        let block = demand.block;
        let takes = [1, block.threads, block.registers, block.shared_bytes];
        let [mut parts, each] = [[0; 4], units.each];
        for (part, (takes, each)) in parts.iter_mut().zip(takes.into_iter().zip(each)) {
            *part = i64::from(takes).saturating_mul(each);
        }
        Self {
            block,
            parts,
            share: parts.into_iter().fold(0, i64::max),
            level: 0,
            demand: demand.blocks.min(MOST_DEMAND),
            due: 0,
            given: 0,
        }
    }
}

/// How many units make one SM, and one of each of its block slots, threads, registers and bytes.
///
/// Limits whose least common multiple is beyond 2^40 (no device's) are counted in rounded units, so
/// that the levels of 1,024 SMs stay within 63 bits.
struct Units {
    one: i64,
    each: [i64; 4],
}

impl Units {
    fn new(device: &DeviceShape) -> Self {
        const MOST: u64 = 1 << 40;
        let limits = [
            device.blocks,
            device.threads,
            device.registers,
            device.shared_bytes,
        ]
        .map(|limit| u64::from(limit.max(1)));
        let lcm = limits.into_iter().fold(1_u64, |lcm, limit| {
            (lcm / gcd(lcm, limit))
                .checked_mul(limit)
                .filter(|&lcm| lcm <= MOST)
                .unwrap_or(MOST)
        });
        let signed = |units: u64| i64::try_from(units).unwrap_or(i64::MAX);
        Self {
            one: signed(lcm * 1024),
            each: limits.map(|limit| signed(lcm * 1024 / limit)),
        }
    }
}

fn least_of(demands: &[Demand]) -> BlockShape {
    let least = |of: fn(&BlockShape) -> u32| {
        let each = demands.iter().map(|demand| of(&demand.block));
        each.min().unwrap_or(0)
    };
    BlockShape {
        threads: least(|block| block.threads),
        registers: least(|block| block.registers),
        shared_bytes: least(|block| block.shared_bytes),
    }
}

fn weigh(level: i64, weight: i64) -> i128 {
    i128::from(level) * i128::from(weight)
}

/// Returns the greatest common divisor, by Euclid.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests;
