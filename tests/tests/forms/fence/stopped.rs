//! What would poison a shared context: local memory that is not there, traps, jumps and barriers beyond what exists.

use super::scene::Outcome;
use super::{attack, declaring, does_harm, kernel, survives};
use gridmux_ptx::forms::fence::FaultKind;

#[test]
fn local_memory_cannot_be_left() {
    let attacks = [
        (
            "behind an array",
            "mov.u64 %a, l;\nmul.wide.u32 %b, %i, 64;\nadd.s64 %a, %a, %b;\nst.local.u32 [%a], %r;",
        ),
        (
            "before an array",
            "mov.u64 %a, l;\nsub.s64 %a, %a, 4096;\nst.local.u32 [%a], %r;",
        ),
        (
            "behind its name",
            "st.local.u32 [l+4096], %r;\nst.local.u32 [l+2], %r;",
        ),
        (
            "by a generic address",
            "cvta.local.u64 %a, l;\nadd.s64 %a, %a, 1000000;\nst.u32 [%a], %r;\nld.u32 %s, [%a+-2000001];",
        ),
        (
            "from an unknown address",
            "mov.u64 %a, l;\ncvta.local.u64 %a, %a;\nst.global.u64 [%own], %a;\nld.global.u64 %b, [%own];\n\
             st.u32 [%b+128], %r;\nst.u32 [%b+1], %r;",
        ),
        (
            "any address",
            "mov.u64 %a, 99999999999;\nst.local.u32 [%a], %r;",
        ),
    ];
    for (name, body) in attacks {
        let own = ".local .align 8 .b8 l[64];\n";
        does_harm(name, &declaring("", own, body));
        survives(name, &declaring("", own, body));
        survives(name, &kernel("", &format!("{own}{body}")));
    }
}

#[test]
fn traps_are_recorded_and_leave_in_order() {
    let fail = ".extern .func __assertfail\
        (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s) .noreturn;";
    let assert = "setp.eq.u32 %p, %i, 7;\n@!%p bra $fine;\n{ .param .b64 m; .param .b64 f; .param .b32 l; \
                  .param .b64 n; .param .b64 s;\n\
                  st.param.b64 [m], %own; st.param.b64 [f], %own; st.param.b32 [l], %r; st.param.b64 [n], %own; \
                  st.param.b64 [s], %own;\n\
                  call.uni __assertfail, (m, f, l, n, s); }\n$fine:\nbar.sync 0;";
    let attacks = [
        ("trap", FaultKind::Trap, "", "trap;"),
        (
            "a guarded trap",
            FaultKind::Trap,
            "",
            "setp.eq.u32 %p, %i, 63;\n@%p trap;\nst.global.u32 [%own], %r;\nbar.sync 0;",
        ),
        (
            "trap in one thread of a warp",
            FaultKind::Trap,
            "",
            "setp.ne.u32 %p, %i, 0;\n@%p bra $on;\ntrap;\n$on:\nbar.sync 0;",
        ),
        ("a breakpoint", FaultKind::Breakpoint, "", "brkpt;"),
        ("an assertion", FaultKind::Assertion, fail, assert),
    ];
    for (name, kind, before, body) in attacks {
        let ptx = kernel(before, body);
        does_harm(name, &ptx);
        attack(name, &ptx, |outcome, what| {
            let Outcome::Ended(recorded, line) = outcome else {
                // A worker cannot carry on behind an exit of some of its threads.
                let is_refused = matches!(outcome, Outcome::Refused(_));
                assert!(is_refused, "{what}: {outcome:?}");
                return;
            };
            assert_eq!(recorded, kind as u32, "{what}");
            let text = ptx.lines().nth(line as usize - 1).expect("a line");
            let stops = ["trap", "brkpt", "__assertfail"];
            let is_there = stops.iter().any(|stop| text.contains(stop));
            assert!(is_there, "{what}: line {line} is {text:?}");
        });
    }
}

#[test]
fn functions_are_fenced_too() {
    let store = ".func put(.param .b64 at, .param .b32 value)\n\
                 {\n.reg .b64 %at;\n.reg .b32 %v;\nld.param.b64 %at, [at];\nld.param.b32 %v, [value];\n\
                 st.global.b32 [%at], %v;\nst.b32 [%at+4], %v;\nret;\n}\n\
                 .func deep(.param .b64 at, .param .b32 value)\n\
                 {\n.reg .b64 %at;\n.reg .b32 %v;\nld.param.b64 %at, [at];\nld.param.b32 %v, [value];\n\
                 { .param .b64 a; .param .b32 b; st.param.b64 [a], %at; st.param.b32 [b], %v; call put, (a, b); }\n\
                 ret;\n}\n\
                 .global .u64 table[2] = {put, deep};";
    let direct = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %target; st.param.b32 [b], %r; \
        call deep, (a, b); }";
    let pointer = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %target; st.param.b32 [b], %r;\n\
        proto: .callprototype _ (.param .b64 x, .param .b32 y);\nmov.u64 %b, put;\ncall %b, (a, b), proto; }";
    let wild = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %target; st.param.b32 [b], %r;\n\
        proto: .callprototype _ (.param .b64 x, .param .b32 y);\nmov.u64 %b, put;\nadd.s64 %b, %b, 3;\n\
        call %b, (a, b), proto; }";
    let before = store.replace("\n.global .u64 table[2] = {put, deep};", "");
    does_harm("a call", &kernel(&before, direct));
    survives("a call", &kernel(&before, direct));
    does_harm("a call through a pointer", &kernel(&before, pointer));
    survives("a call through a pointer", &kernel(&before, pointer));
    does_harm("a call through a wild pointer", &kernel(&before, wild));
    let wild = kernel(&before, wild);
    attack("a call through a wild pointer", &wild, |outcome, what| {
        let Outcome::Ended(kind, _) = outcome else {
            panic!("{what}: {outcome:?}");
        };
        assert_eq!(kind, FaultKind::IndirectCall as u32, "{what}");
    });
}

#[test]
fn jump_tables_and_barriers_keep_to_what_exists() {
    let jump = "mul.lo.u32 %s, %i, 77777777;\ntable: .branchtargets $a, $b, $c;\nbrx.idx %s, table;\n\
        $a: st.global.u32 [%own], %r;\n$b: st.global.u32 [%own+4], %r;\n$c:";
    does_harm("a jump table", &kernel("", jump));
    survives("a jump table", &kernel("", jump));
    let barrier = "mov.u32 %s, 1000;\nmov.u32 %t, 64;\nbarrier.sync %s;\nbarrier.sync %s, %t;";
    does_harm("a barrier of any number", &kernel("", barrier));
    survives("a barrier of any number", &kernel("", barrier));
}
