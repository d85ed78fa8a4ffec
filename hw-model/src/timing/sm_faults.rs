//! How an SM names a fault: which block, which warp, which instruction.
//!
//! Rule: nothing here runs unless a kernel went wrong.

use super::sm::{Epoch, Sm, SmEvent};
use crate::exec::RawFault;
use crate::explain::{deadlock_note, dress};
use crate::fault::{Fault, FaultKind};

impl Sm {
    #[cold]
    pub(super) fn report_fault(
        &mut self,
        number: usize,
        slot: u32,
        raw: RawFault,
        epoch: &Epoch<'_>,
    ) {
        let resident = &self.residents[number];
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

    /// The fault of a launch that ran too long, found in one of its warps; `None` when it has none here.
    pub(crate) fn overrun(
        &self,
        launch: u32,
        budget_cycles: u64,
        epoch: &Epoch<'_>,
    ) -> Option<Box<Fault>> {
        let taken = !self.free_blocks;
        let number = (0..self.residents.len())
            .find(|n| taken >> n & 1 != 0 && self.residents[*n].launch == launch)?;
        let resident = &self.residents[number];
        let warp = resident.block.alive().trailing_zeros() as usize & 31;
        let slot = &self.warps[usize::from(resident.slots[warp])];
        let domain = epoch
            .memory
            .domain(epoch.launches.get(launch)?.domain)
            .ok()?;
        let raw = RawFault {
            kind: FaultKind::BudgetExceeded { budget_cycles },
            lane: slot.warp.alive().trailing_zeros() & 31,
            address: None,
        };
        Some(dress(
            raw,
            resident.kernel.as_ref()?,
            &resident.block,
            &slot.warp,
            domain,
        ))
    }
}
