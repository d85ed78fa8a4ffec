//! What rows have done on an SM, from which samples are made.
//!
//! No instruction is executed: what a kernel uses of the device alone ([`Uses`]) and how fast its blocks progressed say
//! what they would have issued and moved.
//!
//! Rule: a kernel of which nothing is known is not counted, so that a policy hears no samples of it.

use super::Uses;
use gridmux_policy::ids::RowId;

/// What a row has done on an SM.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) row: RowId,
    /// Cycles of an SM full of its blocks, alone, that would have done the same.
    pub(super) full_cycles: f64,
    /// Sum of the residences of its blocks.
    pub(super) block_cycles: f64,
    /// What its kernel uses alone at full residency.
    pub(super) uses: Uses,
}

/// What every row has done on an SM.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows(Vec<Counted>);

impl Rows {
    /// Adds what a row did.
    pub(super) fn add(&mut self, more: Counted) {
        match self.0.iter_mut().find(|counted| counted.row == more.row) {
            Some(counted) => {
                counted.full_cycles += more.full_cycles;
                counted.block_cycles += more.block_cycles;
            }
            None => self.0.push(more),
        }
    }

    /// Forgets a row.
    pub(super) fn forget(&mut self, row: RowId) {
        self.0.retain(|counted| counted.row != row);
    }

    /// Returns all of them.
    pub(super) fn all(self) -> Vec<Counted> {
        self.0
    }
}
