//! A thread's stack: parameters, results and local variables of functions, and addresses of them.
//!
//! A frame stands in local memory at the function's frame pointer and begins with the function's parameters, laid
//! out as a kernel's are, followed by its results (PTX ISA section 7.1). A caller writes arguments where the
//! callee's frame will begin and finds the results there afterwards.
//! A kernel's own parameters are no memory of this kind: their addresses have a window of their own among the
//! generic ones.
//!
//! Rules: a frame lies inside local memory because calls check that, so that an access at a constant offset inside
//! it needs no check; passing arguments is register traffic on a chip, so these operations are moves for the
//! timing model.

use super::calls::{FRAME_POINTER, function_address};
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower, without_lanes};
use crate::exec::memory::access::{ADDRESS, AUX_NARROW, addressed, addresses};
use crate::exec::memory::load_store::{self, data};
use crate::exec::memory::stored::{Stored, Word};
use crate::exec::op::{ExecFn, Kind, NONE, Op};
use crate::exec::values;
use crate::exec::windows::{LOCAL_WINDOW, PARAM_WINDOW};
use crate::fault::{FaultKind, FaultSpace};
use gridmux_ptx::decode::{
    AddressBase, Instruction, Opcode, Operand, ScalarType as T, StateSpace, Symbol,
};
use std::sync::Arc;

/// Returns the host address of a lane's frame.
#[inline(always)]
fn base(cx: &Cx<'_>, pointers: &[u32; 32], lane: usize, offset: u32) -> *mut u8 {
    let thread = cx.warp as usize * 32 + lane;
    let at = thread * cx.block.local_bytes as usize;
    let inside = pointers[lane].wrapping_add(offset) as usize;
    cx.block.local.wrapping_add(at).wrapping_add(inside)
}

#[inline(always)]
fn low(imm: i64) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "one of two packed offsets")]
    let low = imm as u32;
    low
}

lane_fn!(
    /// `r[0..4]`: destinations; `r[4]`: frame pointer, `imm`: offset.
    LoadFrame<M: Stored, R: Word>, |cx, op| {
    let pointers = read::<u32>(cx, op.r[ADDRESS]);
    for element in 0..usize::from(op.vector) {
        let mut out = [R::default(); 32];
        for lane in active(cx.mask) {
            let at = base(cx, &pointers, lane, low(op.imm)).wrapping_add(element * size_of::<M>());
            // SAFETY: the offset lies inside the frame (checked by the lowering), the frame inside the thread's
            // local memory (checked by the call).
            out[lane] = unsafe { at.cast::<M>().read_unaligned() }.extend();
        }
        if op.r[element] != NONE {
            commit(cx, op.r[element], &out);
        }
    }
});
lane_fn!(
    /// `r[0..4]`: sources; `r[4]`: frame pointer, `imm`: offset.
    StoreFrame<M: Stored, R: Word>, |cx, op| {
    let pointers = read::<u32>(cx, op.r[ADDRESS]);
    for element in 0..usize::from(op.vector) {
        let values = read::<R>(cx, op.r[element]);
        for lane in active(cx.mask) {
            let at = base(cx, &pointers, lane, low(op.imm)).wrapping_add(element * size_of::<M>());
            // SAFETY: as in `LoadFrame`.
            unsafe { at.cast::<M>().write_unaligned(M::cut(values[lane])) };
        }
    }
});
lane_fn!(
    /// `r`: frame pointers of destination and source; `imm`: offset in the source below, in the destination above;
    /// `aux`: bytes.
    CopyFrame, |cx, op| {
    let (to, from) = (read::<u32>(cx, op.r[0]), read::<u32>(cx, op.r[1]));
    for lane in active(cx.mask) {
        let to = base(cx, &to, lane, low(op.imm >> 32));
        let from = base(cx, &from, lane, low(op.imm));
        // SAFETY: as in `LoadFrame`, for `aux` bytes at both places; `copy` allows them to overlap.
        unsafe { std::ptr::copy(from, to, op.aux as usize) };
    }
});
lane_fn!(
    /// `r`: destination, frame pointer; `imm` is added.
    FrameAddress64, |cx, op| {
    let pointers = read::<u32>(cx, op.r[1]);
    let out = pointers.map(|p| u64::from(p).wrapping_add(op.imm.cast_unsigned()));
    commit(cx, op.r[0], &out);
});
lane_fn!(FrameAddress32, |cx, op| {
    let out = read::<u32>(cx, op.r[1]).map(|p| p.wrapping_add(low(op.imm)));
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// A kernel's parameters at an address: `r[0..4]` destinations, `r[4]` address, `imm` offset.
    LoadParamAt<M: Stored, R: Word>, |cx, op| load_param_at::<M, R>(cx, op)
);

#[inline(always)]
fn load_param_at<M: Stored, R: Word>(cx: &mut Cx<'_>, op: &Op) {
    let each = u32::try_from(size_of::<M>()).unwrap_or(0);
    let bytes = each * u32::from(op.vector);
    let lanes = addresses(cx, op);
    let limit = u64::from(cx.block.params_bytes);
    for lane in active(cx.mask) {
        let address = lanes[lane];
        if address.saturating_add(u64::from(bytes)) > limit {
            let kind = FaultKind::OutOfBounds {
                write: false,
                space: FaultSpace::Constant,
                bytes,
            };
            cx.fail(kind, u32::try_from(lane).unwrap_or(0), Some(address));
            return;
        }
    }
    for element in 0..usize::from(op.vector) {
        let mut out = [R::default(); 32];
        for lane in active(cx.mask) {
            let at = usize::try_from(lanes[lane]).unwrap_or(0) + element * size_of::<M>();
            // SAFETY: the whole access was found inside the parameter block just above.
            out[lane] = unsafe { cx.block.params.add(at).cast::<M>().read_unaligned() }.extend();
        }
        if op.r[element] != NONE {
            commit(cx, op.r[element], &out);
        }
    }
}

/// The copy of a function for a memory type and the register's word.
macro_rules! by_type {
    ($ty:expr, $wide:expr, $f:ident) => {
        match ($ty, $wide, $ty.size_bytes()) {
            (T::S8, false, _) => Some(handler::<$f<i8, u32>>()),
            (T::S16, false, _) => Some(handler::<$f<i16, u32>>()),
            (_, false, 1) => Some(handler::<$f<u8, u32>>()),
            (_, false, 2) => Some(handler::<$f<u16, u32>>()),
            (_, false, 4) => Some(handler::<$f<u32, u32>>()),
            (T::S8, true, _) => Some(handler::<$f<i8, u64>>()),
            (T::S16, true, _) => Some(handler::<$f<i16, u64>>()),
            (T::S32, true, _) => Some(handler::<$f<i32, u64>>()),
            (_, true, 1) => Some(handler::<$f<u8, u64>>()),
            (_, true, 2) => Some(handler::<$f<u16, u64>>()),
            (_, true, 4) => Some(handler::<$f<u32, u64>>()),
            (_, true, 8) => Some(handler::<$f<u64, u64>>()),
            _ => None,
        }
    };
}

impl Lower<'_> {
    /// Returns the running function's frame pointer.
    pub(crate) fn frame_pointer(&mut self) -> u16 {
        if self.frame.is_entry {
            self.constant(0, false)
        } else {
            FRAME_POINTER
        }
    }

    /// Returns where a callee's frame begins: a register and what is added to it.
    pub(crate) fn outgoing(&mut self) -> (u16, u32) {
        if self.frame.moves {
            (self.frame.stack_pointer(), 0)
        } else {
            (self.frame_pointer(), self.frame.bytes)
        }
    }

    /// Returns offset in the frame and size of a parameter, a result, or a variable that passes arguments or stands in
    /// local memory; `None` for anything else.
    pub(crate) fn frame_place(&self, symbol: Symbol) -> Option<(u32, u32)> {
        let formal = |list: &[gridmux_ptx::decode::Param], at: u32, index: u32| {
            let p = list.get(index as usize)?;
            Some((at + p.offset, p.size_bytes))
        };
        match symbol {
            Symbol::Param(index) if !self.frame.is_entry => formal(&self.function.params, 0, index),
            Symbol::ReturnParam(index) => {
                formal(&self.function.returns, self.frame.returns_at, index)
            }
            Symbol::Variable(id) => match self.variables[id.0 as usize] {
                Some((StateSpace::Param | StateSpace::Local, at)) => {
                    let end = self.frame.bytes.saturating_sub(u32::try_from(at).ok()?);
                    Some((u32::try_from(at).ok()?, end))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// Lowers what touches the stack or the address of a parameter; `None` for every other instruction.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Option<Draft>> {
    let space = i.mods.spaces.first().copied().unwrap_or_default();
    match i.opcode {
        Opcode::Ld if space == StateSpace::Param => load(l, i),
        Opcode::Ld if space == StateSpace::Local => local(l, i, 1),
        Opcode::St if space == StateSpace::Local => local(l, i, 0),
        Opcode::St if space == StateSpace::Param => Some(access(l, i, 0, 1)),
        Opcode::Alloca | Opcode::StackSave | Opcode::StackRestore => Some(lower_stack(l, i)),
        Opcode::Mov | Opcode::Cvta => match i.operands.get(1)? {
            Operand::Symbol { symbol, offset } => address(l, i, *symbol, *offset),
            _ => None,
        },
        _ => None,
    }
    .or_else(|| match (i.opcode, space) {
        (Opcode::Cvta, StateSpace::Param) => Some(cvta_param(l, i)),
        _ => None,
    })
}

fn load(l: &mut Lower<'_>, i: &Instruction) -> Option<Option<Draft>> {
    match i.operands.get(1)? {
        Operand::Address {
            base: AddressBase::Symbol(Symbol::Param(_)),
            ..
        } if l.frame.is_entry => None,
        Operand::Address {
            base: AddressBase::Symbol(_),
            ..
        } => Some(access(l, i, 1, 0)),
        _ if l.frame.is_entry => Some(load_at(l, i)),
        _ => Some(access(l, i, 1, 0)),
    }
}

/// Returns local memory of a function by name; a kernel's own stands at constant addresses, which need nothing special.
fn local(l: &mut Lower<'_>, i: &Instruction, at: usize) -> Option<Option<Draft>> {
    let Operand::Address {
        base: AddressBase::Symbol(symbol),
        offset,
    } = i.operands.get(at)?
    else {
        return None;
    };
    if l.frame.is_entry {
        return None;
    }
    // The address becomes the frame pointer plus an offset, with all checks of an ordinary local access.
    let (start, _) = l.frame_place(*symbol)?;
    let pointer = l.frame_pointer();
    let mut plain = i.clone();
    plain.operands[at] = Operand::Address {
        base: AddressBase::Absolute,
        offset: offset + i64::from(start),
    };
    let mut draft = load_store::lower(l, &plain);
    if let Some(draft) = &mut draft {
        draft.r[ADDRESS] = pointer;
        draft.aux |= AUX_NARROW;
    }
    Some(draft)
}

/// Lowers `ld.param` and `st.param` in a frame: at a name without a check, at an address as local memory.
fn access(l: &mut Lower<'_>, i: &Instruction, address: usize, value: usize) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let vector = i.mods.vector.max(1);
    let Operand::Address { base, offset } = i.operands.get(address)? else {
        return None;
    };
    let is_load = i.opcode == Opcode::Ld;
    let AddressBase::Symbol(symbol) = base else {
        let mut plain = i.clone();
        Arc::make_mut(&mut plain.mods).spaces[0] = StateSpace::Local;
        return load_store::lower(l, &plain);
    };
    let (start, size) = l.frame_place(*symbol)?;
    let at = u32::try_from(i64::from(start).checked_add(*offset)?).ok()?;
    let end = at.checked_add(ty.size_bytes() * u32::from(vector))?;
    if at < start || end > start + size {
        return None;
    }
    let (mut r, wide) = data(l, i.operands.get(value)?, ty, is_load, vector)?;
    let mut operands = [NONE; 5];
    operands[..4].copy_from_slice(&r[..4]);
    r[0] = l.frame_pointer();
    operands[ADDRESS] = r[0];
    let exec = frame_access(ty, wide, is_load)?;
    let draft = Draft::alu(exec, Class::Move, &operands).vector(vector);
    Some(draft.imm(i64::from(at)))
}

fn frame_access(ty: T, wide: bool, is_load: bool) -> Option<ExecFn> {
    if is_load {
        by_type!(ty, wide, LoadFrame)
    } else {
        by_type!(ty, wide, StoreFrame)
    }
}

/// Lowers `ld.param` of a kernel at an address in a register.
fn load_at(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let vector = i.mods.vector.max(1);
    let (r, wide) = data(l, i.operands.first()?, ty, true, vector)?;
    let exec = by_type!(ty, wide, LoadParamAt)?;
    let draft = Draft::alu(exec, Class::Move, &r).vector(vector);
    let mut draft = addressed(l, i.operands.get(1)?, StateSpace::Const, draft)?;
    draft.kind = Kind::Alu;
    Some(draft)
}

/// Lowers `mov` and `cvta` of a name in the frame, or of a kernel's parameter.
fn address(
    l: &mut Lower<'_>,
    i: &Instruction,
    symbol: Symbol,
    offset: i64,
) -> Option<Option<Draft>> {
    if let Symbol::Function(id) = symbol {
        let value = function_address(id.0);
        return Some(constant(l, i, value));
    }
    if let (Symbol::Param(_), true) = (symbol, l.frame.is_entry) {
        let (_, start) = l.symbol(symbol)?;
        let window = if i.opcode == Opcode::Cvta {
            PARAM_WINDOW
        } else {
            0
        };
        return Some(constant(
            l,
            i,
            window.wrapping_add(start).wrapping_add_signed(offset),
        ));
    }
    let (start, _) = l.frame_place(symbol)?;
    let generic = i.opcode == Opcode::Cvta;
    let window = if generic { LOCAL_WINDOW } else { 0 };
    Some(frame_address(
        l,
        i,
        i64::from(start) + offset + window.cast_signed(),
    ))
}

fn constant(l: &mut Lower<'_>, i: &Instruction, value: u64) -> Option<Draft> {
    let mut plain = i.clone();
    plain.opcode = Opcode::Mov;
    plain.operands[1] = Operand::Int(value.cast_signed());
    values::data::lower(l, &plain)
}

fn frame_address(l: &mut Lower<'_>, i: &Instruction, offset: i64) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let exec = if ty.size_bytes() == 8 {
        handler::<FrameAddress64>()
    } else {
        handler::<FrameAddress32>()
    };
    let operands = [l.dst(i, ty)?, l.frame_pointer()];
    Some(Draft::alu(exec, Class::Move, &operands).imm(offset))
}

/// Lowers `cvta.param` of an address in a register: a kernel's parameters have a window, a function's stand in local
/// memory.
fn cvta_param(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let window = if l.frame.is_entry {
        PARAM_WINDOW
    } else {
        LOCAL_WINDOW
    };
    values::data::add_window(l, i, window)
}

/// Returns one argument or result between a register or literal and a frame.
pub(crate) fn pass(
    l: &mut Lower<'_>,
    operand: &Operand,
    ty: T,
    place: (u16, u32),
    is_load: bool,
) -> Option<Draft> {
    let (mut r, wide) = data(l, operand, ty, is_load, 1)?;
    let mut operands = [NONE; 5];
    operands[0] = std::mem::replace(&mut r[0], NONE);
    operands[ADDRESS] = place.0;
    let exec = frame_access(ty, wide, is_load)?;
    Some(Draft::alu(exec, Class::Move, &operands).imm(i64::from(place.1)))
}

/// Returns a 64-bit word between a pair of slots and a frame.
pub(crate) fn move_word(slots: u16, place: (u16, u32), is_load: bool) -> Draft {
    let exec = if is_load {
        handler::<LoadFrame<u64, u64>>()
    } else {
        handler::<StoreFrame<u64, u64>>()
    };
    let operands = [slots, NONE, NONE, NONE, place.0];
    Draft::alu(exec, Class::Move, &operands).imm(i64::from(place.1))
}

/// Returns a copy of `bytes` bytes between frames.
pub(crate) fn copy(to: (u16, u32), from: (u16, u32), bytes: u32) -> Draft {
    let offsets = i64::from(to.1) << 32 | i64::from(from.1);
    Draft::alu(handler::<CopyFrame>(), Class::Move, &[to.0, from.0])
        .imm(offsets)
        .aux(bytes)
}

/// Returns the operation that enters a function: `number`, or the address in `address`.
pub(crate) fn call(l: &mut Lower<'_>, number: u32, address: Option<u16>) -> Draft {
    let (base, bias) = l.outgoing();
    let operands = [address.unwrap_or(NONE), l.slots, l.predicates, base];
    without_lanes(&operands)
        .kind(Kind::Call)
        .imm(i64::from(number))
        .aux(bias)
}

/// Sets the stack pointer of a function whose frame grows.
pub(crate) fn begin_stack(l: &mut Lower<'_>) -> Draft {
    let operands = [l.frame.stack_pointer(), l.frame_pointer()];
    Draft::alu(handler::<FrameAddress32>(), Class::Move, &operands).imm(i64::from(l.frame.bytes))
}

lane_fn!(
    /// `r`: destination or none, stack pointer, size; `imm`: alignment, `aux`: room that must stay, `vector`: 2
    /// when destination and size are 64-bit words.
    Alloca<R: Word>, |cx, op| alloca::<R>(cx, op)
);

#[inline(always)]
fn alloca<R: Word>(cx: &mut Cx<'_>, op: &Op) {
    let (mut tops, sizes) = (read::<u32>(cx, op.r[1]), read::<R>(cx, op.r[2]));
    let align = u64::from(low(op.imm).max(1));
    let mut out = [R::default(); 32];
    for lane in active(cx.mask) {
        let start = u64::from(tops[lane]).next_multiple_of(align);
        let end = start
            .saturating_add(sizes[lane].to_bits())
            .saturating_add(15)
            & !15;
        let limit = cx.block.local_bytes;
        if end.saturating_add(u64::from(op.aux)) > u64::from(limit) {
            let kind = FaultKind::StackOverflow { limit };
            cx.fail(kind, u32::try_from(lane).unwrap_or(0), None);
            return;
        }
        let bytes = usize::try_from(end - start).unwrap_or(0);
        let at = base(cx, &[low(start.cast_signed()); 32], lane, 0);
        // SAFETY: the end of the piece was found inside the thread's local memory just above.
        unsafe { at.write_bytes(0, bytes) };
        out[lane] = R::from_bits(start);
        tops[lane] = low(end.cast_signed());
    }
    commit(cx, op.r[1], &tops);
    if op.r[0] != NONE {
        commit(cx, op.r[0], &out);
    }
}

lane_fn!(
    /// `r`: destination, stack pointer.
    StackSave<R: Word>, |cx, op| {
    let out = read::<u32>(cx, op.r[1]).map(|top| R::from_bits(u64::from(top)));
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// `r`: stack pointer, source; `aux`: end of the frame's fixed part, `r[2]` frame pointer.
    StackRestore<R: Word>, |cx, op| {
    let (mut tops, asked) = (read::<u32>(cx, op.r[0]), read::<R>(cx, op.r[1]));
    let pointers = read::<u32>(cx, op.r[2]);
    for lane in active(cx.mask) {
        let top = asked[lane].to_bits();
        let lowest = u64::from(pointers[lane]) + u64::from(op.aux);
        if top < lowest || top > u64::from(tops[lane]) {
            let kind = FaultKind::StackOverflow { limit: cx.block.local_bytes };
            cx.fail(kind, u32::try_from(lane).unwrap_or(0), Some(top));
            return;
        }
        tops[lane] = low(top.cast_signed());
    }
    commit(cx, op.r[0], &tops);
});

/// Lowers `alloca`, `stacksave` and `stackrestore` (PTX ISA section 9.7.17).
fn lower_stack(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let wide = ty.size_bytes() == 8;
    let top = l.frame.stack_pointer();
    match i.opcode {
        Opcode::Alloca => {
            let exec = if wide {
                handler::<Alloca<u64>>()
            } else {
                handler::<Alloca<u32>>()
            };
            let align = match i.operands.get(2) {
                Some(Operand::Int(align)) if *align > 0 && *align <= 1024 => *align,
                None => 16,
                _ => return None,
            };
            let operands = [l.dst(i, ty)?, top, l.src(i, 1, ty)?];
            let draft = Draft::alu(exec, Class::Int, &operands).imm(align);
            Some(draft.aux(l.frame.outgoing_bytes))
        }
        Opcode::StackSave => {
            let exec = if wide {
                handler::<StackSave<u64>>()
            } else {
                handler::<StackSave<u32>>()
            };
            Some(Draft::alu(exec, Class::Move, &[l.dst(i, ty)?, top]))
        }
        Opcode::StackRestore => {
            let exec = if wide {
                handler::<StackRestore<u64>>()
            } else {
                handler::<StackRestore<u32>>()
            };
            let operands = [top, l.src(i, 0, ty)?, l.frame_pointer()];
            Some(Draft::alu(exec, Class::Move, &operands).aux(l.frame.bytes))
        }
        _ => None,
    }
}
