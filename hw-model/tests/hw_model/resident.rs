//! Blocks of one launch that wait for each other end without timing as they do on a GPU, and blocks that wait for
//! nobody run one after another.

use crate::support::flow::{module, runs};
use crate::support::{Bench, kernel_of};
use gridmux_hw_model::{Counters, FaultKind, Launch, LaunchError, RunError, Workspace};
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Size, workloads};

const GLOBALS: &str = ".global .align 4 .u32 come;\n.global .align 4 .u32 flags[8192];\n";

/// The address of the block's own flag in `%rd6`, and the number of blocks in `%r8`.
const OWN: &str = "mov.u64 %rd5, flags;\nmul.wide.u32 %rd6, %r3, 4;\n\
    add.u64 %rd6, %rd5, %rd6;\nmov.u32 %r8, %nctaid.x;\n";

/// Ways of asking for the word at `%rd7` until it is not zero.
const WAITS: [(&str, &str); 9] = [
    (
        "volatile",
        "W: ld.volatile.global.u32 %r9, [%rd7];\nsetp.eq.u32 %p2, %r9, 0;\n@%p2 bra W;\n",
    ),
    (
        "acquire",
        "W: ld.acquire.gpu.global.u32 %r9, [%rd7];\nsetp.eq.u32 %p2, %r9, 0;\n@%p2 bra W;\n",
    ),
    (
        "membar",
        "W: membar.gl;\nld.global.u32 %r9, [%rd7];\nsetp.eq.u32 %p2, %r9, 0;\n@%p2 bra W;\n",
    ),
    (
        "addition of nothing",
        "W: atom.global.add.u32 %r9, [%rd7], 0;\nsetp.eq.u32 %p2, %r9, 0;\n@%p2 bra W;\n",
    ),
    (
        "cas",
        "W: atom.global.cas.b32 %r9, [%rd7], 1, 1;\nsetp.ne.u32 %p2, %r9, 1;\n@%p2 bra W;\n",
    ),
    (
        "nanosleep",
        "mov.u32 %r10, 32;\nW: ld.volatile.global.u32 %r9, [%rd7];\nsetp.ne.u32 %p2, %r9, 0;\n@%p2 bra D;\n\
         nanosleep.u32 %r10;\nshl.b32 %r10, %r10, 1;\nmin.u32 %r10, %r10, 1024;\nbra W;\nD:\n",
    ),
    (
        "counted tries",
        "mov.u32 %r10, 0;\nW: ld.volatile.global.u32 %r9, [%rd7];\nadd.u32 %r10, %r10, 1;\nsetp.eq.u32 %p2, %r9, 0;\n\
         @%p2 bra W;\n",
    ),
    (
        "the block's barrier",
        "W: mov.u32 %r9, 1;\nsetp.ne.u32 %p3, %r2, 0;\n@!%p3 ld.volatile.global.u32 %r9, [%rd7];\n\
         setp.eq.u32 %p2, %r9, 0;\nbarrier.red.or.pred %p2, 0, %p2;\n@%p2 bra W;\n",
    ),
    (
        "weak reads",
        "W: ld.global.u32 %r9, [%rd7];\nsetp.eq.u32 %p2, %r9, 0;\n@%p2 bra W;\n",
    ),
];

/// Returns a kernel whose blocks wait for the flag `ahead` words behind their own, as far as there is one.
fn chain(wait: &str, ahead: i32) -> String {
    let skips = match ahead > 0 {
        true => "sub.u32 %r8, %r8, 1;\nsetp.eq.u32 %p1, %r3, %r8;\n",
        false => "setp.eq.u32 %p1, %r3, 0;\n",
    };
    let body = format!(
        "{OWN}{skips}add.s64 %rd7, %rd6, {};\nbar.sync 0;\n@%p1 bra S;\n{wait}S: membar.gl;\nbar.sync 0;\n\
         st.volatile.global.u32 [%rd6], 1;\nst.global.u32 [%rd2], 5;",
        ahead * 4
    );
    module(GLOBALS, &body)
}

/// Returns a kernel whose blocks meet `rounds` times: each adds to what its right neighbour has left.
fn barriers(rounds: u32) -> String {
    let body = format!(
        "{OWN}mov.u64 %rd8, come;\nmov.u32 %r11, 0;\nadd.u32 %r12, %r3, 1;\nrem.u32 %r12, %r12, %r8;\n\
         mul.wide.u32 %rd9, %r12, 4;\nadd.u64 %rd9, %rd5, %rd9;\n\
         R: ld.volatile.global.u32 %r13, [%rd9];\nadd.u32 %r11, %r11, 1;\nbar.sync 0;\nsetp.ne.u32 %p1, %r2, 0;\n\
         @%p1 bra M;\nmembar.gl;\natom.global.add.u32 %r9, [%rd8], 1;\nmul.lo.u32 %r14, %r11, %r8;\n\
         shl.b32 %r14, %r14, 1;\nsub.u32 %r15, %r14, %r8;\n\
         W: ld.volatile.global.u32 %r9, [%rd8];\nsetp.lt.u32 %p2, %r9, %r15;\n@%p2 bra W;\n\
         add.u32 %r13, %r13, 1;\nst.volatile.global.u32 [%rd6], %r13;\n\
         membar.gl;\natom.global.add.u32 %r9, [%rd8], 1;\n\
         V: ld.volatile.global.u32 %r9, [%rd8];\nsetp.lt.u32 %p2, %r9, %r14;\n@%p2 bra V;\n\
         M: bar.sync 0;\nsetp.lt.u32 %p3, %r11, {rounds};\n@%p3 bra R;\n\
         ld.volatile.global.u32 %r13, [%rd6];\nst.global.u32 [%rd2], %r13;"
    );
    module(GLOBALS, &body)
}

/// Runs a launch to its end in parts; returns its counters and the most blocks that were live.
fn live(bench: &mut Bench, launch: &Launch<'_>, most: u64) -> Result<(Counters, usize), RunError> {
    let mut run = bench.gpu.begin_functional(launch)?;
    while !bench.gpu.step_functional(&mut run, most)? {}
    let most_live = run.most_live_blocks();
    Ok((bench.gpu.end_functional(run), most_live))
}

#[test]
fn blocks_may_wait_for_later_and_for_earlier_ones() {
    for (name, wait) in WAITS {
        for ahead in [1, -1] {
            let text = chain(wait, ahead);
            if name == "weak reads" {
                // With timing they find what is in the L1 cache.
                let mut bench = Bench::small();
                let kernel = bench.kernel(&text, "k");
                let out = bench.buffer(&vec![0; 64 * 64 * 4]);
                let params = out.to_le_bytes();
                let launch = bench.simple(&kernel, 64, 64, &params);
                live(&mut bench, &launch, 1 << 20).expect("it ends");
                continue;
            }
            for got in runs(&text, 64, 64) {
                assert!(got.iter().all(|word| *word == 5), "{name} {ahead}");
            }
        }
    }
}

#[test]
fn blocks_that_wait_for_earlier_ones_may_be_more_than_reside() {
    for (name, wait) in WAITS {
        let mut bench = Bench::small();
        let kernel = bench.kernel(&chain(wait, -1), "k");
        let out = bench.buffer(&vec![0; 5000 * 32 * 4]);
        let params = out.to_le_bytes();
        let launch = bench.simple(&kernel, 5000, 32, &params);
        let (counters, most_live) = live(&mut bench, &launch, 1 << 20).expect("it ends");
        assert_eq!((counters.blocks, most_live), (5000, 1), "{name}");
    }
}

#[test]
fn blocks_that_wait_for_one_that_cannot_be_there_go_on_until_the_budget() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&chain(WAITS[0].1, 1), "k");
    let out = bench.buffer(&vec![0; 129 * 32 * 4]);
    let params = out.to_le_bytes();
    // 4 SMs hold 32 blocks each, and the block that comes last has no room.
    let mut launch = bench.simple(&kernel, 129, 32, &params);
    launch.budget = Some(Cycles(2_000_000));
    match live(&mut bench, &launch, 1 << 16) {
        Err(RunError::Fault(fault)) => assert!(
            matches!(fault.kind, FaultKind::InstructionBudgetExceeded { .. }),
            "{fault}"
        ),
        other => panic!("{other:?}"),
    }
    launch.grid = [128, 1, 1];
    bench
        .gpu
        .memory_mut()
        .fill(bench.domain, out, 128 * 32 * 4, 0)
        .expect("inside");
    let kernel = bench.kernel(&chain(WAITS[0].1, 1), "k");
    launch.kernel = kernel;
    let (_, most_live) = live(&mut bench, &launch, 1 << 16).expect("it ends");
    assert_eq!(most_live, 128);
}

#[test]
fn all_blocks_of_a_grid_meet_again_and_again() {
    for threads in [32, 128] {
        for got in runs(&barriers(20), 60, threads) {
            assert!(got.iter().all(|word| *word == 20), "{got:?}");
        }
    }
}

#[test]
fn parts_of_a_run_whose_blocks_wait_add_up_to_the_whole() {
    let mut found = Vec::new();
    for most in [1, 1000, u64::MAX] {
        let mut bench = Bench::small();
        let kernel = bench.kernel(&barriers(5), "k");
        let out = bench.buffer(&vec![0; 40 * 64 * 4]);
        let params = out.to_le_bytes();
        let launch = bench.simple(&kernel, 40, 64, &params);
        let (counters, most_live) = live(&mut bench, &launch, most).expect("it ends");
        assert_eq!(most_live, 40);
        assert!(bench.words(out, 40 * 64).iter().all(|word| *word == 5));
        found.push(counters);
    }
    assert!(
        found.iter().all(|counters| *counters == found[0]),
        "{found:?}"
    );
}

#[test]
fn a_kernel_that_never_ends_is_cut_and_given_up() {
    for body in [
        "L: bra L;",
        "mov.u64 %rd5, come;\nL: ld.volatile.global.u32 %r5, [%rd5];\nbra L;",
        "L: nanosleep.u32 100;\nbra L;",
        "L: bar.sync 0;\nbra L;",
    ] {
        let mut bench = Bench::small();
        let kernel = bench.kernel(&module(GLOBALS, body), "k");
        let params = [0; 8];
        let launch = bench.simple(&kernel, 1000, 128, &params);
        let mut run = bench.gpu.begin_functional(&launch).expect("accepted");
        for _ in 0..50 {
            assert!(
                !bench
                    .gpu
                    .step_functional(&mut run, 100_000)
                    .expect("it runs")
            );
        }
        let live = run.most_live_blocks();
        assert!(live <= 64, "{body}: {live} blocks live, the GPU holds 64");
        let counters = bench.gpu.end_functional(run);
        assert_eq!(counters.blocks, 0);
        // Starting a block counts, too.
        assert!(counters.warp_instructions >= 4_900_000);
    }
}

#[test]
fn blocks_that_wait_for_nobody_run_one_after_another() {
    for workload in workloads() {
        let case = workload.case(Size::Small, 3);
        let mut bench = Bench::named("h200");
        let kernel = kernel_of(&mut bench, workload);
        let prepared = bench.prepare(&case);
        let launch = bench.launch(&kernel, &case, &prepared.params);
        let (_, most_live) = live(&mut bench, &launch, 1 << 20).expect("it ends");
        assert_eq!(most_live, 1, "{}", workload.name);
    }
    // A lock, and loops that ask memory again and again but come to an end by themselves.
    for body in [
        "mov.u64 %rd5, come;\nL: atom.global.cas.b32 %r5, [%rd5], 0, 1;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra L;\n\
         membar.gl;\nst.volatile.global.u32 [%rd5], 0;",
        "mov.u64 %rd5, come;\nmov.u32 %r5, 0;\nL: red.global.add.u32 [%rd5], 1;\nadd.u32 %r5, %r5, 1;\n\
         setp.lt.u32 %p1, %r5, 3000;\n@%p1 bra L;",
        "mov.u64 %rd5, come;\nmov.u32 %r5, 0;\nL: atom.global.add.u32 %r6, [%rd5], 1;\nadd.u32 %r5, %r5, 1;\n\
         setp.lt.u32 %p1, %r5, 3000;\n@%p1 bra L;",
    ] {
        let mut bench = Bench::small();
        let kernel = bench.kernel(&module(GLOBALS, body), "k");
        let params = [0; 8];
        let launch = bench.simple(&kernel, 200, 128, &params);
        let (counters, most_live) = live(&mut bench, &launch, 1 << 20).expect("it ends");
        assert_eq!((counters.blocks, most_live), (200, 1), "{body}");
    }
}

/// What `grid.sync()` is, and a word for each block that only a barrier makes right.
fn grid_sync() -> String {
    let body = format!(
        "{OWN}mov.u32 %r9, %envreg2;\nmov.u32 %r10, %envreg1;\nmov.b64 %rd7, {{%r9, %r10}};\n\
         setp.ne.s64 %p1, %rd7, 0;\n\
         @%p1 bra L;\ntrap;\nL: st.volatile.global.u32 [%rd6], 7;\nbarrier.sync 0;\nsetp.ne.u32 %p2, %r2, 0;\n\
         @%p2 bra M;\nsub.u32 %r11, 0x80000001, %r8;\nsetp.eq.u32 %p3, %r3, 0;\nselp.b32 %r11, %r11, 1, %p3;\n\
         membar.gl;\natom.add.release.gpu.u32 %r12, [%rd7+4], %r11;\n\
         W: ld.acquire.gpu.u32 %r13, [%rd7+4];\nxor.b32 %r14, %r13, %r12;\nsetp.gt.s32 %p4, %r14, -1;\n@%p4 bra W;\n\
         M: barrier.sync 0;\nadd.u32 %r15, %r3, 1;\nrem.u32 %r15, %r15, %r8;\nmul.wide.u32 %rd8, %r15, 4;\n\
         add.u64 %rd8, %rd5, %rd8;\nld.volatile.global.u32 %r16, [%rd8];\nst.global.u32 [%rd2], %r16;"
    );
    module(GLOBALS, &body)
}

#[test]
fn a_cooperative_launch_has_a_barrier_of_its_own_and_leaves_no_memory() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&grid_sync(), "k");
    let out = bench.buffer(&vec![0; 64 * 64 * 4]);
    let params = out.to_le_bytes();
    let held = bench.gpu.memory().used_bytes(bench.domain).expect("there");
    let launch = bench.simple(&kernel, 64, 64, &params);
    for round in 0..3 {
        bench
            .gpu
            .memory_mut()
            .fill(bench.domain, out, 64 * 64 * 4, 0)
            .expect("inside");
        let run = bench
            .gpu
            .begin_functional_cooperative(&launch, Workspace::OfLaunch);
        let mut run = run.expect("accepted");
        while !bench.gpu.step_functional(&mut run, 5000).expect("it runs") {}
        bench.gpu.end_functional(run);
        assert!(
            bench.words(out, 64 * 64).iter().all(|word| *word == 7),
            "round {round}"
        );
        assert_eq!(bench.gpu.memory().used_bytes(bench.domain), Ok(held));
    }
    // With timing, one that ends, one that is killed, and one that is given up with its domain.
    for round in 0..2 {
        bench
            .gpu
            .memory_mut()
            .fill(bench.domain, out, 64 * 64 * 4, 0)
            .expect("inside");
        let made = bench
            .gpu
            .launch_cooperative(launch.clone(), Workspace::OfLaunch);
        made.expect("accepted");
        assert!(bench.gpu.memory().used_bytes(bench.domain).expect("there") > held);
        let mut reports = Vec::new();
        match round {
            0 => {
                while !bench.gpu.idle() {
                    bench.gpu.advance(Cycles(u64::MAX / 2), &mut reports);
                }
                assert!(bench.words(out, 64 * 64).iter().all(|word| *word == 7));
            }
            _ => assert!(bench.gpu.kill(launch.tag)),
        }
        assert_eq!(bench.gpu.memory().used_bytes(bench.domain), Ok(held));
    }
}

#[test]
fn a_cooperative_launch_that_does_not_fit_is_refused() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&grid_sync(), "k");
    let params = [0; 8];
    let launch = bench.simple(&kernel, 65, 1024, &params);
    let refused = |error: LaunchError| {
        let expected = LaunchError::NotAtOnce {
            kernel: "k".into(),
            blocks: 65,
            most: 8,
        };
        assert_eq!(error, expected);
    };
    let begun = bench
        .gpu
        .begin_functional_cooperative(&launch, Workspace::OfLaunch);
    refused(begun.expect_err("eight reside"));
    let made = bench.gpu.launch_cooperative(launch, Workspace::OfLaunch);
    refused(made.expect_err("eight reside"));
    let small = bench.simple(&kernel, 8, 1024, &params);
    for wrong in [0, 6] {
        let begun = bench
            .gpu
            .begin_functional_cooperative(&small, Workspace::At(wrong));
        assert_eq!(begun.map(drop), Err(LaunchError::Workspace(wrong)));
    }
}

#[test]
fn an_ordinary_launch_finds_no_barrier() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&grid_sync(), "k");
    let params = [0; 8];
    let launch = bench.simple(&kernel, 2, 32, &params);
    match live(&mut bench, &launch, 1000) {
        Err(RunError::Fault(fault)) => assert_eq!(fault.kind, FaultKind::Trap),
        other => panic!("{other:?}"),
    }
}

#[test]
fn live_blocks_take_no_more_of_the_hosts_memory_than_they_may() {
    // Each block has 64 MiB of local memory, and those of a launch together at most 512 MiB.
    let local = format!(
        ".local .align 16 .b8 own[65536];\nst.local.u32 [own], %r2;\n{OWN}W: ld.volatile.global.u32 %r9, [%rd6+4];\n\
         setp.eq.u32 %p2, %r9, 0;\n@%p2 bra W;\nst.global.u32 [%rd2], %r9;"
    );
    let mut bench = Bench::named("h200");
    let kernel = bench.kernel(&module(GLOBALS, &local), "k");
    let params = [0; 8];
    let mut launch = bench.simple(&kernel, 40, 1024, &params);
    launch.budget = Some(Cycles(4_000_000));
    let mut run = bench.gpu.begin_functional(&launch).expect("accepted");
    let fault = loop {
        match bench.gpu.step_functional(&mut run, 1 << 16) {
            Ok(is_over) => assert!(!is_over),
            Err(error) => break error,
        }
    };
    assert!(fault.to_string().contains("budget"), "{fault}");
    assert_eq!(run.most_live_blocks(), 7);
    bench.gpu.end_functional(run);
    let begun = bench
        .gpu
        .begin_functional_cooperative(&launch, Workspace::OfLaunch);
    let refused = begun.map(drop).expect_err("they do not fit");
    assert!(
        matches!(refused, LaunchError::HostMemory { blocks: 40, .. }),
        "{refused}"
    );
    launch.grid = [7, 1, 1];
    let begun = bench
        .gpu
        .begin_functional_cooperative(&launch, Workspace::OfLaunch);
    bench.gpu.end_functional(begun.expect("they fit"));
}
