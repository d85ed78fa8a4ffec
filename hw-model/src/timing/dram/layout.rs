//! Where a line of a channel lies, and how many bursts bring its sectors.
//!
//! Rules: neighbouring rows lie in different banks, by a hash that keeps strides from meeting in one; where banks take
//! turns along neighbouring addresses, their rows are open side by side; sectors share a burst as their addresses say.

use crate::config::{GpuConfig, LINE_BYTES, SECTOR_BYTES, Stripe};

/// Which bank and row a line lies in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    banks: u64,
    /// Banks that take turns along neighbouring addresses, and the lines of a turn.
    stripe: (u64, u64),
    /// Lines of a row in all banks of a stripe.
    rows: u64,
    /// Sectors of a line that share a burst with its first one.
    burst: u32,
}

impl Layout {
    pub(super) fn new(config: &GpuConfig) -> Self {
        let dram = &config.dram;
        let stripe = dram.stripe.unwrap_or(Stripe {
            banks: 1,
            bytes: dram.row_bytes,
        });
        let width = u64::from(stripe.banks);
        Self {
            banks: u64::from(dram.banks),
            stripe: (width, stripe.bytes / LINE_BYTES),
            rows: dram.row_bytes / LINE_BYTES * width,
            burst: u32::try_from(dram.burst_bytes / SECTOR_BYTES).unwrap_or(1),
        }
    }

    /// Returns the bank, and a number of the row that no other row of the bank has.
    #[inline]
    pub(super) fn place(&self, local: u64) -> (u16, u64) {
        let (width, lines) = self.stripe;
        let row = local / self.rows;
        let sets = self.banks / width;
        let mixed = row ^ (row / sets).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let bank = mixed % sets * width + local / lines % width;
        (u16::try_from(bank).unwrap_or(0), row)
    }

    /// Bursts that bring these sectors.
    #[inline]
    pub(super) fn bursts(&self, sectors: u8) -> u8 {
        let sectors = match self.burst {
            1 => sectors,
            2 => (sectors | sectors >> 1) & 0b0101,
            _ => u8::from(sectors != 0),
        };
        u8::try_from(sectors.count_ones()).unwrap_or(0)
    }
}
