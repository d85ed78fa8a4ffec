//! What an executor counts of each row on each group, between two instants ([`Event::Sample`]).
//!
//! Rules: counts go by the groups of the plan in force, so one with other groups begins with [`Readings::clear`]; what
//! has no count at both instants, or whose cycles have not moved on, has none between them.

use crate::event::Event;
use crate::ids::{GroupId, RowId};

/// Counts of a row on a group, until an instant or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cycles of the SMs on which the row has had blocks.
    pub cycles: u64,
    /// Sum of the residences of its blocks, in cycles.
    pub block_cycles: u64,
    /// Warp instructions issued.
    pub issued: u64,
    /// Cycles without an issue while one of its warps waited for memory.
    pub memory_stalls: u64,
    /// Bytes read from and written to DRAM.
    pub dram_bytes: u64,
}

impl Counts {
    /// Returns what was counted since an earlier instant; what runs backwards counts as nothing.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            cycles: self.cycles.saturating_sub(earlier.cycles),
            block_cycles: self.block_cycles.saturating_sub(earlier.block_cycles),
            issued: self.issued.saturating_sub(earlier.issued),
            memory_stalls: self.memory_stalls.saturating_sub(earlier.memory_stalls),
            dram_bytes: self.dram_bytes.saturating_sub(earlier.dram_bytes),
        }
    }

    /// Returns a count per cycle of an SM.
    fn per_cycle(&self, count: u64) -> f64 {
        count as f64 / self.cycles.max(1) as f64
    }

    /// Returns the mean number of blocks on an SM.
    #[must_use]
    pub fn residency(&self) -> f64 {
        self.per_cycle(self.block_cycles)
    }

    /// Returns the instructions issued in a cycle of an SM.
    #[must_use]
    pub fn ipc(&self) -> f64 {
        self.per_cycle(self.issued)
    }

    /// Returns the bytes that DRAM moved in a cycle of an SM.
    #[must_use]
    pub fn dram_bytes_per_cycle(&self) -> f64 {
        self.per_cycle(self.dram_bytes)
    }

    /// Returns the part of the time that was lost to waiting for memory: Warped-Slicer's phi_mem (equation 3).
    #[must_use]
    pub fn memory_part(&self) -> f64 {
        self.per_cycle(self.memory_stalls).min(1.0)
    }
}

/// Counts at two instants.
#[derive(Debug, Default)]
pub struct Readings {
    now: Vec<Reading>,
    begun: Vec<Reading>,
}

/// Counts of a row on a group until an instant.
#[derive(Clone, Copy, Debug)]
struct Reading {
    row: RowId,
    group: GroupId,
    counts: Counts,
}

impl Readings {
    /// Takes note of counts; other events say none.
    pub fn observe(&mut self, event: &Event) {
        let Event::Sample {
            row,
            group,
            cycles,
            block_cycles,
            issued,
            memory_stalls,
            l1_misses: _,
            l2_misses: _,
            dram_bytes,
        } = *event
        else {
            return;
        };
        let reading = Reading {
            row,
            group,
            counts: Counts {
                cycles,
                block_cycles,
                issued,
                memory_stalls,
                dram_bytes,
            },
        };
        match self
            .now
            .iter_mut()
            .find(|of| (of.row, of.group) == (row, group))
        {
            Some(known) => *known = reading,
            None => self.now.push(reading),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.now.clear();
        self.begun.clear();
    }

    /// Begins an interval with what was counted last.
    pub fn begin(&mut self) {
        self.begun.clone_from(&self.now);
    }

    /// Returns whether anything was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// Returns what a row did on a group since the interval began.
    #[must_use]
    pub fn of(&self, row: RowId, group: GroupId) -> Option<Counts> {
        let find = |all: &[Reading]| {
            let own = all.iter().find(|of| (of.row, of.group) == (row, group));
            own.map(|reading| reading.counts)
        };
        let counts = find(&self.now)?.since(&find(&self.begun)?);
        (counts.cycles > 0).then_some(counts)
    }

    /// Returns how many cycles blocks of other rows were on a group since the interval began, summed over blocks.
    #[must_use]
    pub fn block_cycles_of_others(&self, row: RowId, group: GroupId) -> u64 {
        let others = self
            .now
            .iter()
            .filter(|of| of.group == group && of.row != row);
        let block_cycles = others.map(|of| {
            let begun = self.begun.iter();
            let mut begun = begun.filter(|then| (then.row, then.group) == (of.row, of.group));
            let before = begun.next().map_or(0, |then| then.counts.block_cycles);
            of.counts.block_cycles.saturating_sub(before)
        });
        block_cycles.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::Readings;
    use crate::event::Event;
    use crate::ids::{GroupId, RowId};

    fn sample(row: u32, group: u16, cycles: u64, block_cycles: u64) -> Event {
        Event::Sample {
            row: RowId(row),
            group: GroupId(group),
            cycles,
            block_cycles,
            issued: 2 * cycles,
            memory_stalls: cycles / 2,
            l1_misses: 0,
            l2_misses: 0,
            dram_bytes: 0,
        }
    }

    #[test]
    fn counts_are_differences_between_two_instants() {
        let mut readings = Readings::default();
        let (row, group) = (RowId(0), GroupId(1));
        readings.observe(&sample(0, 1, 1000, 500));
        assert_eq!(readings.of(row, group), None, "nothing was begun");
        readings.begin();
        assert_eq!(readings.of(row, group), None, "no time has passed");
        readings.observe(&sample(0, 1, 6000, 15_500));
        readings.observe(&sample(1, 1, 6000, 700));
        readings.observe(&sample(1, 0, 6000, 900));
        let counts = readings.of(row, group).expect("there are two instants");
        assert_eq!((counts.residency(), counts.ipc()), (3.0, 2.0));
        assert_eq!(counts.memory_part(), 0.5);
        assert_eq!(readings.block_cycles_of_others(row, group), 700);
        assert_eq!(readings.of(RowId(1), group), None, "it came later");
        readings.observe(&sample(0, 1, 0, 0));
        assert_eq!(readings.of(row, group), None, "it ran backwards");
    }
}
