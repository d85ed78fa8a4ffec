//! Branches through tables.

use crate::support::flow::{fault, module, run};
use gridmux_hw_model::FaultKind;

const SWITCH: &str = "ts: .branchtargets A, B, C, B;\nmov.u32 %r6, 1;\nbrx.idx %r5, ts;\nA:\nadd.u32 %r6, %r6, 10;\n\
    bra JOIN;\nB:\nadd.u32 %r6, %r6, 100;\nC:\nadd.u32 %r6, %r6, 1000;\n\
    JOIN:\nshfl.sync.idx.b32 %r7, %r6, 0, 31, -1;\nmad.lo.u32 %r6, %r7, 10000, %r6;\nst.global.u32 [%rd2], %r6;";

#[test]
fn a_table_sends_each_lane_its_way() {
    let got = run(
        &module("", &format!("and.b32 %r5, %r2, 3;\n{SWITCH}")),
        2,
        64,
    );
    for (n, got) in got.into_iter().enumerate() {
        assert_eq!(got, 110_000 + [11, 1101, 1001, 1101][n % 4], "thread {n}");
    }
}

#[test]
fn a_table_may_send_all_lanes_one_way_or_some_nowhere() {
    let got = run(&module("", &format!("mov.u32 %r5, 2;\n{SWITCH}")), 1, 32);
    assert!(got.iter().all(|got| *got == 10_011_001), "{got:?}");
    let guarded = SWITCH.replace("brx.idx", "setp.lt.u32 %p1, %r2, 8;\n@%p1 brx.idx");
    let got = run(&module("", &format!("mov.u32 %r5, 1;\n{guarded}")), 1, 32);
    for (n, got) in got.into_iter().enumerate() {
        assert_eq!(
            got,
            11_010_000 + if n < 8 { 1101 } else { 11 },
            "thread {n}"
        );
    }
}

#[test]
fn an_index_behind_the_table_is_a_fault() {
    let fault = fault(&module("", &format!("mov.u32 %r5, 4;\n{SWITCH}")), 32);
    assert_eq!(
        fault.kind,
        FaultKind::BadBranch {
            index: 4,
            targets: 4
        }
    );
}

#[test]
fn a_table_can_drive_a_loop() {
    // A little machine: state 0 adds, state 1 doubles, state 2 ends; lanes run for different numbers of steps.
    let body = "ts: .branchtargets ADD, DOUBLE, END;\nmov.u32 %r5, 0;\nmov.u32 %r6, %r2;\nmov.u32 %r7, 0;\nNEXT:\n\
        brx.idx %r5, ts;\nADD:\nadd.u32 %r6, %r6, 3;\n\
        mov.u32 %r5, 1;\nbra NEXT;\nDOUBLE:\nadd.u32 %r6, %r6, %r6;\nadd.u32 %r7, %r7, 1;\n\
        setp.gt.u32 %p1, %r7, %r2;\nselp.u32 %r5, 2, 0, %p1;\nbra NEXT;\nEND:\nst.global.u32 [%rd2], %r6;";
    for (n, got) in (0_u32..).zip(run(&module("", body), 1, 32)) {
        let expected = (0..=n).fold(n, |x, _| x.wrapping_add(3).wrapping_mul(2));
        assert_eq!(got, expected, "thread {n}");
    }
}
