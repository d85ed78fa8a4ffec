//! The audit asked what it cannot prove, by listings: opcodes, control flow, the stack, ends of records.

use super::cases::{assert_proved, assert_unproved, listing};
use super::listing::read;
use super::{flow, prove};

const ANY: &str = "may be anything";
const BASE: &str = "MOV R5, c[0x0][0x244]";
const LOAD: &str = "LDG.E R8, desc[UR4][R4.64+0x10]";
const RETURN: &str = "RET.REL.NODEC R20 `(k)";

#[test]
fn what_an_opcode_writes_is_not_proved() {
    let opcodes = [
        "LEPC R4",
        "BMOV.32.CLEAR R5, B6",
        "ATOMS.ADD.F64 R4, [R8], R10",
        "ATOMS.MAX.S64 R4, [R8], R10",
        "ATOMS.MIN.U64 R4, [R8], R10",
        "I2F.F64.U32 R4, R8",
        "LDS.128 R4, [R8]",
        "DMMA.16816 R0, R16, R20, R24",
        "LDSM.16.M88.4 R4, [R8]",
        "FSEL.FTZ R5, R5, R5, P0",
        "NEWOP R20, R1",
        "NEWOP",
        "NEWOP RZ, R1",
        "HGMMA.64x8x16.F32 R24, R28, R24",
        "WARPGROUP.ARRIVE",
        "IADD3 B6, R4, R5, RZ",
    ];
    for opcode in opcodes {
        assert_unproved(opcode, &[BASE, opcode, LOAD, "EXIT"], &[], ANY);
    }
    let others = [
        "BMOV.32 B6, R5",
        "LDS.64 R6, [R8]",
        "ATOMS.ADD R4, [R8], R10",
        "SHF.L.U64.HI R4, R8, 0x1, R9",
        "STS.64 [R8], R4",
        "R2P PR, R5, 0x7f",
        "@!PT NEWOP R20, R1",
    ];
    for opcode in others {
        assert_proved(opcode, &[BASE, opcode, LOAD, "EXIT"], &[], 1);
    }
}

#[test]
fn control_flow_that_is_not_known_is_named() {
    let table = "BRX R2 -0x10 (*\"BRANCH_TARGETS .L_x_0,.L_x_9\"*)";
    let cases: [(&str, &[&str], &[&str], &str); 12] = [
        (
            "behind a jump",
            &[BASE, "BRA `(.L_x_0)", LOAD, ".L_x_0:", "EXIT"],
            &[],
            "no way to it",
        ),
        (
            "behind an end",
            &[BASE, "EXIT", LOAD, "EXIT"],
            &[],
            "no way to it",
        ),
        (
            "never called",
            &["EXIT"],
            &[BASE, LOAD, RETURN],
            "no way to it",
        ),
        (
            "behind a call that does not return",
            &[BASE, "CALL.REL.NOINC `($k$f)", LOAD, "EXIT"],
            &["EXIT"],
            "no way to it",
        ),
        ("no label", &["BRA `(.L_x_9)"], &[], "jumps to where"),
        ("a number", &["@P0 BRA 0x40", "EXIT"], &[], "jumps to where"),
        (
            "a barrier's end",
            &["BSSY B0, `(.L_x_9)", "EXIT"],
            &[],
            "unknown label",
        ),
        ("no table", &["BRX R2 -0x10"], &[], "table"),
        (
            "no table, by another name",
            &["BRXU UR4 -0x10"],
            &[],
            "table",
        ),
        ("half a table", &[table, ".L_x_0:", "EXIT"], &[], "table"),
        (
            "a call elsewhere",
            &["CALL.ABS.NOINC `(printf)", "EXIT"],
            &[],
            "calls what",
        ),
        ("no end", &["MOV R4, R5"], &[], "past the section's end"),
    ];
    for (name, kernel, function, word) in cases {
        assert_unproved(name, kernel, function, word);
    }
    let table = "BRX R2 -0x10 (*\"BRANCH_TARGETS .L_x_0,.L_x_1\"*)";
    let kernel = [BASE, table, ".L_x_0:", LOAD, ".L_x_1:", LOAD, "EXIT"];
    assert_proved("a table", &kernel, &[], 2);
}

/// Nothing of a kernel is proved where it is not known where control goes.
#[test]
fn a_kernel_whose_flow_is_not_known_has_no_proof() {
    let kernel = [BASE, LOAD, "@P0 BRX R2 -0x10", "EXIT"];
    let found = prove(&read(&listing(&kernel, &[])), "k", flow::MOST_ROUNDS).expect("a listing");
    assert_eq!((found.accesses, found.proved()), (1, 0), "{found:?}");
}

#[test]
fn a_function_in_another_section_may_be_called_by_register() {
    let kernel = [BASE, "CALL.REL.NOINC R2 `(k)", "EXIT"];
    let text = listing(&kernel, &[RETURN]);
    let other =
        "\t.section\t.text.g,\"ax\",@progbits\n.type g,@function\n.other g,@\"STO_CUDA_ENTRY\"\n";
    let reasons = |text: &str| -> Vec<String> {
        let found = prove(&read(text), "k", flow::MOST_ROUNDS).expect("a listing");
        found.unproved.into_iter().map(|u| u.reason).collect()
    };
    assert_eq!(reasons(&text), [""; 0]);
    assert_eq!(reasons(&format!("{text}{other}")), [""; 0]);
    let function = other.replace("STO_CUDA_ENTRY", "STV_DEFAULT");
    let reason = "it calls what may not be in the section";
    assert_eq!(reasons(&format!("{text}{function}")), [reason]);
}

#[test]
fn flow_that_does_not_come_to_rest_proves_nothing() {
    let kernel = ["MOV R9, c[0x0][0x244]", "CALL.REL.NOINC `($k$f)", "EXIT"];
    let function = ["STG.E desc[UR4][R8.64], R3", RETURN];
    let listing = read(&listing(&kernel, &function));
    let enough = prove(&listing, "k", flow::MOST_ROUNDS).expect("a listing");
    assert_eq!((enough.unproved.as_slice(), enough.proved()), (&[][..], 1));
    for rounds in 0..2 {
        let found = prove(&listing, "k", rounds).expect("a listing");
        let is_said = |word: &str| found.unproved.iter().any(|u| u.reason.contains(word));
        assert!(is_said("did not come to rest"), "{rounds}: {found:?}");
        assert_eq!(found.proved(), 0, "{rounds}");
    }
}

/// A word that two instructions write may be a variable's; one that one writes is a register that is kept.
#[test]
fn stores_elsewhere_leave_what_is_kept() {
    let begin = [
        "VIADD R1, R1, 0xfffffff0",
        "MOV R7, c[0x0][0x244]",
        "S2R R3, SR_SWINHI",
        "STL [R1+0x8], R7",
    ];
    let between: [(&str, usize); 4] = [
        ("STL [R9], R3", 1),
        ("ST.E desc[UR4][R2.64], R3", 2),
        ("CALL.REL.NOINC `($k$f)", 1),
        ("CALL.REL.NOINC R6 `(k)", 1),
    ];
    let end = ["LDL R5, [R1+0x8]", LOAD, "EXIT"];
    for (store, accesses) in between {
        let once = [&begin[..], &[store], &end].concat();
        assert_proved(store, &once, &[RETURN], accesses);
        let twice = [&begin[..], &begin[3..], &[store], &end].concat();
        assert_unproved(store, &twice, &[RETURN], ANY);
        let part = [&begin[..], &["STL.U8 [R1+0x7], R7", begin[3], store], &end].concat();
        assert_unproved(store, &part, &[RETURN], ANY);
    }
    let neither = [&begin[..], &begin[3..], &end].concat();
    assert_proved("none", &neither, &[], 1);
    let below = [
        "MOV R7, c[0x0][0x244]",
        "STL [R1+-0x8], R7",
        "CALL.REL.NOINC `($k$f)",
        "LDL R5, [R1+-0x8]",
        LOAD,
        "EXIT",
    ];
    assert_unproved("in the frame of what is called", &below, &[RETURN], ANY);
}

#[test]
fn a_stack_place_of_another_function_is_not_known() {
    let kernel = [
        "VIADD R1, R1, 0xffffffe0",
        "MOV R7, c[0x0][0x244]",
        "STL [R1+0x10], R7",
        "CALL.REL.NOINC `($k$f)",
        "LDL R5, [R16]",
        LOAD,
        "EXIT",
    ];
    let function = ["VIADD R16, R1, 0xfffffff0", RETURN];
    assert_unproved("handed back", &kernel, &function, ANY);
}

#[test]
fn a_whole_access_lies_within() {
    let counters = "LDC.64 R4, c[0x0][0x230]";
    let stamps = "LDC.64 R4, c[0x0][0x238]";
    let variable = "LDC.64 R4, c[0x4][0x0]";
    let (record, inside, near) = ("record", "variable", "not one that is known");
    let cases = [
        (counters, "STG.E desc[UR4][R4.64+0x3c], R7", None),
        (counters, "STG.E.64 desc[UR4][R4.64+0x3c], R6", Some(record)),
        (
            counters,
            "RED.E.ADD.S64 desc[UR4][R4.64+0x3c], R6",
            Some(record),
        ),
        (
            counters,
            "RED.E.ADD.F32x4 desc[UR4][R4.64+0x34], R6",
            Some(record),
        ),
        (counters, "RED.E.ADD.F16x2 desc[UR4][R4.64+0x3c], R6", None),
        (counters, "STG.E desc[UR4][R4.64+-0x4], R7", Some(record)),
        (stamps, "STG.E.64 desc[UR4][R4.64+0x18], R6", None),
        (stamps, "STG.E desc[UR4][R4.64+0x20], R6", Some(record)),
        (variable, "LDG.E.128 R8, desc[UR4][R4.64]", None),
        (variable, "LDG.E.LTC128B.64 R8, desc[UR4][R4.64+0x8]", None),
        (variable, "LDG.E.128 R8, desc[UR4][R4.64+0x4]", Some(inside)),
        (variable, "LDG.E.64 R8, desc[UR4][R4.64+0xc]", Some(inside)),
        (BASE, "LDG.E R8, desc[UR4][R4.64+0xfffffc]", None),
        (BASE, "LDG.E.64 R8, desc[UR4][R4.64+0xfffffc]", Some(near)),
        (BASE, "LDG.E R8, desc[UR4][R4.64+-0x1000000]", Some(near)),
        (BASE, "LDG.E R8, desc[UR4][R4.U32]", Some(near)),
        ("S2R R5, SR_SWINHI", "LD.E R8, desc[UR4][R4.64]", None),
        (
            "S2R R5, SR_LWINHI",
            "LD.E R8, desc[UR4][R4.64]",
            Some("local window"),
        ),
        (
            "MOV R5, c[0x0][0x24]",
            "LD.E R8, desc[UR4][R4.64]",
            Some("local window"),
        ),
    ];
    for (pointer, access, reason) in cases {
        let kernel = [pointer, access, "EXIT"];
        match reason {
            Some(word) => assert_unproved(access, &kernel, &[], word),
            None => assert_proved(access, &kernel, &[], 1),
        }
    }
}
