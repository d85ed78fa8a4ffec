//! Logic, shifts and bit fields (PTX ISA sections 9.7.1 and 9.7.8): and, or, xor, not, cnot, shl, shr, shf, lop3,
//! popc, clz, brev, bfind, bfe, bfi, bmsk, szext, fns, prmt, and logic on predicates.
//!
//! Rule: shift amounts above the width give what the ISA says (zero or the sign), never host behaviour.

use super::integer::{binary, by_int, ternary, unary};
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{LaneValue, commit, map1, map2, map3, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::{ExecFn, NONE, Op};
use gridmux_ptx::decode::{Instruction, Mode, Opcode, Operand, ScalarType as T};
use num_traits::PrimInt;

/// Words as PTX handles their bits.
pub(in crate::exec) trait BitWord: LaneValue + PrimInt {
    fn left(self, by: u32) -> Self;
    fn right(self, by: u32) -> Self;
    fn find(self) -> u32;
    fn extract(self, position: u32, length: u32) -> Self;
    fn insert(self, into: Self, position: u32, length: u32) -> Self;
}

macro_rules! word {
    ($ty:ty, $unsigned:ty, $bits:expr, |$v:ident, $by:ident| $right:expr, |$f:ident| $find:expr) => {
        impl BitWord for $ty {
            #[inline(always)]
            fn left(self, by: u32) -> Self {
                if by < $bits {
                    self << (by & ($bits - 1))
                } else {
                    0
                }
            }
            #[inline(always)]
            fn right(self, by: u32) -> Self {
                let ($v, $by) = (self, by);
                $right
            }
            #[inline(always)]
            fn find(self) -> u32 {
                let $f = self;
                $find.checked_ilog2().unwrap_or(u32::MAX)
            }
            #[inline(always)]
            fn extract(self, position: u32, length: u32) -> Self {
                let (position, length) = (position & 0xff, length & 0xff);
                if length == 0 {
                    return 0;
                }
                // Bits above the word are copies of the sign; shifting up and back does the extension.
                let top = (position + length).min($bits);
                let field = self.right(position);
                let kept = top.saturating_sub(position);
                let spare = $bits - kept;
                if kept == 0 {
                    field.right($bits - 1)
                } else {
                    (field << spare).right(spare)
                }
            }
            #[inline(always)]
            fn insert(self, into: Self, position: u32, length: u32) -> Self {
                let (position, length) = (position & 0xff, length & 0xff);
                let low = if length < $bits {
                    !((!0 as $unsigned) << (length & ($bits - 1)))
                } else {
                    !0
                };
                let field = if position < $bits {
                    low << (position & ($bits - 1))
                } else {
                    0
                };
                let field = field as $ty;
                (self.left(position) & field) | (into & !field)
            }
        }
    };
}

word!(
    u16,
    u16,
    16,
    |v, by| if by < 16 { v >> (by & 15) } else { 0 },
    |v| v
);
word!(i16, u16, 16, |v, by| v >> by.min(15), |v| (v ^ (v >> 15))
    .cast_unsigned());
word!(
    u32,
    u32,
    32,
    |v, by| if by < 32 { v >> (by & 31) } else { 0 },
    |v| v
);
word!(i32, u32, 32, |v, by| v >> by.min(31), |v| (v ^ (v >> 31))
    .cast_unsigned());
word!(
    u64,
    u64,
    64,
    |v, by| if by < 64 { v >> (by & 63) } else { 0 },
    |v| v
);
word!(i64, u64, 64, |v, by| v >> by.min(63), |v| (v ^ (v >> 63))
    .cast_unsigned());

lane_fn!(And<W: BitWord>, |cx, op| map2::<W, W, W>(cx, op, |a, b| a & b));
lane_fn!(Or<W: BitWord>, |cx, op| map2::<W, W, W>(cx, op, |a, b| a | b));
lane_fn!(Xor<W: BitWord>, |cx, op| map2::<W, W, W>(cx, op, |a, b| a ^ b));
lane_fn!(Not<W: BitWord>, |cx, op| map1::<W, W>(cx, op, |a| !a));
lane_fn!(Cnot<W: BitWord>, |cx, op| map1::<W, W>(cx, op, |a| if a.is_zero() { W::one() } else { W::zero() }));
lane_fn!(Shl<W: BitWord>, |cx, op| map2::<W, u32, W>(cx, op, W::left));
lane_fn!(Shr<W: BitWord>, |cx, op| map2::<W, u32, W>(cx, op, W::right));
lane_fn!(Popc<W: BitWord>, |cx, op| map1::<W, u32>(cx, op, W::count_ones));
lane_fn!(Clz<W: BitWord>, |cx, op| map1::<W, u32>(cx, op, W::leading_zeros));
lane_fn!(Brev<W: BitWord>, |cx, op| map1::<W, W>(cx, op, W::reverse_bits));
lane_fn!(Bfind<W: BitWord>, |cx, op| map1::<W, u32>(cx, op, W::find));
lane_fn!(Bfe<W: BitWord>, |cx, op| map3::<W, u32, u32, W>(cx, op, W::extract));
lane_fn!(Bfi<W: BitWord>, |cx, op| {
    let (a, b) = (read::<W>(cx, op.r[1]), read::<W>(cx, op.r[2]));
    let (c, d) = (read::<u32>(cx, op.r[3]), read::<u32>(cx, op.r[4]));
    let out: [W::Raw; 32] = std::array::from_fn(|n| a[n].insert(b[n], c[n], d[n]).put());
    commit(cx, op.r[0], &out);
});
lane_fn!(ShfLeft[WRAP: bool], |cx, op| map3::<u32, u32, u32, u32>(cx, op, |a, b, c| {
    let by = if WRAP { c & 31 } else { c.min(32) };
    low_word((join(a, b) << by) >> 32)
}));
lane_fn!(ShfRight[WRAP: bool], |cx, op| map3::<u32, u32, u32, u32>(cx, op, |a, b, c| {
    let by = if WRAP { c & 31 } else { c.min(32) };
    low_word(join(a, b) >> by)
}));
lane_fn!(Lop3, |cx, op| {
    let table = op.aux;
    map3::<u32, u32, u32, u32>(cx, op, |a, b, c| {
        let mut out = 0;
        for row in 0..8 {
            let pick = (if table >> row & 1 != 0 { u32::MAX } else { 0 })
                & (if row & 4 != 0 { a } else { !a })
                & (if row & 2 != 0 { b } else { !b })
                & (if row & 1 != 0 { c } else { !c });
            out |= pick;
        }
        out
    });
});
lane_fn!(Bmsk[WRAP: bool], |cx, op| map2::<u32, u32, u32>(cx, op, |a, b| {
    let (a, b) = if WRAP { (a & 31, b & 31) } else { (a.min(32), b.min(32)) };
    let ones = if b < 32 { !(u32::MAX << b) } else { u32::MAX };
    if a < 32 { ones << a } else { 0 }
}));
lane_fn!(Prmt, |cx, op| map3::<u32, u32, u32, u32>(
    cx,
    op,
    |a, b, c| {
        let bytes = join(a, b);
        let mut out = 0;
        for n in 0..4 {
            let selector = c >> (4 * n);
            let byte = low_word(bytes >> (8 * (selector & 7))) & 0xff;
            let sign = if byte & 0x80 != 0 { 0xff } else { 0 };
            out |= (if selector & 8 != 0 { sign } else { byte }) << (8 * n);
        }
        out
    }
));

lane_fn!(
    /// As a shift that would bring the found bit to the top; `aux` is the highest bit's number.
    BfindShift<W: BitWord>, |cx, op| {
    let top = op.aux;
    map1::<W, u32>(cx, op, |a| {
        let at = a.find();
        if at == u32::MAX { at } else { top - at }
    });
});
lane_fn!(
    /// `aux`: bit 0 signed, bit 1 clamps.
    Szext, |cx, op| {
    let (signed, clamps) = (op.aux & 1 != 0, op.aux & 2 != 0);
    map2::<u32, u32, u32>(cx, op, |a, b| {
        let width = b & 31;
        let whole = clamps && b >= 32;
        let shift = if whole || width == 0 { 0 } else { 32 - width };
        let up = a << shift;
        let extended = if signed { (up.cast_signed() >> shift).cast_unsigned() } else { up >> shift };
        if width == 0 && !whole { 0 } else { extended }
    });
});
lane_fn!(Fns, |cx, op| map3::<u32, u32, i32, u32>(cx, op, find_nth));
lane_fn!(
    /// The modes of `prmt`; `imm` holds sixteen bits of selectors for each value of the two low bits of c.
    PrmtMode, |cx, op| {
    let table = op.imm.cast_unsigned();
    map3::<u32, u32, u32, u32>(cx, op, |a, b, c| {
        let selectors = low_word(table >> (16 * (c & 3)));
        let bytes = join(a, b);
        (0..4).fold(0, |out, n| {
            let selector = selectors >> (4 * n) & 7;
            out | (low_word(bytes >> (8 * selector)) & 0xff) << (8 * n)
        })
    });
});

/// Returns the n-th set bit from a base (the ISA's pseudo-code for `fns`).
fn find_nth(mask: u32, base: u32, offset: i32) -> u32 {
    let bit = |at: i32| (0..32).contains(&at) && mask >> at & 1 != 0;
    let base = i32::try_from(base & 31).unwrap_or(0);
    if offset == 0 {
        return if bit(base) {
            base.cast_unsigned()
        } else {
            u32::MAX
        };
    }
    let step = offset.signum();
    let (mut at, mut left) = (base, offset.unsigned_abs());
    while (0..32).contains(&at) {
        left -= u32::from(bit(at));
        if left == 0 {
            return at.cast_unsigned();
        }
        at += step;
    }
    u32::MAX
}

#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the low word is wanted")]
fn low_word(v: u64) -> u32 {
    v as u32
}

const PREDICATE_AND: u32 = 0;
const PREDICATE_OR: u32 = 1;
const PREDICATE_XOR: u32 = 2;
const PREDICATE_NOT: u32 = 3;
const PREDICATE_MOV: u32 = 4;

lane_fn!(Predicates, |cx, op| {
    let bits = predicate_bits(cx, op);
    cx.set_predicate(op.r[0], bits);
});

#[inline(always)]
fn predicate_bits(cx: &Cx<'_>, op: &Op) -> u32 {
    let operand = |n: usize| {
        let literal = if op.imm >> n & 1 != 0 { u32::MAX } else { 0 };
        if op.r[n] == NONE {
            literal
        } else {
            cx.predicate(op.r[n]) ^ literal
        }
    };
    match op.aux {
        PREDICATE_AND => operand(1) & operand(2),
        PREDICATE_OR => operand(1) | operand(2),
        PREDICATE_XOR => operand(1) ^ operand(2),
        PREDICATE_NOT => !operand(1),
        _ => operand(1),
    }
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    if ty == T::Pred {
        return predicates(l, i);
    }
    match i.opcode {
        Opcode::And => binary(l, i, by_int!(ty, And), Class::Int),
        Opcode::Or => binary(l, i, by_int!(ty, Or), Class::Int),
        Opcode::Xor => binary(l, i, by_int!(ty, Xor), Class::Int),
        Opcode::Not => unary(l, i, by_int!(ty, Not), Class::Int),
        Opcode::Cnot => unary(l, i, by_int!(ty, Cnot), Class::Int),
        Opcode::Brev => unary(l, i, by_int!(ty, Brev), Class::BitFind),
        Opcode::Shl => shift(l, i, by_int!(ty, Shl), ty),
        Opcode::Shr => shift(l, i, by_int!(ty, Shr), ty),
        Opcode::Popc => count(l, i, by_int!(ty, Popc), Class::Popc),
        Opcode::Clz => count(l, i, by_int!(ty, Clz), Class::BitFind),
        Opcode::Bfind if i.mods.rest.is_empty() => count(l, i, by_int!(ty, Bfind), Class::BitFind),
        Opcode::Bfind if i.mods.rest.as_slice() == ["shiftamt"] => {
            let draft = count(l, i, by_int!(ty, BfindShift), Class::BitFind)?;
            Some(draft.aux(ty.size_bytes() * 8 - 1))
        }
        Opcode::Szext | Opcode::Fns => extend_or_find(l, i, ty),
        Opcode::Bfe => {
            let operands = l.operands(i, [ty, ty, T::U32, T::U32])?;
            Some(Draft::alu(by_int!(ty, Bfe), Class::Int, &operands))
        }
        Opcode::Bfi => {
            let operands = l.operands(i, [ty, ty, ty, T::U32, T::U32])?;
            Some(Draft::alu(by_int!(ty, Bfi), Class::Int, &operands))
        }
        Opcode::Shf => funnel(l, i),
        Opcode::Lop3 if ty == T::B32 => match i.operands.get(4)? {
            Operand::Int(table) => Some(
                ternary(l, i, handler::<Lop3>(), Class::Int)?
                    .aux(u32::try_from(*table & 0xff).ok()?),
            ),
            _ => None,
        },
        Opcode::Bmsk => match i.mods.mode? {
            Mode::Wrap => binary(l, i, handler::<Bmsk<true>>(), Class::Int),
            Mode::Clamp => binary(l, i, handler::<Bmsk<false>>(), Class::Int),
            _ => None,
        },
        Opcode::Prmt => match i.mods.mode {
            None => ternary(l, i, handler::<Prmt>(), Class::Int),
            Some(mode) => {
                let table = prmt_table(mode)?.cast_signed();
                Some(ternary(l, i, handler::<PrmtMode>(), Class::Int)?.imm(table))
            }
        },
        _ => None,
    }
}

/// Lowers `szext` and `fns`.
fn extend_or_find(l: &mut Lower<'_>, i: &Instruction, ty: T) -> Option<Draft> {
    match i.opcode {
        Opcode::Szext => {
            let signed = match ty {
                T::U32 => 0,
                T::S32 => 1,
                _ => return None,
            };
            let clamps = match i.mods.mode? {
                Mode::Clamp => 2,
                Mode::Wrap => 0,
                _ => return None,
            };
            Some(binary(l, i, handler::<Szext>(), Class::Int)?.aux(signed | clamps))
        }
        Opcode::Fns if ty == T::B32 => {
            let operands = l.operands(i, [ty, ty, T::U32, T::S32])?;
            Some(Draft::alu(handler::<Fns>(), Class::Int, &operands))
        }
        _ => None,
    }
}

/// Selectors of a mode for c = 0, 1, 2, 3, sixteen bits each (PTX ISA section 9.7.9, table of `prmt`).
fn prmt_table(mode: Mode) -> Option<u64> {
    Some(match mode {
        Mode::F4e => 0x6543_5432_4321_3210,
        Mode::B4e => 0x0123_7012_6701_5670,
        Mode::Rc8 => 0x3333_2222_1111_0000,
        Mode::Ecl => 0x3333_3222_3211_3210,
        Mode::Ecr => 0x3210_2210_1110_0000,
        Mode::Rc16 => 0x3232_1010_3232_1010,
        _ => return None,
    })
}

fn shift(l: &mut Lower<'_>, i: &Instruction, exec: ExecFn, ty: T) -> Option<Draft> {
    Some(Draft::alu(
        exec,
        Class::Int,
        &l.operands(i, [ty, ty, T::U32])?,
    ))
}

fn count(l: &mut Lower<'_>, i: &Instruction, exec: ExecFn, class: Class) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    Some(Draft::alu(exec, class, &l.operands(i, [T::U32, ty])?))
}

fn funnel(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    // The decoder keeps one mode, and this opcode has two: its direction and what it does to large shifts.
    let has = |name: &str| i.mnemonic.split('.').any(|part| part == name);
    let (left, wrap) = (has("l"), has("wrap"));
    let known = (left || has("r")) && (wrap || has("clamp"));
    let exec = match (known, left, wrap) {
        (true, true, true) => handler::<ShfLeft<true>>(),
        (true, true, false) => handler::<ShfLeft<false>>(),
        (true, false, true) => handler::<ShfRight<true>>(),
        (true, false, false) => handler::<ShfRight<false>>(),
        _ => return None,
    };
    ternary(l, i, exec, Class::Int)
}

fn predicates(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let (code, sources) = match i.opcode {
        Opcode::And => (PREDICATE_AND, 2),
        Opcode::Or => (PREDICATE_OR, 2),
        Opcode::Xor => (PREDICATE_XOR, 2),
        Opcode::Not => (PREDICATE_NOT, 1),
        Opcode::Mov => (PREDICATE_MOV, 1),
        _ => return None,
    };
    let mut r = [l.predicate(i.operands.first()?)?, NONE, NONE];
    let mut flips = 0;
    for (source, place) in r.iter_mut().enumerate().skip(1).take(sources) {
        match i.operands.get(source)? {
            Operand::NotReg(reg) => {
                *place = l.predicate(&Operand::Reg(*reg))?;
                flips |= 1 << source;
            }
            Operand::Int(value) => flips |= i64::from(*value != 0) << source,
            other => *place = l.predicate(other)?,
        }
    }
    Some(
        Draft::alu(handler::<Predicates>(), Class::Int, &r)
            .imm(flips)
            .aux(code),
    )
}

/// Lowers `mov.pred`, which belongs to the logic on predicates.
pub(super) fn lower_predicate_move(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    predicates(l, i)
}
