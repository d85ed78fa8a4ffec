//! Integer arithmetic (PTX ISA section 9.7.1): add, sub, mul, mad, div, rem, abs, neg, min, max, sad and the
//! 24-bit forms.
//!
//! Rule: division by zero, which the ISA leaves unspecified, gives all ones, as the hardware does.

use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{LaneValue, map1, map2, map3};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::ExecFn;
use gridmux_ptx::decode::{Instruction, Opcode, Part, ScalarType as T};
use num_traits::{PrimInt, WrappingAdd, WrappingMul, WrappingSub};

/// Integers as PTX computes with them.
pub(in crate::exec) trait Int:
    LaneValue + PrimInt + WrappingAdd + WrappingSub + WrappingMul
{
    /// Type of a `.wide` product.
    type Wide: LaneValue + WrappingAdd;
    fn high(self, b: Self) -> Self;
    fn product(self, b: Self) -> Self::Wide;
    fn quotient(self, b: Self) -> Self;
    fn remainder(self, b: Self) -> Self;
    fn magnitude(self) -> Self;
}

macro_rules! int {
    ($ty:ty, $wide:ty, $twice:ty, |$m:ident| $magnitude:expr) => {
        impl Int for $ty {
            type Wide = $wide;
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "the high half fits")]
            fn high(self, b: Self) -> Self {
                ((<$twice>::from(self) * <$twice>::from(b)) >> <$ty>::BITS) as Self
            }
            #[inline(always)]
            fn product(self, b: Self) -> $wide {
                <$wide>::from(self).wrapping_mul(<$wide>::from(b))
            }
            #[inline(always)]
            fn quotient(self, b: Self) -> Self {
                if b == 0 { !0 } else { self.wrapping_div(b) }
            }
            #[inline(always)]
            fn remainder(self, b: Self) -> Self {
                if b == 0 { !0 } else { self.wrapping_rem(b) }
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                let $m = self;
                $magnitude
            }
        }
    };
}

int!(u16, u32, u32, |v| v);
int!(i16, i32, i32, |v| v.wrapping_abs());
int!(u32, u64, u64, |v| v);
int!(i32, i64, i64, |v| v.wrapping_abs());
int!(u64, u64, u128, |v| v);
int!(i64, i64, i128, |v| v.wrapping_abs());

/// Returns the distance of two numbers, which may not fit in a signed type and then wraps.
#[inline(always)]
fn distance<N: Int>(a: N, b: N) -> N {
    if a < b {
        b.wrapping_sub(&a)
    } else {
        a.wrapping_sub(&b)
    }
}

lane_fn!(Add<N: Int>, |cx, op| map2::<N, N, N>(cx, op, |a, b| a.wrapping_add(&b)));
lane_fn!(AddSat, |cx, op| map2::<i32, i32, i32>(
    cx,
    op,
    i32::saturating_add
));
lane_fn!(SubSat, |cx, op| map2::<i32, i32, i32>(
    cx,
    op,
    i32::saturating_sub
));
lane_fn!(Sub<N: Int>, |cx, op| map2::<N, N, N>(cx, op, |a, b| a.wrapping_sub(&b)));
lane_fn!(MulLo<N: Int>, |cx, op| map2::<N, N, N>(cx, op, |a, b| a.wrapping_mul(&b)));
lane_fn!(MulHi<N: Int>, |cx, op| map2::<N, N, N>(cx, op, N::high));
lane_fn!(MulWide<N: Int>, |cx, op| map2::<N, N, N::Wide>(cx, op, N::product));
lane_fn!(MadLo<N: Int>, |cx, op| map3::<N, N, N, N>(cx, op, |a, b, c| a.wrapping_mul(&b).wrapping_add(&c)));
lane_fn!(MadHi<N: Int>, |cx, op| map3::<N, N, N, N>(cx, op, |a, b, c| a.high(b).wrapping_add(&c)));
lane_fn!(MadWide<N: Int>, |cx, op| map3::<N, N, N::Wide, N::Wide>(
    cx,
    op,
    |a, b, c| a.product(b).wrapping_add(&c)
));
lane_fn!(Div<N: Int>, |cx, op| map2::<N, N, N>(cx, op, N::quotient));
lane_fn!(Rem<N: Int>, |cx, op| map2::<N, N, N>(cx, op, N::remainder));
lane_fn!(Min<N: Int>, |cx, op| map2::<N, N, N>(cx, op, std::cmp::min));
lane_fn!(Max<N: Int>, |cx, op| map2::<N, N, N>(cx, op, std::cmp::max));
lane_fn!(Abs<N: Int>, |cx, op| map1::<N, N>(cx, op, N::magnitude));
lane_fn!(Neg<N: Int>, |cx, op| map1::<N, N>(cx, op, |a| N::zero().wrapping_sub(&a)));
lane_fn!(Sad<N: Int>, |cx, op| map3::<N, N, N, N>(cx, op, |a, b, c| distance(a, b).wrapping_add(&c)));
lane_fn!(Mul24U, |cx, op| map2::<u32, u32, u32>(cx, op, |a, b| (a
    & 0xff_ffff)
    .wrapping_mul(b & 0xff_ffff)));
lane_fn!(Mul24S, |cx, op| map2::<i32, i32, i32>(cx, op, |a, b| {
    low24(a).wrapping_mul(low24(b))
}));
lane_fn!(Mad24U, |cx, op| map3::<u32, u32, u32, u32>(
    cx,
    op,
    |a, b, c| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c)
));
lane_fn!(Mad24S, |cx, op| map3::<i32, i32, i32, i32>(
    cx,
    op,
    |a, b, c| low24(a).wrapping_mul(low24(b)).wrapping_add(c)
));

lane_fn!(
    /// Bits 16 to 47 of the product of the low 24 bits, plus c; `aux`: signed, saturating.
    High24, |cx, op| {
    let (signed, saturates) = (op.aux & SIGNED != 0, op.aux & SATURATES != 0);
    map3::<u32, u32, u32, u32>(cx, op, |a, b, c| {
        let part = |v: u32| if signed { i64::from(low24(v.cast_signed())) } else { i64::from(v & 0xff_ffff) };
        let high = cut((part(a) * part(b)) >> 16);
        let sum = high.cast_signed().saturating_add(c.cast_signed()).cast_unsigned();
        if saturates { sum } else { high.wrapping_add(c) }
    });
});
lane_fn!(MadHiSat, |cx, op| map3::<i32, i32, i32, i32>(
    cx,
    op,
    |a, b, c| a.high(b).saturating_add(c)
));
lane_fn!(
    /// Pairs of 16-bit integers; `aux`: the operation, signed, `.relu`.
    Pairs, |cx, op| {
    let (signed, relu) = (op.aux & SIGNED != 0, op.aux & RELU != 0);
    let half = |v: u32| if signed { v.cast_signed() << 16 >> 16 } else { (v & 0xffff).cast_signed() };
    let one = |a: u32, b: u32| {
        let (x, y) = (half(a), half(b));
        let v = match op.aux & 0xff {
            PAIR_ADD => x + y,
            PAIR_MIN => x.min(y),
            _ => x.max(y),
        };
        (if relu && v < 0 { 0 } else { v }).cast_unsigned() & 0xffff
    };
    map2::<u32, u32, u32>(cx, op, |a, b| one(a, b) | one(a >> 16, b >> 16) << 16);
});
lane_fn!(MinRelu, |cx, op| map2::<i32, i32, i32>(cx, op, |a, b| a
    .min(b)
    .max(0)));
lane_fn!(MaxRelu, |cx, op| map2::<i32, i32, i32>(cx, op, |a, b| a
    .max(b)
    .max(0)));

const PAIR_ADD: u32 = 0;
const PAIR_MIN: u32 = 1;
const PAIR_MAX: u32 = 2;
const SIGNED: u32 = 1 << 8;
const SATURATES: u32 = 1 << 9;
const RELU: u32 = 1 << 10;

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the low word")]
fn cut(v: i64) -> u32 {
    v as u32
}

#[inline(always)]
fn low24(v: i32) -> i32 {
    v << 8 >> 8
}

/// The copy of a generic function for an integer type.
macro_rules! by_int {
    ($ty:expr, $f:ident) => {
        match $ty {
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
pub(crate) use by_int;

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    match i.opcode {
        Opcode::Add if i.mods.sat && ty == T::S32 => binary(l, i, handler::<AddSat>(), Class::Int),
        Opcode::Sub if i.mods.sat && ty == T::S32 => binary(l, i, handler::<SubSat>(), Class::Int),
        Opcode::Mad if i.mods.sat && ty == T::S32 && i.mods.part == Some(Part::Hi) => {
            ternary(l, i, handler::<MadHiSat>(), Class::IntMul)
        }
        Opcode::Mul24 | Opcode::Mad24 if i.mods.part == Some(Part::Hi) => high_24(l, i, ty),
        _ if i.mods.sat => None,
        Opcode::Add | Opcode::Min | Opcode::Max if matches!(ty, T::U16x2 | T::S16x2) => {
            pairs(l, i, ty)
        }
        Opcode::Min if i.mods.relu && ty == T::S32 => {
            binary(l, i, handler::<MinRelu>(), Class::Int)
        }
        Opcode::Max if i.mods.relu && ty == T::S32 => {
            binary(l, i, handler::<MaxRelu>(), Class::Int)
        }
        _ if i.mods.relu => None,
        Opcode::Add => binary(l, i, by_int!(ty, Add), Class::Int),
        Opcode::Sub => binary(l, i, by_int!(ty, Sub), Class::Int),
        Opcode::Mul => multiply(l, i, ty),
        Opcode::Mad => multiply_add(l, i, ty),
        Opcode::Mul24 if i.mods.part == Some(Part::Lo) => match ty {
            T::U32 => binary(l, i, handler::<Mul24U>(), Class::IntMul),
            T::S32 => binary(l, i, handler::<Mul24S>(), Class::IntMul),
            _ => None,
        },
        Opcode::Mad24 if i.mods.part == Some(Part::Lo) => match ty {
            T::U32 => ternary(l, i, handler::<Mad24U>(), Class::IntMul),
            T::S32 => ternary(l, i, handler::<Mad24S>(), Class::IntMul),
            _ => None,
        },
        Opcode::Div => binary(l, i, by_int!(ty, Div), Class::IntDiv),
        Opcode::Rem => binary(l, i, by_int!(ty, Rem), Class::IntDiv),
        Opcode::Min => binary(l, i, by_int!(ty, Min), Class::Int),
        Opcode::Max => binary(l, i, by_int!(ty, Max), Class::Int),
        Opcode::Abs => unary(l, i, by_int!(ty, Abs), Class::Int),
        Opcode::Neg => unary(l, i, by_int!(ty, Neg), Class::Int),
        Opcode::Sad => ternary(l, i, by_int!(ty, Sad), Class::Int),
        _ => None,
    }
}

fn high_24(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    let signed = match ty {
        T::U32 if !i.mods.sat => 0,
        T::S32 => SIGNED,
        _ => return None,
    };
    let third = match (i.opcode, i.mods.sat) {
        (Opcode::Mad24, _) => l.src(i, 3, ty)?,
        (_, false) => l.constant(0, false),
        _ => return None,
    };
    let operands = [l.dst(i, ty)?, l.src(i, 1, ty)?, l.src(i, 2, ty)?, third];
    let saturates = if i.mods.sat { SATURATES } else { 0 };
    Some(Draft::alu(handler::<High24>(), Class::IntMul, &operands).aux(signed | saturates))
}

fn pairs(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    let code = match i.opcode {
        Opcode::Add => PAIR_ADD,
        Opcode::Min => PAIR_MIN,
        _ => PAIR_MAX,
    };
    let signed = if ty == T::S16x2 { SIGNED } else { 0 };
    let relu = if i.mods.relu { RELU } else { 0 };
    if i.mods.relu && (code == PAIR_ADD || ty == T::U16x2) {
        return None;
    }
    Some(binary(l, i, handler::<Pairs>(), Class::Int)?.aux(code | signed | relu))
}

fn multiply(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    match i.mods.part? {
        Part::Lo => binary(l, i, by_int!(ty, MulLo), Class::IntMul),
        Part::Hi => binary(l, i, by_int!(ty, MulHi), Class::IntMul),
        Part::Wide => {
            let exec = by_int!(ty, MulWide);
            let operands = l.operands(i, [widened(ty)?, ty, ty])?;
            Some(Draft::alu(exec, Class::IntMul, &operands))
        }
    }
}

fn multiply_add(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    match i.mods.part? {
        Part::Lo => ternary(l, i, by_int!(ty, MadLo), Class::IntMul),
        Part::Hi => ternary(l, i, by_int!(ty, MadHi), Class::IntMul),
        Part::Wide => {
            let wide = widened(ty)?;
            let exec = by_int!(ty, MadWide);
            let operands = l.operands(i, [wide, ty, ty, wide])?;
            Some(Draft::alu(exec, Class::IntMul, &operands))
        }
    }
}

fn widened(ty: T) -> Option<T> {
    match ty {
        T::U16 => Some(T::U32),
        T::S16 => Some(T::S32),
        T::U32 => Some(T::U64),
        T::S32 => Some(T::S64),
        _ => None,
    }
}

/// Lowers `d = f(a)`, all of the instruction's first type.
pub(super) fn unary(
    l: &mut Lower<'_>,
    i: &Instruction,
    exec: ExecFn,
    class: Class,
) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    Some(Draft::alu(exec, class, &l.operands(i, [ty; 2])?))
}

/// Lowers `d = f(a, b)`, all of the instruction's first type.
pub(super) fn binary(
    l: &mut Lower<'_>,
    i: &Instruction,
    exec: ExecFn,
    class: Class,
) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    Some(Draft::alu(exec, class, &l.operands(i, [ty; 3])?))
}

/// Lowers `d = f(a, b, c)`, all of the instruction's first type.
pub(super) fn ternary(
    l: &mut Lower<'_>,
    i: &Instruction,
    exec: ExecFn,
    class: Class,
) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    Some(Draft::alu(exec, class, &l.operands(i, [ty; 4])?))
}
