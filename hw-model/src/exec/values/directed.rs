//! Float arithmetic that the plain loops do not do (PTX ISA section 9.7.3): directed rounding (`.rz .rm .rp`) of
//! add, sub, mul, fma, mad, div, rcp, sqrt on f32 and f64, pairs of f32, and f32 with half-precision operands.
//!
//! Rule: single precision goes through doubles rounded to odd, double precision through integers.

use super::exact;
use super::float::{class, flush, slow};
use super::half::{CODE_SHIFT, FTZ, SAT, clamped, flags};
use super::round::{self, Single};
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn, once};
use crate::exec::lanes::{commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::Op;
use gridmux_ptx::decode::{Instruction, Opcode, Rounding, ScalarType as T};

const ADD: u32 = 0;
const SUB: u32 = 1;
const MUL: u32 = 2;
const FMA: u32 = 3;
const DIV: u32 = 4;
const RCP: u32 = 5;
const SQRT: u32 = 6;

/// Kinds of the first two operands above the operation's number: f32, f16, bf16.
const KIND_A: u32 = 24;
const KIND_B: u32 = 26;
const KIND_HALF: u32 = 1;
const KIND_BRAIN: u32 = 2;

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a half-precision operand")]
fn operand(raw: u32, kind: u32, aux: u32) -> f64 {
    let v = match kind & 3 {
        KIND_HALF => round::half_to_single(raw as u16),
        KIND_BRAIN => round::brain_to_single(raw as u16),
        _ => f32::from_bits(raw),
    };
    let v = if aux & FTZ != 0 && kind & 3 == 0 {
        flush(v)
    } else {
        v
    };
    v.into()
}

#[inline(always)]
fn result(exact: f64, aux: u32) -> u32 {
    let rounded = round::to_single(round::round::<Single>(exact, aux & 0xff));
    let v = if aux & FTZ != 0 {
        flush(rounded)
    } else {
        rounded
    };
    clamped(v, aux & SAT).to_bits()
}

#[inline(always)]
fn singles(op: &Op, [a, b, c]: [&[u32; 32]; 3], f: impl Fn(f64, f64, f64) -> f64) -> [u32; 32] {
    let aux = op.aux;
    std::array::from_fn(|n| {
        let a = operand(a[n], aux >> KIND_A, aux);
        let b = operand(b[n], aux >> KIND_B, aux);
        result(f(a, b, operand(c[n], 0, aux)), aux)
    })
}

#[inline(always)]
fn computed(op: &Op, sources: [&[u32; 32]; 3]) -> [u32; 32] {
    let mode = op.aux & 0xff;
    match op.aux >> CODE_SHIFT & 0xff {
        ADD => singles(op, sources, |a, b, _| round::add(a, b, mode)),
        SUB => singles(op, sources, |a, b, _| round::add(a, -b, mode)),
        MUL => singles(op, sources, |a, b, _| a * b),
        FMA => singles(op, sources, |a, b, c| round::add(a * b, c, mode)),
        DIV => singles(op, sources, |a, b, _| round::divide(a, b)),
        RCP => singles(op, sources, |a, _, _| round::divide(1.0, a)),
        _ => singles(op, sources, |a, _, _| round::root(a)),
    }
}

lane_fn!(
    /// `r`: destination, a, b, c, absent ones repeating the first.
    Singles, |cx, op| {
    let sources = [1, 2, 3].map(|n| read::<u32>(cx, op.r[n]));
    let out = computed(op, [&sources[0], &sources[1], &sources[2]]);
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// The same on both halves of 64-bit words.
    Pairs, |cx, op| {
    let mut out = [0_u64; 32];
    for shift in [0, 32] {
        let sources = [1, 2, 3].map(|n| halves(cx, op.r[n], shift));
        let half = computed(op, [&sources[0], &sources[1], &sources[2]]);
        for (word, half) in out.iter_mut().zip(half) {
            *word |= u64::from(half) << shift;
        }
    }
    commit(cx, op.r[0], &out);
});
lane_fn!(Doubles, |cx, op| {
    let [a, b, c] = [1, 2, 3].map(|n| read::<f64>(cx, op.r[n]));
    let mode = op.aux & 0xff;
    let one = |n: usize| match op.aux >> CODE_SHIFT & 0xff {
        ADD => exact::add(a[n], b[n], mode),
        SUB => exact::add(a[n], -b[n], mode),
        MUL => exact::multiply(a[n], b[n], mode),
        FMA => exact::fused(a[n], b[n], c[n], mode),
        DIV => exact::divide(a[n], b[n], mode),
        RCP => exact::divide(1.0, a[n], mode),
        _ => exact::root(a[n], mode),
    };
    let out: [u64; 32] = std::array::from_fn(|n| one(n).to_bits());
    commit(cx, op.r[0], &out);
});

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "one half of the word")]
fn halves(cx: &Cx<'_>, operand: u16, shift: u32) -> [u32; 32] {
    let words = read::<u64>(cx, operand);
    std::array::from_fn(|n| (words[n] >> shift) as u32)
}

/// Lowers what `float` hands over.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let m = &i.mods;
    let ty = *m.types.first()?;
    let mode = match m.rounding {
        None | Some(Rounding::Rn) => round::NEAREST,
        Some(Rounding::Rz) => round::TO_ZERO,
        Some(Rounding::Rm) => round::DOWN,
        Some(Rounding::Rp) => round::UP,
        _ => return None,
    };
    let (code, sources) = match i.opcode {
        Opcode::Add => (ADD, 2),
        Opcode::Sub => (SUB, 2),
        Opcode::Mul => (MUL, 2),
        Opcode::Fma | Opcode::Mad => (FMA, 3),
        Opcode::Div => (DIV, 2),
        Opcode::Rcp => (RCP, 1),
        Opcode::Sqrt => (SQRT, 1),
        _ => return None,
    };
    if m.relu || m.nan || m.xorsign_abs || m.approx || m.full || !m.rest.is_empty() {
        return None;
    }
    let (exec, class) = match (ty, code) {
        (T::F32, _) => (
            handler::<Singles>(),
            if code < DIV { class(ty) } else { slow(i, ty) },
        ),
        (T::F32x2, ADD..DIV) if !m.sat => (handler::<Pairs>(), Class::Fp32),
        (T::F64, _) if !m.sat && !m.ftz => (
            once::<Doubles>(),
            if code < DIV { class(ty) } else { slow(i, ty) },
        ),
        _ => return None,
    };
    // `add.f32.f16 d, a, c` and `fma.f32.f16 d, a, b, c`: the last operand is f32.
    let (narrow, kind) = match (ty, m.types.as_slice()) {
        (_, [_]) => (ty, 0),
        (T::F32, [_, T::F16]) => (T::F16, KIND_HALF),
        (T::F32, [_, T::Bf16]) => (T::Bf16, KIND_BRAIN),
        _ => return None,
    };
    let kinds = match code {
        _ if kind == 0 => 0,
        ADD | SUB => kind << KIND_A,
        FMA => kind << KIND_A | kind << KIND_B,
        _ => return None,
    };
    if i.operands.len() != sources + 1 {
        return None;
    }
    let mut operands = [l.dst(i, ty)?; 4];
    for (n, place) in operands.iter_mut().enumerate().skip(1) {
        let source = if n <= sources { n } else { 1 };
        let is_narrow = kind != 0 && source < sources;
        *place = l.src(i, source, if is_narrow { narrow } else { ty })?;
    }
    Some(Draft::alu(exec, class, &operands).aux(mode | flags(i) | code << CODE_SHIFT | kinds))
}
