//! Control and synchronisation (PTX ISA sections 9.7.12 and 9.7.13): bra, exit, ret, trap, bar.sync, fences,
//! nanosleep, prefetch.
//!
//! Rule: these operations have no lane function; the engines act on their [`Kind`].

use super::cx::Cx;
use super::isa::{handler, lane_fn};
use super::lower::{Class, Draft, Lower};
use super::op::{AUX_FENCE, Kind, NONE, Op};
use gridmux_ptx::decode::{Instruction, Opcode, Operand, ScalarType as T};

lane_fn!(Nothing, |_cx, _op| {});

/// An operation that ends the thread; also what falling off the end of a kernel means.
pub(crate) fn exit() -> Draft {
    Draft::alu(handler::<Nothing>(), Class::Control, &[]).kind(Kind::Exit)
}

/// Lowers the family's opcodes.
pub(super) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let draft = Draft::alu(handler::<Nothing>(), Class::Control, &[]);
    match i.opcode {
        Opcode::Bra => match i.operands.first()? {
            Operand::Target(target) => Some(draft.kind(Kind::Branch).imm(i64::from(*target))),
            _ => None,
        },
        Opcode::Exit => Some(exit()),
        Opcode::Ret if l.function.is_entry => Some(exit()),
        Opcode::Trap => Some(draft.kind(Kind::Trap)),
        Opcode::Bar => barrier(l, i),
        Opcode::Membar | Opcode::Fence => {
            // Within a block everything is seen at once.
            let near = i.mnemonic.ends_with(".cta");
            Some(
                draft
                    .kind(Kind::Nothing)
                    .aux(if near { 0 } else { AUX_FENCE }),
            )
        }
        Opcode::BarWarpSync
        | Opcode::Nanosleep
        | Opcode::Prefetch
        | Opcode::Prefetchu
        | Opcode::Pmevent => Some(draft.kind(Kind::Nothing)),
        _ => None,
    }
}

/// `bar.sync a{, b}` and `barrier.sync`.
fn barrier(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let id = l.src(i, 0, T::U32)?;
    let count = match i.operands.get(1) {
        Some(_) => l.src(i, 1, T::U32)?,
        None => NONE,
    };
    let draft = Draft::alu(handler::<Nothing>(), Class::Control, &[id, count]);
    Some(draft.kind(Kind::Barrier))
}

/// Number and thread count of a barrier, as the first active lane sees them.
pub(crate) fn barrier_operands(cx: &Cx<'_>, op: &Op) -> (u32, Option<u32>) {
    let lane = cx.mask.trailing_zeros() as usize & 31;
    // SAFETY: the lowering made both operands 32-bit words of this warp or constants.
    let word = |operand: u16| unsafe { *cx.lanes::<u32>(operand).add(lane) };
    let count = (op.r[1] != NONE).then(|| word(op.r[1]));
    (word(op.r[0]), count)
}
