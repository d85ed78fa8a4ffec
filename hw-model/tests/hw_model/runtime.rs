//! What device code calls without defining it: printf, malloc, free, assertions.

use crate::support::Bench;
use crate::support::flow::{fault, line_of, module, refusal, run, runs};
use gridmux_hw_model::{FaultKind, Printed, run_functional};

const EXTERN: &str = ".extern .func (.param .b32 func_retval0) vprintf(.param .b64 p0, .param .b64 p1);\n\
    .extern .func __assertfail(.param .b64 p0, .param .b64 p1, .param .b32 p2, .param .b64 p3, .param .b64 p4);\n\
    .extern .func (.param .b64 func_retval0) malloc(.param .b64 p0);\n.extern .func free(.param .b64 p0);\n\
    .global .align 1 .b8 text[28] = \
    {104, 105, 32, 37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 32, 37, 108, 108, 120, 10, 0};\n\
    .global .align 1 .b8 word[4] = {97, 98, 99, 0};\n";

/// `text` is "hi %d %.2f %s %llx\n".
const PRINT: &str = "add.u64 %rd5, %SP, 0;\nmov.u64 %rd3, stack;\ncvta.local.u64 %rd5, %rd3;\n\
    st.local.u32 [%rd3], %r1;\ncvt.rn.f64.u32 %fd1, %r2;\nmul.f64 %fd1, %fd1, 0d3FF8000000000000;\n\
    st.local.f64 [%rd3+8], %fd1;\n\
    mov.u64 %rd6, word;\ncvta.global.u64 %rd6, %rd6;\nst.local.u64 [%rd3+16], %rd6;\nmov.u64 %rd7, 0xabcdef012345;\n\
    st.local.u64 [%rd3+24], %rd7;\nmov.u64 %rd8, text;\ncvta.global.u64 %rd8, %rd8;\n\
    {\n.param .b64 param0;\nst.param.b64 [param0], %rd8;\n.param .b64 param1;\nst.param.b64 [param1], %rd5;\n\
    .param .b32 retval0;\ncall.uni (retval0), vprintf, (param0, param1);\nld.param.b32 %r9, [retval0];\n}\n\
    st.global.u32 [%rd2], %r9;";

fn printing() -> String {
    let body = PRINT.replace(
        "add.u64 %rd5, %SP, 0;\n",
        ".local .align 8 .b8 stack[32];\n.reg .f64 %fd<4>;\n",
    );
    module(EXTERN, &body)
}

#[test]
fn printf_formats_what_each_thread_passes() {
    for timed in [false, true] {
        let mut bench = Bench::small();
        let kernel = bench.kernel(&printing(), "k");
        let out = bench.buffer(&[0; 64 * 4]);
        let params = out.to_le_bytes();
        let launch = bench.simple(&kernel, 2, 3, &params);
        if timed {
            bench.timed(launch);
        } else {
            run_functional(&mut bench.gpu, &launch).unwrap_or_else(|error| panic!("{error}"));
        }
        assert_eq!(bench.words(out, 6), [4; 6], "the number of arguments");
        let printed = bench.gpu.take_printed();
        let mut lines: Vec<&str> = printed[0].text.lines().collect();
        lines.sort_unstable();
        let expected: Vec<String> = (0..6)
            .map(|n| format!("hi {n} {:.2} abc abcdef012345", 1.5 * f64::from(n % 3)))
            .collect();
        assert_eq!(lines, expected);
        assert_eq!((printed.len(), printed[0].tag), (1, 1));
        assert_eq!(
            bench.gpu.take_printed(),
            Vec::<Printed>::new(),
            "it was taken"
        );
    }
}

#[test]
fn malloc_gives_memory_of_ones_own_and_free_takes_it_back() {
    // Each thread allocates 40 + 8 * (thread & 3) bytes twice, fills them, checks them, and frees them, three times.
    let call = |size: &str, to: &str| {
        format!(
            "{{\n.param .b64 param0;\nst.param.b64 [param0], {size};\n.param .b64 retval0;\n\
             call.uni (retval0), malloc, (param0);\nld.param.b64 {to}, [retval0];\n}}\n"
        )
    };
    let free = |what: &str| {
        format!(
            "{{\n.param .b64 param0;\nst.param.b64 [param0], {what};\ncall.uni free, (param0);\n}}\n"
        )
    };
    let body = format!(
        "and.b32 %r5, %r2, 3;\nshl.b32 %r5, %r5, 3;\nadd.u32 %r5, %r5, 40;\ncvt.u64.u32 %rd5, %r5;\nmov.u32 %r6, 0;\n\
         mov.u32 %r7, 0;\nAGAIN:\n{}{}st.u32 [%rd6], %r1;\nst.u32 [%rd6+36], %r1;\nadd.u32 %r8, %r1, 5;\n\
        st.u32 [%rd7], %r8;\nst.u32 [%rd7+36], %r8;\nbar.sync 0;\nld.u32 %r9, [%rd6];\nld.u32 %r10, [%rd6+36];\n\
        ld.u32 %r11, [%rd7];\nld.u32 %r12, [%rd7+36];\nadd.u32 %r7, %r7, %r9;\nadd.u32 %r7, %r7, %r10;\n\
        add.u32 %r7, %r7, %r11;\n\
        add.u32 %r7, %r7, %r12;\nbar.sync 0;\n{}{}add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, 3;\n@%p1 bra AGAIN;\n\
        st.global.u32 [%rd2], %r7;",
        call("%rd5", "%rd6"),
        call("%rd5", "%rd7"),
        free("%rd6"),
        free("%rd7")
    );
    for got in runs(&module(EXTERN, &body), 4, 64) {
        for (n, got) in (0_u32..).zip(got) {
            assert_eq!(got, 3 * (4 * n + 10), "thread {n}");
        }
    }
}

#[test]
fn a_full_heap_gives_null() {
    let body = "mov.u64 %rd5, 0x300000;\nmov.u32 %r6, 0;\nAGAIN:\n\
        {\n.param .b64 param0;\nst.param.b64 [param0], %rd5;\n.param .b64 retval0;\n\
        call.uni (retval0), malloc, (param0);\nld.param.b64 %rd6, [retval0];\n}\nsetp.ne.u64 %p1, %rd6, 0;\n\
        selp.u32 %r7, 1, 0, %p1;\nadd.u32 %r6, %r6, %r7;\n@%p1 bra AGAIN;\nst.global.u32 [%rd2], %r6;";
    for got in runs(&module(EXTERN, body), 1, 1) {
        assert_eq!(
            got,
            [1],
            "one piece of 4 MiB fits beside the header of a heap of 8 MiB"
        );
    }
}

#[test]
fn a_failed_assertion_names_expression_file_and_line() {
    let body = "setp.ne.u32 %p1, %r2, 7;\n@%p1 bra GOOD;\nmov.u64 %rd5, word;\ncvta.global.u64 %rd5, %rd5;\n\
        {\n.param .b64 param0;\nst.param.b64 [param0], %rd5;\n.param .b64 param1;\nst.param.b64 [param1], %rd5;\n\
        .param .b32 param2;\n\
        st.param.b32 [param2], 42;\n.param .b64 param3;\nst.param.b64 [param3], %rd5;\n.param .b64 param4;\n\
        st.param.b64 [param4], 1;\ncall.uni __assertfail, (param0, param1, param2, param3, param4);\n}\nGOOD:\n\
        st.global.u32 [%rd2], %r2;";
    let text = module(EXTERN, body);
    let fault = fault(&text, 32);
    assert_eq!(
        (fault.kind, fault.thread),
        (FaultKind::Assertion, [7, 0, 0])
    );
    assert_eq!(fault.ptx_line, line_of(&text, "call.uni __assertfail"));
    assert!(
        fault.to_string().contains("`abc` in abc, abc:42"),
        "{fault}"
    );
}

#[test]
fn breakpoints_and_traps_are_told_apart() {
    assert_eq!(
        fault(&module("", "brkpt;\n"), 32).kind,
        FaultKind::Breakpoint
    );
    assert_eq!(fault(&module("", "trap;\n"), 32).kind, FaultKind::Trap);
}

#[test]
fn a_function_that_the_model_lacks_is_named_with_what_needs_it() {
    for (callee, needed_for) in [
        (
            "cudaCGSynchronize",
            " (groups of all threads of a grid need it)",
        ),
        (
            "cudaLaunchDeviceV2",
            " (kernels that launch kernels need it)",
        ),
        ("__cudaCDP2Free", " (kernels that launch kernels need it)"),
        ("other", ""),
    ] {
        let text = module(
            &format!(".extern .func {callee}();\n"),
            &format!("call.uni {callee};\n"),
        );
        let line = line_of(&text, "call.uni");
        let want = format!("line {line}: 'k' calls '{callee}', which is not modelled{needed_for}");
        assert_eq!(refusal(&text), want);
    }
}

/// Asserts that `line` is refused as the model's own messages are, naming itself and its place.
fn refuses(target: &str, line: &str) {
    let text = module("", line)
        .replace("sm_80", target)
        .replace(".version 8.5", ".version 8.7");
    let mnemonic = line.split([' ', ';']).next().expect("a mnemonic");
    let at = line_of(&text, line);
    let want = format!("line {at}: '{mnemonic}' in 'k' with these operands is not modelled");
    assert_eq!(refusal(&text), want);
}

#[test]
fn warpgroup_matrix_instructions_are_refused() {
    refuses("sm_90a", "wgmma.fence.sync.aligned;");
    refuses("sm_90a", "wgmma.commit_group.sync.aligned;");
    refuses("sm_90a", "wgmma.wait_group.sync.aligned 0;");
    refuses(
        "sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd3, %rd4, 1, 1, 1, 0, 0;",
    );
    refuses("sm_90a", "setmaxnreg.inc.sync.aligned.u32 64;");
}

#[test]
fn tensor_memory_instructions_are_refused() {
    refuses("sm_100a", "tcgen05.fence::before_thread_sync;");
    refuses(
        "sm_100a",
        "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%rd3], 64;",
    );
    refuses(
        "sm_100a",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r6];",
    );
    refuses("sm_100a", "tcgen05.wait::ld.sync.aligned;");
}

#[test]
fn bulk_copies_are_refused() {
    refuses("sm_90a", "cp.async.bulk.commit_group;");
    refuses(
        "sm_90a",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd3], %r6, [%r7];",
    );
    refuses(
        "sm_90a",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd3, {%r6, %r7}], \
         [%r8];",
    );
    refuses(
        "sm_90a",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd3, {%r6}], [%r5];",
    );
}

#[test]
fn clusters_are_refused() {
    refuses("sm_90a", "barrier.cluster.arrive;");
    refuses("sm_90a", "barrier.cluster.wait;");
    refuses("sm_90a", "mapa.shared::cluster.u32 %r5, %r6, 1;");
    refuses("sm_90a", "getctarank.shared::cluster.u32 %r5, %r6;");
    let header = |cluster: &str| {
        let text = module("", "");
        text.replace("sm_80", "sm_90")
            .replace("out)\n{", &format!("out)\n{cluster}\n{{"))
    };
    let text = header(".explicitcluster\n.reqnctapercluster 2, 1, 1");
    let at = line_of(&text, ".reqnctapercluster");
    let want =
        format!("line {at}: '.reqnctapercluster' in 'k' with these operands is not modelled");
    assert_eq!(refusal(&text), want);
    Bench::small().kernel(&header(".reqnctapercluster 1, 1, 1"), "k");
}

#[test]
fn without_clusters_each_block_is_one() {
    let body = "mov.u32 %r5, %clusterid.x;\nmov.u32 %r6, %nclusterid.x;\nmad.lo.u32 %r5, %r6, 10, %r5;\n\
        mov.u32 %r6, %cluster_nctaid.x;\nmad.lo.u32 %r5, %r6, 100, %r5;\n\
        mov.u32 %r6, %cluster_nctarank;\nmad.lo.u32 %r5, %r6, 1000, %r5;\nmov.u32 %r6, %cluster_ctaid.y;\n\
        add.u32 %r5, %r5, %r6;\nmov.u32 %r6, %cluster_ctarank;\nadd.u32 %r5, %r5, %r6;\n\
        st.global.u32 [%rd2], %r5;";
    let text = module("", body).replace("sm_80", "sm_90");
    for (n, got) in (0_u32..).zip(run(&text, 3, 32)) {
        assert_eq!(got, 1130 + n / 32, "thread {n}");
    }
}

#[test]
fn an_address_near_a_variable_names_it() {
    let body = "mov.u64 %rd5, word;\nld.global.u32 %r5, [%rd5+64];\nst.global.u32 [%rd2], %r5;";
    let fault = fault(&module(EXTERN, body), 1);
    assert!(fault.to_string().contains("variable 'word'"), "{fault}");
}
