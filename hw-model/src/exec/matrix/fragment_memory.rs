//! Matrices between memory and registers (PTX ISA sections 9.7.14.5 and 9.7.15: wmma.load, wmma.store, ldmatrix,
//! stmatrix).
//!
//! A fragment's elements of one lane lie side by side in memory where the matrix is stored the way it is dealt
//! (`fragment`); they are then moved in pieces of at most sixteen bytes, else one by one.
//! Rule: every piece is an access of its own, checked for all lanes before any of them moves; the timing model
//! sees the last one.

use super::fragment::{Family, Fragment, KINDS, Kind, Role};
use crate::exec::cx::{Cx, Direction};
use crate::exec::isa::{lane_fn, once};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::memory::access::{ADDRESS, Checked, addressed, addresses, visit};
use crate::exec::memory::own_writes::{read_bytes, write_bytes};
use crate::exec::op::{NONE, Op};
use gridmux_ptx::decode::{Instruction, Opcode, Operand, ScalarType as T, StateSpace};

/// Largest piece in bytes.
const PIECE: usize = 16;
/// Registers of a fragment at most.
const REGISTERS: usize = 8;

/// Fields of `aux` above the space and its flags.
const KIND_SHIFT: u32 = 10;
const ROLE_SHIFT: u32 = 14;
const SHAPE_SHIFT: u32 = 16;
/// Stored column by column in memory.
const BY_COLUMNS: u32 = 1 << 20;
const TRANSPOSED: u32 = 1 << 20;

const ROLES: [Role; 3] = [Role::A, Role::B, Role::C];

/// Shapes of `wmma`.
const SHAPES: [(&str, [usize; 3]); 6] = [
    ("m16n16k16", [16, 16, 16]),
    ("m8n32k16", [8, 32, 16]),
    ("m32n8k16", [32, 8, 16]),
    ("m16n16k8", [16, 16, 8]),
    ("m8n8k4", [8, 8, 4]),
    ("m8n8k32", [8, 8, 32]),
];

/// One bit a lane-word, so k in words is 4.
const BITS_SHAPE: (&str, [usize; 3]) = ("m8n8k128", [8, 8, 4]);

/// Returns the fragment that `aux` describes, and whether memory holds it column by column.
fn described(aux: u32) -> (Fragment, bool) {
    let kind = KINDS[(aux >> KIND_SHIFT & 15) as usize % KINDS.len()].1;
    let role = ROLES[(aux >> ROLE_SHIFT & 3) as usize % ROLES.len()];
    let at = (aux >> SHAPE_SHIFT & 7) as usize;
    let [m, n, k] = SHAPES.get(at).unwrap_or(&BITS_SHAPE).1;
    let by_columns = aux & BY_COLUMNS != 0;
    let (rows, columns) = match role {
        Role::A => (m, k),
        Role::B => (k, n),
        Role::C => (m, n),
    };
    let fragment = Fragment {
        family: Family::Wmma,
        role,
        kind,
        rows,
        columns,
        by_columns: by_columns && role != Role::C,
    };
    (fragment, by_columns)
}

/// A lane's bytes of a fragment.
type Bytes = [[u8; 64]; 32];

/// Moves the fragment in pieces; `body` sees a checked access of all active lanes and the piece's place in a lane's
/// bytes.
fn pieces(
    cx: &mut Cx<'_>,
    op: &Op,
    direction: Direction,
    mut body: impl FnMut(&mut Cx<'_>, &Checked, usize, usize),
) {
    let (fragment, by_columns) = described(op.aux);
    let starts = addresses(cx, op);
    let strides = read::<u32>(cx, op.r[1]);
    let bits = fragment.kind.bits();
    let count = fragment.per_lane();
    let side_by_side = by_columns == fragment.by_columns;
    let whole = (count * bits).div_ceil(8);
    let step = if side_by_side {
        whole.min(PIECE)
    } else {
        bits.div_ceil(8)
    };
    let all = cx.mask;
    for first in (0..whole).step_by(step) {
        let lanes: [u64; 32] = std::array::from_fn(|lane| {
            let (row, column) = fragment.place(lane, first * 8 / bits);
            let (major, minor) = if by_columns {
                (column, row)
            } else {
                (row, column)
            };
            // The stride is in elements; a group of single bits counts as one element here.
            let bits_of_element = if fragment.kind == Kind::B1 {
                1
            } else {
                bits as u64
            };
            let offset = major as u64 * u64::from(strides[lane]) * bits_of_element / 8
                + (minor * bits / 8) as u64;
            starts[lane].wrapping_add(offset)
        });
        let bytes = u32::try_from(step).unwrap_or(1);
        visit(cx, lanes, op.aux & 0xff, bytes, direction, |cx, checked| {
            body(cx, checked, first, step);
        });
        cx.mask = all;
        if cx.fault.is_some() {
            return;
        }
    }
}

lane_fn!(
    /// `r`: the operand list, the stride, then the address.
    WmmaLoad, |cx, op| {
    let mut bytes: Bytes = [[0; 64]; 32];
    pieces(cx, op, Direction::Load, |cx, checked, first, step| {
        for lane in active(cx.mask) {
            read_bytes(cx, checked, lane, &mut bytes[lane][first..first + step]);
        }
    });
    if cx.fault.is_none() {
        fill(cx, op, &bytes);
    }
});
lane_fn!(WmmaStore, |cx, op| {
    let bytes = drained(cx, op);
    pieces(cx, op, Direction::Store, |cx, checked, first, step| {
        write_bytes(cx, checked, step, |lane, at| {
            let from = &bytes[lane][first..first + step];
            // SAFETY: `pieces` checked `step` bytes of every active lane.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at, step) };
        });
    });
});

/// Returns register `index` of the operand list.
fn listed(cx: &Cx<'_>, op: &Op, index: usize) -> u16 {
    // SAFETY: the lowering made `r[0]` a constant slot, which has 32 words.
    let word = unsafe { *cx.lanes::<u32>(op.r[0]).add(index & 31) };
    u16::try_from(word).unwrap_or(NONE)
}

/// Spreads the lanes' bytes over the registers; registers beyond the fragment repeat it.
fn fill(cx: &Cx<'_>, op: &Op, bytes: &Bytes) {
    let (fragment, _) = described(op.aux);
    let distinct = fragment.registers();
    let width = if fragment.kind == Kind::F64 { 8 } else { 4 };
    for r in 0..REGISTERS {
        let target = listed(cx, op, r);
        if target == NONE {
            return;
        }
        let at = (r % distinct) * width;
        if width == 8 {
            let word = |lane: usize| {
                bytes[lane][at..at + 8]
                    .try_into()
                    .map_or(0, u64::from_le_bytes)
            };
            commit(cx, target, &std::array::from_fn::<u64, 32, _>(word));
        } else {
            let word = |lane: usize| {
                bytes[lane][at..at + 4]
                    .try_into()
                    .map_or(0, u32::from_le_bytes)
            };
            commit(cx, target, &std::array::from_fn::<u32, 32, _>(word));
        }
    }
}

fn drained(cx: &Cx<'_>, op: &Op) -> Bytes {
    let (fragment, _) = described(op.aux);
    let mut bytes: Bytes = [[0; 64]; 32];
    for r in 0..fragment.registers() {
        let source = listed(cx, op, r);
        if fragment.kind == Kind::F64 {
            for (lane, word) in read::<u64>(cx, source).iter().enumerate() {
                bytes[lane][8 * r..8 * r + 8].copy_from_slice(&word.to_le_bytes());
            }
        } else {
            for (lane, word) in read::<u32>(cx, source).iter().enumerate() {
                bytes[lane][4 * r..4 * r + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    bytes
}

/// Rows of eight half-words, one for each lane that gives an address.
type Rows = [[u16; 8]; 32];

/// Returns the half-words that a lane holds of one matrix, as (row, column).
fn halves(lane: usize, transposed: bool) -> [(usize, usize); 2] {
    let at = |half: usize| (lane / 4, 2 * (lane % 4) + half);
    [0, 1].map(|half| {
        let (row, column) = at(half);
        if transposed {
            (column, row)
        } else {
            (row, column)
        }
    })
}

/// Visits the rows of `ldmatrix` and `stmatrix`, whose addresses the first lanes give.
fn rows(
    cx: &mut Cx<'_>,
    op: &Op,
    direction: Direction,
    mut body: impl FnMut(&mut Cx<'_>, &Checked),
) {
    let all = cx.mask;
    let lanes = addresses(cx, op);
    let given = 8 * u32::from(op.vector);
    cx.mask &= if given >= 32 {
        u32::MAX
    } else {
        (1 << given) - 1
    };
    if cx.mask != 0 {
        visit(cx, lanes, op.aux & 0xff, 16, direction, |cx, checked| {
            body(cx, checked);
        });
    }
    cx.mask = all;
}

lane_fn!(
    /// `r[0..4]`: destinations, then the address; `vector`: the matrices.
    LdMatrix, |cx, op| {
    let mut held: Rows = [[0; 8]; 32];
    rows(cx, op, Direction::Load, |cx, checked| {
        for lane in active(cx.mask) {
            let mut bytes = [0; 16];
            read_bytes(cx, checked, lane, &mut bytes);
            let half = |n: usize| u16::from_le_bytes([bytes[2 * n], bytes[2 * n + 1]]);
            held[lane] = std::array::from_fn(half);
        }
    });
    if cx.fault.is_some() {
        return;
    }
    for matrix in 0..usize::from(op.vector) {
        let out: [u32; 32] = std::array::from_fn(|lane| {
            let [low, high] = halves(lane, op.aux & TRANSPOSED != 0)
                .map(|(row, column)| u32::from(held[(8 * matrix + row) % 32][column % 8]));
            high << 16 | low
        });
        if op.r[matrix] != NONE {
            commit(cx, op.r[matrix], &out);
        }
    }
});
lane_fn!(
    /// `r[0..4]`: sources, then the address.
    StMatrix, |cx, op| {
    let mut held: Rows = [[0; 8]; 32];
    for matrix in 0..usize::from(op.vector) {
        let words = read::<u32>(cx, op.r[matrix]);
        for (lane, word) in words.iter().enumerate() {
            let places = halves(lane, op.aux & TRANSPOSED != 0);
            for (half, (row, column)) in places.into_iter().enumerate() {
                #[allow(clippy::cast_possible_truncation, reason = "one half of the word")]
                let value = (word >> (16 * half)) as u16;
                held[(8 * matrix + row) % 32][column % 8] = value;
            }
        }
    }
    rows(cx, op, Direction::Store, |cx, checked| {
        write_bytes(cx, checked, 16, |lane, at| {
            // SAFETY: `rows` checked sixteen bytes of every active lane.
            unsafe { at.cast::<[u16; 8]>().write_unaligned(held[lane]) };
        });
    });
});

/// Lowers `wmma.load` and `wmma.store`.
pub(in crate::exec) fn lower_wmma(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let loads = i.opcode == Opcode::WmmaLoad;
    let words: Vec<&str> = i.mnemonic.split('.').skip(2).collect();
    let role = match (*words.first()?, loads) {
        ("a", true) => 0,
        ("b", true) => 1,
        ("c", true) | ("d", false) => 2,
        _ => return None,
    };
    let shapes = || SHAPES.iter().chain(std::iter::once(&BITS_SHAPE));
    let shape = shapes().position(|(name, _)| words.contains(name))?;
    let kind = KINDS
        .iter()
        .position(|(name, _)| words.last() == Some(name))?;
    let by_columns = match (words.contains(&"row"), words.contains(&"col")) {
        (true, false) => 0,
        (false, true) => BY_COLUMNS,
        _ => return None,
    };
    let number = |n: usize| u32::try_from(n).unwrap_or(0);
    let aux =
        number(kind) << KIND_SHIFT | role << ROLE_SHIFT | number(shape) << SHAPE_SHIFT | by_columns;
    let (fragment, _) = described(aux);
    let (data, address) = if loads { (0, 1) } else { (1, 0) };
    let Operand::Vector(elements) = i.operands.get(data)? else {
        return None;
    };
    let repeats = loads && role != 2 && fragment.kind == Kind::F16;
    let sound = exists(&fragment, shape)
        && elements.len() == if repeats { 8 } else { fragment.registers() };
    if !sound || elements.len() > REGISTERS {
        return None;
    }
    let mut list = [NONE; REGISTERS + 1];
    for (place, element) in list.iter_mut().zip(elements) {
        *place = l.reg(element, fragment.kind == Kind::F64)?;
    }
    let stride = match i.operands.get(2) {
        Some(_) => l.src(i, 2, T::U32)?,
        None => {
            let (minor, groups) = if by_columns == 0 {
                (fragment.columns, fragment.kind)
            } else {
                (fragment.rows, fragment.kind)
            };
            let elements = if groups == Kind::B1 {
                minor * 32
            } else {
                minor
            };
            l.constant(elements as u64, false)
        }
    };
    let place = l.operand_list(&list);
    let exec = if loads {
        once::<WmmaLoad>()
    } else {
        once::<WmmaStore>()
    };
    let space = *i.mods.spaces.first().unwrap_or(&StateSpace::Generic);
    let draft = Draft::alu(exec, Class::Memory, &[place, stride]);
    let mut draft = addressed(l, i.operands.get(address)?, space, draft)?;
    draft.aux |= aux;
    Some(draft)
}

/// Returns whether the ISA has this element type with this shape.
fn exists(fragment: &Fragment, shape: usize) -> bool {
    use Kind as K;
    match (fragment.role, shape) {
        (Role::C, 0..=2) => matches!(fragment.kind, K::F16 | K::F32 | K::S32),
        (_, 0..=2) => matches!(fragment.kind, K::F16 | K::Bf16 | K::U8 | K::S8),
        (Role::C, 3) => fragment.kind == K::F32,
        (_, 3) => fragment.kind == K::Tf32,
        (_, 4) => fragment.kind == K::F64,
        (Role::C, _) => fragment.kind == K::S32,
        (role, 5) => {
            matches!(fragment.kind, K::U4 | K::S4) && fragment.by_columns == (role == Role::B)
        }
        (role, _) => fragment.kind == K::B1 && fragment.by_columns == (role == Role::B),
    }
}

/// Lowers `ldmatrix` and `stmatrix`.
pub(in crate::exec) fn lower_matrix(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let loads = i.opcode == Opcode::LdMatrix;
    let mut count = 0;
    let mut aux = 0;
    for word in i.mnemonic.split('.').skip(1) {
        match word {
            "sync" | "aligned" | "m8n8" | "shared" | "shared::cta" | "b16" => {}
            "x1" => count = 1,
            "x2" => count = 2,
            "x4" => count = 4,
            "trans" => aux |= TRANSPOSED,
            _ => return None,
        }
    }
    let (data, address) = if loads { (0, 1) } else { (1, 0) };
    let elements: Vec<&Operand> = match i.operands.get(data)? {
        Operand::Vector(elements) => elements.iter().collect(),
        single => vec![single],
    };
    if count == 0 || elements.len() != usize::from(count) {
        return None;
    }
    let mut r = [NONE; ADDRESS];
    for (place, element) in r.iter_mut().zip(elements) {
        *place = l.reg(element, false)?;
    }
    let exec = if loads {
        once::<LdMatrix>()
    } else {
        once::<StMatrix>()
    };
    let space = *i.mods.spaces.first().unwrap_or(&StateSpace::Generic);
    let draft = Draft::alu(exec, Class::Memory, &r).vector(count);
    let mut draft = addressed(l, i.operands.get(address)?, space, draft)?;
    draft.aux |= aux;
    Some(draft)
}
