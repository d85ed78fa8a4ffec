//! Traits from what executors count of a row ([`Event::Sample`], [`Event::Instructions`]).
//!
//! Rule: the traits of a row are those of all that its blocks have done since it exists, alone or beside others.

use super::{Machine, Traits, Utilisation};
use crate::event::Event;

/// Bytes of a sector, the unit of hits and misses.
const SECTOR_BYTES: u64 = 32;

/// What the blocks of a row have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    issued: u64,
    dram_bytes: u64,
    loads: u64,
    accesses: u64,
    lines: u64,
    hits: [u64; 2],
    shared: u64,
    special: u64,
}

impl Counts {
    /// Enters an event of the row. Counts are cumulative: the newest of each kind counts.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::Sample {
                issued, dram_bytes, ..
            } => (self.issued, self.dram_bytes) = (issued, dram_bytes),
            Event::Instructions {
                loads,
                accesses,
                lines,
                l1_hits,
                l2_hits,
                shared,
                special,
                ..
            } => {
                (self.loads, self.accesses, self.lines) = (loads, accesses, lines);
                (self.shared, self.special) = (shared, special);
                self.hits = [l1_hits, l2_hits];
            }
            _ => {}
        }
    }

    /// Returns the warp instructions that were issued.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Returns the traits that they show of blocks of `warps` warps; none before anything was issued.
    #[must_use]
    pub fn traits(&self, independent: f64, warps: u32) -> Option<Traits> {
        let part = |one: u64, all: u64| one as f64 / all.max(1) as f64;
        let missed = self.dram_bytes / SECTOR_BYTES;
        let sectors = self.hits[0]
            .saturating_add(self.hits[1])
            .saturating_add(missed);
        (self.issued > 0).then(|| Traits {
            memory_ratio: part(self.loads, self.issued),
            special_ratio: part(self.special, self.issued),
            shared_ratio: part(self.shared, self.issued),
            lines: part(self.lines, self.accesses),
            hits: self.hits.map(|hits| part(hits, sectors)),
            dram_bytes: part(self.dram_bytes, self.loads),
            independent,
            warps,
        })
    }

    /// Returns how far a kernel uses a device if it issues `ipc` instructions a cycle and SM. Traffic is that of stores
    /// too, so that a kernel that loads nothing uses memory as well.
    #[must_use]
    pub fn utilisation(&self, machine: &Machine, ipc: f64) -> Utilisation {
        let peak = f64::from(machine.schedulers.max(1)) * machine.width;
        let bytes = ipc * self.dram_bytes as f64 / self.issued.max(1) as f64;
        Utilisation {
            pur: ipc / peak.max(f64::MIN_POSITIVE),
            mur: bytes / machine.bytes_per_cycle.max(f64::MIN_POSITIVE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Machine};
    use crate::event::Event;
    use crate::ids::{GroupId, RowId};
    use crate::shape::DeviceShape;

    const ROW: RowId = RowId(1);
    const GROUP: GroupId = GroupId(0);

    fn sample(issued: u64, dram_bytes: u64) -> Event {
        Event::Sample {
            row: ROW,
            group: GROUP,
            block_cycles: 9,
            issued,
            memory_stalls: 0,
            dram_bytes,
            cycles: 0,
            l1_misses: 0,
            l2_misses: 0,
        }
    }

    #[test]
    fn traits_are_ratios_of_the_newest_counts() {
        let mut counts = Counts::default();
        assert_eq!(counts.traits(1.3, 8), None);
        for issued in [500, 1000] {
            counts.observe(&sample(issued, 3200));
        }
        counts.observe(&Event::Instructions {
            row: ROW,
            group: GROUP,
            loads: 100,
            accesses: 150,
            lines: 300,
            l1_hits: 200,
            l2_hits: 100,
            shared: 250,
            special: 10,
        });
        let traits = counts.traits(1.3, 8).expect("something was issued");
        assert_eq!((traits.memory_ratio, traits.shared_ratio), (0.1, 0.25));
        assert_eq!((traits.lines, traits.dram_bytes), (2.0, 32.0));
        // 3200 bytes are 100 sectors that neither cache had.
        assert_eq!(traits.hits, [0.5, 0.25]);
        assert_eq!((traits.warps, traits.special_ratio), (8, 0.01));
    }
    #[test]
    fn a_kernel_that_only_stores_uses_memory() {
        let mut counts = Counts::default();
        counts.observe(&sample(1000, 3200));
        counts.observe(&Event::Instructions {
            row: ROW,
            group: GROUP,
            loads: 0,
            accesses: 100,
            lines: 100,
            l1_hits: 0,
            l2_hits: 0,
            shared: 0,
            special: 0,
        });
        let machine = Machine {
            schedulers: 2,
            width: 1.0,
            bytes_per_cycle: 6.4,
            ..Machine::like(&DeviceShape::gtx480())
        };
        // 3.2 bytes an instruction, half an instruction a cycle: 1.6 of 6.4 bytes.
        let used = counts.utilisation(&machine, 0.5);
        assert_eq!((used.pur, used.mur), (0.25, 0.25));
    }
}
