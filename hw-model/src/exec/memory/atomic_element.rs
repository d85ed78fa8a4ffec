//! Atomic operations on elements: half precision and its pairs, vectors, 16-bit cells, and exchanges of 128 bits
//! (PTX ISA section 9.7.13: atom, red).
//!
//! The ISA makes each element of a vector atomic on its own; so does this.
//! Rule: sums round to nearest even and keep subnormal numbers (`.noftz`); minimum and maximum prefer numbers to
//! NaN.

use super::access::{Checked, addressed, for_each_space, host};
use super::atomic_wide;
use super::exchange::{HostWord, is_among_others};
use super::log::Target;
use crate::exec::cx::{Cx, Direction, Space};
use crate::exec::isa::{lane_fn, once};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{NONE, Op};
use crate::exec::values::float::{maximum, minimum};
use crate::exec::values::half::Small;
use crate::exec::values::round::{self, Brain, Half, NEAREST};
use gridmux_ptx::decode::{AtomOp, Instruction, Opcode, Operand, ScalarType as T, StateSpace};

/// Places in the operand list: destinations, operands, the second operand.
const OPERANDS: usize = 8;
const SECOND: usize = 16;

/// Fields of `aux` above the space and its flags: the operation, the element's kind.
const CODE_SHIFT: u32 = 16;
const KIND_SHIFT: u32 = 20;
const ADD: u32 = 0;
const MIN: u32 = 1;
const MAX: u32 = 2;
const EXCH: u32 = 3;
const CAS: u32 = 4;

const HALF: u32 = 0;
const BRAIN: u32 = 1;
const HALVES: u32 = 2;
const BRAINS: u32 = 3;
const SINGLE: u32 = 4;
const CELL_16: u32 = 5;
const CELL_64: u32 = 6;

/// Of a code for [`apply`], above operation and kind: other processes may change the element as well.
const AMONG_OTHERS: u32 = 1 << 8;

fn width(kind: u32) -> usize {
    match kind {
        HALF | BRAIN | CELL_16 => 2,
        CELL_64 => 8,
        _ => 4,
    }
}

fn small<F: Small>(op: u32, a: u64, b: u64) -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "half-precision numbers")]
    let (x, y) = (F::widen(a as u16), F::widen(b as u16));
    let v = match op {
        ADD => {
            let sum = round::add(x.into(), y.into(), NEAREST);
            round::to_single(round::round::<F>(sum, NEAREST))
        }
        MIN => minimum(x, y, 0),
        _ => maximum(x, y, 0),
    };
    F::narrow(v).into()
}

fn single(op: u32, a: u64, b: u64) -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "single-precision numbers")]
    let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
    let v = match op {
        ADD => x + y,
        MIN => minimum(x, y, 0),
        _ => maximum(x, y, 0),
    };
    v.to_bits().into()
}

/// Returns the new value of an element.
fn applied(kind: u32, op: u32, a: u64, b: u64, c: u64) -> u64 {
    match (op, kind) {
        (EXCH, _) => b,
        (CAS, _) => {
            if a == b {
                c
            } else {
                a
            }
        }
        (_, HALF) => small::<Half>(op, a, b),
        (_, BRAIN) => small::<Brain>(op, a, b),
        (_, HALVES) => small::<Half>(op, a, b) | small::<Half>(op, a >> 16, b >> 16) << 16,
        (_, BRAINS) => small::<Brain>(op, a, b) | small::<Brain>(op, a >> 16, b >> 16) << 16,
        _ => single(op, a, b),
    }
}

/// Returns a [`super::log::LaneFn`]; `code`: kind and operation, and whether the element is among others'.
#[allow(
    clippy::cast_possible_truncation,
    reason = "an element of the word's width"
)]
unsafe fn apply(at: *mut u8, b: u64, c: u64, code: u32) -> u64 {
    let (kind, op) = (code >> 4 & 7, code & 15);
    let size = width(kind);
    let mask = u64::MAX >> (64 - 8 * size);
    let new = |old: u64| applied(kind, op, old, b & mask, c & mask);
    if code & AMONG_OTHERS != 0 {
        // SAFETY: the caller passes the address of a checked access, of global memory, whose width is this one or a
        // multiple of it.
        return unsafe {
            match size {
                2 => u16::exchange(at.cast(), |old| new(old.into()) as u16).into(),
                4 => u32::exchange(at.cast(), |old| new(old.into()) as u32).into(),
                _ => u64::exchange(at.cast(), new),
            }
        };
    }
    let mut bytes = [0; 8];
    // SAFETY: the caller passes the address of a checked access of this width; warps take turns and no other process
    // has the element, so that nothing else touches it meanwhile.
    unsafe { std::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), size) };
    let old = u64::from_le_bytes(bytes);
    let new = new(old).to_le_bytes();
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), at, size) };
    old
}

lane_fn!(
    /// `r`: the operand list, then the address; `vector`: elements.
    Elements, |cx, op| {
    let kind = op.aux >> KIND_SHIFT & 7;
    let bytes = u32::try_from(width(kind)).unwrap_or(4) * u32::from(op.vector);
    for_each_space(cx, op, bytes, Direction::Atomic, |cx, checked| {
        for element in 0..usize::from(op.vector) {
            one(cx, op, checked, element, kind);
        }
    });
});

/// Applies one element of all lanes, or records it.
fn one(cx: &mut Cx<'_>, op: &Op, checked: &Checked, element: usize, kind: u32) {
    let (size, wide) = (width(kind), kind == CELL_64);
    let word = |cx: &Cx<'_>, index: usize| match listed(cx, op, index) {
        NONE => [0; 32],
        operand if wide => read::<u64>(cx, operand),
        operand => read::<u32>(cx, operand).map(u64::from),
    };
    let (b, c) = (word(cx, OPERANDS + element), word(cx, SECOND));
    let target = listed(cx, op, element);
    let others = if is_among_others(cx) { AMONG_OTHERS } else { 0 };
    let code = others | kind << 4 | op.aux >> CODE_SHIFT & 15;
    let (mask, base, offset) = (cx.mask, checked.base, element * size);
    let addresses = &cx.access.addresses;
    if cx.access.space == Space::Global
        && let Some(log) = cx.log.as_mut()
    {
        let target = (target != NONE).then_some(Target { slot: target, wide });
        log.lanes(mask, size, apply, code, target, false, |lane| {
            (
                host(base, addresses[lane]).wrapping_add(offset),
                b[lane],
                c[lane],
            )
        });
        return;
    }
    let mut old = [0; 32];
    for lane in active(mask) {
        let at = host(base, addresses[lane]).wrapping_add(offset);
        // SAFETY: the access of every active lane was checked, and is of global memory where others may have it.
        old[lane] = unsafe { apply(at, b[lane], c[lane], code) };
    }
    if target == NONE {
        return;
    }
    if wide {
        commit(cx, target, &old);
    } else {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "an element of at most 32 bits"
        )]
        commit(cx, target, &old.map(|word| word as u32));
    }
}

/// Returns an entry of the operand list.
pub(in crate::exec) fn listed(cx: &Cx<'_>, op: &Op, index: usize) -> u16 {
    // SAFETY: the lowering made `r[0]` a constant slot, which has 32 words.
    let word = unsafe { *cx.lanes::<u32>(op.r[0]).add(index & 31) };
    u16::try_from(word).unwrap_or(NONE)
}

/// Lowers what `atomic` hands over.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    if ty == T::B128 && i.mods.atom == Some(AtomOp::Cas) {
        return atomic_wide::lower(l, i);
    }
    let vector = i.mods.vector.max(1);
    let code = match i.mods.atom? {
        AtomOp::Add => ADD,
        AtomOp::Min => MIN,
        AtomOp::Max => MAX,
        AtomOp::Exch => EXCH,
        AtomOp::Cas => CAS,
        _ => return None,
    };
    let returns = i.opcode == Opcode::Atom;
    let selects = matches!(code, MIN | MAX) && vector > 1;
    let (kind, elements) = match ty {
        T::F16 if vector <= 8 && (code == ADD || selects) => (HALF, vector),
        T::Bf16 if vector <= 8 && (code == ADD || selects) => (BRAIN, vector),
        T::F16x2 if vector <= 4 && (code == ADD || selects) => (HALVES, vector),
        T::Bf16x2 if vector <= 4 && (code == ADD || selects) => (BRAINS, vector),
        T::F32 if matches!(vector, 2 | 4) && code == ADD => (SINGLE, vector),
        T::B16 if vector == 1 && matches!(code, CAS | EXCH) && returns => (CELL_16, 1),
        T::B128 if vector == 1 && code == EXCH && returns => (CELL_64, 2),
        _ => return None,
    };
    let first = usize::from(returns);
    let mut list = [NONE; SECOND + 1];
    if returns {
        destinations(l, i.operands.first()?, kind, &mut list)?;
    }
    sources(
        l,
        i.operands.get(first + 1)?,
        kind,
        ty,
        &mut list[OPERANDS..SECOND],
    )?;
    let named = list[OPERANDS..SECOND]
        .iter()
        .filter(|o| **o != NONE)
        .count();
    if named != usize::from(elements) {
        return None;
    }
    if code == CAS {
        list[SECOND] = l.src(i, first + 2, ty)?;
    }
    let space = *i.mods.spaces.first().unwrap_or(&StateSpace::Generic);
    if !matches!(
        space,
        StateSpace::Global | StateSpace::Shared | StateSpace::Generic
    ) {
        return None;
    }
    let place = l.operand_list(&list);
    let draft = Draft::alu(once::<Elements>(), Class::Memory, &[place]).vector(elements);
    let mut draft = addressed(l, i.operands.get(first)?, space, draft)?;
    draft.aux |= code << CODE_SHIFT | kind << KIND_SHIFT;
    Some(draft)
}

fn destinations(l: &Lower<'_>, operand: &Operand, kind: u32, list: &mut [u16]) -> Option<()> {
    let parts: Vec<&Operand> = match operand {
        Operand::Vector(parts) => parts.iter().collect(),
        single => vec![single],
    };
    if parts.len() > OPERANDS {
        return None;
    }
    for (place, part) in list.iter_mut().zip(&parts) {
        match part {
            Operand::Sink => {}
            part if kind == CELL_64 => {
                let words = l.two_words(part)?;
                list[..2].copy_from_slice(&words);
                return Some(());
            }
            part => *place = l.reg(part, false)?,
        }
    }
    Some(())
}

fn sources(l: &mut Lower<'_>, operand: &Operand, kind: u32, ty: T, list: &mut [u16]) -> Option<()> {
    if kind == CELL_64 {
        list[..2].copy_from_slice(&l.two_words(operand)?);
        return Some(());
    }
    let parts: Vec<&Operand> = match operand {
        Operand::Vector(parts) => parts.iter().collect(),
        single => vec![single],
    };
    if parts.len() > list.len() {
        return None;
    }
    for (place, part) in list.iter_mut().zip(parts) {
        *place = l.value(part, ty)?;
    }
    Some(())
}
