//! Matrices of half-words that move between shared memory and registers, and between lanes.

use super::{header, run};
use crate::support::opcode::report;

/// Moves matrices of half-words through shared memory and back, rows in shuffled order.
#[test]
fn matrices_of_half_words() {
    for (count, name) in [(1_usize, "x1"), (2, "x2"), (4, "x4")] {
        for trans in ["", ".trans"] {
            let registers: Vec<String> = (0..count).map(|r| format!("%r{r}")).collect();
            let list = format!("{{{}}}", registers.join(", "));
            let load =
                format!("ldmatrix.sync.aligned.m8n8.{name}{trans}.shared.b16 {list}, [%r50];");
            let store =
                format!("stmatrix.sync.aligned.m8n8.{name}{trans}.shared.b16 [%r51], {list};");
            // Lane l gives row l of the matrices, at a row of shared memory that 5 l + 3 names.
            let mut ptx = header(2);
            ptx = ptx.replace(
                ".visible .entry",
                ".extern .shared .align 16 .b8 sh[];\n.visible .entry",
            );
            ptx += "mov.u32 %r52, sh;\nld.param.u64 %rd0, [p0];\nmad.wide.u32 %rd0, %r60, 16, %rd0;\n\
                    ld.global.v4.u32 {%r40, %r41, %r42, %r43}, [%rd0];\n\
                    mad.lo.u32 %r53, %r60, 16, %r52;\nst.shared.v4.u32 [%r53], {%r40, %r41, %r42, %r43};\nbar.sync 0;\n\
                    mad.lo.u32 %r50, %r60, 5, 3;\nand.b32 %r50, %r50, 31;\nmad.lo.u32 %r50, %r50, 16, %r52;\n\
                    mad.lo.u32 %r51, %r60, 16, %r52;\nadd.u32 %r51, %r51, 512;\n";
            ptx += &format!("{load}\n{store}\nbar.sync 0;\nld.param.u64 %rd1, [p1];\n");
            ptx += &format!("mad.wide.u32 %rd2, %r60, {}, %rd1;\n", 4 * count);
            for r in 0..count {
                ptx += &format!("st.global.u32 [%rd2+{}], %r{r};\n", 4 * r);
            }
            ptx += "ld.shared.v4.u32 {%r40, %r41, %r42, %r43}, [%r51];\nmad.wide.u32 %rd2, %r60, 16, %rd1;\n\
                    st.global.v4.u32 [%rd2+1024], {%r40, %r41, %r42, %r43};\nret;\n}\n";
            let words: Vec<u16> = (0..256_u16)
                .map(|n| n.wrapping_mul(257).wrapping_add(3))
                .collect();
            let input: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let out = run(&ptx, &[input, vec![0; 2048]], 1024);
            let half = |row: usize, column: usize| words[(5 * row + 3) % 32 * 8 + column];
            for lane in 0..32 {
                for matrix in 0..count {
                    let at = 4 * (lane * count + matrix);
                    let got = u32::from_le_bytes(out[at..at + 4].try_into().expect("four"));
                    let one = |h: usize| {
                        let (row, column) = (lane / 4, 2 * (lane % 4) + h);
                        let (row, column) = if trans.is_empty() {
                            (row, column)
                        } else {
                            (column, row)
                        };
                        u32::from(half(8 * matrix + row, column))
                    };
                    assert_eq!(
                        got,
                        one(1) << 16 | one(0),
                        "{load} lane {lane} matrix {matrix}"
                    );
                }
            }
            // The store puts back what was loaded, row by row.
            for row in 0..8 * count {
                for column in 0..8 {
                    let at = 1024 + 16 * row + 2 * column;
                    let got = u16::from_le_bytes(out[at..at + 2].try_into().expect("two"));
                    assert_eq!(got, half(row, column), "{store} row {row} column {column}");
                }
            }
            report(&load);
            report(&store);
        }
    }
}

#[test]
fn transposition_in_registers() {
    let body = "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;";
    let mut ptx = header(2);
    ptx += &format!(
        "ld.param.u64 %rd0, [p0];\nld.param.u64 %rd1, [p1];\nmad.wide.u32 %rd0, %r60, 4, %rd0;\n\
         mad.wide.u32 %rd1, %r60, 4, %rd1;\n\
         ld.global.u32 %r0, [%rd0];\n{body}\nst.global.u32 [%rd1], %r1;\nret;\n}}\n"
    );
    let words: Vec<u16> = (0..64_u16).map(|n| n * 1001 + 7).collect();
    let input: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let out = run(&ptx, &[input, vec![0; 128]], 0);
    let want: Vec<u8> = (0..64)
        .flat_map(|at| words[at % 8 * 8 + at / 8].to_le_bytes())
        .collect();
    assert_eq!(out, want);
    report(body);
}
