//! Fragments of `mma`: which element of a matrix each lane holds, by the ISA's formulas, written per shape as the ISA
//! writes them.

use super::{bits, encode};

/// `mma.m16n8…` and `mma.m8n8…`: row and column of element `i` of a lane.
pub(super) struct Shape {
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) a: fn(usize, usize) -> (usize, usize),
    pub(super) b: fn(usize, usize) -> (usize, usize),
}

pub(super) fn c_place(lane: usize, i: usize) -> (usize, usize) {
    (
        if i < 2 { lane / 4 } else { lane / 4 + 8 },
        lane % 4 * 2 + (i & 1),
    )
}

pub(super) fn group(lane: usize) -> usize {
    lane >> 2
}

pub(super) fn t(lane: usize) -> usize {
    lane % 4
}

pub(super) const F64_884: Shape = Shape {
    m: 8,
    k: 4,
    a: |l, _| (group(l), t(l)),
    b: |l, _| (t(l), group(l)),
};
pub(super) const K16: Shape = Shape {
    m: 16,
    k: 16,
    a: |l, i| {
        let row = if i < 2 || (4..6).contains(&i) {
            group(l)
        } else {
            group(l) + 8
        };
        let column = t(l) * 2 + (i & 1) + if i >= 4 { 8 } else { 0 };
        (row, column)
    },
    b: |l, i| (t(l) * 2 + (i & 1) + if i >= 2 { 8 } else { 0 }, group(l)),
};
pub(super) const K8_HALF: Shape = Shape {
    m: 16,
    k: 8,
    a: |l, i| {
        (
            if i < 2 { group(l) } else { group(l) + 8 },
            t(l) * 2 + (i & 1),
        )
    },
    b: |l, i| (t(l) * 2 + i, group(l)),
};
pub(super) const K4_WORD: Shape = Shape {
    m: 16,
    k: 4,
    a: |l, i| (group(l) + 8 * i, t(l)),
    b: |l, _| (t(l), group(l)),
};
pub(super) const K8_WORD: Shape = Shape {
    m: 16,
    k: 8,
    a: |l, i| {
        (
            if i == 0 || i == 2 {
                group(l)
            } else {
                group(l) + 8
            },
            if i < 2 { t(l) } else { t(l) + 4 },
        )
    },
    b: |l, i| (if i == 0 { t(l) } else { t(l) + 4 }, group(l)),
};
pub(super) const K16_F64: Shape = Shape {
    m: 16,
    k: 16,
    a: |l, i| {
        (
            if i % 2 == 0 { group(l) } else { group(l) + 8 },
            (i >> 1) * 4 + t(l),
        )
    },
    b: |l, i| (4 * i + t(l), group(l)),
};
pub(super) const S8_8816: Shape = Shape {
    m: 8,
    k: 16,
    a: |l, i| (group(l), t(l) * 4 + i),
    b: |l, i| (t(l) * 4 + i, group(l)),
};
pub(super) const S8_K16: Shape = Shape {
    m: 16,
    k: 16,
    a: |l, i| {
        (
            if i < 4 { group(l) } else { group(l) + 8 },
            t(l) * 4 + (i & 3),
        )
    },
    b: |l, i| (t(l) * 4 + (i & 3), group(l)),
};
pub(super) const S8_K32: Shape = Shape {
    m: 16,
    k: 32,
    a: |l, i| {
        let upper = i < 4 || (8..12).contains(&i);
        (
            if upper { group(l) } else { group(l) + 8 },
            t(l) * 4 + (i & 3) + if i < 8 { 0 } else { 16 },
        )
    },
    b: |l, i| (t(l) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, group(l)),
};
pub(super) const S4_8832: Shape = Shape {
    m: 8,
    k: 32,
    a: |l, i| (group(l), t(l) * 8 + i),
    b: |l, i| (t(l) * 8 + i, group(l)),
};
pub(super) const S4_K32: Shape = Shape {
    m: 16,
    k: 32,
    a: |l, i| {
        (
            if i < 8 { group(l) } else { group(l) + 8 },
            t(l) * 8 + (i & 7),
        )
    },
    b: |l, i| (t(l) * 8 + i, group(l)),
};
pub(super) const S4_K64: Shape = Shape {
    m: 16,
    k: 64,
    a: |l, i| {
        let upper = i < 8 || (16..24).contains(&i);
        (
            if upper { group(l) } else { group(l) + 8 },
            t(l) * 8 + (i & 7) + if i < 16 { 0 } else { 32 },
        )
    },
    b: |l, i| (t(l) * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, group(l)),
};
pub(super) const B1_88128: Shape = Shape {
    m: 8,
    k: 128,
    a: |l, i| (group(l), t(l) * 32 + i),
    b: |l, i| (t(l) * 32 + i, group(l)),
};
pub(super) const B1_K128: Shape = Shape {
    m: 16,
    k: 128,
    a: |l, i| {
        (
            if i < 32 { group(l) } else { group(l) + 8 },
            t(l) * 32 + (i & 31),
        )
    },
    b: |l, i| (t(l) * 32 + i, group(l)),
};
pub(super) const B1_K256: Shape = Shape {
    m: 16,
    k: 256,
    a: |l, i| {
        let upper = i < 32 || (64..96).contains(&i);
        (
            if upper { group(l) } else { group(l) + 8 },
            t(l) * 32 + (i & 31) + if i < 64 { 0 } else { 128 },
        )
    },
    b: |l, i| {
        (
            t(l) * 32 + (i & 31) + if i < 32 { 0 } else { 128 },
            group(l),
        )
    },
};

/// Returns a lane's registers: elements packed from the lowest bit on.
pub(super) fn deal(
    ty: &str,
    per_lane: usize,
    element: impl Fn(usize, usize) -> i64,
) -> Vec<Vec<u64>> {
    let width = bits(ty) as usize;
    let register = if width == 64 { 64 } else { 32 };
    (0..32)
        .map(|lane| {
            let mut registers = vec![0_u64; (per_lane * width).div_ceil(register)];
            for i in 0..per_lane {
                registers[i * width / register] |=
                    encode(ty, element(lane, i)) << (i * width % register);
            }
            registers
        })
        .collect()
}

/// Loads the registers of an operand from a buffer of lane-major words; gives its PTX.
pub(super) fn operand(
    ptx: &mut String,
    param: usize,
    registers: usize,
    wide: bool,
    first: usize,
) -> String {
    let (bytes, name, load) = if wide {
        (8, "%fd", "f64")
    } else {
        (4, "%r", "b32")
    };
    *ptx += &format!(
        "ld.param.u64 %rd0, [p{param}];\nmad.wide.u32 %rd0, %r60, {}, %rd0;\n",
        bytes * registers
    );
    let mut names = Vec::new();
    for r in 0..registers {
        *ptx += &format!(
            "ld.global.{load} {name}{}, [%rd0+{}];\n",
            first + r,
            bytes * r
        );
        names.push(format!("{name}{}", first + r));
    }
    format!("{{{}}}", names.join(", "))
}

pub(super) fn flat(registers: &[Vec<u64>], wide: bool) -> Vec<u8> {
    let word = |v: &u64| v.to_le_bytes()[..if wide { 8 } else { 4 }].to_vec();
    registers.iter().flatten().flat_map(word).collect()
}
