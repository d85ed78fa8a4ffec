//! Surface instructions (PTX ISA section 9.7.11: suld, sust, sured).
//!
//! Rules: `.b` counts x in bytes and moves bits as they are; `.p` counts x in texels and converts to the image's
//! channels; outside the image `.trap` faults, `.clamp` takes the nearest place, `.zero` reads zero and stores
//! nothing.

use super::fetch::{
    by_object, coordinate, dimensions, geometry, listed, object_place, operand_list,
};
use crate::exec::cx::{Cx, Direction};
use crate::exec::isa::{lane_fn, once};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::memory::access::{AUX_GLOBAL, host, visit};
use crate::exec::memory::exchange::{change, is_among_others};
use crate::exec::memory::own_writes::{read_bytes, write_bytes};
use crate::exec::op::{Kind, NONE, Op};
use crate::exec::values::round::{Half, NEAREST, round, single_to_half, to_single};
use crate::fault::{FaultKind, FaultSpace};
use crate::texture::{Channel, Image, Object};
use gridmux_ptx::decode::{Instruction, Opcode, Operand, ScalarType as T};

/// `aux`: geometry in the low three bits, then what follows.
const CLAMP: u32 = 1 << 3;
const ZERO: u32 = 1 << 4;
/// Sample addressing and conversion (`.p`).
const FORMATTED: u32 = 1 << 5;
/// Log2 of an element's bytes.
const SIZE_SHIFT: u32 = 6;
const SIGNED: u32 = 1 << 9;
/// The reduction of `sured`.
const CODE_SHIFT: u32 = 10;
const ADD: u32 = 0;
const MIN: u32 = 1;
const MAX: u32 = 2;
const AND: u32 = 3;
const OR: u32 = 4;
/// Of a code for [`reduce`]: other processes may change the word as well.
const AMONG_OTHERS: u32 = 1 << 31;

/// Addresses of the lanes' accesses of `bytes` bytes; the mask loses lanes that `.zero` leaves out.
fn addresses(cx: &mut Cx<'_>, op: &Op, image: &Image, bytes: u32) -> [u64; 32] {
    let words: [[u32; 32]; 4] = std::array::from_fn(|n| match listed(cx, op, coordinate(n)) {
        NONE => [0; 32],
        operand => read::<u32>(cx, operand),
    });
    let (count, layered) = dimensions(op.aux);
    let [width, height, depth] = image.extent.sizes();
    let texel = image.texel_bytes();
    let unit = if op.aux & FORMATTED != 0 { texel } else { 1 };
    let row = i64::from(width) * i64::from(texel);
    let mut out = [0; 32];
    let mut kept = 0;
    for lane in active(cx.mask) {
        let at =
            |axis: usize| i64::from(words[(axis + usize::from(layered)) % 4][lane].cast_signed());
        let x = at(0) * i64::from(unit);
        let y = if count > 1 { at(1) } else { 0 };
        let z = match (count, layered) {
            (3, _) => at(2),
            (_, true) => i64::from(words[0][lane]),
            _ => 0,
        };
        let limits = [
            row - i64::from(bytes),
            i64::from(height) - 1,
            i64::from(depth) - 1,
        ];
        let inside = [x, y, z]
            .iter()
            .zip(limits)
            .all(|(v, high)| (0..=high).contains(v));
        // What is longer than a row fits nowhere, not even clamped.
        if !inside && (op.aux & CLAMP == 0 || limits[0] < 0) {
            if op.aux & (ZERO | CLAMP) == 0 {
                let kind = FaultKind::OutOfBounds {
                    write: op.kind != Kind::Alu,
                    space: FaultSpace::Global,
                    bytes,
                };
                cx.fail(kind, u32::try_from(lane).unwrap_or(0), Some(image.address));
                cx.mask = 0;
                return out;
            }
            continue;
        }
        let [x, y, z] = [x, y, z];
        let clamped = |v: i64, high: i64| v.clamp(0, high.max(0)).cast_unsigned();
        // A clamped x stays aligned, because a row is a whole number of texels.
        let rows = clamped(z, limits[2]) * u64::from(height) + clamped(y, limits[1]);
        out[lane] = image.address + rows * image.row_bytes + clamped(x, limits[0]);
        kept |= 1 << lane;
    }
    cx.mask = kept;
    out
}

/// Returns the bytes of one element and how many.
fn elements(op: &Op) -> (usize, usize) {
    (1 << (op.aux >> SIZE_SHIFT & 7), usize::from(op.vector))
}

fn register(cx: &Cx<'_>, operand: u16, size: usize) -> [u64; 32] {
    if size == 8 {
        read::<u64>(cx, operand)
    } else {
        read::<u32>(cx, operand).map(u64::from)
    }
}

lane_fn!(Load, |cx, op| {
    let (size, count) = elements(op);
    let bytes = size * count;
    let mut held = [[0_u8; 32]; 32];
    by_object(cx, op, object_place(), |cx, object| {
        let Some(image) = object.image() else { return };
        let length = u32::try_from(bytes).unwrap_or(1);
        let lanes = addresses(cx, op, image, length);
        visit(
            cx,
            lanes,
            AUX_GLOBAL,
            length,
            Direction::Load,
            |cx, checked| {
                for lane in active(cx.mask) {
                    read_bytes(cx, checked, lane, &mut held[lane][..bytes]);
                }
            },
        );
    });
    if cx.fault.is_some() {
        return;
    }
    for element in 0..count {
        let words: [u64; 32] = std::array::from_fn(|lane| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(&held[lane][element * size..(element + 1) * size]);
            u64::from_le_bytes(word)
        });
        let target = listed(cx, op, element);
        if target == NONE {
            continue;
        }
        if size == 8 {
            commit(cx, target, &words);
        } else {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "an element of at most 32 bits"
            )]
            commit(cx, target, &words.map(|word| word as u32));
        }
    }
});
lane_fn!(Store, |cx, op| {
    let (size, count) = elements(op);
    let sources: [[u64; 32]; 4] = std::array::from_fn(|element| match listed(cx, op, element) {
        NONE => [0; 32],
        operand => register(cx, operand, size),
    });
    by_object(cx, op, object_place(), |cx, object| {
        let Object::Surface(image) = object else {
            return;
        };
        let formatted = op.aux & FORMATTED != 0;
        let bytes = if formatted {
            image.texel_bytes() as usize
        } else {
            size * count
        };
        let length = u32::try_from(bytes).unwrap_or(1);
        let lanes = addresses(cx, op, image, length);
        visit(
            cx,
            lanes,
            AUX_GLOBAL,
            length,
            Direction::Store,
            |cx, checked| {
                write_bytes(cx, checked, bytes, |lane, at| {
                    let values: [u64; 4] = std::array::from_fn(|element| sources[element][lane]);
                    let data = if formatted {
                        texel(image, values)
                    } else {
                        packed(values, size)
                    };
                    // SAFETY: `visit` checked `bytes` bytes of every active lane, at most 32.
                    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), at, bytes) };
                });
            },
        );
    });
});
lane_fn!(Reduce, |cx, op| {
    let (size, _) = elements(op);
    let operands = register(cx, listed(cx, op, 0), size);
    by_object(cx, op, object_place(), |cx, object| {
        let Object::Surface(image) = object else {
            return;
        };
        let length = u32::try_from(size).unwrap_or(4);
        let lanes = addresses(cx, op, image, length);
        visit(
            cx,
            lanes,
            AUX_GLOBAL,
            length,
            Direction::Atomic,
            |cx, checked| {
                let others = if is_among_others(cx) { AMONG_OTHERS } else { 0 };
                let (mask, base, code) = (cx.mask, checked.base, op.aux | others);
                let addresses = &cx.access.addresses;
                if let Some(log) = cx.log.as_mut() {
                    log.lanes(mask, size, reduce, code, None, false, |lane| {
                        (host(base, addresses[lane]), operands[lane], 0)
                    });
                    return;
                }
                for lane in active(mask) {
                    let at = host(base, addresses[lane]);
                    // SAFETY: `visit` checked `size` bytes of global memory at the lane's address.
                    unsafe { reduce(at, operands[lane], 0, code) };
                }
            },
        );
    });
});

/// Returns a [`crate::exec::memory::log::LaneFn`]; `code`: the operation's `aux`.
#[allow(
    clippy::cast_possible_truncation,
    reason = "words of the access's size"
)]
unsafe fn reduce(at: *mut u8, b: u64, _: u64, code: u32) -> u64 {
    let among_others = code & AMONG_OTHERS != 0;
    // SAFETY: the caller passes the address of a checked access of this size, of global memory.
    unsafe {
        match code >> SIZE_SHIFT & 7 {
            3 => change(at.cast(), among_others, |old| reduced(code, old, b, 8)),
            _ => {
                let new = |old: u32| reduced(code, old.into(), b, 4) as u32;
                change(at.cast(), among_others, new).into()
            }
        }
    }
}

fn packed(values: [u64; 4], size: usize) -> [u8; 32] {
    let mut out = [0; 32];
    for (place, value) in out.chunks_exact_mut(size).zip(values) {
        place.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    out
}

/// Returns a texel made of 32-bit values: floats for float channels, integers clamped to narrower ones.
fn texel(image: &Image, values: [u64; 4]) -> [u8; 32] {
    let size = image.channel.bytes() as usize;
    let mut out = [0; 32];
    let places = out.chunks_exact_mut(size).zip(values);
    for (place, value) in places.take(image.channels as usize) {
        let word = u32::try_from(value & 0xffff_ffff).unwrap_or(0);
        let stored = match image.channel {
            Channel::F32 | Channel::U32 | Channel::S32 => word,
            Channel::F16 => {
                let v = f64::from(f32::from_bits(word));
                let rounded = round::<Half>(v, NEAREST);
                u32::from(single_to_half(to_single(rounded)))
            }
            Channel::U8 => word.min(0xff),
            Channel::U16 => word.min(0xffff),
            Channel::S8 => word.cast_signed().clamp(-128, 127).cast_unsigned(),
            Channel::S16 => word.cast_signed().clamp(-32768, 32767).cast_unsigned(),
        };
        place.copy_from_slice(&stored.to_le_bytes()[..size]);
    }
    out
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "words of the access's size"
)]
fn reduced(aux: u32, old: u64, new: u64, size: usize) -> u64 {
    let signed = |v: u64| {
        if size == 8 {
            v.cast_signed()
        } else {
            i64::from((v as u32).cast_signed())
        }
    };
    let smaller = if aux & SIGNED != 0 {
        signed(old) < signed(new)
    } else {
        old < new
    };
    match aux >> CODE_SHIFT & 7 {
        ADD => old.wrapping_add(new),
        MIN => {
            if smaller {
                old
            } else {
                new
            }
        }
        MAX => {
            if smaller {
                new
            } else {
                old
            }
        }
        AND => old & new,
        _ => old | new,
    }
}

/// Lowers the family's opcodes.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let words: Vec<&str> = i.mnemonic.split('.').skip(1).collect();
    let mut aux = geometry(&words)?;
    aux |= match *words.last()? {
        "trap" => 0,
        "clamp" => CLAMP,
        "zero" => ZERO,
        _ => return None,
    };
    let ty = *i.mods.types.first()?;
    aux |= match *words.first()? {
        "b" => 0,
        "p" if i.opcode != Opcode::Suld => FORMATTED,
        _ => return None,
    };
    let size = ty.size_bytes();
    let vector = i.mods.vector.max(1);
    let (data, address, exec) = match i.opcode {
        Opcode::Suld => (0, 1, once::<Load>()),
        Opcode::Sust => (1, 0, once::<Store>()),
        _ => {
            aux |= reduction(i, ty)?;
            (1, 0, once::<Reduce>())
        }
    };
    if !size.is_power_of_two() || size > 8 || vector > 4 || size * u32::from(vector) > 16 {
        return None;
    }
    aux |= size.trailing_zeros() << SIZE_SHIFT;
    let mut list = operand_list(l, i.operands.get(address)?, aux)?;
    let single = i.operands.get(data)?;
    let parts: Vec<&Operand> = match single {
        Operand::Vector(parts) => parts.iter().collect(),
        single => vec![single],
    };
    if parts.len() != usize::from(vector) {
        return None;
    }
    for (place, part) in list.iter_mut().zip(parts) {
        *place = match part {
            Operand::Sink if data == 0 => continue,
            Operand::Reg(_) => l.reg(part, size == 8)?,
            literal if data == 1 => l.value(literal, if size == 8 { T::B64 } else { T::B32 })?,
            _ => return None,
        };
    }
    let list = l.operand_list(&list);
    let draft = Draft::alu(exec, Class::Memory, &[list]).kind(Kind::Memory);
    Some(draft.aux(aux).vector(vector))
}

fn reduction(i: &Instruction, ty: T) -> Option<u32> {
    let code = i.mnemonic.split('.').find_map(|word| {
        Some(match word {
            "add" => ADD,
            "min" => MIN,
            "max" => MAX,
            "and" => AND,
            "or" => OR,
            _ => return None,
        })
    })?;
    let signed = if ty.is_signed() { SIGNED } else { 0 };
    (ty.size_bytes() >= 4).then_some(code << CODE_SHIFT | signed)
}
