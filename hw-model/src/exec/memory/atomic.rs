//! Atomic operations and reductions (PTX ISA section 9.7.13: atom, red).
//!
//! Rule: the lanes of a warp take their turns in ascending order, so that a run is deterministic, as far as the program
//! itself does not change the same memory meanwhile ([`super::exchange`]).

use super::access::{Checked, addressed, for_each_space, host, place};
use super::atomic_element;
use super::exchange::{change, is_among_others};
use super::log::{LaneFn, Target};
use super::stored::Word;
use crate::exec::cx::{Cx, Direction, Space};
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{LaneValue, active, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{NONE, Op};
use gridmux_ptx::decode::{AtomOp, Instruction, Opcode, ScalarType as T, StateSpace};

/// `imm` is the address offset, so the operation's code stands above the space in `aux`.
const CODE_SHIFT: u32 = 16;
const ADD: u32 = 0;
const MIN: u32 = 1;
const MAX: u32 = 2;
const AND: u32 = 3;
const OR: u32 = 4;
const XOR: u32 = 5;
const EXCH: u32 = 6;
const CAS: u32 = 7;
const INC: u32 = 8;
const DEC: u32 = 9;

/// Types with atomic operations.
pub(in crate::exec) trait Atom: LaneValue<Raw: Word> {
    /// Returns the new value; `b` is the operand, `c` the second one of `cas`.
    fn apply(self, code: u32, b: Self, c: Self) -> Self;
}

macro_rules! atom_int {
    ($($ty:ty),*) => {
        $(impl Atom for $ty {
            #[inline(always)]
            fn apply(self, code: u32, b: Self, c: Self) -> Self {
                match code {
                    ADD => self.wrapping_add(b),
                    MIN => self.min(b),
                    MAX => self.max(b),
                    AND => self & b,
                    OR => self | b,
                    XOR => self ^ b,
                    EXCH => b,
                    CAS => if self == b { c } else { self },
                    INC => if self >= b { 0 } else { self + 1 },
                    _ => if self == 0 || self > b { b } else { self - 1 },
                }
            }
        })*
    };
}
atom_int!(u32, i32, u64, i64);

macro_rules! atom_float {
    ($($ty:ty),*) => {
        $(impl Atom for $ty {
            #[inline(always)]
            fn apply(self, _code: u32, b: Self, _c: Self) -> Self {
                self + b
            }
        })*
    };
}
atom_float!(f32, f64);

lane_fn!(
    /// `r`: destination or none, operand, second operand or none, then the address.
    Atomic<A: Atom>, |cx, op| atomic::<A>(cx, op)
);

#[inline(always)]
fn atomic<A: Atom>(cx: &mut Cx<'_>, op: &Op) {
    let bytes = u32::try_from(size_of::<A::Raw>()).unwrap_or(0);
    let code = op.aux >> CODE_SHIFT;
    for_each_space(cx, op, bytes, Direction::Atomic, |cx, checked| {
        let b = read::<A>(cx, op.r[1]);
        let c = if op.r[2] == NONE {
            b
        } else {
            read::<A>(cx, op.r[2])
        };
        if cx.access.space == Space::Global && cx.log.is_some() {
            record(cx, op, checked, &b, &c);
            return;
        }
        let mut old = [A::Raw::default(); 32];
        let among_others = is_among_others(cx);
        for lane in active(cx.mask) {
            let at = place(cx, checked, lane, 0).cast::<A::Raw>();
            let new = |before| A::get(before).apply(code, b[lane], c[lane]).put();
            // SAFETY: the access of every active lane was checked for bounds and alignment, and is of global memory
            // where others may have it.
            old[lane] = unsafe { change(at, among_others, new) };
        }
        if op.r[0] != NONE {
            commit(cx, op.r[0], &old);
        }
    });
}

/// Leaves an operation on global memory to the end of the epoch.
fn record<A: Atom>(cx: &mut Cx<'_>, op: &Op, checked: &Checked, b: &[A; 32], c: &[A; 32]) {
    let (mask, base) = (cx.mask, checked.base);
    let target = (op.r[0] != NONE).then(|| Target {
        slot: op.r[0],
        wide: size_of::<A::Raw>() == 8,
    });
    let run: LaneFn = match is_among_others(cx) {
        true => apply::<A, true>,
        false => apply::<A, false>,
    };
    let addresses = &cx.access.addresses;
    let Some(log) = cx.log.as_mut() else { return };
    let (width, code) = (size_of::<A::Raw>(), op.aux >> CODE_SHIFT);
    log.lanes(mask, width, run, code, target, false, |lane| {
        let word = |value: A| value.put().to_bits();
        (host(base, addresses[lane]), word(b[lane]), word(c[lane]))
    });
}

/// Returns a [`super::log::LaneFn`].
unsafe fn apply<A: Atom, const AMONG_OTHERS: bool>(at: *mut u8, b: u64, c: u64, code: u32) -> u64 {
    let lane = |word: u64| A::get(A::Raw::from_bits(word));
    let new = |before| A::get(before).apply(code, lane(b), lane(c)).put();
    // SAFETY: the caller passes the address of a checked access of this width, of global memory.
    unsafe { change(at.cast::<A::Raw>(), AMONG_OTHERS, new) }.to_bits()
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let elementwise = matches!(
        ty,
        T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2 | T::B16 | T::B128
    );
    if elementwise || i.mods.vector > 1 {
        return atomic_element::lower(l, i);
    }
    let code = match i.mods.atom? {
        AtomOp::Add => ADD,
        AtomOp::Min => MIN,
        AtomOp::Max => MAX,
        AtomOp::And => AND,
        AtomOp::Or => OR,
        AtomOp::Xor => XOR,
        AtomOp::Exch => EXCH,
        AtomOp::Cas => CAS,
        AtomOp::Inc => INC,
        AtomOp::Dec => DEC,
        AtomOp::Popc => return None,
    };
    let exec = match ty {
        T::U32 | T::B32 => handler::<Atomic<u32>>(),
        T::S32 => handler::<Atomic<i32>>(),
        T::U64 | T::B64 => handler::<Atomic<u64>>(),
        T::S64 => handler::<Atomic<i64>>(),
        T::F32 if code == ADD => handler::<Atomic<f32>>(),
        T::F64 if code == ADD => handler::<Atomic<f64>>(),
        _ => return None,
    };
    if i.mods.vector > 1 || !i.mods.rest.is_empty() {
        return None;
    }
    let returns = i.opcode == Opcode::Atom;
    let first = usize::from(returns);
    let mut r = [NONE; 4];
    if returns && !matches!(i.operands.first()?, gridmux_ptx::decode::Operand::Sink) {
        r[0] = l.dst(i, ty)?;
    }
    r[1] = l.src(i, first + 1, ty)?;
    if code == CAS {
        r[2] = l.src(i, first + 2, ty)?;
    }
    let space = *i.mods.spaces.first().unwrap_or(&StateSpace::Generic);
    if !matches!(
        space,
        StateSpace::Global | StateSpace::Shared | StateSpace::Generic
    ) {
        return None;
    }
    let mut draft = addressed(
        l,
        i.operands.get(first)?,
        space,
        Draft::alu(exec, Class::Memory, &r),
    )?;
    draft.aux |= code << CODE_SHIFT;
    Some(draft)
}
