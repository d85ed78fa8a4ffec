//! Control flow, barriers, spaces of memory, faults, and what is refused when a module is loaded.

use crate::support::flow::{module, run};
use crate::support::{Bench, functional};
use gridmux_hw_model::{FaultKind, FaultSpace, LoadError, RunError, run_functional};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Returns a kernel with one output pointer in `%rd1` and its global thread index in `%r1`.
fn kernel_text(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 out)\n{{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n.reg .f32 %f<8>;\n\
         .reg .b64 %rd<8>;\n.shared .align 4 .b8 tile[512];\n.local .align 8 .b8 stack[64];\n\
         ld.param.u64 %rd1, [out];\nmov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\n\
         mad.lo.s32 %r1, %r3, %r4, %r2;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\n{body}\nret;\n}}\n"
    )
}

fn outputs(body: &str, blocks: u32, threads: u32) -> Vec<u32> {
    let count = (blocks * threads) as usize;
    let one_way = |timed: bool| {
        let mut bench = Bench::small();
        let kernel = bench.kernel(&kernel_text(body), "k");
        let out = bench.buffer(&vec![0; count * 4]);
        let params = out.to_le_bytes();
        let launch = bench.simple(&kernel, blocks, threads, &params);
        if timed {
            bench.timed(launch);
        } else {
            functional(&mut bench, &launch);
        }
        bench.words(out, count)
    };
    let (functional, timed) = (one_way(false), one_way(true));
    assert_eq!(functional, timed, "timing changed the results of {body}");
    functional
}

#[test]
fn divergent_lanes_come_together_again() {
    // Nested branches, a loop whose trip count differs by lane, and a shuffle that needs everybody back.
    let body = "and.b32 %r5, %r1, 3;\nmov.u32 %r6, 0;\nmov.u32 %r7, %r5;\n\
        setp.eq.u32 %p1, %r5, 0;\n@%p1 bra JOIN;\nsetp.gt.u32 %p2, %r5, 2;\n@%p2 bra BIG;\nadd.u32 %r6, %r6, 10;\n\
        bra MIDDLE;\nBIG:\nadd.u32 %r6, %r6, 100;\nMIDDLE:\nadd.u32 %r6, %r6, 1000;\nLOOP:\nadd.u32 %r6, %r6, 1;\n\
        sub.u32 %r7, %r7, 1;\nsetp.ne.u32 %p3, %r7, 0;\n@%p3 bra LOOP;\nJOIN:\n\
        shfl.sync.down.b32 %r8, %r6, 1, 31, -1;\nshl.b32 %r8, %r8, 12;\nadd.u32 %r6, %r6, %r8;\n\
        st.global.u32 [%rd2], %r6;";
    let own = |n: usize| match n % 4 {
        0 => 0,
        3 => 100 + 1000 + 3,
        k => 10 + 1000 + u32::try_from(k).expect("small"),
    };
    let got = outputs(body, 1, 64);
    for (n, got) in got.iter().enumerate() {
        let neighbour = if n % 32 == 31 { n } else { n + 1 };
        assert_eq!(*got, own(n) + (own(neighbour) << 12), "thread {n}");
    }
}

#[test]
fn a_loop_with_a_divergent_way_out_ends() {
    // A bottom-tested loop with a break in its middle.
    let body = "mov.u32 %r5, 0;\nLOOP:\nsetp.eq.u32 %p1, %r5, %r2;\n@%p1 bra OUT;\nadd.u32 %r5, %r5, 1;\n\
        setp.lt.u32 %p2, %r5, 50;\n@%p2 bra LOOP;\nOUT:\nst.global.u32 [%rd2], %r5;";
    let got = outputs(body, 2, 96);
    for (n, got) in got.iter().enumerate() {
        assert_eq!(*got as usize, (n % 96).min(50), "thread {n}");
    }
}

#[test]
fn lanes_that_exit_early_do_not_hold_up_a_barrier() {
    // Whole warps and parts of warps leave before the barrier; the others exchange through shared memory.
    let body = "setp.ge.u32 %p1, %r2, 70;\n@%p1 exit;\nshl.b32 %r5, %r2, 2;\nmov.u32 %r6, tile;\n\
        add.u32 %r6, %r6, %r5;\n\
        st.shared.u32 [%r6], %r2;\nbar.sync 0;\nsub.u32 %r7, 69, %r2;\nshl.b32 %r7, %r7, 2;\nmov.u32 %r8, tile;\n\
        add.u32 %r8, %r8, %r7;\nld.shared.u32 %r9, [%r8];\nst.global.u32 [%rd2], %r9;";
    let got = outputs(body, 1, 128);
    for (n, got) in got.iter().enumerate() {
        assert_eq!(*got as usize, if n < 70 { 69 - n } else { 0 }, "thread {n}");
    }
}

#[test]
fn every_space_can_be_reached_generically() {
    let body = "mov.u64 %rd3, stack;\ncvta.local.u64 %rd4, %rd3;\nst.u32 [%rd4+8], %r1;\nld.local.u32 %r5, [stack+8];\n\
        mul.wide.u32 %rd5, %r2, 4;\nmov.u64 %rd6, tile;\ncvta.shared.u64 %rd6, %rd6;\nadd.u64 %rd6, %rd6, %rd5;\n\
        st.u32 [%rd6], %r5;\nld.u32 %r6, [%rd6];\nisspacep.shared %p1, %rd6;\nselp.u32 %r7, 1000, 0, %p1;\n\
        add.u32 %r6, %r6, %r7;\nst.u32 [%rd2], %r6;";
    let got = outputs(body, 1, 64);
    for (n, got) in got.iter().enumerate() {
        assert_eq!(*got as usize, n + 1000, "thread {n}");
    }
}

#[test]
fn vectors_and_narrow_types_move_right() {
    let body = "shl.b32 %r5, %r2, 4;\nmov.u32 %r6, tile;\nadd.u32 %r6, %r6, %r5;\nmov.u32 %r7, -2;\n\
        st.shared.v4.u32 [%r6], {%r2, %r7, %r2, %r7};\nld.shared.v2.u32 {%r8, %r9}, [%r6];\n\
        ld.shared.s8 %r10, [%r6+4];\n\
        ld.shared.u16 %r11, [%r6+4];\nadd.u32 %r8, %r8, %r9;\nadd.u32 %r8, %r8, %r10;\nadd.u32 %r8, %r8, %r11;\n\
        st.global.u32 [%rd2], %r8;";
    let got = outputs(body, 1, 32);
    for (n, got) in got.iter().enumerate() {
        let n = u32::try_from(n).expect("small");
        assert_eq!(
            *got,
            n.wrapping_sub(2).wrapping_sub(2).wrapping_add(0xfffe),
            "thread {n}"
        );
    }
}

#[test]
fn atomics_count_every_thread() {
    let body = "mov.u32 %r5, 1;\nred.global.add.u32 [%rd1], %r5;\natom.global.max.u32 %r6, [%rd1+4], %r1;\n\
        atom.global.cas.b32 %r7, [%rd1+8], 0, 77;\natom.global.inc.u32 %r8, [%rd1+12], 9;";
    let got = outputs(body, 8, 128);
    assert_eq!(got[0], 1024);
    assert_eq!(got[1], 1023);
    assert_eq!(got[2], 77);
    assert_eq!(got[3], 1024 % 10);
}

fn fault_of(body: &str, threads: u32) -> gridmux_hw_model::Fault {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&kernel_text(body), "k");
    let out = bench.buffer(&[0; 400]);
    let params = out.to_le_bytes();
    let launch = bench.simple(&kernel, 1, threads, &params);
    let timed = bench.time(launch.clone()).err().expect("it faults");
    assert!(bench.gpu.idle(), "a faulted launch is gone");
    assert_eq!(bench.gpu.resident_blocks(), 0);
    match run_functional(&mut bench.gpu, &launch) {
        Err(RunError::Fault(functional)) => assert_eq!(
            (functional.kind, functional.ptx_line),
            (timed.kind, timed.ptx_line)
        ),
        other => panic!("{other:?}"),
    }
    *timed
}

#[test]
fn an_access_out_of_bounds_names_everything() {
    let fault = fault_of("st.global.u32 [%rd2], %r1;", 128);
    assert_eq!(
        fault.kind,
        FaultKind::OutOfBounds {
            write: true,
            space: FaultSpace::Global,
            bytes: 4
        }
    );
    assert_eq!(fault.thread, [100, 0, 0]);
    let text = fault.to_string();
    let line = kernel_text("st.global.u32 [%rd2], %r1;")
        .lines()
        .position(|l| l.starts_with("st.global"))
        .expect("it is there");
    assert_eq!(fault.ptx_line as usize, line + 1);
    for part in [
        "kernel 'k'",
        "st.global.u32",
        "thread (100, 0, 0)",
        "400 bytes at",
        "wrote 4 bytes of global memory",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn other_faults_are_told_apart() {
    let misaligned = fault_of("ld.global.u32 %r5, [%rd1+2];", 32);
    assert!(
        matches!(misaligned.kind, FaultKind::Misaligned { write: false, .. }),
        "{misaligned}"
    );
    let shared = fault_of("mov.u32 %r5, 4096;\nld.shared.u32 %r6, [%r5];", 32);
    let in_shared = FaultKind::OutOfBounds {
        write: false,
        space: FaultSpace::Shared,
        bytes: 4,
    };
    assert_eq!(shared.kind, in_shared, "{shared}");
    let null = fault_of("mov.u64 %rd3, 0;\nst.u32 [%rd3], %r1;", 32);
    assert!(
        matches!(null.kind, FaultKind::OutOfBounds { write: true, .. }),
        "{null}"
    );
    assert_eq!(fault_of("trap;", 32).kind, FaultKind::Trap);
    let barrier = fault_of(
        "setp.lt.u32 %p1, %r2, 32;\n@%p1 bra OTHER;\nbar.sync 1;\nbra END;\nOTHER:\nbar.sync 2;\nEND:\n",
        64,
    );
    assert_eq!(barrier.kind, FaultKind::BarrierDeadlock, "{barrier}");
}

#[test]
fn registers_of_the_wrong_kind_are_refused() {
    let mut bench = Bench::small();
    for body in [
        "ld.global.u32 %r5, [%p1];",
        "setp.eq.s32 %r5|%r6, %r1, %r2;",
        "@%r5 add.u32 %r6, %r1, %r2;",
        "ld.global.v4.u32 {%r5, %r6}, [%rd1];",
        "st.global.v4.u32 [%rd1], {%r5, %r6};",
        "add.u32 %rd3, %r1, %r2;",
    ] {
        let text = kernel_text(body);
        let Ok(program) = gridmux_ptx::Module::parse(text.as_str()).and_then(|m| m.decode()) else {
            continue;
        };
        let domain = bench.domain;
        let refused = bench.gpu.load(domain, &program, text.as_bytes());
        assert!(
            matches!(refused, Err(LoadError::Unsupported { .. })),
            "{body}: {refused:?}"
        );
    }
}

#[test]
fn what_is_not_modelled_is_refused_by_name_and_line() {
    let mut bench = Bench::small();
    let text = kernel_text("st.global.u32 [%rd2], %r1;\nsetmaxnreg.inc.sync.aligned.u32 64;");
    let used = bench.gpu.memory().used_bytes(bench.domain);
    match bench.try_kernel(&text, "k") {
        Err(LoadError::Unsupported {
            line,
            mnemonic,
            function,
        }) => {
            let expected = text
                .lines()
                .position(|l| l == "setmaxnreg.inc.sync.aligned.u32 64;")
                .expect("there")
                + 1;
            assert_eq!(
                (line as usize, mnemonic.as_str(), function.as_str()),
                (expected, "setmaxnreg.inc.sync.aligned.u32", "k")
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.gpu.memory().used_bytes(bench.domain), used);
}

#[test]
fn variables_are_placed_and_initialised() {
    let mut bench = Bench::small();
    let text = format!(
        "{HEAD}.global .align 4 .u32 table[4] = {{10, 20, 30, 40}};\n.const .align 4 .u32 bias = 7;\n\
         .visible .entry k(.param .u64 out)\n{{\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\nld.param.u64 %rd1, [out];\n\
         mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nmov.u64 %rd3, table;\nadd.u64 %rd3, %rd3, %rd2;\n\
         ld.global.u32 %r2, [%rd3];\nld.const.u32 %r3, [bias];\nadd.u32 %r2, %r2, %r3;\nadd.u64 %rd1, %rd1, %rd2;\n\
         st.global.u32 [%rd1], %r2;\nret;\n}}\n"
    );
    let kernel = bench.kernel(&text, "k");
    let out = bench.buffer(&[0; 16]);
    let params = out.to_le_bytes();
    let launch = bench.simple(&kernel, 1, 4, &params);
    functional(&mut bench, &launch);
    assert_eq!(bench.words(out, 4), [17, 27, 37, 47]);
}

#[test]
fn bounds_and_frames_beyond_32_bits_are_no_overflow() {
    let mut bench = Bench::small();
    let text = format!(
        "{HEAD}.visible .entry k() .maxntid 4294967295, 4294967295, 4294967295 {{\nret;\n}}\n"
    );
    assert_eq!(
        bench.kernel(&text, "k").max_threads_per_block(),
        Some(u32::MAX)
    );
    let text = format!(
        "{HEAD}.visible .entry k()\n{{\n.local .align 1 .b8 s[4294967295];\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n\
         mov.u64 %rd1, s;\nld.local.u8 %r1, [%rd1];\nst.local.u8 [%rd1], %r1;\nret;\n}}\n"
    );
    let refused = bench.try_kernel(&text, "k");
    let error = refused.expect_err("no such frame exists");
    assert!(
        matches!(error, LoadError::TooMuchLocalMemory { .. }),
        "{error}"
    );
}

/// As nvcc wrote it for PTX 1.x, of whose special registers programs read 16 bits.
#[test]
fn conversions_take_special_registers() {
    let body = "cvt.s32.u16 %r5, %tid.x;\ncvt.u32.u16 %r6, %ctaid.x;\ncvt.u64.u32 %rd3, %ntid.x;\n\
        cvt.u32.u64 %r7, %rd3;\ncvt.u16.u32 %h1, %tid.x;\ncvt.u32.u16 %r8, %h1;\n\
        mad.lo.s32 %r9, %r6, 1000, %r5;\nmad.lo.s32 %r9, %r7, 100000, %r9;\nadd.s32 %r9, %r9, %r8;\n\
        st.global.u32 [%rd2], %r9;";
    let old = "cvt.s32.u16 %r9, %tid.x;\nst.global.s32 [%rd2], %r9;";
    let expected: Vec<u32> = (0..128)
        .map(|n| 6_400_000 + n / 64 * 1000 + n % 64 * 2)
        .collect();
    assert_eq!(run(&module("", body), 2, 64), expected);
    let text = module("", old).replace(
        ".version 8.5\n.target sm_80\n.address_size 64\n",
        ".version 1.4\n.target sm_10, map_f64_to_f32\n",
    );
    let expected: Vec<u32> = (0..128).map(|n| n % 64).collect();
    assert_eq!(run(&text, 2, 64), expected);
}
