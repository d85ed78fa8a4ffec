//! Moving, packing and unpacking, address spaces, lanes and atomics (PTX ISA sections 9.7.9 and 9.7.13).

use crate::numeric::values::{floats, integers, table};
use crate::support::exact::{BF16, Expected, F16, Operation, result};
use crate::support::opcode::{Table, report};

#[test]
fn packing() {
    table("mov.b32 %d, {%a, %b};", &[16, 16], 32, |v| {
        v[0] | v[1] << 16
    });
    table("mov.b64 %d, {%a, %b};", &[32, 32], 64, |v| {
        v[0] | v[1] << 32
    });
    table("mov.b64 %d, {%a, %b, %c, %e};", &[16; 4], 64, |v| {
        v[0] | v[1] << 16 | v[2] << 32 | v[3] << 48
    });
    table("mov.b32 {%h0, %d}, %a;", &[32], 16, |v| v[0] >> 16);
    table("mov.b32 {%d, _}, %a;", &[32], 16, |v| v[0]);
    table("mov.b64 {_, %d}, %a;", &[64], 32, |v| v[0] >> 32);
    table("mov.b64 {%h0, %h1, %d, %h3}, %a;", &[64], 16, |v| {
        v[0] >> 32
    });
    for (part, shift) in [("{%d, %l0}", 0), ("{%l0, %d}", 1)] {
        let body = format!("mov.b128 %w, {{%a, %b}};\nmov.b128 %w2, %w;\nmov.b128 {part}, %w2;");
        table(
            &format!(".reg .b128 %w, %w2;\n{body}"),
            &[64, 64],
            64,
            |v| v[shift],
        );
    }
    report("mov.b128 ");
    for (ty, bits) in [
        ("u16", 16),
        ("s16", 16),
        ("b16", 16),
        ("u32", 32),
        ("s32", 32),
        ("b32", 32),
        ("f32", 32),
        ("u64", 64),
        ("s64", 64),
        ("b64", 64),
        ("f64", 64),
    ] {
        table(&format!("mov.{ty} %d, %a;"), &[bits], bits, |v| v[0]);
    }
}

#[test]
fn sixteen_bytes_through_memory() {
    let body = ".reg .b128 %w;\n.shared .align 16 .b8 cell[1024];\n\
                mov.u32 %x0, cell;\nmad.lo.u32 %x0, %i0, 16, %x0;\nmov.b128 %w, {%a, %b};\nst.shared.b128 [%x0], %w;\n\
                ld.shared.v2.u64 {%l0, %l1}, [%x0];\nst.shared.v2.u64 [%x0], {%l1, %l0};\nld.shared.b128 %w, [%x0];\n\
                mov.b128 {%l2, %l3}, %w;\nsub.u64 %d, %l2, %l3;";
    let body = format!("mov.u32 %i0, %tid.x;\n{body}");
    table(&body, &[64, 64], 64, |v| v[1].wrapping_sub(v[0]));
    report("ld.shared.b128 ");
    report("st.shared.b128 ");
}

#[test]
fn spaces_of_addresses() {
    for (space, declared) in [
        ("shared", ".shared .b32 cell[4];"),
        ("local", ".local .b32 cell[4];"),
    ] {
        let store = if space == "shared" {
            "%tid.x"
        } else {
            "%laneid"
        };
        // Lanes of a warp write the same value, so that shared memory holds it whoever comes last.
        let body = format!(
            "{declared}\ncvta.{space}.u64 %l0, cell;\nmov.u32 %x0, {store};\nst.u32 [%l0+4], 77;\n\
             cvta.to.{space}.u64 %l1, %l0;\n\
             ld.{space}.u32 %x1, [%l1+4];\nisspacep.{space} %p, %l0;\nselp.u32 %x2, 100, 0, %p;\n\
             isspacep.global %p, %l0;\n\
             selp.u32 %x3, 1000, 0, %p;\nadd.u32 %d, %x1, %x2;\nadd.u32 %d, %d, %x3;"
        );
        table(&body, &[32], 32, |_| 177);
        for name in ["cvta", "cvta.to", "isspacep"] {
            let suffix = if name == "isspacep" { "" } else { ".u64" };
            report(&format!("{name}.{space}{suffix} "));
        }
    }
    let body = "isspacep.global %p, %at0;\nselp.u32 %d, 1, 0, %p;";
    table(body, &[32], 32, |_| 1);
}

#[test]
fn special_registers() {
    let rows = integers(32, 1)[0].len() / 32 * 32;
    let blocks = rows.div_ceil(64) as u64;
    let body = "mov.u32 %x0, %laneid;\nmov.u32 %x1, %nctaid.x;\nmov.u32 %x2, %ntid.x;\n\
                mad.lo.u32 %d, %x1, 100, %x0;\nmad.lo.u32 %d, %x2, 100000, %d;";
    lanes(body, 32, |_, lane| 6_400_000 + blocks * 100 + lane as u64);
}

/// Rows in the order of threads, so that lane n of warp w is row 32 w + n.
fn lanes(body: &str, bits: u32, want: impl Fn(&[u64], usize) -> u64) {
    let columns = integers(bits, 1);
    let rows = columns[0].len() / 32 * 32;
    let column: Vec<u64> = columns[0][..rows].to_vec();
    let ty = format!("b{bits}");
    let got = Table::new(body, &[&ty], "b32", std::slice::from_ref(&column)).run();
    for (row, got) in got.iter().enumerate() {
        let warp = &column[row / 32 * 32..row / 32 * 32 + 32];
        assert_eq!(
            *got,
            want(warp, row % 32) & 0xffff_ffff,
            "{body} in lane {}",
            row % 32
        );
    }
    report(body);
}

#[test]
fn shuffles() {
    for (b, c) in [
        (0_u32, 0x1f_u32),
        (1, 0x1f),
        (5, 0x1f),
        (31, 0x1f),
        (3, 0x181f),
        (9, 0x1c03),
        (2, 0),
    ] {
        for mode in ["up", "down", "bfly", "idx"] {
            // The ISA's pseudo-code.
            let source = |lane: u32| {
                let (bval, cval, mask) = (b & 31, c & 31, c >> 8 & 31);
                let max = (lane & mask) | (cval & !mask);
                let min = lane & mask;
                let (j, inside) = match mode {
                    "up" => (
                        lane as i64 - i64::from(bval),
                        lane as i64 - i64::from(bval) >= i64::from(max),
                    ),
                    "down" => (i64::from(lane + bval), lane + bval <= max),
                    "bfly" => (i64::from(lane ^ bval), lane ^ bval <= max),
                    _ => {
                        let j = min | (bval & !mask & 31);
                        (i64::from(j), j <= max)
                    }
                };
                if inside {
                    (j as usize, 1)
                } else {
                    (lane as usize, 0)
                }
            };
            let body = format!(
                "shfl.sync.{mode}.b32 %x0|%p, %a, {b}, {c}, -1;\nselp.u32 %x1, 1, 0, %p;\nmad.lo.u32 %d, %x0, 2, %x1;"
            );
            lanes(&body, 32, |warp, lane| {
                let (from, inside) = source(lane as u32);
                (warp[from] as u32)
                    .wrapping_mul(2)
                    .wrapping_add(inside)
                    .into()
            });
            if c == 0x1f {
                let body = format!("shfl.{mode}.b32 %d, %a, {b}, {c};");
                lanes(&body, 32, |warp, lane| warp[source(lane as u32).0]);
            }
        }
    }
}

#[test]
fn votes_and_matches() {
    let odd = "and.b32 %x0, %a, 1;\nsetp.eq.u32 %p, %x0, 1;\n";
    let yes = |warp: &[u64]| {
        warp.iter()
            .enumerate()
            .fold(0_u64, |m, (n, v)| m | (v & 1) << n)
    };
    let all = u64::from(u32::MAX);
    lanes(
        &format!("{odd}vote.sync.ballot.b32 %d, %p, -1;"),
        32,
        |w, _| yes(w),
    );
    for (mode, want) in [
        ("all", (|y, a| y == a) as fn(u64, u64) -> bool),
        ("any", |y, _| y != 0),
        ("uni", |y, a| y == 0 || y == a),
    ] {
        let body = format!("{odd}vote.sync.{mode}.pred %q, !%p, -1;\nselp.u32 %d, 1, 0, %q;");
        lanes(&body, 32, |w, _| u64::from(want(!yes(w) & all, all)));
        report(&format!("vote.sync.{mode}.pred "));
    }
    report("vote.sync.ballot.b32 ");
    for bits in [32, 64] {
        let (to, mask) = if bits == 32 {
            ("%x0", "%x0")
        } else {
            ("%l0", "%l0")
        };
        let narrow = format!("and.b{bits} {to}, %a, 3;\n");
        let same = |w: &[u64], lane: usize| {
            w.iter()
                .enumerate()
                .fold(0, |m, (n, v)| m | u64::from(v & 3 == w[lane] & 3) << n)
        };
        lanes(
            &format!("{narrow}match.any.sync.b{bits} %d, {mask}, -1;"),
            bits,
            |w, lane| same(w, lane),
        );
        let body = format!(
            "{narrow}match.all.sync.b{bits} %x1|%p, {mask}, -1;\nselp.u32 %x2, 1, 0, %p;\nadd.u32 %d, %x1, %x2;"
        );
        lanes(
            &body,
            bits,
            |w, lane| if same(w, lane) == all { all + 1 } else { 0 },
        );
        report(&format!("match.any.sync.b{bits} "));
        report(&format!("match.all.sync.b{bits} "));
    }
    lanes("activemask.b32 %d;", 32, |_, _| all);
    lanes(
        "elect.sync %x0|%p, -1;\nselp.u32 %x1, 1, 0, %p;\nadd.u32 %d, %x0, %x1;",
        32,
        |_, lane| u64::from(lane == 0),
    );
}

/// What a warp's values come to.
type Fold = Box<dyn Fn(&[u64]) -> u64>;

#[test]
fn reductions_across_lanes() {
    let fold = |f: fn(i64, i64) -> i64| {
        move |w: &[u64]| w.iter().map(|v| *v as i64).reduce(f).expect("lanes") as u64
    };
    let signed = |f: fn(i32, i32) -> i32| {
        move |w: &[u64]| {
            u64::from(w.iter().map(|v| *v as u32 as i32).reduce(f).expect("lanes") as u32)
        }
    };
    let cases: [(&str, Fold); 9] = [
        ("add.u32", Box::new(fold(|a, b| a.wrapping_add(b)))),
        ("min.u32", Box::new(fold(i64::min))),
        ("max.u32", Box::new(fold(i64::max))),
        ("add.s32", Box::new(fold(|a, b| a.wrapping_add(b)))),
        ("min.s32", Box::new(signed(i32::min))),
        ("max.s32", Box::new(signed(i32::max))),
        ("and.b32", Box::new(fold(|a, b| a & b))),
        ("or.b32", Box::new(fold(|a, b| a | b))),
        ("xor.b32", Box::new(fold(|a, b| a ^ b))),
    ];
    for (name, want) in cases {
        lanes(&format!("redux.sync.{name} %d, %a, -1;"), 32, |w, _| {
            want(w)
        });
    }
    for (name, greater) in [("min", false), ("max", true)] {
        for abs in [false, true] {
            for nan in [false, true] {
                let modifier = format!(
                    "{}{}",
                    if abs { ".abs" } else { "" },
                    if nan { ".NaN" } else { "" }
                );
                lanes(
                    &format!("redux.sync.{name}{modifier}.f32 %d, %a, -1;"),
                    32,
                    |w, _| {
                        let v = |v: &u64| {
                            let v = f32::from_bits(*v as u32);
                            if abs { v.abs() } else { v }
                        };
                        if nan && w.iter().any(|x| v(x).is_nan()) {
                            return 0x7fff_ffff;
                        }
                        // Total order, so that −0 is below +0.
                        let numbers = w.iter().map(v).filter(|v| !v.is_nan());
                        let best = if greater {
                            numbers.max_by(f32::total_cmp)
                        } else {
                            numbers.min_by(f32::total_cmp)
                        };
                        best.map_or(0x7fff_ffff, |v| u64::from(v.to_bits()))
                    },
                );
            }
        }
    }
}

/// Checks an operation that each thread applies to a cell of its own, in global and in shared memory; the result is the
/// old value and the new one added up.
fn cell(op: &str, ty: &str, bits: u32, count: usize, want: impl Fn(&[u64]) -> u64) {
    let operands = ["%b", "%b, %c"][count - 2];
    let (sum, old) = match bits {
        64 => ("add.u64 %d, %l0, %l1;", "%l0"),
        32 => ("add.u32 %d, %x0, %x1;", "%x0"),
        _ => ("add.u16 %d, %h0, %h1;", "%h0"),
    };
    let new = old.replace('0', "1");
    for space in ["shared", "generic"] {
        let space_word = if space == "shared" { ".shared" } else { "" };
        let address = if space == "shared" { "%l3" } else { "%l2" };
        let prefix = format!(
            ".shared .align 16 .b8 cells[1024];\nmov.u32 %x3, %tid.x;\nmov.u64 %l3, cells;\n\
             mad.wide.u32 %l3, %x3, 16, %l3;\n\
             cvta.shared.u64 %l2, %l3;\nst.shared.b{bits} [%l3], %a;\n"
        );
        for (atom, read) in [("atom", true), ("red", false)] {
            if !read && matches!(op, "cas" | "exch") {
                continue;
            }
            let target = if read {
                format!("{old}, ")
            } else {
                String::new()
            };
            let first = if read {
                String::new()
            } else {
                format!("mov.b{bits} {old}, %a;\n")
            };
            let line = format!("{atom}{space_word}.{op}.{ty} {target}[{address}], {operands};");
            let body = format!("{prefix}{first}{line}\nld.shared.b{bits} {new}, [%l3];\n{sum}");
            let kind = format!("b{bits}");
            let inputs = vec![kind.as_str(); count];
            let columns = if ty.starts_with('f') || ty.starts_with('b') && ty.len() > 3 {
                let format = match ty {
                    "f16" => F16,
                    "f32" => crate::support::exact::F32,
                    "f64" => crate::support::exact::F64,
                    _ => BF16,
                };
                floats(format, count)
            } else {
                integers(bits, count)
            };
            // NaN has many patterns, so rows with one are left out.
            let keep: Vec<bool> = (0..columns[0].len())
                .map(|row| {
                    want(&columns.iter().map(|c| c[row]).collect::<Vec<_>>()) != u64::MAX - 1
                })
                .collect();
            let columns: Vec<Vec<u64>> = columns
                .iter()
                .map(|c| {
                    c.iter()
                        .zip(&keep)
                        .filter(|(_, k)| **k)
                        .map(|(v, _)| *v)
                        .collect()
                })
                .collect();
            Table::new(&body, &inputs, &kind, &columns).check_bits(|v| v[0].wrapping_add(want(v)));
            report(&line);
            report(
                &line
                    .replace(".shared", ".global")
                    .replace(&format!("{atom}.{op}"), &format!("{atom}.global.{op}")),
            );
        }
    }
}

#[test]
fn atomics() {
    for (ty, bits) in [("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)] {
        let is_signed = ty.starts_with('s');
        let number = |v: u64| crate::numeric::values::value(v, bits, is_signed);
        if ty != "s64" {
            cell("add", ty, bits, 2, |v| v[0].wrapping_add(v[1]));
        }
        cell("min", ty, bits, 2, |v| {
            number(v[0]).min(number(v[1])) as u64
        });
        cell("max", ty, bits, 2, |v| {
            number(v[0]).max(number(v[1])) as u64
        });
    }
    for bits in [32, 64] {
        let ty = format!("b{bits}");
        cell("and", &ty, bits, 2, |v| v[0] & v[1]);
        cell("or", &ty, bits, 2, |v| v[0] | v[1]);
        cell("xor", &ty, bits, 2, |v| v[0] ^ v[1]);
        cell("exch", &ty, bits, 2, |v| v[1]);
        cell(
            "cas",
            &ty,
            bits,
            3,
            |v| if v[0] == v[1] { v[2] } else { v[0] },
        );
    }
    cell(
        "cas",
        "b16",
        16,
        3,
        |v| if v[0] == v[1] { v[2] } else { v[0] },
    );
    cell(
        "inc",
        "u32",
        32,
        2,
        |v| if v[0] >= v[1] { 0 } else { v[0] + 1 },
    );
    cell("dec", "u32", 32, 2, |v| {
        if v[0] == 0 || v[0] > v[1] {
            v[1]
        } else {
            v[0] - 1
        }
    });
    let sum = |format| {
        move |v: &[u64]| match result(Operation::Add, &v[..2], &[format; 2], format, "rn") {
            Expected::Bits(bits) => bits,
            _ => u64::MAX - 1,
        }
    };
    cell("add", "f32", 32, 2, sum(crate::support::exact::F32));
    cell("add", "f64", 64, 2, sum(crate::support::exact::F64));
    cell("add.noftz", "f16", 16, 2, sum(F16));
    cell("add.noftz", "bf16", 16, 2, sum(BF16));
}

#[test]
fn vector_atomics() {
    let columns = floats(crate::support::exact::F32, 2);
    for (name, parts, ty) in [
        ("v2", 2, "f32"),
        ("v4", 4, "f32"),
        ("v2", 2, "f16x2"),
        ("v4", 4, "bf16x2"),
    ] {
        let noftz = if ty == "f32" { "" } else { ".noftz" };
        let list = |of: &str| format!("{{{}}}", vec![of; parts].join(", "));
        // The cells lie in the output's own allocation, which the harness overwrites at the end.
        let line = format!(
            "atom.global.add{noftz}.{name}.{ty} {}, [%l0], {};",
            list("%x0"),
            list("%b")
        );
        let stores: String = (0..parts)
            .map(|n| format!("st.global.b32 [%l0+{}], %a;\n", 4 * n))
            .collect();
        let body = format!(
            ".global .align 16 .b8 cells[65536];\nmov.u64 %l0, cells;\nmad.wide.u32 %l0, %i1, 16, %l0;\n\
             {stores}{line}\n\
             ld.global.b32 %d, [%l0+{}];",
            4 * (parts - 1)
        );
        let inputs = ["b32", "b32"];
        let table = Table::new(&body, &inputs, "b32", &columns);
        table.check(|v| {
            if ty == "f32" {
                return result(
                    Operation::Add,
                    v,
                    &[crate::support::exact::F32; 2],
                    crate::support::exact::F32,
                    "rn",
                );
            }
            let format = if ty == "f16x2" { F16 } else { BF16 };
            let half = |shift: u32| {
                let v: Vec<u64> = v.iter().map(|v| v >> shift & 0xffff).collect();
                match result(Operation::Add, &v, &[format; 2], format, "rn") {
                    Expected::Bits(bits) => bits,
                    _ => 0x7fff,
                }
            };
            Expected::Bits(half(16) << 16 | half(0))
        });
        report(&line);
    }
}
