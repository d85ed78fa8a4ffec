//! Video instructions (PTX ISA section 9.7.17): scalar vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vmad, vset on
//! selected bytes and half-words, and their two- and four-way SIMD forms with vavrg.
//!
//! They are rare, so one lane function of each kind reads what the instruction says from a description that the
//! lowering packs into the immediate.
//! Rules: a selected part is extended as its operand's type says; saturation goes to the range of the destination's
//! part; what is not saturated wraps.

use crate::exec::isa::{lane_fn, once};
use crate::exec::lanes::{commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use gridmux_ptx::decode::{Instruction, Operand, ScalarType as T};

const ADD: u32 = 0;
const SUB: u32 = 1;
const ABSDIFF: u32 = 2;
const MIN: u32 = 3;
const MAX: u32 = 4;
const SHL: u32 = 5;
const SHR: u32 = 6;
const SET: u32 = 7;
const AVRG: u32 = 8;
const MAD: u32 = 9;

const OPERATIONS: [(&str, u32); 10] = [
    ("vadd", ADD),
    ("vsub", SUB),
    ("vabsdiff", ABSDIFF),
    ("vmin", MIN),
    ("vmax", MAX),
    ("vshl", SHL),
    ("vshr", SHR),
    ("vset", SET),
    ("vavrg", AVRG),
    ("vmad", MAD),
];

/// A part of a word: how many bits, and which one in units of its size; 32 bits for the whole.
#[derive(Debug, Clone, Copy)]
struct Part {
    bits: u32,
    index: u32,
}

const WHOLE: Part = Part { bits: 32, index: 0 };

/// `aux`: the operation in bits 0 to 3, then flags.
const OPERATION: u32 = 15;
const SAT: u32 = 1 << 4;
const SIGNED_D: u32 = 1 << 5;
const SIGNED_A: u32 = 1 << 6;
const SIGNED_B: u32 = 1 << 7;
/// Shifts wrap instead of being clamped; `vmad` adds one (`.po`).
const WRAP: u32 = 1 << 8;
const PLUS_ONE: u32 = 1 << 8;
/// The result is merged into the third source, or combined with it.
const MERGE: u32 = 1 << 9;
/// Secondary operation: 1 add, 2 min, 3 max.
const SECOND_SHIFT: u32 = 10;
/// Comparison of `vset`.
const COMPARE_SHIFT: u32 = 12;
/// `vmad`: bits that the result is shifted right.
const SCALE_SHIFT: u32 = 16;
/// `vmad`: the product or c is negated.
const NEGATE_PRODUCT: u32 = 1 << 20;
const NEGATE_C: u32 = 1 << 21;
/// SIMD: lanes of eight bits instead of sixteen.
const BYTES: u32 = 1 << 24;

const COMPARISONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

fn extended(word: u32, bits: u32, index: u32, signed: bool) -> i64 {
    let field = u64::from(word) >> (bits * index) & ((1 << bits) - 1);
    let spare = 64 - bits;
    if signed {
        (field << spare).cast_signed() >> spare
    } else {
        field.cast_signed()
    }
}

fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

fn primary(aux: u32, a: i64, b: i64) -> i128 {
    let (a, b) = (i128::from(a), i128::from(b));
    match aux & OPERATION {
        ADD => a + b,
        SUB => a - b,
        ABSDIFF => (a - b).abs(),
        MIN => a.min(b),
        MAX => a.max(b),
        SHL | SHR => {
            let by = if aux & WRAP != 0 {
                b & 31
            } else {
                b.clamp(0, 32)
            };
            if aux & OPERATION == SHL {
                a << by
            } else {
                a >> by
            }
        }
        SET => i128::from(match aux >> COMPARE_SHIFT & 7 {
            0 => a == b,
            1 => a != b,
            2 => a < b,
            3 => a <= b,
            4 => a > b,
            _ => a >= b,
        }),
        _ => (a + b + i128::from(a + b >= 0)) >> 1,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "results wrap to a word")]
fn word(v: i128) -> u32 {
    v as u32
}

/// Returns one lane of a scalar instruction.
fn scalar(aux: u32, parts: [Part; 3], [a, b, c]: [u32; 3]) -> u32 {
    let [part_d, part_a, part_b] = parts;
    let ta = extended(a, part_a.bits, part_a.index, aux & SIGNED_A != 0);
    let tb = extended(b, part_b.bits, part_b.index, aux & SIGNED_B != 0);
    let signed = aux & SIGNED_D != 0;
    let exact = primary(aux, ta, tb);
    let (low, high) = range(part_d.bits, signed);
    let t = if aux & SAT != 0 {
        exact.clamp(low, high)
    } else {
        exact
    };
    if aux & MERGE != 0 {
        let mask = if part_d.bits == 32 {
            u32::MAX
        } else {
            (1 << part_d.bits) - 1
        };
        let shift = part_d.bits * part_d.index;
        return (c & !(mask << shift)) | (word(t) & mask) << shift;
    }
    let t = word(t);
    let as_number = |v: u32| extended(v, 32, 0, signed);
    match aux >> SECOND_SHIFT & 3 {
        1 => t.wrapping_add(c),
        2 => word(as_number(t).min(as_number(c)).into()),
        3 => word(as_number(t).max(as_number(c)).into()),
        _ => t,
    }
}

lane_fn!(
    /// `r`: destination, a, b, c or a repeated; `imm`: bits and index of the parts of d, a and b, a byte each.
    Scalar, |cx, op| {
    let [a, b, c] = [1, 2, 3].map(|n| read::<u32>(cx, op.r[n]));
    let parts = [0, 16, 32].map(|shift| unpacked(op.imm >> shift));
    let out: [u32; 32] = std::array::from_fn(|n| scalar(op.aux, parts, [a[n], b[n], c[n]]));
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// `vmad`, in 128 bits as the ISA has it.
    MultiplyAdd, |cx, op| {
    let [a, b, c] = [1, 2, 3].map(|n| read::<u32>(cx, op.r[n]));
    let [_, part_a, part_b] = [0, 16, 32].map(|shift| unpacked(op.imm >> shift));
    let aux = op.aux;
    let signed = aux & (SIGNED_A | SIGNED_B | NEGATE_PRODUCT | NEGATE_C) != 0;
    let out: [u32; 32] = std::array::from_fn(|n| {
        let ta = extended(a[n], part_a.bits, part_a.index, aux & SIGNED_A != 0);
        let tb = extended(b[n], part_b.bits, part_b.index, aux & SIGNED_B != 0);
        let c = i128::from(extended(c[n], 32, 0, signed));
        let product = i128::from(ta) * i128::from(tb);
        let product = if aux & NEGATE_PRODUCT != 0 { -product } else { product };
        // An inverted c is extended after the inversion, and one is added.
        let c = if aux & NEGATE_C != 0 { -c } else { c };
        let sum = product + c + i128::from(aux & PLUS_ONE != 0);
        let scaled = sum >> (aux >> SCALE_SHIFT & 15);
        let (low, high) = range(32, signed);
        let bounded = scaled.clamp(low, high);
        let result = if aux & SAT != 0 { bounded } else { scaled };
        #[allow(clippy::cast_possible_truncation,  reason = "the low word")]
        let word = result as u32;
        word
    });
    commit(cx, op.r[0], &out);
});
lane_fn!(
    /// `r`: destination, a, b, c; `imm`: four bits a part for a's selectors, then b's, then a bit a part written.
    Simd, |cx, op| {
    let [a, b, c] = [1, 2, 3].map(|n| read::<u32>(cx, op.r[n]));
    let (aux, imm) = (op.aux, op.imm.cast_unsigned());
    let bits = if aux & BYTES != 0 { 8 } else { 16 };
    let out: [u32; 32] = std::array::from_fn(|n| simd(aux, imm, bits, [a[n], b[n], c[n]]));
    commit(cx, op.r[0], &out);
});

/// Returns one lane of a SIMD instruction.
fn simd(aux: u32, imm: u64, bits: u32, [a, b, c]: [u32; 3]) -> u32 {
    let count = 32 / bits;
    let pick = |selector: u64, signed: bool| {
        let selector = u32::try_from(selector & 15).unwrap_or(0);
        let source = if selector < count { a } else { b };
        extended(source, bits, selector % count, signed)
    };
    let (low, high) = range(bits, aux & SIGNED_D != 0);
    let mask = (1 << bits) - 1;
    let accumulates = aux >> SECOND_SHIFT & 3 == 1;
    let mut out = if accumulates { c } else { 0 };
    for part in 0..count {
        let va = pick(imm >> (4 * part), aux & SIGNED_A != 0);
        let vb = pick(imm >> (16 + 4 * part), aux & SIGNED_B != 0);
        let exact = primary(aux, va, vb);
        let t = if aux & SAT != 0 {
            exact.clamp(low, high)
        } else {
            exact
        };
        let chosen = imm >> (32 + part) & 1 != 0;
        let shift = bits * part;
        if accumulates {
            out = out.wrapping_add(if chosen { word(t) } else { 0 });
        } else {
            let merged = if chosen { word(t) } else { c >> shift };
            out |= (merged & mask) << shift;
        }
    }
    out
}

fn unpacked(packed: i64) -> Part {
    let byte = |shift: u32| u32::try_from(packed >> shift & 0xff).unwrap_or(0);
    Part {
        bits: byte(0).clamp(8, 32),
        index: byte(8) & 3,
    }
}

/// Lowers an instruction that `base` names, if it is a video instruction.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let base = i.mnemonic.split('.').next()?;
    let (name, ways) = match base.as_bytes().last()? {
        b'2' => (base.strip_suffix('2')?, 2),
        b'4' => (base.strip_suffix('4')?, 4),
        _ => (base, 1),
    };
    let (_, code) = OPERATIONS.iter().find(|(known, _)| *known == name)?;
    let mut aux = *code | modifiers(i, *code)?;
    if ways == 1 {
        return lower_scalar(l, i, aux);
    }
    if !matches!(*code, ADD | SUB | ABSDIFF | MIN | MAX | SET | AVRG) || i.operands.len() != 4 {
        return None;
    }
    if ways == 4 {
        aux |= BYTES;
    }
    let letter = if ways == 2 { 'h' } else { 'b' };
    let default = |first: u64| (0..ways).map(|k| (first + k) << (4 * k)).sum::<u64>();
    let chosen = |operand: &Operand, default: u64| match operand {
        Operand::Selected(_, text) => digits(text, letter, ways),
        _ => Some(default),
    };
    let a = chosen(&i.operands[1], default(0))?;
    let b = chosen(&i.operands[2], default(ways))?;
    let written = match &i.operands[0] {
        Operand::Selected(_, text) => mask(text, letter, ways)?,
        _ => (1 << ways) - 1,
    };
    let operands = sources(l, i)?;
    let imm = i64::try_from(a | b << 16 | written << 32).ok()?;
    Some(
        Draft::alu(once::<Simd>(), Class::Int, &operands)
            .aux(aux)
            .imm(imm),
    )
}

/// Flags from the words behind the name: types, `.sat`, comparison, mode and secondary operation.
fn modifiers(i: &Instruction, code: u32) -> Option<u32> {
    let signed = |ty: &T| match ty {
        T::S32 => Some(true),
        T::U32 => Some(false),
        _ => None,
    };
    let types: Vec<bool> = i.mods.types.iter().map(signed).collect::<Option<_>>()?;
    let (d, a, b) = match (code, types.as_slice()) {
        (SET, [a, b]) => (false, *a, *b),
        (SET, [d, a, b]) => (*d, *a, *b),
        (SET, _) => return None,
        (_, [d, a, b]) => (*d, *a, *b),
        _ => return None,
    };
    let mut aux = [(d, SIGNED_D), (a, SIGNED_A), (b, SIGNED_B)]
        .into_iter()
        .fold(0, |sum, (set, flag)| if set { sum | flag } else { sum });
    for word in i.mnemonic.split('.').skip(1) {
        aux |= match word {
            "u32" | "s32" => 0,
            "sat" => SAT,
            "add" => 1 << SECOND_SHIFT,
            "min" => 2 << SECOND_SHIFT,
            "max" => 3 << SECOND_SHIFT,
            "wrap" if matches!(code, SHL | SHR) => WRAP,
            "clamp" if matches!(code, SHL | SHR) => 0,
            "po" if code == MAD => PLUS_ONE,
            "shr7" if code == MAD => 7 << SCALE_SHIFT,
            "shr15" if code == MAD => 15 << SCALE_SHIFT,
            other if code == SET => {
                let at = COMPARISONS.iter().position(|c| *c == other)?;
                u32::try_from(at).ok()? << COMPARE_SHIFT
            }
            _ => return None,
        };
    }
    Some(aux)
}

fn lower_scalar(l: &mut Lower<'_>, i: &Instruction, mut aux: u32) -> Option<Draft> {
    let part = |operand: &Operand| match operand {
        Operand::Selected(_, text) => {
            let text = text.trim_start_matches('-');
            let bits = if text.starts_with('h') { 16 } else { 8 };
            let index = text[1..].parse::<u32>().ok()?;
            (index < 32 / bits).then_some(Part { bits, index })
        }
        _ => Some(WHOLE),
    };
    let [d, a, b] = [
        part(i.operands.first()?)?,
        part(i.operands.get(1)?)?,
        part(i.operands.get(2)?)?,
    ];
    let merges = d.bits < 32;
    let combines = aux >> SECOND_SHIFT & 3 != 0;
    let multiplies = aux & OPERATION == MAD;
    let third = merges || combines || multiplies;
    if i.operands.len() != 3 + usize::from(third) || (merges && (combines || multiplies)) {
        return None;
    }
    if merges {
        aux |= MERGE;
    }
    let negated = |n: usize| match &i.operands[n] {
        Operand::NegReg(_) => true,
        Operand::Selected(_, text) => text.starts_with('-'),
        _ => false,
    };
    let (product, addend) = (negated(1) != negated(2), multiplies && negated(3));
    if (product || addend) && (!multiplies || aux & PLUS_ONE != 0) {
        return None;
    }
    aux |= if product { NEGATE_PRODUCT } else { 0 } | if addend { NEGATE_C } else { 0 };
    let operands = sources(l, i)?;
    let packed = |p: Part| i64::from(p.bits) | i64::from(p.index) << 8;
    let imm = packed(d) | packed(a) << 16 | packed(b) << 32;
    let exec = if multiplies {
        once::<MultiplyAdd>()
    } else {
        once::<Scalar>()
    };
    let class = if multiplies {
        Class::IntMul
    } else {
        Class::Int
    };
    Some(Draft::alu(exec, class, &operands).aux(aux).imm(imm))
}

/// Returns the destination, a, b and c; an absent c repeats a.
fn sources(l: &mut Lower<'_>, i: &Instruction) -> Option<[u16; 4]> {
    let mut out = [0; 4];
    for (n, place) in out.iter_mut().enumerate() {
        let operand = i.operands.get(n).or_else(|| i.operands.get(1))?;
        *place = match operand {
            Operand::Selected(reg, _) | Operand::NegReg(reg) => {
                l.reg(&Operand::Reg(*reg), false)?
            }
            operand @ Operand::Reg(_) => l.reg(operand, false)?,
            literal if n > 0 => l.value(literal, T::B32)?,
            _ => return None,
        };
    }
    Some(out)
}

/// Returns `b7654` as four bits a part, the lowest part last in the text.
fn digits(text: &str, letter: char, ways: u64) -> Option<u64> {
    let digits = text.strip_prefix(letter)?;
    if digits.len() as u64 != ways {
        return None;
    }
    digits.bytes().try_fold(0, |sum, digit| {
        let value = u64::from(digit.checked_sub(b'0')?);
        (value < 2 * ways).then_some(sum << 4 | value)
    })
}

/// Returns `b210` as a bit a part.
fn mask(text: &str, letter: char, ways: u64) -> Option<u64> {
    text.strip_prefix(letter)?
        .bytes()
        .try_fold(0, |sum, digit| {
            let value = u64::from(digit.checked_sub(b'0')?);
            (value < ways).then_some(sum | 1 << value)
        })
}
