//! Control and synchronisation (PTX ISA sections 9.7.12 and 9.7.13): branches, exit, ret, trap, barriers, fences,
//! nanosleep, prefetch.
//!
//! Rule: these operations have no lane function but for `nanosleep` and `createpolicy`; the engines act on their
//! [`Kind`].

use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{active, read};
use crate::exec::lower::{Class, Draft, Lower, without_lanes};
use crate::exec::op::{AUX_FENCE, Kind, NONE, Op};
use crate::exec::values::compare::selector;
use crate::exec::values::data::move64;
use crate::exec::warp::Warp;
use gridmux_ptx::decode::{AtomOp, Instruction, Opcode, Operand, ScalarType as T};

/// Longest sleep, in nanoseconds.
const LONGEST_SLEEP_NS: u32 = 1_000_000;

lane_fn!(
    /// `r`: nanoseconds. Lanes that sleep together wake together, and a lane may sleep for less than it asked for but
    /// not for more than twice that, so that the one that asked for least decides.
    Sleep, |cx, op| {
    let asked = read::<u32>(cx, op.r[0]);
    let least = active(cx.mask).map(|lane| asked[lane]).min();
    cx.access.pause_ns = least.unwrap_or(0).min(LONGEST_SLEEP_NS);
});

/// Returns an operation that ends the thread; also what falling off the end of a kernel means.
fn exit() -> Draft {
    without_lanes(&[]).kind(Kind::Exit)
}

/// What a barrier instruction does besides arriving; stands in the low byte of `aux`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BarrierMode {
    /// Waits.
    Sync,
    /// Goes on at once.
    Arrive,
    /// Waits and counts the predicates that hold.
    Count,
    /// Waits and says whether all predicates hold.
    All,
    /// Waits and says whether one holds.
    Any,
}

impl BarrierMode {
    /// Bit of `aux`: the predicate is negated.
    pub(in crate::exec) const NEGATED: u32 = 0x100;

    pub(crate) fn of(aux: u32) -> Self {
        match aux & 0xff {
            0 => Self::Sync,
            1 => Self::Arrive,
            2 => Self::Count,
            3 => Self::All,
            _ => Self::Any,
        }
    }
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let draft = without_lanes(&[]);
    match i.opcode {
        Opcode::Bra => match i.operands.first()? {
            Operand::Target(target) => {
                let mut draft = draft.kind(Kind::Branch).imm(i64::from(*target));
                draft.r[0] = Warp::weight(false);
                Some(draft)
            }
            _ => None,
        },
        Opcode::BrxIdx => match i.operands.get(1)? {
            Operand::BranchTable(table) => {
                let mut draft = draft.kind(Kind::BranchTable).imm(i64::from(*table));
                draft.r[0] = l.src(i, 0, T::U32)?;
                Some(draft)
            }
            _ => None,
        },
        Opcode::Exit => Some(exit()),
        Opcode::Ret if l.function.is_entry => Some(exit()),
        Opcode::Ret => Some(draft.kind(Kind::Return)),
        Opcode::Trap => Some(draft.kind(Kind::Trap)),
        Opcode::Brkpt => Some(draft.kind(Kind::Breakpoint)),
        Opcode::Bar => barrier(l, i, 0),
        Opcode::BarArrive => barrier(l, i, 1),
        Opcode::BarRed => reduction(l, i),
        Opcode::BarWarpSync => {
            let mut draft = draft.kind(Kind::WarpSync);
            draft.r[5] = l.src(i, 0, T::B32)?;
            Some(draft)
        }
        Opcode::Membar | Opcode::Fence => {
            // Within a block everything is seen at once.
            let near = i.mnemonic.ends_with(".cta");
            let aux = if near { 0 } else { AUX_FENCE };
            Some(draft.kind(Kind::Nothing).aux(aux))
        }
        Opcode::Nanosleep => {
            let ns = l.src(i, 0, T::U32)?;
            let draft = Draft::alu(handler::<Sleep>(), Class::Control, &[ns]);
            Some(draft.kind(Kind::Sleep))
        }
        Opcode::Prefetch
        | Opcode::Prefetchu
        | Opcode::Pmevent
        | Opcode::Discard
        | Opcode::Applypriority
        | Opcode::FenceMbarrierInit
        | Opcode::Griddepcontrol => Some(draft.kind(Kind::Nothing)),
        // Orders generic accesses against asynchronous ones, which have happened when they were issued.
        Opcode::FenceProxy if !i.mnemonic.contains("tensormap") => Some(draft.kind(Kind::Nothing)),
        Opcode::Createpolicy => {
            // A policy is a hint; its value means nothing here.
            let operands = [l.dst(i, T::B64)?, l.constant(0, true)];
            Some(move64(&operands))
        }
        _ => None,
    }
}

/// Lowers `bar.sync a{, b}`, `bar.arrive a, b` and the same of `barrier`.
fn barrier(l: &mut Lower<'_>, i: &Instruction, mode: u32) -> Option<Draft> {
    let id = l.src(i, 0, T::U32)?;
    let count = match i.operands.get(1) {
        Some(_) => l.src(i, 1, T::U32)?,
        None => NONE,
    };
    let draft = without_lanes(&[id, count]);
    Some(draft.kind(Kind::Barrier).aux(mode))
}

/// Lowers `bar.red.popc.u32 d, a{, b}, {!}c` and `bar.red.op.pred p, a{, b}, {!}c`.
fn reduction(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let (mode, destination) = match i.mods.atom? {
        AtomOp::Popc => (2, l.dst(i, T::U32)?),
        AtomOp::And => (3, l.predicate(i.operands.first()?)?),
        AtomOp::Or => (4, l.predicate(i.operands.first()?)?),
        _ => return None,
    };
    let id = l.src(i, 1, T::U32)?;
    let count = match i.operands.len() {
        4 => l.src(i, 2, T::U32)?,
        3 => NONE,
        _ => return None,
    };
    let (source, negated) = selector(l, i.operands.last()?)?;
    let operands = [id, count, source, destination];
    let draft = without_lanes(&operands);
    let flip = if negated { BarrierMode::NEGATED } else { 0 };
    Some(draft.kind(Kind::Barrier).aux(mode | flip))
}

/// Returns number and thread count of a barrier as the first active lane sees them, and the lanes that see the same.
pub(super) fn barrier_operands(cx: &Cx<'_>, op: &Op) -> (u32, Option<u32>, u32) {
    let first = cx.mask.trailing_zeros() as usize & 31;
    let ids = read::<u32>(cx, op.r[0]);
    let counts = (op.r[1] != NONE).then(|| read::<u32>(cx, op.r[1]));
    let mut same = 0;
    for (lane, id) in ids.iter().enumerate() {
        let equal = *id == ids[first] && counts.is_none_or(|c| c[lane] == c[first]);
        same |= u32::from(equal) << lane;
    }
    (ids[first], counts.map(|c| c[first]), same & cx.mask)
}
