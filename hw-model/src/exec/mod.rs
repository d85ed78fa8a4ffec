//! Functional execution: one operation over the 32 lanes of a warp.
//!
//! A PTX instruction is lowered once into an [`Op`] whose `exec` is a function compiled for the host's vector
//! instructions ([`isa`]); registers are `[register][32 lanes]`, executed as vectors under a mask. One file per
//! opcode family holds both the lane arithmetic and the choice of function ("lowering") for its opcodes. The families
//! stand in [`values`], [`memory`], [`control`], [`matrix`] and [`texture`]; the files beside them are what all use.
//!
//! Rules: a lane outside the mask keeps its registers; a function never panics on any register contents; an
//! access is checked before memory is touched; nothing allocates.

mod block;
mod control;
mod cx;
mod expansion;
mod isa;
mod lanes;
mod lower;
mod matrix;
mod memory;
pub(crate) mod op;
pub(crate) mod product;
mod texture;
mod values;
mod warp;
mod windows;

pub(crate) use block::{Block, BlockShape, Meeting};
pub(crate) use control::calls::function_address;
pub(crate) use control::frame::{begin_stack, call, copy, move_word, pass};
pub(crate) use control::frame_layout::FrameLayout;
pub(crate) use control::runtime::{HEAP_BYTES, Runtime, StepOutput, lower_heap, lower_print};
pub(crate) use cx::{Access, Direction, Pattern, RangeCache, RawFault, Space};
pub(crate) use lower::{Constants, Draft, Lower, VariableAddresses};
pub(crate) use memory::access::AUX_PAST_L1;
pub(crate) use memory::log::{Order, Owner, WriteLog, apply_all};
pub(crate) use op::{
    AUX_FENCE, GROUP_COMMIT, GROUP_WAIT_ALL, Kind, NONE, Op, PIPES, Pipe, RegisterSlot, WRITES,
};
pub(crate) use values::carry::uses_flag as uses_carry;
pub(crate) use warp::{Step, StepContext, Stepped, Warp};

use gridmux_ptx::decode::{Family, Instruction, Opcode};

/// Beginnings of modifiers that change neither results nor what the timing model distinguishes.
const HARMLESS: [&str; 4] = ["L1", "L2", "noftz", "unified"];

/// Returns whether the family is one of those that take their modifiers from the instruction's text, and know which
/// ones there are.
fn reads_text(i: &Instruction) -> bool {
    use Family as F;
    use Opcode as O;
    match i.opcode.family() {
        F::Video | F::Matrix | F::Texture | F::Surface | F::Mbarrier | F::Unknown => true,
        F::Carry => !matches!(i.opcode, O::AddCc | O::SubCc | O::MadCc),
        _ => matches!(
            i.opcode,
            O::CvtPack
                | O::Redux
                | O::Bfind
                | O::CpAsync
                | O::Griddepcontrol
                | O::Pmevent
                | O::FenceProxy
                | O::Fence
                | O::Createpolicy
                | O::Applypriority
        ),
    }
}

/// Returns the operation for an instruction, or `None` where the model does not execute it.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    use Family as F;
    use Opcode as O;
    let unknown = |modifier: &String| !HARMLESS.iter().any(|known| modifier.starts_with(known));
    let moves = matches!(i.opcode, O::Mov | O::Ld | O::St | O::Atom);
    if (i.mods.types.iter().any(|ty| ty.size_bytes() > 8) && !moves)
        || (i.mods.rest.iter().any(unknown) && !reads_text(i))
    {
        return None;
    }
    if let Some(draft) = control::frame::lower(l, i) {
        return draft;
    }
    let is_float = i.mods.types.first().is_some_and(|ty| ty.is_float());
    match i.opcode.family() {
        F::Arithmetic | F::Division if is_float => values::float::lower(l, i),
        F::Arithmetic | F::Division => values::integer::lower(l, i),
        F::Transcendental => values::special::lower(l, i),
        F::Carry => values::carry::lower(l, i),
        F::Dot => values::dot::lower(l, i),
        F::Bits => values::bits::lower(l, i),
        F::Selection => values::compare::lower(l, i),
        F::Lanes => values::shuffle::lower(l, i),
        F::Texture => texture::fetch::lower(l, i),
        F::Surface => texture::surface::lower(l, i),
        _ => lower_single(l, i),
    }
}

/// Returns the operation for an instruction whose family is lowered in several places.
fn lower_single(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    use Opcode as O;
    match i.opcode {
        O::Cvt => values::convert::lower(l, i),
        O::CvtPack => values::convert_any::lower_pack(l, i),
        O::Mov | O::Cvta | O::Isspacep => values::data::lower(l, i),
        O::Ld | O::Ldu | O::St => memory::load_store::lower(l, i),
        O::Atom | O::Red => memory::atomic::lower(l, i),
        O::WmmaMma | O::Mma => matrix::product::lower(l, i),
        O::WmmaLoad | O::WmmaStore => matrix::fragment_memory::lower_wmma(l, i),
        O::LdMatrix | O::StMatrix => matrix::fragment_memory::lower_matrix(l, i),
        O::MovMatrix => matrix::product::lower_transpose(l, i),
        _ => control::instructions::lower(l, i)
            .or_else(|| memory::asynchronous::lower(l, i))
            .or_else(|| values::video::lower(l, i)),
    }
}

/// Returns the weight of a backward branch towards a path's patience; `polls` when its loop asks for what others may
/// change.
pub(crate) const fn branch_weight(polls: bool) -> u16 {
    Warp::weight(polls)
}
