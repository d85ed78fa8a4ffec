//! Waits for later blocks at addresses that hide whose word it is.

use super::{SAY, assert_waits, polls_at, polls_word};

// Length: a table of kernels.
#[test]
fn an_address_of_a_later_block_is_not_hidden() {
    let table = ".const .align 4 .u32 table[4] = {1, 2, 3, 4};\n.global .align 4 .u32 order[4] = {1, 2, 3, 4};\n\
                 .func (.param .b32 out) next (.param .b32 in) { .reg .b32 %r<3>; ld.param.b32 %r1, [in]; \
                 add.u32 %r2, %r1, 1; st.param.b32 [out], %r2; ret; }";
    for (name, index) in [
        ("plain", "add.u32 %r1, %b, 1;"),
        (
            "wrap-around",
            "add.s32 %r2, %b, 1; add.s32 %r3, %r2, %n; setp.lt.s32 %p1, %r2, 0; selp.b32 %r1, %r3, %r2, %p1;",
        ),
        (
            "wrap-around of an earlier one",
            "add.s32 %r2, %b, -1; add.s32 %r3, %r2, %n; setp.lt.s32 %p1, %r2, 0; selp.b32 %r1, %r3, %r2, %p1;",
        ),
        (
            "select",
            "add.s32 %r2, %b, -1; add.s32 %r3, %b, 1; setp.lt.u32 %p1, %r3, %n; selp.b32 %r1, %r3, %r2, %p1;",
        ),
        (
            "slct",
            "add.s32 %r2, %b, -1; add.s32 %r3, %b, 1; slct.s32.s32 %r1, %r2, %r3, %n;",
        ),
        (
            "predicated move",
            "add.s32 %r1, %b, -1; setp.gt.u32 %p1, %n, 7; @%p1 add.s32 %r1, %b, 1;",
        ),
        (
            "branches that meet",
            "add.s32 %r1, %b, -1; setp.gt.u32 %p1, %n, 7; @%p1 bra M; add.s32 %r1, %b, 1; M:",
        ),
        (
            "min",
            "add.s32 %r2, %b, 1; sub.s32 %r3, %n, 1; min.s32 %r1, %r2, %r3;",
        ),
        (
            "max",
            "add.s32 %r2, %b, -1; add.s32 %r3, %b, 1; max.s32 %r1, %r2, %r3;",
        ),
        ("and", "add.s32 %r2, %b, -1; and.b32 %r1, %r2, 7;"),
        ("or", "sub.s32 %r2, %b, 1; or.b32 %r1, %r2, 1;"),
        (
            "xor",
            "sub.s32 %r2, 0, 1; xor.b32 %r3, %b, 1; and.b32 %r3, %r3, %r2; add.s32 %r1, %r3, 0;",
        ),
        (
            "not",
            "not.b32 %r2, %b; not.b32 %r3, %r2; add.s32 %r1, %r3, 1;",
        ),
        (
            "lop3",
            "add.s32 %r2, %b, -1; lop3.b32 %r1, %r2, 1, %n, 0x96;",
        ),
        (
            "shifts",
            "add.s32 %r2, %b, -1; shr.u32 %r3, %r2, 1; shl.b32 %r4, %r3, 1; add.s32 %r1, %r4, 3;",
        ),
        ("bfe", "add.s32 %r2, %b, -1; bfe.u32 %r1, %r2, 1, 8;"),
        ("prmt", "add.s32 %r2, %b, -1; prmt.b32 %r1, %r2, 0, 0x0123;"),
        ("rem", "add.s32 %r2, %b, -1; rem.u32 %r1, %r2, %n;"),
        ("div", "add.s32 %r2, %b, -1; div.u32 %r1, %r2, 1;"),
        ("mad", "mad.lo.s32 %r1, %b, 1, 1;"),
        (
            "mul",
            "sub.s32 %r2, 0, %b; sub.s32 %r2, %r2, 1; mul.lo.s32 %r1, %r2, -1;",
        ),
        ("reversed", "sub.s32 %r2, %n, %b; sub.s32 %r1, %r2, 2;"),
        (
            "half as fast",
            "mul.lo.s32 %r2, %b, 2; sub.s32 %r1, %r2, 1;",
        ),
        ("a parameter off", "sub.s32 %r1, %b, %n;"),
        (
            "const table",
            "mov.u64 %rd3, table; mul.wide.u32 %rd4, %b, 4; add.s64 %rd3, %rd3, %rd4; \
             ld.const.u32 %r2, [%rd3+-4]; sub.s32 %r1, %r2, 0;",
        ),
        (
            "global table",
            "mov.u64 %rd3, order; mul.wide.u32 %rd4, %b, 4; add.s64 %rd3, %rd3, %rd4; ld.global.u32 %r1, [%rd3+-4];",
        ),
        (
            "table in a parameter",
            "add.s64 %rd3, %q, %w; ld.global.u32 %r2, [%rd3+-4]; add.s32 %r1, %r2, -1;",
        ),
        (
            "call",
            "{ .param .b32 i; .param .b32 o; st.param.b32 [i], %b; call.uni (o), next, (i); \
             ld.param.b32 %r2, [o]; } sub.s32 %r1, %r2, 0;",
        ),
        (
            "shared memory",
            ".shared .align 4 .b32 s; add.s32 %r2, %b, 1; st.shared.u32 [s], %r2; bar.sync 0; \
             ld.shared.u32 %r1, [s];",
        ),
        (
            "shared memory, two stores",
            ".shared .align 4 .b32 s; add.s32 %r2, %b, 1; add.s32 %r3, %b, -1; st.shared.u32 [s], %r3; \
             setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [s], %r2; bar.sync 0; ld.shared.u32 %r1, [s];",
        ),
        (
            "shared memory, a table",
            ".shared .align 4 .b32 s[32]; mov.u32 %r5, s; shl.b32 %r6, %t, 2; add.s32 %r5, %r5, %r6; \
             add.s32 %r2, %b, 1; st.shared.u32 [%r5], %r2; bar.sync 0; ld.shared.u32 %r3, [s]; add.s32 %r1, %r3, -1;",
        ),
        (
            "local memory",
            ".local .align 4 .b32 l; add.s32 %r2, %b, 2; st.local.u32 [l], %r2; ld.local.u32 %r3, [l]; \
             add.s32 %r1, %r3, -1;",
        ),
        (
            "loop-carried",
            "mov.u32 %r1, %b; mov.u32 %r2, 0; L: add.s32 %r1, %r1, 1; add.s32 %r2, %r2, 1; \
             setp.lt.u32 %p1, %r2, %n; @%p1 bra L; add.s32 %r1, %r1, -1;",
        ),
        (
            "another lane's",
            "add.s32 %r2, %b, %t; shfl.sync.idx.b32 %r3, %r2, 3, 31, -1; add.s32 %r1, %r3, -1;",
        ),
        ("threads ahead", "add.s32 %r2, %b, %t; sub.s32 %r1, %r2, 1;"),
        (
            "32 bits of 64",
            "cvt.u64.u32 %rd3, %b; shl.b64 %rd3, %rd3, 1; add.s64 %rd3, %rd3, -1; cvt.u32.u64 %r1, %rd3;",
        ),
        (
            "a float",
            "cvt.rn.f32.u32 %f1, %b; add.f32 %f1, %f1, 0f3F800000; cvt.rzi.u32.f32 %r2, %f1; sub.s32 %r1, %r2, 0;",
        ),
        (
            "16 bits",
            ".reg .b16 %h; cvt.u16.u32 %h, %b; add.s16 %h, %h, -1; cvt.u32.u16 %r1, %h;",
        ),
        (
            "a vector",
            "add.s32 %r2, %b, 1; mov.b64 %rd3, {%r2, %r2}; mov.b64 {%r3, %r4}, %rd3; add.s32 %r1, %r3, -1;",
        ),
        (
            "a number taken by everybody",
            "atom.global.add.u32 %r2, [%q], 1; add.s32 %r1, %r2, 1;",
        ),
        (
            "a number given back",
            "atom.global.add.u32 %r2, [%q], -1; sub.s32 %r1, %r2, 1;",
        ),
        (
            "a counter of each block",
            "add.s64 %rd3, %q, %w; atom.global.add.u32 %r2, [%rd3], 1; sub.s32 %r1, %r2, 1;",
        ),
    ] {
        assert_waits(name, table, &polls_word(index));
    }
    for (name, offset) in [
        (
            "a pointer selected",
            "add.s64 %rd3, %w, 4; sub.s64 %rd4, %w, 4; setp.lt.u32 %p1, %b, %n; selp.b64 %rd1, %rd3, %rd4, %p1;",
        ),
        (
            "a pointer loaded",
            "ld.global.u64 %rd3, [%q+-8]; sub.s64 %rd1, %rd3, 4;",
        ),
        ("masked", "add.s64 %rd3, %w, 7; and.b64 %rd1, %rd3, -4;"),
    ] {
        assert_waits(name, "", &polls_at(offset));
    }
    // As numba compiles `while cuda.atomic.add(flags, block + 1, 0) == 0: pass`.
    let numba = |wait: &str| {
        format!(
            "cvt.s64.s32 %rd3, %b; ld.param.u64 %rd4, [q]; setp.lt.s32 %p1, %b, -1; selp.b64 %rd5, %rd4, 0, %p1; \
             add.s64 %rd6, %rd5, %rd3; shl.b64 %rd7, %rd6, 2; add.s64 %rd8, %flags, %rd7; add.s64 %rd9, %rd8, 4; \
             {wait} setp.lt.s32 %p3, %b, 0; selp.b64 %rd12, %rd4, 0, %p3; add.s64 %rd13, %rd12, %rd3; \
             shl.b64 %rd14, %rd13, 2; add.s64 %rd15, %flags, %rd14; atom.global.exch.b32 %r7, [%rd15], 1;"
        )
    };
    for (name, wait) in [
        (
            "asked before the loop",
            "atom.global.add.u32 %r4, [%rd9], 0; setp.ne.s32 %p2, %r4, 0; @%p2 bra E; \
             W: atom.global.add.u32 %r5, [%rd9], 0; setp.eq.s32 %p2, %r5, 0; @%p2 bra W; E:",
        ),
        (
            "asked in the loop alone",
            "W: atom.global.add.u32 %r5, [%rd9], 0; setp.eq.s32 %p2, %r5, 0; @%p2 bra W;",
        ),
        (
            "by cas",
            "W: atom.global.cas.b32 %r5, [%rd9], 1, 1; setp.ne.s32 %p2, %r5, 1; @%p2 bra W;",
        ),
        (
            "by a volatile read",
            "W: ld.volatile.global.u32 %r5, [%rd9]; setp.eq.s32 %p2, %r5, 0; @%p2 bra W;",
        ),
    ] {
        assert_waits(name, "", &numba(wait));
    }
    // As numba compiles `while cuda.atomic.add(flags, f(block), 0) == 0: pass`: 64-bit indices, with their wrap-around.
    for (name, index) in [
        (
            "numba's min",
            "add.s64 %rd3, %rd3, 1; add.s64 %rd10, %rd4, -1; setp.lt.s64 %p1, %rd3, %rd10; \
             selp.b64 %rd5, %rd3, %rd10, %p1;",
        ),
        (
            "numba's mask",
            "add.s64 %rd3, %rd3, 1; and.b64 %rd5, %rd3, 7;",
        ),
        (
            "numba's modulo",
            "add.s64 %rd3, %rd3, 1; rem.s64 %rd5, %rd3, %rd4; xor.b64 %rd10, %rd5, %rd4; setp.lt.s64 %p1, %rd10, 0; \
             selp.b64 %rd10, %rd4, 0, %p1; add.s64 %rd5, %rd5, %rd10;",
        ),
        (
            "numba's table",
            "shl.b64 %rd10, %rd3, 3; add.s64 %rd10, %rd4, %rd10; ld.global.u64 %rd5, [%rd10];",
        ),
    ] {
        let body = format!(
            "cvt.s64.s32 %rd3, %b; ld.param.u64 %rd4, [q]; {index} setp.lt.s64 %p3, %rd5, 0; \
             selp.b64 %rd6, %rd4, 0, %p3; add.s64 %rd6, %rd6, %rd5; shl.b64 %rd7, %rd6, 2; add.s64 %rd9, %flags, %rd7; \
             W: atom.global.add.u32 %r5, [%rd9], 0; setp.eq.s32 %p2, %r5, 0; @%p2 bra W; \
             atom.global.exch.b32 %r7, [%mine], 1;"
        );
        assert_waits(name, "", &body);
    }
    for (name, body) in [
        (
            "generic",
            format!(
                "add.s64 %rd1, %mine, 4; W: ld.acquire.gpu.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; \
         @%p1 bra W; {SAY}"
            ),
        ),
        (
            "cvta",
            format!(
                "cvta.global.u64 %rd1, %mine; cvta.to.global.u64 %rd1, %rd1; \
         W: ld.volatile.global.u32 %r1, [%rd1+4]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W; {SAY}"
            ),
        ),
        (
            "a word of a vector",
            format!(
                "W: ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%mine+-4]; membar.gl; \
         setp.eq.u32 %p1, %r4, 0; @%p1 bra W; {SAY}"
            ),
        ),
        (
            "wider than the stride",
            format!(
                "W: ld.acquire.gpu.global.u64 %rd1, [%mine+0]; \
         setp.eq.u64 %p1, %rd1, 0; @%p1 bra W; {SAY}"
            ),
        ),
        (
            "stored elsewhere",
            "W: ld.acquire.gpu.global.u32 %r1, [%mine+-4]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W; \
         st.global.u32 [%mine+-8], 1;"
                .to_owned(),
        ),
        (
            "stored through a loaded pointer",
            format!(
                "W: ld.acquire.gpu.global.u32 %r1, [%mine+-4]; \
         setp.eq.u32 %p1, %r1, 0; @%p1 bra W; {SAY} ld.global.u64 %rd1, [%q]; st.global.u32 [%rd1], 1;"
            ),
        ),
        (
            "never stored",
            "W: ld.acquire.gpu.global.u32 %r1, [%mine+-4]; setp.eq.u32 %p1, %r1, 0; \
         @%p1 bra W;"
                .to_owned(),
        ),
        (
            "another axis",
            format!(
                "mov.u32 %r2, %ctaid.y; setp.eq.u32 %p2, %r2, 1; @%p2 bra S; \
         W: ld.acquire.gpu.global.u32 %r1, [%mine+-4]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W; S: {SAY}"
            ),
        ),
    ] {
        assert_waits(name, "", &body);
    }
}
