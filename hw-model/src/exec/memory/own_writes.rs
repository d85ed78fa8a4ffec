//! What this SM wrote in this epoch, as its own loads see it, and how a store becomes a record.
//!
//! Rule: in the timed model global memory is written through the log alone, so each load first looks for the epoch's
//! own writes there ([`super::log`]).

use super::access::{Checked, host, place};
use super::log::Target;
use super::stored::{Stored, Word};
use crate::exec::cx::{Cx, Pattern, Space};
use crate::exec::lanes::{active, read};
use crate::exec::op::{NONE, Op};

/// Returns whether the access may touch what this SM wrote in this epoch.
#[inline(always)]
pub(super) fn sees_own_writes(cx: &Cx<'_>, checked: &Checked) -> bool {
    let Some(log) = &cx.log else {
        return false;
    };
    if log.is_empty() || cx.access.space != Space::Global {
        return false;
    }
    let bytes = cx.access.bytes as usize;
    let first = cx.mask.trailing_zeros() as usize & 31;
    match cx.access.pattern {
        Pattern::Uniform => log.may_touch(place(cx, checked, first, 0) as usize, bytes),
        Pattern::Contiguous => log.may_touch(place(cx, checked, 0, 0) as usize, 32 * bytes),
        Pattern::Scattered => {
            active(cx.mask).any(|lane| log.may_touch(place(cx, checked, lane, 0) as usize, bytes))
        }
    }
}

/// Returns whether the access touches something whose value the end of the epoch decides.
#[cold]
pub(super) fn waits_for_own_writes(cx: &Cx<'_>, checked: &Checked) -> bool {
    let bytes = cx.access.bytes as usize;
    cx.log.as_ref().is_some_and(|log| {
        active(cx.mask).any(|lane| log.undecided(place(cx, checked, lane, 0) as usize, bytes))
    })
}

/// Leaves a load to the end of the epoch.
#[cold]
pub(super) fn load_late<M: Stored, R: Word>(cx: &mut Cx<'_>, op: &Op, checked: &Checked) {
    let (mask, base) = (cx.mask, checked.base);
    cx.access.late = true;
    let addresses = &cx.access.addresses;
    let Some(log) = cx.log.as_mut() else { return };
    for element in 0..usize::from(op.vector) {
        if op.r[element] == NONE {
            continue;
        }
        let target = Target {
            slot: op.r[element],
            wide: size_of::<R>() == 8,
        };
        let offset = element * size_of::<M>();
        let run = read_word::<M, R>;
        log.lanes(mask, size_of::<M>(), run, 0, Some(target), true, |lane| {
            (host(base, addresses[lane]).wrapping_add(offset), 0, 0)
        });
    }
}

/// Returns a [`super::log::LaneFn`] that reads.
unsafe fn read_word<M: Stored, R: Word>(at: *mut u8, _: u64, _: u64, _: u32) -> u64 {
    // SAFETY: the caller passes the address of a checked access of `M`.
    let word: R = unsafe { at.cast::<M>().read_unaligned() }.extend();
    word.to_bits()
}

/// Reads one lane's element, this SM's own writes of the epoch included.
#[inline(always)]
pub(super) fn peek<M: Stored>(cx: &Cx<'_>, checked: &Checked, lane: usize, offset: usize) -> M {
    let at = place(cx, checked, lane, offset);
    // SAFETY: the lane is active and was checked.
    let mut value = unsafe { at.cast::<M>().read_unaligned() };
    if cx.access.space == Space::Global
        && let Some(log) = &cx.log
        && !log.is_empty()
        && log.may_touch(at as usize, size_of::<M>())
    {
        // SAFETY: `M` is a plain number, so any bytes are one, and the slice covers exactly `value`.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut((&raw mut value).cast(), size_of::<M>()) };
        log.overlay(at as usize, bytes);
    }
    value
}

/// Reads bytes of one lane, this SM's own stores of the epoch included.
pub(in crate::exec) fn read_bytes(cx: &Cx<'_>, checked: &Checked, lane: usize, into: &mut [u8]) {
    let at = place(cx, checked, lane, 0);
    // SAFETY: callers ask for bytes of an active lane's checked access.
    unsafe { std::ptr::copy_nonoverlapping(at, into.as_mut_ptr(), into.len()) };
    if cx.access.space == Space::Global
        && let Some(log) = &cx.log
        && log.may_touch(at as usize, into.len())
    {
        log.overlay(at as usize, into);
    }
}

/// Writes `bytes` bytes of each active lane; `fill` puts a lane's bytes at the place that it is given.
pub(in crate::exec) fn write_bytes(
    cx: &mut Cx<'_>,
    checked: &Checked,
    bytes: usize,
    mut fill: impl FnMut(usize, *mut u8),
) {
    let (mask, base) = (cx.mask, checked.base);
    let addresses = &cx.access.addresses;
    match cx.log.as_mut() {
        Some(log) if cx.access.space == Space::Global => {
            log.store_scattered(mask, bytes, |lane| host(base, addresses[lane]), fill);
        }
        _ => active(mask).for_each(|lane| fill(lane, host(base, addresses[lane]))),
    }
}

/// Records a store to global memory.
#[inline(always)]
pub(super) fn record_store<M: Stored, R: Word>(cx: &mut Cx<'_>, op: &Op, checked: &Checked) {
    let (mask, base, pattern) = (cx.mask, checked.base, cx.access.pattern);
    for element in 0..usize::from(op.vector) {
        let values = read::<R>(cx, op.r[element]);
        let addresses = &cx.access.addresses;
        let Some(log) = cx.log.as_mut() else { return };
        if pattern == Pattern::Contiguous && op.vector == 1 {
            log.store_contiguous(host(base, addresses[0]), size_of::<M>(), |to| {
                let to = to.cast::<M>();
                for (lane, value) in values.iter().enumerate() {
                    // SAFETY: the log gives room for 32 elements.
                    unsafe { to.add(lane).write_unaligned(M::cut(*value)) };
                }
            });
            return;
        }
        let offset = element * size_of::<M>();
        // Of lanes that write one address the highest wins, as it does when they take turns.
        let mask = match pattern {
            Pattern::Uniform => 1 << (31 - mask.leading_zeros()),
            _ => mask,
        };
        log.store_scattered(
            mask,
            size_of::<M>(),
            |lane| host(base, addresses[lane]).wrapping_add(offset),
            |lane, to| {
                // SAFETY: the log gives room for one element.
                unsafe { to.cast::<M>().write_unaligned(M::cut(values[lane])) };
            },
        );
    }
}
