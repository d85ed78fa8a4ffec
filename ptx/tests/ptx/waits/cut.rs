//! Waits for earlier blocks, and loops that end by themselves.

use super::{SAY, assert_cut, polls_word};

#[test]
fn waits_for_earlier_blocks_may_be_cut() {
    let word = |index: &str| polls_word(index);
    for (name, body) in [
        ("the block before", word("add.s32 %r1, %b, -1;")),
        ("by subtraction", word("sub.s32 %r1, %b, 1;")),
        ("two before", word("mad.lo.s32 %r1, %b, 1, -2;")),
        ("one of two before", word("add.s32 %r2, %b, -1; add.s32 %r3, %b, -2; setp.lt.u32 %p1, %t, 9; \
         selp.b32 %r1, %r2, %r3, %p1;")),
        ("the smaller one", word("add.s32 %r2, %b, -1; add.s32 %r3, %b, -2; min.s32 %r1, %r2, %r3;")),
        ("a predicated move", word("add.s32 %r1, %b, -1; setp.gt.u32 %p1, %n, 7; @%p1 add.s32 %r1, %b, -3;")),
        ("a window of threads", word("sub.s32 %r2, %b, %t; add.s32 %r1, %r2, -1;")),
        ("64 bits", word("cvt.u64.u32 %rd3, %b; add.s64 %rd3, %rd3, -1; cvt.u32.u64 %r1, %rd3;")),
        ("through shared memory", word(".shared .align 4 .b32 s; add.s32 %r2, %b, -1; st.shared.u32 [s], %r2; \
         bar.sync 0; ld.shared.u32 %r1, [s];")),
        ("one after the other", format!("mov.u32 %r1, %b; O: add.s32 %r1, %r1, -1; mul.wide.s32 %rd1, %r1, 4; \
         add.s64 %rd2, %flags, %rd1; W: ld.acquire.gpu.global.u32 %r2, [%rd2]; setp.eq.u32 %p1, %r2, 0; \
         @%p1 bra W; setp.ne.u32 %p2, %r2, 2; @%p2 bra O; {SAY}")),
        ("all of them", format!("mov.u32 %r1, %b; O: setp.eq.u32 %p3, %r1, 0; @%p3 bra E; add.s32 %r1, %r1, -1; \
         mul.wide.s32 %rd1, %r1, 4; add.s64 %rd2, %flags, %rd1; W: ld.volatile.global.u32 %r2, [%rd2]; \
         setp.eq.u32 %p1, %r2, 0; @%p1 bra W; bra O; E: {SAY}")),
        ("by an atomic operation", format!("W: atom.global.add.u32 %r2, [%mine+-4], 0; setp.eq.u32 %p1, %r2, 0; \
         @%p1 bra W; {SAY}")),
        ("weakly", format!("W: ld.global.u32 %r2, [%mine+-4]; membar.gl; setp.eq.u32 %p1, %r2, 0; @%p1 bra W; \
         {SAY}")),
        ("its own word", format!("setp.ne.u32 %p2, %t, 0; @%p2 bra W; \
         {SAY} W: ld.volatile.global.u32 %r2, [%mine]; setp.eq.u32 %p1, %r2, 0; @%p1 bra W;")),
        ("backwards in memory", "sub.s32 %r1, %n, %b; mul.wide.s32 %rd1, %r1, 4; add.s64 %rd2, %flags, %rd1; \
         W: ld.acquire.gpu.global.u32 %r2, [%rd2]; setp.eq.u32 %p1, %r2, 0; @%p1 bra W; \
         st.global.u32 [%rd2+-4], 1;".to_owned()),
        ("by a number taken", ".shared .align 4 .b32 s; setp.ne.u32 %p2, %t, 0; @%p2 bra J; \
         atom.global.add.u32 %r1, [%q], 1; st.shared.u32 [s], %r1; J: bar.sync 0; ld.shared.u32 %r2, [s]; \
         mul.wide.u32 %rd1, %r2, 4; add.s64 %rd2, %flags, %rd1; W: ld.acquire.gpu.global.u32 %r3, [%rd2+-4]; \
         setp.eq.u32 %p1, %r3, 0; @%p1 bra W; st.release.gpu.global.u32 [%rd2], 1;".to_owned()),
        ("a row of the grid", "mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mad.lo.s32 %r3, %r1, %r2, %b; \
         mul.wide.u32 %rd1, %r3, 4; add.s64 %rd2, %flags, %rd1; W: ld.acquire.gpu.global.u32 %r4, [%rd2+-4]; \
         setp.eq.u32 %p1, %r4, 0; @%p1 bra W; st.release.gpu.global.u32 [%rd2], 1;".to_owned()),
    ] {
        assert_cut(name, "", &body);
    }
}

/// What has the block's scope waits for threads of the block, wherever its address lies.
#[test]
fn waits_inside_a_block_may_be_cut() {
    for (name, body) in [
        (
            "an acquire",
            "W: ld.acquire.cta.u32 %r9, [%q]; setp.eq.u32 %p9, %r9, 0; @%p9 bra W;",
        ),
        (
            "a relaxed read",
            "W: ld.relaxed.cta.global.u32 %r9, [%q]; setp.eq.u32 %p9, %r9, 0; @%p9 bra W;",
        ),
        (
            "an atomic",
            "W: atom.relaxed.cta.or.b32 %r9, [%q], 0; setp.eq.u32 %p9, %r9, 0; @%p9 bra W;",
        ),
        (
            "by a fence",
            "W: ld.relaxed.cta.u32 %r9, [%q]; fence.acq_rel.cta; setp.eq.u32 %p9, %r9, 0; @%p9 bra W;",
        ),
    ] {
        assert_cut(name, "", body);
    }
}

#[test]
fn loops_that_end_by_themselves_may_be_cut() {
    for (name, body) in [
        (
            "so many rounds",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%q]; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %n; \
             @%p1 bra W;",
        ),
        (
            "so many rounds at most",
            "mov.u32 %r1, 0; W: ld.volatile.global.u32 %r2, [%q]; setp.ne.u32 %p2, %r2, 0; @%p2 bra E; \
             add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, %n; @%p1 bra W; E:",
        ),
        (
            "both must go on",
            "mov.u32 %r1, %n; W: ld.volatile.global.u32 %r2, [%q]; setp.eq.u32 %p2, %r2, 0; add.s32 %r1, %r1, -1; \
             setp.gt.and.s32 %p1, %r1, 0, %p2; @%p1 bra W;",
        ),
        (
            "a time",
            "mov.u32 %r1, %clock; W: ld.volatile.global.u32 %r2, [%q]; setp.ne.u32 %p2, %r2, 0; @%p2 bra E; \
             mov.u32 %r3, %clock; sub.u32 %r3, %r3, %r1; setp.lt.u32 %p1, %r3, 9999; @%p1 bra W; E:",
        ),
        (
            "a queue",
            "W: atom.global.add.u32 %r1, [%q], 1; setp.lt.u32 %p1, %r1, %n; @%p1 bra W;",
        ),
        (
            "a search",
            "mov.u32 %r1, 0; W: mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %q, %rd1; ld.global.u32 %r2, [%rd2]; \
             add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r2, 7; @%p1 bra W;",
        ),
        (
            "a list",
            "mov.u64 %rd1, %q; W: ld.global.u64 %rd1, [%rd1]; setp.ne.u64 %p1, %rd1, 0; @%p1 bra W;",
        ),
        (
            "a table of keys",
            "mov.u32 %r1, %b; W: and.b32 %r1, %r1, 63; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %q, %rd1; \
             atom.global.cas.b32 %r2, [%rd2], 0, %n; add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra W;",
        ),
        (
            "a count in memory",
            "W: ld.global.u32 %r1, [%mine]; sub.u32 %r1, %r1, 1; st.global.u32 [%mine], %r1; \
             setp.ne.u32 %p1, %r1, 0; @%p1 bra W;",
        ),
        (
            "an approximation to what memory says",
            "mov.f32 %f1, 0f3F800000; W: ld.global.f32 %f2, [%q]; mul.f32 %f1, %f1, 0f3F000000; \
             setp.gt.f32 %p1, %f1, %f2; @%p1 bra W;",
        ),
        (
            "an exchange with retries",
            "ld.global.u32 %r1, [%q]; W: add.u32 %r2, %r1, %n; mov.u32 %r3, %r1; \
             atom.global.cas.b32 %r1, [%q], %r3, %r2; setp.ne.u32 %p1, %r1, %r3; @%p1 bra W;",
        ),
        (
            "a lock",
            "W: atom.global.cas.b32 %r1, [%q], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra W; \
             atom.global.exch.b32 %r2, [%q], 0;",
        ),
        (
            "a lock of one thread",
            "setp.ne.u32 %p2, %t, 0; @%p2 bra J; W: atom.global.exch.b32 %r1, [%q], 1; setp.ne.u32 %p1, %r1, 0; \
             @%p1 bra W; J: bar.sync 0; @%p2 bra E; st.release.gpu.global.u32 [%q], 0; E:",
        ),
        (
            "a lock that is looked at first",
            "W: ld.volatile.global.u32 %r1, [%q]; setp.ne.u32 %p1, %r1, 0; @%p1 bra W; \
             atom.global.cas.b32 %r1, [%q], 0, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra W; \
             st.release.gpu.global.u32 [%q], 0;",
        ),
        (
            "a barrier object",
            ".shared .align 8 .b64 s; mov.u32 %r5, s; J: mbarrier.test_wait.parity.shared.b64 %p2, [%r5], 0; \
             @!%p2 bra J; st.global.u32 [%mine], 1;",
        ),
    ] {
        assert_cut(name, "", body);
    }
}
