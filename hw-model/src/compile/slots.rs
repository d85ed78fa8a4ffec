//! Slots for registers: virtual PTX registers share the warp's storage when their live ranges do not overlap.
//!
//! PTX is close to single assignment, so that an unrolled kernel names thousands of registers and keeps dozens
//! alive. A linear scan over whole live ranges packs them; a 64-bit register takes two neighbouring slots,
//! a 128-bit one four.
//! Rule: a register may take over a slot in the very instruction that reads it last, because every operation
//! reads all of its sources before it writes.

use super::live::live_ranges;
use crate::exec::NONE;
use gridmux_ptx::analysis::Flow;
use gridmux_ptx::decode::{Function, ScalarType};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where each register lives.
#[derive(Debug)]
pub(super) struct Slots {
    /// RegisterSlot, or predicate index for predicates; [`NONE`] for a register that is never live.
    pub(super) place: Vec<u16>,
    /// Slots of a warp.
    pub(super) slots: usize,
    /// First slot of those that hold 64-bit words by pairs.
    pub(super) wide_from: usize,
    /// Predicates of a warp.
    pub(super) predicates: usize,
}

/// Packs the registers of a function behind `reserved` slots, which it keeps for itself.
pub(super) fn assign(function: &Function, flow: &Flow, reserved: u16) -> Slots {
    let mut ranges = live_ranges(function, flow);
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
    let mut pools = CLASSES.map(|_| Pool::default());
    let mut units: Vec<Option<(usize, usize)>> = vec![None; function.registers.len()];
    for (start, end, register) in order {
        let class = class(function.registers[register]);
        units[register] = Some((class, pools[class].take(start, end)));
    }
    let mut base = [0; CLASSES.len()];
    let mut slots = usize::from(reserved);
    for (class, width) in CLASSES.into_iter().enumerate().skip(1) {
        base[class] = slots;
        slots += width * pools[class].units;
    }
    let slot = |(class, unit): (usize, usize)| {
        // Predicates stand in a place of their own, one after another.
        u16::try_from(base[class] + CLASSES[class].max(1) * unit).unwrap_or(NONE)
    };
    let place = units.into_iter().map(|unit| unit.map_or(NONE, slot));
    let place = place.collect();
    Slots {
        place,
        slots,
        wide_from: base[2],
        predicates: pools[0].units,
    }
}

/// Slots of a register of each class: predicates, which have none, words, and two wider ones.
///
/// Registers of different widths never share storage. A lane's word lies at the lane's place among the lanes of its own
/// width, so that with one width a lane overwrites only what was its own; across widths it would overwrite another
/// lane's, which may stand elsewhere in the program and still need it.
const CLASSES: [usize; 4] = [0, 1, 2, 4];

fn class(ty: ScalarType) -> usize {
    match ty {
        ScalarType::Pred => 0,
        wide if wide.size_bytes() > 8 => 3,
        wide if wide.size_bytes() > 4 => 2,
        _ => 1,
    }
}

/// The units of a class: each register takes the lowest one that is free.
#[derive(Debug, Default)]
struct Pool {
    /// Units with the position where their present register is read last, the earliest first.
    busy: BinaryHeap<Reverse<(u32, usize)>>,
    /// Units whose register is read no more, the lowest first.
    free: BinaryHeap<Reverse<usize>>,
    /// Units that there are.
    units: usize,
}

impl Pool {
    /// Takes a unit for a register; positions come in ascending order.
    fn take(&mut self, start: u32, end: u32) -> usize {
        // A register written at an odd position may take a unit read last at the even position just before.
        while let Some(Reverse((until, unit))) = self.busy.peek().copied()
            && until < start
        {
            self.busy.pop();
            self.free.push(Reverse(unit));
        }
        let unit = match self.free.pop() {
            Some(Reverse(unit)) => unit,
            None => {
                self.units += 1;
                self.units - 1
            }
        };
        self.busy.push(Reverse((end, unit)));
        unit
    }
}
