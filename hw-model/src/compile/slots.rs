//! Slots for registers: virtual PTX registers share the warp's storage when their live ranges do not overlap.
//!
//! PTX is close to single assignment, so that an unrolled kernel names thousands of registers and keeps dozens
//! alive. A linear scan over whole live ranges packs them; a 64-bit register takes two neighbouring slots,
//! a 128-bit one four.
//! Rules:
//! - A register may take over a slot in the very instruction that reads it last, because every operation reads all of
//!   its sources before it writes.
//! - Only registers of one width share slots, and always the same ones. A range covers what the instructions between
//!   its ends need, but a lane that left a loop keeps its registers while the others go round again and write theirs.
//!   Those writes are masked, so they spare the lane as long as each lane's bytes are in the same place.

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
    words.slots = usize::from(reserved);
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
        slots: words.slots,
        predicates: predicates.slots,
    }
}

/// The slots given out so far.
#[derive(Debug, Default)]
struct Pool {
    /// All of them.
    slots: usize,
    /// By the logarithm of a register's width: the first slot of each place, and where it is read last.
    places: [Vec<(usize, u32)>; 3],
}

impl Pool {
    fn take(&mut self, start: u32, end: u32, width: usize) -> usize {
        let places = &mut self.places[width.ilog2() as usize];
        // A register written at an odd position may take a slot read last at the even position just before.
        if let Some((slot, until)) = places.iter_mut().find(|(_, until)| *until < start) {
            *until = end;
            return *slot;
        }
        let slot = self.slots;
        self.slots += width;
        places.push((slot, end));
        slot
    }
}
