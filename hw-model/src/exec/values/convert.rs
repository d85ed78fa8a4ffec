//! Conversion between types (PTX ISA section 9.7.9, `cvt`).
//!
//! Rules: float to integer rounds as asked and clamps to the target's range; integer to integer cuts, or clamps
//! under `.sat`; directed rounding to a float goes through the exact double, where there is one. What has no loop
//! of its own here goes to `convert_any`.

use super::convert_any;
use super::data::{special, special_code};
use super::float::{Real, flush};
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{LaneValue, commit, map1};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::ExecFn;
use gridmux_ptx::decode::{Instruction, Operand, Rounding, ScalarType as T, SpecialReg};
use num_traits::{AsPrimitive, PrimInt};

/// Integers, which convert to each other and to floats as Rust's `as` does it.
trait Integer: LaneValue + PrimInt + AsPrimitive<i128> + AsPrimitive<f32> + AsPrimitive<f64> {
    fn cut(v: i128) -> Self;
}

macro_rules! integer {
    ($($ty:ty),*) => {
        $(impl Integer for $ty {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "the conversion that PTX asks for")]
            fn cut(v: i128) -> Self {
                v as Self
            }
        })*
    };
}
integer!(u8, i8, u16, i16, u32, i32, u64, i64);

lane_fn!(Cut<A: Integer, D: Integer>, |cx, op| map1::<A, D>(cx, op, |a| D::cut(a.as_())));
lane_fn!(
    /// The value is clamped to the target's range first.
    Clamp<A: Integer, D: Integer>, |cx, op| {
    let (low, high): (i128, i128) = (D::min_value().as_(), D::max_value().as_());
    map1::<A, D>(cx, op, |a| D::cut(AsPrimitive::<i128>::as_(a).clamp(low, high)));
});
lane_fn!(IntToSingle<A: Integer>, |cx, op| map1::<A, f32>(cx, op, A::as_));
lane_fn!(IntToDouble<A: Integer>, |cx, op| map1::<A, f64>(cx, op, A::as_));
lane_fn!(IntToSingleDirected<A: Integer>, |cx, op| {
    let mode = op.aux;
    map1::<A, f32>(cx, op, |a| narrow(a.as_(), mode));
});

lane_fn!(
    /// The bits of the special register with the code `aux` that `imm` has.
    Special<D: Integer>, |cx, op| {
    let bits = op.imm.cast_unsigned();
    let out = special(cx, op.aux).map(|value| D::cut(i128::from(value & bits)));
    commit(cx, op.r[0], &out);
});

/// Rounding modes in `aux`.
const NEAREST: u32 = 0;
const TO_ZERO: u32 = 1;
const DOWN: u32 = 2;
const UP: u32 = 3;

/// Flush inputs, in `aux`.
const FTZ: u32 = 1 << 8;

/// A double as a single, rounded as asked.
#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the rounding to nearest is corrected below"
)]
fn narrow(exact: f64, mode: u32) -> f32 {
    let nearest = exact as f32;
    let error = f64::from(nearest) - exact;
    let too_high = error > 0.0 && (mode == DOWN || (mode == TO_ZERO && exact > 0.0));
    let too_low = error < 0.0 && (mode == UP || (mode == TO_ZERO && exact < 0.0));
    if too_high {
        nearest.next_down()
    } else if too_low {
        nearest.next_up()
    } else {
        nearest
    }
}

/// Returns an integral number, rounded as the mode says.
#[inline(always)]
fn rounded<R: Real>(v: R, mode: u32) -> R {
    match mode {
        NEAREST => v.integral(),
        TO_ZERO => v.trunc(),
        DOWN => v.floor(),
        _ => v.ceil(),
    }
}

/// Integers that floats convert to.
trait FromFloat<A>: LaneValue {
    fn from_float(a: A) -> Self;
}
macro_rules! from_float {
    ($from:ty, $nan:expr => $($ty:ty),*) => {
        $(impl FromFloat<$from> for $ty {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation,  reason = "saturates")]
            fn from_float(a: $from) -> Self {
                if $nan && a.is_nan() {
                    1 << (<$ty>::BITS - 1)
                } else {
                    a as $ty
                }
            }
        })*
    };
}
// NaN gives 0, or the top bit where 64 bits or f64 are involved (PTX ISA section 9.7.9, `cvt`).
from_float!(f32, false => u8, i8, u16, i16, u32, i32);
from_float!(f32, true => u64, i64);
from_float!(f64, true => u8, i8, u16, i16, u32, i32, u64, i64);

lane_fn!(FloatToInt<A: Real, D: FromFloat<A>>, |cx, op| {
    let mode = op.aux & 0xff;
    if op.aux & FTZ != 0 {
        map1::<A, D>(cx, op, |a| D::from_float(rounded(flush(a), mode)));
    } else {
        map1::<A, D>(cx, op, |a| D::from_float(rounded(a, mode)));
    }
});
lane_fn!(RoundFloat<A: Real>, |cx, op| {
    let mode = op.aux & 0xff;
    if op.aux & FTZ != 0 {
        map1::<A, A>(cx, op, |a| rounded(flush(a), mode));
    } else {
        map1::<A, A>(cx, op, |a| rounded(a, mode));
    }
});
lane_fn!(FlushFloat<A: Real>, |cx, op| {
    if op.aux & FTZ != 0 {
        map1::<A, A>(cx, op, flush);
    } else {
        map1::<A, A>(cx, op, |a| a);
    }
});
lane_fn!(SaturateSingle, |cx, op| map1::<f32, f32>(cx, op, |a| {
    let low = if a > 0.0 { a } else { 0.0 };
    if low < 1.0 { low } else { 1.0 }
}));
lane_fn!(Widen, |cx, op| {
    if op.aux & FTZ != 0 {
        map1::<f32, f64>(cx, op, |a| f64::from(flush(a)));
    } else {
        map1::<f32, f64>(cx, op, f64::from);
    }
});
lane_fn!(Narrow, |cx, op| {
    let mode = op.aux & 0xff;
    if op.aux & FTZ != 0 {
        map1::<f64, f32>(cx, op, |a| flush(narrow(a, mode)));
    } else {
        map1::<f64, f32>(cx, op, |a| narrow(a, mode));
    }
});

macro_rules! from_int {
    ($ty:expr, $f:ident) => {
        match $ty {
            T::U8 | T::B8 => handler::<$f<u8>>(),
            T::S8 => handler::<$f<i8>>(),
            T::U16 | T::B16 => handler::<$f<u16>>(),
            T::S16 => handler::<$f<i16>>(),
            T::U32 | T::B32 => handler::<$f<u32>>(),
            T::S32 => handler::<$f<i32>>(),
            T::U64 | T::B64 => handler::<$f<u64>>(),
            T::S64 => handler::<$f<i64>>(),
            _ => return None,
        }
    };
}
macro_rules! to_int {
    ($from:ty, $to:expr, $f:ident) => {
        match $to {
            T::U8 | T::B8 => handler::<$f<$from, u8>>(),
            T::S8 => handler::<$f<$from, i8>>(),
            T::U16 | T::B16 => handler::<$f<$from, u16>>(),
            T::S16 => handler::<$f<$from, i16>>(),
            T::U32 | T::B32 => handler::<$f<$from, u32>>(),
            T::S32 => handler::<$f<$from, i32>>(),
            T::U64 | T::B64 => handler::<$f<$from, u64>>(),
            T::S64 => handler::<$f<$from, i64>>(),
            _ => return None,
        }
    };
}
macro_rules! int_to_int {
    ($from:expr, $to:expr, $f:ident) => {
        match $from {
            T::U8 | T::B8 => to_int!(u8, $to, $f),
            T::S8 => to_int!(i8, $to, $f),
            T::U16 | T::B16 => to_int!(u16, $to, $f),
            T::S16 => to_int!(i16, $to, $f),
            T::U32 | T::B32 => to_int!(u32, $to, $f),
            T::S32 => to_int!(i32, $to, $f),
            T::U64 | T::B64 => to_int!(u64, $to, $f),
            T::S64 => to_int!(i64, $to, $f),
            _ => return None,
        }
    };
}

/// Lowers `cvt`.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let (to, from) = (*i.mods.types.first()?, *i.mods.types.get(1)?);
    if let Operand::Special(register) = i.operands.get(1)? {
        return of_special(l, i, *register, (to, from));
    }
    let exact_width = |operand: &Operand, ty: T| match operand {
        Operand::Reg(reg) => l.is_wide(*reg) == (ty.size_bytes() == 8),
        _ => true,
    };
    let plain = exact_width(i.operands.first()?, to)
        && exact_width(i.operands.get(1)?, from)
        && i.mods.rest.is_empty()
        && i.mods.types.len() == 2;
    let chosen = if plain { choose(i, to, from) } else { None };
    let Some((exec, class)) = chosen else {
        return convert_any::lower(l, i);
    };
    let (mode, _) = rounding(i.mods.rounding);
    let aux = mode | if i.mods.ftz { FTZ } else { 0 };
    // A register wider than the type is allowed; only those of the type's word size are executed.
    let word = |ty: T| if ty.size_bytes() == 8 { T::B64 } else { T::B32 };
    let source = match i.operands.get(1)? {
        operand @ Operand::Reg(_) => l.reg(operand, word(from) == T::B64)?,
        _ => l.src(i, 1, from)?,
    };
    let operands = [l.dst(i, word(to))?, source];
    Some(Draft::alu(exec, class, &operands).aux(aux))
}

/// Lowers `cvt` of a special register: before PTX 2.0 those of indices and sizes had 16 bits (PTX ISA section 10).
fn of_special(
    l: &mut Lower<'_>,
    i: &Instruction,
    register: SpecialReg,
    (to, from): (T, T),
) -> Option<Draft> {
    let widens_sign = from.is_signed() && to.size_bytes() > from.size_bytes();
    if to.is_float() || from.is_float() || widens_sign || i.mods.sat {
        return None;
    }
    let bits = u64::MAX >> (64 - 8 * to.size_bytes().min(from.size_bytes()));
    let exec = match to.size_bytes() {
        8 => handler::<Special<u64>>(),
        _ => handler::<Special<u32>>(),
    };
    let draft = Draft::alu(exec, Class::Move, &[l.dst(i, to)?]).aux(special_code(register)?);
    Some(draft.imm(bits.cast_signed()))
}

/// Returns the mode for `aux`, and whether it rounds to an integral value.
fn rounding(rounding: Option<Rounding>) -> (u32, bool) {
    match rounding {
        None | Some(Rounding::Rn | Rounding::Rna) => (NEAREST, false),
        Some(Rounding::Rz) => (TO_ZERO, false),
        Some(Rounding::Rm) => (DOWN, false),
        Some(Rounding::Rp) => (UP, false),
        Some(Rounding::Rni) => (NEAREST, true),
        Some(Rounding::Rzi) => (TO_ZERO, true),
        Some(Rounding::Rmi) => (DOWN, true),
        Some(Rounding::Rpi) => (UP, true),
    }
}

fn choose(i: &Instruction, to: T, from: T) -> Option<(ExecFn, Class)> {
    let (mode, integral) = rounding(i.mods.rounding);
    let saturates = i.mods.sat;
    let ties_away = i.mods.rounding == Some(Rounding::Rna);
    let other = |ty: T| (ty.is_float() && ty != T::F32 && ty != T::F64) || ty == T::Tf32;
    if i.mods.satfinite || i.mods.relu || ties_away || other(to) || other(from) {
        return None;
    }
    let chosen = match (to, from) {
        (T::F32, T::F32) if saturates && !integral && !i.mods.ftz => {
            (handler::<SaturateSingle>(), Class::Fp32)
        }
        (T::F32 | T::F64, _) if saturates => return None,
        (T::F32, T::F32) if integral => (handler::<RoundFloat<f32>>(), Class::Sfu),
        (T::F64, T::F64) if integral => (handler::<RoundFloat<f64>>(), Class::Fp64),
        (T::F32, T::F32) => (handler::<FlushFloat<f32>>(), Class::Fp32),
        (T::F64, T::F64) => (handler::<FlushFloat<f64>>(), Class::Fp64),
        (T::F64, T::F32) => (handler::<Widen>(), Class::Fp64),
        (T::F32, T::F64) => (handler::<Narrow>(), Class::Fp64),
        (_, T::F32) => (to_int!(f32, to, FloatToInt), Class::Sfu),
        (_, T::F64) => (to_int!(f64, to, FloatToInt), Class::Fp64),
        (T::F32, _) if mode == NEAREST => (from_int!(from, IntToSingle), Class::Sfu),
        (T::F32, _) if from.size_bytes() < 8 => (from_int!(from, IntToSingleDirected), Class::Sfu),
        (T::F64, _) if mode == NEAREST || from.size_bytes() < 8 => {
            (from_int!(from, IntToDouble), Class::Fp64)
        }
        (T::F32 | T::F64, _) => return None,
        _ if saturates => (int_to_int!(from, to, Clamp), Class::Int),
        _ => (int_to_int!(from, to, Cut), Class::Int),
    };
    Some(chosen)
}
