//! How an SM names a fault: which block, which warp, which instruction.
//!
//! Rule: nothing here runs unless a kernel went wrong.

use super::launches::LaunchState;
use super::sm::{Epoch, Sm, SmEvent};
use crate::exec::{Block, RawFault, Warp};
use crate::explain::{deadlock_note, dress};
use crate::fault::{Fault, FaultKind};
use crate::memory::Domain;

impl Sm {
    #[cold]
    pub(super) fn report_fault(
        &mut self,
        number: usize,
        slot: u32,
        raw: RawFault,
        epoch: &Epoch<'_>,
    ) {
        let resident = &self.residency.blocks[number];
        let warp = &self.warps[slot as usize].warp;
        let (Some(kernel), Some(launch)) = (&resident.kernel, epoch.launches.get(resident.launch))
        else {
            return;
        };
        let Ok(domain) = epoch.memory.domain(launch.domain) else {
            return;
        };
        let mut fault = dress(raw, kernel, &resident.block, warp, domain);
        if raw.kind == FaultKind::BarrierDeadlock {
            let count = resident.needs.warps as usize;
            let slots = resident.slots[..count].iter();
            let warps = slots.map(|slot| &self.warps[usize::from(*slot)].warp);
            fault.note = Some(deadlock_note(&resident.block, kernel, warps));
        }
        self.events.push(SmEvent::Faulted {
            launch: resident.launch,
            at: self.now,
            fault,
        });
    }

    /// Returns the fault of a launch that ran too long, found in one of the blocks that run here or are coming back;
    /// `None` when it has none here.
    pub(crate) fn overrun(
        &self,
        index: u32,
        launch: &LaunchState,
        domain: &Domain,
    ) -> Option<Box<Fault>> {
        let taken = self.residency.taken();
        let mut running = self
            .residency
            .blocks
            .iter()
            .enumerate()
            .filter(|(n, resident)| {
                taken >> n & 1 != 0 && resident.kernel.is_some() && resident.launch == index
            });
        let Some((_, resident)) = running.next() else {
            return self.coming_back(index)?.overrun(launch, domain);
        };
        let slot = resident.slots[first_alive(&resident.block)];
        let warp = &self.warps[usize::from(slot)].warp;
        overran(launch, &resident.block, warp, domain)
    }
}

/// Returns the first warp of a block that has not ended.
pub(super) fn first_alive(block: &Block) -> usize {
    block.alive().trailing_zeros() as usize & 31
}

/// Returns the fault of a launch that ran too long; it names where a warp stands.
#[cold]
pub(super) fn overran(
    launch: &LaunchState,
    block: &Block,
    warp: &Warp,
    domain: &Domain,
) -> Option<Box<Fault>> {
    let raw = RawFault {
        kind: FaultKind::BudgetExceeded {
            budget_cycles: launch.budget?,
        },
        lane: warp.alive().trailing_zeros() & 31,
        address: None,
    };
    Some(dress(raw, &launch.kernel, block, warp, domain))
}

/// Returns the same, where none of its blocks has begun and not ended.
#[cold]
pub(crate) fn overran_waiting(launch: &LaunchState) -> Box<Fault> {
    let (next, [x, y, _]) = (launch.next_block, launch.grid.map(u64::from));
    let block = [next % x, next / x % y, next / (x * y)];
    let first = &launch.kernel.origins[0];
    Box::new(Fault {
        kernel: launch.kernel.name.clone(),
        block: block.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        thread: [0; 3],
        function: None,
        ptx_line: first.line,
        source_line: None,
        source_file: None,
        mnemonic: first.mnemonic.clone(),
        address: None,
        nearest: None,
        lies_in: None,
        partition: None,
        owner: None,
        note: Some("the block waits for room on an SM, and no other one is under way".into()),
        kind: FaultKind::BudgetExceeded {
            budget_cycles: launch.budget.unwrap_or(0),
        },
    })
}
