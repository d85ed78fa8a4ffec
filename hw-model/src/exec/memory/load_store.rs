//! Loads and stores (PTX ISA section 9.7.9): ld, ldu, st in every space, scalar and vector.
//!
//! The data of a checked access ([`super::access`]) goes with short cuts for lanes that lie side by side or share one
//! address.

use super::access::{
    ADDRESS, AUX_PAST_L1, Body, Checked, addressed, addresses, for_each_space, host, place,
    visit_with,
};
use super::load_store_wide;
use super::own_writes::{load_late, peek, record_store, sees_own_writes, waits_for_own_writes};
use super::stored::{Stored, Word};
use crate::exec::cx::{Cx, Direction, Pattern, Space};
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{ExecFn, NONE, Op};
use gridmux_ptx::decode::{
    AddressBase, CacheOp, Instruction, MemoryOrder, Opcode, Operand, ScalarType as T, StateSpace,
};

lane_fn!(
    /// `r[0..4]`: destinations of a scalar or vector load.
    Load<M: Stored, R: Word>, |cx, op| load_lanes::<M, R>(cx, op)
);
lane_fn!(
    /// `r[0..4]`: sources of a scalar or vector store.
    Store<M: Stored, R: Word>, |cx, op| store_lanes::<M, R>(cx, op)
);
lane_fn!(
    /// A parameter, the same for all lanes: `imm` is its offset, `vector` the number of elements.
    LoadParam<M: Stored, R: Word>, |cx, op| {
    for element in 0..usize::from(op.vector) {
        if op.r[element] != NONE {
            let offset = usize::try_from(op.imm).unwrap_or(0) + element * size_of::<M>();
            let at = cx.block.params.wrapping_add(offset).cast::<M>();
            // SAFETY: the lowering admits only offsets inside the kernel's parameter block, and every launch
            // brings exactly that many bytes.
            let word: R = unsafe { at.read_unaligned() }.extend();
            commit(cx, op.r[element], &[word; 32]);
        }
    }
});

#[inline(always)]
fn load_lanes<M: Stored, R: Word>(cx: &mut Cx<'_>, op: &Op) {
    let bytes = u32::try_from(size_of::<M>()).unwrap_or(0) * u32::from(op.vector);
    let body = LoadBody::<M, R>(op, std::marker::PhantomData);
    let lanes = addresses(cx, op);
    visit_with(cx, lanes, op.aux & 0xff, bytes, Direction::Load, body);
}

/// Reads the lanes of a checked access.
struct LoadBody<'a, M, R>(&'a Op, std::marker::PhantomData<(M, R)>);

impl<M: Stored, R: Word> Body for LoadBody<'_, M, R> {
    #[inline(always)]
    fn run(&mut self, cx: &mut Cx<'_>, checked: &Checked) {
        load_checked::<M, R>(cx, self.0, checked);
    }
}

/// Reads the lanes of a checked access, whose data slots are `op.r[0..4]`.
#[inline(always)]
pub(super) fn load_checked<M: Stored, R: Word>(cx: &mut Cx<'_>, op: &Op, checked: &Checked) {
    let own = sees_own_writes(cx, checked);
    if own && waits_for_own_writes(cx, checked) {
        load_late::<M, R>(cx, op, checked);
        return;
    }
    for element in 0..usize::from(op.vector) {
        if op.r[element] != NONE {
            let offset = element * size_of::<M>();
            let mut out = fetch::<M, R>(cx, checked, offset, op.vector == 1);
            if own {
                for lane in active(cx.mask) {
                    out[lane] = peek::<M>(cx, checked, lane, offset).extend();
                }
            }
            commit(cx, op.r[element], &out);
        }
    }
}

#[inline(always)]
fn store_lanes<M: Stored, R: Word>(cx: &mut Cx<'_>, op: &Op) {
    let bytes = u32::try_from(size_of::<M>()).unwrap_or(0) * u32::from(op.vector);
    for_each_space(cx, op, bytes, Direction::Store, |cx, checked| {
        store_checked::<M, R>(cx, op, checked);
    });
}

/// Writes the lanes of a checked access, whose data slots are `op.r[0..4]`.
#[inline(always)]
pub(super) fn store_checked<M: Stored, R: Word>(cx: &mut Cx<'_>, op: &Op, checked: &Checked) {
    if cx.access.space == Space::Global && cx.log.is_some() {
        record_store::<M, R>(cx, op, checked);
        return;
    }
    for element in 0..usize::from(op.vector) {
        let values = read::<R>(cx, op.r[element]);
        if cx.access.pattern == Pattern::Contiguous && op.vector == 1 {
            let first = place(cx, checked, 0, 0).cast::<M>();
            for (lane, value) in values.iter().enumerate() {
                // SAFETY: all 32 lanes are active, checked, and lie side by side from the first.
                unsafe { first.add(lane).write_unaligned(M::cut(*value)) };
            }
            return;
        }
        for lane in active(cx.mask) {
            let at = place(cx, checked, lane, element * size_of::<M>()).cast::<M>();
            // SAFETY: `check` found the whole access of every active lane inside its memory, and the element
            // lies inside the access.
            unsafe { at.write_unaligned(M::cut(values[lane])) };
        }
    }
}

#[inline(always)]
fn fetch<M: Stored, R: Word>(
    cx: &Cx<'_>,
    checked: &Checked,
    offset: usize,
    scalar: bool,
) -> [R; 32] {
    let mut out = [R::default(); 32];
    match cx.access.pattern {
        Pattern::Contiguous if scalar => {
            let first = place(cx, checked, 0, offset).cast::<M>();
            for (lane, word) in out.iter_mut().enumerate() {
                // SAFETY: all 32 lanes are active, checked, and lie side by side from the first.
                *word = unsafe { first.add(lane).read_unaligned() }.extend();
            }
        }
        Pattern::Uniform => {
            let first = cx.access.mask.trailing_zeros() as usize & 31;
            let at = place(cx, checked, first, offset).cast::<M>();
            // SAFETY: the lane is active and was checked.
            out = [unsafe { at.read_unaligned() }.extend(); 32];
        }
        _ => {
            // Lanes that take no part read what the first one reads, so that no lane depends on a branch.
            let addresses = &cx.access.addresses;
            let first = addresses[cx.mask.trailing_zeros() as usize & 31];
            for (lane, word) in out.iter_mut().enumerate() {
                let takes_part = cx.mask >> lane & 1 != 0;
                let address = if takes_part { addresses[lane] } else { first };
                let at = host(checked.base, address).wrapping_add(offset).cast::<M>();
                // SAFETY: the address is that of a lane that takes part, which was checked.
                *word = unsafe { at.read_unaligned() }.extend();
            }
        }
    }
    out
}

/// The copy of a function for a memory type and the register's word.
macro_rules! by_stored {
    ($ty:expr, $wide:expr, $f:ident) => {
        match ($ty, $wide) {
            (T::U8 | T::B8, false) => handler::<$f<u8, u32>>(),
            (T::S8, false) => handler::<$f<i8, u32>>(),
            (T::U16 | T::B16 | T::F16 | T::Bf16, false) => handler::<$f<u16, u32>>(),
            (T::S16, false) => handler::<$f<i16, u32>>(),
            (T::U32 | T::B32 | T::S32 | T::F32 | T::F16x2 | T::Bf16x2, false) => {
                handler::<$f<u32, u32>>()
            }
            (T::U8 | T::B8, true) => handler::<$f<u8, u64>>(),
            (T::S8, true) => handler::<$f<i8, u64>>(),
            (T::U16 | T::B16, true) => handler::<$f<u16, u64>>(),
            (T::S16, true) => handler::<$f<i16, u64>>(),
            (T::U32 | T::B32, true) => handler::<$f<u32, u64>>(),
            (T::S32, true) => handler::<$f<i32, u64>>(),
            (T::U64 | T::B64 | T::S64 | T::F64, true) => handler::<$f<u64, u64>>(),
            _ => return None,
        }
    };
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    if i.mods.vector == 8 {
        return load_store_wide::lower(l, i);
    }
    match i.opcode {
        Opcode::Ld | Opcode::Ldu => {
            let (ty, vector) = moved(ty, i);
            let (r, wide) = data(l, i.operands.first()?, ty, true, vector)?;
            let space = *i.mods.spaces.first().unwrap_or(&StateSpace::Generic);
            if space == StateSpace::Param {
                return parameter(l, i, by_stored!(ty, wide, LoadParam), r);
            }
            let draft = Draft::alu(by_stored!(ty, wide, Load), Class::Memory, &r).vector(vector);
            let mut draft = addressed(l, i.operands.get(1)?, space, draft)?;
            draft.aux |= past_l1(i);
            Some(draft)
        }
        Opcode::St => {
            let (ty, vector) = moved(ty, i);
            let (r, wide) = data(l, i.operands.get(1)?, ty, false, vector)?;
            let space = *i.mods.spaces.first().unwrap_or(&StateSpace::Generic);
            if matches!(space, StateSpace::Param | StateSpace::Const) {
                return None;
            }
            let draft = Draft::alu(by_stored!(ty, wide, Store), Class::Memory, &r).vector(vector);
            addressed(l, i.operands.first()?, space, draft)
        }
        _ => None,
    }
}

/// Returns [`AUX_PAST_L1`] for a load that must not take what L1 has.
pub(super) fn past_l1(i: &Instruction) -> u32 {
    let strong = !matches!(i.mods.order, None | Some(MemoryOrder::Weak));
    if strong || matches!(i.mods.cache, Some(CacheOp::Cg | CacheOp::Cv)) {
        AUX_PAST_L1
    } else {
        0
    }
}

/// Returns the type and number of the elements that are moved: a 128-bit one is moved as two of 64 bits.
fn moved(ty: T, i: &Instruction) -> (T, u8) {
    let vector = i.mods.vector.max(1);
    if ty == T::B128 {
        (T::B64, vector.saturating_mul(2))
    } else {
        (ty, vector)
    }
}

/// Returns the data slots of a scalar or vector operand, and whether they are 64-bit words.
pub(in crate::exec) fn data(
    l: &mut Lower<'_>,
    operand: &Operand,
    ty: T,
    destination: bool,
    vector: u8,
) -> Option<([u16; ADDRESS], bool)> {
    let single = std::slice::from_ref(operand);
    let mut r = [NONE; ADDRESS];
    let mut wide = ty.size_bytes() == 8;
    let elements: Vec<&Operand> = match operand {
        Operand::Vector(elements) => elements.iter().collect(),
        _ => single.iter().collect(),
    };
    if let Some(halves) = elements
        .iter()
        .map(|e| l.two_words(e))
        .collect::<Option<Vec<_>>>()
    {
        for (place, word) in r.iter_mut().zip(halves.iter().flatten()) {
            *place = *word;
        }
        return (halves.len() * 2 == usize::from(vector)).then_some((r, true));
    }
    if let Some(Operand::Reg(reg)) = elements.iter().find(|e| matches!(e, Operand::Reg(_))) {
        wide = l.is_wide(*reg);
    }
    for (place, element) in r.iter_mut().zip(&elements) {
        *place = match element {
            Operand::Sink if destination => continue,
            Operand::Reg(_) => l.reg(element, wide)?,
            literal if !destination => l.value(literal, if wide { T::B64 } else { ty })?,
            _ => return None,
        };
    }
    (elements.len() <= ADDRESS && elements.len() == usize::from(vector)).then_some((r, wide))
}

fn parameter(l: &Lower<'_>, i: &Instruction, exec: ExecFn, r: [u16; ADDRESS]) -> Option<Draft> {
    let Operand::Address {
        base: AddressBase::Symbol(symbol),
        offset,
    } = i.operands.get(1)?
    else {
        return None;
    };
    let (space, start) = l.symbol(*symbol)?;
    let at = start.checked_add_signed(*offset)?;
    let (ty, vector) = moved(*i.mods.types.first()?, i);
    let bytes = u64::from(ty.size_bytes()) * u64::from(vector);
    let inside = space == StateSpace::Param && at + bytes <= u64::from(l.function.params_bytes);
    let draft = Draft::alu(exec, Class::Move, &r).vector(vector);
    inside.then_some(draft.imm(i64::try_from(at).ok()?))
}
