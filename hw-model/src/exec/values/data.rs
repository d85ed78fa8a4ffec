//! Moving data between registers (PTX ISA section 9.7.9): mov, special registers, packing, cvta, isspacep.
//!
//! Rule: shared and local memory have windows of their own in the generic address space, below every domain's
//! window, so that a generic address says its space.

use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn, once};
use crate::exec::lanes::{commit, map1, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::memory::stored::Word;
use crate::exec::op::{ExecFn, NONE, Op};
use crate::exec::windows::{LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use gridmux_ptx::decode::{Instruction, Opcode, Operand, ScalarType as T, SpecialReg, StateSpace};

lane_fn!(Mov32, |cx, op| map1::<u32, u32>(cx, op, |a| a));
lane_fn!(Mov64, |cx, op| map1::<u64, u64>(cx, op, |a| a));
lane_fn!(AddImmediate, |cx, op| {
    let by = op.imm.cast_unsigned();
    map1::<u64, u64>(cx, op, |a| a.wrapping_add(by));
});
lane_fn!(AddImmediate32, |cx, op| {
    #[allow(clippy::cast_possible_truncation, reason = "the low word")]
    let by = op.imm as u32;
    map1::<u32, u32>(cx, op, |a| a.wrapping_add(by));
});
lane_fn!(
    /// `r`: destination, low half, high half.
    Pack64, |cx, op| {
    let (low, high) = (read::<u32>(cx, op.r[1]), read::<u32>(cx, op.r[2]));
    let out: [u64; 32] = std::array::from_fn(|n| u64::from(high[n]) << 32 | u64::from(low[n]));
    commit(cx, op.r[0], &out);
});
lane_fn!(Pack32, |cx, op| {
    let (low, high) = (read::<u16>(cx, op.r[1]), read::<u16>(cx, op.r[2]));
    let out: [u32; 32] = std::array::from_fn(|n| u32::from(high[n]) << 16 | u32::from(low[n]));
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// `r`: low destination, high destination, source; either destination may be absent.
    Unpack64, |cx, op| {
    let source = read::<u64>(cx, op.r[2]);
    for (destination, shift) in [(op.r[0], 0), (op.r[1], 32)] {
        if destination != NONE {
            #[allow(clippy::cast_possible_truncation, reason = "one half of the word")]
            let out: [u32; 32] = std::array::from_fn(|n| (source[n] >> shift) as u32);
            commit(cx, destination, &out);
        }
    }
});
lane_fn!(Unpack32, |cx, op| {
    let source = read::<u32>(cx, op.r[2]);
    for (destination, shift) in [(op.r[0], 0), (op.r[1], 16)] {
        if destination != NONE {
            let out: [u32; 32] = std::array::from_fn(|n| source[n] >> shift & 0xffff);
            commit(cx, destination, &out);
        }
    }
});

lane_fn!(
    /// Any other packing into a word of 32 or 64 bits; `r[0]`: destination, then the parts, lowest first; `aux`: bits
    /// of a part; `vector`: how many.
    PackParts<R: Word>, |cx, op| {
    let mut out = [0_u64; 32];
    for part in 0..u32::from(op.vector) {
        let words = read::<u32>(cx, op.r[1 + part as usize]);
        for (place, word) in out.iter_mut().zip(words) {
            *place |= (u64::from(word) & ((1 << op.aux) - 1)) << (op.aux * part);
        }
    }
    commit(cx, op.r[0], &out.map(R::from_bits));
});
lane_fn!(
    /// The reverse; `r`: up to four destinations, lowest first, then at 4 the source.
    UnpackParts<R: Word>, |cx, op| {
    let words = read::<R>(cx, op.r[4]);
    for part in 0..u32::from(op.vector) {
        let target = op.r[part as usize];
        if target != NONE {
            #[allow(clippy::cast_possible_truncation, reason = "a part fits in 32 bits")]
            let out: [u32; 32] = std::array::from_fn(|n| {
                (words[n].to_bits() >> (op.aux * part) & ((1 << op.aux) - 1)) as u32
            });
            commit(cx, target, &out);
        }
    }
});
lane_fn!(
    /// Two 64-bit words to two; `r`: destinations, sources; a destination may be absent.
    MovTwo, |cx, op| {
    let (low, high) = (read::<u64>(cx, op.r[2]), read::<u64>(cx, op.r[3]));
    for (target, words) in [(op.r[0], low), (op.r[1], high)] {
        if target != NONE {
            commit(cx, target, &words);
        }
    }
});
lane_fn!(
    /// Four 32-bit words to two 64-bit ones; `r`: destinations, then the four.
    MovFourToTwo, |cx, op| {
    let parts = [2, 3, 4, 5].map(|n| read::<u32>(cx, op.r[n]).map(u64::from));
    for (target, first) in [(op.r[0], 0), (op.r[1], 2)] {
        let out: [u64; 32] = std::array::from_fn(|n| parts[first][n] | parts[first + 1][n] << 32);
        commit(cx, target, &out);
    }
});
lane_fn!(
    /// Two 64-bit words to four; `r`: the four, any of which may be absent, then the sources.
    MovTwoToFour, |cx, op| {
    let words = [read::<u64>(cx, op.r[4]), read::<u64>(cx, op.r[5])];
    for (part, target) in op.r[..4].iter().enumerate() {
        if *target != NONE {
            #[allow(clippy::cast_possible_truncation, reason = "one half of the word")]
            let out: [u32; 32] = std::array::from_fn(|n| (words[part / 2][n] >> (32 * (part % 2))) as u32);
            commit(cx, *target, &out);
        }
    }
});

const SPECIAL_TID: u32 = 0;
const SPECIAL_NTID: u32 = 4;
const SPECIAL_CTAID: u32 = 8;
const SPECIAL_NCTAID: u32 = 12;
const SPECIAL_LANEID: u32 = 16;
const SPECIAL_WARPID: u32 = 17;
const SPECIAL_NWARPID: u32 = 18;
const SPECIAL_SMID: u32 = 19;
const SPECIAL_NSMID: u32 = 20;
const SPECIAL_GRIDID: u32 = 21;
const SPECIAL_LANEMASK_EQ: u32 = 22;
const SPECIAL_LANEMASK_LE: u32 = 23;
const SPECIAL_LANEMASK_LT: u32 = 24;
const SPECIAL_LANEMASK_GE: u32 = 25;
const SPECIAL_LANEMASK_GT: u32 = 26;
const SPECIAL_CLOCK: u32 = 27;
const SPECIAL_CLOCK_HI: u32 = 28;
const SPECIAL_TIME: u32 = 29;
const SPECIAL_TIME_HI: u32 = 30;
const SPECIAL_DYNAMIC_SHARED: u32 = 31;
const SPECIAL_TOTAL_SHARED: u32 = 32;
const SPECIAL_ZERO: u32 = 33;
const SPECIAL_ONE: u32 = 34;
const SPECIAL_WORKSPACE: u32 = 35;
const SPECIAL_WORKSPACE_HI: u32 = 36;

lane_fn!(Special32, |cx, op| {
    let out = special(cx, op.aux);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the low word of a special register"
    )]
    let out: [u32; 32] = std::array::from_fn(|n| out[n] as u32);
    commit(cx, op.r[0], &out);
});
lane_fn!(Special64, |cx, op| {
    let out = special(cx, op.aux);
    commit(cx, op.r[0], &out);
});

/// Returns what each lane reads of the special register with this code.
#[inline(always)]
pub(super) fn special(cx: &Cx<'_>, which: u32) -> [u64; 32] {
    let block = cx.block;
    let all = |value: u64| [value; 32];
    let axis = (which & 3) as usize;
    let dimension = |d: [u32; 3]| u64::from(d.get(axis).copied().unwrap_or(0));
    let by_lane = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|n| u64::from(f(lane_number(n))));
    match which {
        SPECIAL_TID..SPECIAL_NTID => thread_index(cx, axis),
        SPECIAL_NTID..SPECIAL_CTAID => all(if axis < 3 { dimension(block.ntid) } else { 1 }),
        SPECIAL_CTAID..SPECIAL_NCTAID => all(dimension(block.ctaid)),
        SPECIAL_NCTAID..SPECIAL_LANEID => all(if axis < 3 { dimension(block.nctaid) } else { 1 }),
        SPECIAL_LANEID => by_lane(&|n| n),
        SPECIAL_WARPID => all(u64::from(cx.warp)),
        SPECIAL_NWARPID => all(u64::from(block.ntid.iter().product::<u32>().div_ceil(32))),
        SPECIAL_SMID => all(u64::from(block.smid)),
        SPECIAL_NSMID => all(u64::from(block.nsmid)),
        SPECIAL_GRIDID => all(block.gridid),
        SPECIAL_LANEMASK_EQ => by_lane(&|n| 1 << n),
        SPECIAL_LANEMASK_LE => by_lane(&|n| u32::MAX >> (31 - n)),
        SPECIAL_LANEMASK_LT => by_lane(&|n| (1 << n) - 1),
        SPECIAL_LANEMASK_GE => by_lane(&|n| u32::MAX << n),
        SPECIAL_LANEMASK_GT => by_lane(&|n| (u32::MAX << n) & !(1 << n)),
        SPECIAL_CLOCK => all(cx.clock),
        SPECIAL_CLOCK_HI => all(cx.clock >> 32),
        SPECIAL_TIME => all(cx.clock_ns),
        SPECIAL_TIME_HI => all(cx.clock_ns >> 32),
        SPECIAL_DYNAMIC_SHARED => all(u64::from(block.dynamic_shared_bytes)),
        SPECIAL_TOTAL_SHARED => all(u64::from(block.shared_bytes)),
        SPECIAL_ONE => all(1),
        SPECIAL_WORKSPACE => all(block.workspace),
        SPECIAL_WORKSPACE_HI => all(block.workspace >> 32),
        _ => all(0),
    }
}

#[inline(always)]
fn lane_number(lane: usize) -> u32 {
    u32::try_from(lane).unwrap_or(0)
}

#[inline(always)]
fn thread_index(cx: &Cx<'_>, axis: usize) -> [u64; 32] {
    let [x, y, _] = cx.block.ntid;
    let first = cx.warp * 32;
    std::array::from_fn(|n| {
        let linear = first + lane_number(n);
        u64::from(match axis {
            0 if x >= 1024 => linear,
            0 => linear % x,
            1 => linear / x % y,
            2 => linear / (x * y),
            _ => 0,
        })
    })
}

/// Returns the code of a special register.
pub(super) fn special_code(register: SpecialReg) -> Option<u32> {
    use SpecialReg as S;
    Some(match register {
        S::Tid(axis) => SPECIAL_TID + u32::from(axis),
        S::Ntid(axis) => SPECIAL_NTID + u32::from(axis),
        S::Ctaid(axis) => SPECIAL_CTAID + u32::from(axis),
        S::Nctaid(axis) => SPECIAL_NCTAID + u32::from(axis),
        S::Laneid => SPECIAL_LANEID,
        S::Warpid => SPECIAL_WARPID,
        S::Nwarpid => SPECIAL_NWARPID,
        S::Smid => SPECIAL_SMID,
        S::Nsmid => SPECIAL_NSMID,
        S::Gridid => SPECIAL_GRIDID,
        S::LanemaskEq => SPECIAL_LANEMASK_EQ,
        S::LanemaskLe => SPECIAL_LANEMASK_LE,
        S::LanemaskLt => SPECIAL_LANEMASK_LT,
        S::LanemaskGe => SPECIAL_LANEMASK_GE,
        S::LanemaskGt => SPECIAL_LANEMASK_GT,
        S::Clock | S::Clock64 => SPECIAL_CLOCK,
        S::ClockHi => SPECIAL_CLOCK_HI,
        S::Globaltimer | S::GlobaltimerLo => SPECIAL_TIME,
        S::GlobaltimerHi => SPECIAL_TIME_HI,
        S::DynamicSmemSize => SPECIAL_DYNAMIC_SHARED,
        S::TotalSmemSize | S::AggrSmemSize => SPECIAL_TOTAL_SHARED,
        // Each block is a cluster of its own.
        S::Clusterid(axis) => SPECIAL_CTAID + u32::from(axis),
        S::Nclusterid(axis) => SPECIAL_NCTAID + u32::from(axis),
        S::ClusterNctaid(axis) if axis < 3 => SPECIAL_ONE,
        S::ClusterNctarank => SPECIAL_ONE,
        // How the code of cooperative groups finds the grid's barrier (CUDA's cooperative_groups/details/helpers.h).
        S::Envreg(1) => SPECIAL_WORKSPACE_HI,
        S::Envreg(2) => SPECIAL_WORKSPACE,
        S::ClusterCtaid(_) | S::ClusterCtarank | S::ClusterNctaid(_) => SPECIAL_ZERO,
        S::ReservedSmem(_) | S::Envreg(_) | S::Pm(_) | S::IsExplicitCluster => SPECIAL_ZERO,
        _ => return None,
    })
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    if i.opcode == Opcode::Isspacep {
        return isspacep(l, i);
    }
    let ty = *i.mods.types.first()?;
    match i.opcode {
        Opcode::Mov if ty == T::Pred => super::bits::lower_predicate_move(l, i),
        Opcode::Mov => mov(l, i, ty),
        Opcode::Cvta => cvta(l, i),
        _ => None,
    }
}

fn mov(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    let wide = ty.size_bytes() == 8;
    if ty == T::B128 {
        return mov_128(l, i);
    }
    match (i.operands.first()?, i.operands.get(1)?) {
        (Operand::Reg(_), Operand::Special(register)) => {
            let exec = if wide {
                handler::<Special64>()
            } else {
                handler::<Special32>()
            };
            let code = special_code(*register)?;
            Some(Draft::alu(exec, Class::Move, &[l.dst(i, ty)?]).aux(code))
        }
        (Operand::Vector(parts), _) | (_, Operand::Vector(parts))
            if parts.len() == 4 || ty.size_bytes() == 2 =>
        {
            mov_parts(l, i, ty)
        }
        (Operand::Vector(parts), _) if parts.len() == 2 => {
            let half = if wide { T::B32 } else { T::B16 };
            let exec = if wide {
                handler::<Unpack64>()
            } else {
                handler::<Unpack32>()
            };
            let mut r = [NONE, NONE, l.src(i, 1, ty)?];
            for (place, part) in r.iter_mut().zip(parts) {
                if *part != Operand::Sink {
                    *place = l.reg(part, half.size_bytes() == 8)?;
                }
            }
            Some(Draft::alu(exec, Class::Move, &r))
        }
        (_, Operand::Vector(parts)) if parts.len() == 2 => {
            let half = if wide { T::B32 } else { T::B16 };
            let exec = if wide {
                handler::<Pack64>()
            } else {
                handler::<Pack32>()
            };
            let operands = [
                l.dst(i, ty)?,
                l.value(&parts[0], half)?,
                l.value(&parts[1], half)?,
            ];
            Some(Draft::alu(exec, Class::Move, &operands))
        }
        (_, Operand::Vector(_)) => None,
        (_, Operand::RegOffset(reg, offset)) => {
            let operands = [l.dst(i, ty)?, l.reg(&Operand::Reg(*reg), wide)?];
            let exec = if wide {
                handler::<AddImmediate>()
            } else {
                once::<AddImmediate32>()
            };
            Some(Draft::alu(exec, Class::Int, &operands).imm(*offset))
        }
        _ => {
            let operands = l.operands(i, [ty; 2])?;
            Some(Draft::alu(mover(wide), Class::Move, &operands))
        }
    }
}

/// Lowers packing and unpacking of four parts, or of the two bytes of 16 bits.
fn mov_parts(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    let wide = ty.size_bytes() == 8;
    match (i.operands.first()?, i.operands.get(1)?) {
        (Operand::Vector(parts), _) if parts.len() == 4 || ty.size_bytes() == 2 => {
            let bits = ty.size_bytes() * 8 / u32::try_from(parts.len()).ok()?;
            let mut r = [NONE; 5];
            r[4] = l.src(i, 1, ty)?;
            for (place, part) in r.iter_mut().zip(parts) {
                if *part != Operand::Sink {
                    *place = l.reg(part, false)?;
                }
            }
            let exec = if wide {
                once::<UnpackParts<u64>>()
            } else {
                once::<UnpackParts<u32>>()
            };
            let count = u8::try_from(parts.len()).ok()?;
            Some(Draft::alu(exec, Class::Move, &r).aux(bits).vector(count))
        }
        (_, Operand::Vector(parts)) if parts.len() == 4 || ty.size_bytes() == 2 => {
            let bits = ty.size_bytes() * 8 / u32::try_from(parts.len()).ok()?;
            let mut r = vec![l.dst(i, ty)?];
            for part in parts {
                r.push(l.value(part, T::B32)?);
            }
            let exec = if wide {
                once::<PackParts<u64>>()
            } else {
                once::<PackParts<u32>>()
            };
            let count = u8::try_from(parts.len()).ok()?;
            (r.len() <= 5).then(|| Draft::alu(exec, Class::Move, &r).aux(bits).vector(count))
        }
        _ => None,
    }
}

/// Lowers `mov.b128`: a register is two words of 64 bits, in neighbouring slots.
fn mov_128(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let exec_and_operands = match (i.operands.first()?, i.operands.get(1)?) {
        (Operand::Vector(to), from) if to.len() == 2 => {
            let [low, high] = l.two_words(from)?;
            let place = |part: &Operand| match part {
                Operand::Sink => Some(NONE),
                part => l.reg(part, true),
            };
            (
                once::<MovTwo>(),
                vec![place(&to[0])?, place(&to[1])?, low, high],
            )
        }
        (Operand::Vector(to), from) if to.len() == 4 => {
            let mut operands = Vec::new();
            for part in to {
                operands.push(if *part == Operand::Sink {
                    NONE
                } else {
                    l.reg(part, false)?
                });
            }
            operands.extend(l.two_words(from)?);
            (once::<MovTwoToFour>(), operands)
        }
        (to, Operand::Vector(from)) if from.len() == 2 => {
            let mut operands = l.two_words(to)?.to_vec();
            for part in from {
                operands.push(l.value(part, T::B64)?);
            }
            (once::<MovTwo>(), operands)
        }
        (to, Operand::Vector(from)) if from.len() == 4 => {
            let mut operands = l.two_words(to)?.to_vec();
            for part in from {
                operands.push(l.value(part, T::B32)?);
            }
            (once::<MovFourToTwo>(), operands)
        }
        (to, from) => {
            let mut operands = l.two_words(to)?.to_vec();
            operands.extend(l.two_words(from)?);
            (once::<MovTwo>(), operands)
        }
    };
    let (exec, operands) = exec_and_operands;
    Some(Draft::alu(exec, Class::Move, &operands))
}

/// Returns a 64-bit move between operands.
pub(in crate::exec) fn move64(operands: &[u16]) -> Draft {
    Draft::alu(mover(true), Class::Move, operands)
}

fn mover(wide: bool) -> ExecFn {
    if wide {
        handler::<Mov64>()
    } else {
        handler::<Mov32>()
    }
}

/// Returns the first generic address of a space; global and constant addresses are generic ones already.
fn window(space: StateSpace) -> Option<u64> {
    match space {
        StateSpace::Global | StateSpace::Const => Some(0),
        StateSpace::Shared | StateSpace::SharedCluster => Some(SHARED_WINDOW),
        StateSpace::Local => Some(LOCAL_WINDOW),
        _ => None,
    }
}

fn cvta(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let start = window(*i.mods.spaces.first()?)?;
    add_window(l, i, start)
}

/// Lowers `cvta` from or to a space whose generic addresses begin at `start`.
pub(in crate::exec) fn add_window(l: &mut Lower<'_>, i: &Instruction, start: u64) -> Option<Draft> {
    let start = start.cast_signed();
    if i.mods.types.first()?.size_bytes() != 8 {
        return None;
    }
    let operands = l.operands(i, [T::U64; 2])?;
    let draft = Draft::alu(handler::<AddImmediate>(), Class::Move, &operands);
    Some(draft.imm(if i.mods.to { -start } else { start }))
}

lane_fn!(
    /// `r`: destination predicate, address, constant variables' addresses, of which there are `imm`; `aux` says which
    /// space.
    InSpace, |cx, op| {
    let bits = in_space(cx, op);
    cx.set_predicate(op.r[0], bits);
});

#[inline(always)]
fn in_space(cx: &Cx<'_>, op: &Op) -> u32 {
    let addresses = read::<u64>(cx, op.r[1]);
    let mut bits = 0;
    for (lane, address) in addresses.iter().enumerate() {
        let inside = match op.aux {
            0 => *address >= LOCAL_WINDOW + WINDOW_BYTES && !in_constant(cx, op, *address),
            1 => address.wrapping_sub(SHARED_WINDOW) < WINDOW_BYTES,
            2 => address.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES,
            _ => in_constant(cx, op, *address),
        };
        bits |= u32::from(inside) << lane;
    }
    bits
}

/// Returns whether the address lies in one of the module's constant variables, which are allocations among the others:
/// `r[2]` has the first addresses of `imm` of them.
fn in_constant(cx: &Cx<'_>, op: &Op, address: u64) -> bool {
    if op.imm == 0 {
        return false;
    }
    let Some(found) = cx.domain.find(address) else {
        return false;
    };
    let starts = cx.lanes::<u32>(op.r[2]);
    (0..usize::try_from(op.imm).unwrap_or(0)).any(|n| {
        // SAFETY: the lowering made `r[2]` constant slots with two words for each of the `imm` addresses.
        let (low, high) = unsafe { (*starts.add(2 * n), *starts.add(2 * n + 1)) };
        u64::from(high) << 32 | u64::from(low) == found.start
    })
}

fn isspacep(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let code = match i.mods.spaces.first()? {
        StateSpace::Global => 0,
        StateSpace::Shared | StateSpace::SharedCluster => 1,
        StateSpace::Local => 2,
        StateSpace::Const => 3,
        _ => return None,
    };
    let constants = l.variables.iter().flatten();
    let starts = constants.filter(|(space, _)| *space == StateSpace::Const);
    #[allow(clippy::cast_possible_truncation, reason = "the two halves of a word")]
    let words: Vec<u32> = starts
        .flat_map(|(_, at)| [*at as u32, (*at >> 32) as u32])
        .collect();
    let operands = [
        l.predicate(i.operands.first()?)?,
        l.src(i, 1, T::U64)?,
        l.words(&words),
    ];
    let draft = Draft::alu(handler::<InSpace>(), Class::Int, &operands).aux(code);
    Some(draft.imm(i64::try_from(words.len() / 2).ok()?))
}
