//! Every kind of instruction by which a block waits, and waits for the host.

use super::{SAY, assert_waits, module, refusal};
use gridmux_ptx::forms::Reason;

// Length: a table of kernels.
#[test]
fn every_kind_of_poll_is_found() {
    let ready = ".func (.param .b32 out) ready (.param .b64 in) { .reg .b32 %r1; .reg .b64 %rd1; \
                 ld.param.b64 %rd1, [in]; ld.volatile.global.u32 %r1, [%rd1]; st.param.b32 [out], %r1; ret; }\n\
                 .func wait (.param .b64 in) { .reg .b32 %r1; .reg .b64 %rd1; .reg .pred %p1; \
                 ld.param.b64 %rd1, [in]; W: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; \
                  @%p1 bra W; ret; }\n\
                 .func again (.param .b64 in) { .reg .b32 %r1; .reg .b64 %rd1; .reg .pred %p1; \
                 ld.param.b64 %rd1, [in]; ld.volatile.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 0; @%p1 bra E; \
                 { .param .b64 i; st.param.b64 [i], %rd1; call.uni again, (i); } E: ret; }\n\
                 .global .texref picture;";
    let until = |read: &str| format!("{SAY} W: {read} setp.eq.u32 %p9, %r9, 0; @%p9 bra W;");
    for (name, read) in [
        ("ld", "ld.global.u32 %r9, [%mine+4]; membar.gl;"),
        (
            "ld with a fence, at an address that each round computes, as code that is not optimised does",
            ".local .align 8 .b64 place; .local .align 4 .b32 index; add.s32 %r7, %b, 1; st.local.u32 [index], %r7; \
             ld.local.u32 %r8, [index]; mul.wide.s32 %rd3, %r8, 4; add.s64 %rd3, %flags, %rd3; \
             st.local.u64 [place], %rd3; ld.local.u64 %rd4, [place]; ld.global.u32 %r9, [%rd4]; membar.gl;",
        ),
        ("ld.volatile", "ld.volatile.global.u32 %r9, [%mine+4];"),
        ("ld.relaxed", "ld.relaxed.gpu.global.u32 %r9, [%mine+4];"),
        ("ld.acquire", "ld.acquire.gpu.global.u32 %r9, [%mine+4];"),
        ("ld.cv", "ld.global.cv.u32 %r9, [%mine+4];"),
        (
            // What another thread of the block read, and handed on by a generic address.
            "ld in the block's scope of what was polled",
            ".shared .align 4 .b32 s; cvt.u64.u32 %rd3, 0; mov.u64 %rd3, s; cvta.shared.u64 %rd3, %rd3; \
             add.s64 %rd3, %rd3, %q; ld.acquire.gpu.global.u32 %r8, [%mine+4]; st.relaxed.cta.u32 [%rd3], %r8; \
             bar.sync 0; ld.relaxed.cta.u32 %r9, [%rd3];",
        ),
        ("ld.v2", "ld.volatile.global.v2.u32 {%r8, %r9}, [%mine+4];"),
        ("ldu", "ldu.global.u32 %r9, [%mine+4];"),
        (
            "nanosleep",
            "nanosleep.u32 100; ld.volatile.global.u32 %r9, [%mine+4];",
        ),
        ("atom.add of 0", "atom.global.add.u32 %r9, [%mine+4], 0;"),
        (
            "atom.add of a register",
            "mov.u32 %r7, 0; atom.global.add.u32 %r9, [%mine+4], %r7;",
        ),
        (
            "atom.add of a parameter",
            "atom.global.add.u32 %r9, [%mine+4], %n;",
        ),
        (
            "atom.add there and back",
            "atom.global.add.u32 %r9, [%mine+4], 1; red.global.add.u32 [%mine+4], -1;",
        ),
        ("atom.or", "atom.global.or.b32 %r9, [%mine+4], 0;"),
        ("atom.and", "atom.global.and.b32 %r9, [%mine+4], -1;"),
        ("atom.max", "atom.global.max.u32 %r9, [%mine+4], 0;"),
        ("atom.inc", "atom.global.inc.u32 %r9, [%mine+4], 0;"),
        (
            "atom.cas of the same",
            "atom.global.cas.b32 %r9, [%mine+4], %n, %n;",
        ),
        (
            "atom.cas of a token",
            "atom.global.cas.b32 %r8, [%mine+4], 1, 2; sub.u32 %r9, %r8, 0;",
        ),
        (
            "atom.cas of a token for a count",
            "add.u32 %r10, %r10, 1; atom.global.cas.b32 %r8, [%mine+4], 1, %r10; sub.u32 %r9, %r8, 0;",
        ),
        (
            "atom.exch of a token",
            "atom.global.exch.b32 %r9, [%mine+4], 0;",
        ),
        (
            "texture",
            "tex.1d.v4.u32.s32 {%r9, %r1, %r2, %r3}, [picture, {%b}];",
        ),
        ("surface", "suld.b.1d.b32.trap %r9, [%q, {%b}];"),
        (
            "call",
            "{ .param .b64 i; .param .b32 o; st.param.b64 [i], %mine; call.uni (o), ready, (i); \
             ld.param.b32 %r9, [o]; }",
        ),
        (
            "backoff",
            "nanosleep.u32 %r10; shl.b32 %r10, %r10, 1; min.u32 %r10, %r10, 4096; \
             ld.volatile.global.u32 %r9, [%mine+4];",
        ),
        (
            "with a statistic",
            "ld.volatile.global.u32 %r9, [%mine+4]; add.u32 %r5, %r5, 1; st.global.u32 [%q], %r5;",
        ),
        (
            "with a reduction",
            "ld.volatile.global.u32 %r9, [%mine+4]; red.global.add.u32 [%q], 1;",
        ),
        (
            "with a call",
            "{ .param .b64 i; .param .b32 o; st.param.b64 [i], %q; call.uni (o), ready, (i); \
             } ld.volatile.global.u32 %r9, [%mine+4];",
        ),
        (
            "copied to shared memory",
            ".shared .align 4 .b32 s; ld.volatile.global.u32 %r8, [%mine+4]; st.shared.u32 [s], %r8; bar.sync 0; \
             ld.shared.u32 %r9, [s];",
        ),
        (
            "copied asynchronously",
            ".shared .align 4 .b32 s; cp.async.ca.shared.global [s], [%mine+4], 4; cp.async.wait_all; \
             ld.shared.u32 %r9, [s];",
        ),
        (
            "copied to local memory",
            ".local .align 4 .b32 l; ld.volatile.global.u32 %r8, [%mine+4]; st.local.u32 [l], %r8; \
             ld.local.u32 %r9, [l];",
        ),
        (
            "vote",
            "ld.volatile.global.u32 %r8, [%mine+4]; setp.ne.u32 %p1, %r8, 0; vote.sync.all.pred %p2, %p1, -1; \
             selp.u32 %r9, 1, 0, %p2;",
        ),
        (
            "shuffle",
            "ld.volatile.global.u32 %r8, [%mine+4]; shfl.sync.idx.b32 %r9, %r8, 0, 31, -1;",
        ),
        (
            "barrier with a vote",
            "ld.volatile.global.u32 %r8, [%mine+4]; setp.ne.u32 %p1, %r8, 0; bar.red.or.pred %p2, 0, %p1; \
             selp.u32 %r9, 1, 0, %p2;",
        ),
        (
            "alternating places",
            "xor.b32 %r4, %r4, 4; cvt.u64.u32 %rd4, %r4; add.s64 %rd4, %rd4, %flags; \
             ld.volatile.global.u32 %r9, [%rd4];",
        ),
    ] {
        assert_waits(name, ready, &until(read));
    }
    for (name, body) in [
        (
            "a counter that all blocks add to",
            "atom.global.add.u32 %r1, [%q], 1; W: ld.acquire.gpu.global.u32 %r2, [%q]; setp.lt.u32 %p1, %r2, %n; \
             @%p1 bra W;",
        ),
        (
            "a barrier by generations",
            "ld.volatile.global.u32 %r1, [%q+4]; atom.global.add.u32 %r2, [%q], 1; \
             W: ld.volatile.global.u32 %r3, [%q+4]; setp.eq.u32 %p1, %r1, %r3; @%p1 bra W;",
        ),
        (
            "a progress that the flag permits",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p1, %r2, 0; \
             @%p1 add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, %n; @%p2 bra W;",
        ),
        (
            "a branch round the progress",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; setp.eq.u32 %p1, %r2, 0; @%p1 bra S; \
             add.u32 %r1, %r1, 1; S: setp.lt.u32 %p2, %r1, %n; @%p2 bra W;",
        ),
        (
            "a selected progress",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; min.u32 %r3, %r2, 1; \
             add.u32 %r1, %r1, %r3; setp.lt.u32 %p2, %r1, %n; @%p2 bra W;",
        ),
        (
            "a weak progress that the flag permits",
            "mov.u32 %r1, 0; W: ld.global.u32 %r2, [%mine+4]; membar.gl; setp.ne.u32 %p1, %r2, 0; \
             @%p1 add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, %n; @%p2 bra W;",
        ),
        (
            "either of two",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; add.u32 %r1, %r1, 1; \
             setp.eq.u32 %p1, %r2, 0; setp.lt.or.u32 %p2, %r1, %n, %p1; @%p2 bra W;",
        ),
        (
            "both of two",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; add.u32 %r1, %r1, 1; \
             setp.ne.u32 %p1, %r2, 0; setp.ge.u32 %p2, %r1, %n; and.pred %p3, %p1, %p2; @!%p3 bra W;",
        ),
        (
            "a count that goes in circles",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p1, %r2, 0; @%p1 bra E; \
             xor.b32 %r1, %r1, 1; setp.ne.u32 %p2, %r1, 2; @%p2 bra W; E:",
        ),
        (
            "a count that stands still",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p1, %r2, 0; @%p1 bra E; \
             add.u32 %r1, %r1, %n; setp.lt.u32 %p2, %r1, 9; @%p2 bra W; E:",
        ),
        (
            "a count the wrong way",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p1, %r2, 0; @%p1 bra E; \
             add.u32 %r1, %r1, 1; setp.lt.s32 %p2, %r1, 0; @%p2 bra E; bra W; E:",
        ),
        (
            "a bound that moves along",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p1, %r2, 0; @%p1 bra E; \
             add.u32 %r1, %r1, 1; xor.b32 %r3, %r1, 0; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r1, %r3; \
             @%p2 bra W; E:",
        ),
        (
            "a count that begins anew",
            "W: mov.u32 %r1, 0; ld.volatile.global.u32 %r2, [%mine+4]; add.u32 %r1, %r1, 1; \
             setp.lt.u32 %p2, %r2, %r1; @%p2 bra W;",
        ),
        (
            "two loops that share it",
            "O: mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p1, %r2, 0; @%p1 bra E; \
             add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 100; @%p2 bra W; bra O; E:",
        ),
        (
            "continue",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%mine+4]; setp.eq.u32 %p1, %r2, 0; @%p1 bra W; \
             add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, %n; @%p2 bra W;",
        ),
        (
            "a way out of endless rounds",
            "W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p1, %r2, 0; @%p1 exit; bra W;",
        ),
        (
            "a branch that is predicated off",
            "W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p1, %r2, 0; @!%p1 bra W2; bra E; \
             W2: nanosleep.u32 20; bra W; E:",
        ),
        (
            "a table of branches",
            "W: ld.volatile.global.u32 %r2, [%mine+4]; min.u32 %r2, %r2, 1; T: .branchtargets W, E; \
             brx.idx %r2, T; E:",
        ),
        (
            "two entries",
            "setp.eq.u32 %p1, %t, 0; @%p1 bra B; A: nanosleep.u32 9; B: ld.volatile.global.u32 %r2, [%mine+4]; \
             setp.eq.u32 %p2, %r2, 0; @%p2 bra A;",
        ),
        (
            "a function that waits",
            "{ .param .b64 i; st.param.b64 [i], %mine; call.uni wait, (i); }",
        ),
        (
            "a function that calls itself",
            "{ .param .b64 i; st.param.b64 [i], %mine; call.uni again, (i); }",
        ),
        (
            "all flags in turn",
            "W: mov.u32 %r1, 0; mov.u32 %r2, 0; L: mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %flags, %rd1; \
             ld.volatile.global.u32 %r3, [%rd1]; add.u32 %r2, %r2, %r3; add.u32 %r1, %r1, 1; \
             setp.lt.u32 %p1, %r1, %n; @%p1 bra L; setp.lt.u32 %p2, %r2, %n; @%p2 bra W;",
        ),
        (
            "all flags in turn, weakly",
            "W: mov.u32 %r1, 0; mov.u32 %r2, 0; L: mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %flags, %rd1; \
             ld.global.u32 %r3, [%rd1]; add.u32 %r2, %r2, %r3; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %n; \
             @%p1 bra L; membar.gl; setp.lt.u32 %p2, %r2, %n; @%p2 bra W;",
        ),
        (
            "one thread for a barrier object",
            ".shared .align 8 .b64 s; mov.u32 %r5, s; setp.ne.u32 %p3, %t, 0; @%p3 bra J; \
             W: ld.volatile.global.u32 %r2, [%mine+4]; setp.eq.u32 %p1, %r2, 0; @%p1 bra W; \
             mbarrier.arrive.shared.b64 %rd1, [%r5]; J: mbarrier.test_wait.parity.shared.b64 %p2, [%r5], 0; \
             @!%p2 bra J;",
        ),
        (
            "a flag that is written down and read again",
            "W: ld.volatile.global.u32 %r2, [%mine+4]; st.global.u32 [%q], %r2; ld.global.u32 %r3, [%q]; \
             setp.eq.u32 %p1, %r3, 0; @%p1 bra W;",
        ),
        (
            "a clock that does not count",
            "W: ld.volatile.global.u32 %r2, [%mine+4]; setp.ne.u32 %p2, %r2, 0; @%p2 bra E; mov.u32 %r3, %clock; \
             and.b32 %r3, %r3, 0; setp.lt.u32 %p1, %r3, 1; @%p1 bra W; E:",
        ),
        (
            "a function behind a pointer",
            "mov.u64 %rd5, ready; { .param .b64 i; .param .b32 o; \
             W: P: .callprototype (.param .b32 _) _ (.param .b64 _); st.param.b64 [i], %mine; \
             call (o), %rd5, (i), P; ld.param.b32 %r9, [o]; setp.eq.u32 %p1, %r9, 0; @%p1 bra W; }",
        ),
        (
            "a queue beside a flag",
            "W: atom.global.add.u32 %r1, [%q], 1; ld.volatile.global.u32 %r2, [%mine+4]; setp.eq.u32 %p1, %r2, 0; \
             setp.lt.or.u32 %p2, %r1, %n, %p1; @%p2 bra W;",
        ),
        (
            "turns",
            "W: atom.global.cas.b32 %r1, [%q], %b, %b; setp.ne.u32 %p1, %r1, %b; @%p1 bra W; add.u32 %r2, %b, 1; \
             st.global.u32 [%q], %r2;",
        ),
        (
            "turns taken",
            "add.u32 %r2, %b, 1; W: atom.global.cas.b32 %r1, [%q], %b, %r2; setp.ne.u32 %p1, %r1, %b; @%p1 bra W;",
        ),
        (
            "a lock that another block opens",
            "add.s32 %r3, %n, -1; setp.ne.u32 %p2, %b, %r3; @%p2 bra W; st.global.u32 [%q], 0; \
             W: atom.global.cas.b32 %r1, [%q], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra W;",
        ),
    ] {
        assert_waits(name, ready, &format!("{SAY} {body}"));
    }
}

#[test]
fn a_wait_for_the_host_is_told_apart() {
    let body = "W: ld.acquire.sys.global.u32 %r1, [%q]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W;";
    let found = refusal(&module("", body));
    assert!(matches!(found, Some(Reason::SystemWait(_))), "{found:?}");
}
