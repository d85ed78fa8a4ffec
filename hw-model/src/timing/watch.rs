//! Stall cycles of the warps of one watched kernel, by operation.
//!
//! Rule: nothing here changes what is timed; without a kernel that is watched it costs a comparison for each stall.

use super::sm::Sm;
use super::stalls::Cause;
use crate::kernel::Kernel;

/// Cycles of an operation by cause, in the order of [`Stalls::NAMES`].
type Cycles = [u64; 5];

/// Stalls of one kernel on one SM.
#[derive(Debug)]
pub(crate) struct Stalls {
    /// Of the kernel that is watched.
    code_line: u64,
    by_operation: Vec<Cycles>,
}

impl Stalls {
    /// Counters of the causes that a warp stalls for.
    pub(crate) const NAMES: [&str; 5] = [
        "stall_short_raw_cycles",
        "stall_control_cycles",
        "stall_memory_cycles",
        "stall_barrier_cycles",
        "stall_resource_cycles",
    ];

    /// Adds cycles of an operation.
    pub(super) fn add(&mut self, operation: u32, cause: Cause, cycles: u64) {
        let at = match cause {
            Cause::ShortRaw => 0,
            Cause::Control => 1,
            Cause::Memory => 2,
            Cause::Barrier => 3,
            Cause::Resource => 4,
            Cause::Empty => return,
        };
        if let Some(sums) = self.by_operation.get_mut(operation as usize) {
            sums[at] += cycles;
        }
    }
}

impl Sm {
    /// Counts the stalls of a kernel from now on.
    pub(crate) fn watch(&mut self, kernel: &Kernel) {
        self.stalls = Some(Box::new(Stalls {
            code_line: kernel.code_line,
            by_operation: vec![[0; 5]; kernel.ops.len()],
        }));
    }

    /// Returns the stalls of each operation of a kernel, if it is the one that is watched.
    pub(crate) fn watched(&self, kernel: &Kernel) -> Option<&[Cycles]> {
        let stalls = self.stalls.as_ref()?;
        (stalls.code_line == kernel.code_line).then_some(&stalls.by_operation)
    }

    /// Returns the operation at which a warp of the watched kernel stands or waits.
    #[cold]
    pub(super) fn watched_operation(&self, slot: u32) -> Option<u32> {
        let stalls = self.stalls.as_ref()?;
        let entry = &self.warps[slot as usize];
        let kernel = self.residency.blocks[usize::from(entry.block)]
            .kernel
            .as_ref()?;
        (kernel.code_line == stalls.code_line).then(|| entry.warp.place().0)
    }
}
