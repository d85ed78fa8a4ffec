//! Data across the lanes of a warp (PTX ISA section 9.7.9: shfl, vote, match, redux, activemask, elect).
//!
//! Rules: only the lanes that execute the instruction take part, whatever the member mask says beyond them; a
//! source lane outside them gives the value its register holds, which the ISA leaves undefined.

use super::compare::selector;
use super::float::{maximum, minimum};
use super::half::NAN_WINS;
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn, once};
use crate::exec::lanes::{LaneValue, active, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{NONE, Op};
use gridmux_ptx::decode::{AtomOp, Instruction, Mode, Opcode, Operand, ScalarType as T};

const UP: u32 = 0;
const DOWN: u32 = 1;
const BFLY: u32 = 2;
const IDX: u32 = 3;

lane_fn!(
    /// `r`: destination, predicate or none, a, b, c; `aux` is the mode.
    Shfl, |cx, op| {
    let (a, b, c) = (read::<u32>(cx, op.r[2]), read::<u32>(cx, op.r[3]), read::<u32>(cx, op.r[4]));
    let mut out = [0; 32];
    let mut valid = 0;
    for lane in 0..32_u32 {
        let n = lane as usize;
        let (source, inside) = shuffle_source(op.aux, lane, b[n] & 31, c[n]);
        out[n] = a[source as usize & 31];
        valid |= u32::from(inside) << lane;
    }
    if op.r[0] != NONE {
        commit(cx, op.r[0], &out);
    }
    cx.set_predicate(op.r[1], valid);
});

/// Returns the source lane and whether it lies inside the segment (the ISA's pseudo-code for `shfl`).
#[inline(always)]
fn shuffle_source(mode: u32, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let (max, min) = ((lane & segment) | (clamp & !segment), lane & segment);
    let (source, inside) = match mode {
        UP => (
            lane.wrapping_sub(b),
            lane.wrapping_sub(b).cast_signed() >= max.cast_signed(),
        ),
        DOWN => (lane + b, lane + b <= max),
        BFLY => (lane ^ b, lane ^ b <= max),
        _ => {
            let source = min | (b & !segment);
            (source, source <= max)
        }
    };
    if inside {
        (source, true)
    } else {
        (lane, false)
    }
}

const ALL: u32 = 0;
const ANY: u32 = 1;
const UNI: u32 = 2;

lane_fn!(
    /// `r`: destination predicate, source predicate; `aux` is the mode, with bit 8 when the source is negated.
    Vote, |cx, op| {
    let (yes, mask) = (voted(cx, op, op.r[1]), cx.mask);
    let result = match op.aux & 0xff {
        ALL => yes == mask,
        ANY => yes != 0,
        _ => yes == 0 || yes == mask,
    };
    cx.set_predicate(op.r[0], if result { u32::MAX } else { 0 });
});
lane_fn!(Ballot, |cx, op| {
    let yes = voted(cx, op, op.r[1]);
    commit(cx, op.r[0], &[yes; 32]);
});
lane_fn!(Activemask, |cx, op| commit(cx, op.r[0], &[cx.mask; 32]));
lane_fn!(
    /// `r`: destination, predicate; the lowest lane is elected.
    Elect, |cx, op| {
    let leader = cx.mask & cx.mask.wrapping_neg();
    if op.r[0] != NONE {
        commit(cx, op.r[0], &[cx.mask.trailing_zeros(); 32]);
    }
    cx.set_predicate(op.r[1], leader);
});

#[inline(always)]
fn voted(cx: &Cx<'_>, op: &Op, predicate: u16) -> u32 {
    let flip = if op.aux & 0x100 != 0 { u32::MAX } else { 0 };
    let bits = if predicate == NONE {
        0
    } else {
        cx.predicate(predicate)
    };
    (bits ^ flip) & cx.mask
}

lane_fn!(MatchAny<A: Same>, |cx, op| {
    let a = read::<A>(cx, op.r[1]);
    let mut out = [0; 32];
    for (lane, place) in out.iter_mut().enumerate() {
        *place = equal_lanes(&a, lane) & cx.mask;
    }
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// `r`: destination, a, predicate or none.
    MatchAll<A: Same>, |cx, op| {
    let a = read::<A>(cx, op.r[1]);
    let first = cx.mask.trailing_zeros() as usize & 31;
    let all = equal_lanes(&a, first) & cx.mask == cx.mask;
    commit(cx, op.r[0], &[if all { cx.mask } else { 0 }; 32]);
    cx.set_predicate(op.r[2], if all { u32::MAX } else { 0 });
});

#[inline(always)]
fn equal_lanes<A: Same>(a: &[A; 32], lane: usize) -> u32 {
    let mut bits = 0;
    for (other, value) in a.iter().enumerate() {
        bits |= u32::from(*value == a[lane]) << other;
    }
    bits
}

/// Words that `match` compares.
trait Same: LaneValue + PartialEq {}
impl Same for u32 {}
impl Same for u64 {}

const REDUX_ADD: u32 = 0;
const REDUX_MIN: u32 = 1;
const REDUX_MAX: u32 = 2;
const REDUX_AND: u32 = 3;
const REDUX_OR: u32 = 4;
const REDUX_XOR: u32 = 5;

lane_fn!(ReduxUnsigned, |cx, op| {
    let a = read::<u32>(cx, op.r[1]);
    let lanes = active(cx.mask).map(|n| a[n]);
    let result = match op.aux {
        REDUX_ADD => lanes.fold(0, u32::wrapping_add),
        REDUX_MIN => lanes.fold(u32::MAX, u32::min),
        REDUX_MAX => lanes.fold(0, u32::max),
        REDUX_AND => lanes.fold(u32::MAX, |x, y| x & y),
        REDUX_OR => lanes.fold(0, |x, y| x | y),
        _ => lanes.fold(0, |x, y| x ^ y),
    };
    commit(cx, op.r[0], &[result; 32]);
});
lane_fn!(ReduxSigned, |cx, op| {
    let a = read::<i32>(cx, op.r[1]);
    let lanes = active(cx.mask).map(|n| a[n]);
    let result = match op.aux {
        REDUX_ADD => lanes.fold(0, i32::wrapping_add),
        REDUX_MIN => lanes.fold(i32::MAX, i32::min),
        _ => lanes.fold(i32::MIN, i32::max),
    };
    commit(cx, op.r[0], &[result.cast_unsigned(); 32]);
});

lane_fn!(
    /// `aux`: the operation, `.abs` and `.NaN`.
    ReduxSingle, |cx, op| {
    let a = read::<f32>(cx, op.r[1]);
    let of = |v: f32| if op.aux & ABSOLUTE != 0 { v.abs() } else { v };
    let flags = op.aux & NAN_WINS;
    let join = |x: f32, y: f32| {
        if op.aux & 0xff == REDUX_MIN { minimum(x, y, flags) } else { maximum(x, y, flags) }
    };
    let result = active(cx.mask).map(|n| of(a[n])).reduce(join);
    let bits = result.map_or(0, |v| if v.is_nan() { 0x7fff_ffff } else { v.to_bits() });
    commit(cx, op.r[0], &[bits; 32]);
});

/// `.abs` of a reduction.
const ABSOLUTE: u32 = 1 << 8;

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    match i.opcode {
        Opcode::Shfl => shfl(l, i),
        Opcode::Vote => vote(l, i),
        Opcode::Match => matching(l, i),
        Opcode::Redux => redux(l, i),
        Opcode::Activemask => {
            let operands = [l.dst(i, T::B32)?];
            Some(Draft::alu(handler::<Activemask>(), Class::Move, &operands))
        }
        Opcode::Elect => {
            let (d, p) = pair(l, i.operands.first()?)?;
            Some(Draft::alu(handler::<Elect>(), Class::Shuffle, &[d, p]))
        }
        _ => None,
    }
}

/// Returns the destinations of `d` or `d|p`.
fn pair(l: &Lower<'_>, operand: &Operand) -> Option<(u16, u16)> {
    match operand {
        Operand::RegPair(d, p) => {
            let d = d.map_or(Some(NONE), |d| l.reg(&Operand::Reg(d), false))?;
            let p = p.map_or(Some(NONE), |p| l.predicate(&Operand::Reg(p)))?;
            Some((d, p))
        }
        Operand::Sink => Some((NONE, NONE)),
        single => Some((l.reg(single, false)?, NONE)),
    }
}

fn shfl(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let mode = match i.mods.mode? {
        Mode::Up => UP,
        Mode::Down => DOWN,
        Mode::Bfly => BFLY,
        Mode::Idx => IDX,
        _ => return None,
    };
    let (d, p) = pair(l, i.operands.first()?)?;
    let operands = [
        d,
        p,
        l.src(i, 1, T::B32)?,
        l.src(i, 2, T::B32)?,
        l.src(i, 3, T::B32)?,
    ];
    Some(Draft::alu(handler::<Shfl>(), Class::Shuffle, &operands).aux(mode))
}

fn vote(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let (source, negated) = match i.operands.get(1)? {
        Operand::Int(value) => (NONE, *value != 0),
        operand => selector(l, operand)?,
    };
    let flip = if negated { 0x100 } else { 0 };
    let mode = match i.mods.mode? {
        Mode::All => ALL,
        Mode::Any => ANY,
        Mode::Uni => UNI,
        Mode::Ballot => {
            let operands = [l.dst(i, T::B32)?, source];
            return Some(Draft::alu(handler::<Ballot>(), Class::Vote, &operands).aux(flip));
        }
        _ => return None,
    };
    let operands = [l.predicate(i.operands.first()?)?, source];
    Some(Draft::alu(handler::<Vote>(), Class::Vote, &operands).aux(mode | flip))
}

fn matching(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let wide = ty.size_bytes() == 8;
    let (d, p) = pair(l, i.operands.first()?)?;
    let exec = match (i.mods.mode?, wide) {
        (Mode::Any, false) => handler::<MatchAny<u32>>(),
        (Mode::Any, true) => handler::<MatchAny<u64>>(),
        (Mode::All, false) => handler::<MatchAll<u32>>(),
        (Mode::All, true) => handler::<MatchAll<u64>>(),
        _ => return None,
    };
    let operands = [d, l.src(i, 1, ty)?, p];
    Some(Draft::alu(exec, Class::Shuffle, &operands))
}

fn redux(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let code = match i.mods.atom? {
        AtomOp::Add => REDUX_ADD,
        AtomOp::Min => REDUX_MIN,
        AtomOp::Max => REDUX_MAX,
        AtomOp::And => REDUX_AND,
        AtomOp::Or => REDUX_OR,
        AtomOp::Xor => REDUX_XOR,
        _ => return None,
    };
    let absolute = i.mods.rest.iter().any(|word| word == "abs");
    if ty != T::F32 && (absolute || i.mods.nan) || i.mods.rest.len() > usize::from(absolute) {
        return None;
    }
    if ty == T::F32 {
        let flags = if absolute { ABSOLUTE } else { 0 } | if i.mods.nan { NAN_WINS } else { 0 };
        let known = matches!(code, REDUX_MIN | REDUX_MAX);
        let operands = l.operands(i, [ty; 2])?;
        let draft = Draft::alu(once::<ReduxSingle>(), Class::Shuffle, &operands);
        return known.then_some(draft.aux(code | flags));
    }
    let exec = match ty {
        T::U32 | T::B32 => handler::<ReduxUnsigned>(),
        T::S32 if code <= REDUX_MAX => handler::<ReduxSigned>(),
        _ => return None,
    };
    let operands = l.operands(i, [ty; 2])?;
    Some(Draft::alu(exec, Class::Shuffle, &operands).aux(code))
}
