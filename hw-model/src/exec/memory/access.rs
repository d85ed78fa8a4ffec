//! One access of a warp to memory: addresses of all lanes, and one check of all of them.
//!
//! What is done with the data is a closure's or a [`Body`]'s; loads and stores are `load_store`, what an SM wrote
//! itself stands in `own_writes`.
//! Rules: nothing is touched unless every active lane that aims at the same state space passed the
//! check; the access record tells the timing model what happened; in shared and local space it holds offsets from the
//! block's memory.

use crate::exec::cx::{Access, Cx, Direction, Pattern, Space};
use crate::exec::lanes::{active, read};
use crate::exec::lower::{Draft, Lower};
use crate::exec::op::{Kind, NONE, Op};
use crate::exec::windows::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::fault::{FaultKind, FaultSpace};
use gridmux_ptx::decode::{AddressBase, Operand, StateSpace};

/// Index of the address among an operation's operands; data slots stand before it.
pub(in crate::exec) const ADDRESS: usize = 4;

/// Allocations smaller than any single access are not remembered, which keeps the range check to one comparison.
const LARGEST_ACCESS_BYTES: u64 = 64;

/// Spaces in the low byte of `aux`.
pub(in crate::exec) const AUX_GLOBAL: u32 = 0;
pub(super) const AUX_SHARED: u32 = 1;
const AUX_LOCAL: u32 = 2;
pub(super) const AUX_GENERIC: u32 = 3;
const AUX_CONSTANT: u32 = 4;
/// A kernel's parameters, which only generic loads name this way.
const AUX_PARAM: u32 = 5;
/// The base register holds 32-bit addresses.
pub(in crate::exec) const AUX_NARROW: u32 = 1 << 8;
/// The load goes past L1 (`.cg`, `.cv`, volatile and ordered loads).
pub(crate) const AUX_PAST_L1: u32 = 1 << 9;

/// A checked access: lane `n` is at `base + access.addresses[n]`.
pub(in crate::exec) struct Checked {
    pub(crate) base: *mut u8,
}

/// What is done with a checked access. A closure is one, but it is compiled for the baseline and not for the
/// host's vector instructions unless it happens to be inlined; a type whose `run` is always inlined is not.
pub(super) trait Body {
    fn run(&mut self, cx: &mut Cx<'_>, checked: &Checked);
}

/// A closure as a [`Body`].
struct Closure<F>(F);

impl<F: FnMut(&mut Cx<'_>, &Checked)> Body for Closure<F> {
    #[inline(always)]
    fn run(&mut self, cx: &mut Cx<'_>, checked: &Checked) {
        (self.0)(cx, checked);
    }
}

/// Addresses of all lanes, before any check.
#[inline(always)]
pub(in crate::exec) fn addresses(cx: &Cx<'_>, op: &Op) -> [u64; 32] {
    let offset = Cx::offset(op);
    if op.r[ADDRESS] == NONE {
        return [offset; 32];
    }
    if op.aux & AUX_NARROW != 0 {
        let base = read::<u32>(cx, op.r[ADDRESS]);
        return std::array::from_fn(|n| u64::from(base[n]).wrapping_add(offset) & 0xffff_ffff);
    }
    let base = read::<u64>(cx, op.r[ADDRESS]);
    std::array::from_fn(|n| base[n].wrapping_add(offset))
}

/// Runs `body` once per space that the lanes aim at; `body` sees a checked access and a mask of its lanes.
#[inline(always)]
pub(in crate::exec) fn for_each_space(
    cx: &mut Cx<'_>,
    op: &Op,
    bytes: u32,
    direction: Direction,
    body: impl FnMut(&mut Cx<'_>, &Checked),
) {
    let lanes = addresses(cx, op);
    visit(cx, lanes, op.aux & 0xff, bytes, direction, body);
}

/// Does the same for addresses that the operation has made itself.
#[inline(always)]
pub(in crate::exec) fn visit(
    cx: &mut Cx<'_>,
    lanes: [u64; 32],
    space: u32,
    bytes: u32,
    direction: Direction,
    body: impl FnMut(&mut Cx<'_>, &Checked),
) {
    visit_with(cx, lanes, space, bytes, direction, Closure(body));
}

/// Does the same with a body that is compiled for the host's vector instructions.
#[inline(always)]
pub(super) fn visit_with(
    cx: &mut Cx<'_>,
    lanes: [u64; 32],
    space: u32,
    bytes: u32,
    direction: Direction,
    mut body: impl Body,
) {
    cx.access.mask = 0;
    if cx.mask == 0 {
        return;
    }
    if space != AUX_GENERIC {
        if let Some(checked) = check(cx, lanes, space, bytes, direction) {
            body.run(cx, &checked);
        }
        return;
    }
    visit_generic(cx, lanes, bytes, direction, |cx, checked| {
        body.run(cx, checked);
    });
}

/// Does the same for generic addresses, which may lie in several spaces.
#[inline(never)]
fn visit_generic(
    cx: &mut Cx<'_>,
    lanes: [u64; 32],
    bytes: u32,
    direction: Direction,
    mut body: impl FnMut(&mut Cx<'_>, &Checked),
) {
    let all = cx.mask;
    let within = |start: u64| {
        let mut bits = 0;
        for (lane, address) in lanes.iter().enumerate() {
            bits |= u32::from(address.wrapping_sub(start) < WINDOW_BYTES) << lane;
        }
        bits & all
    };
    let (shared, local) = (within(SHARED_WINDOW), within(LOCAL_WINDOW));
    let param = if direction == Direction::Load {
        within(PARAM_WINDOW)
    } else {
        0
    };
    let parts = [
        (all & !shared & !local & !param, AUX_GLOBAL, 0),
        (shared, AUX_SHARED, SHARED_WINDOW),
        (local, AUX_LOCAL, LOCAL_WINDOW),
        (param, AUX_PARAM, PARAM_WINDOW),
    ];
    for (mask, space, start) in parts {
        if mask == 0 || cx.fault.is_some() {
            continue;
        }
        cx.mask = mask;
        let relative = lanes.map(|a| a.wrapping_sub(start));
        if let Some(checked) = check(cx, relative, space, bytes, direction) {
            body(cx, &checked);
        }
    }
    cx.mask = all;
}

/// Checks bounds and alignment of all active lanes and fills the access record.
// Length: one arm per state space, and each is a few comparisons on the same vectors of lanes.
#[inline(always)]
fn check(
    cx: &mut Cx<'_>,
    lanes: [u64; 32],
    space: u32,
    bytes: u32,
    direction: Direction,
) -> Option<Checked> {
    let misaligned = u64::from(bytes - 1);
    let first = cx.mask.trailing_zeros() as usize & 31;
    let (mut unaligned, mut stepped, mut same) = (0, 0, 0);
    for (lane, address) in lanes.iter().enumerate() {
        let active = if cx.mask >> lane & 1 != 0 {
            u64::MAX
        } else {
            0
        };
        unaligned |= address & misaligned & active;
        same |= (address ^ lanes[first]) & active;
        stepped |= address ^ lanes[0].wrapping_add(lane as u64 * u64::from(bytes));
    }
    let pattern = if same == 0 {
        Pattern::Uniform
    } else if stepped == 0 && cx.mask == u32::MAX {
        Pattern::Contiguous
    } else {
        Pattern::Scattered
    };
    let (kind, base, inside) = match space {
        AUX_SHARED => (
            Space::Shared,
            cx.block.shared,
            all_below(cx.mask, &lanes, cx.block.shared_bytes, bytes),
        ),
        AUX_LOCAL => (
            Space::Local,
            cx.block.local,
            all_below(cx.mask, &lanes, cx.block.local_bytes, bytes),
        ),
        AUX_PARAM => (
            Space::Constant,
            cx.block.params.cast_mut(),
            all_below(cx.mask, &lanes, cx.block.params_bytes, bytes),
        ),
        _ => {
            let kind = if space == AUX_CONSTANT {
                Space::Constant
            } else {
                Space::Global
            };
            (
                kind,
                cx.domain.host_bias(),
                inside_allocation(cx, &lanes, bytes)
                    || direction == Direction::Load && reads_past_ends(cx, &lanes, bytes),
            )
        }
    };
    if !inside || unaligned != 0 {
        explain(cx, &lanes, kind, bytes, direction, inside);
        return None;
    }
    if space == AUX_SHARED
        && !cx.block.written.is_null()
        && !note_written(cx, &lanes, bytes, direction)
    {
        return None;
    }
    *cx.access = Access {
        space: kind,
        direction,
        pattern,
        mask: cx.mask,
        bytes,
        addresses: lanes,
        late: false,
        pause_ns: 0,
    };
    if kind == Space::Local {
        let per_thread = u64::from(cx.block.local_bytes);
        let thread = u64::from(cx.warp) * 32;
        for (lane, address) in cx.access.addresses.iter_mut().enumerate() {
            // A lane that takes no part holds whatever its register does.
            *address = address.wrapping_add((thread + lane as u64) * per_thread);
        }
        cx.access.pattern = Pattern::Scattered;
    }
    Some(Checked { base })
}

#[inline(always)]
fn all_below(mask: u32, lanes: &[u64; 32], limit: u32, bytes: u32) -> bool {
    let Some(last) = limit.checked_sub(bytes) else {
        return false;
    };
    let mut outside = 0;
    for (lane, address) in lanes.iter().enumerate() {
        outside |= u32::from(*address > u64::from(last)) << lane;
    }
    outside & mask == 0
}

/// Returns whether all active lanes lie inside live allocations; the common case is one allocation that this
/// instruction used before.
#[inline(always)]
fn inside_allocation(cx: &mut Cx<'_>, lanes: &[u64; 32], bytes: u32) -> bool {
    let range = *cx.ranges.entry(cx.pc);
    if range.stamp == cx.domain.stamp() {
        let last = range.bytes.wrapping_sub(u64::from(bytes));
        let mut outside = 0;
        for (lane, address) in lanes.iter().enumerate() {
            outside |= u32::from(address.wrapping_sub(range.start) > last) << lane;
        }
        if outside & cx.mask == 0 {
            return true;
        }
    }
    find_allocations(cx, lanes, bytes)
}

#[cold]
fn find_allocations(cx: &mut Cx<'_>, lanes: &[u64; 32], bytes: u32) -> bool {
    for lane in active(cx.mask) {
        let Some(found) = cx.domain.find(lanes[lane]) else {
            return false;
        };
        if found.end() - lanes[lane] < u64::from(bytes) {
            return false;
        }
        if found.bytes >= LARGEST_ACCESS_BYTES {
            let stamp = cx.domain.stamp();
            let range = cx.ranges.entry(cx.pc);
            range.stamp = stamp;
            range.start = found.start;
            range.bytes = found.bytes;
        }
    }
    true
}

/// Returns whether the domain lets loads run past the ends of allocations, and all active lanes stay in a page that has
/// part of one.
#[cold]
fn reads_past_ends(cx: &Cx<'_>, lanes: &[u64; 32], bytes: u32) -> bool {
    cx.domain.is_lenient()
        && active(cx.mask).all(|lane| {
            let last = lanes[lane].checked_add(u64::from(bytes - 1));
            last.is_some_and(|last| cx.domain.shares_page(lanes[lane], last))
        })
}

/// Keeps the record of what was written in shared memory; false when a lane reads what nobody wrote.
#[cold]
#[inline(never)]
fn note_written(cx: &mut Cx<'_>, lanes: &[u64; 32], bytes: u32, direction: Direction) -> bool {
    for lane in active(cx.mask) {
        let address = lanes[lane];
        for byte in address..address + u64::from(bytes) {
            let (word, bit) = (usize::try_from(byte / 64).unwrap_or(0), 1 << (byte % 64));
            // SAFETY: the access of every active lane was found inside shared memory, for whose every byte the
            // record has a bit; a block's warps execute one after another.
            let word = unsafe { &mut *cx.block.written.add(word) };
            if direction == Direction::Store {
                *word |= bit;
            } else if *word & bit == 0 {
                let kind = FaultKind::UninitialisedShared { bytes };
                cx.fail(kind, u32::try_from(lane).unwrap_or(0), Some(address));
                return false;
            }
        }
    }
    true
}

/// Finds the first lane that is at fault and records why.
#[cold]
fn explain(
    cx: &mut Cx<'_>,
    lanes: &[u64; 32],
    space: Space,
    bytes: u32,
    direction: Direction,
    inside: bool,
) {
    let write = direction != Direction::Load;
    let (named, limit) = match space {
        Space::Shared => (FaultSpace::Shared, Some(cx.block.shared_bytes)),
        Space::Local => (FaultSpace::Local, Some(cx.block.local_bytes)),
        Space::Constant => (FaultSpace::Constant, None),
        Space::Global | Space::Texture => (FaultSpace::Global, None),
    };
    for lane in active(cx.mask) {
        let address = lanes[lane];
        let out = match limit {
            Some(limit) => address.saturating_add(u64::from(bytes)) > u64::from(limit),
            None => cx
                .domain
                .find(address)
                .is_none_or(|a| a.end() - address < u64::from(bytes)),
        };
        let misaligned = inside && !address.is_multiple_of(u64::from(bytes));
        if !out && !misaligned {
            continue;
        }
        let kind = if out {
            FaultKind::OutOfBounds {
                write,
                space: named,
                bytes,
            }
        } else {
            FaultKind::Misaligned {
                write,
                space: named,
                bytes,
            }
        };
        cx.fail(kind, u32::try_from(lane).unwrap_or(0), Some(address));
        return;
    }
}

/// Returns the host address of one lane's element.
#[inline(always)]
pub(in crate::exec) fn place(
    cx: &Cx<'_>,
    checked: &Checked,
    lane: usize,
    offset: usize,
) -> *mut u8 {
    host(checked.base, cx.access.addresses[lane]).wrapping_add(offset)
}

/// Returns the host address of a device address or offset behind `base`.
#[inline(always)]
pub(in crate::exec) fn host(base: *mut u8, address: u64) -> *mut u8 {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "device addresses fit the host's 64 bits"
    )]
    base.wrapping_add(address as usize)
}

/// Adds the address operand: its base register, its offset, and its space.
pub(in crate::exec) fn addressed(
    l: &mut Lower<'_>,
    operand: &Operand,
    space: StateSpace,
    draft: Draft,
) -> Option<Draft> {
    let code = match space {
        StateSpace::Global => AUX_GLOBAL,
        StateSpace::Shared => AUX_SHARED,
        StateSpace::Local => AUX_LOCAL,
        StateSpace::Generic => AUX_GENERIC,
        StateSpace::Const => AUX_CONSTANT,
        _ => return None,
    };
    let Operand::Address { base, offset } = operand else {
        return None;
    };
    let mut draft = draft.kind(Kind::Memory).imm(*offset).aux(code);
    match base {
        AddressBase::Reg(reg) => {
            let wide = l.is_wide(*reg);
            if !wide && l.type_of(*reg).size_bytes() != 4 {
                return None;
            }
            draft.r[ADDRESS] = l.reg(&Operand::Reg(*reg), wide)?;
            if !wide {
                draft.aux |= AUX_NARROW;
            }
        }
        AddressBase::Symbol(symbol) => {
            let (_, start) = l.symbol(*symbol)?;
            draft.imm = start.wrapping_add_signed(*offset).cast_signed();
        }
        AddressBase::Absolute => {}
    }
    Some(draft)
}
