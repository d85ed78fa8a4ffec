//! A policy that is slower than the events come: what it missed is made good, and its plans are right again.

mod common;

use common::{Rig, SHAPE, launch};
use gridmux_policy::event::Event;
use gridmux_policy::ids::{DeviceId, RowId, TenantId};
use gridmux_policy::units::Nanos;
use gridmux_policy::{Plan, Policy};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};

/// SMK-P, and everything that it hears.
struct Heard {
    inner: Box<dyn Policy>,
    events: Sender<Event>,
}

impl Policy for Heard {
    fn observe(&mut self, event: &Event) {
        self.events.send(*event).expect("the test listens");
        self.inner.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        self.inner.replan(now, standing, next)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
    }
}

/// On a real clock, where nobody waits for the policy, with room for so many events.
fn rig(events: usize) -> (Rig, Receiver<Event>) {
    let (sender, heard) = channel();
    let policy = Heard {
        inner: gridmux_policy::by_name("smk-p", DeviceId(0), &SHAPE).expect("it exists"),
        events: sender,
    };
    (Rig::on_real_clock(Box::new(policy), events), heard)
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

#[test]
fn after_a_loss_the_policy_hears_of_everything_and_its_plan_is_right() {
    let (mut rig, heard) = rig(16);
    let wires = [rig.join(0, 1), rig.join(1, 1)];
    // Small launches of both, many of which come and go while the policy hears nothing.
    let mut cookie = 0;
    for _ in 0..50 {
        for wire in &wires {
            cookie += 1;
            let mut wire = wire.borrow_mut();
            wire.submissions
                .push_back(launch(cookie, [3, 1, 1], [256, 1, 1]));
        }
        let _ = rig.dispatcher.turn();
        rig.bench.borrow_mut().pass_time();
    }
    while !rig.bench.borrow().in_flight.is_empty() {
        rig.bench.borrow_mut().pass_time();
        let _ = rig.dispatcher.turn();
    }
    // Each has one large launch open when the policy wakes up.
    for wire in &wires {
        let mut wire = wire.borrow_mut();
        assert_eq!(wire.completions.len(), 50);
        wire.submissions
            .push_back(launch(1000, [4000, 1, 1], [256, 1, 1]));
    }
    quiet(&mut rig);

    let events: Vec<Event> = heard.try_iter().collect();
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
    // Equal tenants, equal rows: each gets half of the four SMs, of which each holds eight such blocks.
    let plan = rig.policy.plan();
    let caps: Vec<u32> = rows.keys().map(|row| plan.cap_total(*row)).collect();
    assert_eq!(caps, [16, 16]);
}

#[test]
fn a_loss_that_takes_many_turns_to_make_good_is_made_good_once() {
    // Two hundred rows are four hundred events, and there is room for sixteen.
    let (mut rig, heard) = rig(16);
    let wires: Vec<_> = (0..200).map(|slot| rig.join(slot, 1)).collect();
    for wire in &wires {
        let mut wire = wire.borrow_mut();
        wire.submissions.push_back(launch(1, [2, 1, 1], [64, 1, 1]));
    }
    for _ in 0..20 {
        let _ = rig.dispatcher.turn();
    }
    quiet(&mut rig);
    let events: Vec<Event> = heard.try_iter().collect();
    let last = events.iter().rposition(|e| matches!(e, Event::Lost { .. }));
    let after = &events[last.expect("events were lost")..];
    let counted: BTreeSet<RowId> = after
        .iter()
        .filter_map(|event| match event {
            Event::Counters { row, .. } => Some(*row),
            _ => None,
        })
        .collect();
    assert_eq!(counted.len(), 200);
    let losses = events.iter().filter(|e| matches!(e, Event::Lost { .. }));
    assert!(losses.count() <= 2, "making it good lost events again");
}
