//! Contract: what happens at an instant of lockstep time does not depend on the order in which the host's threads ran.

use crate::scripted::{Rig, launch, submit};
use gridmux_mediator::dispatch::{Doorbells, Message, Notice, Slot, Turn};
use gridmux_mediator::lock::CountedMutex as Mutex;
use gridmux_policy::conformance::{LogEntry, PolicyLog, Silent, Tapped};
use gridmux_policy::event::Event;
use gridmux_policy::units::Nanos;
use std::sync::Arc;

/// Returns a dispatcher under a policy that makes no plan and wants to be asked at a time.
fn rig(wake_at: Option<Nanos>) -> (Rig, PolicyLog) {
    let silent = Silent {
        wake_at,
        ..Silent::default()
    };
    let (policy, log) = Tapped::new(Box::new(silent));
    (Rig::with_policy(policy), log)
}

#[test]
fn a_client_that_says_that_it_runs_again_holds_the_clock_for_all() {
    let mut rig = Rig::new("fifo");
    let (works, holds) = (rig.join(0, 1), rig.join(1, 1));
    rig.settle(100);
    // It has nothing in flight and did nothing since it last waited.
    holds.borrow_mut().runs = true;
    submit(&works, launch(1, [8, 1, 1], [256, 1, 1]));
    rig.turns(100);
    assert_eq!(rig.bench.borrow().permits, 0, "time stands still");
    holds.borrow_mut().runs = false;
    rig.settle(1000);
    assert_eq!(works.borrow().completions.len(), 1);
}

#[test]
fn submissions_of_an_instant_are_taken_by_slot_whoever_was_first() {
    let order_of = |first: usize| {
        let (mut rig, log) = rig(None);
        let wires = [rig.join(0, 1), rig.join(1, 1), rig.join(2, 1)];
        rig.settle(100);
        // One after another each runs, submits a kernel of another shape, and waits; the last holds the clock till
        // then.
        wires[(first + 2) % 3].borrow_mut().runs = true;
        for number in [first, (first + 1) % 3, (first + 2) % 3] {
            let threads = 32 * (u16::try_from(number).unwrap() + 1);
            let submission = launch(1, [4, 1, 1], [threads, 1, 1]);
            let wire = &wires[number];
            submit(wire, submission);
            rig.turns(3);
            wire.borrow_mut().runs = false;
        }
        rig.settle(1000);
        assert!(
            wires
                .iter()
                .all(|wire| wire.borrow().completions.len() == 1)
        );
        let launched = rig.bench.borrow().launched.clone();
        let blocks = launched.iter().map(|launch| (launch.domain, launch.grid));
        (log.take_events(), blocks.collect::<Vec<_>>())
    };
    let expected = order_of(0);
    assert_eq!(order_of(1), expected);
    assert_eq!(order_of(2), expected);
}

#[test]
fn the_policy_is_asked_once_in_an_instant_in_which_its_time_has_come() {
    let wake = Nanos(crate::scripted::BLOCK_NS);
    let (mut rig, log) = rig(Some(wake));
    let wire = rig.join(0, 1);
    // It ends at the very instant at which the policy is to be woken.
    submit(&wire, launch(1, [4, 1, 1], [256, 1, 1]));
    for _ in 0..1000 {
        // A policy that is quick: it sees every event as soon as it was sent.
        let _ = rig.dispatcher.turn();
        rig.policy.run();
    }
    assert_eq!(wire.borrow().completions.len(), 1);
    let entries = log.take();
    let is_timer = |event: &&Event| matches!(event, Event::Timer { at } if *at == wake);
    let timers = entries.iter().filter_map(LogEntry::event).filter(is_timer);
    assert_eq!(timers.count(), 1);
    let asked: Vec<Nanos> = entries.iter().filter_map(LogEntry::asked_at).collect();
    let asked_then = asked.iter().filter(|at| **at == wake);
    assert_eq!(asked_then.count(), 1, "{asked:?}");
}

#[test]
fn control_operations_put_a_client_off_by_their_number_however_they_come() {
    let admitted_at = |turns_between: usize| {
        let mut rig = Rig::new("fifo");
        let (busy, wire) = (rig.join(0, 1), rig.join(1, 1));
        rig.settle(100);
        submit(&busy, launch(1, [64, 1, 1], [256, 1, 1]));
        wire.borrow_mut().runs = true;
        for _ in 0..5 {
            rig.tell(Message::Charge(Slot(1)));
            rig.turns(turns_between);
        }
        submit(&wire, launch(1, [1, 1, 1], [256, 1, 1]));
        wire.borrow_mut().runs = false;
        rig.settle(1000);
        let completion = wire.borrow().completions[0];
        (completion.start_ns, completion.end_ns)
    };
    let expected = admitted_at(0);
    assert_eq!(admitted_at(1), expected);
    assert_eq!(admitted_at(7), expected);
}

#[test]
fn a_control_operation_that_waits_for_what_is_in_flight_does_not_stop_the_clock() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    rig.settle(100);
    submit(&wire, launch(1, [4, 1, 1], [256, 1, 1]));
    rig.turn();
    // It gives memory back that the launch uses, and asks for some: the answer comes when the launch has ended.
    wire.borrow_mut().runs = true;
    rig.tell(Message::Fence(Slot(0), 1));
    rig.tell(Message::Postponed(Slot(0)));
    let is_fenced = |rig: &Rig| {
        let notices = rig.notices();
        notices.filter(|n| matches!(n, Notice::Fenced(..))).count() > 0
    };
    let fenced = (0..100).any(|_| {
        rig.turn();
        is_fenced(&rig)
    });
    assert!(fenced);
    // From then on it runs: nothing passes until it waits.
    let permits = rig.bench.borrow().permits;
    rig.tell(Message::Charge(Slot(0)));
    rig.turns(100);
    assert_eq!(rig.bench.borrow().permits, permits);
}

/// Bells that a test rings by hand.
struct Bells(Mutex<Vec<Slot>>);

impl Doorbells for Bells {
    fn rung(&self, rung: &mut Vec<Slot>) {
        rung.append(&mut self.0.lock());
    }
}

#[test]
fn of_many_quiet_clients_one_that_says_that_it_runs_again_holds_the_clock() {
    let mut rig = Rig::new("fifo");
    let wires: Vec<_> = (0..20).map(|slot| rig.join(slot, 1)).collect();
    let bells = Arc::new(Bells(Mutex::new(Vec::new())));
    rig.dispatcher.set_doorbells(Arc::clone(&bells) as _);
    let turn = |rig: &mut Rig, times: usize| {
        rig.turns(times);
    };
    // Long enough for those that do nothing to be looked at no more; one says all the time that it runs.
    wires[7].borrow_mut().runs = true;
    turn(&mut rig, 10_000);
    wires[3].borrow_mut().runs = true;
    bells.0.lock().push(Slot(3));
    submit(&wires[0], launch(1, [8, 1, 1], [256, 1, 1]));
    bells.0.lock().push(Slot(0));
    for holds in [3, 7] {
        turn(&mut rig, 100);
        assert_eq!(rig.bench.borrow().permits, 0, "{holds} still runs");
        wires[holds].borrow_mut().runs = false;
    }
    turn(&mut rig, 100);
    assert_eq!(wires[0].borrow().completions.len(), 1);
}

#[test]
fn after_a_doorbell_that_rang_for_nothing_the_dispatcher_turns_again() {
    let mut rig = Rig::new("fifo");
    let _wires: Vec<_> = (0..20).map(|slot| rig.join(slot, 1)).collect();
    let bells = Arc::new(Bells(Mutex::new(Vec::new())));
    rig.dispatcher.set_doorbells(Arc::clone(&bells) as _);
    // Long enough for those that do nothing to be looked at no more.
    rig.turns(10_000);
    assert_ne!(rig.dispatcher.turn(), Turn::Worked);
    // The ring took back that its doorbell is wanted: who slept now would not hear it.
    bells.0.lock().push(Slot(3));
    assert_eq!(rig.dispatcher.turn(), Turn::Worked);
    assert_ne!(rig.dispatcher.turn(), Turn::Worked);
}
