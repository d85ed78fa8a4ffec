//! Calls: parameters, results, recursion, function pointers, the stack.

use crate::support::flow::{HEAD, fault, line_of, module, refusal, run};
use gridmux_hw_model::FaultKind;

/// `call` with one 32-bit argument in `%r5` and one result in `%r6`, as compilers write it.
const CALL: &str = "{\n.param .b32 param0;\nst.param.b32 [param0+0], %r5;\n.param .b32 retval0;\n\
    call.uni (retval0), f, (param0);\nld.param.b32 %r6, [retval0+0];\n}\n";

const STORE: &str = "st.global.u32 [%rd2], %r6;";

#[test]
fn a_function_takes_and_returns_a_value() {
    let f = ".func (.param .b32 func_retval0) f(.param .b32 f_param_0)\n{\n.reg .b32 %r<4>;\n\
        ld.param.u32 %r1, [f_param_0];\nmul.lo.u32 %r2, %r1, %r1;\nadd.u32 %r2, %r2, 7;\n\
        st.param.b32 [func_retval0+0], %r2;\nret;\n}\n";
    let got = run(
        &module(f, &format!("mov.u32 %r5, %r1;\n{CALL}{STORE}")),
        3,
        96,
    );
    for (n, got) in (0..).zip(got) {
        assert_eq!(got, n * n + 7, "thread {n}");
    }
}

#[test]
fn arguments_and_results_may_be_registers() {
    let f = ".func (.reg .u32 d) f(.reg .u32 a, .reg .u64 b)\n{\n.reg .b64 %rd<4>;\ncvt.u64.u32 %rd1, a;\n\
        add.u64 %rd1, %rd1, b;\nshr.u64 %rd1, %rd1, 32;\ncvt.u32.u64 d, %rd1;\nadd.u32 d, d, a;\nret;\n}\n";
    let body = "mov.u64 %rd5, 0x2ffffffff;\ncall (%r6), f, (%r1, %rd5);\ncall (%r7), f, (5, %rd5);\n\
        mad.lo.u32 %r6, %r7, 1000, %r6;\nst.global.u32 [%rd2], %r6;";
    let got = run(&module(f, body), 1, 64);
    let f = |a: u64| (((a + 0x2_ffff_ffff) >> 32) + a) & 0xffff_ffff;
    for (n, got) in (0_u64..).zip(got) {
        assert_eq!(u64::from(got), f(5) * 1000 + f(n), "thread {n}");
    }
}

#[test]
fn a_struct_travels_by_value_both_ways() {
    let f = ".func (.param .align 8 .b8 func_retval0[24]) f(.param .align 8 .b8 f_param_0[24], .param .b16 \
        f_param_1)\n{\n\
        .reg .b32 %r<8>;\n.reg .b16 %h<4>;\n.reg .b64 %rd<8>;\nld.param.u8 %r1, [f_param_0];\n\
        ld.param.v2.u32 {%r2, %r3}, [f_param_0+8];\nld.param.u64 %rd1, [f_param_0+16];\n\
        ld.param.s16 %r4, [f_param_1];\n\
        add.u32 %r1, %r1, %r4;\nst.param.b8 [func_retval0+0], %r1;\nst.param.v2.b32 [func_retval0+8], {%r3, %r2};\n\
        add.u64 %rd1, %rd1, 1;\nst.param.b64 [func_retval0+16], %rd1;\nret;\n}\n";
    let body = "{\n.param .align 8 .b8 param0[24];\nst.param.b8 [param0+0], %r1;\n\
        st.param.v2.b32 [param0+8], {%r2, %r4};\nmov.u64 %rd5, 41;\nst.param.b64 [param0+16], %rd5;\n\
        .param .b16 param1;\nmov.b16 %h1, -3;\nst.param.b16 [param1+0], %h1;\n.param .align 8 .b8 retval0[24];\n\
        call.uni (retval0), f, (param0, param1);\nld.param.b8 %r5, [retval0+0];\n\
        ld.param.v2.b32 {%r6, %r7}, [retval0+8];\nld.param.b64 %rd6, [retval0+16];\n}\n\
        cvt.u32.u64 %r8, %rd6;\nmad.lo.u32 %r5, %r7, 256, %r5;\nmad.lo.u32 %r5, %r8, 65536, %r5;\n\
        mad.lo.u32 %r5, %r6, 0x1000000, %r5;\nst.global.u32 [%rd2], %r5;";
    let got = run(&module(f, body), 1, 32);
    for (n, got) in (0_u32..).zip(got) {
        let first = (n.wrapping_sub(3)) & 0xff;
        assert_eq!(
            got,
            (32 << 24) + (42 << 16) + (n << 8) + first,
            "thread {n}"
        );
    }
}

const FACTORIAL: &str = ".func (.param .b32 func_retval0) f(.param .b32 f_param_0)\n\
    {\n.reg .pred %p<2>;\n.reg .b32 %r<8>;\n\
    ld.param.u32 %r1, [f_param_0];\nmov.u32 %r4, 1;\nsetp.lt.u32 %p1, %r1, 2;\n@%p1 bra DONE;\nsub.u32 %r2, %r1, 1;\n\
    {\n.param .b32 param0;\nst.param.b32 [param0+0], %r2;\n.param .b32 retval0;\ncall.uni (retval0), f, (param0);\n\
    ld.param.b32 %r3, [retval0+0];\n}\nmul.lo.u32 %r4, %r3, %r1;\nDONE:\nst.param.b32 [func_retval0+0], %r4;\nret;\n\
    }\n";

#[test]
fn recursion_to_a_depth_that_differs_by_lane() {
    let body = format!("rem.u32 %r5, %r1, 13;\n{CALL}{STORE}");
    let got = run(&module(FACTORIAL, &body), 2, 64);
    for (n, got) in (0..).zip(got) {
        assert_eq!(got, (1..=n % 13).product::<u32>(), "thread {n}");
    }
}

#[test]
fn recursion_without_end_overflows_the_stack() {
    let f = ".func f(.param .b32 f_param_0)\n{\n.reg .b32 %r<4>;\nld.param.u32 %r1, [f_param_0];\n\
        {\n.param .b32 param0;\nst.param.b32 [param0+0], %r1;\ncall.uni f, (param0);\n}\nret;\n}\n";
    let body = "{\n.param .b32 param0;\nst.param.b32 [param0+0], %r1;\ncall.uni f, (param0);\n}\n";
    let text = module(f, body);
    let fault = fault(&text, 32);
    assert!(
        matches!(fault.kind, FaultKind::StackOverflow { .. }),
        "{fault}"
    );
    assert_eq!(fault.ptx_line, line_of(&text, "call.uni f"));
    assert!(fault.to_string().contains("in function 'f'"), "{fault}");
    assert!(fault.to_string().contains("stack overflowed"), "{fault}");
}

/// Three functions of one prototype, a table of them in constant memory, and a pointer to one in global memory.
const FUNCTIONS: &str = ".func (.param .b32 r) add1(.param .b32 a)\n\
    {\n.reg .b32 %r<4>;\nld.param.u32 %r1, [a];\nadd.u32 %r1, %r1, 1;\nst.param.b32 [r], %r1;\nret;\n}\n\
    .func (.param .b32 r) twice(.param .b32 a)\n\
    {\n.reg .b32 %r<4>;\nld.param.u32 %r1, [a];\nadd.u32 %r1, %r1, %r1;\nst.param.b32 [r], %r1;\nret;\n}\n\
    .func (.param .b32 r) both(.param .b32 a)\n\
    {\n.reg .b32 %r<4>;\nld.param.u32 %r1, [a];\n{\n.param .b32 p0;\nst.param.b32 [p0], %r1;\n.param .b32 q0;\n\
    call (q0), twice, (p0);\nld.param.b32 %r1, [q0];\n}\n{\n.param .b32 p0;\nst.param.b32 [p0], %r1;\n\
    .param .b32 q0;\ncall (q0), add1, (p0);\nld.param.b32 %r1, [q0];\n}\nst.param.b32 [r], %r1;\nret;\n}\n\
    .const .align 8 .u64 table[3] = {add1, twice, both};\n.global .align 8 .u64 pointer = both;\n";

#[test]
fn indirect_calls_diverge_and_come_together() {
    // The lane picks the function; guarded calls leave some lanes out; a shuffle needs all of them back.
    let body = "rem.u32 %r7, %r2, 3;\nmul.wide.u32 %rd5, %r7, 8;\nmov.u64 %rd6, table;\nadd.u64 %rd6, %rd6, %rd5;\n\
        ld.const.u64 %rd7, [%rd6];\nmov.u32 %r6, 5000;\nsetp.ne.u32 %p1, %r7, 1;\n\
        prototype: .callprototype (.param .b32 _) _ (.param .b32 _);\n\
        {\n.param .b32 param0;\nst.param.b32 [param0], %r2;\n.param .b32 retval0;\n\
        @%p1 call (retval0), %rd7, (param0), prototype;\n\
        @%p1 ld.param.b32 %r6, [retval0];\n}\nshfl.sync.bfly.b32 %r8, %r6, 1, 31, -1;\n\
        mad.lo.u32 %r6, %r8, 10000, %r6;\nst.global.u32 [%rd2], %r6;";
    let got = run(&module(FUNCTIONS, body), 1, 64);
    let own = |n: u32| match n % 3 {
        0 => n + 1,
        1 => 5000,
        _ => 2 * n + 1,
    };
    for (n, got) in (0..).zip(got) {
        assert_eq!(got, own(n) + 10000 * own(n ^ 1), "thread {n}");
    }
}

#[test]
fn a_function_pointer_may_come_from_memory_or_a_target_list() {
    let body = "ld.global.u64 %rd5, [pointer];\nmov.u64 %rd6, twice;\nsetp.lt.u32 %p1, %r2, 16;\n\
        selp.b64 %rd7, %rd5, %rd6, %p1;\n\
        targets: .calltargets twice, both;\n{\n.param .b32 param0;\nst.param.b32 [param0], %r2;\n.param .b32 retval0;\n\
        call (retval0), %rd7, (param0), targets;\nld.param.b32 %r6, [retval0];\n}\nst.global.u32 [%rd2], %r6;";
    let got = run(&module(FUNCTIONS, body), 1, 32);
    for (n, got) in (0..).zip(got) {
        assert_eq!(got, 2 * n + u32::from(n < 16), "thread {n}");
    }
}

#[test]
fn a_call_of_no_function_is_a_fault() {
    let body = "mov.u64 %rd7, 4096;\nprototype: .callprototype (.param .b32 _) _ (.param .b32 _);\n\
        {\n.param .b32 param0;\n\
        st.param.b32 [param0], %r2;\n.param .b32 retval0;\ncall (retval0), %rd7, (param0), prototype;\n}\n";
    let fault = fault(&module(FUNCTIONS, body), 32);
    assert_eq!(fault.kind, FaultKind::BadCall);
    assert_eq!(fault.address, Some(4096));
}

#[test]
fn exit_and_divergent_returns_inside_a_function() {
    // A third of the lanes exits in the callee, a third returns early, the rest loops before it returns.
    let f = ".func (.param .b32 r) f(.param .b32 a)\n\
        {\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\nld.param.u32 %r1, [a];\nrem.u32 %r2, %r1, 3;\n\
        setp.eq.u32 %p1, %r2, 0;\n@%p1 exit;\nsetp.eq.u32 %p2, %r2, 1;\nmov.u32 %r3, 77;\nst.param.b32 [r], %r3;\n\
        @%p2 ret;\n\
        mov.u32 %r3, 0;\nLOOP:\nadd.u32 %r3, %r3, 2;\nsetp.lt.u32 %p3, %r3, %r1;\n@%p3 bra LOOP;\n\
        st.param.b32 [r], %r3;\nret;\n}\n";
    let body = format!(
        "mov.u32 %r5, %r2;\n{CALL}vote.sync.ballot.b32 %r7, 1, -1;\npopc.b32 %r7, %r7;\n\
        mad.lo.u32 %r6, %r7, 1000, %r6;\n{STORE}"
    );
    let got = run(&module(f, &body), 1, 32);
    for (n, got) in (0_u32..).zip(got) {
        let expected = match n % 3 {
            0 => 0,
            1 => 21_077,
            _ => 21_000 + n.next_multiple_of(2),
        };
        assert_eq!(got, expected, "thread {n}");
    }
}

#[test]
fn local_arrays_stand_in_their_own_frames() {
    // Each level fills an array of its own, calls the next one, and then sums its array.
    let f = ".func (.param .b32 r) f(.param .b32 a)\n\
        {\n.local .align 4 .b8 array[32];\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n\
        ld.param.u32 %r1, [a];\nmov.u64 %rd1, array;\ncvta.local.u64 %rd2, %rd1;\nld.local.u32 %r4, [array+28];\n\
        st.local.u32 [array+4], %r1;\n\
        st.u32 [%rd2+8], %r1;\nst.local.u32 [%rd1+12], 100;\nsetp.eq.u32 %p1, %r1, 0;\nmov.u32 %r3, 0;\n\
        @%p1 bra SUM;\nsub.u32 %r2, %r1, 1;\n\
        {\n.param .b32 param0;\nst.param.b32 [param0], %r2;\n.param .b32 retval0;\ncall (retval0), f, (param0);\n\
        ld.param.b32 %r3, [retval0];\n}\n\
        SUM:\nadd.u32 %r3, %r3, %r4;\nld.local.u32 %r4, [%rd1+4];\nadd.u32 %r3, %r3, %r4;\nld.u32 %r4, [%rd2+8];\n\
        add.u32 %r3, %r3, %r4;\nld.local.u32 %r4, [array+12];\n\
        add.u32 %r3, %r3, %r4;\nst.local.u32 [array+28], 12345;\nst.param.b32 [r], %r3;\nret;\n}\n";
    let body = format!(
        "rem.u32 %r5, %r2, 6;\n{CALL}mov.u32 %r7, %r6;\n{CALL}add.u32 %r6, %r6, %r7;\n{STORE}"
    );
    let got = run(&module(f, &body), 1, 64);
    for (n, got) in (0_u32..).zip(got) {
        let k = n % 6;
        assert_eq!(got, 2 * (k * (k + 1) + 100 * (k + 1)), "thread {n}");
    }
}

#[test]
fn the_address_of_a_parameter_works_in_functions_and_kernels() {
    let f = ".func (.param .b32 r) f(.param .align 4 .b8 a[16], .param .b32 i)\n\
        {\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\nmov.b64 %rd1, a;\n\
        ld.param.u32 %r1, [i];\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nld.local.u32 %r2, [%rd3];\n\
        cvta.param.u64 %rd4, %rd3;\n\
        ld.u32 %r3, [%rd4];\nadd.u32 %r2, %r2, %r3;\nst.param.b32 [r], %r2;\nret;\n}\n";
    let kernel = format!(
        "{HEAD}{f}.visible .entry k(.param .u64 out)\n{{\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\nmov.b64 %rd1, out;\n\
        cvta.param.u64 %rd2, %rd1;\nld.u64 %rd3, [%rd2];\nld.param.u64 %rd4, [%rd1];\nld.param.u32 %r9, [%rd1+4];\n\
        mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd5, %r1, 4;\n\
        add.u64 %rd3, %rd3, %rd5;\nadd.u64 %rd4, %rd4, %rd5;\nsub.u64 %rd6, %rd3, %rd4;\ncvt.u32.u64 %r8, %rd6;\n\
        and.b32 %r2, %r1, 3;\n\
        {{\n.param .align 4 .b8 p0[16];\nst.param.b32 [p0], %r1;\nst.param.b32 [p0+4], 11;\n\
        st.param.b32 [p0+8], 22;\nst.param.b32 [p0+12], 33;\n.param .b32 p1;\nst.param.b32 [p1], %r2;\n\
        .param .b32 q0;\ncall (q0), f, (p0, p1);\nld.param.b32 %r3, [q0];\n}}\nadd.u32 %r3, %r3, %r8;\n\
        st.global.u32 [%rd3], %r3;\nret;\n}}\n"
    );
    let got = run(&kernel, 1, 32);
    for (n, got) in (0_u32..).zip(got) {
        assert_eq!(got, 2 * [n, 11, 22, 33][n as usize % 4], "thread {n}");
    }
}

#[test]
fn alloca_gives_memory_until_the_stack_is_restored() {
    let body = "stacksave.u64 %rd5;\nrem.u32 %r5, %r2, 5;\nadd.u32 %r5, %r5, 1;\nshl.b32 %r6, %r5, 2;\n\
        cvt.u64.u32 %rd6, %r6;\nalloca.u64 %rd7, %rd6;\n\
        alloca.u64 %rd8, 8;\nst.local.u32 [%rd8], 1000;\nmov.u32 %r7, 0;\nmov.u64 %rd9, %rd7;\nFILL:\n\
        st.local.u32 [%rd9], %r7;\nadd.u64 %rd9, %rd9, 4;\n\
        add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, %r5;\n@%p1 bra FILL;\nld.local.u32 %r6, [%rd8];\n\
        ld.local.u32 %r8, [%rd9+-4];\nadd.u32 %r6, %r6, %r8;\n\
        stackrestore.u64 %rd5;\nalloca.u64 %rd10, 8;\nsub.u64 %rd11, %rd10, %rd7;\ncvt.u32.u64 %r9, %rd11;\n\
        add.u32 %r6, %r6, %r9;\nst.global.u32 [%rd2], %r6;";
    let got = run(&module("", body), 1, 32);
    for (n, got) in (0_u32..).zip(got) {
        assert_eq!(got, 1000 + n % 5, "thread {n}");
    }
    let greedy = "mov.u64 %rd6, 0x100000;\nalloca.u64 %rd7, %rd6;\n";
    let fault = fault(&module("", greedy), 32);
    assert!(
        matches!(fault.kind, FaultKind::StackOverflow { .. }),
        "{fault}"
    );
}

#[test]
fn a_function_that_is_only_declared_is_refused_with_its_line() {
    let text = module(
        ".extern .func (.param .b32 r) f(.param .b32 a);\n",
        &format!("mov.u32 %r5, 1;\n{CALL}"),
    );
    let message = refusal(&text);
    let line = line_of(&text, "call.uni");
    assert!(
        message.contains(&format!("line {line}")) && message.contains("call"),
        "{message}"
    );
}
