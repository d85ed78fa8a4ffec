//! Matrix products (PTX ISA sections 9.7.14 and 9.7.15: mma, wmma.mma) and movmatrix.
//!
//! The registers of the warp are gathered into matrices, multiplied, and dealt back.
//! Semantics of accumulation, which the ISA leaves open: floating-point products are exact; for f16, bf16, tf32
//! and 8-bit floats they are summed in double precision with k ascending, C is added last, and the sum is rounded
//! once, to nearest even, to D's type. For f64 each step is one fused multiply-add in D's rounding mode, k
//! ascending, starting from C. Integer sums are exact and then wrap, or clamp under `.satfinite`.
//! Rule: all lanes of the warp take part, as the ISA demands; lanes outside the mask keep their registers.

use super::fragment::{Family, Fragment, KINDS, Kind, Role};
use super::timing::{Factor, MatrixWork};
use crate::exec::cx::Cx;
use crate::exec::isa::{handler, lane_fn, once};
use crate::exec::lanes::{commit, read};
use crate::exec::lower::{Class, Draft, Lower};
use crate::exec::op::Op;
use crate::exec::values::exact;
use crate::exec::values::half::Small;
use crate::exec::values::round::{self, E4m3, E5m2, Half};
use gridmux_ptx::decode::{Instruction, Opcode, Operand, ScalarType as T};

/// Elements of the largest A or B, and of the largest C.
const FACTOR: usize = 1024;
const RESULT: usize = 512;

/// Registers of one operand in the operand list.
const STRIDE: usize = 8;

/// What an instruction says; packed into the immediate.
#[derive(Debug, Clone, Copy)]
struct Product {
    family: Family,
    m: usize,
    n: usize,
    /// In elements as fragments count them: groups of 32 for single bits.
    k: usize,
    a: Kind,
    b: Kind,
    c: Kind,
    d: Kind,
    a_by_columns: bool,
    b_by_columns: bool,
    satfinite: bool,
    /// `.and.popc` rather than `.xor.popc`.
    and: bool,
    mode: u32,
}

const FAMILIES: [Family; 3] = [Family::Mma, Family::Volta, Family::Wmma];

impl Product {
    fn pack(&self) -> i64 {
        let kind = |kind: Kind| KINDS.iter().position(|(_, k)| *k == kind).unwrap_or(0);
        let family = FAMILIES.iter().position(|f| *f == self.family).unwrap_or(0);
        let mode = self.mode as usize;
        let fields = [
            (family, 2),
            (self.m, 6),
            (self.n, 6),
            (self.k, 7),
            (kind(self.a), 4),
            (kind(self.b), 4),
            (kind(self.c), 4),
            (kind(self.d), 4),
            (self.a_by_columns.into(), 1),
            (self.b_by_columns.into(), 1),
            (self.satfinite.into(), 1),
            (self.and.into(), 1),
            (mode, 3),
        ];
        let mut shift = 0;
        let mut packed = 0_u64;
        for (value, bits) in fields {
            packed |= (value as u64) << shift;
            shift += bits;
        }
        packed.cast_signed()
    }

    #[inline(always)]
    fn unpack(packed: i64) -> Self {
        let mut rest = packed.cast_unsigned();
        let mut field = |bits: u32| {
            let value = usize::try_from(rest & ((1 << bits) - 1)).unwrap_or(0);
            rest >>= bits;
            value
        };
        let family = FAMILIES[field(2) % 3];
        let (m, n, k) = (field(6), field(6), field(7));
        let mut kind = || KINDS[field(4) % KINDS.len()].1;
        let (a, b, c, d) = (kind(), kind(), kind(), kind());
        let (a_by_columns, b_by_columns) = (field(1) != 0, field(1) != 0);
        let (satfinite, and) = (field(1) != 0, field(1) != 0);
        Self {
            family,
            m,
            n,
            k,
            a,
            b,
            c,
            d,
            a_by_columns,
            b_by_columns,
            satfinite,
            and,
            mode: u32::try_from(field(3)).unwrap_or(0),
        }
    }

    #[inline(always)]
    fn fragment(&self, role: Role, kind: Kind) -> Fragment {
        let (rows, columns, by_columns) = match role {
            Role::A => (self.m, self.k, self.a_by_columns),
            Role::B => (self.k, self.n, self.b_by_columns),
            Role::C => (self.m, self.n, false),
        };
        Fragment {
            family: self.family,
            role,
            kind,
            rows,
            columns,
            by_columns,
        }
    }

    /// Products that the warp computes side by side.
    #[inline(always)]
    fn parts(&self) -> usize {
        if self.family == Family::Volta { 4 } else { 1 }
    }

    /// Returns the part that a lane belongs to.
    #[inline(always)]
    fn part_of(&self, lane: usize) -> usize {
        if self.family == Family::Volta {
            lane / 4 % 4
        } else {
            0
        }
    }
}

/// Returns a register of all lanes, as words of 64 bits.
#[inline(always)]
fn register(cx: &Cx<'_>, operand: u16, kind: Kind) -> [u64; 32] {
    if kind == Kind::F64 {
        read::<u64>(cx, operand)
    } else {
        read::<u32>(cx, operand).map(u64::from)
    }
}

/// Returns the operand list: D, A, B, C, `STRIDE` registers each.
#[inline(always)]
fn listed(cx: &Cx<'_>, op: &Op, index: usize) -> u16 {
    // SAFETY: the lowering made `r[0]` a constant slot, which has 32 words, and every index here is below 32.
    let word = unsafe { *cx.lanes::<u32>(op.r[0]).add(index & 31) };
    u16::try_from(word).unwrap_or(0)
}

/// Calls `put` with (part, row, column, raw bits) of every element.
#[inline(always)]
fn for_each(
    cx: &Cx<'_>,
    op: &Op,
    first: usize,
    product: &Product,
    fragment: &Fragment,
    mut put: impl FnMut(usize, usize, usize, u64),
) {
    let per_register = fragment.kind.per_register();
    let (count, bits) = (fragment.per_lane(), fragment.kind.bits());
    let mask = if bits == 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    };
    for r in 0..fragment.registers() {
        let words = register(cx, listed(cx, op, first + r), fragment.kind);
        for (lane, word) in words.iter().enumerate() {
            for e in r * per_register..count.min((r + 1) * per_register) {
                let (row, column) = fragment.place(lane, e);
                let raw = word >> (bits * (e % per_register)) & mask;
                put(product.part_of(lane), row, column, raw);
            }
        }
    }
}

/// Deals the elements of D back to the registers.
#[inline(always)]
fn deal(cx: &Cx<'_>, op: &Op, product: &Product, get: impl Fn(usize, usize, usize) -> u64) {
    let fragment = product.fragment(Role::C, product.d);
    let per_register = fragment.kind.per_register();
    let (count, bits) = (fragment.per_lane(), fragment.kind.bits());
    for r in 0..fragment.registers() {
        let out: [u64; 32] = std::array::from_fn(|lane| {
            (r * per_register..count.min((r + 1) * per_register)).fold(0, |word, e| {
                let (row, column) = fragment.place(lane, e);
                word | get(product.part_of(lane), row, column) << (bits * (e % per_register))
            })
        });
        let target = listed(cx, op, r);
        if product.d == Kind::F64 {
            commit(cx, target, &out);
        } else {
            #[allow(clippy::cast_possible_truncation, reason = "a 32-bit register")]
            commit(cx, target, &out.map(|word| word as u32));
        }
    }
}

#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the field is as wide as its type"
)]
fn to_double(raw: u64, kind: Kind) -> f64 {
    match kind {
        Kind::F16 => round::half_to_single(raw as u16).into(),
        Kind::Bf16 => round::brain_to_single(raw as u16).into(),
        // The low thirteen bits of a tf32 register mean nothing.
        Kind::Tf32 => f32::from_bits(raw as u32 & !0x1fff).into(),
        Kind::E4m3 => round::from_eight::<E4m3>(raw as u8),
        Kind::E5m2 => round::from_eight::<E5m2>(raw as u8),
        Kind::F64 => f64::from_bits(raw),
        _ => f32::from_bits(raw as u32).into(),
    }
}

#[inline(always)]
fn from_double(v: f64, kind: Kind) -> u64 {
    match kind {
        Kind::F16 => Half::narrow(round::to_single(round::round::<Half>(v, round::NEAREST))).into(),
        Kind::F64 => v.to_bits(),
        _ if v.is_nan() => 0x7fff_ffff,
        _ => round::to_single(v).to_bits().into(),
    }
}

#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the field is as wide as its type"
)]
fn to_int(raw: u64, kind: Kind) -> i64 {
    match kind {
        Kind::U8 | Kind::U4 => raw.cast_signed(),
        Kind::S8 => i64::from((raw as u8).cast_signed()),
        Kind::S4 => (raw << 60).cast_signed() >> 60,
        _ => i64::from((raw as u32).cast_signed()),
    }
}

lane_fn!(
    /// Floating point; `r[0]`: the operand list; `imm`: the product.
    Floats, |cx, op| {
    let p = Product::unpack(op.imm);
    let mut a = [0.0_f64; FACTOR];
    let mut b = [0.0_f64; FACTOR];
    let mut c = [0.0_f64; RESULT];
    let (m, n, k) = (p.m, p.n, p.k);
    for_each(cx, op, STRIDE, &p, &p.fragment(Role::A, p.a), |part, row, column, raw| {
        a[(part * m * k + row * k + column) % FACTOR] = to_double(raw, p.a);
    });
    for_each(cx, op, 2 * STRIDE, &p, &p.fragment(Role::B, p.b), |part, row, column, raw| {
        b[(part * k * n + row * n + column) % FACTOR] = to_double(raw, p.b);
    });
    for_each(cx, op, 3 * STRIDE, &p, &p.fragment(Role::C, p.c), |part, row, column, raw| {
        c[(part * m * n + row * n + column) % RESULT] = to_double(raw, p.c);
    });
    for part in 0..p.parts() {
        for row in 0..m {
            let start = part * m * n + row * n;
            let Some(c) = c.get_mut(start..start + n) else { return };
            let mut sums = [0.0_f64; 32];
            if p.d == Kind::F64 {
                sums[..n].copy_from_slice(c);
            }
            for step in 0..k {
                let x = a[(part * m * k + row * k + step) % FACTOR];
                let start = (part * k * n + step * n) % FACTOR;
                for (sum, y) in sums[..n].iter_mut().zip(&b[start..]) {
                    *sum = if p.mode == round::NEAREST {
                        x.mul_add(*y, *sum)
                    } else {
                        exact::fused(x, *y, *sum, p.mode)
                    };
                }
            }
            for (place, sum) in c.iter_mut().zip(sums) {
                *place = if p.d == Kind::F64 { sum } else { *place + sum };
            }
        }
    }
    deal(cx, op, &p, |part, row, column| {
        from_double(c[(part * m * n + row * n + column) % RESULT], p.d)
    });
});
lane_fn!(
    /// Integers and single bits, in the same form.
    Integers, |cx, op| {
    let p = Product::unpack(op.imm);
    let mut a = [0_i64; FACTOR];
    let mut b = [0_i64; FACTOR];
    let mut c = [0_i64; RESULT];
    let (m, n, k) = (p.m, p.n, p.k);
    for_each(cx, op, STRIDE, &p, &p.fragment(Role::A, p.a), |_, row, column, raw| {
        a[(row * k + column) % FACTOR] = to_int(raw, p.a);
    });
    for_each(cx, op, 2 * STRIDE, &p, &p.fragment(Role::B, p.b), |_, row, column, raw| {
        b[(row * n + column) % FACTOR] = to_int(raw, p.b);
    });
    for_each(cx, op, 3 * STRIDE, &p, &p.fragment(Role::C, p.c), |_, row, column, raw| {
        c[(row * n + column) % RESULT] = to_int(raw, p.c);
    });
    let one = |x: i64, y: i64| match (p.a, p.and) {
        (Kind::B1, true) => i64::from((low(x) & low(y)).count_ones()),
        (Kind::B1, false) => i64::from((low(x) ^ low(y)).count_ones()),
        _ => x * y,
    };
    for row in 0..m {
        for step in 0..k {
            let x = a[(row * k + step) % FACTOR];
            for column in 0..n {
                c[(row * n + column) % RESULT] += one(x, b[(step * n + column) % FACTOR]);
            }
        }
    }
    deal(cx, op, &p, |_, row, column| {
        let sum = c[(row * n + column) % RESULT];
        let bounded = sum.clamp(i32::MIN.into(), i32::MAX.into());
        low(if p.satfinite { bounded } else { sum }).into()
    });
});
lane_fn!(
    /// `movmatrix.m8n8.trans.b16`; `r`: destination, source.
    Transpose, |cx, op| {
    let a = read::<u32>(cx, op.r[1]);
    let out: [u32; 32] = std::array::from_fn(|lane| {
        (0..2).fold(0, |word, half| {
            // Lane `l` holds row l / 4, columns 2 (l mod 4) and one more.
            let (row, column) = (2 * (lane % 4) + half, lane / 4);
            let source = a[(row * 4 + column / 2) % 32] >> (16 * (column % 2)) & 0xffff;
            word | source << (16 * half)
        })
    });
    commit(cx, op.r[0], &out);
});

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the low word")]
fn low(v: i64) -> u32 {
    v as u32
}

/// Lowers `mma` and `wmma.mma`.
pub(crate) fn lower(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    let product = described(i)?;
    let operand = |n: usize| match i.operands.get(n) {
        Some(Operand::Vector(elements)) => Some(&**elements),
        _ => None,
    };
    let roles = [
        (Role::C, product.d),
        (Role::A, product.a),
        (Role::B, product.b),
        (Role::C, product.c),
    ];
    let mut list = [0_u16; 4 * STRIDE];
    for (n, (role, kind)) in roles.into_iter().enumerate() {
        let fragment = product.fragment(role, kind);
        let elements = match operand(n) {
            Some(elements) => elements.iter().collect(),
            None => vec![i.operands.get(n)?],
        };
        if elements.len() != registers_named(&product, &fragment) {
            return None;
        }
        let ty = if kind == Kind::F64 { T::B64 } else { T::B32 };
        for (r, element) in elements.into_iter().enumerate().take(fragment.registers()) {
            list[n * STRIDE + r] = match n {
                0 => l.reg(element, kind == Kind::F64)?,
                _ => l.value(element, ty)?,
            };
        }
    }
    let exec = match product.d {
        Kind::S32 => handler::<Integers>(),
        _ => handler::<Floats>(),
    };
    let place = l.operand_list(&list);
    let class = Class::Tensor(work(&product)?);
    Some(Draft::alu(exec, class, &[place]).imm(product.pack()))
}

/// Returns what a product costs.
fn work(p: &Product) -> Option<MatrixWork> {
    let (factor, bits) = match p.a {
        Kind::F16 | Kind::Bf16 => (Factor::F16, 16),
        Kind::Tf32 => (Factor::Tf32, 32),
        Kind::E4m3 | Kind::E5m2 => (Factor::F8, 8),
        Kind::F64 => (Factor::F64, 64),
        Kind::U8 | Kind::S8 => (Factor::Int8, 8),
        Kind::U4 | Kind::S4 => (Factor::Int4, 4),
        // Counted in groups of 32.
        Kind::B1 => (Factor::Bits, 32),
        Kind::F32 | Kind::S32 => return None,
    };
    let grouped = if p.a == Kind::B1 { 32 } else { 1 };
    let results = u32::try_from(p.m * p.n * p.parts()).ok()?;
    let k = u32::try_from(p.k).ok()?;
    Some(MatrixWork {
        products: results * k * grouped,
        results,
        k_bits: k * bits,
        factor,
    })
}

/// Registers that the instruction names for a fragment: `wmma` on f16 always names eight for A and B.
fn registers_named(product: &Product, fragment: &Fragment) -> usize {
    let repeats =
        product.family == Family::Wmma && fragment.role != Role::C && product.a == Kind::F16;
    if repeats { 8 } else { fragment.registers() }
}

fn described(i: &Instruction) -> Option<Product> {
    let words: Vec<&str> = i.mnemonic.split('.').collect();
    let is_wmma = i.opcode == Opcode::WmmaMma;
    let types: Vec<Kind> = words.iter().filter_map(|w| kind_named(w)).collect();
    let (d, a, b, c) = match types.as_slice() {
        [d, a, b, c] => (*d, *a, *b, *c),
        // `wmma.mma` on f16 names only D and C.
        [d, c] if is_wmma => (*d, Kind::F16, Kind::F16, *c),
        _ => return None,
    };
    let (m, n, k) = words.iter().find_map(|w| shape(w))?;
    let layouts: Vec<bool> = words
        .iter()
        .filter(|w| matches!(**w, "row" | "col"))
        .map(|w| *w == "col")
        .collect();
    let [a_by_columns, b_by_columns] = layouts.as_slice() else {
        return None;
    };
    let family = match (is_wmma, a, (m, n, k)) {
        (true, ..) => Family::Wmma,
        (false, Kind::F16, (8, 8, 4)) => Family::Volta,
        _ => Family::Mma,
    };
    let and = words.contains(&"and");
    let mode = ["rn", "rz", "rm", "rp"]
        .iter()
        .position(|w| words.contains(w))
        .unwrap_or(0);
    let known = |w: &&str| {
        matches!(
            *w,
            "mma"
                | "wmma"
                | "sync"
                | "aligned"
                | "row"
                | "col"
                | "satfinite"
                | "and"
                | "xor"
                | "popc"
        ) || matches!(*w, "rn" | "rz" | "rm" | "rp")
            || kind_named(w).is_some()
            || shape(w).is_some()
    };
    let product = Product {
        family,
        m,
        n,
        k: if a == Kind::B1 { k / 32 } else { k },
        a,
        b,
        c,
        d,
        a_by_columns: *a_by_columns,
        b_by_columns: *b_by_columns,
        satfinite: words.contains(&"satfinite"),
        and,
        mode: u32::try_from(mode).ok()?,
    };
    let sound = words.iter().all(known)
        && exists(&product, k)
        && (family != Family::Mma || (!a_by_columns && *b_by_columns))
        && (mode == 0 || d == Kind::F64);
    sound.then_some(product)
}

fn kind_named(word: &str) -> Option<Kind> {
    KINDS
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, kind)| *kind)
}

/// Returns m, n and k of a word such as `m16n8k16`.
fn shape(word: &str) -> Option<(usize, usize, usize)> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

/// Returns whether the ISA has a product of these types and this shape; `k` as written.
fn exists(p: &Product, k: usize) -> bool {
    use Kind as K;
    let shape = (p.m, p.n, k);
    let float_result = matches!(p.c, K::F16 | K::F32) && matches!(p.d, K::F16 | K::F32);
    let tall = [(16, 16, 16), (8, 32, 16), (32, 8, 16)].contains(&shape);
    match (p.family, p.a, p.b) {
        (Family::Wmma, K::F16, K::F16) => float_result && tall,
        (Family::Wmma, K::Bf16, K::Bf16) => p.c == K::F32 && p.d == K::F32 && tall,
        (Family::Wmma, K::Tf32, K::Tf32) => p.c == K::F32 && p.d == K::F32 && shape == (16, 16, 8),
        (_, K::F64, K::F64) => {
            let wide = [(16, 8, 4), (16, 8, 8), (16, 8, 16)].contains(&shape);
            p.c == K::F64
                && p.d == K::F64
                && (shape == (8, 8, 4) || (wide && p.family == Family::Mma))
        }
        (Family::Wmma, K::U8 | K::S8, _) => p.a == p.b && p.c == K::S32 && p.d == K::S32 && tall,
        (Family::Wmma, K::U4 | K::S4, _) => {
            p.a == p.b && p.c == K::S32 && p.d == K::S32 && shape == (8, 8, 32)
        }
        (Family::Wmma, K::B1, K::B1) => p.c == K::S32 && p.d == K::S32 && shape == (8, 8, 128),
        (Family::Volta, K::F16, K::F16) => float_result && (p.c == p.d || p.d == K::F32),
        (Family::Mma, K::F16, K::F16) => float_result && [(16, 8, 8), (16, 8, 16)].contains(&shape),
        (Family::Mma, K::Bf16, K::Bf16) => {
            p.c == K::F32 && p.d == K::F32 && [(16, 8, 8), (16, 8, 16)].contains(&shape)
        }
        (Family::Mma, K::Tf32, K::Tf32) => {
            p.c == K::F32 && p.d == K::F32 && [(16, 8, 4), (16, 8, 8)].contains(&shape)
        }
        (Family::Mma, K::E4m3 | K::E5m2, K::E4m3 | K::E5m2) => {
            float_result && [(16, 8, 16), (16, 8, 32)].contains(&shape)
        }
        (Family::Mma, K::U8 | K::S8, K::U8 | K::S8) => {
            let sizes = [(8, 8, 16), (16, 8, 16), (16, 8, 32)];
            p.c == K::S32 && p.d == K::S32 && sizes.contains(&shape)
        }
        (Family::Mma, K::U4 | K::S4, K::U4 | K::S4) => {
            let sizes = [(8, 8, 32), (16, 8, 32), (16, 8, 64)];
            p.c == K::S32 && p.d == K::S32 && sizes.contains(&shape)
        }
        (Family::Mma, K::B1, K::B1) => {
            let sizes = [(8, 8, 128), (16, 8, 128), (16, 8, 256)];
            p.c == K::S32 && p.d == K::S32 && sizes.contains(&shape)
        }
        _ => false,
    }
}

/// Lowers `movmatrix.sync.aligned.m8n8.trans.b16`.
pub(in crate::exec) fn lower_transpose(l: &mut Lower<'_>, i: &Instruction) -> Option<Draft> {
    if &*i.mnemonic != "movmatrix.sync.aligned.m8n8.trans.b16" {
        return None;
    }
    let operands = l.operands(i, [T::B32; 2])?;
    Some(Draft::alu(once::<Transpose>(), Class::Shuffle, &operands))
}
