//! Launches beside one another: budgets, the left-over scheduler, order of reports, killing, copies, and what is
//! refused.

use crate::support::Bench;
use crate::support::flow::module;
use crate::support::plan::{plan, row};
use gridmux_hw_model::config::LaunchCosts;
use gridmux_hw_model::{
    Advance, Copy, CopyEngine, FaultKind, Gpu, GpuConfig, Launch, LaunchError, QueueId, Report,
    RunError, Standing, occupancy, run_functional,
};
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::plan::Preemption;
use gridmux_policy::units::Cycles;

/// Collects all reports until nothing is left to do.
fn drain(gpu: &mut Gpu) -> Vec<Report> {
    let mut reports = Vec::new();
    while gpu.advance(Cycles(gpu.now().0 + 1_000_000), &mut reports) != Advance::Idle {}
    reports
}

fn spinning(rounds: u32) -> String {
    module(
        "",
        &format!(
            "mov.u32 %r5, {rounds};\nLOOP:\nsub.u32 %r5, %r5, 1;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra LOOP;\n\
         red.global.add.u32 [%rd1], 1;"
        ),
    )
}

/// Returns (tag, first start, end, blocks placed) of each launch in a list of reports.
fn spans(reports: &[Report]) -> Vec<(u64, u64, u64)> {
    let mut spans: Vec<_> = reports
        .iter()
        .filter_map(|r| match r {
            Report::Ended {
                tag,
                first_start,
                end,
                ..
            } => Some((*tag, first_start.0, end.0)),
            _ => None,
        })
        .collect();
    spans.sort_unstable();
    spans
}

#[test]
fn the_left_over_scheduler_gives_the_second_kernel_what_is_left() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&spinning(400), "k");
    let per_sm = occupancy(bench.gpu.config(), &kernel, 1024, 0).blocks_per_sm;
    assert_eq!(per_sm, 2, "two blocks of 1024 threads fill an SM");
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    // Three waves of the first kernel; the second, in another queue, starts only in the last one's left-over.
    let mut first = bench.simple(&kernel, 4 * 2 * 2 + 4, 1024, &params);
    first.tag = 1;
    let mut second = bench.simple(&kernel, 4, 1024, &params);
    (second.tag, second.queue) = (2, QueueId(1));
    // The third waits in the first's queue for the first's end.
    let mut third = bench.simple(&kernel, 1, 32, &params);
    third.tag = 3;
    for launch in [first, second, third] {
        bench.gpu.launch(launch).expect("accepted");
    }
    let reports = drain(&mut bench.gpu);
    let spans = spans(&reports);
    assert_eq!(spans.len(), 3, "{reports:?}");
    let last_placed = |wanted: u64| {
        let at = reports.iter().filter_map(|r| match r {
            Report::Placed { tag, at, .. } if *tag == wanted => Some(at.0),
            _ => None,
        });
        at.max().expect("placed")
    };
    assert!(
        spans[1].1 > last_placed(1),
        "the second kernel overtook blocks of the first: {spans:?}"
    );
    assert!(
        spans[1].1 < spans[0].2,
        "the second kernel did not use what the first left: {spans:?}"
    );
    assert!(
        spans[2].1 >= spans[0].2,
        "launches of one queue overlapped: {spans:?}"
    );
    assert_eq!(bench.words(out, 1)[0], (20 + 4) * 1024 + 32);
    let blocks = |wanted: u64, placed: bool| -> u32 {
        let counts = reports.iter().map(|r| match r {
            Report::Placed { tag, blocks, .. } if placed && *tag == wanted => *blocks,
            Report::Retired { tag, blocks, .. } if !placed && *tag == wanted => *blocks,
            _ => 0,
        });
        counts.sum()
    };
    for (tag, total) in [(1, 20), (2, 4), (3, 1)] {
        assert_eq!((blocks(tag, true), blocks(tag, false)), (total, total));
    }
}

/// Returns a kernel of one load, which every launch makes at the same address, and `rounds` turns of a loop behind it.
fn reading(rounds: u32) -> String {
    module(
        "",
        &format!(
            "ld.global.u32 %r6, [%rd1];\nadd.u32 %r5, %r6, {rounds};\nLOOP:\nsub.u32 %r5, %r5, 1;\n\
         setp.ne.u32 %p1, %r5, 0;\n@%p1 bra LOOP;\nst.global.u32 [%rd1+4096], %r5;"
        ),
    )
}

#[test]
fn an_sm_forgets_its_caches_for_dependent_launches_and_when_it_runs_dry() {
    let mut config = GpuConfig::builtin("gtx480").expect("built in");
    config.sm.count = 1;
    let mut bench = Bench::new(config);
    let long = bench.kernel(&reading(10_000), "k");
    let short = bench.kernel(&reading(1), "k");
    let out = bench.buffer(&[0; 8192]);
    let params = out.to_le_bytes();
    let mut reports = Vec::new();
    let mut submit = |tag: u64, kernel, queue: u8, then: u64| {
        let mut launch = bench.simple(kernel, 1, 32, &params);
        (launch.tag, launch.queue) = (tag, QueueId(queue));
        bench.gpu.launch(launch).expect("accepted");
        let until = bench.gpu.now().0 + then;
        while bench.gpu.now().0 < until
            && bench.gpu.advance(Cycles(until), &mut reports) != Advance::Idle
        {}
    };
    // Beside a launch that stays: one of another stream, the next of that stream behind it, and one of a third.
    submit(1, &long, 0, 10_000);
    submit(2, &short, 1, 0);
    submit(3, &short, 1, 20_000);
    submit(4, &short, 2, 10_000_000);
    // The SM has run dry.
    submit(5, &short, 3, 10_000_000);
    let counters = |wanted: u64| {
        let ended = reports.iter().find_map(|r| match r {
            Report::Ended { tag, counters, .. } if *tag == wanted => Some(*counters),
            _ => None,
        });
        ended.expect("ended")
    };
    let ends = spans(&reports);
    assert!(
        ends[1..4].iter().all(|(.., end)| *end < ends[0].2),
        "{ends:?}"
    );
    let hits = [1, 2, 3, 4, 5].map(|tag| counters(tag).l1_hit_sectors);
    assert_eq!(hits, [0, 1, 0, 1, 0]);
    // Parameters are nobody else's, whatever the caches hold.
    let parameters = [1, 2, 3, 4, 5].map(|tag| counters(tag).constant_misses);
    assert_eq!(parameters, [1; 5]);
}

#[test]
fn reports_come_in_order_of_time() {
    let mut bench = Bench::named("gtx480");
    let kernel = bench.kernel(&spinning(30), "k");
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    let launch = bench.simple(&kernel, 500, 128, &params);
    bench.gpu.launch(launch).expect("accepted");
    let times: Vec<u64> = drain(&mut bench.gpu)
        .iter()
        .map(|r| match r {
            Report::Placed { at, .. }
            | Report::Retired { at, .. }
            | Report::Copied { at, .. }
            | Report::Faulted { at, .. } => at.0,
            Report::Ended { end, .. } => end.0,
        })
        .collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn how_time_is_cut_does_not_change_the_cycles() {
    let end = |step: u64| {
        let mut bench = Bench::named("gtx480");
        let kernel = bench.kernel(&spinning(100), "k");
        let out = bench.buffer(&[0; 4]);
        let params = out.to_le_bytes();
        let launch = bench.simple(&kernel, 60, 256, &params);
        bench.gpu.launch(launch).expect("accepted");
        let mut reports = Vec::new();
        while bench
            .gpu
            .advance(Cycles(bench.gpu.now().0 + step), &mut reports)
            != Advance::Idle
        {}
        spans(&reports)
    };
    assert_eq!(end(1), end(1_000_000));
    assert_eq!(end(777), end(1_000_000));
}

#[test]
fn a_killed_launch_leaves_nothing_behind() {
    let mut bench = Bench::small();
    let used = bench.gpu.memory().used_bytes(bench.domain).expect("exists");
    let kernel = bench.kernel(&spinning(1_000_000), "k");
    let short = bench.kernel(&spinning(10), "k");
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    let mut running = bench.simple(&kernel, 100, 256, &params);
    running.tag = 1;
    let mut queued = bench.simple(&kernel, 100, 256, &params);
    queued.tag = 2;
    bench.gpu.launch(running).expect("accepted");
    bench.gpu.launch(queued).expect("accepted");
    let mut reports = Vec::new();
    while bench.gpu.now().0 < 20_000 {
        bench.gpu.advance(Cycles(20_000), &mut reports);
    }
    assert!(bench.gpu.resident_blocks() > 0);
    assert!(bench.gpu.kill(2), "a queued launch can be killed");
    assert!(bench.gpu.kill(1), "a running launch can be killed");
    assert!(!bench.gpu.kill(1), "it is gone");
    assert_eq!(bench.gpu.resident_blocks(), 0);
    assert!(bench.gpu.idle());
    // What comes next runs as on a fresh GPU, room and all.
    let mut next = bench.simple(&short, 64, 256, &params);
    next.tag = 1;
    let timed = bench.timed(next);
    assert_eq!(timed.counters.blocks, 64);
    assert_eq!(bench.words(out, 1)[0], 64 * 256);
    let mut doomed = bench.simple(&kernel, 8, 256, &params);
    doomed.tag = 9;
    bench.gpu.launch(doomed).expect("accepted");
    bench
        .gpu
        .advance(Cycles(bench.gpu.now().0 + 10_000), &mut reports);
    bench.gpu.kill_domain(bench.domain);
    assert!(bench.gpu.idle());
    let domain = bench.domain;
    bench.gpu.memory_mut().free(domain, out).expect("live");
    assert_eq!(bench.gpu.memory().used_bytes(domain), Ok(used));
}

#[test]
fn kills_at_random_moments_leave_room_and_results_alone() {
    let mut prng = gridmux_workloads::Prng::new(11);
    let mut bench = Bench::named("gtx480");
    let victim = bench.kernel(&spinning(300), "k");
    let other = bench.kernel(&module("", "st.global.u32 [%rd2], %r1;"), "k");
    let out = bench.buffer(&vec![0; 4 * 128 * 64]);
    let (counter, params) = (bench.buffer(&[0; 4]).to_le_bytes(), out.to_le_bytes());
    let mut reports = Vec::new();
    for round in 0..50 {
        let domain = bench.domain;
        bench
            .gpu
            .memory_mut()
            .fill(domain, out, 4 * 128 * 64, 0)
            .expect("inside");
        let mut doomed = bench.simple(&victim, 200, 192, &counter);
        doomed.tag = 1000 + round;
        let mut kept = bench.simple(&other, 64, 128, &params);
        (kept.tag, kept.queue) = (round, QueueId(5));
        bench.gpu.launch(doomed).expect("accepted");
        bench.gpu.launch(kept).expect("accepted");
        let wait = u64::from(prng.below(12_000));
        bench
            .gpu
            .advance(Cycles(bench.gpu.now().0 + wait), &mut reports);
        bench.gpu.kill(1000 + round);
        reports.extend(drain(&mut bench.gpu));
        assert!(
            reports
                .iter()
                .any(|r| matches!(r, Report::Ended { tag, .. } if *tag == round))
        );
        assert_eq!(
            bench.words(out, 128 * 64),
            (0..128 * 64).collect::<Vec<u32>>()
        );
        assert_eq!(bench.gpu.resident_blocks(), 0);
        reports.clear();
    }
}

#[test]
fn a_gpu_can_move_to_another_thread() {
    let mut bench = Bench::named("gtx480");
    let kernel = bench.kernel(&module("", "st.global.u32 [%rd2], %r1;"), "k");
    let out = bench.buffer(&[0; 128]);
    let words = std::thread::spawn(move || {
        let params = out.to_le_bytes();
        let launch = bench.simple(&kernel, 1, 32, &params);
        bench.timed(launch);
        bench.words(out, 32)
    });
    assert_eq!(
        words.join().expect("it runs"),
        (0..32).collect::<Vec<u32>>()
    );
}

#[test]
fn copies_take_latency_and_bandwidth() {
    let config = GpuConfig::builtin("h200").expect("built in");
    let mut gpu = Gpu::new(config.clone());
    let bytes = 55_000_000; // One millisecond at 55 GB/s.
    let copy = |engine, tag| Copy { engine, bytes, tag };
    gpu.copy(copy(CopyEngine::H2D, 1)).expect("accepted");
    gpu.copy(copy(CopyEngine::H2D, 2)).expect("accepted");
    gpu.copy(copy(CopyEngine::D2H, 3)).expect("accepted");
    assert_eq!(
        gpu.copy(copy(CopyEngine::D2H, 3)),
        Err(LaunchError::TagInUse(3))
    );
    let at: Vec<(u64, u64)> = drain(&mut gpu)
        .iter()
        .map(|r| match r {
            Report::Copied { tag, at } => (*tag, config.cycles_to_ns(at.0) / 1000),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(at, [(1, 1001), (3, 1001), (2, 2003)]);
}

#[test]
fn bad_launches_are_refused_with_their_reason() {
    let mut bench = Bench::named("h200");
    let kernel = bench.kernel(&module("", "st.global.u32 [%rd2], %r1;"), "k");
    let params = [0; 8];
    let base = bench.simple(&kernel, 1, 32, &params);
    let mut refused = |change: &dyn Fn(&mut gridmux_hw_model::Launch<'_>)| {
        let mut launch = base.clone();
        change(&mut launch);
        bench.gpu.launch(launch).expect_err("refused")
    };
    use LaunchError as E;
    assert!(matches!(refused(&|l| l.grid = [0, 1, 1]), E::Grid(_)));
    assert!(matches!(refused(&|l| l.grid = [1, 65536, 1]), E::Grid(_)));
    assert!(matches!(
        refused(&|l| l.block = [1025, 1, 1]),
        E::Block { .. }
    ));
    assert!(matches!(
        refused(&|l| l.block = [1, 1, 65]),
        E::Block { .. }
    ));
    assert!(matches!(
        refused(&|l| l.params = &[0; 4]),
        E::Params {
            expected: 8,
            given: 4,
            ..
        }
    ));
    assert!(matches!(
        refused(&|l| l.dynamic_shared_bytes = 300_000),
        E::SharedMemory { .. }
    ));
    assert!(matches!(
        refused(&|l| l.queue = QueueId(32)),
        E::NoQueue(32)
    ));
    assert!(matches!(
        refused(&|l| l.domain = gridmux_hw_model::DomainId(7)),
        E::WrongDomain { .. }
    ));
    assert!(bench.gpu.idle(), "nothing was queued");
}

#[test]
fn an_endless_loop_overruns_its_budget_and_nothing_else() {
    let mut bench = Bench::small();
    let endless = bench.kernel(&module("", "LOOP:\nadd.u32 %r5, %r5, 1;\nbra LOOP;"), "k");
    let fine = bench.kernel(&module("", "st.global.u32 [%rd2], %r1;"), "k");
    let out = bench.buffer(&[0; 4096]);
    let params = out.to_le_bytes();
    let mut bad = bench.simple(&endless, 2, 64, &params);
    bad.budget = Some(Cycles(20_000));
    let mut good = bench.simple(&fine, 4, 64, &params);
    good.queue = QueueId(1);
    good.tag = 2;
    let exceeded = |kind| {
        matches!(
            kind,
            FaultKind::InstructionBudgetExceeded {
                budget_instructions: 20_000
            }
        )
    };
    let ended = run_functional(&mut bench.gpu, &bad);
    assert!(matches!(ended, Err(RunError::Fault(f)) if exceeded(f.kind)));
    bench.gpu.launch(bad).expect("accepted");
    bench.gpu.launch(good).expect("accepted");
    let reports = drain(&mut bench.gpu);
    let fault = reports.iter().find_map(|r| match r {
        Report::Faulted { tag: 1, fault, .. } => Some(fault),
        _ => None,
    });
    let fault = fault.expect("the loop faulted");
    assert_eq!(
        fault.kind,
        FaultKind::BudgetExceeded {
            budget_cycles: 20_000
        },
        "{fault}"
    );
    assert!(
        reports
            .iter()
            .any(|r| matches!(r, Report::Ended { tag: 2, .. }))
    );
    assert_eq!(bench.words(out, 256), (0..256).collect::<Vec<u32>>());
}

/// Returns a GPU of four SMs on which launching costs what a few keys say.
fn with_costs(change: impl FnOnce(&mut LaunchCosts)) -> Bench {
    let mut config = GpuConfig::builtin("h200").expect("built in");
    change(&mut config.launch);
    Bench::new(config.scaled_to_sms(4))
}

#[test]
fn blocks_are_placed_at_the_chips_rate_and_start_later() {
    let mut bench = with_costs(|launch| {
        launch.block_cycles = 345;
        // Of 132 SMs: 49.5 for four of them.
        launch.block_interval_cycles = 1.5;
    });
    let kernel = bench.kernel(
        &module("", "mov.u32 %r4, %clock;\nst.global.u32 [%rd2], %r4;"),
        "k",
    );
    let out = bench.buffer(&[0; 4 * 32 * 9]);
    let params = out.to_le_bytes();
    let launch = bench.simple(&kernel, 9, 32, &params);
    bench.gpu.launch(launch).expect("accepted");
    let placed: Vec<u64> = drain(&mut bench.gpu)
        .iter()
        .filter_map(|report| match report {
            Report::Placed { at, .. } => Some(at.0),
            _ => None,
        })
        .collect();
    let latency = u64::from(bench.gpu.config().launch.kernel_cycles);
    let due = [0, 49, 99, 148, 198, 247, 297, 346, 396];
    assert_eq!(placed, due.map(|after| latency + after));
    let words = bench.words(out, 9 * 32);
    for (at, clocks) in placed.iter().zip(words.chunks(32)) {
        let after = u64::from(clocks[0]) - at;
        assert!(
            (345..345 + 40).contains(&after),
            "{after} cycles after {at}"
        );
    }
}

/// Launches empty blocks with `submit`, one for each number and in a queue of its own; gives their first starts.
fn first_starts(
    bench: &mut Bench,
    count: u8,
    submit: impl Fn(&mut Gpu, u8, Launch<'_>),
) -> Vec<u64> {
    let kernel = bench.kernel(&module("", ""), "k");
    let params = [0; 8];
    for number in 0..count {
        let mut launch = bench.simple(&kernel, 1, 32, &params);
        (launch.tag, launch.queue) = (number.into(), QueueId(number));
        submit(&mut bench.gpu, number, launch);
    }
    let spans = spans(&drain(&mut bench.gpu));
    let first = spans[0].1;
    spans.iter().map(|(_, start, _)| start - first).collect()
}

#[test]
fn one_thread_hands_launches_over_one_after_another_whatever_their_queues() {
    let bench = || {
        with_costs(|launch| {
            launch.submit_ns = 2000;
            launch.front_end_cycles = 700;
        })
    };
    // 2 us are 3960 cycles.
    let alone = first_starts(&mut bench(), 4, |gpu, _, launch| {
        gpu.launch(launch).expect("accepted")
    });
    assert_eq!(alone, [0, 3960, 7920, 11_880]);
    // Two tenants submit side by side, and the front end takes their launches in turn; so it does for a plan.
    for planned in [false, true] {
        let mut bench = bench();
        if planned {
            let rows = [0, 1].map(|id| row(RowId(id), 8, 0).of_tenant(TenantId(id)));
            let plan = plan(bench.gpu.config(), Preemption::Switch, &rows);
            bench.gpu.set_plan(&plan);
        }
        let both = first_starts(&mut bench, 4, |gpu, number, launch| {
            let (row, tenant) = (
                RowId(u32::from(number % 2)),
                TenantId(u32::from(number % 2)),
            );
            let accepted = gpu.launch_under(Standing { row, tenant }, launch);
            accepted.expect("accepted");
        });
        // A plan's blocks are placed between epochs.
        let off = if planned { 32 } else { 0 };
        let near = both.iter().zip([0_u64, 700, 3960, 4660]);
        let near = near.map(|(start, due)| start.abs_diff(due));
        assert!(near.max() <= Some(off), "planned: {planned}, {both:?}");
    }
}

#[test]
fn nodes_of_a_graph_are_not_submitted_one_by_one() {
    let gaps = |nodes: bool| {
        let mut bench = with_costs(|launch| {
            launch.submit_ns = 2000;
            launch.dependent_cycles = 1500;
            launch.front_end_cycles = 700;
        });
        let kernel = bench.kernel(&spinning(100), "k");
        let params = bench.buffer(&[0; 4]).to_le_bytes();
        for tag in 0..4 {
            let mut launch = bench.simple(&kernel, 1, 32, &params);
            launch.tag = tag;
            let accepted = match nodes {
                true => bench.gpu.launch_node(launch),
                false => bench.gpu.launch(launch),
            };
            accepted.expect("accepted");
        }
        let spans = spans(&drain(&mut bench.gpu));
        let pairs = spans.windows(2);
        let found: Vec<(u64, u64)> = pairs
            .map(|pair| (pair[1].1 - pair[0].1, pair[1].1 - pair[0].2))
            .collect();
        found
    };
    // Without a graph the thread that submits is slower than the GPU.
    assert!(
        gaps(false)
            .iter()
            .all(|(period, gap)| *period == 3960 && *gap >= 1500)
    );
    assert!(gaps(true).iter().all(|(_, gap)| *gap == 700));
}
