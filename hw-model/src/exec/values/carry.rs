//! Extended-precision arithmetic (PTX ISA section 9.7.2): add.cc, addc, sub.cc, subc, mad.cc, madc.
//!
//! The carry flag of a thread is a predicate of the kernel that no register names.
//! Rules: an operation without `.cc` leaves the flag as it is. A subtraction adds the complement and one, and its flag
//! is the carry of that sum, which is set when nothing was borrowed: the 128-bit division that nvcc emits reads it with
//! `addc` behind `subc.cc`, and corrects its quotient only where it finds zero.

use crate::exec::isa::{lane_fn, once};
use crate::exec::lanes::{LaneValue, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::NONE;
use gridmux_ptx::decode::{Family, Instruction, Opcode, Part, ScalarType as T};

const ADD: u32 = 0;
const SUB: u32 = 1;
const MAD_LO: u32 = 2;
const MAD_HI: u32 = 3;
/// The flag takes part.
const USES: u32 = 1 << 8;

/// Words that carry.
trait Carries: LaneValue {
    fn to_wide(self) -> i128;
    /// Returns the word, and whether the value lies outside its unsigned range.
    fn from_wide(v: i128) -> (Self, bool);
    fn product(self, b: Self, high: bool) -> Self;
}

macro_rules! carries {
    ($($ty:ty: $unsigned:ty),*) => {
        $(impl Carries for $ty {
            fn to_wide(self) -> i128 {
                let word = self as $unsigned;
                i128::from(word)
            }
            #[allow(clippy::cast_possible_truncation,  reason = "the word is cut")]
            fn from_wide(v: i128) -> (Self, bool) {
                (v as Self, v < 0 || v > i128::from(<$unsigned>::MAX))
            }
            #[allow(clippy::cast_possible_truncation, reason = "one half of the product")]
            fn product(self, b: Self, high: bool) -> Self {
                if high {
                    ((i128::from(self).wrapping_mul(i128::from(b))) >> <$ty>::BITS) as Self
                } else {
                    self.wrapping_mul(b)
                }
            }
        })*
    };
}
carries!(u32: u32, i32: u32, u64: u64, i64: u64);

lane_fn!(
    /// `r`: destination, a, b, c or a repeated, the flag read, the flag written or none.
    Carry<W: Carries>, |cx, op| {
    let [a, b, c] = [1, 2, 3].map(|n| read::<W>(cx, op.r[n]));
    let flags = if op.aux & USES != 0 { cx.predicate(op.r[4]) } else { 0 };
    let mut carried = 0;
    let ones = W::from_wide(-1).0.to_wide();
    let out: [W::Raw; 32] = std::array::from_fn(|n| {
        let flag = i128::from(flags >> n & 1);
        let exact = match op.aux & 0xff {
            ADD => a[n].to_wide() + b[n].to_wide() + flag,
            SUB => a[n].to_wide() + (ones - b[n].to_wide()) + if op.aux & USES != 0 { flag } else { 1 },
            code => a[n].product(b[n], code == MAD_HI).to_wide() + c[n].to_wide() + flag,
        };
        let (word, carry) = W::from_wide(exact);
        carried |= u32::from(carry) << n;
        word.put()
    });
    commit(cx, op.r[0], &out);
    cx.set_predicate(op.r[5], carried);
});

/// Returns whether an instruction reads or writes the carry flag.
pub(crate) fn uses_flag(i: &Instruction) -> bool {
    i.opcode.family() == Family::Carry
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let ty = *i.mods.types.first()?;
    let flag = l.carry?;
    let (code, reads, always_writes) = match (i.opcode, i.mods.part) {
        (Opcode::AddCc, None) => (ADD, false, true),
        (Opcode::Addc, None) => (ADD, true, false),
        (Opcode::SubCc, None) => (SUB, false, true),
        (Opcode::Subc, None) => (SUB, true, false),
        (Opcode::MadCc, Some(Part::Lo)) => (MAD_LO, false, true),
        (Opcode::MadCc, Some(Part::Hi)) => (MAD_HI, false, true),
        (Opcode::Madc, Some(Part::Lo)) => (MAD_LO, true, false),
        (Opcode::Madc, Some(Part::Hi)) => (MAD_HI, true, false),
        _ => return None,
    };
    let exec = match ty {
        T::U32 => once::<Carry<u32>>(),
        T::S32 => once::<Carry<i32>>(),
        T::U64 => once::<Carry<u64>>(),
        T::S64 => once::<Carry<i64>>(),
        _ => return None,
    };
    let written = always_writes || i.mnemonic.split('.').any(|word| word == "cc");
    let third = if code >= MAD_LO { 3 } else { 1 };
    let operands = [
        l.dst(i, ty)?,
        l.src(i, 1, ty)?,
        l.src(i, 2, ty)?,
        l.src(i, third, ty)?,
        flag,
        if written { flag } else { NONE },
    ];
    let class = if code >= MAD_LO {
        Class::IntMul
    } else {
        Class::Int
    };
    let uses = if reads { USES } else { 0 };
    Some(
        Draft::alu(exec, class, &operands)
            .aux(code | uses)
            .also(flag),
    )
}
