//! Shared memory that a block does not have, or that another block had before.

use super::scene::{Outcome, Scene};
use super::{FORMS, MODES, declaring, does_harm, ends, kernel, survives};
use gridmux_ptx::forms::Form;
use gridmux_ptx::forms::fence::FenceMode;

#[test]
fn shared_memory_cannot_be_left() {
    let before = ".extern .shared .align 16 .b8 d[];";
    let attacks = [
        (
            "far behind",
            "mov.u32 %s, 1000000;\nst.shared.u32 [%s], %r;\nld.shared.u32 %t, [%s];",
        ),
        (
            "negative",
            "mov.u32 %s, -4;\nst.shared.u32 [%s], %r;\nst.shared.u32 [%s+4], %r;",
        ),
        (
            "misaligned",
            "mov.u32 %s, d;\nadd.u32 %s, %s, %i;\nst.shared.v4.u32 [%s], {%r, %r, %r, %r};",
        ),
        (
            "by threads",
            "mov.u32 %s, d;\nmad.lo.u32 %s, %i, 64, %s;\nst.shared.u32 [%s], %r;\nst.shared.u32 [%s+12], %r;\n\
             st.shared.u32 [%s+60], %r;",
        ),
        (
            "behind a name",
            "st.shared.u32 [x+8192], %r;\nld.shared.u32 %s, [d+65536];",
        ),
        (
            "a static array",
            "mov.u32 %s, x;\nmad.lo.u32 %s, %i, 32, %s;\nst.shared.u32 [%s], %r;\nst.shared.u32 [%s+100], %r;",
        ),
        (
            "an atomic",
            "mov.u32 %s, -8;\natom.shared.add.u32 %t, [%s], 1;",
        ),
        (
            "a 64-bit address",
            "mov.u64 %a, 0x700000000000;\nst.shared.u32 [%a], %r;",
        ),
        (
            "behind the shared window",
            "cvta.shared.u64 %a, 0;\nadd.s64 %a, %a, 16777000;\nst.u32 [%a], %r;",
        ),
        (
            "before the shared window",
            "cvta.shared.u64 %a, 0;\nst.u32 [%a+-8], %r;",
        ),
        (
            "misaligned in the shared window",
            "mov.u64 %a, d;\ncvta.shared.u64 %a, %a;\nst.u32 [%a+1], %r;",
        ),
        (
            "a window from an unknown address",
            "mov.u64 %a, d;\ncvta.shared.u64 %a, %a;\nst.global.u64 [%own], %a;\nld.global.u64 %b, [%own];\n\
             st.u32 [%b], %r;\nst.u32 [%b+100000], %r;\nst.u32 [%b+3], %r;",
        ),
        (
            "an asynchronous copy",
            "mov.u32 %s, d;\ncp.async.ca.shared.global [%s], [%target], 16;\nmov.u32 %s, 1000001;\n\
             cp.async.ca.shared.global [%s], [%target], 4;\ncp.async.wait_all;",
        ),
    ];
    for (name, body) in attacks {
        let own = ".shared .align 4 .b8 x[64];\n";
        does_harm(name, &declaring(before, own, body));
        survives(name, &declaring(before, own, body));
        // Declared where text at entry cannot name it.
        survives(name, &kernel(before, &format!("{own}{body}")));
    }
    // The launch gives less than the accesses span.
    for bytes in [0, 4, 100] {
        let body = "mov.u32 %s, d;\nst.shared.u32 [%s+252], %r;\nst.shared.u32 [%s], %r;";
        let ptx = kernel(before, body);
        let name = format!("{bytes} bytes");
        let launch = ([2, 1, 1], 32, bytes);
        ends(&name, &ptx, &[FenceMode::Window], launch, |_, _| {});
    }
}

// Length: a table of kernels.
#[test]
fn rows_of_matrices_stay_inside() {
    let values = ".reg .f32 %w<8>;\n.reg .b32 %h<8>;\nmov.f32 %w0, 0f3F800000;\nmov.f32 %w1, %w0;\n\
                  mov.f32 %w2, %w0;\nmov.f32 %w3, %w0;\n\
                  mov.f32 %w4, %w0;\nmov.f32 %w5, %w0;\nmov.f32 %w6, %w0;\nmov.f32 %w7, %w0;\n";
    let list = "{%w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7}";
    let halves = "{%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}";
    let store = |space: &str, at: &str, stride: &str| {
        format!(
            "{values}wmma.store.d.sync.aligned.row.m16n16k16{space}.f32 [{at}], {list}, {stride};"
        )
    };
    // The rows of a wild stride reach the neighbour, who is within 16 times 2³² elements of four bytes.
    let far = "sub.s64 %a, %target, %own;\nshr.u64 %a, %a, 4;\ncvt.u32.u64 %s, %a;\n";
    let harmful = [
        ("its first row", store(".global", "%target", "16")),
        ("a generic address", store("", "%target", "16")),
        ("a negative offset", store(".global", "%target+-64", "16")),
        (
            "no stride",
            format!(
                "{values}wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%target], {list};"
            ),
        ),
        (
            "a stride that reaches the neighbour",
            format!("{far}{}", store(".global", "%own", "%s")),
        ),
    ];
    for (name, body) in harmful {
        let ptx = kernel("", &body);
        does_harm(name, &ptx);
        survives(name, &ptx);
    }
    let wild = [
        (
            "a stride of all ones",
            store(".global", "%own", "0xffffffff"),
        ),
        (
            "a stride from a register",
            format!("mov.u32 %s, 0x7fffffff;\n{}", store("", "%own", "%s")),
        ),
        (
            "an odd stride",
            format!("mov.u32 %s, 5;\n{}", store(".global", "%own", "%s")),
        ),
        (
            "shared memory",
            format!("mov.u32 %s, 70000;\n{}", store(".shared", "%s", "%s")),
        ),
        (
            "rows behind shared memory",
            format!(
                "mov.u32 %s, d;\nmov.u32 %t, 4096;\n{}",
                store(".shared", "%s", "%t")
            ),
        ),
        (
            "a load",
            format!(
                "{values}mov.u32 %s, 0x40000000;\n\
                 wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {halves}, [%target], %s;"
            ),
        ),
        (
            "a load from shared memory",
            format!(
                "{values}mov.u32 %s, 60000;\nwmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {halves}, [%s], %s;"
            ),
        ),
        (
            "a matrix in shared memory",
            "mov.u32 %s, 99999;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r, %t, %u, %v}, [%s];"
                .to_owned(),
        ),
    ];
    for (name, body) in wild {
        does_harm(name, &kernel(".extern .shared .align 16 .b8 d[];", &body));
        survives(name, &kernel(".extern .shared .align 16 .b8 d[];", &body));
    }
}

/// Shared memory of a module that has no variable there: a block has none, not even one byte.
#[test]
fn shared_memory_that_nobody_declares_cannot_be_left() {
    let callee = ".func f(.param .b32 a)\n\
        {\n.reg .b32 %r<2>;\nld.param.u32 %r1, [a];\nst.shared.u32 [%r1], %r1;\nret;\n}";
    let call = "{ .param .b32 x; st.param.b32 [x], %r; call f, (x); }";
    let generic = "mov.u64 %a, 0x100000;\ncvta.shared.u64 %b, %a;\nst.u32 [%b], %r;";
    let attacks = [
        ("in the kernel", "", "st.shared.u32 [%r], %r;"),
        ("in a callee", callee, call),
        ("through a generic address", "", generic),
    ];
    for (name, before, body) in attacks {
        let ptx = kernel(before, body);
        does_harm(name, &ptx);
        let launch = ([2, 1, 1], 32, 0);
        ends(name, &ptx, &[FenceMode::Window], launch, |_, _| {});
    }
}

#[test]
fn a_base_in_front_of_shared_memory_keeps_its_offset() {
    // The variable stands at address 0, so that the base of the first access is far behind everything.
    let body = ".shared .align 16 .b8 x[512];\n\
        mov.u32 %s, x;\nmad.lo.u32 %s, %i, 4, %s;\nadd.s32 %t, %s, -4;\nst.shared.u32 [%t+4], %i;\nbar.sync 0;\n\
        add.s32 %t, %s, -16;\nld.shared.u32 %u, [%t+16];\nadd.s32 %t, %s, -8;\nld.shared.u32 %v, [%t+8];\n\
        add.u32 %u, %u, %v;\nbar.sync 0;\n\
        mad.lo.u32 %t, %i, 8, -8;\nmov.u32 %v, x;\nadd.u32 %t, %t, %v;\nst.shared.u32 [%t+8], %u;\n\
        ld.shared.v2.u32 {%r, %v}, [%t+8];\nmul.wide.u32 %a, %i, 4;\nadd.s64 %a, %own, %a;\nst.global.u32 [%a], %r;";
    let before = ".extern .shared .align 16 .b8 d[];";
    for text in [
        body.to_owned(),
        body.replace(".shared .align 16 .b8 x[512];\n", "")
            .replace(", x;", ", d;"),
    ] {
        let ptx = kernel(before, &text);
        let expected: Vec<u32> = (0..64).map(|n| 2 * n).collect();
        let launch = ([1, 1, 1], 64, 512);
        ends("offsets", &ptx, &MODES, launch, |scene, what| {
            assert_eq!(scene.words()[..64], expected, "{what}");
        });
    }
}

/// Without zeroing, the same kernels read what an earlier block left.
#[test]
fn shared_memory_is_zeroed_at_entry() {
    let before = ".extern .shared .align 16 .b8 d[];\n.shared .align 1 .b8 m[77];";
    let own = ".shared .align 4 .b8 x[1200];\n";
    let at =
        |what: &str| format!("mul.lo.u32 %t, %i, 4;\nmov.u32 %s, {what};\nadd.u32 %s, %s, %t;\n");
    let give = "mul.wide.u32 %a, %i, 4;\nadd.s64 %a, %own, %a;\nst.global.u32 [%a], %u;";
    let bodies = [
        (
            "static",
            format!("{}ld.shared.u32 %u, [%s+640];\n{give}", at("x")),
        ),
        (
            "dynamic",
            format!("{}ld.shared.u32 %u, [%s+1244];\n{give}", at("d")),
        ),
        (
            "of the module",
            format!(
                "add.u32 %s, %i, 13;\nmov.u32 %t, m;\nadd.u32 %s, %s, %t;\nld.shared.u8 %u, [%s];\n{give}"
            ),
        ),
    ];
    for (name, body) in bodies {
        let ptx = declaring(before, own, &body);
        for form in FORMS {
            for zero_shared in [true, false] {
                let mut scene = Scene::with_dirty_shared_memory();
                scene.zero_shared = zero_shared;
                let params = [scene.buffer, scene.neighbour[1]];
                let run = (form, FenceMode::Window);
                // Dynamic memory that is no multiple of the block's size. One block, because a worker that comes too
                // late for any reads a word of its own that says nothing.
                let outcome = scene.run(&ptx, run, &params, ([1, 1, 1], 64, 1500));
                if zero_shared {
                    assert_eq!(outcome, Outcome::Ended(0, 0), "{name}, {form}");
                    assert!(
                        scene.words()[..64].iter().all(|w| *w == 0),
                        "{name}, {form}"
                    );
                } else {
                    let is_dirty = matches!(&outcome, Outcome::Faulted(_));
                    assert!(is_dirty, "{name}, {form} reads nothing: {outcome:?}");
                }
            }
        }
    }
}

/// The fence adds shared memory of its own to some kernels: one that takes all there is still runs, or is refused
/// before it starts.
#[test]
fn a_kernel_with_all_shared_memory_runs_or_is_refused() {
    const STATIC: u32 = 48 << 10;
    const MOST: u32 = 227 << 10;
    let touch = "mul.lo.u32 %t, %i, 4;\nmov.u32 %s, BIG;\nadd.u32 %s, %s, %t;\nst.shared.u32 [%s+4], %r;\n\
                 ld.shared.u32 %u, [%s+4];\n\
                 mul.wide.u32 %a, %i, 4;\nadd.s64 %a, %own, %a;\nst.global.u32 [%a], %u;";
    let all = format!(".shared .align 4 .b8 x[{STATIC}];\n");
    let halves = format!(
        ".shared .align 4 .b8 x[{}];\n.shared .align 16 .b8 y[{}];\n",
        STATIC - 96,
        96
    );
    let dynamic = ".extern .shared .align 16 .b8 d[];\n";
    let cases = [
        ("static", "", all.as_str(), "x", 0, true),
        ("static in two", "", halves.as_str(), "x", 0, true),
        ("static of the module", all.as_str(), "", "x", 0, true),
        ("dynamic with room", dynamic, "", "d", MOST - 1024, true),
        ("dynamic", dynamic, "", "d", MOST, false),
    ];
    for (name, before, own, big, dynamic, fits) in cases {
        let ptx = declaring(before, own, &touch.replace("BIG", big)).replace("sm_80", "sm_90");
        for form in std::iter::once(Form::WHOLE).chain(FORMS) {
            let mut scene = Scene::new();
            let params = [scene.buffer, scene.neighbour[1]];
            let run = (form, FenceMode::Window);
            let outcome = scene.run(&ptx, run, &params, ([2, 1, 1], 64, dynamic));
            match outcome {
                Outcome::Ended(0, 0) => {
                    assert_eq!(scene.words()[..64], [0xdead_beef; 64], "{name}, {form}");
                }
                Outcome::NotLaunched(reason) if !fits && form != Form::WHOLE => {
                    assert!(reason.contains("shared memory"), "{name}, {form}: {reason}");
                }
                other => panic!("{name}, {form}: {other:?}"),
            }
        }
    }
}
