//! Warps that wait for a word of another warp of their scheduler, under every policy: the writer comes to issue.
//!
//! Waiting warps spin without a pause, so that a policy which ranks warps finds one before the writer in every cycle.

use crate::support::flow::module;
use crate::support::{Bench, part_of};
use gridmux_hw_model::config::SchedulerPolicy;
use gridmux_policy::units::Cycles;

const POLICIES: [SchedulerPolicy; 3] = [
    SchedulerPolicy::Lrr,
    SchedulerPolicy::Gto,
    SchedulerPolicy::TwoLevel,
];

/// Runs one block on one SM with warps under a policy; gives the cycles that it takes.
fn cycles(gpu: &str, policy: SchedulerPolicy, text: &str, threads: u32) -> u64 {
    let mut config = part_of(gpu, 1);
    config.sm.scheduler = policy;
    let mut bench = Bench::new(config);
    let kernel = bench.kernel(text, "k");
    let out = bench.buffer(&vec![0; threads as usize * 4]);
    let params = out.to_le_bytes();
    let mut launch = bench.simple(&kernel, 1, threads, &params);
    launch.budget = Some(Cycles(4_000_000));
    let ended = bench
        .time(launch)
        .unwrap_or_else(|fault| panic!("{gpu}, {policy:?}: {fault}\n{text}"));
    assert_eq!(
        bench.words(out, threads as usize),
        vec![1; threads as usize]
    );
    ended.cycles
}

/// Returns a kernel in which all warps but the `writer`th ask `word` without a pause, with `others` more instructions
/// in a round, which wait for nothing; that one writes it after 300 rounds of its own.
fn spins(place: &str, writer: u32, others: usize) -> String {
    let others = "add.u32 %r8, %r2, 1;\n".repeat(others);
    let body = format!(
        "mov.u64 %rd5, word;\nmov.u32 %r5, 0;\nmov.u32 %r6, 1;\nshr.u32 %r7, %r2, 5;\nst.{place}.u32 [%rd5], %r5;\n\
         bar.sync 0;\n\
        setp.eq.u32 %p1, %r7, {writer};\n@%p1 bra WORK;\nWAIT:\n{others}ld.volatile.{place}.u32 %r6, [%rd5];\n\
        setp.eq.u32 %p2, %r6, 0;\n\
        @%p2 bra WAIT;\nbra END;\nWORK:\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 300;\n@%p3 bra WORK;\n\
        st.volatile.{place}.u32 [%rd5], %r6;\nEND:\nst.global.u32 [%rd2], %r6;"
    );
    module(&format!(".{place} .align 4 .u32 word;\n"), &body)
}

#[test]
fn a_writer_comes_between_warps_that_spin() {
    for gpu in ["v100", "gtx480", "k20m"] {
        for policy in POLICIES {
            for place in ["shared", "global"] {
                // The oldest warp, one between, and the youngest.
                for (writer, others) in [(0, 0), (15, 0), (31, 0), (31, 12)] {
                    let text = spins(place, writer, others);
                    let taken = cycles(gpu, policy, &text, 1024);
                    println!("{gpu} {policy:?} {place}, writer {writer}: {taken} cycles");
                }
            }
        }
    }
}
