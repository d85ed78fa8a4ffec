//! Levels of the stock block scheduler: who takes the room that comes free.

use crate::support::Bench;
use crate::support::flow::module;
use gridmux_hw_model::{Advance, GpuConfig, Kernel, LaunchError, Level, QueueId, Report};
use gridmux_policy::units::Cycles;
use std::sync::Arc;

/// Threads of a block of which two fill an SM.
const WIDE: u32 = 1024;
/// Blocks of that size that the device holds at once.
const WAVE: u32 = 4;

/// A GPU of two SMs that starts kernels quickly, and a kernel that spins.
fn bench(holds: bool, rounds: u32) -> (Bench, Arc<Kernel>) {
    let mut config = GpuConfig::builtin("h200").expect("built in");
    config.launch.priority_holds = holds;
    (config.launch.submit_ns, config.launch.kernel_cycles) = (0, 100);
    let mut bench = Bench::new(config.scaled_to_sms(2));
    let body = format!(
        "mov.u32 %r5, {rounds};\nLOOP:\nsub.u32 %r5, %r5, 1;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra LOOP;\n\
         red.global.add.u32 [%rd1], 1;"
    );
    let kernel = bench.kernel(&module("", &body), "k");
    (bench, kernel)
}

/// A launch of the tests, in the queue of its number.
struct Spec {
    number: u8,
    level: u8,
    blocks: u32,
    threads: u32,
    shared: u32,
}

impl Spec {
    fn wide(number: u8, level: u8, blocks: u32) -> Self {
        Self {
            number,
            level,
            blocks,
            threads: WIDE,
            shared: 0,
        }
    }

    fn submit(&self, bench: &mut Bench, kernel: &Arc<Kernel>, params: &[u8]) {
        let mut launch = bench.simple(kernel, self.blocks, self.threads, params);
        (launch.tag, launch.queue) = (self.number.into(), QueueId(self.number));
        (launch.level, launch.dynamic_shared_bytes) = (Level(self.level), self.shared);
        bench.gpu.launch(launch).expect("accepted");
    }
}

/// Submits the first launch, the others when it has run for `after` cycles; returns when each block was placed, by
/// number.
fn placements(
    (bench, kernel): &mut (Bench, Arc<Kernel>),
    specs: &[Spec],
    after: u64,
) -> Vec<Vec<u64>> {
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    let mut placed = vec![Vec::new(); specs.len()];
    let mut reports = Vec::new();
    specs[0].submit(bench, kernel, &params);
    while bench.gpu.now().0 < after {
        bench.gpu.advance(Cycles(after), &mut reports);
    }
    for spec in &specs[1..] {
        spec.submit(bench, kernel, &params);
    }
    while bench.gpu.advance(Cycles(u64::MAX / 2), &mut reports) != Advance::Idle {}
    for report in reports {
        if let Report::Placed { tag, blocks, at } = report {
            let own = &mut placed[usize::try_from(tag).expect("small")];
            own.extend((0..blocks).map(|_| at.0));
        }
    }
    placed
}

#[test]
fn a_higher_level_waits_for_one_block_and_the_same_level_for_the_whole_kernel() {
    for waves in [2, 20, 200] {
        let start = |level| {
            let mut machine = bench(true, 400);
            let specs = [Spec::wide(0, 0, waves * WAVE), Spec::wide(1, level, 1)];
            let placed = placements(&mut machine, &specs, 1_000);
            // How long a wave took, and which of the first kernel's starts the second one's came after.
            let first = &placed[0];
            let wave = first[WAVE as usize] - first[0];
            let before = first.iter().filter(|at| **at <= placed[1][0]).count();
            (placed[1][0] - 1_000, wave, before)
        };
        let (waited, wave, before) = start(1);
        assert!(waited <= wave + 200, "{waves} waves: {waited} of {wave}");
        assert!(before <= 2 * WAVE as usize, "{waves} waves: after {before}");
        let (_, _, before) = start(0);
        assert_eq!(before, (waves * WAVE) as usize, "{waves} waves, same level");
    }
}

#[test]
fn levels_are_served_from_the_highest_down_and_each_in_order_of_arrival() {
    let mut machine = bench(true, 400);
    let specs = [
        Spec::wide(0, 0, 5 * WAVE),
        Spec::wide(1, 1, WAVE),
        Spec::wide(2, 3, WAVE),
        Spec::wide(3, 1, WAVE),
        Spec::wide(4, 5, WAVE),
    ];
    let placed = placements(&mut machine, &specs, 1_000);
    let served = [4, 2, 1, 3];
    for pair in served.windows(2) {
        let (before, after) = (&placed[pair[0]], &placed[pair[1]]);
        assert!(before.last() <= after.first(), "{pair:?}: {placed:?}");
    }
    let rest = placed[0][WAVE as usize..].iter();
    assert!(rest.min() >= placed[3].last(), "the lowest comes last");
}

#[test]
fn a_block_that_does_not_fit_holds_lower_levels_back_where_the_card_does() {
    // Blocks that leave the SMs half empty, of two lengths, and one that needs an SM for itself.
    let all_shared = 200 << 10;
    let specs = || {
        [
            Spec::wide(0, 0, 40),
            Spec {
                threads: 32,
                shared: all_shared,
                ..Spec::wide(1, 1, 1)
            },
            Spec {
                threads: 32,
                ..Spec::wide(2, 0, 1)
            },
        ]
    };
    let run = |holds| {
        let mut machine = bench(holds, 400);
        let mut specs = specs();
        // An SM takes two of the first kernel's blocks, which leave too little shared memory for the second's.
        specs[0].shared = 40 << 10;
        placements(&mut machine, &specs, 1_000)
    };
    let (held, filled) = (run(true), run(false));
    // With holds the SMs drain until the block fits; the first kernel places nothing meanwhile.
    let during = |placed: &[Vec<u64>]| {
        let until = placed[1][0];
        placed[0]
            .iter()
            .filter(|at| (1_100..until).contains(*at))
            .count()
    };
    assert!(during(&held) <= 2, "{held:?}");
    assert_eq!(during(&filled), 40 - WAVE as usize, "{filled:?}");
    assert!(held[1][0] < filled[1][0]);
}

#[test]
fn a_level_that_the_card_does_not_have_is_refused() {
    let (mut bench, kernel) = bench(true, 1);
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    let mut launch = bench.simple(&kernel, 1, 32, &params);
    launch.level = Level(6);
    let (level, levels) = (6, 6);
    let error = bench.gpu.launch(launch).expect_err("there are six");
    assert_eq!(error, LaunchError::NoLevel { level, levels });
    assert_eq!(
        error.to_string(),
        "level 6 does not exist; this GPU's levels are 0 to 5"
    );
}
