//! `wmma`: it goes from memory to memory, so that only the matrices matter.

use super::{bits, encode, header, product, run, values};
use crate::support::opcode::report;
use gridmux_workloads::Prng;

/// Returns a matrix in memory, rows or columns one after another with some room between.
fn stored(
    ty: &str,
    v: &[i64],
    rows: usize,
    columns: usize,
    by_columns: bool,
    stride: usize,
) -> Vec<u8> {
    let width = bits(ty) as usize;
    let majors = if by_columns { columns } else { rows };
    let mut out = vec![0_u8; majors * stride * width / 8];
    for row in 0..rows {
        for column in 0..columns {
            let (major, minor) = if by_columns {
                (column, row)
            } else {
                (row, column)
            };
            let at = (major * stride + minor) * width;
            let pattern = encode(ty, v[row * columns + column]);
            if width < 8 {
                out[at / 8] |= (pattern << (at % 8)) as u8;
            } else {
                out[at / 8..at / 8 + width / 8]
                    .copy_from_slice(&pattern.to_le_bytes()[..width / 8]);
            }
        }
    }
    out
}

/// Loads, multiplies and stores matrices of a shape: the types of A (and B), C and D, the registers of each fragment,
/// what stands at the end of the name, and the layouts of A, B, C and D.
// Length: one kernel from load to store.
fn wmma(
    (shape, [m, n, k]): (&str, [usize; 3]),
    [a, c, d]: [&str; 3],
    registers: [usize; 3],
    suffix: &str,
    layouts: [&str; 4],
    seed: u64,
) {
    let mut prng = Prng::new(seed);
    let (va, vb, vc) = (
        values(a, m * k, &mut prng),
        values(a, k * n, &mut prng),
        values(c, m * n, &mut prng),
    );
    let [la, lb, lc, ld] = layouts;
    let stride = |rows: usize, columns: usize, layout: &str, ty: &str| {
        let minor = if layout == "col" { rows } else { columns };
        minor + 128 / bits(ty) as usize
    };
    let strides = [
        stride(m, k, la, a),
        stride(k, n, lb, a),
        stride(m, n, lc, c),
        stride(m, n, ld, d),
    ];
    let exact: Vec<i64> = (0..m * n)
        .map(|at| {
            let sum: i64 = (0..k)
                .map(|s| product(a, false, va[at / n * k + s], vb[s * n + at % n]))
                .sum();
            vc[at] + sum
        })
        .collect();
    let wide = a == "f64";
    let names = |first: usize, count: usize| {
        let name = if wide { "%fd" } else { "%r" };
        let names: Vec<String> = (first..first + count)
            .map(|r| format!("{name}{r}"))
            .collect();
        format!("{{{}}}", names.join(", "))
    };
    let count = |ty: &str| match (ty, wide) {
        ("f16", _) => registers[2].div_ceil(2),
        _ => registers[2],
    };
    let (ra, rb, rc, rd) = (
        names(0, registers[0]),
        names(8, registers[1]),
        names(16, count(c)),
        names(24, count(d)),
    );
    let mut ptx = header(4);
    for n in 0..4 {
        ptx += &format!("ld.param.u64 %rd{n}, [p{n}];\n");
    }
    let types = match a {
        "f16" => format!("{d}.{c}"),
        _ => format!("{d}.{a}.{a}.{c}"),
    };
    let lines = [
        format!(
            "wmma.load.a.sync.aligned.{la}.{shape}.global.{a} {ra}, [%rd0], {};",
            strides[0]
        ),
        format!(
            "wmma.load.b.sync.aligned.{lb}.{shape}.{a} {rb}, [%rd1], {};",
            strides[1]
        ),
        format!(
            "wmma.load.c.sync.aligned.{lc}.{shape}.global.{c} {rc}, [%rd2], {};",
            strides[2]
        ),
        format!(
            "wmma.mma{}.sync.aligned.{la}.{lb}.{shape}.{types}{} {rd}, {ra}, {rb}, {rc};",
            if a == "b1" { ".xor.popc" } else { "" },
            if a == "b1" { "" } else { suffix }
        ),
        format!(
            "wmma.store.d.sync.aligned.{ld}.{shape}.global.{d} [%rd3], {rd}, {};",
            strides[3]
        ),
    ];
    ptx += &lines.join("\n");
    ptx += "\nret;\n}\n";
    let want = stored(d, &exact, m, n, ld == "col", strides[3]);
    let buffers = [
        stored(a, &va, m, k, la == "col", strides[0]),
        stored(a, &vb, k, n, lb == "col", strides[1]),
        stored(c, &vc, m, n, lc == "col", strides[2]),
        vec![0; want.len()],
    ];
    assert_eq!(run(&ptx, &buffers, 0), want, "{ptx}");
    for line in lines {
        report(&line);
    }
}

// Length: a table of the shapes and types.
#[test]
fn warp_matrices() {
    let tall = [
        ("m16n16k16", [16, 16, 16]),
        ("m8n32k16", [8, 32, 16]),
        ("m32n8k16", [32, 8, 16]),
    ];
    let layouts = [
        ["row", "col", "row", "row"],
        ["col", "row", "col", "col"],
        ["row", "row", "row", "col"],
    ];
    for layouts in layouts {
        for (shape, sizes) in tall {
            let per_lane = |rows: usize, columns: usize, per_register: usize| {
                rows * columns / 32 / per_register
            };
            let [m, n, k] = sizes;
            for (c, d) in [
                ("f32", "f32"),
                ("f16", "f16"),
                ("f16", "f32"),
                ("f32", "f16"),
            ] {
                wmma((shape, sizes), ["f16", c, d], [8, 8, 8], "", layouts, 21);
            }
            let registers = [per_lane(m, k, 2), per_lane(k, n, 2), 8];
            wmma(
                (shape, sizes),
                ["bf16", "f32", "f32"],
                registers,
                "",
                layouts,
                22,
            );
            let registers = [per_lane(m, k, 4), per_lane(k, n, 4), 8];
            for a in ["u8", "s8"] {
                for suffix in ["", ".satfinite"] {
                    wmma(
                        (shape, sizes),
                        [a, "s32", "s32"],
                        registers,
                        suffix,
                        layouts,
                        23,
                    );
                }
            }
        }
        let sizes = [16, 16, 8];
        wmma(
            ("m16n16k8", sizes),
            ["tf32", "f32", "f32"],
            [4, 4, 8],
            "",
            layouts,
            24,
        );
        wmma(
            ("m8n8k4", [8, 8, 4]),
            ["f64", "f64", "f64"],
            [1, 1, 2],
            "",
            layouts,
            25,
        );
    }
    let layouts = ["row", "col", "row", "col"];
    for a in ["u4", "s4"] {
        wmma(
            ("m8n8k32", [8, 8, 32]),
            [a, "s32", "s32"],
            [1, 1, 2],
            "",
            layouts,
            26,
        );
    }
    wmma(
        ("m8n8k128", [8, 8, 128]),
        ["b1", "s32", "s32"],
        [1, 1, 2],
        "",
        layouts,
        27,
    );
}
