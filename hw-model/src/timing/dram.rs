//! A DRAM channel: banks with open rows, and a data bus.
//!
//! Rules: a request to an open row costs the bus only; opening a row costs `row_miss_cycles` and holds its bank
//! for a row cycle; the bus serves requests in order of arrival. The controller's reordering (first ready, first
//! come first served) is approximated: a bank remembers the last [`REORDERED_ROWS`] rows, because a queue collects
//! requests to the same row although others arrive between them.

use crate::config::{Dram, GpuConfig, LINE_BYTES, SECTOR_BYTES};

/// Rows whose requests the controller's queue keeps apart.
const REORDERED_ROWS: usize = 4;
/// Fraction bits of bus times, because a sector takes less than one cycle of the core on a fast memory.
const FRACTION: u32 = 8;

#[derive(Debug, Clone, Copy)]
struct Bank {
    rows: [u64; REORDERED_ROWS],
    /// When the bank can open its next row.
    free_at: u64,
}

/// One channel.
#[derive(Debug)]
pub(crate) struct Channel {
    banks: Vec<Bank>,
    /// Bus time with [`FRACTION`] fraction bits.
    bus_free_at: u64,
    sector_time: u64,
    row_lines: u64,
    row_miss: u64,
    row_cycle: u64,
}

/// What a request met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    /// When the last byte is on the bus, beyond the controller's fixed latency.
    pub(crate) at: u64,
    pub(crate) row_hit: bool,
}

impl Channel {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        let dram: &Dram = &config.dram;
        let per_channel = dram.gigabytes_per_second / f64::from(dram.channels);
        let scaled = config.transfer_cycles(SECTOR_BYTES << FRACTION, per_channel);
        Self {
            banks: vec![
                Bank {
                    rows: [u64::MAX; REORDERED_ROWS],
                    free_at: 0,
                };
                dram.banks as usize
            ],
            bus_free_at: 0,
            sector_time: scaled.max(1),
            row_lines: dram.row_bytes / LINE_BYTES,
            row_miss: u64::from(dram.row_miss_cycles),
            row_cycle: u64::from(dram.row_cycle_cycles),
        }
    }

    /// Serves `sectors` sectors of the channel's `local`-th line, arriving at `now`.
    #[inline]
    pub(crate) fn serve(&mut self, now: u64, local: u64, sectors: u32) -> Served {
        let row = local / self.row_lines;
        let banks = self.banks.len() as u64;
        // Neighbouring rows lie in different banks; the hash keeps strides from meeting in one.
        let index = usize::try_from((row ^ (row / banks * 0x9e37_79b9)) % banks).unwrap_or(0);
        let bank = &mut self.banks[index];
        let row_hit = bank.rows.contains(&row);
        let ready = if row_hit {
            now
        } else {
            bank.rows.rotate_right(1);
            bank.rows[0] = row;
            let open = now.max(bank.free_at);
            bank.free_at = open + self.row_cycle;
            open + self.row_miss
        };
        // The bus queue is kept in arrival order and its delay added, so that one slow row does not hold up
        // requests to open rows behind it.
        let start = (now << FRACTION).max(self.bus_free_at);
        self.bus_free_at = start + self.sector_time * u64::from(sectors);
        let delay = (self.bus_free_at >> FRACTION) - now;
        Served {
            at: ready + delay,
            row_hit,
        }
    }
}
