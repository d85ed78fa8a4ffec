//! What an SM offers and what a thread block takes.
//!
//! Four resources limit how many blocks reside: threads, block slots, registers and shared memory
//! (SMK section 5.2). The dominant share of a block is the greatest of its four fractions.

use crate::share::Share;
use serde::{Deserialize, Serialize};

/// A device as policies see it: so many SMs, each with these limits.
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

/// How much of one SM is taken, or left. Four counters, one per resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    threads: u64,
    blocks: u64,
    registers: u64,
    shared_bytes: u64,
}

impl Room {
    /// The room of an empty SM.
    #[must_use]
    pub fn empty_sm(device: &DeviceShape) -> Self {
        Self {
            threads: device.threads.into(),
            blocks: device.blocks.into(),
            registers: device.registers.into(),
            shared_bytes: device.shared_bytes.into(),
        }
    }

    /// How many blocks of this shape the room still takes.
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

/// The dominant share rK of one block: the greatest fraction it takes of any resource of one SM
/// (SMK section 5.2).
#[must_use]
pub fn dominant_share(device: &DeviceShape, block: &BlockShape) -> Share {
    [
        Share::new(1, device.blocks.into()),
        Share::new(block.threads.into(), device.threads.into()),
        Share::new(block.registers.into(), device.registers.into()),
        Share::new(block.shared_bytes.into(), device.shared_bytes.into()),
    ]
    .into_iter()
    .max()
    .unwrap_or(Share::ZERO)
}

/// How many blocks of this shape fit on one empty SM; 0 when not even one does.
#[must_use]
pub fn max_residency(device: &DeviceShape, block: &BlockShape) -> u16 {
    u16::try_from(Room::empty_sm(device).fits(block)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::{BlockShape, DeviceShape, dominant_share, max_residency};
    use crate::share::Share;

    const GTX480: DeviceShape = DeviceShape {
        sms: 15,
        threads: 1536,
        blocks: 8,
        registers: 32_768,
        shared_bytes: 49_152,
    };

    #[test]
    fn the_scarcest_resource_decides() {
        let block = BlockShape {
            threads: 256,
            registers: 256 * 20,
            shared_bytes: 0,
        };
        assert_eq!(max_residency(&GTX480, &block), 6);
        assert_eq!(dominant_share(&GTX480, &block), Share::new(256, 1536));
        let tiny = BlockShape {
            threads: 32,
            registers: 320,
            shared_bytes: 0,
        };
        assert_eq!(max_residency(&GTX480, &tiny), 8);
        assert_eq!(dominant_share(&GTX480, &tiny), Share::new(1, 8));
        let huge = BlockShape {
            threads: 32,
            registers: 320,
            shared_bytes: 65_536,
        };
        assert_eq!(max_residency(&GTX480, &huge), 0);
    }
}
