//! The audit asked: listings by hand, and what the assembler makes of fenced kernels, whole and with a hole.

use super::listing::read;
use super::{Fenced, Proof, audit, fenced, flow, prove, targets};
use crate::assemble::Assembler;
use gridmux_ptx::forms::Form;
use std::path::Path;

/// Returns the listing of one kernel `k` and a function `f`, whose parameters begin at byte 0x210.
pub(super) fn listing(kernel: &[&str], function: &[&str]) -> String {
    let code = |from: usize, lines: &[&str]| -> String {
        let line = |(n, line): (usize, &&str)| match line.ends_with(':') {
            true => format!("{line}\n"),
            false => format!("        /*{:04x}*/   {line} ;\n", from + 16 * n),
        };
        lines.iter().enumerate().map(line).collect()
    };
    format!(
        "\t//----- nvinfo : EIATTR_PARAM_CBANK\n\t.align\t\t4\n        /*00ac*/ \t.byte\t0x04, 0x0a\n        \
         /*00ae*/ \t.short\t(.L_32 - .L_31)\n        /*00b0*/ \t.word\tindex@(.nv.constant0.k)\n        \
         /*00b4*/ \t.short\t0x0210\n        /*00b6*/ \t.short\t0x0060\n\
         \t.section\t.nv.constant4,\"a\",@progbits\n.nv.constant4:\n        /*0000*/ \t.dword\tg\n\
         \t.section\t.text.k,\"ax\",@progbits\n        .type           k,@function\nk:\n.text.k:\n{}\
         \t.type\t\t$k$f,@function\n$k$f:\n{}\
         \t.section\t.nv.global,\"aw\",@nobits\n\t.type\t\tg,@object\n\t.size\t\tg,(.L_0 - g)\ng:\n        \
         /*0000*/ \t.zero\t\t16\n.L_0:\n",
        code(0, kernel),
        code(16 * kernel.len(), function)
    )
}

fn proof(kernel: &[&str], function: &[&str]) -> Proof {
    prove(&read(&listing(kernel, function)), "k", flow::MOST_ROUNDS).expect("it is a listing")
}

pub(super) fn assert_proved(name: &str, kernel: &[&str], function: &[&str], accesses: usize) {
    let found = proof(kernel, function);
    assert_eq!(
        (found.unproved.as_slice(), found.accesses),
        (&[][..], accesses),
        "{name}"
    );
}

pub(super) fn assert_unproved(name: &str, kernel: &[&str], function: &[&str], word: &str) {
    let found = proof(kernel, function);
    let [one] = found.unproved.as_slice() else {
        panic!("{name}: {found:?}");
    };
    assert!(one.reason.contains(word), "{name}: {one:?}");
}

/// The upper half of the base stands at byte 52 of the control block, 0x244.
const BASE: &str = "ULDC UR6, c[0x0][0x244]";
const LOAD: &str = "LDG.E R8, desc[UR4][R4.64+0x10]";

// Length: a table of listings.
#[test]
fn addresses_of_the_fence_are_proved() {
    let cases: [(&str, &[&str], &[&str], usize); 12] = [
        (
            "a copy",
            &[BASE, "IMAD.U32 R5, RZ, RZ, UR6", LOAD, "EXIT"],
            &[],
            1,
        ),
        (
            "another spelling",
            &["LDC R5, c[0x0][0x244]", "LDG.E R8, [R4.64]", "EXIT"],
            &[],
            1,
        ),
        (
            "half of a pair",
            &["LDC.64 R4, c[0x0][0x240]", "MOV R4, R9", LOAD, "EXIT"],
            &[],
            1,
        ),
        (
            "two ways",
            &[
                BASE,
                "@P0 BRA `(.L_x_0)",
                "MOV R5, UR6",
                "BRA `(.L_x_1)",
                ".L_x_0:",
                "MOV R5, c[0x0][0x244]",
                ".L_x_1:",
                LOAD,
                "EXIT",
            ],
            &[],
            1,
        ),
        (
            "under a guard",
            &[
                "@!P0 MOV R5, c[0x0][0x244]",
                "@!P0 LDG.E R8, desc[UR4][R4.64]",
                "EXIT",
            ],
            &[],
            1,
        ),
        (
            "under a guard that is compared and chosen by",
            &[
                "@P0 MOV R5, c[0x0][0x244]",
                "ISETP.NE.AND P1, PT, R5, R4, PT",
                "PLOP3.LUT P2, PT, P0, P1, PT, 0x80, 0x0",
                "@P0 LDG.E R8, desc[UR4][R4.64]",
                "EXIT",
            ],
            &[],
            1,
        ),
        (
            "under both guards",
            &[
                "@!P0 MOV R5, c[0x0][0x244]",
                "@P0 S2R R5, SR_SWINHI",
                "LD.E R8, desc[UR4][R4.64]",
                "EXIT",
            ],
            &[],
            1,
        ),
        (
            "kept on the stack",
            &[
                "LDC R1, c[0x0][0x28]",
                "VIADD R1, R1, 0xfffffff0",
                "MOV R7, c[0x0][0x244]",
                "STL.64 [R1+0x8], R6",
                "LDL R5, [R1+0xc]",
                LOAD,
                "EXIT",
            ],
            &[],
            1,
        ),
        (
            "handed to a function",
            &[
                "MOV R9, c[0x0][0x244]",
                "CALL.REL.NOINC `($k$f)",
                "MOV R5, R16",
                LOAD,
                "EXIT",
            ],
            &[
                "STG.E desc[UR4][R8.64], R3",
                "MOV R16, R9",
                "RET.REL.NODEC R20 `(k)",
            ],
            2,
        ),
        (
            "the control block's counters",
            &[
                "ULDC.64 UR4, c[0x0][0x230]",
                "UIADD3 UR4, UP0, UR4, 0x14, URZ",
                "UIADD3.X UR5, URZ, UR5, URZ, UP0, !UPT",
                "MOV R2, UR4",
                "MOV R3, UR5",
                "RED.E.MAX.STRONG.GPU desc[UR6][R2.64+-0x14], R7",
                "EXIT",
            ],
            &[],
            1,
        ),
        (
            "a variable",
            &[
                "ULDC.64 UR8, c[0x4][0x0]",
                "MOV R4, UR8",
                "MOV R5, UR9",
                "LDG.E R6, desc[UR4][R4.64+0xc]",
                "EXIT",
            ],
            &[],
            1,
        ),
        (
            "shared memory",
            &["LDS R4, [R4]", "STS [R5+0x10], R4", "EXIT"],
            &[],
            0,
        ),
    ];
    for (name, kernel, function, accesses) in cases {
        assert_proved(name, kernel, function, accesses);
    }
}

// Length: a table of listings.
#[test]
fn other_addresses_are_named() {
    let any = "may be anything";
    let cases: [(&str, &[&str], &[&str], &str); 16] = [
        (
            "a parameter",
            &["LDC.64 R4, c[0x0][0x258]", LOAD, "EXIT"],
            &[],
            any,
        ),
        (
            "the lower half",
            &["MOV R5, c[0x0][0x240]", LOAD, "EXIT"],
            &[],
            any,
        ),
        (
            "a sum",
            &[
                "MOV R5, c[0x0][0x244]",
                "IADD3 R5, R5, R6, RZ",
                LOAD,
                "EXIT",
            ],
            &[],
            any,
        ),
        (
            "a carry",
            &[
                "MOV R5, c[0x0][0x244]",
                "IADD3.X R5, RZ, R5, RZ, P0, !PT",
                LOAD,
                "EXIT",
            ],
            &[],
            any,
        ),
        ("nothing", &[LOAD, "EXIT"], &[], any),
        (
            "a wide result",
            &[
                "MOV R5, c[0x0][0x244]",
                "LDG.E.64 R4, desc[UR4][R4.64]",
                LOAD,
                "EXIT",
            ],
            &[],
            any,
        ),
        (
            "an unknown opcode",
            &["MOV R5, c[0x0][0x244]", "NEWOP R0, R1", LOAD, "EXIT"],
            &[],
            any,
        ),
        (
            "one of two ways",
            &[
                "MOV R5, R9",
                "@P0 BRA `(.L_x_0)",
                "MOV R5, c[0x0][0x244]",
                ".L_x_0:",
                LOAD,
                "EXIT",
            ],
            &[],
            any,
        ),
        (
            "another guard",
            &[
                "@P1 MOV R5, c[0x0][0x244]",
                "@P0 LDG.E R8, desc[UR4][R4.64]",
                "EXIT",
            ],
            &[],
            any,
        ),
        (
            "a guard that has changed",
            &[
                "@P0 MOV R5, c[0x0][0x244]",
                "ISETP.NE.AND P0, PT, R2, RZ, PT",
                "@P0 LDG.E R8, desc[UR4][R4.64]",
                "EXIT",
            ],
            &[],
            any,
        ),
        (
            "one of two callers",
            &[
                "MOV R9, c[0x0][0x244]",
                "CALL.REL.NOINC `($k$f)",
                "MOV R9, R2",
                "CALL.REL.NOINC `($k$f)",
                "EXIT",
            ],
            &["STG.E desc[UR4][R8.64], R3", "RET.REL.NODEC R20 `(k)"],
            any,
        ),
        (
            "far behind a variable",
            &[
                "ULDC.64 UR8, c[0x4][0x0]",
                "MOV R4, UR8",
                "MOV R5, UR9",
                LOAD,
                "EXIT",
            ],
            &[],
            "variable",
        ),
        (
            "far behind the counters",
            &[
                "LDC.64 R4, c[0x0][0x230]",
                "STG.E desc[UR4][R4.64+0x40], R7",
                "EXIT",
            ],
            &[],
            "pointer",
        ),
        (
            "two registers",
            &[
                "MOV R5, c[0x0][0x244]",
                "LDG.E R8, desc[UR4][R4.64+UR6]",
                "EXIT",
            ],
            &[],
            "sum of 2",
        ),
        (
            "a texture",
            &["TEX.LL R4, R6, R2, UR4, 2D, 0xf", "EXIT"],
            &[],
            "object",
        ),
        (
            "32 bits",
            &["MOV R5, c[0x0][0x244]", "LDG R8, [R4]", "EXIT"],
            &[],
            "64 bits",
        ),
    ];
    for (name, kernel, function, word) in cases {
        assert_unproved(name, kernel, function, word);
    }
}

/// Returns the assembler; says why not, where there is none.
fn tools() -> Option<Assembler> {
    let found = Assembler::find().filter(Assembler::disassembles);
    if found.is_none() {
        println!("SKIPPED: there is no ptxas with nvdisasm here; `cargo xtask ptx` installs them");
    }
    found
}

/// Returns the workloads, by name.
fn workloads() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/ptx");
    let entries = folder.read_dir().expect("it is there").flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let name = |path: &Path| {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let read = |path: &Path| std::fs::read(path).expect("it can be read");
    files.iter().map(|path| (name(path), read(path))).collect()
}

/// `cargo xtask audit` asks the corpus and generated kernels, too.
#[test]
fn fenced_workloads_are_proved() {
    let Some(assembler) = tools() else {
        return;
    };
    let (mut kernels, mut accesses) = (0, 0);
    for (name, source) in workloads() {
        for form in [Form::FENCE, Form::FENCE_SLICE] {
            let Fenced {
                text,
                kernels: names,
                refused,
            } = fenced(&source, form).expect("ours");
            assert_eq!(refused, 0, "{name} as {form}");
            for target in targets(&text) {
                let proofs = audit(&assembler, &text, &names, &target);
                for proof in proofs.unwrap_or_else(|e| panic!("{name} as {form}: {e}")) {
                    assert_eq!(proof.unproved, [], "{name} as {form} for {target}");
                    (kernels, accesses) = (kernels + 1, accesses + proof.accesses);
                }
            }
        }
    }
    println!("{kernels} kernels, {accesses} accesses");
    assert!(
        kernels >= 80 && accesses >= 400,
        "{kernels} kernels, {accesses} accesses"
    );
}

/// What confines an address left out, one after the other: each time the audit names an access.
#[test]
fn a_hole_in_the_fence_is_found() {
    let Some(assembler) = tools() else {
        return;
    };
    let mut holes = 0;
    for (name, source) in workloads() {
        if !matches!(name.as_str(), "vecadd" | "spmv" | "histogram") {
            continue;
        }
        let Fenced { text, kernels, .. } = fenced(&source, Form::FENCE).expect("ours");
        let text = String::from_utf8(text).expect("text");
        for (at, _) in text.match_indices("bfi.b64 ") {
            let end = at + text[at..].find(';').expect("it ends");
            let operands: Vec<&str> = text[at + 8..end].split(',').map(str::trim).collect();
            let [to, from, _, "0", "32"] = operands[..] else {
                panic!("{name}: {}", &text[at..end]);
            };
            let hole = format!("{}mov.b64 {to}, {from}{}", &text[..at], &text[end..]);
            let proofs =
                audit(&assembler, hole.as_bytes(), &kernels, "sm_90").expect("it assembles");
            let unproved: usize = proofs.iter().map(|p| p.unproved.len()).sum();
            assert!(unproved > 0, "{name}: `{}` is not missed", &text[at..end]);
            holes += 1;
        }
    }
    println!("{holes} holes");
    assert!(holes >= 6, "{holes}");
}
