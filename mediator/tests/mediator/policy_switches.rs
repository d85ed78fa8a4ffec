//! Another policy takes over while launches run and wait: it is told their true state first, and no launch is lost,
//! repeated or stopped.

use crate::scripted::{BLOCK_NS, Rig, SHAPE, SharedWire, launch, named, submit};
use gridmux_channel::ring::CompletionStatus;
use gridmux_mediator::dispatch::policy_link;
use gridmux_policy::conformance::{LogEntry, PolicyLog, Tapped};
use gridmux_policy::event::Event;
use gridmux_policy::ids::{DeviceId, ProfileKey, RowId, TenantId};
use gridmux_policy::units::Nanos;
use gridmux_policy::{BlockShape, DispatchOrder, Plan, all_policies};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const LAUNCHES: u64 = 4;
const BLOCKS: u32 = 40;

type Wires = [SharedWire; 3];

/// Joins three clients, each with all of its launches submitted.
fn join(rig: &mut Rig) -> Wires {
    let wires = [0, 1, 2].map(|slot| rig.join(slot, 1 + u32::from(slot)));
    for round in 0..LAUNCHES {
        for wire in &wires {
            submit(wire, launch(round, [BLOCKS, 1, 1], [256, 1, 1]));
        }
    }
    wires
}

fn turn(rig: &mut Rig) {
    if rig.bench.borrow().has_real_clock {
        rig.bench.borrow_mut().now += BLOCK_NS;
        rig.bench.borrow_mut().pass_time();
    }
    rig.turn();
}

/// Returns how many launches have ended.
fn ended(wires: &Wires) -> u64 {
    let ended = wires.iter().map(|wire| wire.borrow().completions.len());
    ended.sum::<usize>() as u64
}

/// Turns until every launch has ended.
fn finish(rig: &mut Rig, wires: &Wires, name: &str) {
    for _ in 0..200_000 {
        let done = |wire: &SharedWire| wire.borrow().completions.len() as u64 >= LAUNCHES;
        if wires.iter().all(done) {
            break;
        }
        turn(rig);
    }
    rig.settle(20_000);
    for wire in wires {
        let wire = wire.borrow();
        assert_eq!(wire.cookies(), Vec::from_iter(0..LAUNCHES), "{name}");
        let are_well = |entry: &gridmux_channel::ring::CompletionEntry| {
            entry.status == CompletionStatus::Ok as u32
        };
        assert!(wire.completions.iter().all(are_well), "{name}");
    }
    let bench = rig.bench.borrow();
    assert!(bench.killed.is_empty(), "{name}");
    let blocks = bench.grids().into_iter().map(u64::from).sum::<u64>();
    assert_eq!(blocks, 3 * LAUNCHES * u64::from(BLOCKS), "{name}");
}

/// Returns what tells the plans of policies apart, however the device went.
fn kind(plan: &Plan) -> (DispatchOrder, bool) {
    (plan.order(), plan.head_of_line())
}

#[test]
fn every_policy_takes_over_from_every_other_and_each_launch_ends_once() {
    for to in all_policies() {
        let rigs = || {
            [
                Rig::with_policy(named(to.name)),
                Rig::live(to.name),
                Rig::on_real_clock(named(to.name), 4096),
            ]
        };
        let from_the_start = rigs().map(|mut rig| {
            let wires = join(&mut rig);
            finish(&mut rig, &wires, to.name);
            kind(rig.policy.plan())
        });
        for from in all_policies() {
            let before = [
                Rig::with_policy(named(from.name)),
                Rig::live(from.name),
                Rig::on_real_clock(named(from.name), 4096),
            ];
            for (mut rig, expected) in before.into_iter().zip(&from_the_start) {
                let name = format!("{} to {}", from.name, to.name);
                let handle = rig.policy.handle();
                let wires = join(&mut rig);
                for _ in 0..2000 {
                    turn(&mut rig);
                    if ended(&wires) >= 3 {
                        break;
                    }
                }
                assert!(ended(&wires) < 3 * LAUNCHES, "{name}: launches are open");
                handle.choose(to.name, named(to.name));
                assert!(rig.policy.take_choice() && !rig.policy.take_choice());
                finish(&mut rig, &wires, &name);
                let in_force = handle.in_force();
                assert_eq!(
                    (in_force.name(), in_force.failure.as_ref()),
                    (to.name, None)
                );
                assert_eq!(kind(rig.policy.plan()), *expected, "{name}");
            }
        }
    }
}

/// Turns until the policy is asked for a plan for the first time; returns what it was told since the last loss before
/// that. The plan of this epoch is in force until then.
fn told_before_it_plans(rig: &mut Rig, log: &PolicyLog, epoch: u64) -> Vec<Event> {
    let mut told = Vec::new();
    // No time passes before it plans; what the device has reported by now is told as well.
    for _ in 0..10_000 {
        let _ = rig.dispatcher.turn();
        assert_eq!(rig.policy.plan().epoch, epoch, "the plan in force stays");
        rig.policy.run();
        for entry in log.take() {
            match entry {
                LogEntry::Observed(event) => told.push(event),
                LogEntry::NoNewPlan(_) | LogEntry::NewPlan(..) => {
                    assert!(matches!(told[0], Event::Lost { .. }), "{told:?}");
                    let is_lost = |event: &Event| matches!(event, Event::Lost { .. });
                    return told.split_off(told.iter().rposition(is_lost).expect("found"));
                }
            }
        }
    }
    panic!("it is never asked for a plan, after {told:?}");
}

#[test]
fn the_new_policy_is_told_what_runs_and_waits_before_it_plans() {
    for rig in [
        Rig::with_policy(named("smk-p")),
        Rig::live("smk-p"),
        Rig::on_real_clock(named("smk-p"), 4096),
        // The policy hears what lives in several parts, and could plan after each.
        Rig::on_real_clock(named("smk-p"), 16),
    ] {
        let mut rig = rig;
        let wires = join(&mut rig);
        while ended(&wires) < 2 {
            turn(&mut rig);
        }
        let (listens, log) = Tapped::new(named("fifo"));
        let handle = rig.policy.handle();
        handle.choose("one that listens", listens);
        assert!(rig.policy.take_choice());
        let epoch = rig.policy.plan().epoch;
        let ended = ended(&wires);
        let has_real_clock = rig.bench.borrow().has_real_clock;
        let told = told_before_it_plans(&mut rig, &log, epoch);
        let all = told
            .iter()
            .position(|event| matches!(event, Event::Resynced));
        let told = &told[..all.expect("it knows that this is all")];
        let tenants: BTreeSet<TenantId> = told
            .iter()
            .filter_map(|event| match event {
                Event::Tenant { tenant, .. } => Some(*tenant),
                _ => None,
            })
            .collect();
        assert_eq!(tenants, BTreeSet::from([0, 1, 2].map(TenantId)));
        let (mut rows, mut open, mut blocks) = (BTreeSet::new(), 0, 0);
        for event in told {
            if let Event::Counters {
                row,
                open_launches,
                live,
                waiting,
                ended,
                ..
            } = event
            {
                assert!(rows.insert(*row), "told once");
                open += u64::from(*open_launches);
                blocks += u64::from(*live) + waiting + ended;
            }
        }
        assert_eq!(rows.len(), 3);
        // Of each client the first launch that has not ended is active, and perhaps the one behind it.
        assert!((3..=6).contains(&open), "{open} open");
        let whole = (open + ended) * u64::from(BLOCKS);
        assert_eq!(
            blocks, whole,
            "{ended} ended, {open} open, real clock: {has_real_clock}"
        );
        let plan = rig.policy.plan();
        assert!(plan.epoch > epoch, "its own plan is in force");
        let planned: BTreeSet<RowId> = plan.rows().iter().map(|row| row.row).collect();
        assert_eq!(planned, rows);
        finish(&mut rig, &wires, "one that listens");
    }
}

#[test]
fn a_choice_wakes_the_policy_thread_and_the_new_policy_plans_when_it_was_told_all() {
    let linked = policy_link::link(named("smk-p"), DeviceId(0), &SHAPE, false, Nanos(0));
    let (mut end, runner) = linked.expect("a plan stands");
    let handle = runner.handle();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (wakes, woken) = mpsc::channel();
    let wake = move || {
        let _ = wakes.send(());
    };
    let thread = std::thread::spawn(move || runner.serve(&stopped, wake));
    end.set_thread(thread.thread().clone());
    // By then the thread sleeps, because it has nothing to do; no event wakes it.
    std::thread::sleep(Duration::from_millis(20));
    handle.choose("fifo", named("fifo"));
    woken.recv().expect("the dispatcher is woken");
    assert_eq!(handle.in_force().name(), "fifo");
    end.refresh();
    assert!(end.take_resync(), "what lives is to be told");
    while !end.is_caught_up() {
        end.flush();
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(5));
    assert!(!end.refresh(), "it has not been told all");
    let row = RowId(3);
    end.tell(Event::RowNew {
        row,
        tenant: TenantId(1),
        block: BlockShape::of_threads(256),
        profile: ProfileKey(0),
        spill: false,
    });
    end.end_resync();
    while !end.refresh() {
        end.flush();
        std::thread::yield_now();
    }
    let rows: Vec<RowId> = end.plan().rows().iter().map(|row| row.row).collect();
    assert_eq!(rows, [row]);
    // Release: pairs with the Acquire in `PolicyRunner::serve`.
    stop.store(true, Ordering::Release);
    thread.thread().unpark();
    thread.join().unwrap();
}

#[test]
fn the_policy_that_is_in_force_is_named_with_its_time() {
    let mut rig = Rig::new("sjf");
    rig.policy.set_name("sjf");
    let handle = rig.policy.handle();
    let first = handle.in_force();
    assert_eq!((first.name(), first.chosen.as_str()), ("sjf", "sjf"));
    handle.choose("even", named("even"));
    assert_eq!(handle.in_force(), first, "not before it takes over");
    assert!(rig.policy.take_choice());
    let second = handle.in_force();
    assert_eq!(second.name(), "even");
    assert!(second.since_ns >= first.since_ns);
}
