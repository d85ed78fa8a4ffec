//! What the fence does not bound: refused, with the line.

use super::kernel;
use super::scene::{Outcome, Scene};
use gridmux_ptx::forms::Form;
use gridmux_ptx::forms::fence::FenceMode;

/// What the body does, what stands before the kernel, and a word of the reason.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "tex.2d.v4.f32.f32 {%f, %f, %f, %f}, [%target, {%f, %f}];",
        "",
        "object",
    ),
    (
        "suld.b.2d.b32.trap {%r}, [%target, {%i, %i}];",
        "",
        "object",
    ),
    (
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r], %r, [%s];",
        "",
        "bound",
    ),
    (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r], [%target], 16, [%s];",
        "",
        "bound",
    ),
    ("ld.shared::cluster.u32 %s, [%r];", "", "bound"),
    // A barrier object that was never set up faults, so nothing may arrive at one.
    ("mbarrier.arrive.shared.b64 %a, [%s];", "", "barrier object"),
    ("mbarrier.init.shared.b64 [%s], 64;", "", "barrier object"),
    (
        "mbarrier.try_wait.parity.shared.b64 %p, [%s], %r;",
        "",
        "barrier object",
    ),
    (
        "cp.async.mbarrier.arrive.shared.b64 [%s];",
        "",
        "barrier object",
    ),
    ("mapa.shared::cluster.u32 %s, %r, 1;", "", "bound"),
    (
        "cvta.const.u64 %a, c;\nld.u32 %s, [%a];",
        ".const .u32 c;",
        "constant",
    ),
    (
        "{ .param .b32 r; .param .b64 f; .param .b64 a; st.param.b64 [f], %own; st.param.b64 [a], %own; \
         call (r), vprintf, (f, a); }",
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);",
        "vprintf",
    ),
    ("mystery.global.u32 [%target], %r;", "", "not known"),
    (
        "st.global.u32 [g], %r;",
        ".global .attribute(.managed) .align 4 .b32 g;",
        "managed",
    ),
    (
        "ld.global.u64 %a, [p];",
        ".global .attribute(.managed) .align 4 .b32 g;\n.global .u64 p = g;",
        "managed",
    ),
    (
        "{ .param .b64 a; .param .align 8 .b8 v[16]; st.param.b64 [a], %own; st.param.b64 [v], %own; \
         call f, (a, v); }",
        ".func f(.param .b64 a, .param .align 8 .b8 va[]) { .reg .b64 %x; ld.param.b64 %x, [a]; \
         st.global.u32 [%x], 0; ret; }",
        "any number",
    ),
    (
        "{ .param .b64 a; .param .align 8 .b8 v[16]; st.param.b64 [a], %own; st.param.b64 [v], %own; \
         P: .callprototype _ (.param .b64 a, .param .align 8 .b8 va[]); call %target, (a, v), P; }",
        "",
        "any number",
    ),
    // The rows lie behind one another, and a block may have less shared memory than that.
    (
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%s], {%f, %f, %f, %f, %f, %f, %f, %f};",
        ".extern .shared .align 16 .b8 d[];",
        "bound",
    ),
    (
        "{ .reg .b16 %h; mov.b16 %h, 8; ld.global.u32 %s, [%h]; }",
        "",
        "less than 32 bits",
    ),
    ("ld.param.u32 %s, [own+4096];", "", "outside"),
    ("bar.sync 0, 33;", "", "barrier"),
];

#[test]
fn what_cannot_be_bounded_is_refused_with_its_line() {
    for (body, before, word) in REFUSED {
        let ptx = kernel(before, body).replace("sm_80", "sm_90");
        let mut scene = Scene::new();
        let params = [scene.buffer, scene.neighbour[1]];
        let run = (Form::FENCE, FenceMode::Window);
        let outcome = scene.run(&ptx, run, &params, ([1, 1, 1], 32, 0));
        let Outcome::Refused(reason) = outcome else {
            panic!("{body}: {outcome:?}");
        };
        assert!(reason.contains(word), "{body}: {reason}");
        assert!(reason.starts_with("line "), "{reason}");
    }
}

#[test]
fn recursion_is_refused() {
    let before = ".func f(.param .b32 n);\n.func g(.param .b32 n)\n{\n{ .param .b32 a; st.param.b32 [a], 1; \
                  call f, (a); }\nret;\n}\n\
                  .func f(.param .b32 n)\n{\n{ .param .b32 a; st.param.b32 [a], 1; call g, (a); }\nret;\n}";
    let ptx = kernel(
        before,
        "{ .param .b32 a; st.param.b32 [a], %r; call f, (a); }",
    );
    let mut scene = Scene::new();
    let params = [scene.buffer, scene.neighbour[1]];
    let run = (Form::FENCE, FenceMode::Window);
    let outcome = scene.run(&ptx, run, &params, ([1, 1, 1], 32, 0));
    assert!(
        matches!(&outcome, Outcome::Refused(r) if r.contains("calls itself")),
        "{outcome:?}"
    );
}
