//! Any number of threads gives the same cycles, counters and memory.

use crate::support::flow::module;
use crate::support::{Bench, case_of};
use gridmux_hw_model::Counters;
use gridmux_workloads::{Size, workloads};

/// Cycles, counters per launch and SM, and the bytes of all outputs.
type Outcome = (u64, Counters, Vec<Counters>, Vec<Vec<u8>>);

fn run(gpu: &str, threads: usize, name: &str, size: Size) -> Outcome {
    let mut bench = Bench::named(gpu);
    bench.gpu.set_threads(threads);
    let case = case_of(name, size, 5);
    let (timed, outputs) = bench.run(&case);
    case.verify(&outputs)
        .unwrap_or_else(|error| panic!("{gpu} {name} {size}: {error}"));
    (
        timed.cycles,
        timed.counters,
        bench.gpu.sm_counters(),
        outputs,
    )
}

#[test]
fn every_workload_takes_the_same_cycles_on_one_two_and_four_threads() {
    for gpu in ["v100", "gtx480"] {
        for workload in workloads() {
            let alone = run(gpu, 1, workload.name, Size::Small);
            for threads in [2, 4] {
                let shared = run(gpu, threads, workload.name, Size::Small);
                assert_eq!(alone.0, shared.0, "{gpu} {} {threads}", workload.name);
                assert!(alone == shared, "{gpu} {} {threads}", workload.name);
            }
        }
    }
}

/// All warps of all SMs hammer a few words with atomics, plain stores and loads of what they wrote just before.
const CONTENDED: &str = include_str!("contended.ptx");

#[test]
fn contended_words_end_alike_and_threads_see_their_own_writes() {
    let outcome = |threads: usize| {
        let mut bench = Bench::named("v100");
        bench.gpu.set_threads(threads);
        let kernel = bench.kernel(CONTENDED, "contended");
        let words = bench.buffer(&[0; 64]);
        let (blocks, block) = (160_u32, 128_u32);
        let out = bench.buffer(&vec![0; (blocks * block * 16) as usize]);
        let mut params = words.to_le_bytes().to_vec();
        params.extend(out.to_le_bytes());
        let timed = bench.timed(bench.simple(&kernel, blocks, block, &params));
        let sums = bench.words(words, 16);
        let rows = bench.words(out, (blocks * block * 4) as usize);
        let adds = blocks * block * 5 / 8;
        assert_eq!(sums[..8], [adds; 8], "every addition counts once");
        for (thread, row) in rows.chunks(4).enumerate() {
            assert_eq!(row[3], 0, "thread {thread} read older words than it wrote");
        }
        (timed.cycles, timed.counters, sums, rows)
    };
    let alone = outcome(1);
    for threads in [2, 4] {
        assert!(alone == outcome(threads), "{threads} threads");
    }
}

/// Warps that sleep for times of their own, between copies of which two groups are in flight.
const DROWSY: &str = "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nmov.u32 %r11, box;\nshl.b32 %r12, %r2, 5;\n\
    add.u32 %r11, %r11, %r12;\nmul.wide.u32 %rd3, %r1, 16;\nadd.u64 %rd3, %rd3, %rd1;\nROUND:\n\
    and.b32 %r14, %r5, 1;\nshl.b32 %r14, %r14, 4;\nadd.u32 %r14, %r14, %r11;\n\
    cp.async.cg.shared.global [%r14], [%rd3+81920], 16;\nadd.u64 %rd3, %rd3, 512;\ncp.async.commit_group;\n\
    shl.b32 %r15, %r3, 2;\nadd.u32 %r15, %r15, %r2;\nnanosleep.u32 %r15;\ncp.async.wait_group 1;\n\
    mov.u64 %rd4, %clock64;\ncvt.u32.u64 %r7, %rd4;\nmad.lo.u32 %r6, %r6, 31, %r7;\nadd.u32 %r5, %r5, 1;\n\
    setp.lt.u32 %p3, %r5, 12;\n@%p3 bra ROUND;\ncp.async.wait_all;\nst.global.u32 [%rd2], %r6;";

#[test]
fn sleeps_and_copies_take_the_same_cycles_on_one_two_and_four_threads() {
    let outcome = |threads: usize| {
        let mut bench = Bench::named("v100");
        bench.gpu.set_threads(threads);
        let text = module(".shared .align 16 .b8 box[4096];\n", DROWSY);
        let kernel = bench.kernel(&text, "k");
        let (blocks, block) = (160_u32, 128_u32);
        let out = bench.buffer(&vec![0; 1 << 20]);
        let params = out.to_le_bytes();
        let timed = bench.timed(bench.simple(&kernel, blocks, block, &params));
        let clocks = bench.words(out, (blocks * block) as usize);
        (timed.cycles, timed.counters, clocks)
    };
    let alone = outcome(1);
    for threads in [2, 4] {
        assert!(alone == outcome(threads), "{threads} threads");
    }
}
