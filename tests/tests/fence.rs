//! The fence attacked: kernels that reach for a neighbour's memory, or for a fault that would poison a shared context.
//!
//! Length: tables of attacks, one test for each kind.
//!
//! Each attack runs in every fenced form and mode that it can take. Afterwards the neighbour's bytes are as they were,
//! and the launch has ended without a fault of the device, or the rewrite had refused it with a reason. The same
//! attacks without the fence do harm, so that none of these tests passes for want of trying.

mod attacks;

use attacks::{BUFFER, Outcome, Scene};
use gridmux_ptx::forms::Form;
use gridmux_ptx::forms::fence::{FaultKind, FenceMode};

const MODES: [FenceMode; 3] = [FenceMode::Window, FenceMode::HighBits, FenceMode::Mask];
const FORMS: [Form; 4] = [
    Form::FENCE,
    Form::FENCE_SLICE,
    Form::FENCE_GATE,
    Form::FENCE_WORKER,
];

/// A kernel around some instructions: `%own` is the attacker's buffer, `%target` the neighbour's, `%i` the thread.
fn kernel(before: &str, body: &str) -> String {
    declaring(before, "", body)
}

/// The same with declarations of its own.
fn declaring(before: &str, declared: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{before}\n.visible .entry k(.param .u64 own, .param .u64 target)\n{{\n\
         {declared}.reg .b64 %own, %target, %a, %b, %c;\n.reg .b32 %i, %r, %s, %t, %u, %v;\n.reg .pred %p, %q;\n.reg .f32 %f;\n\
         ld.param.u64 %own, [own];\nld.param.u64 %target, [target];\nmov.u32 %i, %tid.x;\nmov.u32 %r, 0xdeadbeef;\n{body}\nret;\n}}\n"
    )
}

/// Runs an attack everywhere; gives how many combinations ran and what they recorded.
fn attack(name: &str, ptx: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for form in FORMS {
        for mode in MODES {
            let mut scene = Scene::new();
            let params = [scene.buffer, scene.neighbour[1]];
            let outcome = scene.run(ptx, (form, mode), &params, ([3, 1, 1], 64, 512));
            assert!(
                !matches!(outcome, Outcome::Faulted(_)),
                "{name}, {form}, {mode:?}: {outcome:?}"
            );
            assert!(
                scene.is_untouched(),
                "{name}, {form}, {mode:?}: somebody else's memory has changed"
            );
            outcomes.push(outcome);
        }
    }
    outcomes
}

/// An attack that every fenced form carries and survives.
fn survives(name: &str, ptx: &str) {
    for outcome in attack(name, ptx) {
        assert!(matches!(outcome, Outcome::Ended(..)), "{name}: {outcome:?}");
    }
}

/// Without the fence, the attack changes somebody's memory or faults.
fn is_harmful(ptx: &str) -> bool {
    let mut scene = Scene::new();
    let params = [scene.buffer, scene.neighbour[1]];
    let whole = (Form::WHOLE, FenceMode::Window);
    let outcome = scene.run(ptx, whole, &params, ([3, 1, 1], 64, 512));
    !scene.is_untouched() || matches!(outcome, Outcome::Faulted(_))
}

/// Attacks that stay in the attacker's own partition, whose holes are mapped, even without the fence.
const HARMLESS: [&str; 4] = [
    "far behind a name",
    "before a name",
    "the end of the partition",
    "the start of the partition",
];

fn does_harm(name: &str, ptx: &str) {
    if HARMLESS.contains(&name) {
        assert!(!is_harmful(ptx), "{name} does harm");
        return;
    }
    assert!(is_harmful(ptx), "{name} is harmless");
}

#[test]
fn stores_to_a_neighbour_land_in_the_own_partition() {
    let attacks = [
        ("a register", "st.global.u32 [%target], %r;"),
        ("a generic address", "st.u32 [%target], %r;"),
        ("a vector", "st.global.v4.u32 [%target], {%r, %r, %r, %r};"),
        ("an offset", "st.global.u32 [%target+64], %r;"),
        (
            "a negative offset",
            "add.s64 %a, %target, 4096;\nst.global.u32 [%a+-4096], %r;",
        ),
        (
            "a huge offset",
            "sub.s64 %a, %target, 1073741824;\nst.global.u32 [%a+1073741824], %r;",
        ),
        (
            "the distance between the buffers",
            "sub.s64 %a, %target, %own;\nadd.s64 %b, %own, %a;\nst.global.u32 [%b], %r;",
        ),
        (
            "a vector through a generic address",
            "st.v4.u32 [%target], {%r, %r, %r, %r};",
        ),
        (
            "an offset that wraps",
            "add.s64 %a, %target, 2147483644;\nst.global.u32 [%a+-2147483644], %r;",
        ),
        (
            "overflow",
            "mov.u64 %a, 0x8000000000000000;\nadd.s64 %b, %target, %a;\nadd.s64 %b, %b, %a;\nst.global.u32 [%b], %r;",
        ),
        ("an atomic", "atom.global.add.u32 %s, [%target], %r;"),
        ("an exchange", "atom.global.exch.b64 %a, [%target], %own;"),
        (
            "a compare and swap",
            "ld.global.u32 %s, [%target];\natom.global.cas.b32 %s, [%target], %s, %r;",
        ),
        ("a reduction", "red.global.add.u32 [%target], %r;"),
        ("a generic reduction", "red.add.u32 [%target], %r;"),
        (
            "a guarded store",
            "setp.ge.u32 %p, %i, 0;\n@%p st.global.u32 [%target], %r;",
        ),
        (
            "a loop",
            "mov.u32 %s, 0;\n$next:\nst.global.u32 [%target], %r;\nadd.s64 %target, %target, 4;\nadd.u32 %s, %s, 1;\nsetp.lt.u32 %p, %s, 64;\n@%p bra $next;",
        ),
        (
            "a pointer kept across a store",
            "st.global.u32 [%own], %r;\nadd.s64 %own, %own, 0;\nmov.u64 %own, %target;\nst.global.u32 [%own], %r;",
        ),
        (
            "a swap under a predicate",
            "setp.lt.u32 %p, %i, 5;\nst.global.u32 [%own], %r;\n@%p mov.u64 %own, %target;\nst.global.u32 [%own], %r;",
        ),
        ("a byte", "st.global.u8 [%target+3], %r;"),
        ("a volatile store", "st.volatile.global.u32 [%target], %r;"),
        ("a scoped store", "st.release.sys.global.u32 [%target], %r;"),
    ];
    for (name, body) in attacks {
        let ptx = kernel("", body);
        does_harm(name, &ptx);
        survives(name, &ptx);
    }
}

#[test]
fn loads_do_not_see_a_neighbour() {
    let attacks = [
        ("a load", "ld.global.u32 %s, [%target+8];"),
        (
            "through the texture path",
            "ld.global.nc.u32 %s, [%target+8];",
        ),
        ("a uniform load", "ldu.global.u32 %s, [%target+8];"),
        ("a generic load", "ld.u32 %s, [%target+8];"),
        ("a vector", "ld.global.v2.u32 {%t, %s}, [%target];"),
        ("an atomic", "atom.global.or.b32 %s, [%target], 0;"),
        (
            "an asynchronous copy",
            ".shared .align 16 .b8 x[16];\ncp.async.ca.shared.global [x], [%target+8], 4;\ncp.async.wait_all;\nld.shared.u32 %s, [x];",
        ),
    ];
    for (name, body) in attacks {
        let ptx = kernel("", &format!("{body}\nst.global.u32 [%own], %s;"));
        let mut open = Scene::new();
        let params = [open.buffer, open.neighbour[1]];
        let whole = (Form::WHOLE, FenceMode::Window);
        open.run(&ptx, whole, &params, ([1, 1, 1], 1, 0));
        let secret = open.words()[0];
        assert_ne!(secret, 0, "{name} reads nothing even without the fence");
        for form in FORMS {
            for mode in MODES {
                let mut scene = Scene::new();
                let outcome = scene.run(&ptx, (form, mode), &params, ([1, 1, 1], 1, 0));
                assert_eq!(outcome, Outcome::Ended(0, 0), "{name}, {form}, {mode:?}");
                assert_ne!(scene.words()[0], secret, "{name}, {form}, {mode:?}");
            }
        }
    }
}

/// The assembler does not know absolute addresses of global memory, and neither does the front end.
#[test]
fn an_absolute_address_is_an_error() {
    let text = kernel("", "st.global.u32 [4096], %r;");
    let module = gridmux_ptx::Module::parse(text.as_bytes()).expect("its statements are sound");
    let error = module
        .decode()
        .expect_err("it stores to a constant address");
    assert!(
        error.message.contains("a constant is an address"),
        "{error}"
    );
}

#[test]
fn wild_addresses_do_not_fault() {
    let attacks = [
        (
            "null",
            "mov.u64 %a, 0;\nst.global.u32 [%a], %r;\nst.u32 [%a], %r;",
        ),
        (
            "all ones",
            "mov.u64 %a, -1;\nst.global.u32 [%a], %r;\nst.global.v4.u32 [%a+12], {%r, %r, %r, %r};",
        ),
        (
            "misaligned",
            "add.s64 %a, %own, 1;\nst.global.u32 [%a], %r;\nst.global.u64 [%a+2], %own;\natom.global.add.u32 %s, [%a+1], 1;",
        ),
        (
            "misaligned by register",
            "cvt.u64.u32 %a, %i;\nadd.s64 %a, %own, %a;\nst.global.v2.u32 [%a], {%r, %r};",
        ),
        (
            "the end of the partition",
            "or.b64 %a, %own, 0xffffffff;\nst.global.u8 [%a+16777216], %r;\nst.global.v4.u32 [%a+1], {%r, %r, %r, %r};",
        ),
        (
            "the start of the partition",
            "and.b64 %a, %own, 0xffffffff00000000;\nst.global.u32 [%a+-4096], %r;",
        ),
        (
            "random addresses",
            "mov.u64 %a, %clock64;\nmov.u32 %s, 0;\n$next:\nmul.lo.u64 %a, %a, 6364136223846793005;\nadd.u64 %a, %a, 1442695040888963407;\nst.global.u32 [%a], %r;\nld.u32 %t, [%a];\nadd.u32 %s, %s, 1;\nsetp.lt.u32 %p, %s, 50;\n@%p bra $next;",
        ),
        (
            "an undefined register",
            "st.global.u32 [%c], %r;\nmov.u64 %c, 64;",
        ),
    ];
    for (name, body) in attacks {
        does_harm(name, &kernel("", body));
        survives(name, &kernel("", body));
    }
}

#[test]
fn module_variables_cannot_be_left() {
    let before = ".global .align 4 .u32 g[4];\n.visible .global .align 4 .b8 h[16];\n.const .align 4 .u32 c[4] = {1, 2, 3, 4};";
    let attacks = [
        ("far behind a name", "st.global.u32 [g+99999996], %r;"),
        (
            "in front of the partition",
            "mov.u64 %a, g;\nand.b64 %a, %a, 0xffffffff00000000;\nsub.s64 %a, %a, 4294967296;\nst.global.u32 [%a], %r;",
        ),
        ("before a name", "st.global.u32 [g+-64], %r;"),
        (
            "a name in a register",
            "mov.u64 %a, h;\nsub.s64 %b, %target, %a;\nadd.s64 %a, %a, %b;\nst.global.u32 [%a], %r;",
        ),
        ("misaligned behind a name", "st.global.u32 [g+2], %r;"),
        (
            "a generic name",
            "cvta.global.u64 %a, g;\nsub.s64 %b, %target, %a;\nadd.s64 %a, %a, %b;\nst.u32 [%a], %r;",
        ),
        (
            "behind a constant",
            "mov.u64 %a, c;\nmul.wide.u32 %b, %i, 4096;\nadd.s64 %a, %a, %b;\nld.const.u32 %s, [%a];\nld.const.u32 %s, [%a+3];\nld.const.u32 %s, [c+4096];",
        ),
    ];
    for (name, body) in attacks {
        does_harm(name, &kernel(before, body));
        survives(name, &kernel(before, body));
    }
}

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
            "mov.u32 %s, d;\nmad.lo.u32 %s, %i, 64, %s;\nst.shared.u32 [%s], %r;\nst.shared.u32 [%s+12], %r;\nst.shared.u32 [%s+60], %r;",
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
            "mov.u64 %a, d;\ncvta.shared.u64 %a, %a;\nst.global.u64 [%own], %a;\nld.global.u64 %b, [%own];\nst.u32 [%b], %r;\nst.u32 [%b+100000], %r;\nst.u32 [%b+3], %r;",
        ),
        (
            "an asynchronous copy",
            "mov.u32 %s, d;\ncp.async.ca.shared.global [%s], [%target], 16;\nmov.u32 %s, 1000001;\ncp.async.ca.shared.global [%s], [%target], 4;\ncp.async.wait_all;",
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
        let ptx = kernel(
            before,
            "mov.u32 %s, d;\nst.shared.u32 [%s+252], %r;\nst.shared.u32 [%s], %r;",
        );
        for form in FORMS {
            let mut scene = Scene::new();
            let params = [scene.buffer, scene.neighbour[1]];
            let run = (form, FenceMode::Window);
            let outcome = scene.run(&ptx, run, &params, ([2, 1, 1], 32, bytes));
            assert_eq!(outcome, Outcome::Ended(0, 0), "{form}, {bytes} bytes");
        }
    }
}

#[test]
fn rows_of_matrices_stay_inside() {
    let values = ".reg .f32 %w<8>;\n.reg .b32 %h<8>;\nmov.f32 %w0, 0f3F800000;\nmov.f32 %w1, %w0;\nmov.f32 %w2, %w0;\nmov.f32 %w3, %w0;\n\
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
                "{values}mov.u32 %s, 0x40000000;\nwmma.load.a.sync.aligned.row.m16n16k16.global.f16 {halves}, [%target], %s;"
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
            "mov.u64 %a, l;\ncvta.local.u64 %a, %a;\nst.global.u64 [%own], %a;\nld.global.u64 %b, [%own];\nst.u32 [%b+128], %r;\nst.u32 [%b+1], %r;",
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
    let fail = ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s) .noreturn;";
    let assert = "setp.eq.u32 %p, %i, 7;\n@!%p bra $fine;\n{ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n\
                  st.param.b64 [m], %own; st.param.b64 [f], %own; st.param.b32 [l], %r; st.param.b64 [n], %own; st.param.b64 [s], %own;\n\
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
        for outcome in attack(name, &ptx) {
            let Outcome::Ended(recorded, line) = outcome else {
                // A worker cannot carry on behind an exit of some of its threads.
                assert!(
                    matches!(&outcome, Outcome::Refused(_)),
                    "{name}: {outcome:?}"
                );
                continue;
            };
            assert_eq!(recorded, kind as u32, "{name}");
            let text = ptx.lines().nth(line as usize - 1).expect("a line");
            let is_there = ["trap", "brkpt", "__assertfail"]
                .iter()
                .any(|w| text.contains(w));
            assert!(is_there, "{name}: line {line} is {text:?}");
        }
    }
}

#[test]
fn functions_are_fenced_too() {
    let store = ".func put(.param .b64 at, .param .b32 value)\n{\n.reg .b64 %at;\n.reg .b32 %v;\nld.param.b64 %at, [at];\nld.param.b32 %v, [value];\nst.global.b32 [%at], %v;\nst.b32 [%at+4], %v;\nret;\n}\n\
                 .func deep(.param .b64 at, .param .b32 value)\n{\n.reg .b64 %at;\n.reg .b32 %v;\nld.param.b64 %at, [at];\nld.param.b32 %v, [value];\n\
                 { .param .b64 a; .param .b32 b; st.param.b64 [a], %at; st.param.b32 [b], %v; call put, (a, b); }\nret;\n}\n\
                 .global .u64 table[2] = {put, deep};";
    let direct = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %target; st.param.b32 [b], %r; call deep, (a, b); }";
    let pointer = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %target; st.param.b32 [b], %r;\nproto: .callprototype _ (.param .b64 x, .param .b32 y);\nmov.u64 %b, put;\ncall %b, (a, b), proto; }";
    let wild = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %target; st.param.b32 [b], %r;\nproto: .callprototype _ (.param .b64 x, .param .b32 y);\nmov.u64 %b, put;\nadd.s64 %b, %b, 3;\ncall %b, (a, b), proto; }";
    let before = store.replace("\n.global .u64 table[2] = {put, deep};", "");
    does_harm("a call", &kernel(&before, direct));
    survives("a call", &kernel(&before, direct));
    does_harm("a call through a pointer", &kernel(&before, pointer));
    survives("a call through a pointer", &kernel(&before, pointer));
    does_harm("a call through a wild pointer", &kernel(&before, wild));
    for outcome in attack("a call through a wild pointer", &kernel(&before, wild)) {
        let Outcome::Ended(kind, _) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(kind, FaultKind::IndirectCall as u32);
    }
}

#[test]
fn jump_tables_and_barriers_keep_to_what_exists() {
    let jump = "mul.lo.u32 %s, %i, 77777777;\ntable: .branchtargets $a, $b, $c;\nbrx.idx %s, table;\n$a: st.global.u32 [%own], %r;\n$b: st.global.u32 [%own+4], %r;\n$c:";
    does_harm("a jump table", &kernel("", jump));
    survives("a jump table", &kernel("", jump));
    let barrier = "mov.u32 %s, 1000;\nmov.u32 %t, 64;\nbarrier.sync %s;\nbarrier.sync %s, %t;";
    does_harm("a barrier of any number", &kernel("", barrier));
    survives("a barrier of any number", &kernel("", barrier));
}

/// Shared memory of a module that has no variable there: a block has none, not even one byte.
#[test]
fn shared_memory_that_nobody_declares_cannot_be_left() {
    let callee = ".func f(.param .b32 a)\n{\n.reg .b32 %r<2>;\nld.param.u32 %r1, [a];\nst.shared.u32 [%r1], %r1;\nret;\n}";
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
        for form in FORMS {
            let mut scene = Scene::new();
            let params = [scene.buffer, scene.neighbour[1]];
            let run = (form, FenceMode::Window);
            let outcome = scene.run(&ptx, run, &params, ([2, 1, 1], 32, 0));
            assert_eq!(outcome, Outcome::Ended(0, 0), "{name}, {form}");
        }
    }
}

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
        "{ .param .b32 r; .param .b64 f; .param .b64 a; st.param.b64 [f], %own; st.param.b64 [a], %own; call (r), vprintf, (f, a); }",
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);",
        "vprintf",
    ),
    ("mystery.global.u32 [%target], %r;", "", "bound"),
    ("ld.param.u32 %s, [own+4096];", "", "outside"),
    ("bar.sync 0, 33;", "", "barrier"),
    // Registers would stand in shared memory, where the kernel can overwrite what the fence computes.
    (
        ".pragma \"enable_smem_spilling\";",
        "",
        "enable_smem_spilling",
    ),
    (
        ".pragma \"nounroll\";",
        ".pragma \"enable_smem_spilling\";",
        "enable_smem_spilling",
    ),
    (
        "call f;",
        ".func g();\n.func f() { ret; }\n.alias g, f;",
        "stands for",
    ),
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
    let before = ".func f(.param .b32 n);\n.func g(.param .b32 n)\n{\n{ .param .b32 a; st.param.b32 [a], 1; call f, (a); }\nret;\n}\n\
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

#[test]
fn a_base_in_front_of_shared_memory_keeps_its_offset() {
    // The variable stands at address 0, so that the base of the first access is far behind everything.
    let body = ".shared .align 16 .b8 x[512];\n\
        mov.u32 %s, x;\nmad.lo.u32 %s, %i, 4, %s;\nadd.s32 %t, %s, -4;\nst.shared.u32 [%t+4], %i;\nbar.sync 0;\n\
        add.s32 %t, %s, -16;\nld.shared.u32 %u, [%t+16];\nadd.s32 %t, %s, -8;\nld.shared.u32 %v, [%t+8];\nadd.u32 %u, %u, %v;\nbar.sync 0;\n\
        mad.lo.u32 %t, %i, 8, -8;\nmov.u32 %v, x;\nadd.u32 %t, %t, %v;\nst.shared.u32 [%t+8], %u;\n\
        ld.shared.v2.u32 {%r, %v}, [%t+8];\nmul.wide.u32 %a, %i, 4;\nadd.s64 %a, %own, %a;\nst.global.u32 [%a], %r;";
    let before = ".extern .shared .align 16 .b8 d[];";
    for text in [
        body.to_owned(),
        body.replace(".shared .align 16 .b8 x[512];\n", "")
            .replace(", x;", ", d;"),
    ] {
        let ptx = kernel(before, &text);
        for form in FORMS {
            for mode in MODES {
                let mut scene = Scene::new();
                let params = [scene.buffer, scene.neighbour[1]];
                let outcome = scene.run(&ptx, (form, mode), &params, ([1, 1, 1], 64, 512));
                assert_eq!(outcome, Outcome::Ended(0, 0), "{form}, {mode:?}");
                let words = scene.words();
                let expected: Vec<u32> = (0..64).map(|n| 2 * n).collect();
                assert_eq!(words[..64], expected, "{form}, {mode:?}");
            }
        }
    }
}

#[test]
fn well_behaved_kernels_compute_the_same_bits() {
    let before = ".extern .shared .align 16 .b8 d[];\n.global .align 8 .u32 g[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n.const .align 4 .u32 c[4] = {9, 8, 7, 6};";
    let body = ".shared .align 8 .b8 x[1024];\n.local .align 8 .b8 l[32];\n\
        mov.u32 %s, %ctaid.x;\nmov.u32 %t, %ntid.x;\nmad.lo.u32 %u, %s, %t, %i;\nmul.wide.u32 %a, %u, 16;\nadd.s64 %a, %own, %a;\n\
        mov.u32 %s, x;\nmad.lo.u32 %s, %i, 4, %s;\nst.shared.u32 [%s], %u;\nst.shared.u32 [%s+256], %i;\n\
        mov.u32 %v, d;\nmad.lo.u32 %v, %i, 8, %v;\nst.shared.v2.u32 [%v], {%u, %r};\nbar.sync 0;\n\
        ld.shared.u32 %t, [%s+256];\nxor.b32 %r, %r, %t;\n\
        and.b32 %t, %i, 3;\nmul.wide.u32 %b, %t, 4;\nmov.u64 %c, c;\nadd.s64 %c, %c, %b;\nld.const.u32 %t, [%c];\nadd.u32 %r, %r, %t;\n\
        mov.u64 %c, l;\nadd.s64 %c, %c, %b;\nst.local.u32 [%c], %r;\nld.local.u32 %t, [%c];\nadd.u32 %r, %r, %t;\n\
        cvta.local.u64 %c, %c;\nst.global.u64 [%a+8], %c;\nld.global.u64 %c, [%a+8];\nld.u32 %t, [%c];\nadd.u32 %r, %r, %t;\n\
        cvt.u64.u32 %c, %v;\ncvta.shared.u64 %c, %c;\nst.global.u64 [%a+8], %c;\nld.global.u64 %c, [%a+8];\nld.u32 %t, [%c];\nadd.u32 %r, %r, %t;\n\
        isspacep.shared %p, %c;\nselp.u32 %t, 5, 6, %p;\nadd.u32 %r, %r, %t;\n\
        mov.u64 %c, g;\nadd.s64 %c, %c, %b;\nld.global.u32 %t, [%c+16];\nadd.u32 %r, %r, %t;\nld.u32 %t, [%c];\nadd.u32 %r, %r, %t;\n\
        atom.global.add.u32 %t, [%own+32768], 1;\nst.global.v2.u32 [%a], {%r, %u};\nmov.u64 %c, 0;\nst.global.u64 [%a+8], %c;";
    let ptx = kernel(before, body);
    let launch = ([4, 1, 1], 64, 512);
    let mut original = Scene::new();
    let params = [original.buffer, original.neighbour[1]];
    let whole = (Form::WHOLE, FenceMode::Window);
    assert_eq!(
        original.run(&ptx, whole, &params, launch),
        Outcome::Ended(0, 0)
    );
    let expected = original.read(params[0]);
    assert!(expected.iter().any(|&b| b != 0) && expected.len() as u64 == BUFFER);
    for form in FORMS {
        for mode in MODES {
            let mut scene = Scene::new();
            let outcome = scene.run(&ptx, (form, mode), &params, launch);
            assert_eq!(outcome, Outcome::Ended(0, 0), "{form}, {mode:?}");
            assert!(
                scene.read(params[0]) == expected,
                "{form}, {mode:?}: other bits"
            );
        }
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
    let touch = "mul.lo.u32 %t, %i, 4;\nmov.u32 %s, BIG;\nadd.u32 %s, %s, %t;\nst.shared.u32 [%s+4], %r;\nld.shared.u32 %u, [%s+4];\n\
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

/// The fence rounds a pointer down once for all that goes through it, so it must not round too much.
#[test]
fn pointers_keep_the_bits_that_their_accesses_need() {
    // What is aligned are sums: a pointer off by 4 and one off by 1, each with offsets of their own.
    let body = "add.s64 %a, %own, 4;\nst.global.u64 [%own+1024], %a;\nld.global.u64 %b, [%own+1024];\n\
        mul.wide.u32 %c, %i, 16;\nadd.s64 %c, %b, %c;\nst.global.u32 [%c], %i;\nst.global.v2.u32 [%c+4], {%r, %i};\nst.global.u32 [%b+3072], %r;\n\
        add.s64 %a, %own, 2049;\nst.global.u64 [%own+1032], %a;\nbar.sync 0;\nld.global.u64 %target, [%own+1032];\n\
        cvt.u64.u32 %c, %i;\nadd.s64 %c, %target, %c;\nst.global.u8 [%c], %r;\nst.global.u8 [%c+64], %i;\n\
        add.s64 %c, %target, 255;\nst.global.u64 [%c], %own;\nbar.sync 0;\nmov.u64 %c, 0;\nst.global.u64 [%own+1024], %c;\nst.global.u64 [%own+1032], %c;";
    let ptx = kernel("", body);
    let launch = ([1, 1, 1], 64, 0);
    let mut original = Scene::new();
    let params = [original.buffer, original.neighbour[1]];
    let whole = (Form::WHOLE, FenceMode::Window);
    assert_eq!(
        original.run(&ptx, whole, &params, launch),
        Outcome::Ended(0, 0)
    );
    for form in FORMS {
        for mode in MODES {
            let mut scene = Scene::new();
            let outcome = scene.run(&ptx, (form, mode), &params, launch);
            assert_eq!(outcome, Outcome::Ended(0, 0), "{form}, {mode:?}");
            assert!(
                scene.read(params[0]) == original.read(params[0]),
                "{form}, {mode:?}"
            );
        }
    }
}
