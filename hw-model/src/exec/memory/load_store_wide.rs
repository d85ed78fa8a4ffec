//! Loads and stores of 256 bits a lane: `ld.v8` and `st.v8` of 32-bit elements (PTX ISA sections 9.7.9.8 and 9.7.9.11).
//!
//! An operation has room for four data slots, so that the eight stand in a list; the access is checked and counted as
//! one, and its data move as two of four elements.

use super::access::{Checked, addressed, for_each_space};
use super::atomic_element::listed;
use super::load_store::{load_checked, past_l1, store_checked};
use crate::exec::cx::{Cx, Direction};
use crate::exec::isa::{lane_fn, once};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{NONE, Op};
use gridmux_ptx::decode::{Instruction, Opcode, Operand, StateSpace};

/// Elements of a lane.
const ELEMENTS: usize = 8;
/// Elements of each of the two parts.
const PART: usize = ELEMENTS / 2;
/// Bytes of a lane.
const BYTES: u32 = 32;

lane_fn!(
    /// `r`: the list of destinations, then the address.
    LoadEight, |cx, op| {
    for_each_space(cx, op, BYTES, Direction::Load, |cx, checked| {
        parts(cx, op, checked, load_checked::<u32, u32>);
    });
});
lane_fn!(
    /// `r`: the list of sources, then the address.
    StoreEight, |cx, op| {
    for_each_space(cx, op, BYTES, Direction::Store, |cx, checked| {
        parts(cx, op, checked, store_checked::<u32, u32>);
    });
});

/// Moves the two parts of a checked access.
fn parts(cx: &mut Cx<'_>, op: &Op, checked: &Checked, body: fn(&mut Cx<'_>, &Op, &Checked)) {
    for first in [0, PART] {
        let mut part = *op;
        for n in 0..PART {
            part.r[n] = listed(cx, op, first + n);
        }
        part.vector = u8::try_from(PART).unwrap_or(1);
        let base = checked.base.wrapping_add(first * size_of::<u32>());
        body(cx, &part, &Checked { base });
    }
}

/// Lowers `ld.v8` and `st.v8`, which exist for 32-bit elements in global memory.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let space = *i.mods.spaces.first().unwrap_or(&StateSpace::Generic);
    let (data, address, exec, past) = match i.opcode {
        Opcode::Ld => (0, 1, once::<LoadEight>(), past_l1(i)),
        Opcode::St => (1, 0, once::<StoreEight>(), 0),
        _ => return None,
    };
    let Operand::Vector(elements) = i.operands.get(data)? else {
        return None;
    };
    if ty.size_bytes() != 4 || elements.len() != ELEMENTS || space != StateSpace::Global {
        return None;
    }
    let mut list = [NONE; ELEMENTS];
    for (place, element) in list.iter_mut().zip(elements) {
        *place = match element {
            Operand::Sink if i.opcode == Opcode::Ld => continue,
            Operand::Reg(_) => l.reg(element, false)?,
            literal if i.opcode == Opcode::St => l.value(literal, ty)?,
            _ => return None,
        };
    }
    let place = l.operand_list(&list);
    let draft = Draft::alu(exec, Class::Memory, &[place]).vector(8);
    let mut draft = addressed(l, i.operands.get(address)?, space, draft)?;
    draft.aux |= past;
    Some(draft)
}
