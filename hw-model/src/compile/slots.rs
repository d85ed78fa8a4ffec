//! Slots for registers: virtual PTX registers share the warp's storage when their live ranges do not overlap.
//!
//! PTX is close to single assignment, so that an unrolled kernel names thousands of registers and keeps dozens
//! alive. A linear scan over whole live ranges packs them; a 64-bit register takes two neighbouring slots,
//! a 128-bit one four.
//! Rule: a register may take over a slot in the very instruction that reads it last, because every operation
//! reads all of its sources before it writes.

use super::flow::Flow;
use crate::exec::NONE;
use gridmux_ptx::decode::{Function, ScalarType};

/// Where each register lives.
#[derive(Debug)]
pub(super) struct Slots {
    /// Slot, or predicate index for predicates; [`NONE`] for a register that is never live.
    pub(super) place: Vec<u16>,
    /// Slots of a warp.
    pub(super) slots: usize,
    /// Predicates of a warp.
    pub(super) predicates: usize,
}

/// Packs the registers of a function behind `reserved` slots, which it keeps for itself.
pub(super) fn assign(function: &Function, flow: &Flow, reserved: u16) -> Slots {
    let mut ranges = flow.live_ranges(&function.body, function.registers.len());
    // Formal parameters are written before the first instruction, results are read behind the last.
    for reg in function.params.iter().filter_map(|p| p.reg) {
        let range = &mut ranges[reg.0 as usize];
        *range = range.map(|(_, end)| (0, end));
    }
    for reg in function.returns.iter().filter_map(|p| p.reg) {
        ranges[reg.0 as usize] = Some((0, u32::MAX));
    }
    let mut order: Vec<(u32, u32, usize)> = ranges
        .iter()
        .enumerate()
        .filter_map(|(register, range)| range.map(|(start, end)| (start, end, register)))
        .collect();
    order.sort_unstable();
    let mut place = vec![NONE; function.registers.len()];
    let (mut words, mut predicates) = (Pool::default(), Pool::default());
    words.busy_until = vec![Some(u32::MAX); usize::from(reserved)];
    for (start, end, register) in order {
        let ty = function.registers[register];
        let (pool, width) = if ty == ScalarType::Pred {
            (&mut predicates, 1)
        } else {
            (&mut words, (ty.size_bytes() as usize / 4).max(1))
        };
        let slot = pool.take(start, end, width);
        place[register] = u16::try_from(slot).unwrap_or(NONE);
    }
    Slots {
        place,
        slots: words.busy_until.len(),
        predicates: predicates.busy_until.len(),
    }
}

/// For each slot, the position where its present register is read last.
#[derive(Debug, Default)]
struct Pool {
    busy_until: Vec<Option<u32>>,
}

impl Pool {
    fn take(&mut self, start: u32, end: u32, width: usize) -> usize {
        // A register written at an odd position may take a slot read last at the even position just before.
        let free = |until: &Option<u32>| until.is_none_or(|until| until < start);
        let found = self
            .busy_until
            .windows(width)
            .position(|window| window.iter().all(free));
        let slot = found.unwrap_or_else(|| {
            let tail = self.busy_until.iter().rev().take_while(|u| free(u)).count();
            let slot = self.busy_until.len() - tail.min(width - 1);
            self.busy_until.resize(slot + width, None);
            slot
        });
        for until in &mut self.busy_until[slot..slot + width] {
            *until = Some(end);
        }
        slot
    }
}
