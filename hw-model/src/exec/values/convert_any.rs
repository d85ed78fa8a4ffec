//! Conversions that the plain loops of `convert` do not do (PTX ISA section 9.7.9, `cvt`): directed rounding from
//! 64-bit integers, f16, bf16, tf32, e4m3 and e5m2, packed pairs, registers wider than their type; `cvt.pack`.
//!
//! A lane is taken apart into an exact integer or a double, and put together in the target's format, once per
//! lane and without vectors; the common half-precision conversions have loops of their own.
//! Rules: NaN becomes an integer as the ISA says (0, or the top bit where 64 bits or f64 are involved), NaN in a
//! small format is its canonical one; `.satfinite` gives the largest finite number instead of infinity.

use super::exact;
use super::half::{FTZ, RELU, SAT, Small, clamped};
use super::round::{self, Brain, E4m3, E5m2, Format, Half, Single, Tensor};
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn, once};
use crate::exec::lanes::{commit, map1, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::Op;
use gridmux_ptx::decode::{Instruction, Operand, Rounding, ScalarType as T};

/// `.satfinite`.
const SATFINITE: u32 = 1 << 13;
/// The rounding goes to an integral value.
const INTEGRAL: u32 = 1 << 14;
/// The destination or the source is a 64-bit register.
const WIDE_TO: u32 = 1 << 15;
const WIDE_FROM: u32 = 1 << 16;
/// Indices into [`KINDS`].
const TO_SHIFT: u32 = 20;
const FROM_SHIFT: u32 = 26;

/// Types of one element; packed types are pairs of them.
const KINDS: [T; 15] = [
    T::U8,
    T::S8,
    T::U16,
    T::S16,
    T::U32,
    T::S32,
    T::U64,
    T::S64,
    T::F16,
    T::Bf16,
    T::F32,
    T::F64,
    T::Tf32,
    T::E4m3,
    T::E5m2,
];

#[derive(Debug, Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

lane_fn!(
    /// `r`: destination, a; one element.
    Convert, |cx, op| {
    let source = words(cx, op.r[1], op.aux & WIDE_FROM != 0);
    let out: [u64; 32] = std::array::from_fn(|n| converted(source[n], op.aux));
    store(cx, op, &out);
});
lane_fn!(
    /// `r`: destination, a (the upper element), b (the lower one).
    Pack, |cx, op| {
    let (a, b) = (words(cx, op.r[1], false), words(cx, op.r[2], false));
    let bits = element_bits(to_kind(op.aux));
    let out: [u64; 32] = std::array::from_fn(|n| {
        converted(a[n], op.aux) << bits | converted(b[n], op.aux) & ((1 << bits) - 1)
    });
    store(cx, op, &out);
});
lane_fn!(
    /// `r`: destination, a; both elements of a pair.
    Repack, |cx, op| {
    let a = words(cx, op.r[1], false);
    let (from, to) = (element_bits(from_kind(op.aux)), element_bits(to_kind(op.aux)));
    let out: [u64; 32] = std::array::from_fn(|n| {
        converted(a[n] >> from, op.aux) << to | converted(a[n], op.aux) & ((1 << to) - 1)
    });
    store(cx, op, &out);
});
lane_fn!(
    /// `cvt.pack`; `r`: destination, a, b, c or a zero; `aux`: bits of an element, with bit 8 for signed ones.
    Saturate, |cx, op| {
    let [a, b, c] = [1, 2, 3].map(|n| read::<i32>(cx, op.r[n]));
    let bits = op.aux & 0xff;
    let (low, high) = if op.aux & 0x100 != 0 {
        (-(1_i64 << (bits - 1)), (1_i64 << (bits - 1)) - 1)
    } else {
        (0, (1_i64 << bits) - 1)
    };
    let element = |v: i32| i64::from(v).clamp(low, high).cast_unsigned() & ((1 << bits) - 1);
    #[allow(clippy::cast_possible_truncation, reason = "the word of 32 bits is wanted")]
    let out: [u32; 32] = std::array::from_fn(|n| {
        let above = u64::from(c[n].cast_unsigned()) << (2 * bits);
        (above | element(a[n]) << bits | element(b[n])) as u32
    });
    commit(cx, op.r[0], &out);
});
lane_fn!(FromSmall<F: Small>, |cx, op| map1::<u16, f32>(cx, op, F::widen));
lane_fn!(
    /// `r`: destination, a, b; single precision to one small number, or to two with `PAIR`.
    ToSmall<F: Small>[PAIR: bool], |cx, op| {
    let (a, b) = (read::<f32>(cx, op.r[1]), read::<f32>(cx, op.r[2]));
    let aux = op.aux;
    let one = |v: f32| u32::from(F::narrow(finished::<F>(v.into(), aux)));
    let out: [u32; 32] = std::array::from_fn(|n| {
        if PAIR { one(a[n]) << 16 | one(b[n]) } else { one(a[n]) }
    });
    commit(cx, op.r[0], &out);
});

/// Rounds to a format that single precision contains, and applies the modifiers.
#[inline(always)]
fn finished<F: Format>(v: f64, aux: u32) -> f32 {
    let rounded = round::round::<F>(v, aux & 0xff);
    let bounded = rounded.abs() > F::MAX && aux & SATFINITE != 0;
    let rounded = if bounded { F::MAX.copysign(v) } else { rounded };
    clamped(round::to_single(rounded), aux)
}

fn words(cx: &Cx<'_>, operand: u16, wide: bool) -> [u64; 32] {
    if wide {
        read::<u64>(cx, operand)
    } else {
        read::<u32>(cx, operand).map(u64::from)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a narrow register keeps the low word"
)]
fn store(cx: &Cx<'_>, op: &Op, out: &[u64; 32]) {
    if op.aux & WIDE_TO != 0 {
        commit(cx, op.r[0], out);
    } else {
        commit(cx, op.r[0], &out.map(|word| word as u32));
    }
}

fn to_kind(aux: u32) -> T {
    KINDS[(aux >> TO_SHIFT & 15) as usize % KINDS.len()]
}

fn from_kind(aux: u32) -> T {
    KINDS[(aux >> FROM_SHIFT & 15) as usize % KINDS.len()]
}

fn element_bits(ty: T) -> u32 {
    ty.size_bytes() * 8
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a register's word is cut to its type"
)]
fn number(word: u64, ty: T) -> Number {
    match ty {
        T::U8 => Number::Int((word as u8).into()),
        T::S8 => Number::Int((word as i8).into()),
        T::U16 => Number::Int((word as u16).into()),
        T::S16 => Number::Int((word as i16).into()),
        T::U32 => Number::Int((word as u32).into()),
        T::S32 => Number::Int((word as i32).into()),
        T::U64 => Number::Int(word.into()),
        T::S64 => Number::Int(word.cast_signed().into()),
        T::F16 => Number::Float(round::half_to_single(word as u16).into()),
        T::Bf16 => Number::Float(round::brain_to_single(word as u16).into()),
        T::E4m3 => Number::Float(round::from_eight::<E4m3>(word as u8)),
        T::E5m2 => Number::Float(round::from_eight::<E5m2>(word as u8)),
        T::F64 => Number::Float(f64::from_bits(word)),
        _ => Number::Float(f32::from_bits(word as u32).into()),
    }
}

fn converted(word: u64, aux: u32) -> u64 {
    let (from, to) = (from_kind(aux), to_kind(aux));
    let flushes = |v: f64| aux & FTZ != 0 && v.abs() < f64::from(f32::MIN_POSITIVE);
    match number(word, from) {
        Number::Int(v) if to.is_float() || to == T::Tf32 => from_int(v, to, aux),
        Number::Int(v) => to_int(v, to, aux & SAT != 0),
        Number::Float(v) => {
            let v = if from == T::F32 && flushes(v) {
                0.0_f64.copysign(v)
            } else {
                v
            };
            let v = if aux & INTEGRAL != 0 {
                integral(v, aux & 0xff)
            } else {
                v
            };
            if to.is_float() || to == T::Tf32 {
                let bits = put_float(v, to, aux);
                let small = to == T::F32 && flushes(f32::from_bits(low(bits)).into());
                return if small { bits & 0x8000_0000 } else { bits };
            }
            if v.is_nan() {
                let top = 1 << (element_bits(to) - 1);
                let plain = from != T::F64 && element_bits(to) < 64;
                return if plain { 0 } else { to_int(top, to, false) };
            }
            // Beyond every integer type, so that the conversion to i128 is exact.
            #[allow(clippy::cast_possible_truncation, reason = "bounded before")]
            let v = v.clamp(-1e30, 1e30).trunc() as i128;
            to_int(v, to, true)
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the low word")]
fn low(word: u64) -> u32 {
    word as u32
}

fn integral(v: f64, mode: u32) -> f64 {
    match mode {
        round::NEAREST => v.round_ties_even(),
        round::TO_ZERO => v.trunc(),
        round::DOWN => v.floor(),
        _ => v.ceil(),
    }
}

/// An integer in its type, extended to a word as the type's signedness says.
#[allow(clippy::cast_possible_truncation, reason = "cut to the type")]
fn to_int(v: i128, to: T, saturates: bool) -> u64 {
    let bits = element_bits(to);
    let (least, greatest) = if to.is_signed() {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    let v = if saturates {
        v.clamp(least, greatest)
    } else {
        v
    };
    let spare = 128 - bits;
    let cut = v << spare;
    if to.is_signed() {
        (cut >> spare) as u64
    } else {
        (cut.cast_unsigned() >> spare) as u64
    }
}

fn from_int(v: i128, to: T, aux: u32) -> u64 {
    if to == T::F64 {
        return exact::from_int(v, aux & 0xff).to_bits();
    }
    put_float(round::from_int(v), to, aux)
}

fn put_float(v: f64, to: T, aux: u32) -> u64 {
    match to {
        T::F16 => Half::narrow(finished::<Half>(v, aux)).into(),
        T::Bf16 => Brain::narrow(finished::<Brain>(v, aux)).into(),
        T::Tf32 => {
            let v = finished::<Tensor>(v, aux);
            if v.is_nan() {
                0x7fff_ffff
            } else {
                v.to_bits().into()
            }
        }
        T::E4m3 => eight::<E4m3>(v, aux).into(),
        T::E5m2 => eight::<E5m2>(v, aux).into(),
        T::F32 => finished::<Single>(v, aux).to_bits().into(),
        _ => {
            let low = if v > 0.0 { v } else { 0.0 };
            let bounded = if low < 1.0 { low } else { 1.0 };
            if aux & SAT != 0 { bounded } else { v }.to_bits()
        }
    }
}

fn eight<F: Format>(v: f64, aux: u32) -> u8 {
    round::to_eight::<F>(finished::<F>(v, aux | SATFINITE).into())
}

/// Lowers what `convert` hands over.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let m = &i.mods;
    let (to, from) = (*m.types.first()?, *m.types.get(1)?);
    if m.types.len() != 2 || m.nan || m.xorsign_abs || !m.rest.is_empty() {
        return None;
    }
    let (mode, integral) = match m.rounding {
        None | Some(Rounding::Rn) => (round::NEAREST, false),
        Some(Rounding::Rz) => (round::TO_ZERO, false),
        Some(Rounding::Rm) => (round::DOWN, false),
        Some(Rounding::Rp) => (round::UP, false),
        Some(Rounding::Rna) => (round::AWAY, false),
        Some(Rounding::Rni) => (round::NEAREST, true),
        Some(Rounding::Rzi) => (round::TO_ZERO, true),
        Some(Rounding::Rmi) => (round::DOWN, true),
        Some(Rounding::Rpi) => (round::UP, true),
    };
    // An integer needs an integral value; without a modifier it is the one towards zero.
    let to_integer = !to.is_float()
        && element(to)
            .0
            .is_some_and(|ty| !ty.is_float() && ty != T::Tf32);
    let mode = if to_integer && m.rounding.is_none() {
        round::TO_ZERO
    } else {
        mode
    };
    let flags = [
        (m.ftz, FTZ),
        (m.sat, SAT),
        (m.relu, RELU),
        (m.satfinite, SATFINITE),
        (integral, INTEGRAL),
    ]
    .into_iter()
    .fold(mode, |sum, (set, flag)| if set { sum | flag } else { sum });
    let (to_element, to_pair) = element(to);
    let (from_element, from_pair) = element(from);
    let code = |ty: T| {
        KINDS
            .iter()
            .position(|k| *k == ty)
            .and_then(|k| u32::try_from(k).ok())
    };
    let kinds = code(to_element?)? << TO_SHIFT | code(from_element?)? << FROM_SHIFT;
    let class = Class::Sfu;
    match (to_pair, from_pair) {
        (false, false) => single(l, i, flags | kinds, class),
        (true, false) if from == T::F32 => {
            let operands = [word(l, i, 0)?, l.src(i, 1, from)?, l.src(i, 2, from)?];
            let exec = match to {
                T::F16x2 => handler::<ToSmall<Half, true>>(),
                T::Bf16x2 => handler::<ToSmall<Brain, true>>(),
                _ => once::<Pack>(),
            };
            Some(Draft::alu(exec, class, &operands).aux(flags | kinds))
        }
        (true, true) => {
            let operands = [word(l, i, 0)?, word(l, i, 1)?];
            Some(Draft::alu(once::<Repack>(), class, &operands).aux(flags | kinds))
        }
        _ => None,
    }
}

fn single(l: &mut Lower<'_>, i: &Instruction, mut aux: u32, class: Class) -> Option<Draft> {
    let (to, from) = (i.mods.types[0], i.mods.types[1]);
    let is_wide = |l: &Lower<'_>, operand: &Operand| match operand {
        Operand::Reg(reg) => l.is_wide(*reg),
        _ => false,
    };
    let (wide_to, wide_from) = (
        is_wide(l, i.operands.first()?),
        is_wide(l, i.operands.get(1)?),
    );
    let literal = !matches!(i.operands.get(1)?, Operand::Reg(_));
    if (to.size_bytes() == 8 && !wide_to) || (from.size_bytes() == 8 && !wide_from && !literal) {
        return None;
    }
    let source = if literal {
        l.src(i, 1, from)?
    } else {
        l.reg(&i.operands[1], wide_from)?
    };
    let wide_from = wide_from || (literal && from.size_bytes() == 8);
    aux |= if wide_to { WIDE_TO } else { 0 } | if wide_from { WIDE_FROM } else { 0 };
    let destination = l.reg(i.operands.first()?, wide_to)?;
    let plain = !wide_to && !wide_from && aux & (FTZ | INTEGRAL) == 0;
    let exec = match (to, from) {
        (T::F32, T::F16) if plain && aux & (SAT | RELU) == 0 => handler::<FromSmall<Half>>(),
        (T::F32, T::Bf16) if plain && aux & (SAT | RELU) == 0 => handler::<FromSmall<Brain>>(),
        (T::F16, T::F32) if plain => handler::<ToSmall<Half, false>>(),
        (T::Bf16, T::F32) if plain => handler::<ToSmall<Brain, false>>(),
        _ => once::<Convert>(),
    };
    Some(Draft::alu(exec, class, &[destination, source, source]).aux(aux))
}

/// Returns a 32-bit register operand.
fn word(l: &mut Lower<'_>, i: &Instruction, index: usize) -> Option<u16> {
    l.reg(i.operands.get(index)?, false)
}

/// Returns the element of a type, and whether the type is a pair of them.
fn element(ty: T) -> (Option<T>, bool) {
    match ty {
        T::F16x2 => (Some(T::F16), true),
        T::Bf16x2 => (Some(T::Bf16), true),
        T::E4m3x2 => (Some(T::E4m3), true),
        T::E5m2x2 => (Some(T::E5m2), true),
        T::B8 => (Some(T::U8), false),
        T::B16 => (Some(T::U16), false),
        T::B32 => (Some(T::U32), false),
        T::B64 => (Some(T::U64), false),
        ty => (KINDS.contains(&ty).then_some(ty), false),
    }
}

/// Lowers `cvt.pack.sat.type.s32{.b32}`.
pub(in crate::exec) fn lower_pack(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let mut words = i.mnemonic.split('.').skip(1);
    if words.next()? != "pack" || words.next()? != "sat" {
        return None;
    }
    let (bits, signed) = match words.next()? {
        "u16" => (16, false),
        "s16" => (16, true),
        "u8" => (8, false),
        "s8" => (8, true),
        "u4" => (4, false),
        "s4" => (4, true),
        "u2" => (2, false),
        "s2" => (2, true),
        _ => return None,
    };
    let third = match i.operands.get(3) {
        Some(_) => l.src(i, 3, T::B32)?,
        None => l.constant(0, false),
    };
    let operands = [
        l.dst(i, T::B32)?,
        l.src(i, 1, T::S32)?,
        l.src(i, 2, T::S32)?,
        third,
    ];
    let aux = bits | if signed { 0x100 } else { 0 };
    Some(Draft::alu(once::<Saturate>(), Class::Int, &operands).aux(aux))
}
