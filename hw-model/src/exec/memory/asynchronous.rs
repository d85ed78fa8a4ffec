//! Asynchronous copies and the barriers they arrive at: cp.async (PTX ISA section 9.7.9.25.3), mbarrier (9.7.13.15).
//!
//! A copy is made when it is issued, which is one of the times at which it may happen; with timing its bytes travel
//! like a load's, and a wait for its group lasts until they are there. So does an arrival for copies at an mbarrier
//! object: with timing only its preparation happens when it is issued, and the SM makes it when the copies are there.
//! An mbarrier object is one 64-bit word of shared memory: pending arrivals, expected arrivals, the transaction
//! count and the phase's parity.
//!
//! Rules: lanes take their turns in ascending order; a phase completes when no arrival and no transaction is
//! pending; an object that was not initialised is a fault.

use super::access::{
    ADDRESS, AUX_GENERIC, AUX_GLOBAL, AUX_PAST_L1, AUX_SHARED, addressed, for_each_space, place,
    visit,
};
use super::own_writes::{read_bytes, write_bytes};
use crate::exec::cx::{BlockEnv, Cx, Direction, Space};
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower, without_lanes};
use crate::exec::op::{GROUP_COMMIT, GROUP_WAIT_ALL, Kind, NONE, Op};
use crate::fault::FaultKind;
use gridmux_ptx::decode::{
    AddressBase, CacheOp, Instruction, Opcode, Operand, ScalarType as T, StateSpace,
};

const COUNT_BITS: u64 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const TX_SHIFT: u64 = 40;
const TX_MASK: u64 = (1 << 22) - 1;
const PHASE: u64 = 1 << 63;
/// Tells an initialised object from zeroed memory.
const LIVE: u64 = 1 << 62;

/// What an operation does to an object; stands above the space in `aux`.
const CODE_SHIFT: u32 = 16;
const INIT: u32 = 0;
const INVAL: u32 = 1;
const ARRIVE: u32 = 2;
const ARRIVE_DROP: u32 = 3;
const EXPECT_TX: u32 = 4;
const COMPLETE_TX: u32 = 5;
const ARRIVE_EXPECT_TX: u32 = 6;
const ARRIVE_DROP_EXPECT_TX: u32 = 7;
const TEST_STATE: u32 = 8;
const TEST_PARITY: u32 = 9;

/// An arrival for copies whose expectation the phase holds already.
const ARRIVE_COPIES: u32 = 10;
/// One that adds its own expectation to the pending count first.
const ARRIVE_COPIES_COUNTED: u32 = 11;
/// The pending count is one more.
const EXPECT_ONE: u32 = 12;
/// The object stays as it is.
const LOOK: u32 = 13;

/// Returns what an arrival for copies does when it is issued: all of it where copies take no time, else what comes
/// before the arrival. Adding one to the count and arriving at once comes to nothing.
fn at_issue(code: u32, timed: bool) -> u32 {
    match (code, timed) {
        (ARRIVE_COPIES, false) => ARRIVE,
        (ARRIVE_COPIES_COUNTED, true) => EXPECT_ONE,
        (ARRIVE_COPIES, true) | (ARRIVE_COPIES_COUNTED, false) => LOOK,
        _ => code,
    }
}

/// Returns the object after `code` with operand `n`.
fn change(word: u64, code: u32, n: u64) -> u64 {
    let n = n & COUNT_MASK;
    match code {
        INIT => LIVE | n << COUNT_BITS | n,
        INVAL => 0,
        ARRIVE => settle(take(word, n)),
        ARRIVE_DROP => settle(take(drop_expected(word, n), n)),
        EXPECT_TX => transact(word, n),
        COMPLETE_TX => settle(transact(word, n.wrapping_neg())),
        ARRIVE_EXPECT_TX => settle(take(transact(word, n), 1)),
        ARRIVE_DROP_EXPECT_TX => settle(take(drop_expected(transact(word, n), 1), 1)),
        EXPECT_ONE => word & !COUNT_MASK | (word + 1) & COUNT_MASK,
        _ => word,
    }
}

fn take(word: u64, n: u64) -> u64 {
    let pending = (word & COUNT_MASK).saturating_sub(n);
    word & !COUNT_MASK | pending
}

fn drop_expected(word: u64, n: u64) -> u64 {
    let expected = (word >> COUNT_BITS & COUNT_MASK).saturating_sub(n);
    word & !(COUNT_MASK << COUNT_BITS) | expected << COUNT_BITS
}

fn transact(word: u64, n: u64) -> u64 {
    let count = (word >> TX_SHIFT).wrapping_add(n) & TX_MASK;
    word & !(TX_MASK << TX_SHIFT) | count << TX_SHIFT
}

/// Completes the phase when nothing is pending: the next one expects as many arrivals.
fn settle(word: u64) -> u64 {
    if word & COUNT_MASK != 0 || word >> TX_SHIFT & TX_MASK != 0 {
        return word;
    }
    (word ^ PHASE) | (word >> COUNT_BITS & COUNT_MASK)
}

lane_fn!(
    /// `r`: state or none, operand, second operand of a dropping arrival; `r[4]`: address.
    Change, |cx, op| change_objects(cx, op)
);

fn change_objects(cx: &mut Cx<'_>, op: &Op) {
    let code = at_issue(op.aux >> CODE_SHIFT, cx.log.is_some());
    // Making an object needs nothing of what was there; an arrival reads and writes.
    let direction = if code == INIT {
        Direction::Store
    } else {
        Direction::Atomic
    };
    for_each_space(cx, op, 8, direction, |cx, checked| {
        if !in_shared(cx) {
            return;
        }
        let n = if op.r[1] == NONE {
            [1; 32]
        } else {
            read::<u32>(cx, op.r[1])
        };
        let mut states = [0_u64; 32];
        for lane in active(cx.mask) {
            let at = place(cx, checked, lane, 0).cast::<u64>();
            // SAFETY: the access of every active lane was checked; a block's shared memory has one user at a time.
            let before = unsafe { at.read_unaligned() };
            if before & LIVE == 0 && code != INIT {
                cx.fail(FaultKind::BadMbarrier, lane_number(lane), None);
                return;
            }
            // SAFETY: as above.
            unsafe { at.write_unaligned(change(before, code, u64::from(n[lane]))) };
            states[lane] = before;
        }
        if op.r[0] != NONE {
            commit(cx, op.r[0], &states);
        }
    });
}

/// Lanes arrive at the objects at these offsets of a block's shared memory; gives the first lane whose object is none.
/// An operation of the block must have accessed all of them.
pub(in crate::exec) fn arrive_after_copies(
    block: &BlockEnv,
    mask: u32,
    offsets: &[u64; 32],
) -> Result<(), u32> {
    for lane in active(mask) {
        let offset = usize::try_from(offsets[lane]).unwrap_or(usize::MAX);
        let at = block.shared.wrapping_add(offset).cast::<u64>();
        // SAFETY: the operation checked that eight bytes at each active lane's offset lie in the block's shared memory,
        // whose size stays; nobody else uses it now, because the caller has the block by an exclusive reference.
        let word = unsafe { at.read_unaligned() };
        if word & LIVE == 0 {
            return Err(lane_number(lane));
        }
        // SAFETY: as above.
        unsafe { at.write_unaligned(change(word, ARRIVE, 1)) };
    }
    Ok(())
}

lane_fn!(
    /// `r`: predicate, state or parity; `r[4]`: address.
    Test, |cx, op| test_objects(cx, op)
);

fn test_objects(cx: &mut Cx<'_>, op: &Op) {
    let by_state = op.aux >> CODE_SHIFT == TEST_STATE;
    let mut done = 0;
    for_each_space(cx, op, 8, Direction::Load, |cx, checked| {
        if !in_shared(cx) {
            return;
        }
        let parity = if by_state {
            read::<u64>(cx, op.r[1]).map(|state| state >> 63)
        } else {
            read::<u32>(cx, op.r[1]).map(|parity| u64::from(parity & 1))
        };
        for lane in active(cx.mask) {
            // SAFETY: as in `change_objects`.
            let word = unsafe { place(cx, checked, lane, 0).cast::<u64>().read_unaligned() };
            if word & LIVE == 0 {
                cx.fail(FaultKind::BadMbarrier, lane_number(lane), None);
                return;
            }
            done |= u32::from(word >> 63 != parity[lane]) << lane;
        }
    });
    cx.set_predicate(op.r[0], done);
}

fn in_shared(cx: &mut Cx<'_>) -> bool {
    let shared = cx.access.space == Space::Shared;
    if !shared {
        let lane = cx.mask.trailing_zeros() & 31;
        cx.fail(FaultKind::BadMbarrier, lane, None);
    }
    shared
}

fn lane_number(lane: usize) -> u32 {
    u32::try_from(lane).unwrap_or(0)
}

lane_fn!(
    /// `r`: count, state.
    Pending, |cx, op| {
    #[allow(clippy::cast_possible_truncation, reason = "a count has 20 bits")]
    let out = read::<u64>(cx, op.r[1]).map(|state| (state & COUNT_MASK) as u32);
    commit(cx, op.r[0], &out);
});

/// The destination's base register holds 32-bit addresses.
const TO_NARROW: u32 = 1 << 10;
/// The same of the source.
const FROM_NARROW: u32 = 1 << 11;
/// The predicate that asks to ignore the source is negated.
const NEGATED: u32 = 1 << 12;

lane_fn!(
    /// `r`: source address, source size or none, predicate to ignore the source or none; `r[4]`: destination;
    /// `imm`: the source's offset above, the destination's below; `aux`: the source's space, flags, size from bit 16.
    CopyAsync, |cx, op| copy_async(cx, op)
);

#[allow(clippy::cast_possible_truncation, reason = "two packed 32-bit offsets")]
fn copy_async(cx: &mut Cx<'_>, op: &Op) {
    let size = op.aux >> CODE_SHIFT;
    let from = lane_addresses(
        cx,
        op.r[0],
        op.aux & FROM_NARROW != 0,
        (op.imm >> 32) as i32,
    );
    let to = lane_addresses(cx, op.r[ADDRESS], op.aux & TO_NARROW != 0, op.imm as i32);
    let mut sizes = [size; 32];
    if op.r[1] != NONE {
        sizes = read::<u32>(cx, op.r[1]).map(|asked| asked.min(size));
    }
    if op.r[2] != NONE {
        let flip = if op.aux & NEGATED != 0 { u32::MAX } else { 0 };
        let ignored = cx.predicate(op.r[2]) ^ flip;
        for (lane, size) in sizes.iter_mut().enumerate() {
            if ignored >> lane & 1 != 0 {
                *size = 0;
            }
        }
    }
    let mut data = [[0_u8; 16]; 32];
    let all = cx.mask;
    let with = |want: &dyn Fn(u32) -> bool| {
        let lanes = active(all).filter(|lane| want(sizes[*lane]));
        lanes.fold(0, |mask, lane| mask | 1 << lane)
    };
    let (whole, part) = (with(&|n| n == size), with(&|n| n != 0 && n < size));
    // A copy that reads nothing has no access that takes time.
    cx.access.mask = 0;
    let mut record = cx.access.clone();
    for (lanes, bytes) in [(whole, size), (part, 1)] {
        cx.mask = lanes;
        if bytes == 1 && size != 1 {
            // The last byte that a short copy reads must be there as well.
            let mut ends = from;
            for (end, size) in ends.iter_mut().zip(&sizes) {
                *end = end.wrapping_add(u64::from(size.saturating_sub(1)));
            }
            visit(cx, ends, op.aux & 0xff, 1, Direction::Load, |_, _| {});
        }
        if lanes == 0 || cx.fault.is_some() {
            continue;
        }
        visit(
            cx,
            from,
            op.aux & 0xff,
            bytes,
            Direction::Load,
            |cx, checked| {
                for lane in active(cx.mask) {
                    let count = sizes[lane] as usize;
                    read_bytes(cx, checked, lane, &mut data[lane][..count]);
                }
            },
        );
        record = cx.access.clone();
    }
    cx.mask = all;
    if cx.fault.is_none() {
        visit(cx, to, AUX_SHARED, size, Direction::Store, |cx, checked| {
            write_bytes(cx, checked, size as usize, |lane, at| {
                // SAFETY: `write_bytes` passes the place of an active lane's checked access of `size` bytes, at
                // most 16.
                unsafe { std::ptr::copy_nonoverlapping(data[lane].as_ptr(), at, size as usize) };
            });
        });
    }
    *cx.access = record;
}

/// Addresses of all lanes: a register, or none, and an offset.
fn lane_addresses(cx: &Cx<'_>, register: u16, narrow: bool, offset: i32) -> [u64; 32] {
    let add = |base: u64| base.wrapping_add_signed(i64::from(offset));
    match register {
        NONE => [add(0); 32],
        _ if narrow => read::<u32>(cx, register).map(|base| add(u64::from(base)) & 0xffff_ffff),
        _ => read::<u64>(cx, register).map(add),
    }
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let code = match i.opcode {
        Opcode::CpAsync => return copy(l, i),
        Opcode::CpAsyncCommitGroup => return Some(group(GROUP_COMMIT)),
        Opcode::CpAsyncWaitAll => return Some(group(GROUP_WAIT_ALL)),
        Opcode::CpAsyncWaitGroup => {
            let Operand::Int(newest) = i.operands.first()? else {
                return None;
            };
            let newest = u32::try_from(*newest).ok()?;
            return Some(group(newest.min(GROUP_WAIT_ALL - 1)));
        }
        Opcode::CpAsyncMbarrierArrive if says(i, "noinc") => ARRIVE_COPIES,
        Opcode::CpAsyncMbarrierArrive => ARRIVE_COPIES_COUNTED,
        Opcode::MbarrierPendingCount => {
            let operands = l.operands(i, [T::U32, T::B64])?;
            return Some(Draft::alu(handler::<Pending>(), Class::Int, &operands));
        }
        Opcode::MbarrierInit => INIT,
        Opcode::MbarrierInval => INVAL,
        Opcode::MbarrierArrive => ARRIVE,
        Opcode::MbarrierArriveDrop => ARRIVE_DROP,
        Opcode::MbarrierExpectTx => EXPECT_TX,
        Opcode::MbarrierCompleteTx => COMPLETE_TX,
        Opcode::MbarrierArriveExpectTx => ARRIVE_EXPECT_TX,
        Opcode::MbarrierArriveDropExpectTx => ARRIVE_DROP_EXPECT_TX,
        Opcode::MbarrierTestWait | Opcode::MbarrierTryWait if says(i, "parity") => TEST_PARITY,
        Opcode::MbarrierTestWait | Opcode::MbarrierTryWait => TEST_STATE,
        _ => return None,
    };
    let at = i
        .operands
        .iter()
        .position(|o| matches!(o, Operand::Address { .. }))?;
    let mut r = [NONE; 2];
    let exec = match code {
        TEST_STATE | TEST_PARITY => {
            r[0] = l.predicate(i.operands.first()?)?;
            let ty = if code == TEST_STATE { T::B64 } else { T::U32 };
            r[1] = l.src(i, at + 1, ty)?;
            handler::<Test>()
        }
        _ => {
            if at == 1 && !matches!(i.operands[0], Operand::Sink) {
                r[0] = l.dst(i, T::B64)?;
            }
            if i.operands.len() > at + 1 {
                r[1] = l.src(i, at + 1, T::U32)?;
            }
            handler::<Change>()
        }
    };
    let draft = Draft::alu(exec, Class::Memory, &r);
    let mut draft = addressed(l, &i.operands[at], space(i)?, draft)?;
    draft.aux |= code << CODE_SHIFT;
    if matches!(code, ARRIVE_COPIES | ARRIVE_COPIES_COUNTED) {
        draft = draft.kind(Kind::CopyArrival);
    }
    Some(draft)
}

/// Returns what a warp does about its groups of copies.
fn group(aux: u32) -> Draft {
    without_lanes(&[]).kind(Kind::CopyGroup).aux(aux)
}

/// Returns whether a word of the mnemonic.
fn says(i: &Instruction, word: &str) -> bool {
    i.mnemonic.split('.').any(|w| w == word)
}

/// Returns the state space of an address. Without clusters, the cluster's shared memory is the block's own.
fn space(i: &Instruction) -> Option<StateSpace> {
    match i.mods.spaces.first() {
        None => Some(StateSpace::Generic),
        Some(StateSpace::Shared | StateSpace::SharedCluster) => Some(StateSpace::Shared),
        _ => None,
    }
}

/// Lowers `cp.async.ca.shared.global [dst], [src], size{, src-size or predicate}{, policy}`.
fn copy(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let Operand::Int(size @ (4 | 8 | 16)) = i.operands.get(2)? else {
        return None;
    };
    let (to, to_offset, to_narrow) = base(l, i.operands.first()?)?;
    let (from, from_offset, from_narrow) = base(l, i.operands.get(1)?)?;
    let mut aux = u32::try_from(*size).ok()? << CODE_SHIFT;
    let hint = usize::from(i.mnemonic.contains("cache_hint"));
    let (mut source_size, mut ignore) = (NONE, NONE);
    if i.operands.len() > 3 + hint {
        match i.operands.get(3)? {
            Operand::NotReg(reg) => {
                ignore = l.predicate(&Operand::Reg(*reg))?;
                aux |= NEGATED;
            }
            operand => match l.predicate(operand) {
                Some(predicate) => ignore = predicate,
                None => source_size = l.src(i, 3, T::U32)?,
            },
        }
    }
    for (narrow, bit) in [(to_narrow, TO_NARROW), (from_narrow, FROM_NARROW)] {
        aux |= if narrow { bit } else { 0 };
    }
    let global = i.mods.spaces.contains(&StateSpace::Global);
    aux |= if global { AUX_GLOBAL } else { AUX_GENERIC };
    if i.mods.cache == Some(CacheOp::Cg) {
        aux |= AUX_PAST_L1;
    }
    let operands = [from, source_size, ignore, NONE, to];
    let offsets = i64::from(from_offset) << 32 | i64::from(to_offset.cast_unsigned());
    let draft = Draft::alu(handler::<CopyAsync>(), Class::Memory, &operands);
    Some(draft.kind(Kind::Copy).imm(offsets).aux(aux))
}

/// Returns the register (or none), offset and narrowness of an address.
fn base(l: &Lower<'_>, operand: &Operand) -> Option<(u16, i32, bool)> {
    let Operand::Address { base, offset } = operand else {
        return None;
    };
    match base {
        AddressBase::Reg(reg) => {
            let wide = l.is_wide(*reg);
            let slot = l.reg(&Operand::Reg(*reg), wide)?;
            Some((slot, i32::try_from(*offset).ok()?, !wide))
        }
        AddressBase::Symbol(symbol) => {
            let (_, start) = l.symbol(*symbol)?;
            let at = i32::try_from(start.checked_add_signed(*offset)?).ok()?;
            Some((NONE, at, false))
        }
        AddressBase::Absolute => Some((NONE, i32::try_from(*offset).ok()?, false)),
    }
}
