//! Contract: what the statistics say binds a tenant is what does: each reason in a situation that makes it true, and
//! for how long it has been that one. (Device memory, which the control thread refuses, is in
//! `tests/tests/service/pauses.rs`.)

use crate::scripted::{BLOCK_NS, Rig, SharedWire, launch, on_stream, sliced, submit};
use gridmux_channel::ring::{CompletionStatus, Operation};
use gridmux_mediator::device::Outcome;
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_mediator::dispatch::accounts::{Account, TenantState};
use gridmux_mediator::dispatch::why::{Binding, Why};
use gridmux_mediator::dispatch::{Message, Slot};
use gridmux_policy::Class;
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;
use gridmux_ptx::Kernel;
use gridmux_ptx::kernel::Entry;
use std::sync::Arc;

/// A tenant with a client.
struct Party {
    wire: SharedWire,
    counters: Arc<TenantCounters>,
}

/// Returns a rig on a real clock, on which nothing ends before the test says so, and two tenants of equal weight.
fn rig(policy: &str) -> (Rig, [Party; 2]) {
    let mut rig = Rig::on_real_clock(crate::scripted::named(policy), 8192);
    let parties = [0, 1].map(|slot| {
        let counters = Arc::new(TenantCounters::default());
        let wire = rig.join_as(slot, TenantId(slot.into()), 1, Arc::clone(&counters));
        Party { wire, counters }
    });
    rig.turns(4);
    (rig, parties)
}

/// Returns what binds a tenant when the dispatcher has nothing to do any more.
fn binding(rig: &mut Rig, party: &Party) -> Binding {
    rig.turns(50);
    let _ = rig.dispatcher.arm();
    rig.dispatcher.disarm();
    party.counters.read().binding
}

fn why(rig: &mut Rig, party: &Party) -> Why {
    binding(rig, party).why
}

/// Ends all that is on the device, and what comes after it.
fn end_all(rig: &mut Rig) {
    rig.turns(20);
    while !rig.bench.borrow().in_flight.is_empty() {
        rig.bench.borrow_mut().pass_time();
        rig.turns(20);
    }
}

/// Has the dispatcher know how long the kernels' blocks of 1024 threads last.
fn prove(rig: &mut Rig, parties: &[Party]) {
    for party in parties {
        submit(&party.wire, launch(900, [1, 1, 1], [1024, 1, 1]));
    }
    end_all(rig);
}

#[test]
fn who_has_nothing_to_do_has_nothing_to_do() {
    let (mut rig, [party, _]) = rig("fifo");
    let idle = binding(&mut rig, &party);
    assert_eq!(idle.why, Why::Idle);
    assert!(idle.since_ns > 0);
    submit(&party.wire, launch(1, [1, 1, 1], [32, 1, 1]));
    end_all(&mut rig);
    let again = binding(&mut rig, &party);
    assert_eq!(again.why, Why::Idle);
}

#[test]
fn nothing_binds_whose_launches_are_on_the_device_and_the_time_is_that_of_the_change() {
    let (mut rig, [party, _]) = rig("fifo");
    let idle = binding(&mut rig, &party);
    submit(&party.wire, launch(1, [1, 1, 1], [32, 1, 1]));
    let running = binding(&mut rig, &party);
    assert_eq!(running.why, Why::Nothing);
    assert!(running.since_ns >= idle.since_ns);
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(binding(&mut rig, &party), running, "it is still that");
    end_all(&mut rig);
    let after = binding(&mut rig, &party);
    assert_eq!(after.why, Why::Idle);
    assert!(after.since_ns >= running.since_ns + 2_000_000);
}

#[test]
fn the_program_or_another_stream_binds_where_those_are_waited_for() {
    let (mut rig, [party, _]) = rig("fifo");
    submit(&party.wire, on_stream(0, 1, Operation::Hold { count: 1 }));
    submit(&party.wire, launch(2, [1, 1, 1], [32, 1, 1]));
    assert_eq!(why(&mut rig, &party), Why::Streams);
    party.wire.borrow_mut().released[0] = 1;
    assert_eq!(why(&mut rig, &party), Why::Nothing);
}

#[test]
fn a_pause_binds_with_and_without_launches() {
    let (mut rig, [party, _]) = rig("fifo");
    let set = |rig: &Rig, state| {
        let account = Account::new(TenantId(0), 1, Class::Normal, Arc::default());
        let account = Account { state, ..account };
        rig.tell(Message::Tenant(Box::new(account)));
    };
    set(&rig, TenantState::Paused);
    assert_eq!(why(&mut rig, &party), Why::Paused);
    submit(&party.wire, launch(1, [1, 1, 1], [32, 1, 1]));
    assert_eq!(why(&mut rig, &party), Why::Paused);
    set(&rig, TenantState::Running);
    assert_eq!(why(&mut rig, &party), Why::Nothing);
}

#[test]
fn who_keeps_ending_at_the_budget_is_behind_while_another_has_a_launch() {
    let (mut rig, [party, other]) = rig("fifo");
    let budget = Outcome::Failed(CompletionStatus::Budget);
    rig.bench.borrow_mut().outcome = Some(budget);
    for cookie in 0..2 {
        submit(&party.wire, launch(cookie, [1, 1, 1], [32, 1, 1]));
        end_all(&mut rig);
    }
    rig.bench.borrow_mut().outcome = None;
    submit(&other.wire, launch(1, [1, 1, 1], [32, 1, 1]));
    rig.turns(20);
    submit(&party.wire, launch(3, [1, 1, 1], [32, 1, 1]));
    assert_eq!(why(&mut rig, &party), Why::Behind);
    assert_eq!(why(&mut rig, &other), Why::Nothing);
}

#[test]
fn the_thread_that_submits_binds_while_it_is_busy() {
    let (mut rig, [party, other]) = rig("fifo");
    rig.bench.borrow_mut().submission.each = Nanos(50_000);
    submit(&other.wire, launch(1, [1, 1, 1], [32, 1, 1]));
    rig.turns(20);
    submit(&party.wire, launch(1, [1, 1, 1], [32, 1, 1]));
    assert_eq!(why(&mut rig, &party), Why::Submission);
    rig.bench.borrow_mut().now += 60_000;
    assert_eq!(why(&mut rig, &party), Why::Nothing);
}

#[test]
fn a_gang_that_is_being_placed_binds_the_others() {
    let (mut rig, [party, other]) = rig("fifo");
    rig.bench.borrow_mut().starts_late = true;
    let gang = Arc::new(Kernel {
        is_gang: true,
        entries: vec![Entry::whole("k")],
        ..Kernel::clone(&sliced(16))
    });
    rig.add_kernel(1, gang);
    submit(&other.wire, launch(1, [2, 1, 1], [32, 1, 1]));
    rig.turns(20);
    submit(&party.wire, launch(1, [1, 1, 1], [32, 1, 1]));
    assert_eq!(why(&mut rig, &party), Why::Gang);
    end_all(&mut rig);
    assert_eq!(party.wire.borrow().cookies(), [1]);
}

#[test]
fn queues_bind_who_has_taken_his_part_of_them() {
    let (mut rig, [party, _]) = rig("fifo");
    prove(&mut rig, std::slice::from_ref(&party));
    for stream in 1..32 {
        rig.tell(Message::AddStream(Slot(0), stream));
    }
    for stream in 0..32 {
        let entry = launch(stream.into(), [1, 1, 1], [1024, 1, 1]);
        let operation = entry.decode().expect("a launch");
        submit(&party.wire, on_stream(stream, stream.into(), operation));
    }
    assert_eq!(why(&mut rig, &party), Why::Queues);
}

#[test]
fn the_order_binds_who_stands_behind_others_in_a_strict_line() {
    let (mut rig, [party, other]) = rig("fifo-strict");
    let parties = [party, other];
    prove(&mut rig, &parties);
    let [party, other] = parties;
    submit(&other.wire, launch(1, [4_000, 1, 1], [1024, 1, 1]));
    rig.turns(20);
    // Of one instant, the slot decides.
    rig.bench.borrow_mut().now += 1;
    submit(&party.wire, launch(1, [1, 1, 1], [1024, 1, 1]));
    assert_eq!(why(&mut rig, &party), Why::Order);
    assert_eq!(why(&mut rig, &other), Why::Nothing);
}

#[test]
fn the_order_binds_whose_launches_wait_on_the_device_for_the_room_of_others() {
    let (mut rig, [party, other]) = rig("fifo");
    submit(&other.wire, launch(1, [1, 1, 1], [1024, 1, 1]));
    rig.turns(20);
    rig.bench.borrow_mut().starts_late = true;
    submit(&party.wire, launch(1, [1, 1, 1], [1024, 1, 1]));
    assert_eq!(why(&mut rig, &party), Why::Order);
}

#[test]
fn a_cap_binds_who_has_as_many_blocks_as_the_plan_lets_reside() {
    let (mut rig, [party, other]) = rig("even");
    let parties = [party, other];
    prove(&mut rig, &parties);
    for party in &parties {
        submit(&party.wire, launch(1, [4_000, 1, 1], [1024, 1, 1]));
    }
    for party in &parties {
        assert_eq!(why(&mut rig, party), Why::Cap);
    }
}

#[test]
fn a_limit_binds_who_has_as_much_of_the_device_as_the_plan_lets_it_have() {
    let (mut rig, [party, other]) = rig("smk-p-strict");
    let parties = [party, other];
    prove(&mut rig, &parties);
    for party in &parties {
        submit(&party.wire, launch(1, [4_000, 1, 1], [1024, 1, 1]));
    }
    for party in &parties {
        assert_eq!(why(&mut rig, party), Why::Limit);
    }
}

#[test]
fn a_kernel_of_which_no_block_has_ended_gets_a_small_window() {
    let (mut rig, [party, _]) = rig("fifo");
    submit(&party.wire, launch(1, [4_000, 1, 1], [1024, 1, 1]));
    assert_eq!(why(&mut rig, &party), Why::Unproven);
    rig.bench.borrow_mut().pass_time();
    assert_ne!(why(&mut rig, &party), Why::Unproven);
    assert!(rig.bench.borrow().now >= BLOCK_NS);
}
