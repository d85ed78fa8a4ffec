//! Texture instructions (PTX ISA section 9.7.10: tex, tld4, txq).
//!
//! Geometries 1d, 2d, 3d, a1d and a2d; images have one mipmap level, so that `.level` and `.grad` choose it.
//! Rules: lanes with the same handle are served together; a fetch reads every texel of the filter's footprint by
//! an access that is checked like a load; a handle that stands for nothing is a fault at its address.

use super::sample::{Axis, Texel, as_float, as_integer, texel};
use crate::exec::cx::{Cx, Direction, Space};
use crate::exec::isa::{lane_fn, once};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::memory::access::{AUX_GLOBAL, visit};
use crate::exec::memory::own_writes::read_bytes;
use crate::exec::op::{Kind, NONE, Op};
use crate::exec::values::round::{self, Half};
use crate::fault::{FaultKind, FaultSpace};
use crate::texture::{Channel, Extent, Image, Object, Sampler, Texture};
use gridmux_ptx::decode::{Instruction, Opcode, Operand, ScalarType as T, TexAddress};

/// Places in the operand list: destinations, coordinates, the object, the sampler.
const COORDINATES: usize = 4;
const OBJECT: usize = 8;
const SAMPLER: usize = 9;

/// `aux`: geometry in the low bits.
const ONE_D: u32 = 0;
const TWO_D: u32 = 1;
const THREE_D: u32 = 2;
const GEOMETRY: u32 = 3;
const LAYERED: u32 = 1 << 2;
const INTEGER_COORDINATES: u32 = 1 << 3;
/// Destination type: f32, integers, pairs of f16.
const TYPE_SHIFT: u32 = 4;
const FLOATS: u32 = 0;
const INTEGERS: u32 = 1;
const HALVES: u32 = 2;
/// `tld4`, and its component.
const GATHER: u32 = 1 << 6;
const COMPONENT_SHIFT: u32 = 7;

/// Returns an entry of the operand list.
pub(in crate::exec) fn listed(cx: &Cx<'_>, op: &Op, index: usize) -> u16 {
    // SAFETY: the lowering made `r[0]` a constant slot, which has 32 words.
    let word = unsafe { *cx.lanes::<u32>(op.r[0]).add(index & 31) };
    u16::try_from(word).unwrap_or(NONE)
}

/// Calls `body` for each group of active lanes with one object, their mask set.
pub(super) fn by_object(
    cx: &mut Cx<'_>,
    op: &Op,
    index: usize,
    mut body: impl FnMut(&mut Cx<'_>, &Object),
) {
    let all = cx.mask;
    cx.access.mask = 0;
    let handles = read::<u64>(cx, listed(cx, op, index));
    let mut left = all;
    while left != 0 && cx.fault.is_none() {
        let first = left.trailing_zeros();
        let handle = handles[first as usize & 31];
        let same = active(left)
            .filter(|n| handles[*n] == handle)
            .fold(0, |m, n| m | 1 << n);
        left &= !same;
        cx.mask = same;
        match object(cx, handle) {
            Some(object) => body(cx, &object),
            None => {
                let kind = FaultKind::OutOfBounds {
                    write: false,
                    space: FaultSpace::Global,
                    bytes: 8,
                };
                cx.fail(kind, first, Some(handle));
            }
        }
    }
    cx.mask = all;
}

/// Returns the object of a handle, or of the reference variable at that address.
fn object(cx: &Cx<'_>, handle: u64) -> Option<Object> {
    if let Some(object) = cx.domain.objects().get(handle) {
        return Some(*object);
    }
    let found = cx.domain.find(handle)?;
    if found.end() - handle < 8 {
        return None;
    }
    let at = cx
        .domain
        .host_bias()
        .wrapping_add(usize::try_from(handle).ok()?);
    // SAFETY: the eight bytes lie inside a live allocation of the domain.
    let handle = unsafe { at.cast::<u64>().read_unaligned() };
    cx.domain.objects().get(handle).copied()
}

/// Returns the device addresses of one texel for each lane; lanes without one are left out of the mask.
pub(in crate::exec) fn fetch(
    cx: &mut Cx<'_>,
    image: &Image,
    texels: &[[Option<u32>; 3]; 32],
) -> [[u8; 16]; 32] {
    let mut out = [[0; 16]; 32];
    let all = cx.mask;
    let [_, height, _] = image.extent.sizes();
    let mut lanes = [0; 32];
    let mut inside = 0;
    for lane in active(all) {
        let [Some(x), Some(y), Some(z)] = texels[lane] else {
            continue;
        };
        let row = u64::from(z) * u64::from(height) + u64::from(y);
        lanes[lane] =
            image.address + row * image.row_bytes + u64::from(x) * u64::from(image.texel_bytes());
        inside |= 1 << lane;
    }
    cx.mask = inside;
    let bytes = image.texel_bytes();
    visit(
        cx,
        lanes,
        AUX_GLOBAL,
        bytes,
        Direction::Load,
        |cx, checked| {
            for lane in active(cx.mask) {
                read_bytes(cx, checked, lane, &mut out[lane][..bytes as usize]);
            }
        },
    );
    cx.mask = all;
    cx.access.space = Space::Texture;
    out
}

lane_fn!(Sample, |cx, op| {
    let mut out = [[0_u32; 32]; 4];
    by_object(cx, op, OBJECT, |cx, object| {
        if let Object::Texture(texture) = object {
            sample(cx, op, texture, &mut out);
        }
    });
    if cx.fault.is_some() {
        return;
    }
    for (index, words) in out.iter().enumerate() {
        let target = listed(cx, op, index);
        if target != NONE {
            commit(cx, target, words);
        }
    }
});

/// Samples one texture for the lanes of the mask.
fn sample(cx: &mut Cx<'_>, op: &Op, texture: &Texture, out: &mut [[u32; 32]; 4]) {
    let sampler = separate_sampler(cx, op).unwrap_or(texture.sampler);
    let axes = all_axes(cx, op, texture, &sampler);
    let gathers = op.aux & GATHER != 0;
    let mut sums: [Texel; 32] = [[0.0; 4]; 32];
    let mut gathered: [Texel; 32] = [[0.0; 4]; 32];
    let component = (op.aux >> COMPONENT_SHIFT & 3) as usize;
    // Neighbours along each axis: bit 0 x, bit 1 y, bit 2 z. `tld4` names them counter-clockwise from the lower left.
    let corners = match (sampler.linear || gathers, op.aux & GEOMETRY) {
        (false, _) => 1,
        (true, ONE_D) => 2,
        (true, TWO_D) => 4,
        _ => 8,
    };
    for corner in 0..corners {
        let bit = |axis: usize| corner >> axis & 1;
        let texels: [[Option<u32>; 3]; 32] = std::array::from_fn(|lane| {
            std::array::from_fn(|axis| axes[lane][axis].texels[bit(axis)])
        });
        let bytes = fetch(cx, &texture.image, &texels);
        for lane in active(cx.mask) {
            let outside = texels[lane].iter().any(Option::is_none);
            let v = texel(&bytes[lane], &texture.image, texture.normalized_float);
            let v = if outside { [0.0; 4] } else { v };
            let weight = (0..3).fold(1.0, |weight, axis| {
                let second = f64::from(axes[lane][axis].weight) / 256.0;
                weight * if bit(axis) == 1 { second } else { 1.0 - second }
            });
            for (sum, v) in sums[lane].iter_mut().zip(v) {
                // A weight of zero takes nothing, not even NaN.
                *sum += if weight > 0.0 { weight * v } else { 0.0 };
            }
            if gathers {
                gathered[lane][[3, 2, 0, 1][corner % 4]] = v[component];
            }
        }
    }
    for lane in active(cx.mask) {
        let v = if gathers { gathered[lane] } else { sums[lane] };
        put(op.aux >> TYPE_SHIFT & 3, v, lane, out);
    }
}

fn put(ty: u32, v: Texel, lane: usize, out: &mut [[u32; 32]; 4]) {
    if ty == HALVES {
        for (word, pair) in out.iter_mut().zip(v.chunks_exact(2)) {
            let [low, high] = [pair[0], pair[1]].map(|v| {
                let rounded = round::to_single(round::round::<Half>(v, round::NEAREST));
                u32::from(round::single_to_half(rounded))
            });
            word[lane] = high << 16 | low;
        }
        return;
    }
    for (word, v) in out.iter_mut().zip(v) {
        word[lane] = if ty == FLOATS {
            as_float(v)
        } else {
            as_integer(v)
        };
    }
}

/// Returns the sampler operand, as the first active lane names it.
fn separate_sampler(cx: &Cx<'_>, op: &Op) -> Option<Sampler> {
    let operand = listed(cx, op, SAMPLER);
    if operand == NONE {
        return None;
    }
    let handle = read::<u64>(cx, operand)[cx.mask.trailing_zeros() as usize & 31];
    match object(cx, handle)? {
        Object::Sampler(sampler) => Some(sampler),
        Object::Texture(texture) => Some(texture.sampler),
        Object::Surface(_) => None,
    }
}

/// Texels and weights of every lane along x, y and z; a layer is a z without a filter.
fn all_axes(cx: &Cx<'_>, op: &Op, texture: &Texture, sampler: &Sampler) -> [[Axis; 3]; 32] {
    let words: [[u32; 32]; 4] = std::array::from_fn(|n| match listed(cx, op, COORDINATES + n) {
        NONE => [0; 32],
        operand => read::<u32>(cx, operand),
    });
    let sizes = texture.image.extent.sizes();
    let layered = op.aux & LAYERED != 0;
    let dimensions = (op.aux & GEOMETRY) as usize + 1;
    let filters = sampler.linear || op.aux & GATHER != 0;
    let is_buffer = matches!(texture.image.extent, Extent::Buffer { .. });
    std::array::from_fn(|lane| {
        let mut axes = [Axis::ONLY; 3];
        let first = usize::from(layered);
        for (axis, place) in axes.iter_mut().enumerate().take(dimensions) {
            let word = words[(first + axis) % 4][lane];
            let mode = sampler.address_modes[axis];
            let mode = if is_buffer {
                crate::texture::AddressMode::Border
            } else {
                mode
            };
            *place = if op.aux & INTEGER_COORDINATES != 0 {
                Axis::integer(word.cast_signed().into(), sizes[axis], mode)
            } else {
                Axis::float(f32::from_bits(word), sizes[axis], mode, sampler, filters)
            };
        }
        if layered {
            // Layers are clamped (CUDA C++ Programming Guide, "Layered Textures").
            let mode = crate::texture::AddressMode::Clamp;
            axes[2] = Axis::integer(words[0][lane].into(), sizes[2], mode);
        }
        axes
    })
}

/// Questions of `txq` and `suq`.
const QUESTIONS: [&str; 13] = [
    "width",
    "height",
    "depth",
    "channel_data_type",
    "channel_order",
    "normalized_coords",
    "array_size",
    "num_mipmap_levels",
    "num_samples",
    "filter_mode",
    "addr_mode_0",
    "addr_mode_1",
    "addr_mode_2",
];

lane_fn!(
    /// `txq` and `suq`; `aux` is the question.
    Query, |cx, op| {
    let mut out = [0; 32];
    by_object(cx, op, OBJECT, |cx, object| {
        let answer = answer(object, QUESTIONS[op.aux as usize % QUESTIONS.len()]);
        active(cx.mask).for_each(|lane| out[lane] = answer);
    });
    if cx.fault.is_none() {
        commit(cx, listed(cx, op, 0), &out);
    }
});

/// Values as OpenCL numbers them, which the ISA's tables repeat (PTX ISA section 5.3.2).
fn answer(object: &Object, question: &str) -> u32 {
    let (texture, sampler) = match object {
        Object::Texture(texture) => (Some(texture), Some(&texture.sampler)),
        Object::Sampler(sampler) => (None, Some(sampler)),
        Object::Surface(_) => (None, None),
    };
    if let Some(axis) = question.strip_prefix("addr_mode_") {
        let axis = axis.parse().unwrap_or(0_usize).min(2);
        return sampler.map_or(0, |s| match s.address_modes[axis] {
            crate::texture::AddressMode::Wrap => 0,
            crate::texture::AddressMode::Mirror => 1,
            crate::texture::AddressMode::Clamp => 3,
            crate::texture::AddressMode::Border => 4,
        });
    }
    let Some(image) = object.image() else {
        return match question {
            "filter_mode" => sampler.map_or(0, |s| u32::from(s.linear)),
            _ => 0,
        };
    };
    let [width, height, depth] = image.extent.sizes();
    let layers = match image.extent {
        Extent::OneD { layers, .. } | Extent::TwoD { layers, .. } => layers,
        _ => 0,
    };
    let flat = matches!(image.extent, Extent::Buffer { .. } | Extent::OneD { .. });
    match question {
        "width" => width,
        "height" if flat => 0,
        "height" => height,
        "depth" if matches!(image.extent, Extent::ThreeD { .. }) => depth,
        "array_size" => layers,
        "num_mipmap_levels" | "num_samples" => 1,
        "normalized_coords" => sampler.map_or(0, |s| u32::from(s.normalized)),
        "filter_mode" => sampler.map_or(0, |s| u32::from(s.linear)),
        "channel_order" => [0x10b0, 0x10b0, 0x10b2, 0x10b4, 0x10b5][image.channels as usize % 5],
        "channel_data_type" => channel_code(image, texture.is_some_and(|t| t.normalized_float)),
        _ => 0,
    }
}

fn channel_code(image: &Image, normalized: bool) -> u32 {
    match (image.channel, normalized) {
        (Channel::S8, true) => 0x10d0,
        (Channel::S16, true) => 0x10d1,
        (Channel::U8, true) => 0x10d2,
        (Channel::U16, true) => 0x10d3,
        (Channel::S8, false) => 0x10d7,
        (Channel::S16, false) => 0x10d8,
        (Channel::S32, _) => 0x10d9,
        (Channel::U8, false) => 0x10da,
        (Channel::U16, false) => 0x10db,
        (Channel::U32, _) => 0x10dc,
        (Channel::F16, _) => 0x10dd,
        (Channel::F32, _) => 0x10de,
    }
}

/// Lowers `tex`, `tld4`, `txq` and `suq`.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let words: Vec<&str> = i.mnemonic.split('.').skip(1).collect();
    if matches!(i.opcode, Opcode::Txq | Opcode::Suq) {
        return query(l, i, &words);
    }
    let mut aux = geometry(&words)?;
    let (to, from) = (*i.mods.types.first()?, *i.mods.types.get(1)?);
    aux |= match to {
        T::F32 => FLOATS,
        T::U32 | T::S32 => INTEGERS,
        T::F16x2 => HALVES,
        _ => return None,
    } << TYPE_SHIFT;
    aux |= match from {
        T::S32 => INTEGER_COORDINATES,
        T::F32 => 0,
        _ => return None,
    };
    if i.opcode == Opcode::Tld4 {
        let component = ["r", "g", "b", "a"]
            .iter()
            .position(|c| words.first() == Some(c))?;
        aux |= GATHER | u32::try_from(component).ok()? << COMPONENT_SHIFT;
        if aux & GEOMETRY != TWO_D {
            return None;
        }
    }
    // Levels and gradients choose among mipmap levels, of which there is one; offsets and comparisons are refused.
    let extra = match (words.contains(&"level"), words.contains(&"grad")) {
        (true, _) => 1,
        (_, true) => 2,
        _ => 0,
    };
    if i.operands.len() != 2 + extra {
        return None;
    }
    let Operand::Vector(targets) = i.operands.first()? else {
        return None;
    };
    let mut list = operand_list(l, i.operands.get(1)?, aux)?;
    for (place, target) in list.iter_mut().zip(targets) {
        if *target != Operand::Sink {
            *place = l.reg(target, false)?;
        }
    }
    let list = l.operand_list(&list);
    let draft = Draft::alu(once::<Sample>(), Class::Memory, &[list]).kind(Kind::Memory);
    Some(draft.aux(aux))
}

/// Returns the geometry of the instruction's words.
pub(super) fn geometry(words: &[&str]) -> Option<u32> {
    words.iter().find_map(|word| {
        Some(match *word {
            "1d" => ONE_D,
            "2d" => TWO_D,
            "3d" => THREE_D,
            "a1d" => ONE_D | LAYERED,
            "a2d" => TWO_D | LAYERED,
            _ => return None,
        })
    })
}

/// Dimensions of the coordinates, and whether a layer stands before them.
pub(in crate::exec) fn dimensions(aux: u32) -> (usize, bool) {
    ((aux & GEOMETRY) as usize + 1, aux & LAYERED != 0)
}

/// Coordinates, object and sampler in their places, destinations absent.
pub(in crate::exec) fn operand_list(
    l: &mut Lower<'_>,
    operand: &Operand,
    aux: u32,
) -> Option<[u16; 10]> {
    let Operand::TexAddress(address) = operand else {
        return None;
    };
    let TexAddress {
        object,
        sampler,
        coordinates,
    } = &**address;
    let mut list = [NONE; 10];
    let (count, layered) = dimensions(aux);
    let needed = count + usize::from(layered);
    for (place, coordinate) in list[COORDINATES..OBJECT]
        .iter_mut()
        .zip(coordinates)
        .take(needed)
    {
        *place = l.value(coordinate, T::B32)?;
    }
    if coordinates.len() < needed {
        return None;
    }
    list[OBJECT] = l.value(object, T::U64)?;
    if let Some(sampler) = sampler {
        list[SAMPLER] = l.value(sampler, T::U64)?;
    }
    Some(list)
}

/// Returns the index of coordinate `n` in the list.
pub(super) const fn coordinate(n: usize) -> usize {
    COORDINATES + n
}

/// Returns the index of the object in the list.
pub(super) const fn object_place() -> usize {
    OBJECT
}

fn query(l: &mut Lower<'_>, i: &Instruction, words: &[&str]) -> Option<Draft> {
    let question = QUESTIONS.iter().position(|q| words.contains(q))?;
    let base = match i.operands.get(1)? {
        Operand::Address { base, offset: 0 } => *base,
        _ => return None,
    };
    let object = match base {
        gridmux_ptx::decode::AddressBase::Reg(reg) => Operand::Reg(reg),
        gridmux_ptx::decode::AddressBase::Symbol(symbol) => Operand::Symbol { symbol, offset: 0 },
        gridmux_ptx::decode::AddressBase::Absolute => return None,
    };
    let mut list = [NONE; 10];
    list[0] = l.dst(i, T::B32)?;
    list[OBJECT] = l.value(&object, T::U64)?;
    let list = l.operand_list(&list);
    let draft = Draft::alu(once::<Query>(), Class::Move, &[list]);
    Some(draft.aux(u32::try_from(question).ok()?))
}
