//! Lanes of a register as values of a PTX type, and loops over them.
//!
//! Rules: 8- and 16-bit values live extended in 32-bit lanes and are cut when read, 64-bit ones in two neighbouring
//! slots as 32 words of 64 bits; each loop computes all lanes into a local array, so that the compiler vectorises it,
//! and then commits under the mask. Arithmetic of a lane must therefore be total: it also runs on inactive lanes.

use super::cx::Cx;
use super::op::Op;

/// A lane's value in a register.
pub(crate) trait LaneValue: Copy {
    /// The register word: `u32` or `u64`.
    type Raw: Copy + Default;
    /// Reads a register word.
    fn get(raw: Self::Raw) -> Self;
    /// Makes a register word.
    fn put(self) -> Self::Raw;
}

macro_rules! lane {
    ($ty:ty, $raw:ty, |$r:ident| $get:expr, |$v:ident| $put:expr) => {
        impl LaneValue for $ty {
            type Raw = $raw;
            #[inline(always)]
            #[allow(
                clippy::cast_possible_truncation,
                reason = "a register word is cut to its type"
            )]
            fn get($r: $raw) -> Self {
                $get
            }
            #[inline(always)]
            fn put(self) -> $raw {
                let $v = self;
                $put
            }
        }
    };
}

lane!(u8, u32, |r| r as u8, |v| u32::from(v));
lane!(i8, u32, |r| r as i8, |v| i32::from(v).cast_unsigned());
lane!(u16, u32, |r| r as u16, |v| u32::from(v));
lane!(i16, u32, |r| r as i16, |v| i32::from(v).cast_unsigned());
lane!(u32, u32, |r| r, |v| v);
lane!(i32, u32, |r| r.cast_signed(), |v| v.cast_unsigned());
lane!(f32, u32, |r| f32::from_bits(r), |v| v.to_bits());
lane!(u64, u64, |r| r, |v| v);
lane!(i64, u64, |r| r.cast_signed(), |v| v.cast_unsigned());
lane!(f64, u64, |r| f64::from_bits(r), |v| v.to_bits());

/// Writes computed lanes under the mask.
#[inline(always)]
pub(crate) fn commit<R: Copy>(cx: &Cx<'_>, operand: u16, out: &[R; 32]) {
    let target = cx.target::<R>(operand);
    if cx.mask == u32::MAX {
        // SAFETY: the lowering gives destinations only register slots of this warp, two for 64-bit words, so 32
        // words of `R` lie at `target`; `out` is a local array.
        unsafe { std::ptr::copy_nonoverlapping(out.as_ptr(), target, 32) };
        return;
    }
    for (lane, value) in out.iter().enumerate() {
        // SAFETY: as above, lane is below 32.
        unsafe {
            let place = target.add(lane);
            *place = if cx.mask >> lane & 1 != 0 {
                *value
            } else {
                *place
            };
        }
    }
}

/// Returns lane `lane` of a source operand.
#[inline(always)]
fn at<A: LaneValue>(lanes: *const A::Raw, lane: usize) -> A {
    // SAFETY: callers pass `Cx::lanes` of an operand that the lowering made for this word size and a lane below
    // 32, so the word lies inside the warp's registers or the kernel's constants.
    A::get(unsafe { *lanes.add(lane) })
}

/// Returns a whole source operand.
#[inline(always)]
pub(crate) fn read<A: LaneValue>(cx: &Cx<'_>, operand: u16) -> [A; 32] {
    let lanes = cx.lanes::<A::Raw>(operand);
    std::array::from_fn(|lane| at::<A>(lanes, lane))
}

/// Computes `r[0] = f(r[1])`.
#[inline(always)]
pub(crate) fn map1<A: LaneValue, D: LaneValue>(cx: &Cx<'_>, op: &Op, f: impl Fn(A) -> D) {
    let a = cx.lanes::<A::Raw>(op.r[1]);
    let mut out = [D::Raw::default(); 32];
    for (lane, place) in out.iter_mut().enumerate() {
        *place = f(at::<A>(a, lane)).put();
    }
    commit(cx, op.r[0], &out);
}

/// Computes `r[0] = f(r[1], r[2])`.
#[inline(always)]
pub(crate) fn map2<A: LaneValue, B: LaneValue, D: LaneValue>(
    cx: &Cx<'_>,
    op: &Op,
    f: impl Fn(A, B) -> D,
) {
    let (a, b) = (cx.lanes::<A::Raw>(op.r[1]), cx.lanes::<B::Raw>(op.r[2]));
    let mut out = [D::Raw::default(); 32];
    for (lane, place) in out.iter_mut().enumerate() {
        *place = f(at::<A>(a, lane), at::<B>(b, lane)).put();
    }
    commit(cx, op.r[0], &out);
}

/// Computes `r[0] = f(r[1], r[2], r[3])`.
#[inline(always)]
pub(crate) fn map3<A: LaneValue, B: LaneValue, C: LaneValue, D: LaneValue>(
    cx: &Cx<'_>,
    op: &Op,
    f: impl Fn(A, B, C) -> D,
) {
    let (a, b, c) = (
        cx.lanes::<A::Raw>(op.r[1]),
        cx.lanes::<B::Raw>(op.r[2]),
        cx.lanes::<C::Raw>(op.r[3]),
    );
    let mut out = [D::Raw::default(); 32];
    for (lane, place) in out.iter_mut().enumerate() {
        *place = f(at::<A>(a, lane), at::<B>(b, lane), at::<C>(c, lane)).put();
    }
    commit(cx, op.r[0], &out);
}

/// Bits of `f(r[first], r[first + 1])`.
#[inline(always)]
pub(crate) fn compare<A: LaneValue>(cx: &Cx<'_>, a: u16, b: u16, f: impl Fn(A, A) -> bool) -> u32 {
    let (a, b) = (cx.lanes::<A::Raw>(a), cx.lanes::<A::Raw>(b));
    let mut bits = 0;
    for lane in 0..32 {
        bits |= u32::from(f(at::<A>(a, lane), at::<A>(b, lane))) << lane;
    }
    bits
}

/// Returns the numbers of the set bits, in ascending order.
#[inline(always)]
pub(super) fn active(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}
