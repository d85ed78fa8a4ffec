//! Waits of a block for another one: each way to hide one from the analysis is a kernel that stays whole, each wait
//! for earlier blocks and each loop that ends by itself one that may be cut.
//!
//! Every kernel is a few lines of a body between the same header and end.
//!
//! Length: tables of some 190 kernels, by what they do.

use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, FormVerdicts, Reason};

/// Registers that hold what most kernels need: `%flags` points to one word for each block, `%q` and `%n` are
/// parameters, `%b` is the block's number, `%t` the thread's, `%mine` the address of the block's own word.
const HEADER: &str = "\
    .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<10>; .reg .b32 %b, %t, %n; .reg .b64 %flags, %q, %w, %mine;
    .reg .f32 %f<4>;
    ld.param.u64 %flags, [flags]; ld.param.u64 %q, [q]; ld.param.u32 %n, [n];
    mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x;
    mul.wide.u32 %w, %b, 4; add.s64 %mine, %flags, %w;
";
/// Each block says that it has come by.
const SAY: &str = "st.release.gpu.global.u32 [%mine], 1;";

/// Returns the module of one kernel, with what stands before it.
fn module(before: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{before}\n.visible .entry k (.param .u64 flags, .param .u64 \
         q, .param .u32 n)\n{{\n{HEADER}{body}\nret;\n}}\n"
    )
}

/// Returns why the kernel `k` cannot be cut.
fn refusal(text: &str) -> Option<Reason> {
    let module = Module::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let program = module.decode().unwrap_or_else(|e| panic!("{e}\n{text}"));
    for function in &program.functions {
        for i in &function.body {
            assert_ne!(
                i.opcode,
                gridmux_ptx::decode::Opcode::Other,
                "{}\n{text}",
                i.mnemonic
            );
        }
    }
    let (kernel, _) = program.kernel("k").expect("it is there");
    let verdicts = FormVerdicts::new(&module, &program);
    verdicts
        .refusal(kernel, Form::SLICE)
        .map(|r| r.reason.clone())
}

fn assert_waits(name: &str, before: &str, body: &str) {
    let found = refusal(&module(before, body));
    assert!(
        matches!(found, Some(Reason::BlockWait(_))),
        "{name}: {found:?}"
    );
}

fn assert_cut(name: &str, before: &str, body: &str) {
    let found = refusal(&module(before, body));
    assert_eq!(found, None, "{name}");
}

/// Returns a body that waits for the word whose byte offset from `%flags` the text leaves in `%rd1`.
fn polls_at(offset: &str) -> String {
    format!(
        "{offset}\nadd.s64 %rd2, %flags, %rd1;\nW: ld.acquire.gpu.global.u32 %r9, [%rd2]; setp.eq.u32 %p9, %r9, 0; \
         @%p9 bra W;\n{SAY}"
    )
}

/// Returns a body that waits for the word whose index the text leaves in `%r1`.
fn polls_word(index: &str) -> String {
    polls_at(&format!("{index}\nmul.wide.s32 %rd1, %r1, 4;"))
}

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
        ("ld.volatile", "ld.volatile.global.u32 %r9, [%mine+4];"),
        ("ld.relaxed", "ld.relaxed.gpu.global.u32 %r9, [%mine+4];"),
        ("ld.acquire", "ld.acquire.gpu.global.u32 %r9, [%mine+4];"),
        ("ld.cv", "ld.global.cv.u32 %r9, [%mine+4];"),
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

/// Returns a loop that polls a later block's word, or leaves when the text leaves false in `%p1`.
fn polls_while(before: &str, round: &str) -> String {
    format!(
        "{SAY} {before} W: ld.volatile.global.u32 %r9, [%mine+4]; setp.ne.u32 %p9, %r9, 0; @%p9 bra E; {round} \
         @%p1 bra W; E:"
    )
}

// Length: a table of kernels.
#[test]
fn a_bound_that_is_never_met_ends_nothing() {
    let zero = "mov.u32 %r1, 0; mov.u64 %rd1, 0;";
    let clock = "mov.u32 %r1, %clock; mov.u64 %rd1, %clock64;";
    for (name, before, round) in [
        (
            "not past the largest number",
            zero,
            "add.u32 %r1, %r1, 1; setp.le.u32 %p1, %r1, -1;",
        ),
        (
            "not past the largest signed one",
            zero,
            "add.s32 %r1, %r1, 1; setp.le.s32 %p1, %r1, 0x7fffffff;",
        ),
        (
            "not past the largest of 64 bits",
            zero,
            "add.u64 %rd1, %rd1, 1; setp.le.u64 %p1, %rd1, -1;",
        ),
        (
            "the largest number in a register",
            "mov.u32 %r1, 0; mov.u32 %r2, -1;",
            "add.u32 %r1, %r1, 1; setp.ge.u32 %p1, %r2, %r1;",
        ),
        (
            "not below zero",
            "mov.u32 %r1, %n;",
            "add.u32 %r1, %r1, -1; setp.ge.u32 %p1, %r1, 0;",
        ),
        (
            "not below the smallest signed one",
            zero,
            "add.s32 %r1, %r1, -1; setp.ge.s32 %p1, %r1, 0x80000000;",
        ),
        (
            "too many rounds",
            zero,
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 0x1000003;",
        ),
        (
            "too many rounds from anywhere",
            "mov.u32 %r1, %t;",
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, -9;",
        ),
        (
            "too many rounds down",
            zero,
            "add.s32 %r1, %r1, -1; setp.gt.s32 %p1, %r1, -2000000000;",
        ),
        (
            "too many rounds to be met",
            zero,
            "add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0x1000002;",
        ),
        (
            "too many rounds round about",
            zero,
            "add.u32 %r1, %r1, -1; setp.ne.u32 %p1, %r1, 9;",
        ),
        (
            "past the bound by steps of two",
            zero,
            "add.u32 %r1, %r1, 2; setp.ne.u32 %p1, %r1, 1001;",
        ),
        (
            "past a parameter by steps of two",
            zero,
            "add.u32 %r1, %r1, 2; setp.ne.u32 %p1, %r1, %n;",
        ),
        (
            "past the bound and round",
            zero,
            "add.u32 %r1, %r1, 0x40000000; setp.lt.u32 %p1, %r1, 0xc0000001;",
        ),
        (
            "steps that are none",
            zero,
            "add.u64 %rd1, %rd1, 0x100000000; cvt.u32.u64 %r2, %rd1; \
         setp.lt.u32 %p1, %r2, %n;",
        ),
        (
            "no 32 bits come so far",
            zero,
            "add.u32 %r1, %r1, 4096; cvt.u64.u32 %rd2, %r1; \
         setp.lt.u64 %p1, %rd2, 0x100000001;",
        ),
        (
            "not below zero when widened",
            "mov.u32 %r1, %n;",
            "add.u32 %r1, %r1, -1; cvt.u64.u32 %rd2, %r1; \
         setp.ge.s64 %p1, %rd2, 0;",
        ),
        (
            "met, but not at the same time",
            "mov.u32 %r1, 0; mov.u32 %r2, 0;",
            "add.u32 %r1, %r1, 1; add.u32 %r2, %r2, 1; setp.ne.u32 %p2, %r1, 5; setp.ne.or.u32 %p1, %r2, 6, %p2;",
        ),
        (
            "a step that is taken back",
            zero,
            "add.u32 %r1, %r1, 1; not.b32 %r2, %r1; add.u32 %r3, %r1, %r2; \
         setp.lt.u32 %p1, %r3, %n;",
        ),
        (
            "a number that others take, too",
            zero,
            "atom.global.add.u32 %r1, [%q], 1; setp.ne.u32 %p1, %r1, 1000;",
        ),
        (
            "a number that begins anew",
            zero,
            "atom.global.inc.u32 %r1, [%q], 5; setp.lt.u32 %p1, %r1, 1000;",
        ),
        (
            "the end of time",
            clock,
            "mov.u64 %rd2, %clock64; setp.lt.u64 %p1, %rd2, 0xffffffffffffffff;",
        ),
        (
            "a time of the day",
            clock,
            "mov.u64 %rd2, %globaltimer; setp.lt.u64 %p1, %rd2, 0x1000000000;",
        ),
        (
            "not one tick of a clock",
            clock,
            "mov.u64 %rd2, %globaltimer; setp.ne.u64 %p1, %rd2, 3;",
        ),
        (
            "a tick after the start",
            clock,
            "mov.u64 %rd2, %clock64; sub.u64 %rd2, %rd2, %rd1; \
         setp.ne.u64 %p1, %rd2, 1000;",
        ),
        (
            "hours",
            clock,
            "mov.u64 %rd2, %clock64; sub.u64 %rd2, %rd2, %rd1; setp.lt.u64 %p1, %rd2, 0x20000000000;",
        ),
        (
            "more than a short clock counts",
            clock,
            "mov.u32 %r2, %clock; sub.u32 %r2, %r2, %r1; \
         setp.le.u32 %p1, %r2, -1;",
        ),
        (
            "a short clock, widened",
            clock,
            "mov.u32 %r2, %clock; sub.u32 %r2, %r2, %r1; cvt.u64.u32 %rd2, %r2; \
         setp.lt.u64 %p1, %rd2, 0x200000000;",
        ),
    ] {
        assert_waits(name, "", &polls_while(before, round));
    }
    for (name, before, round) in [
        (
            "a thousand rounds",
            zero,
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000;",
        ),
        (
            "a thousand and one",
            zero,
            "add.s32 %r1, %r1, 1; setp.le.s32 %p1, %r1, 1000;",
        ),
        (
            "a thousand, met",
            zero,
            "add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 1000;",
        ),
        (
            "a thousand of 64 bits",
            zero,
            "add.u64 %rd1, %rd1, 8; setp.lt.u64 %p1, %rd1, 8000;",
        ),
        (
            "as many as there may be",
            zero,
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 0x1000000;",
        ),
        (
            "down from a parameter",
            "mov.u32 %r1, %n;",
            "add.u32 %r1, %r1, -1; setp.ne.u32 %p1, %r1, 0;",
        ),
        (
            "down to below zero",
            "mov.u32 %r1, %n;",
            "add.s32 %r1, %r1, -1; setp.gt.s32 %p1, %r1, -1;",
        ),
        (
            "threads in turn",
            "mov.u32 %r1, %t;",
            "add.u32 %r1, %r1, 256; setp.lt.u32 %p1, %r1, 4096;",
        ),
        (
            "up to a parameter",
            zero,
            "add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, %n;",
        ),
        (
            "up to what memory says",
            zero,
            "ld.global.u32 %r2, [%q]; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2;",
        ),
        (
            "a number taken",
            zero,
            "atom.global.add.u32 %r1, [%q], 1; setp.lt.u32 %p1, %r1, 1000;",
        ),
        (
            "ticks",
            clock,
            "mov.u64 %rd2, %clock64; sub.s64 %rd2, %rd2, %rd1; setp.lt.s64 %p1, %rd2, 100000;",
        ),
        (
            "ticks of a short clock",
            clock,
            "mov.u32 %r2, %clock; sub.u32 %r2, %r2, %r1; \
         setp.lt.u32 %p1, %r2, 100000;",
        ),
        (
            "a time from the start on",
            "mov.u64 %rd1, %globaltimer; add.u64 %rd1, %rd1, 10000000000;",
            "mov.u64 %rd2, %globaltimer; setp.lt.u64 %p1, %rd2, %rd1;",
        ),
        (
            "a time in a parameter",
            clock,
            "mov.u64 %rd2, %clock64; setp.gt.u64 %p1, %q, %rd2;",
        ),
    ] {
        assert_cut(name, "", &polls_while(before, round));
    }
}

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

#[test]
fn a_wait_for_the_host_is_told_apart() {
    let body = "W: ld.acquire.sys.global.u32 %r1, [%q]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W;";
    let found = refusal(&module("", body));
    assert!(matches!(found, Some(Reason::SystemWait(_))), "{found:?}");
}
