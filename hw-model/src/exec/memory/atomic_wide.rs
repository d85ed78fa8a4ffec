//! Compare and swap of 128 bits (PTX ISA section 9.7.13: atom, `.b128`).
//!
//! Both halves count for the comparison and change together, so that this is one operation and no pair of those on
//! halves, as an exchange can be.

use super::access::{Checked, addressed, for_each_space, host, place};
use super::atomic_element::listed;
use super::swap::swap;
use crate::exec::cx::{Cx, Direction, Space};
use crate::exec::isa::{lane_fn, once};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{NONE, Op};
use gridmux_ptx::decode::{Instruction, Opcode, Operand, StateSpace};

lane_fn!(
    /// `r`: a list of two words each for the destination, the expected and the new value; then the address.
    CompareAndSwap, |cx, op| {
    for_each_space(cx, op, 16, Direction::Atomic, |cx, checked| cells(cx, op, checked));
});

fn cells(cx: &mut Cx<'_>, op: &Op, checked: &Checked) {
    let target = [listed(cx, op, 0), listed(cx, op, 1)];
    let words = [2, 3, 4, 5].map(|n| read::<u64>(cx, listed(cx, op, n)));
    let swap_of = |lane: usize| words.map(|word| word[lane]);
    let (mask, base) = (cx.mask, checked.base);
    let addresses = &cx.access.addresses;
    if cx.access.space == Space::Global
        && let Some(log) = cx.log.as_mut()
    {
        let target = (target[0] != NONE).then_some(target);
        log.swaps(mask, target, |lane| {
            (host(base, addresses[lane]), swap_of(lane))
        });
        return;
    }
    let mut old = [[0; 32]; 2];
    for lane in active(mask) {
        // SAFETY: the access of every active lane was checked; warps take turns, so that nothing else of this process
        // touches the cell meanwhile.
        let [low, high] = unsafe { swap(place(cx, checked, lane, 0), swap_of(lane)) };
        (old[0][lane], old[1][lane]) = (low, high);
    }
    if target[0] != NONE {
        commit(cx, target[0], &old[0]);
        commit(cx, target[1], &old[1]);
    }
}

/// Lowers `atom.cas.b128`.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let [target, address, expected, new] = i.operands.as_slice() else {
        return None;
    };
    let space = *i.mods.spaces.first().unwrap_or(&StateSpace::Generic);
    let atomic = matches!(
        space,
        StateSpace::Global | StateSpace::Shared | StateSpace::Generic
    );
    if i.opcode != Opcode::Atom || i.mods.vector > 1 || !atomic {
        return None;
    }
    let mut list = [NONE; 6];
    if !matches!(target, Operand::Sink) {
        list[..2].copy_from_slice(&l.two_words(target)?);
    }
    list[2..4].copy_from_slice(&l.two_words(expected)?);
    list[4..].copy_from_slice(&l.two_words(new)?);
    let place = l.operand_list(&list);
    let draft = Draft::alu(once::<CompareAndSwap>(), Class::Memory, &[place]);
    addressed(l, address, space, draft)
}
