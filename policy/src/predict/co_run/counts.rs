//! Kernels as the chain takes them, from what executors count of a row ([`Event::Sample`], [`Event::Instructions`]).
//!
//! Rule: the traits of a row are those of all that its blocks have done since it exists, alone or beside others.

use super::{Candidate, Machine, Traits, Utilisation};
use crate::event::Event;
use crate::shape::BlockShape;

/// What the blocks of a row have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sum of the residences of its blocks, in cycles.
    pub block_cycles: u64,
    /// Warp instructions issued.
    pub issued: u64,
    /// Bytes from and to DRAM.
    pub dram_bytes: u64,
    /// Of the instructions, those that wait for global memory: loads and atomic operations.
    pub loads: u64,
    /// Accesses to global memory, stores included.
    pub accesses: u64,
    /// Lines that these touched.
    pub lines: u64,
    /// Sectors of them that L1 had, and that L2 had.
    pub hits: [u64; 2],
    /// Sectors that neither had.
    pub misses: u64,
    /// Accesses to shared memory.
    pub shared: u64,
    /// Instructions of special functions.
    pub special: u64,
}

impl Counts {
    /// Enters an event of the row. Counts are cumulative: the newest of each kind counts.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::Sample {
                block_cycles,
                issued,
                l2_misses,
                dram_bytes,
                ..
            } => {
                (self.block_cycles, self.issued) = (block_cycles, issued);
                (self.misses, self.dram_bytes) = (l2_misses, dram_bytes);
            }
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

    /// Returns the instructions a cycle of an SM on which that many of its blocks reside, as they were counted.
    #[must_use]
    pub fn ipc(&self, resident: u16) -> f64 {
        self.issued as f64 / self.block_cycles.max(1) as f64 * f64::from(resident)
    }

    /// Returns the kernel of blocks of that shape that stay for so long on average, in whatever unit, the same for all
    /// kernels; none before anything was issued. A block's instructions are those of a cycle of residence times its
    /// stay, so that blocks that have not ended count with what they have issued.
    #[must_use]
    pub fn candidate(&self, block: BlockShape, stay: f64) -> Option<Candidate> {
        (self.issued > 0).then(|| Candidate {
            traits: self.traits(block.threads.div_ceil(32)),
            block,
            instructions: self.ipc(1) * stay,
        })
    }

    /// Returns the traits that they show of blocks of `warps` warps.
    fn traits(&self, warps: u32) -> Traits {
        let part = |one: u64, all: u64| one as f64 / all.max(1) as f64;
        let sectors = self.hits[0].saturating_add(self.hits[1]);
        let sectors = sectors.saturating_add(self.misses);
        Traits {
            memory_ratio: part(self.loads, self.issued),
            special_ratio: part(self.special, self.issued),
            shared_ratio: part(self.shared, self.issued),
            lines: part(self.lines, self.accesses),
            hits: self.hits.map(|hits| part(hits, sectors)),
            dram_bytes: part(self.dram_bytes, self.loads),
            independent: Machine::INDEPENDENT,
            warps,
        }
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
    use crate::shape::{BlockShape, DeviceShape};

    const ROW: RowId = RowId(1);
    const GROUP: GroupId = GroupId(0);
    const BLOCK: BlockShape = BlockShape::of_threads(256);

    fn sample(issued: u64, dram_bytes: u64) -> Event {
        Event::Sample {
            row: ROW,
            group: GROUP,
            block_cycles: 4000,
            issued,
            memory_stalls: 0,
            dram_bytes,
            cycles: 0,
            l1_misses: 0,
            l2_misses: 100,
        }
    }

    #[test]
    fn traits_are_ratios_of_the_newest_counts() {
        let mut counts = Counts::default();
        assert_eq!(counts.candidate(BLOCK, 1.0), None);
        for issued in [500, 1000] {
            counts.observe(&sample(issued, 6400));
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
        let kernel = counts.candidate(BLOCK, 500.0);
        let kernel = kernel.expect("something was issued");
        let traits = kernel.traits;
        assert_eq!((traits.memory_ratio, traits.shared_ratio), (0.1, 0.25));
        assert_eq!((traits.lines, traits.dram_bytes), (2.0, 64.0));
        // Neither cache had 100 sectors; stores moved as many bytes.
        assert_eq!(traits.hits, [0.5, 0.25]);
        assert_eq!((traits.warps, traits.special_ratio), (8, 0.01));
        // A quarter of an instruction in each cycle of residence, whatever part of the blocks has ended.
        assert_eq!((kernel.instructions, counts.ipc(8)), (125.0, 2.0));
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
