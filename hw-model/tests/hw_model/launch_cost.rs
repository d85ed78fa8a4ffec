//! What launches cost the host: it is known while they run, adds up to their counters, and is nobody else's.

use crate::support::Bench;
use crate::support::flow::module;
use crate::support::plan::{plan, row, standing};
use gridmux_hw_model::{Advance, Gpu, QueueId, Report};
use gridmux_policy::RowId;
use gridmux_policy::plan::Preemption;
use gridmux_policy::units::Cycles;

/// Returns a kernel whose threads go round their loop `rounds` times.
fn spinning(rounds: u32) -> String {
    module(
        "",
        &format!(
            "mov.u32 %r5, {rounds};\nLOOP:\nsub.u32 %r5, %r5, 1;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra LOOP;\n\
             red.global.add.u32 [%rd1], 1;"
        ),
    )
}

const ENDLESS: &str = "LOOP:\nbar.sync 0;\nbra LOOP;";

/// Lets time pass and gives the reports.
fn pass(gpu: &mut Gpu, cycles: u64) -> Vec<Report> {
    let mut reports = Vec::new();
    let until = Cycles(gpu.now().0 + cycles);
    while gpu.advance(until, &mut reports) == Advance::Reported {}
    reports
}

#[test]
fn costs_of_running_launches_rise_and_end_at_their_counters() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&spinning(3000), "k");
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    // More blocks than reside at once, so that some have ended while others run or have not started.
    for (tag, blocks) in [(1, 40), (2, 3)] {
        let mut launch = bench.simple(&kernel, blocks, 512, &params);
        (launch.tag, launch.queue) = (tag, QueueId(u8::try_from(tag).expect("small")));
        bench.gpu.launch(launch).expect("accepted");
        assert_eq!(bench.gpu.launch_cost(tag), 0, "nothing was issued yet");
    }
    let (mut last, mut rises, mut ended) = ([0; 3], 0, [0; 3]);
    while !bench.gpu.idle() {
        let reports = pass(&mut bench.gpu, 2000);
        for report in &reports {
            if let Report::Ended { tag, counters, .. } = report {
                let tag = usize::try_from(*tag).expect("small");
                ended[tag] = counters.warp_instructions;
                assert!(last[tag] <= ended[tag], "{last:?} {ended:?}");
                assert_eq!(bench.gpu.launch_cost(tag as u64), 0, "it is gone");
            }
        }
        for tag in [1, 2] {
            let now = bench.gpu.launch_cost(tag as u64);
            assert_eq!(now, bench.gpu.launch_cost(tag as u64), "time stands");
            if ended[tag] == 0 {
                assert!(last[tag] <= now, "it fell from {} to {now}", last[tag]);
                rises += u32::from(last[tag] < now);
                last[tag] = now;
            }
        }
    }
    assert!(rises > 10, "it was seen to rise {rises} times only");
    assert!(last[1] > ended[1] / 2, "{last:?} of {ended:?} were seen");
    // Threads of equal blocks do the same.
    assert_eq!((ended[1] / 40, ended[1] % 40), (ended[2] / 3, 0));
    let all = bench.gpu.sm_counters();
    let all: u64 = all.iter().map(|sm| sm.warp_instructions).sum();
    assert_eq!(all, ended[1] + ended[2]);
}

#[test]
fn a_launch_that_faults_says_its_last_cost() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&module("", ENDLESS), "k");
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    let mut launch = bench.simple(&kernel, 8, 1024, &params);
    launch.budget = Some(Cycles(30_000));
    bench.gpu.launch(launch).expect("accepted");
    pass(&mut bench.gpu, 20_000);
    let early = bench.gpu.launch_cost(1);
    let reports = pass(&mut bench.gpu, 40_000);
    let last = reports.iter().find_map(|report| match report {
        Report::Faulted {
            warp_instructions, ..
        } => Some(*warp_instructions),
        _ => None,
    });
    let last = last.expect("its budget ran out");
    assert!(early > 0 && last > early, "{early}, then {last}");
    let all = bench.gpu.sm_counters();
    let all: u64 = all.iter().map(|sm| sm.warp_instructions).sum();
    assert_eq!(all, last);
    assert_eq!(bench.gpu.launch_cost(1), 0);
}

#[test]
fn a_new_launch_does_not_inherit_the_cost_of_one_that_was_killed() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&module("", ENDLESS), "k");
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    for _ in 0..3 {
        let launch = bench.simple(&kernel, 8, 256, &params);
        bench.gpu.launch(launch).expect("accepted");
        assert_eq!(bench.gpu.launch_cost(1), 0);
        pass(&mut bench.gpu, 20_000);
        assert!(bench.gpu.launch_cost(1) > 0);
        assert!(bench.gpu.kill(1));
        assert_eq!(bench.gpu.launch_cost(1), 0);
    }
}

#[test]
fn blocks_that_are_switched_out_stay_counted() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&spinning(3000), "k");
    let out = bench.buffer(&[0; 4]);
    let params = out.to_le_bytes();
    let config = bench.gpu.config().clone();
    let rows = [row(RowId(1), 4, 1)];
    bench
        .gpu
        .set_plan(&plan(&config, Preemption::Switch, &rows));
    let launch = bench.simple(&kernel, 8, 256, &params);
    let under = standing(RowId(1));
    bench.gpu.launch_under(under, launch).expect("accepted");
    let (mut last, mut switched, mut ended) = (0, false, 0);
    while !bench.gpu.idle() {
        let reports = pass(&mut bench.gpu, 1000);
        for report in reports {
            if let Report::Ended { counters, .. } = report {
                ended = counters.warp_instructions;
            }
        }
        let now = bench.gpu.launch_cost(1);
        if ended == 0 {
            assert!(last <= now, "it fell from {last} to {now}");
            last = now;
        }
        let sm = gridmux_policy::ids::SmId(0);
        if !switched && now > 0 {
            switched = bench.gpu.switch_out(sm, 0);
        }
    }
    assert!(switched && last > 0 && last <= ended, "{last} of {ended}");
}
