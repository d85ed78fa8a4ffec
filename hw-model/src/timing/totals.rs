//! What blocks did on an SM, by row of the plan, and the issue quotas of the rows.
//!
//! Rule: what a block does here counts towards its row when it leaves, however it does, and before that in samples.

use super::quota::Weights;
use super::resident::State;
use super::sm::Sm;
use crate::counters::Counters;
use gridmux_policy::ids::RowId;
use std::sync::Arc;

/// Counters of blocks that ended or left.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Of all launches.
    pub(super) all: Counters,
    /// By row, sorted.
    pub(super) by_row: Vec<(RowId, Counters)>,
}

impl Sm {
    /// Returns what blocks that ended here did, over all launches.
    pub(crate) fn totals(&self) -> &Counters {
        &self.totals.all
    }

    /// Sets new issue quotas, or none; nothing changes where they are those that hold.
    pub(crate) fn set_quotas(&mut self, weights: Option<&Arc<Weights>>, now: u64) {
        if self.quotas.holds(weights) {
            return;
        }
        let (residents, warps) = (&self.residency.blocks, &self.warps);
        let taken = (0..).zip(warps).filter(|(_, w)| w.state != State::Free);
        let present = taken.map(|(slot, w)| (slot, residents[usize::from(w.block)].row));
        self.quotas.set(weights, now, present);
    }

    /// Returns what the blocks of each row did here so far, running ones included; `now` is the device's time.
    pub(crate) fn sample(&self, now: u64) -> Vec<(RowId, Counters)> {
        let mut rows = self.totals.by_row.clone();
        let mut taken = self.residency.taken();
        while taken != 0 {
            let number = taken.trailing_zeros() as usize;
            taken &= taken - 1;
            let done = self.done_here(number, now);
            add_row(&mut rows, self.residency.blocks[number].row, &done);
        }
        rows
    }

    /// Forgets a row that is gone, and its counts.
    pub(crate) fn forget_row(&mut self, row: RowId) {
        self.totals.by_row.retain(|(other, _)| *other != row);
    }

    /// Adds the warp instructions of the blocks that are here to those of their launches, by the launch's index.
    pub(crate) fn add_instructions(&self, by_launch: &mut [u64]) {
        let mut taken = self.residency.taken();
        while taken != 0 {
            let resident = &self.residency.blocks[taken.trailing_zeros() as usize];
            taken &= taken - 1;
            // Without a kernel it has not started here, and its counters are those of the block before.
            if resident.kernel.is_some()
                && let Some(sum) = by_launch.get_mut(resident.launch as usize)
            {
                *sum += resident.counters.warp_instructions;
            }
        }
    }

    /// Counts what was done here under a row, for the SM and for the row.
    pub(super) fn count_towards_totals(&mut self, row: RowId, counters: &Counters) {
        self.totals.all += *counters;
        add_row(&mut self.totals.by_row, row, counters);
    }

    /// Returns what a block that is here has done here until `now`.
    pub(super) fn done_here(&self, number: usize, now: u64) -> Counters {
        let resident = &self.residency.blocks[number];
        let mut counters = resident.counters;
        counters.block_cycles = now.saturating_sub(resident.started);
        counters.warp_cycles = counters.block_cycles * u64::from(resident.needs.warps);
        counters
    }
}

/// Adds to a row's counters; rows are sorted.
pub(crate) fn add_row(rows: &mut Vec<(RowId, Counters)>, row: RowId, counters: &Counters) {
    match rows.binary_search_by_key(&row, |(other, _)| *other) {
        Ok(at) => rows[at].1 += *counters,
        Err(at) => rows.insert(at, (row, *counters)),
    }
}
