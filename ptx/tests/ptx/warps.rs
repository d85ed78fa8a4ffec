//! Exchanges inside a warp that only some threads of a block reach: which of them a worker's loop may hold.

use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, FormVerdicts, Reason};

/// Returns why a kernel cannot be a worker. `%t` is the thread, `%x` something that threads disagree on.
fn refusal(before: &str, body: &str) -> Option<Reason> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{before}\n.visible .entry k(.param .u64 o)\n{{\n\
         .reg .b32 %r<9>, %t, %x, %m; .reg .b64 %o, %f; .reg .pred %p<4>;\nld.param.u64 %o, [o];\n\
         mov.u32 %t, %tid.x;\nld.global.u32 %x, [%o];\n{body}\nE: st.global.u32 [%o], %x;\nret;\n}}\n"
    );
    let module = Module::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let program = module.decode().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let (kernel, _) = program.kernel("k").expect("it is there");
    let verdicts = FormVerdicts::new(&module, &program);
    let found = verdicts.refusal(kernel, Form::WORKER);
    found.map(|r| r.reason.clone())
}

/// The number of the thread in its block, as compilers compute it.
const RANK: &str = "mov.u32 %r1, %ntid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %tid.y; \
                    mad.lo.s32 %r4, %r1, %r2, %r3; mov.u32 %r5, %ntid.x; mad.lo.s32 %r6, %r4, %r5, %t;";
const SHUFFLE: &str = "shfl.sync.down.b32 %r7, %x, 1, 31, ";

#[test]
fn threads_that_come_together_may_exchange() {
    for (name, body) in [
        (
            "the first warp by rank",
            format!("{RANK} setp.gt.u32 %p1, %r6, 31; @%p1 bra E; {SHUFFLE} -1;"),
        ),
        (
            "those that were voted on",
            format!(
                "setp.lt.u32 %p1, %x, 16; vote.sync.ballot.b32 %m, %p1, -1; @!%p1 bra E; {SHUFFLE} %m; {SHUFFLE} %m;"
            ),
        ),
        (
            "the others",
            format!(
                "setp.lt.u32 %p1, %x, 16; vote.sync.ballot.b32 %m, !%p1, -1; @%p1 bra E; {SHUFFLE} %m;"
            ),
        ),
        (
            "by a comparison and its opposite",
            format!(
                "setp.gt.u32 %p2, %x, 15; setp.lt.u32 %p1, %x, 16; vote.sync.ballot.b32 %m, %p1, -1; @%p2 bra E; \
                 mov.u32 %r5, %m; {SHUFFLE} %r5;"
            ),
        ),
    ] {
        assert_eq!(refusal("", &body), None, "{name}");
    }
}

#[test]
fn threads_that_others_wait_for_may_not() {
    for (name, body) in [
        (
            "some of a warp by rank",
            format!("{RANK} setp.gt.u32 %p1, %r6, 30; @%p1 bra E; {SHUFFLE} -1;"),
        ),
        (
            "a rank times something else",
            format!("mul.lo.u32 %r1, %t, %x; setp.gt.u32 %p1, %r1, 31; @%p1 bra E; {SHUFFLE} -1;"),
        ),
        (
            "those that were not voted on",
            format!(
                "setp.lt.u32 %p1, %x, 16; vote.sync.ballot.b32 %m, %p1, -1; @%p1 bra E; {SHUFFLE} %m;"
            ),
        ),
        (
            "another predicate",
            format!(
                "setp.lt.u32 %p1, %x, 16; setp.lt.u32 %p2, %x, 15; vote.sync.ballot.b32 %m, %p1, -1; @!%p2 bra E; \
                 {SHUFFLE} %m;"
            ),
        ),
        (
            "a comparison that is no opposite",
            format!(
                "setp.gt.u32 %p2, %x, 16; setp.lt.u32 %p1, %x, 16; vote.sync.ballot.b32 %m, %p1, -1; @%p2 bra E; \
                 {SHUFFLE} %m;"
            ),
        ),
        (
            "one of those that were voted on leaves first",
            format!(
                "setp.lt.u32 %p1, %x, 16; vote.sync.ballot.b32 %m, %p1, -1; @!%p1 bra E; setp.eq.u32 %p2, %x, 3; \
                 @%p2 bra E; {SHUFFLE} %m;"
            ),
        ),
    ] {
        let found = refusal("", &body);
        assert!(
            matches!(found, Some(Reason::NotAllThreads(_))),
            "{name}: {found:?}"
        );
    }
}

/// A call through a pointer reaches the functions that take what it hands over, and no other barrier counts.
#[test]
fn a_call_through_a_pointer_waits_as_what_it_may_mean() {
    let before = ".func one(.param .b32 a) { ret; }\n\
                  .func two(.param .b32 a, .param .b32 b) { bar.sync 0; ret; }\n\
                  .global .u64 table[2] = {one, two};";
    let call = |count: usize| {
        let (names, types) = [
            ("(a)", "(.param .b32 x)"),
            ("(a, b)", "(.param .b32 x, .param .b32 y)"),
        ][count - 1];
        format!(
            "setp.eq.u32 %p1, %x, 3; @%p1 bra E; ld.global.u64 %f, [table]; {{ .param .b32 a; .param .b32 b; \
             st.param.b32 [a], %x; st.param.b32 [b], %x; P: .callprototype _ {types}; call %f, {names}, P; }}"
        )
    };
    assert_eq!(refusal(before, &call(1)), None);
    let found = refusal(before, &call(2));
    assert!(matches!(found, Some(Reason::NotAllThreads(_))), "{found:?}");
}
