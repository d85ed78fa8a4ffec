//! What one turn of the dispatcher does and does not: it works on one plan, keeps no lane that it could not use, takes
//! no ring for work that it cannot admit, and nobody stops the virtual clock by doing things that take no time.

use crate::scripted::{POLL_EVERY, Rig, SHAPE, Wire, launch, named, on_stream, submit};
use gridmux_channel::ring::{CompletionStatus, Operation, SubmissionEntry};
use gridmux_mediator::dispatch::policy_link;
use gridmux_mediator::dispatch::rows::RowTable;
use gridmux_policy::event::Event;
use gridmux_policy::ids::{DeviceId, RowId, TenantId};
use gridmux_policy::plan::{DefaultRow, Stop};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;
use gridmux_policy::{Plan, PlanBuilder, Policy, Profiles};
use std::cell::RefCell;

/// Lists no row, and gives all of them a default cap of blocks per SM that is one higher with each plan.
struct Growing {
    cap: u16,
    /// It goes on making plans.
    grows: bool,
}

impl Policy for Growing {
    fn observe(&mut self, _event: &Event) {}

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let first = self.cap == 0;
        if !first && !self.grows {
            return false;
        }
        self.cap += 1;
        let mut plan = PlanBuilder::new(next, DeviceId(0), &SHAPE);
        plan.default_row(DefaultRow {
            cap: self.cap,
            stop: Stop::Checked,
        });
        let done = plan.finish(standing, |_| BlockShape::default());
        done.expect("a plan without groups is one");
        true
    }
}

fn growing(grows: bool) -> Box<Growing> {
    Box::new(Growing { cap: 0, grows })
}

#[test]
fn a_plan_without_groups_is_its_default_row() {
    // On a real clock nothing waits for a better plan.
    let mut rig = Rig::on_real_clock(growing(false), 8192);
    // A row of which nothing is known gets one small window.
    let rows = RowTable::default().with_known_blocks(1000);
    rig.dispatcher.set_rows(rows);
    let wire = rig.join(0, 1);
    submit(&wire, launch(1, [1000, 1, 1], [256, 1, 1]));
    for _ in 0..10 {
        let _ = rig.dispatcher.turn();
    }
    let handed: u32 = rig.bench.borrow().in_flight.iter().map(|f| f.1).sum();
    assert_eq!(handed, 4, "one block on each of four SMs");
}

#[test]
fn what_is_asked_of_the_plan_comes_from_the_one_that_was_read() {
    let linked = policy_link::link(growing(true), DeviceId(0), &SHAPE, false, Nanos(0));
    let (mut link, mut runner) = linked.expect("a plan stands");
    let cap = |link: &policy_link::PolicyLink| link.row(RowId(0), TenantId(0)).cap_total;
    assert_eq!(cap(&link), 4);
    for round in 1..50_u32 {
        link.tell(Event::Timer { at: Nanos(0) });
        runner.run();
        assert_eq!(cap(&link), 4 * round, "another plan was published only");
        assert!(link.refresh());
        assert_eq!(cap(&link), 4 * (round + 1));
        assert!(!link.refresh());
    }
}

#[test]
fn a_device_that_takes_nothing_more_costs_no_lane() {
    let mut rig = Rig::new("fifo");
    // More often than there are lanes.
    rig.bench.borrow_mut().refuses = 100;
    let wires: Vec<_> = (0..32).map(|slot| rig.join(slot, 1)).collect();
    for wire in &wires {
        submit(wire, launch(1, [1, 1, 1], [64, 1, 1]));
    }
    rig.turns(1000);
    assert_eq!(rig.bench.borrow().refuses, 0);
    for wire in &wires {
        let wire = wire.borrow();
        assert_eq!(wire.completions.len(), 1, "no lane is left for it");
        assert_eq!(wire.completions[0].status, CompletionStatus::Ok as u32);
    }
}

#[test]
fn a_client_that_has_no_room_for_more_is_no_work() {
    let mut rig = Rig::new("fifo");
    let lazy = rig.join(0, 1);
    // It takes no completion, so its operations stay and its table is full.
    lazy.borrow_mut().room = 0;
    for cookie in 0..1000 {
        submit(&lazy, launch(cookie, [1, 1, 1], [64, 1, 1]));
    }
    assert!(rig.settle(10_000) < 10_000, "it comes to rest");
    assert!(!lazy.borrow().submissions.is_empty(), "the table is full");
    assert!(!rig.dispatcher.arm(), "the thread can sleep");
    lazy.borrow_mut().room = 4096;
    assert!(rig.settle(100_000) < 100_000);
    assert_eq!(lazy.borrow().completions.len(), 1000);
}

/// Runs a launch of another client beside one that submits again as soon as its operation has completed; returns how
/// many of these were over when the launch was.
fn beside_a_loop(
    rig: &mut Rig,
    busy: &RefCell<Wire>,
    entry: impl Fn(u64) -> SubmissionEntry,
) -> usize {
    let good = rig.join(1, 1);
    submit(&good, launch(1, [64, 1, 1], [256, 1, 1]));
    let mut submitted = 0;
    for _ in 0..100_000 {
        if submitted <= busy.borrow().completions.len() {
            submitted += 1;
            let entry = entry(submitted as u64);
            submit(busy, entry);
        }
        rig.turn();
        if good.borrow().completions.len() == 1 {
            return busy.borrow().completions.len();
        }
    }
    panic!("the launch never ends, {submitted} operations of the other client do");
}

#[test]
fn operations_that_take_no_time_of_the_device_stop_no_clock() {
    let barrier = |cookie| on_stream(0, cookie, Operation::Barrier);
    let refused = |cookie| launch(cookie, [0, 1, 1], [32, 1, 1]);
    for (name, entry) in [
        ("barriers", &barrier as &dyn Fn(u64) -> SubmissionEntry),
        ("refused launches", &refused),
    ] {
        let mut rig = Rig::new("smk-p");
        let busy = rig.join(0, 1);
        busy.borrow_mut().answers = true;
        let over = beside_a_loop(&mut rig, &busy, entry);
        // The launch's slices take a microsecond each, the loop's operations half of one.
        assert!((1..100).contains(&over), "{name}: {over}");
    }
}

#[test]
fn live_a_client_that_says_that_it_runs_holds_nobody_up() {
    let barrier = |cookie| on_stream(0, cookie, Operation::Barrier);
    let mut rig = Rig::live("smk-p");
    let busy = rig.join(0, 1);
    busy.borrow_mut().runs = true;
    let over = beside_a_loop(&mut rig, &busy, barrier);
    assert!((1..100).contains(&over), "{over}");
    assert_eq!(rig.control.holds_expired(), 0);
}

#[test]
fn rows_stay_while_launches_that_wait_name_them() {
    // More block shapes than a tenant has rows, all in one stream: the first wait while the last are admitted.
    for policy in ["fifo", "smk-p"] {
        let mut rig = Rig::new(policy);
        let (many, other) = (rig.join(0, 1), rig.join(1, 1));
        let launches = (1..=60).map(|n| launch(n.into(), [8, 1, 1], [n, 1, 1]));
        many.borrow_mut().submissions.extend(launches);
        submit(&other, launch(1, [8, 1, 1], [64, 1, 1]));
        rig.settle(100_000);
        for (wire, launches) in [(&many, 60), (&other, 1)] {
            let completions = &wire.borrow().completions;
            let ok = CompletionStatus::Ok as u32;
            assert!(completions.iter().all(|done| done.status == ok));
            assert_eq!(completions.len(), launches, "{policy}");
        }
    }
}

/// A profile says how long blocks last, not that they end.
#[test]
fn a_kernel_with_a_profile_begins_as_small_and_goes_on_as_the_profile_says() {
    let profiles = Profiles::default();
    let grids = |rig: &mut Rig| -> Vec<u32> {
        let wire = rig.join(0, 1);
        submit(&wire, launch(1, [1000, 1, 1], [256, 1, 1]));
        rig.settle(1000);
        rig.bench.borrow().grids()
    };
    let mut rig = Rig::new("fifo");
    rig.policy.learn(&profiles);
    assert_eq!(grids(&mut rig)[..2], [1, 999], "nothing is known");
    let all = profiles.all();
    let [(key, learnt)] = all.as_slice() else {
        panic!("one kernel ran: {all:?}");
    };
    assert!((learnt.block_ns - 1000.0).abs() < 1.0 && learnt.alone);
    // Blocks of a third of a millisecond: a window holds a wave of 32.
    profiles.set(*key, 330_000.0);
    let mut rig = Rig::new("fifo");
    rig.dispatcher.set_profiles(&profiles);
    assert_eq!(grids(&mut rig)[..2], [1, 32]);
}

#[test]
fn on_a_real_clock_a_busy_device_is_polled_as_often_as_it_asks() {
    let mut rig = Rig::on_real_clock(named("fifo"), 4096);
    let wire = rig.join(0, 1);
    rig.settle(100);
    assert_eq!(rig.dispatcher.longest_sleep(), None, "nothing is under way");
    submit(&wire, launch(1, [1, 1, 1], [64, 1, 1]));
    rig.settle(100);
    assert_eq!(rig.dispatcher.longest_sleep(), Some(POLL_EVERY));
}
