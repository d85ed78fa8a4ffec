//! The block scheduler of `plan` mode holds what a plan says: caps and how blocks beyond them leave, fill order, SM
//! subsets, budgets, and room that is there in pieces only.

use crate::support::flow::module;
use crate::support::plan::{
    Busy, Disturbance, GroupOf, Row, Stage, all, check_events, context_bytes, disturbed, plan,
    plan_of, row, standing,
};
use crate::support::states::{TAIL_WORDS, states};
use crate::support::{Bench, case_of, part_of};
use gridmux_hw_model::{BlockChange, FaultKind, GpuConfig, PlanOptions, Report};
use gridmux_policy::ids::{RowId, SmId};
use gridmux_policy::plan::{DispatchOrder, Plan, Preemption, QuotaRule};
use gridmux_policy::units::Cycles;
use gridmux_sync::publish::Publisher;
use gridmux_workloads::{Prng, Size};
use std::collections::BTreeMap;

const A: RowId = RowId(1);
const B: RowId = RowId(2);
/// Longer than anything here has to wait for.
const LONG: u64 = 40_000;

/// Returns one group over all SMs.
fn group(
    config: &GpuConfig,
    order: DispatchOrder,
    (preemption, head_of_line): (Preemption, bool),
    rows: &[Row],
) -> Plan {
    let group = GroupOf {
        order,
        head_of_line,
        ..all(config, preemption)
    };
    plan_of(config, &[group], rows, &[], QuotaRule::default())
}

/// Returns the blocks of a launch of 64 that ran for long under a cap of 6 on 4 SMs, then under a cap of 2.
fn lowered(preemption: Preemption) -> Stage {
    let capped = |cap| move |config: &GpuConfig| plan(config, preemption, &[row(A, cap, 0)]);
    let mut stage = Stage::new(4, capped(6));
    stage.launch(Busy::blocks(64).rounds(20_000));
    stage.until(10_000);
    assert_eq!(
        (stage.placed().len(), stage.bench.gpu.resident_blocks()),
        (24, 24)
    );
    stage.plan(capped(2));
    stage.pass(10_000);
    stage
}

#[test]
fn a_lowered_cap_switches_out_the_highest_blocks_of_each_sm() {
    let mut stage = lowered(Preemption::Switch);
    assert_eq!(stage.bench.gpu.resident_blocks(), 8);
    assert_eq!(stage.bench.gpu.switched_blocks(), 16);
    let mut of_sm: BTreeMap<SmId, Vec<u64>> = BTreeMap::new();
    for event in stage.placed() {
        of_sm.entry(event.sm).or_default().push(event.block);
    }
    for event in stage.switched_out() {
        let here = of_sm.get_mut(&event.sm).expect("it was placed there");
        here.retain(|block| *block != event.block);
    }
    for (sm, stay) in of_sm {
        assert_eq!(stay.len(), 2, "{sm}");
        let gone = stage.switched_out().into_iter().filter(|e| e.sm == sm);
        assert!(gone.map(|e| e.block).min() > stay.into_iter().max(), "{sm}");
    }
    // With more room, those that left come back before others start; `check_events` has the order.
    stage.plan(|config| plan(config, Preemption::Switch, &[row(A, 6, 0)]));
    stage.finish();
    let params = 20_000_u32.to_le_bytes();
    let launch = stage.bench.simple(&stage.kernel, 64, 64, &params);
    let bytes = context_bytes(stage.bench.gpu.config(), &stage.kernel, &launch);
    assert_eq!(check_events(&stage.events, 64, bytes), [16, 16, 1]);
}

#[test]
fn blocks_beyond_a_lowered_cap_stay_where_the_plan_does_not_switch() {
    for preemption in [Preemption::Drain, Preemption::None] {
        let mut stage = lowered(preemption);
        assert_eq!(stage.bench.gpu.resident_blocks(), 24, "{preemption:?}");
        stage.finish();
        assert_eq!(stage.switched_out(), [], "{preemption:?}");
        // From then on an SM starts a block only when it holds fewer than two.
        let mut held: BTreeMap<SmId, u32> = BTreeMap::new();
        for event in &stage.events {
            let held = held.entry(event.sm).or_default();
            match event.change {
                BlockChange::Placed => {
                    *held += 1;
                    assert!(event.block < 24 || *held <= 2, "{event:?}");
                }
                _ => *held -= 1,
            }
        }
    }
}

#[test]
fn cheapest_switches_blocks_out_unless_they_are_near_their_end() {
    let capped =
        |cap| move |config: &GpuConfig| plan(config, Preemption::Cheapest, &[row(A, cap, 0)]);
    let long = Busy::blocks(4).rounds(6000);
    // Out and in again, with half of the port. On a chip whose blocks have a scheduler each and so take the same time
    // in every launch: the rule goes by the mean of the blocks that have ended.
    let gone_with = |halves: u64| {
        let mut stage = Stage::on(part_of("v100", 1), capped(4));
        stage.launch(long);
        stage.finish();
        let ran: Vec<u64> = (stage.events.iter())
            .filter_map(|event| match event.change {
                BlockChange::Retired { ran } => Some(ran.0),
                _ => None,
            })
            .collect();
        let ran = ran.iter().sum::<u64>() / ran.len() as u64;
        let (end, _) = stage.ended(1).expect("it ended");
        stage.launch(Busy { tag: 2, ..long });
        stage.until(end);
        while stage.placed().len() < 8 {
            stage.pass(32);
        }
        let params = long.rounds.to_le_bytes();
        let launch = stage
            .bench
            .simple(&stage.kernel, long.blocks, long.threads, &params);
        let config = stage.bench.gpu.config();
        let bytes = context_bytes(config, &stage.kernel, &launch);
        let rate = config.interconnect.request_bytes_per_cycle;
        // Contexts pass through one engine, one after the other.
        let cost = u64::from(long.blocks) * bytes * 4 / u64::from(rate);
        stage.pass(ran - cost * halves / 2);
        stage.plan(capped(1));
        stage.finish();
        stage.switched_out().len()
    };
    assert_eq!(gone_with(8), 3, "four times a switch is left");
    assert_eq!(gone_with(3), 0, "one and a half times a switch is left");
}

#[test]
fn a_plan_for_another_gpu_is_obeyed_as_far_as_it_applies() {
    // SM 2 is in no group of the plan for two, so it has no cap. The plan for four names an SM too many, and its cap is
    // more than an SM holds.
    for (planned, cap, by_sm) in [(2, 3, [3, 3, 8]), (4, 3000, [8, 8, 8])] {
        let chip = part_of("gtx480", planned);
        let foreign = plan(&chip, Preemption::Drain, &[row(A, cap, 0)]);
        let mut stage = Stage::new(3, |_| foreign);
        stage.launch(Busy::blocks(60).rounds(20_000));
        stage.until(10_000);
        let on = |sm| stage.placed().iter().filter(|e| e.sm == SmId(sm)).count();
        assert_eq!([0, 1, 2].map(on), by_sm, "a plan for {planned} SMs");
    }
}

#[test]
fn room_is_filled_in_order_of_rows_or_of_arrival() {
    for (order, first) in [(DispatchOrder::Rank, A), (DispatchOrder::Arrival, B)] {
        let rows = [row(A, 8, 0), row(B, 8, 0)];
        let way = (Preemption::Drain, false);
        let mut stage = Stage::new(2, |config| group(config, order, way, &rows));
        // B comes first; A has the first row.
        stage.launch_each(Busy::blocks(16), [B, A]);
        stage.finish();
        let placed: Vec<RowId> = stage.placed().iter().map(|e| e.row).collect();
        let second = if first == A { B } else { A };
        assert_eq!(placed, [[first; 16], [second; 16]].concat(), "{order:?}");
    }
}

#[test]
fn the_head_of_the_line_holds_others_up_where_the_plan_says_so() {
    for head_of_line in [true, false] {
        let rows = [row(A, 1, 0), row(B, 4, 0)];
        let way = (Preemption::Drain, head_of_line);
        let mut stage = Stage::new(2, |config| group(config, DispatchOrder::Rank, way, &rows));
        // Two of A's blocks wait for the first two, and there is room for B all the time.
        stage.launch_each(Busy::blocks(4), [A, B]);
        stage.finish();
        let at = |row| {
            let placed = stage.placed().into_iter();
            placed.filter(move |e| e.row == row).map(|e| e.at)
        };
        let waited = at(B).min() > at(A).max();
        assert_eq!(waited, head_of_line);
    }
}

#[test]
fn a_start_budget_counts_starts_and_nothing_else() {
    let with = |budget| {
        move |config: &GpuConfig| {
            let mut row = row(A, 3, 0);
            row.row.budget = budget;
            plan(config, Preemption::Switch, &[row])
        }
    };
    let mut stage = Stage::new(1, with(Some(5)));
    stage.launch(Busy::blocks(9));
    stage.pass(7000);
    assert!(stage.bench.gpu.switch_out(SmId(0), 0));
    stage.until(400_000);
    assert_eq!(stage.switched_in().len(), 1, "who has started comes back");
    assert_eq!(stage.placed().len(), 5);
    assert_eq!(stage.bench.gpu.resident_blocks(), 0);
    for again in [5, 2] {
        stage.plan(with(Some(again)));
        stage.pass(400_000);
        assert_eq!(stage.placed().len(), 5, "the number is a position");
    }
    stage.plan(with(Some(7)));
    stage.pass(400_000);
    assert_eq!(stage.placed().len(), 7, "two more");
    stage.plan(with(None));
    stage.finish();
    assert_eq!(stage.placed().len(), 9);
}

/// Returns the only fault so far: what, in which block, when.
fn fault(stage: &Stage) -> (FaultKind, [u32; 3], u64) {
    let mut faults = stage.reports.iter().filter_map(|report| match report {
        Report::Faulted { fault, at, .. } => Some((fault.kind, fault.block, at.0)),
        _ => None,
    });
    let fault = faults.next().expect("it faults");
    assert_eq!(faults.next(), None);
    fault
}

#[test]
fn a_launch_budget_runs_out_while_all_blocks_are_switched_out() {
    let capped =
        |cap| move |config: &GpuConfig| plan(config, Preemption::Switch, &[row(A, cap, 0)]);
    let mut stage = Stage::new(2, capped(4));
    stage.launch(Busy {
        budget: Some(Cycles(60_000)),
        ..Busy::blocks(8).rounds(100_000)
    });
    stage.until(10_000);
    let first = stage.events[0].at.0;
    stage.plan(capped(0));
    stage.until(30_000);
    assert_eq!(stage.bench.gpu.resident_blocks(), 0);
    assert_eq!(stage.bench.gpu.switched_blocks(), 8);
    stage.until(LONG * 100);
    let (kind, block, at) = fault(&stage);
    let budget_cycles = 60_000;
    assert_eq!(kind, FaultKind::BudgetExceeded { budget_cycles });
    assert_eq!(block, [0, 0, 0]);
    assert!(
        (first + 60_001..=first + 60_032).contains(&at),
        "{at} after {first}"
    );
    assert!(stage.bench.gpu.idle());
    assert_eq!(stage.bench.gpu.switched_blocks(), 0);
}

#[test]
fn a_launch_budget_runs_out_while_the_next_block_waits_for_room() {
    let mut stage = Stage::new(2, |config| {
        let row = row(A, 4, 0).budget(3);
        plan(config, Preemption::Drain, &[row])
    });
    stage.launch(Busy {
        budget: Some(Cycles(60_000)),
        ..Busy::blocks(8).rounds(10)
    });
    stage.until(LONG * 100);
    let first = stage.events[0].at.0;
    let (kind, block, at) = fault(&stage);
    let budget_cycles = 60_000;
    assert_eq!(kind, FaultKind::BudgetExceeded { budget_cycles });
    assert_eq!(block, [3, 0, 0], "the one that waits");
    assert!(
        (first + 60_001..=first + 60_032).contains(&at),
        "{at} after {first}"
    );
}

#[test]
fn a_killed_launch_takes_its_blocks_along_wherever_they_are() {
    let capped =
        |cap| move |config: &GpuConfig| plan(config, Preemption::Switch, &[row(A, cap, 0)]);
    let mut dice = Prng::new(4);
    for _ in 0..40 {
        let mut stage = Stage::new(2, capped(4));
        stage.launch(Busy::blocks(12).rounds(50_000));
        stage.until(10_000);
        stage.plan(capped(1));
        // Some leave, some have left, some come back.
        stage.pass(u64::from(dice.below(3000)));
        stage.plan(capped(4));
        stage.pass(u64::from(dice.below(3000)));
        assert!(stage.bench.gpu.kill(1));
        assert_eq!(stage.bench.gpu.resident_blocks(), 0);
        assert_eq!(stage.bench.gpu.switched_blocks(), 0);
        // What was on its way arrives at nobody, and all of the room is there again.
        stage.launch(Busy {
            tag: 2,
            ..Busy::blocks(16)
        });
        stage.finish();
        assert_eq!(stage.ended(2).map(|(_, c)| c.blocks), Some(16));
    }
}

/// What is short on the SM.
#[derive(Debug, Clone, Copy)]
enum Short {
    Registers,
    SharedMemory,
}

/// Returns [`gridmux_testkit::kernels::BUSY`] with `registers` registers in use all the time.
fn wide(registers: u32) -> String {
    let adds = |n| format!("add.s32 %r{n}, %r{n}, %r{};\n", (n + 1) % registers);
    let adds: String = (2..registers).map(adds).collect();
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry busy(.param .u32 rounds)\n{{\n\
         .reg .pred %p<2>;\n.reg .b32 %r<{registers}>;\nld.param.u32 %r1, [rounds];\nmov.u32 %r0, %tid.x;\nLOOP:\n\
         {adds}add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra LOOP;\nret;\n}}\n"
    )
}

/// Returns three blocks take a quarter each of one SM's registers or shared memory; the middle one ends, and another
/// kernel's block needs two quarters, which are there in two pieces. Gives when it starts, when the first long block
/// ends, and how many blocks were moved.
fn fragmented(preemption: Preemption, short: Short) -> (u64, u64, usize) {
    let rows = [row(A, 8, 0), row(B, 8, 0)];
    let mut stage = Stage::new(1, |config| plan(config, preemption, &rows));
    stage.kernel = stage.bench.kernel(&wide(56), "busy");
    let sm = &stage.bench.gpu.config().sm;
    let of_warp = (stage.kernel.registers_per_thread * 32).next_multiple_of(sm.register_unit);
    let (threads, shared_bytes) = match short {
        Short::Registers => (sm.registers / 4 / of_warp * 32, 0),
        Short::SharedMemory => (64, sm.shared_bytes / 4),
    };
    for (tag, rounds) in [(1, 1200), (2, 100), (3, 1200)] {
        stage.launch(Busy {
            tag,
            rounds,
            threads,
            shared_bytes,
            ..Busy::default()
        });
    }
    stage.launch(Busy {
        tag: 4,
        row: B,
        threads: 2 * threads,
        rounds: 100,
        shared_bytes: 2 * shared_bytes,
        ..Busy::default()
    });
    stage.finish();
    let placed = stage.placed().into_iter().find(|e| e.tag == 4);
    let ends = [1, 3].map(|tag| stage.ended(tag).expect("it ended").0);
    let moved = stage.switched_out().len();
    assert_eq!(moved, stage.switched_in().len());
    (placed.expect("it ran").at.0, ends[0].min(ends[1]), moved)
}

#[test]
fn a_block_is_moved_when_room_is_there_in_pieces_only() {
    for short in [Short::Registers, Short::SharedMemory] {
        let (placed, ended, moved) = fragmented(Preemption::Switch, short);
        assert!(placed < ended, "{short:?}: {placed} {ended}");
        assert_eq!(moved, 1, "{short:?}");
        let (placed, ended, moved) = fragmented(Preemption::Drain, short);
        assert!(placed >= ended, "{short:?}: {placed} {ended}");
        assert_eq!(moved, 0, "{short:?}");
    }
}

#[test]
fn free_switches_move_no_byte_and_take_no_time() {
    let mut times = Vec::new();
    for free_switches in [false, true] {
        let mut bench = Bench::named("gtx480");
        let case = case_of("vecadd", Size::Small, 5);
        let kernel = bench.kernel(case.ptx, case.entry);
        let prepared = bench.prepare(&case);
        let config = bench.gpu.config().clone();
        bench
            .gpu
            .set_plan(&plan(&config, Preemption::Switch, &[row(A, 8, 0)]));
        bench.gpu.set_plan_options(PlanOptions { free_switches });
        bench.gpu.record_block_events(true);
        let launch = bench.launch(&kernel, &case, &prepared.params);
        let bytes = context_bytes(&config, &kernel, &launch);
        let bytes = if free_switches { 0 } else { bytes };
        let often = Disturbance {
            gap: 100,
            most: 200,
        };
        let done = disturbed(&mut bench, (launch, bytes), often, &mut Prng::new(1));
        let done = done.unwrap_or_else(|why| panic!("{why}"));
        case.verify(&bench.outputs(&prepared))
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(done.counters.switches_out >= 20, "{done:?}");
        times.push(done.cycles);
    }
    assert!(times[1] < times[0], "{times:?}");
}

#[test]
fn the_newest_published_plan_is_obeyed() {
    let mut stage = Stage::new(2, |config| {
        plan(config, Preemption::Switch, &[row(A, 1, 0)])
    });
    let config = stage.bench.gpu.config().clone();
    let capped = |cap| plan(&config, Preemption::Switch, &[row(A, cap, 0)]);
    let mut publisher = Publisher::new(capped(5));
    stage.bench.gpu.follow_plans(publisher.reader());
    stage.launch(Busy::blocks(30).rounds(20_000));
    stage.until(10_000);
    assert_eq!(stage.bench.gpu.resident_blocks(), 10);
    for cap in [2, 4, 3] {
        publisher.publish_value(capped(cap));
        stage.pass(15_000);
        assert_eq!(stage.bench.gpu.resident_blocks(), 2 * u32::from(cap));
    }
    publisher.publish_value(capped(3000));
    stage.pass(5000);
    let limit = config.sm.max_blocks;
    assert_eq!(stage.bench.gpu.resident_blocks(), 2 * limit);
    stage.finish();
}

#[test]
fn a_block_leaves_when_what_it_has_in_flight_has_ended() {
    // SMK, section 5.1, step 2: the engine waits for pending memory requests. Switches are free, so that waiting is
    // all that takes time.
    let longest = |text: &str| {
        let mut config = part_of("gtx480", 1);
        // Parameters that are at hand, so that arithmetic has nothing in flight.
        config.sm.parameters_cached = false;
        let mut bench = Bench::new(config);
        let kernel = bench.kernel(text, "k");
        let out = bench.buffer(&vec![0; (32 + TAIL_WORDS as usize) * 4]);
        let all_sms = plan(bench.gpu.config(), Preemption::Switch, &[row(A, 8, 0)]);
        bench.gpu.set_plan(&all_sms);
        bench.gpu.set_plan_options(PlanOptions {
            free_switches: true,
        });
        bench.gpu.record_block_events(true);
        let params = out.to_le_bytes();
        let launch = bench.simple(&kernel, 1, 32, &params);
        bench
            .gpu
            .launch_under(standing(A), launch)
            .expect("accepted");
        let (mut reports, mut asked, mut longest) = (Vec::new(), 0, 0);
        while !bench.gpu.idle() {
            let now = bench.gpu.now().0;
            bench.gpu.advance(Cycles(now + 40), &mut reports);
            for event in bench.gpu.take_block_events() {
                if matches!(event.change, BlockChange::SwitchedOut { .. }) {
                    longest = longest.max(event.at.0 - asked);
                }
            }
            let now = bench.gpu.now().0;
            if bench.gpu.switch_out(SmId(0), 0) {
                asked = now;
            }
        }
        longest
    };
    let state = |state: &str| {
        let (_, text) = states().find(|(name, _)| *name == state).expect("a state");
        longest(&text)
    };
    let loads = state("loads and stores in flight");
    let arithmetic = state("diverged within loops within branches");
    let l2 = u64::from(part_of("gtx480", 1).l2.latency);
    assert!(loads >= l2 && arithmetic < l2, "{loads} {arithmetic} {l2}");
    // Copies alone hold the block as loads do; a sleep does not, because it may be shorter than asked for.
    let repeated = |what: &str| {
        format!(
            "mov.u32 %r5, 0;\nmov.u32 %r11, box;\nROUND:\n{what}add.u32 %r5, %r5, 1;\n\
             setp.lt.u32 %p3, %r5, 12;\n@%p3 bra ROUND;"
        )
    };
    let shared = ".shared .align 16 .b8 box[64];\n";
    let copy = "cp.async.cg.shared.global [%r11], [%rd1], 16;\nadd.u64 %rd1, %rd1, 128;\ncp.async.wait_all;\n";
    let copies = longest(&module(shared, &repeated(copy)));
    let sleeps = longest(&module(shared, &repeated("nanosleep.u32 1000000;\n")));
    assert!(copies >= l2 && sleeps < l2, "{copies} {sleeps} {l2}");
}

#[test]
fn a_row_that_is_gone_begins_again_at_start_0() {
    let budget = |config: &GpuConfig| plan(config, Preemption::Drain, &[row(A, 3, 0).budget(4)]);
    let mut stage = Stage::new(1, budget);
    let four = Busy::blocks(4);
    stage.launch(four);
    stage.finish();
    stage.launch(Busy { tag: 2, ..four });
    stage.pass(LONG);
    assert_eq!(stage.placed().len(), 4);
    assert!(stage.bench.gpu.kill(2));
    stage.bench.gpu.forget_row(A);
    assert_eq!(stage.bench.gpu.samples(), []);
    stage.launch(Busy { tag: 3, ..four });
    stage.finish();
    assert_eq!(stage.placed().len(), 8);
}
