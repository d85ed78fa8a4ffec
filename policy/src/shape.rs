//! What an SM offers, what a thread block takes, and what a set of resident blocks holds.
//!
//! Four resources limit how many blocks reside: threads, block slots, registers and shared memory
//! (SMK section 5.2). The dominant share of a block is the greatest of its four fractions.

use serde::{Deserialize, Serialize};

/// Threads of a warp.
const WARP_THREADS: u32 = 32;

/// A device as policies see it: the number of its SMs, and the limits of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceShape {
    /// How many SMs the device has.
    pub sms: u16,
    /// Resident threads per SM.
    pub threads: u32,
    /// Resident blocks per SM.
    pub blocks: u32,
    /// 32-bit registers per SM.
    pub registers: u32,
    /// Shared memory per SM, in bytes.
    pub shared_bytes: u32,
    /// Time that a launch takes the thread that submits it, in nanoseconds: the next one comes so much later. 0 where
    /// that is not known, or launches do not wait for each other.
    #[serde(default)]
    pub submission_ns: u32,
    /// Bytes that DRAM moves in a thousand core cycles at most; 0 where that is not known.
    #[serde(default)]
    pub dram_bytes_per_kcycle: u32,
    /// Warp instructions that an SM issues in a thousand core cycles at most; 0 where that is not known.
    #[serde(default)]
    pub issued_per_kcycle: u32,
}

impl DeviceShape {
    const fn of(sms: u16, sm: [u32; 5]) -> Self {
        let [threads, blocks, registers, shared_bytes, issued_per_kcycle] = sm;
        Self {
            sms,
            threads,
            blocks,
            registers,
            shared_bytes,
            submission_ns: 0,
            dram_bytes_per_kcycle: 0,
            issued_per_kcycle,
        }
    }

    /// Returns `sms` SMs of an H200.
    #[must_use]
    pub const fn h200(sms: u16) -> Self {
        Self::of(sms, [2048, 32, 65_536, 233_472, 4000])
    }

    /// Returns `sms` SMs of a V100.
    #[must_use]
    pub const fn v100(sms: u16) -> Self {
        Self::of(sms, [2048, 32, 65_536, 98_304, 4000])
    }

    /// Returns a GTX 480, on which the papers measured.
    #[must_use]
    pub const fn gtx480() -> Self {
        Self::of(15, [1536, 8, 32_768, 49_152, 2000])
    }

    /// Returns `sms` SMs on which few blocks reside, for examples that are worked out by hand.
    #[must_use]
    pub const fn small(sms: u16) -> Self {
        Self::of(sms, [1024, 8, 65_536, 49_152, 0])
    }

    /// Returns all of its SMs' resources as those of one.
    #[must_use]
    pub const fn as_one_sm(&self) -> Self {
        let sms = self.sms as u32;
        Self {
            sms: 1,
            threads: self.threads.saturating_mul(sms),
            blocks: self.blocks.saturating_mul(sms),
            registers: self.registers.saturating_mul(sms),
            shared_bytes: self.shared_bytes.saturating_mul(sms),
            submission_ns: self.submission_ns,
            dram_bytes_per_kcycle: self.dram_bytes_per_kcycle,
            issued_per_kcycle: self.issued_per_kcycle.saturating_mul(sms),
        }
    }

    /// Returns how many blocks of a row reside on average if nothing else is submitted, by Little's law: `blocks` a
    /// launch on average, which last `block_ns` nanoseconds each. It is infinite where launches do not wait for each
    /// other, and more than the device holds where submission does not hold the row up.
    #[must_use]
    pub fn submittable(&self, blocks: f64, block_ns: f64) -> f64 {
        match self.submission_ns {
            0 => f64::INFINITY,
            each => blocks * block_ns / f64::from(each),
        }
    }
}

/// What one thread block takes from its SM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlockShape {
    /// Threads, rounded up to whole warps by the caller.
    pub threads: u32,
    /// 32-bit registers of the whole block, rounded up to the allocation unit by the caller.
    pub registers: u32,
    /// Shared memory, static and dynamic, rounded up to the allocation unit by the caller, in bytes.
    pub shared_bytes: u32,
}

impl BlockShape {
    /// Returns a block that takes threads alone.
    #[must_use]
    pub const fn of_threads(threads: u32) -> Self {
        Self {
            threads,
            registers: 0,
            shared_bytes: 0,
        }
    }
}

/// Units in which an SM's resources are allocated (CUDA's occupancy calculation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationUnits {
    /// 32-bit registers, per warp.
    pub registers: u32,
    /// Bytes of shared memory, per block.
    pub shared_bytes: u32,
    /// Bytes of shared memory that the system takes of each block.
    pub reserved_shared_bytes: u32,
}

impl AllocationUnits {
    /// Returns the SM resources of one block, given its threads, the registers of each thread and its bytes of shared
    /// memory.
    #[must_use]
    pub fn block(&self, threads: u32, registers: u32, shared_bytes: u32) -> BlockShape {
        let warps = threads.div_ceil(WARP_THREADS);
        let shared = shared_bytes.saturating_add(self.reserved_shared_bytes);
        BlockShape {
            threads: warps * WARP_THREADS,
            registers: warps * (registers * WARP_THREADS).next_multiple_of(self.registers.max(1)),
            shared_bytes: shared
                .checked_next_multiple_of(self.shared_bytes.max(1))
                .unwrap_or(u32::MAX),
        }
    }
}

/// A quantity of SMs in units of 2^-16 of one SM.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SmUnits(pub u64);

impl SmUnits {
    /// No limit.
    pub const MAX: Self = Self(u64::MAX);
    /// One whole SM.
    pub const ONE: Self = Self(1 << 16);

    /// Returns the sum; [`SmUnits::MAX`] stays.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns as much on each of `sms` SMs; [`SmUnits::MAX`] stays.
    #[must_use]
    pub fn times(self, sms: u32) -> Self {
        Self(self.0.saturating_mul(sms.into()))
    }

    /// Returns this percentage of it; [`SmUnits::MAX`] stays.
    #[must_use]
    pub fn percent(self, percent: u64) -> Self {
        match self {
            Self::MAX => Self::MAX,
            Self(units) => Self(units.saturating_mul(percent) / 100),
        }
    }

    /// Returns the number of SMs.
    #[must_use]
    pub fn as_sms(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }
}

/// What a set of resident blocks takes together: the sum of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    threads: u64,
    blocks: u64,
    registers: u64,
    shared_bytes: u64,
}

impl Held {
    /// Adds `n` blocks of a shape.
    pub fn add(&mut self, block: &BlockShape, n: u32) {
        let n = u64::from(n);
        self.threads += n * u64::from(block.threads);
        self.blocks += n;
        self.registers += n * u64::from(block.registers);
        self.shared_bytes += n * u64::from(block.shared_bytes);
    }

    /// Takes `n` blocks of a shape away; what was never added counts as taken.
    pub fn remove(&mut self, block: &BlockShape, n: u32) {
        let n = u64::from(n);
        let less = |has: u64, by: u32| has.saturating_sub(n * u64::from(by));
        self.threads = less(self.threads, block.threads);
        self.blocks = self.blocks.saturating_sub(n);
        self.registers = less(self.registers, block.registers);
        self.shared_bytes = less(self.shared_bytes, block.shared_bytes);
    }

    /// Returns how many blocks are held.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the largest of the four sums, each as a number of SMs, rounded up: the dominant
    /// share (SMK section 5.2) of all blocks together.
    #[must_use]
    pub fn dominant(&self, device: &DeviceShape) -> SmUnits {
        let share = |sum: u64, of: u32| (sum << 16).div_ceil(u64::from(of.max(1)));
        SmUnits(
            share(self.threads, device.threads)
                .max(share(self.blocks, device.blocks))
                .max(share(self.registers, device.registers))
                .max(share(self.shared_bytes, device.shared_bytes)),
        )
    }

    /// Returns how many more blocks of a shape keep the dominant share within a limit.
    #[must_use]
    pub fn room_within(&self, device: &DeviceShape, limit: SmUnits, block: &BlockShape) -> u32 {
        if limit == SmUnits::MAX {
            return u32::MAX;
        }
        let by = |has: u64, of: u32, each: u32| {
            // The greatest sum whose rounded-up share is within the limit.
            let most = (u128::from(limit.0) * u128::from(of)) >> 16;
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            let left = most.saturating_sub(has);
            left.checked_div(u64::from(each)).unwrap_or(u64::MAX)
        };
        let blocks = by(self.blocks, device.blocks, 1)
            .min(by(self.threads, device.threads, block.threads))
            .min(by(self.registers, device.registers, block.registers))
            .min(by(
                self.shared_bytes,
                device.shared_bytes,
                block.shared_bytes,
            ));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }
}

/// How much of one SM is taken, or left. Four counters, one per resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    threads: u64,
    blocks: u64,
    registers: u64,
    shared_bytes: u64,
}

impl Room {
    /// Returns the room of an empty SM.
    #[must_use]
    pub fn empty_sm(device: &DeviceShape) -> Self {
        Self {
            threads: device.threads.into(),
            blocks: device.blocks.into(),
            registers: device.registers.into(),
            shared_bytes: device.shared_bytes.into(),
        }
    }

    /// Returns how many blocks of this shape the room still takes.
    #[must_use]
    pub fn fits(&self, block: &BlockShape) -> u32 {
        let by = |room: u64, need: u32| room.checked_div(u64::from(need)).unwrap_or(u64::MAX);
        let blocks = self
            .blocks
            .min(by(self.threads, block.threads))
            .min(by(self.registers, block.registers))
            .min(by(self.shared_bytes, block.shared_bytes));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Returns whether the room takes one block of this shape.
    #[must_use]
    pub fn holds(&self, block: &BlockShape) -> bool {
        self.blocks > 0
            && self.threads >= block.threads.into()
            && self.registers >= block.registers.into()
            && self.shared_bytes >= block.shared_bytes.into()
    }

    /// Gives the room of one block of this shape back.
    pub fn give_back(&mut self, block: &BlockShape) {
        self.blocks += 1;
        self.threads += u64::from(block.threads);
        self.registers += u64::from(block.registers);
        self.shared_bytes += u64::from(block.shared_bytes);
    }

    /// Takes `count` blocks of this shape out of the room; what is not there counts as used up.
    pub fn take(&mut self, block: &BlockShape, count: u32) {
        let count = u64::from(count);
        self.blocks = self.blocks.saturating_sub(count);
        self.threads = self
            .threads
            .saturating_sub(count * u64::from(block.threads));
        self.registers = self
            .registers
            .saturating_sub(count * u64::from(block.registers));
        self.shared_bytes = self
            .shared_bytes
            .saturating_sub(count * u64::from(block.shared_bytes));
    }
}

/// Returns the dominant share rK of one block: the greatest fraction it takes of any resource of one SM
/// (SMK section 5.2).
#[must_use]
pub fn dominant_share(device: &DeviceShape, block: &BlockShape) -> f64 {
    let fraction = |takes: u32, of: u32| f64::from(takes) / f64::from(of.max(1));
    fraction(1, device.blocks)
        .max(fraction(block.threads, device.threads))
        .max(fraction(block.registers, device.registers))
        .max(fraction(block.shared_bytes, device.shared_bytes))
}

/// Returns how many blocks of this shape fit on one empty SM; 0 when not even one does.
#[must_use]
pub fn max_residency(device: &DeviceShape, block: &BlockShape) -> u16 {
    u16::try_from(Room::empty_sm(device).fits(block)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::{BlockShape, DeviceShape, Held, SmUnits, dominant_share, max_residency};

    const GTX480: DeviceShape = DeviceShape::gtx480();

    #[test]
    fn held_sums_each_resource_and_takes_the_largest_share() {
        let threads = BlockShape {
            threads: 768,
            registers: 0,
            shared_bytes: 0,
        };
        let shared = BlockShape {
            threads: 0,
            registers: 0,
            shared_bytes: 12_288,
        };
        let mut held = Held::default();
        held.add(&threads, 1);
        held.add(&shared, 1);
        // Half of the threads, a quarter of the shared memory, two of eight slots.
        assert_eq!(held.dominant(&GTX480), SmUnits(SmUnits::ONE.0 / 2));
        assert_eq!(held.room_within(&GTX480, SmUnits::ONE, &threads), 1);
        assert_eq!(held.room_within(&GTX480, SmUnits::ONE, &shared), 3);
        held.remove(&threads, 1);
        held.remove(&shared, 1);
        assert_eq!(held, Held::default());
    }

    #[test]
    fn a_limit_made_from_blocks_admits_exactly_these_blocks() {
        for threads in [96, 160, 192, 256, 500] {
            let block = BlockShape {
                threads,
                registers: threads * 21,
                shared_bytes: 1000,
            };
            for n in 1..8 {
                let mut held = Held::default();
                held.add(&block, n);
                let limit = held.dominant(&GTX480);
                assert_eq!(Held::default().room_within(&GTX480, limit, &block), n);
            }
        }
    }

    #[test]
    fn the_scarcest_resource_decides() {
        let block = BlockShape {
            threads: 256,
            registers: 256 * 20,
            shared_bytes: 0,
        };
        assert_eq!(max_residency(&GTX480, &block), 6);
        assert_eq!(dominant_share(&GTX480, &block), 256.0 / 1536.0);
        let tiny = BlockShape {
            threads: 32,
            registers: 320,
            shared_bytes: 0,
        };
        assert_eq!(max_residency(&GTX480, &tiny), 8);
        assert_eq!(dominant_share(&GTX480, &tiny), 1.0 / 8.0);
        let huge = BlockShape {
            threads: 32,
            registers: 320,
            shared_bytes: 65_536,
        };
        assert_eq!(max_residency(&GTX480, &huge), 0);
    }
}
