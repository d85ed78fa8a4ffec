//! A policy that is slower than the events come: what it missed is made good, and its plans are right again.

use crate::scripted::{Rig, SHAPE, SharedWire, launch, named, submit};
use gridmux_mediator::dispatch::policy_link;
use gridmux_policy::book::Book;
use gridmux_policy::conformance::{PolicyLog, Silent, Tapped};
use gridmux_policy::event::Event;
use gridmux_policy::ids::{DeviceId, ProfileKey, RowId, TenantId};
use gridmux_policy::units::Nanos;
use gridmux_policy::{BlockShape, Policy, Watch};
use std::collections::{BTreeMap, BTreeSet};

/// On a real clock, where nobody waits for the policy, with room for 16 events.
fn rig(policy: Box<dyn Policy>) -> (Rig, PolicyLog) {
    let (policy, log) = Tapped::new(policy);
    (Rig::on_real_clock(policy, 16), log)
}

fn silent() -> Box<dyn Policy> {
    Box::new(Silent::default())
}

/// Turns policy and dispatcher, with no time passing, until neither has anything to do.
fn quiet(rig: &mut Rig) {
    for turn in 0.. {
        assert!(turn < 10_000, "the loss is made good again and again");
        let turned = rig.dispatcher.turn();
        let events = rig.policy.run();
        if events == 0 && turned != gridmux_mediator::dispatch::Turn::Worked {
            return;
        }
    }
}

/// Small launches of every client come and go while the policy hears nothing.
fn run_unheard(rig: &mut Rig, wires: &[SharedWire]) {
    let mut cookie = 0;
    for _ in 0..50 {
        for wire in wires {
            cookie += 1;
            submit(wire, launch(cookie, [3, 1, 1], [256, 1, 1]));
        }
        let _ = rig.dispatcher.turn();
        rig.bench.borrow_mut().pass_time();
    }
    while !rig.bench.borrow().in_flight.is_empty() {
        rig.bench.borrow_mut().pass_time();
        let _ = rig.dispatcher.turn();
    }
    for wire in wires {
        assert_eq!(wire.borrow().completions.len(), 50);
    }
}

#[test]
fn after_a_loss_the_policy_hears_of_everything_and_its_plan_is_right() {
    let (mut rig, log) = rig(named("smk-p"));
    let wires = [rig.join(0, 1), rig.join(1, 1)];
    run_unheard(&mut rig, &wires);
    // Each has one large launch open when the policy wakes up.
    for wire in &wires {
        submit(wire, launch(1000, [4000, 1, 1], [256, 1, 1]));
    }
    quiet(&mut rig);
    // Equal tenants, equal rows: each gets half of the four SMs, of which each holds eight such blocks.
    let plan = rig.policy.plan();
    let caps: Vec<u32> = plan.rows().iter().map(|r| plan.cap_total(r.row)).collect();
    assert_eq!(caps, [16, 16]);

    let events = log.take_events();
    let lost = events.iter().position(|e| matches!(e, Event::Lost { .. }));
    let after = &events[lost.expect("events were lost")..];
    let mut tenants = BTreeSet::new();
    let mut rows: BTreeMap<RowId, TenantId> = BTreeMap::new();
    let mut counters = BTreeMap::new();
    for event in after {
        match *event {
            Event::Tenant { tenant, .. } => drop(tenants.insert(tenant)),
            Event::RowNew { row, tenant, .. } => drop(rows.insert(row, tenant)),
            Event::Counters {
                row,
                open_launches,
                live,
                waiting,
                ..
            } => {
                assert!(rows.contains_key(&row), "named before it is counted");
                counters.insert(row, (open_launches, u64::from(live) + waiting));
            }
            _ => {}
        }
    }
    assert_eq!(tenants, BTreeSet::from([TenantId(0), TenantId(1)]));
    assert_eq!(rows.len(), 2);
    for (row, counted) in &counters {
        assert!(
            [(0, 0), (1, 4000)].contains(counted),
            "{row} has {counted:?} though it has no launch open, or one of 4000 blocks"
        );
    }
    assert_eq!(counters.len(), 2);
}

#[test]
fn what_was_not_told_yet_is_not_counted_twice() {
    let (mut rig, log) = rig(silent());
    let wires = [rig.join(0, 1), rig.join(1, 1)];
    run_unheard(&mut rig, &wires);
    for wire in &wires {
        submit(wire, launch(1000, [4000, 1, 1], [256, 1, 1]));
    }
    // The device takes blocks; that they started comes in the turn in which the loss is made good.
    let _ = rig.dispatcher.turn();
    rig.policy.run();
    quiet(&mut rig);
    while !rig.bench.borrow().in_flight.is_empty() {
        rig.bench.borrow_mut().pass_time();
        quiet(&mut rig);
    }
    let mut book = Book::new(&SHAPE);
    let (mut losses, mut ended) = (0, 0);
    for event in log.take_events() {
        if let (Event::Ended { row, .. }, 1..) = (event, losses) {
            let record = book.row(row).expect("it lives");
            let left = (record.open_launches, record.live, record.waiting);
            assert_eq!(left, (1, 0, 0), "{row}, of which every block has ended");
            ended += 1;
        }
        book.observe(&event);
        losses += u32::from(matches!(event, Event::Lost { .. }));
    }
    assert_eq!((losses, ended), (1, 2));
}

/// Returns the row whose state an event says.
fn counted(event: &Event) -> Option<RowId> {
    match event {
        Event::Counters { row, .. } => Some(*row),
        _ => None,
    }
}

#[test]
fn a_loss_that_takes_many_turns_to_make_good_is_made_good_once() {
    // Two hundred rows are four hundred events, and there is room for sixteen.
    let (mut rig, log) = rig(named("smk-p"));
    let wires: Vec<_> = (0..200).map(|slot| rig.join(slot, 1)).collect();
    for wire in &wires {
        let mut wire = wire.borrow_mut();
        wire.submissions.push_back(launch(1, [2, 1, 1], [64, 1, 1]));
    }
    for _ in 0..20 {
        let _ = rig.dispatcher.turn();
    }
    quiet(&mut rig);
    let events = log.take_events();
    let last = events.iter().rposition(|e| matches!(e, Event::Lost { .. }));
    let after = &events[last.expect("events were lost")..];
    let counted: BTreeSet<RowId> = after.iter().filter_map(counted).collect();
    assert_eq!(counted.len(), 200);
    let losses = events.iter().filter(|e| matches!(e, Event::Lost { .. }));
    assert!(losses.count() <= 2, "making it good lost events again");
}

#[test]
fn a_loss_of_many_rows_is_made_good_while_launches_keep_coming() {
    // Sixty-four rows are more than a hundred events, and there is room for sixteen.
    let (mut rig, log) = rig(named("smk-p"));
    let wires = [rig.join(0, 1), rig.join(1, 1)];
    for warps in 1..=32 {
        for wire in &wires {
            submit(wire, launch(warps.into(), [2, 1, 1], [32 * warps, 1, 1]));
        }
        let _ = rig.dispatcher.turn();
        rig.bench.borrow_mut().pass_time();
    }
    let mut events = Vec::new();
    let is_of_loss = |event: &&Event| matches!(event, Event::Lost { .. } | Event::Resynced);
    // A launch comes in every turn, and the policy hears of what there was room for.
    for (cookie, wire) in (100..).zip(wires.iter().cycle()) {
        assert!(cookie < 2000, "the policy is never told that this was all");
        submit(wire, launch(cookie, [2, 1, 1], [64, 1, 1]));
        let _ = rig.dispatcher.turn();
        rig.policy.run();
        events.extend(log.take_events());
        if let Some(Event::Resynced) = events.iter().rev().find(is_of_loss) {
            break;
        }
        rig.bench.borrow_mut().pass_time();
    }
    let lost = events.iter().rposition(|e| matches!(e, Event::Lost { .. }));
    let after = events[lost.expect("events were lost")..].iter();
    let counted: BTreeSet<RowId> = after.filter_map(counted).collect();
    assert_eq!(counted.len(), 64);
    assert!(!rig.policy.plan().rows().is_empty(), "it plans again");
}

#[test]
fn a_policy_that_lost_more_meanwhile_is_not_told_that_this_was_all() {
    let (policy, log) = Tapped::new(silent());
    let linked = policy_link::link_with_room(policy, DeviceId(0), &SHAPE, false, Nanos(0), 16);
    let (mut end, mut runner) = linked.expect("a shape for which there are plans");
    let overrun = |end: &mut policy_link::PolicyLink| {
        for at in 0..20 {
            end.tell(Event::Timer { at: Nanos(at) });
        }
    };
    overrun(&mut end);
    runner.run();
    assert!(end.take_resync(), "four were lost");
    // What was to make that good is lost as well, and nothing has been sent since.
    overrun(&mut end);
    end.end_resync();
    for _ in 0..2 {
        runner.run();
        end.catch_up();
    }
    let is_all = |event: &Event| matches!(event, Event::Resynced);
    assert!(!log.take_events().iter().any(is_all));
    assert!(end.take_resync(), "and all is told anew");
    end.end_resync();
    runner.run();
    let events = log.take_events();
    assert!(events.last().is_some_and(is_all), "{events:?}");
}

#[test]
fn a_watch_is_reached_once_and_again_when_its_row_is_named_anew() {
    let row = RowId(5);
    let watches = Silent {
        watch: Some(Watch { row, ended: 1 }),
        ..Silent::default()
    };
    let linked = policy_link::link(Box::new(watches), DeviceId(0), &SHAPE, true, Nanos(0));
    let (mut end, mut runner) = linked.expect("a shape for which there are plans");
    let named = |row| Event::RowNew {
        row: RowId(row),
        tenant: TenantId(0),
        block: BlockShape::default(),
        profile: ProfileKey(0),
        spill: false,
    };
    assert!(!end.reaches_watch(RowId(4), 7), "another row");
    assert!(!end.reaches_watch(RowId(5), 0), "too early");
    assert!(end.reaches_watch(RowId(5), 1));
    end.tell(named(4));
    assert!(!end.reaches_watch(RowId(5), 2), "reached before");
    end.tell(named(5));
    runner.run();
    assert!(end.reaches_watch(RowId(5), 1));
}
