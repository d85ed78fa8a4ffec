//! Quotas of issue slots show in every epoch (SMK, section 5.4); samples sum up to the full counters, every one of
//! them, by kernel and by SM.

use crate::support::plan::{Busy, Row, Stage, all, plan, plan_of, row, standing};
use crate::support::{Bench, case_of, part_of};
use gridmux_hw_model::{Counters, GpuConfig};
use gridmux_policy::ids::{RowId, SmId};
use gridmux_policy::plan::{Preemption, QuotaRule, Spent};
use gridmux_policy::units::Cycles;
use gridmux_workloads::Size;

const A: RowId = RowId(1);
const B: RowId = RowId(2);
/// The epoch's length (SMK, section 6.1).
const EPOCH: u64 = 10_000;

/// Returns the paper's two kernels: two blocks and four on each of four SMs, with these issue weights.
fn pair(front_end: bool, weights: [u16; 2], rounds: [u32; 2]) -> Stage {
    let rows = [row(A, 2, weights[0]), row(B, 4, weights[1])];
    let plan = |config: &GpuConfig| plan(config, Preemption::Drain, &rows);
    let mut stage = if front_end {
        Stage::new(4, plan)
    } else {
        Stage::without_front_end(4, plan)
    };
    for (at, row) in [A, B].into_iter().enumerate() {
        stage.launch(Busy {
            tag: 1 + at as u64,
            row,
            blocks: 4 * [2, 4][at],
            threads: 192,
            rounds: rounds[at],
            ..Busy::default()
        });
    }
    stage
}

/// Instructions that a kernel has issued on an SM.
fn issued(stage: &Stage, sm: u16, row: RowId) -> u64 {
    let samples = stage.bench.gpu.samples();
    let mut of_both = samples.iter().filter(|s| s.sm == SmId(sm) && s.row == row);
    of_both.next().map_or(0, |s| {
        s.counters.warp_instructions - s.counters.folded_instructions
    })
}

/// Returns what each kernel issues on each SM in each epoch in which all of their blocks run.
fn epochs(stage: &mut Stage) -> Vec<[u64; 2]> {
    let mut parts = Vec::new();
    let mut before: Option<[[u64; 2]; 4]> = None;
    // Blocks are there after the launch's overhead; the epoch in which they came is passed over.
    let mut whole = 0;
    for epoch in 1.. {
        stage.until(epoch * EPOCH);
        if stage
            .bench
            .gpu
            .samples()
            .iter()
            .any(|s| s.counters.blocks != 0)
        {
            return parts;
        }
        if stage.bench.gpu.resident_blocks() < 24 {
            continue;
        }
        whole += 1;
        if whole == 1 {
            continue;
        }
        let now = [0, 1, 2, 3].map(|sm| [A, B].map(|kernel| issued(stage, sm, kernel)));
        if let Some(then) = before.replace(now) {
            for (now, then) in now.iter().zip(then) {
                parts.push([now[0] - then[0], now[1] - then[1]]);
            }
        }
    }
    parts
}

fn share(part: [u64; 2]) -> f64 {
    let [a, b] = part.map(|n| f64::from(u32::try_from(n).expect("small")));
    a / (a + b)
}

#[test]
fn quotas_show_in_every_epoch() {
    // The example of section 5.4: C is 0.1 and 0.25, so the quotas are 0.1 / 0.35 and 0.25 / 0.35.
    for front_end in [true, false] {
        let parts = epochs(&mut pair(front_end, [10, 25], [8000, 10_000]));
        assert!(parts.len() >= 100, "{}", parts.len());
        check_example(&parts);
    }
}

fn check_example(parts: &[[u64; 2]]) {
    let mut worst = 0.0_f64;
    for part in parts {
        let a = share(*part);
        for (got, want) in [(a, 0.1 / 0.35), (1.0 - a, 0.25 / 0.35)] {
            worst = worst.max((got / want - 1.0).abs());
            assert!((got / want - 1.0).abs() <= 0.02, "{part:?}");
        }
    }
    println!(
        "{} epochs of SMs, the worst is off by {worst:.5}",
        parts.len()
    );
}

#[test]
fn equal_weights_are_equal_quotas_and_no_weights_are_none() {
    // This chip's schedulers are greedy: without quotas the older kernel takes what it can use, which is what section
    // 5.4 begins with.
    let parts = epochs(&mut pair(false, [0, 0], [8000, 8000]));
    assert!(parts.len() >= 20);
    for part in parts {
        assert!(share(part) > 0.6, "{part:?}");
    }
    let parts = epochs(&mut pair(false, [1, 1], [8000, 8000]));
    assert!(parts.len() >= 40);
    for part in parts {
        assert!((share(part) / 0.5 - 1.0).abs() <= 0.02, "{part:?}");
    }
}

/// Returns one group over all SMs, whose spent rows do this.
fn with_rule(config: &GpuConfig, rows: &[Row], spent: Spent) -> gridmux_policy::Plan {
    let rule = QuotaRule {
        spent,
        ..QuotaRule::default()
    };
    plan_of(config, &[all(config, Preemption::Drain)], rows, &[], rule)
}

#[test]
fn a_kernel_that_yields_takes_the_slots_that_nobody_can_use() {
    // B has one warp on the SM, which cannot use nine tenths of its scheduler.
    let run = |front_end, spent| {
        let rows = [row(A, 4, 1), row(B, 1, 9)];
        let plan = |config: &GpuConfig| with_rule(config, &rows, spent);
        let mut stage = if front_end {
            Stage::new(1, plan)
        } else {
            Stage::without_front_end(1, plan)
        };
        for (tag, row, blocks, threads) in [(1, A, 4, 192), (2, B, 1, 32)] {
            let rounds = 20_000;
            stage.launch(Busy {
                tag,
                row,
                blocks,
                threads,
                rounds,
                ..Busy::default()
            });
        }
        stage.until(2 * EPOCH);
        let before = [A, B].map(|kernel| issued(&stage, 0, kernel));
        stage.until(8 * EPOCH);
        let after = [A, B].map(|kernel| issued(&stage, 0, kernel));
        [after[0] - before[0], after[1] - before[1]]
    };
    let [stops, yields] = [Spent::Stops, Spent::Yields].map(|spent| run(false, spent));
    println!("stops {stops:?}, yields {yields:?}");
    // Where B has its warp, A gets a tenth of the slots and not an instruction more; the other scheduler is A's alone.
    assert_eq!(stops[0], 6 * EPOCH / 10 + 6 * EPOCH);
    // Now no slot is lost, and B has lost nothing.
    assert_eq!(yields[0] + yields[1], 2 * 6 * EPOCH);
    assert_eq!(yields[1], stops[1]);
    // Fetches are what is short where there is a front end, and those of B's warp go first.
    let [stops, yields] = [Spent::Stops, Spent::Yields].map(|spent| run(true, spent));
    println!("with a front end: stops {stops:?}, yields {yields:?}");
    assert!(yields[0] > stops[0], "A gets what B leaves");
    assert!(
        yields[1] * 100 >= stops[1] * 97,
        "and B loses next to nothing"
    );
}

#[test]
fn the_second_instruction_of_a_pair_needs_a_quota_too() {
    // Each scheduler of this chip issues two instructions of a warp in a cycle.
    let config = part_of("gtx680", 1);
    assert_eq!(config.sm.issue_width, 2);
    let schedulers = u64::from(config.sm.schedulers);
    let rows = [row(A, 2, 1), row(B, 2, 10_000)];
    let mut stage = Stage::on(config, |config| plan(config, Preemption::Drain, &rows));
    let busy = Busy {
        threads: 128,
        ..Busy::blocks(2).rounds(20_000)
    };
    stage.launch_each(busy, [A, B]);
    stage.until(2 * EPOCH);
    let before = issued(&stage, 0, A);
    stage.until(8 * EPOCH);
    // The share of 10,000 slots is below one, so that A issues one instruction with each scheduler in an epoch.
    assert_eq!(issued(&stage, 0, A) - before, 6 * schedulers);
}

/// Sums of samples by kernel and by SM.
fn sums(bench: &Bench) -> ([Counters; 2], Vec<Counters>) {
    let mut by_kernel = [Counters::default(); 2];
    let mut by_sm = vec![Counters::default(); usize::from(bench.gpu.config().sm.count)];
    for sample in bench.gpu.samples() {
        by_kernel[usize::from(sample.row == B)] += sample.counters;
        by_sm[sample.sm.index()] += sample.counters;
    }
    (by_kernel, by_sm)
}

#[test]
fn samples_sum_up_to_every_full_counter_by_kernel_and_by_sm() {
    for switches in [false, true] {
        let mut bench = Bench::named("gtx480");
        let config = bench.gpu.config().clone();
        let rows = [row(A, 3, 2), row(B, 3, 3)];
        bench
            .gpu
            .set_plan(&plan(&config, Preemption::Switch, &rows));
        let mut reports = Vec::new();
        for (tag, kernel, name) in [(1, A, "vecadd"), (2, B, "matmul")] {
            let case = case_of(name, Size::Small, 5);
            let loaded = bench.kernel(case.ptx, case.entry);
            let prepared = bench.prepare(&case);
            let mut launch = bench.launch(&loaded, &case, &prepared.params);
            launch.tag = tag;
            launch.queue = gridmux_hw_model::QueueId(u8::try_from(tag).expect("small"));
            let accepted = bench.gpu.launch_under(standing(kernel), launch);
            accepted.expect("accepted");
        }
        for step in 1.. {
            let advance = bench.gpu.advance(Cycles(step * 500), &mut reports);
            if advance == gridmux_hw_model::Advance::Idle {
                break;
            }
            let sm = SmId(u16::try_from(step % u64::from(config.sm.count)).expect("small"));
            if switches {
                bench.gpu.switch_out(sm, 0);
            }
        }
        let (by_kernel, by_sm) = sums(&bench);
        let mut full = [Counters::default(); 2];
        for report in reports {
            if let gridmux_hw_model::Report::Ended { tag, counters, .. } = report {
                full[usize::from(tag == 2)] = counters;
            }
        }
        assert_eq!(full[0].switches_out != 0, switches);
        assert!(
            full.iter()
                .all(|c| c.l2_miss_sectors != 0 && c.dram_read_bytes != 0)
        );
        for (sampled, full) in by_kernel.into_iter().zip(full) {
            assert_eq!(sampled.named(), full.named());
        }
        for (sampled, full) in by_sm.iter().zip(bench.gpu.sm_counters()) {
            assert_ne!(sampled.l2_hit_sectors + sampled.l2_miss_sectors, 0);
            assert_eq!(sampled.named(), full.named());
        }
    }
}

#[test]
fn a_killed_launch_stays_in_the_samples() {
    let mut bench = Bench::named("gtx480");
    let config = bench.gpu.config().clone();
    bench
        .gpu
        .set_plan(&plan(&config, Preemption::Switch, &[row(A, 3, 0)]));
    let case = case_of("vecadd", Size::Small, 5);
    let kernel = bench.kernel(case.ptx, case.entry);
    let prepared = bench.prepare(&case);
    let launch = bench.launch(&kernel, &case, &prepared.params);
    bench
        .gpu
        .launch_under(standing(A), launch)
        .expect("accepted");
    let mut reports = Vec::new();
    // Some blocks have ended, some are leaving or coming back, some run.
    for step in 1.. {
        let now = bench.gpu.now().0;
        bench.gpu.advance(Cycles(now + 100), &mut reports);
        bench.gpu.switch_out(SmId(step % config.sm.count), 0);
        let mut sum = Counters::default();
        let samples = bench.gpu.samples().into_iter();
        samples.for_each(|sample| sum += sample.counters);
        if sum.blocks >= 4 && sum.switches_in >= 4 {
            break;
        }
    }
    let before = bench.gpu.samples();
    assert!(bench.gpu.resident_blocks() != 0);
    assert!(bench.gpu.kill(1));
    assert_eq!(bench.gpu.samples(), before);
}
