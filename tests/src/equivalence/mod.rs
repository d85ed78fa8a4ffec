//! Bit equality: what a rewritten kernel leaves in memory against what the original does.
//!
//! A [`Subject`] is one launch. A [`Judge`] runs it as it is, then in every form that it can take, on a small modelled
//! GPU: slices of random sizes, any number of workers with tickets of any size. Memory must be the same to the bit:
//! every buffer and every variable of the module.
//!
//! Rules: everything follows from the subject and one seed, so that a failure repeats; a failure names the seed, the
//! form and the first byte that differs, and leaves both texts in files.

mod drive;
mod judge;
mod stage;

pub use judge::{Counts, Failure, Judge, Verdict};

use gridmux_testkit::generate::Generated;
use gridmux_workloads::{Arg, Case};

/// One launch of one kernel.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What to call it in messages.
    pub name: &'a str,
    /// The module.
    pub ptx: &'a str,
    /// Its kernel.
    pub entry: &'a str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: u32,
    /// Arguments in the order of the parameters.
    pub args: &'a [Arg],
    /// What judges the outputs where the order of blocks or warps is the original's own business, as in an append by
    /// an atomic counter; none where bits must be the same.
    pub case: Option<&'a Case>,
}

impl<'a> From<&'a Case> for Subject<'a> {
    fn from(case: &'a Case) -> Self {
        Self {
            name: case.workload,
            ptx: case.ptx,
            entry: case.entry,
            grid: case.grid,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            args: &case.args,
            case: Some(case),
        }
    }
}

impl<'a> From<&'a Generated> for Subject<'a> {
    fn from(made: &'a Generated) -> Self {
        Self {
            name: "generated",
            ptx: &made.ptx,
            entry: made.entry,
            grid: made.grid,
            block: made.block,
            dynamic_shared_bytes: made.dynamic_shared_bytes,
            args: &made.args,
            case: None,
        }
    }
}

impl Subject<'_> {
    /// Returns the blocks of the grid.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.grid.iter().product()
    }
}
