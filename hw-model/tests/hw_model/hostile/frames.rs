//! Registers of nested calls: deep and wide at once is refused.

use crate::support::flow::{fault, module, run};
use gridmux_hw_model::FaultKind;
use std::fmt::Write as _;

/// Registers that live across the call.
const LIVE: u32 = 3000;

/// Returns a kernel that calls `f(depth)`: `f(0)` is 1, and otherwise `f(n)` is `f(n - 1)` and the sum of what it kept
/// meanwhile.
fn text(depth: u32) -> String {
    let (mut before, mut after) = (String::new(), String::new());
    for n in 0..LIVE {
        writeln!(before, "add.u32 %v{n}, %r1, {n};").expect("memory");
        writeln!(after, "add.u32 %r2, %r2, %v{n};").expect("memory");
    }
    let f = format!(
        ".func (.param .b32 r) f(.param .b32 a)\n{{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b32 %v<{LIVE}>;\n\
         ld.param.u32 %r1, [a];\nmov.u32 %r2, 1;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra DONE;\n{before}\
         sub.u32 %r1, %r1, 1;\n{{\n.param .b32 p;\nst.param.b32 [p], %r1;\n.param .b32 q;\ncall.uni (q), f, (p);\n\
         ld.param.b32 %r2, [q];\n}}\n{after}DONE:\nst.param.b32 [r], %r2;\nret;\n}}\n"
    );
    let body = format!(
        "mov.u32 %r5, {depth};\n{{\n.param .b32 p;\nst.param.b32 [p], %r5;\n.param .b32 q;\n\
         call.uni (q), f, (p);\nld.param.b32 %r6, [q];\n}}\nst.global.u32 [%rd2], %r6;"
    );
    module(&f, &body)
}

#[test]
fn frames_that_are_deep_and_wide_overflow_the_stack() {
    let expected = (1..=4).fold(1, |sum, n| sum + LIVE * n + LIVE * (LIVE - 1) / 2);
    assert_eq!(run(&text(4), 1, 32), [expected; 32]);
    let fault = fault(&text(20), 32);
    assert!(
        matches!(fault.kind, FaultKind::StackOverflow { .. }),
        "{fault}"
    );
}
