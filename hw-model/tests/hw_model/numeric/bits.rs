//! Logic, shifts and bit fields, bit by bit as the ISA's pseudo-code has them (PTX ISA sections 9.7.1, 9.7.8 and
//! 9.7.9).

use crate::numeric::values::{table, value};

fn bit(v: u64, n: i64) -> u64 {
    if (0..64).contains(&n) { v >> n & 1 } else { 0 }
}

#[test]
fn logic() {
    for bits in [16, 32, 64] {
        let two = [bits, bits];
        table(&format!("and.b{bits}"), &two, bits, |v| v[0] & v[1]);
        table(&format!("or.b{bits}"), &two, bits, |v| v[0] | v[1]);
        table(&format!("xor.b{bits}"), &two, bits, |v| v[0] ^ v[1]);
        table(&format!("not.b{bits}"), &[bits], bits, |v| !v[0]);
        table(&format!("cnot.b{bits}"), &[bits], bits, |v| {
            u64::from(v[0] == 0)
        });
    }
    for lut in [0x00_u64, 0x1b, 0x80, 0x96, 0xe8, 0xff] {
        table(
            &format!("lop3.b32 %d, %a, %b, %c, {lut};"),
            &[32; 3],
            32,
            |v| {
                (0..32).fold(0, |d, n| {
                    let row = bit(v[0], n) << 2 | bit(v[1], n) << 1 | bit(v[2], n);
                    d | bit(lut, row as i64) << n
                })
            },
        );
    }
}

#[test]
fn shifts() {
    for bits in [16_u32, 32, 64] {
        let inputs = [bits, 32];
        let by = |v: u64| (v & 0xffff_ffff).min(200) as i64;
        let n = i64::from(bits);
        table(&format!("shl.b{bits}"), &inputs, bits, |v| {
            (0..n).fold(0, |d, k| {
                d | bit(v[0], k - by(v[1])) * u64::from(k >= by(v[1])) << k
            })
        });
        for ty in ["u", "b", "s"] {
            table(&format!("shr.{ty}{bits}"), &inputs, bits, |v| {
                let fill = if ty == "s" { bit(v[0], n - 1) } else { 0 };
                (0..n).fold(0, |d, k| {
                    let from = k + by(v[1]);
                    d | (if from < n { bit(v[0], from) } else { fill }) << k
                })
            });
        }
    }
    for (mode, wraps) in [("wrap", true), ("clamp", false)] {
        let by = |c: u64| if wraps { c & 31 } else { c.min(32) } as u32;
        let joined = |v: &[u64]| u128::from(v[1]) << 32 | u128::from(v[0]);
        table(&format!("shf.l.{mode}.b32"), &[32; 3], 32, |v| {
            (joined(v) << by(v[2]) >> 32) as u64
        });
        table(&format!("shf.r.{mode}.b32"), &[32; 3], 32, |v| {
            (joined(v) >> by(v[2])) as u64
        });
    }
}

#[test]
fn counting_and_finding() {
    for bits in [32_u32, 64] {
        let n = i64::from(bits);
        table(&format!("popc.b{bits}"), &[bits], 32, |v| {
            (0..n).map(|k| bit(v[0], k)).sum()
        });
        table(&format!("clz.b{bits}"), &[bits], 32, |v| {
            (0..n).take_while(|k| bit(v[0], n - 1 - k) == 0).count() as u64
        });
        table(&format!("brev.b{bits}"), &[bits], bits, |v| {
            (0..n).fold(0, |d, k| d | bit(v[0], k) << (n - 1 - k))
        });
        for is_signed in [false, true] {
            let ty = if is_signed { "s" } else { "u" };
            let found = |v: u64| {
                let v = if is_signed && bit(v, n - 1) == 1 {
                    !v
                } else {
                    v
                };
                (0..n).rev().find(|k| bit(v, *k) == 1)
            };
            table(&format!("bfind.{ty}{bits}"), &[bits], 32, |v| {
                found(v[0]).map_or(u64::MAX, |k| k as u64)
            });
            table(&format!("bfind.shiftamt.{ty}{bits}"), &[bits], 32, |v| {
                found(v[0]).map_or(u64::MAX, |k| (n - 1 - k) as u64)
            });
        }
    }
    table("fns.b32", &[32, 32, 32], 32, |v| {
        let (mask, base, offset) = (v[0], (v[1] & 31) as i64, v[2] as u32 as i32);
        if offset == 0 {
            return if bit(mask, base) == 1 {
                base as u64
            } else {
                u64::MAX
            };
        }
        let positions: Vec<i64> = if offset > 0 {
            (base..32).collect()
        } else {
            (0..=base).rev().collect()
        };
        let mut set = positions.into_iter().filter(|k| bit(mask, *k) == 1);
        set.nth(offset.unsigned_abs() as usize - 1)
            .map_or(u64::MAX, |k| k as u64)
    });
}

#[test]
fn fields() {
    for (ty, bits, is_signed) in [
        ("u32", 32_u32, false),
        ("s32", 32, true),
        ("u64", 64, false),
        ("s64", 64, true),
    ] {
        let msb = i64::from(bits) - 1;
        table(&format!("bfe.{ty}"), &[bits, 32, 32], bits, |v| {
            let (pos, len) = ((v[1] & 0xff) as i64, (v[2] & 0xff) as i64);
            let sign = if !is_signed || len == 0 {
                0
            } else {
                bit(v[0], (pos + len - 1).min(msb))
            };
            (0..=msb).fold(0, |d, i| {
                let inside = i < len && pos + i <= msb;
                d | (if inside { bit(v[0], pos + i) } else { sign }) << i
            })
        });
    }
    for bits in [32_u32, 64] {
        let msb = i64::from(bits) - 1;
        table(&format!("bfi.b{bits}"), &[bits, bits, 32, 32], bits, |v| {
            let (pos, len) = ((v[2] & 0xff) as i64, (v[3] & 0xff) as i64);
            (0..len).filter(|i| pos + i <= msb).fold(v[1], |f, i| {
                f & !(1 << (pos + i)) | bit(v[0], i) << (pos + i)
            })
        });
    }
    for (mode, wraps) in [("wrap", true), ("clamp", false)] {
        table(&format!("bmsk.{mode}.b32"), &[32, 32], 32, |v| {
            let part = |v: u64| if wraps { v & 31 } else { v.min(32) };
            ((1_u128 << part(v[1])) - 1 << part(v[0])) as u64
        });
        for (ty, is_signed) in [("u32", false), ("s32", true)] {
            table(&format!("szext.{mode}.{ty}"), &[32, 32], 32, |v| {
                let width = if !wraps && v[1] >= 32 {
                    32
                } else {
                    (v[1] & 31) as u32
                };
                if width == 0 {
                    0
                } else {
                    value(v[0] & (u64::MAX >> (64 - width)), width, is_signed) as u64
                }
            });
        }
    }
}

#[test]
fn permutations() {
    let byte = |v: &[u64], n: u64| (v[1] << 32 | v[0]) >> (8 * n) & 0xff;
    table("prmt.b32", &[32; 3], 32, |v| {
        (0..4).fold(0, |d, n| {
            let selector = v[2] >> (4 * n) & 15;
            let b = byte(v, selector & 7);
            d | (if selector & 8 == 0 {
                b
            } else {
                (b >> 7) * 0xff
            }) << (8 * n)
        })
    });
    // Source bytes of d's bytes 3, 2, 1, 0 for each control value, from the ISA's table.
    let modes = [
        (
            "f4e",
            [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]],
        ),
        (
            "b4e",
            [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]],
        ),
        ("rc8", [[0; 4], [1; 4], [2; 4], [3; 4]]),
        (
            "ecl",
            [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]],
        ),
        (
            "ecr",
            [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]],
        ),
        (
            "rc16",
            [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]],
        ),
    ];
    for (mode, selectors) in modes {
        table(&format!("prmt.b32.{mode}"), &[32; 3], 32, |v| {
            let row = selectors[(v[2] & 3) as usize];
            row.iter()
                .fold(0, |d, selector| d << 8 | byte(v, *selector))
        });
    }
}
