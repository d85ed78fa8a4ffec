//! Pointers that a kernel does not make where it uses them: loaded, exchanged, put together from halves. The fence may
//! not hold them inside a variable that they do not point into.

use super::scene::{BUFFER, Outcome, Scene};
use super::{MODES, attack, declaring, ends, kernel, unfenced};
use gridmux_ptx::forms::Form;
use gridmux_ptx::forms::fence::FenceMode;

/// Two arrays, and one word for each thread of a block in a third.
const ARRAYS: &str =
    ".shared .align 8 .b8 x[16];\n.shared .align 8 .b8 y[64];\n.shared .align 8 .b8 z[256];\n";
const GIVE: &str = "mul.wide.u32 %c, %i, 4;\nadd.s64 %c, %own, %c;\nst.global.u32 [%c], %r;";
/// Every thread writes its word of `z`; `%a` is the generic address of thread 0's.
const WORDS: &str = "mov.u32 %u, z;\nmad.lo.u32 %u, %i, 4, %u;\nmad.lo.u32 %v, %i, 7, 3;\n\
    st.shared.u32 [%u], %v;\nbar.sync 0;\nmov.u64 %a, z;\ncvta.shared.u64 %a, %a;\nmul.wide.u32 %b, %i, 4;\n\
    add.s64 %a, %a, %b;\nsetp.gt.u32 %p, %i, 100;\n";

// Length: a table of kernels.
#[test]
fn pointers_from_elsewhere_reach_what_they_point_into() {
    let cases = [
        (
            // A list whose first node is in `x`, the others in `y`.
            "a list",
            "mov.u32 %s, x;\nmov.u32 %t, y;\nsetp.ne.u32 %p, %i, 0;\n@%p bra W;\n\
             st.shared.u32 [%s], %t;\nst.shared.u32 [%s+4], 11;\nadd.u32 %v, %t, 8;\nst.shared.u32 [y], %v;\n\
             st.shared.u32 [y+4], 22;\nst.shared.u32 [y+8], 0xffffffff;\nst.shared.u32 [y+12], 33;\n\
             W: bar.sync 0;\nmov.u32 %s, x;\nmov.u32 %r, 0;\n\
             L: ld.shared.u32 %u, [%s+4];\nadd.u32 %r, %r, %u;\nld.shared.u32 %s, [%s];\n\
             setp.ne.u32 %p, %s, 0xffffffff;\n@%p bra L;"
                .to_owned(),
            66,
        ),
        (
            "exchanged with another thread",
            "mov.u32 %t, y;\nst.shared.u32 [x], 5;\nst.shared.u32 [y+60], 6;\nbar.sync 0;\n\
             setp.gt.u32 %p, %i, 3;\nadd.u32 %t, %t, 60;\nshfl.sync.idx.b32 %v, %t, 0, 31, -1;\nmov.u32 %s, x;\n\
             @%p mov.b32 %s, %v;\nld.shared.u32 %r, [%s];"
                .to_owned(),
            5,
        ),
        (
            "exchanged with memory",
            "mov.u32 %t, y;\nst.shared.u32 [x], 5;\nst.shared.u32 [y], 6;\nst.shared.u32 [z], %t;\nbar.sync 0;\n\
             atom.shared.exch.b32 %v, [z], %t;\nsetp.gt.u32 %p, %i, 3;\nmov.u32 %s, x;\n@%p mov.b32 %s, %v;\n\
             ld.shared.u32 %r, [%s];"
                .to_owned(),
            5,
        ),
        (
            "put together from bytes",
            "mov.u32 %t, y;\nst.shared.u32 [x], 5;\nst.shared.u32 [y], 6;\nbar.sync 0;\nsetp.gt.u32 %p, %i, 3;\n\
             mov.u32 %s, x;\nprmt.b32 %v, %t, %t, 0x3210;\n@%p mov.b32 %s, %v;\nld.shared.u32 %r, [%s];"
                .to_owned(),
            5,
        ),
        (
            "chosen by bits",
            "mov.u32 %t, y;\nmov.u32 %s, x;\nst.shared.u32 [x], 5;\nst.shared.u32 [y], 6;\nxor.b32 %u, %s, %t;\n\
             st.shared.u32 [z], %u;\nbar.sync 0;\nld.shared.u32 %v, [z];\nxor.b32 %s, %s, %v;\n\
             ld.shared.u32 %r, [%s];"
                .to_owned(),
            6,
        ),
        (
            "at a distance between arrays",
            "mov.u32 %t, y;\nmov.u32 %s, x;\nst.shared.u32 [x], 5;\nst.shared.u32 [y], 6;\nsub.u32 %u, %t, %s;\n\
             bar.sync 0;\nadd.u32 %s, %s, %u;\nld.shared.u32 %r, [%s];"
                .to_owned(),
            6,
        ),
        (
            "put together from halves",
            format!(
                "{WORDS}mov.u64 %c, %own;\n@%p bra D;\nmov.b64 {{%s, %t}}, %a;\nmov.b64 %c, {{%s, %t}};\n\
                 D: ld.u32 %r, [%c];"
            ),
            3,
        ),
        (
            "put together from exchanged halves",
            format!(
                "{WORDS}mov.b64 {{%s, %t}}, %a;\nshfl.sync.idx.b32 %s, %s, 5, 31, -1;\n\
                 shfl.sync.idx.b32 %t, %t, 5, 31, -1;\nmov.b64 %c, {{%s, %t}};\nselp.b64 %c, %own, %c, %p;\n\
                 ld.u32 %r, [%c];"
            ),
            38,
        ),
        (
            "returned by a function",
            format!(
                "{WORDS}{{ .param .b64 to; .param .b64 from; st.param.b64 [from], %a; call (to), same, (from);\n\
                 ld.param.b64 %c, [to]; }}\nselp.b64 %c, %own, %c, %p;\nld.u32 %r, [%c];"
            ),
            3,
        ),
    ];
    let same = ".func (.param .b64 to) same(.param .b64 from)\n{ .reg .b64 %x; ld.param.b64 %x, [from]; \
                st.param.b64 [to], %x; ret; }";
    for (name, body, first) in cases {
        let ptx = declaring(same, ARRAYS, &format!("{body}\n{GIVE}"));
        let launch = ([2, 1, 1], 64, 0);
        let original = unfenced(&ptx, launch);
        let expected = original.read(original.buffer);
        assert_eq!(expected.len() as u64, BUFFER);
        assert_eq!(original.words()[0], first, "{name}");
        ends(name, &ptx, &MODES, launch, |scene, what| {
            assert!(scene.read(scene.buffer) == expected, "{what}: other bits");
        });
    }
}

/// Functions of two shapes in one list of targets: the call can mean those alone that take what it hands over.
#[test]
fn a_list_of_targets_holds_functions_of_other_shapes() {
    let before = ".func g(.param .b64 a) { .reg .b64 %x; .reg .b32 %y; ld.param.b64 %x, [a]; mov.u32 %y, 7; \
                  st.global.u32 [%x], %y; ret; }\n\
                  .func f(.param .b64 a, .param .b64 b) { ret; }\n.global .u64 table[2] = {g, f};";
    let body = "ld.global.u64 %c, [table];\n{ .param .b64 a; .param .b64 b; st.param.b64 [a], %target; \
                st.param.b64 [b], %target;\nP: .calltargets f, g;\ncall %c, (a, b), P; }";
    attack("targets", &kernel(before, body), |outcome, what| {
        let Outcome::Ended(kind, _) = outcome else {
            panic!("{what}: {outcome:?}");
        };
        assert_eq!(kind, 4, "{what}: the call is recorded");
    });
}

/// Kernels that have much shared memory, each of its own: the fence's share is asked of each alone.
#[test]
fn shared_memory_of_other_kernels_is_not_counted() {
    let other = |name: &str| {
        format!(
            ".visible .entry {name}()\n{{\n.shared .align 16 .b8 of_{name}[33856];\n.reg .b32 %r;\n\
             mov.u32 %r, of_{name};\nst.shared.u32 [%r], %r;\nret;\n}}\n"
        )
    };
    let before = format!("{}{}", other("a"), other("b"));
    let body = "mov.u32 %s, x;\nst.shared.u32 [%s], %r;\nld.shared.u32 %r, [%s];\nst.global.u32 [%own], %r;";
    let ptx = declaring(&before, ".shared .align 4 .b8 x[16];\n", body);
    ends(
        "other kernels",
        &ptx,
        &MODES,
        ([1, 1, 1], 32, 0),
        |scene, what| {
            assert_eq!(scene.words()[0], 0xdead_beef, "{what}");
        },
    );
    // What it may reach counts: arrays of a function, and one that an initialiser names.
    let small = |n: u32| format!(".shared .align 4 .b8 s{n}[128];\n");
    let many: String = (0..384).map(small).collect();
    let names: String = (0..384)
        .map(|n| format!("st.shared.u32 [s{n}], %r;\n"))
        .collect();
    let function = format!(".func f() {{\n.reg .b32 %r;\n{many}{names}ret;\n}}");
    for (before, body, fits) in [
        (function.as_str(), format!("call f;\n{body}"), false),
        (function.as_str(), body.to_owned(), true),
    ] {
        let ptx = declaring(before, ".shared .align 4 .b8 x[16];\n", &body);
        let mut scene = Scene::new();
        let params = [scene.buffer, scene.neighbour[1]];
        let run = (Form::FENCE, FenceMode::Window);
        let outcome = scene.run(&ptx, run, &params, ([1, 1, 1], 32, 0));
        match outcome {
            Outcome::Ended(0, 0) => assert!(fits),
            Outcome::Refused(reason) => assert!(!fits && reason.contains("no room"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}
