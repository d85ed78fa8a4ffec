//! Types in memory and the register words that they extend to (PTX ISA section 6.4.2).
//!
//! Rule: a load extends as the type's signedness says, a store keeps the low bytes.

use super::exchange::HostWord;
use crate::exec::lanes::LaneValue;

/// Register words.
pub(in crate::exec) trait Word: LaneValue<Raw = Self> + Default + HostWord {
    /// Returns the low bytes of `bits`.
    fn from_bits(bits: u64) -> Self;
    /// Returns the word, zero-extended.
    fn to_bits(self) -> u64;
}

impl Word for u32 {
    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a narrow register keeps the low half"
    )]
    fn from_bits(bits: u64) -> Self {
        bits as u32
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
}

impl Word for u64 {
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        bits
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        self
    }
}

/// Types in memory, with sign or zero extension to a register word (PTX ISA section 6.4.2).
pub(in crate::exec) trait Stored: Copy {
    fn extend<R: Word>(self) -> R;
    fn cut<R: Word>(word: R) -> Self;
}

macro_rules! stored {
    ($($ty:ty: $wide:ty),*) => {
        $(impl Stored for $ty {
            #[inline(always)]
            #[allow(
                clippy::unnecessary_cast,
                reason = "extends as its signedness says"
            )]
            fn extend<R: Word>(self) -> R {
                R::from_bits(self as $wide as u64)
            }
            #[inline(always)]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::unnecessary_cast,
                reason = "a store keeps the low bytes"
            )]
            fn cut<R: Word>(word: R) -> Self {
                word.to_bits() as $ty
            }
        })*
    };
}
stored!(u8: u64, i8: i64, u16: u64, i16: i64, u32: u64, i32: i64, u64: u64);
