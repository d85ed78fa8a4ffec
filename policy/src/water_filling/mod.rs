//! How many blocks of each kernel an SM holds, from how each one's performance grows with its blocks: Warped-Slicer's
//! equation 1 (section IV) and its Algorithm 1.
//!
//! Each kernel has a block; then, again and again, the kernel that is furthest below its best gets the fewest blocks
//! that make it faster, as long as they fit. Where performance is as the curves say, no partition has a greater least
//! performance: until then every block was given to raise the least, so any better partition has all of them.
//!
//! Rules: curves need not rise; what lies below a point with fewer blocks is passed over (Q and M of Algorithm 1). A
//! performance that is no number, or not above zero, counts as nothing, and a kernel with nothing else is not known.
//! What the paper leaves open is settled so: a kernel at its best, too, gets no more; and where blocks that would make
//! the slowest kernel faster do not fit, the others go on.

use crate::shape::{BlockShape, DeviceShape, Room};

/// The greatest part of its performance alone that a kernel may lose in company, times the number of kernels (section
/// IV: 120 % / K).
pub const MOST_LOSS: f64 = 1.2;

/// A kernel that shares an SM.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// What each of its blocks takes.
    pub block: BlockShape,
    /// Its performance with 1, 2, … blocks on an SM, in any unit.
    pub curve: &'a [f64],
}

/// What comes of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sliced {
    /// The kernels share SMs, each with its blocks; the slowest has this part of its best performance.
    Together {
        /// The least of the performances, each over the kernel's best.
        least: f64,
    },
    /// They do not.
    Apart(Apart),
}

/// Why kernels have SMs of their own instead of sharing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// An SM does not hold a block of each.
    NoRoom,
    /// A kernel would lose more than [`MOST_LOSS`] permits.
    TooMuchLost,
    /// The performance of a kernel is not known.
    NotKnown,
}

/// Algorithm 1, with its tables.
#[derive(Debug, Default)]
pub struct WaterFilling {
    /// Kernel by kernel, the steps of its curve: blocks (M) and performance over its best (Q).
    steps: Vec<(u16, f64)>,
    fills: Vec<Fill>,
    blocks: Vec<u16>,
}

/// How far a kernel has come.
#[derive(Clone, Copy, Debug)]
struct Fill {
    block: BlockShape,
    /// The step that it has reached, and the last of its own (g).
    at: usize,
    last: usize,
    /// It gets no more.
    full: bool,
}

impl WaterFilling {
    /// Partitions an SM among kernels; [`WaterFilling::blocks`] says how. K kernels with at most N points each take
    /// time in O(K² N).
    pub fn partition<'a>(
        &mut self,
        shape: &DeviceShape,
        claims: impl Iterator<Item = Claim<'a>> + Clone,
    ) -> Sliced {
        self.steps.clear();
        self.fills.clear();
        self.blocks.clear();
        let mut room = Room::empty_sm(shape);
        for claim in claims.clone() {
            if !room.holds(&claim.block) {
                return Sliced::Apart(Apart::NoRoom);
            }
            room.take(&claim.block, 1);
        }
        for claim in claims {
            if !self.add(&claim) {
                return Sliced::Apart(Apart::NotKnown);
            }
        }
        self.fill(room);
        let reached = self.fills.iter().map(|fill| self.steps[fill.at].1);
        let least = reached.fold(1.0, f64::min);
        let blocks = self.fills.iter().map(|fill| self.steps[fill.at].0);
        self.blocks.extend(blocks);
        match 1.0 - least > MOST_LOSS / self.fills.len().max(1) as f64 {
            true => Sliced::Apart(Apart::TooMuchLost),
            false => Sliced::Together { least },
        }
    }

    /// Returns the blocks of each kernel on an SM, in order of the claims; nothing where that was not found out.
    #[must_use]
    pub fn blocks(&self) -> &[u16] {
        &self.blocks
    }

    /// Lists the steps of a kernel's curve (lines 6 to 15); returns false if it has none. The first is one block,
    /// whatever that does, because each kernel has one.
    fn add(&mut self, claim: &Claim<'_>) -> bool {
        let sound = |performance: &f64| match performance.is_finite() {
            true => performance.max(0.0),
            false => 0.0,
        };
        let best = claim.curve.iter().map(sound).fold(0.0, f64::max);
        if best <= 0.0 {
            return false;
        }
        let first = self.steps.len();
        let mut most = f64::NEG_INFINITY;
        for (blocks, performance) in (1..).zip(claim.curve) {
            let performance = sound(performance) / best;
            if performance > most {
                most = performance;
                self.steps.push((blocks, performance));
            }
        }
        self.fills.push(Fill {
            block: claim.block,
            at: first,
            last: self.steps.len() - 1,
            full: false,
        });
        true
    }

    /// Gives blocks away as long as they fit (lines 16 to 32).
    fn fill(&mut self, mut room: Room) {
        let steps = &self.steps;
        loop {
            let open = (0..self.fills.len()).filter(|kernel| !self.fills[*kernel].full);
            // Of equals the first, as in line 19.
            let slowest = open.min_by(|one, other| {
                let reached = |kernel: usize| steps[self.fills[kernel].at].1;
                reached(*one).total_cmp(&reached(*other))
            });
            let Some(slowest) = slowest else {
                return;
            };
            let fill = &mut self.fills[slowest];
            let more = match fill.at < fill.last {
                true => u32::from(steps[fill.at + 1].0 - steps[fill.at].0),
                false => u32::MAX,
            };
            if room.fits(&fill.block) >= more {
                room.take(&fill.block, more);
                fill.at += 1;
            } else {
                fill.full = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
