//! The dispatcher against a scripted device: slices, order, refusals, failures, departures.

use crate::scripted::{Rig, SharedWire, launch, launch_on, on_stream, submit};
use gridmux_channel::ring::{CompletionStatus, Operation, SubmissionEntry};
use gridmux_mediator::device::Outcome;
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_mediator::dispatch::{Message, Notice, Slot};
use gridmux_policy::conformance::{Silent, Tapped};
use gridmux_policy::event::Event;
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;
use std::sync::Arc;

fn field(params: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(params[at..at + 4].try_into().unwrap())
}

#[test]
fn slices_cover_a_grid_once_and_in_order() {
    let mut rig = Rig::new("smk-p");
    rig.bench.borrow_mut().keeps_params = true;
    let wire = rig.join(0, 1);
    submit(&wire, launch(7, [50, 3, 2], [256, 1, 1]));
    rig.settle(10_000);
    let bench = rig.bench.borrow();
    assert!(bench.launched.len() > 1, "the launch was not sliced");
    let mut next = 0;
    for (slice, params) in bench.launched.iter().zip(&bench.params) {
        assert_eq!(
            &params[64..],
            &[0xa5; 16],
            "the tenant's own parameters stay"
        );
        let offset = [0, 4, 8].map(|at| field(params, at));
        assert_eq!([12, 16, 20].map(|at| field(params, at)), [50, 3, 2]);
        assert_eq!(offset[0] + 50 * (offset[1] + 3 * offset[2]), next);
        next += slice.grid.iter().product::<u32>();
    }
    assert_eq!(next, 300);
    let completions = &wire.borrow().completions;
    assert_eq!(completions.len(), 1);
    assert_eq!(
        (completions[0].cookie, completions[0].status),
        (7, CompletionStatus::Ok as u32)
    );
}

/// Runs one launch of each tenant, so that the dispatcher knows how long their blocks take.
fn learn(rig: &mut Rig, wires: &[&SharedWire]) {
    for wire in wires {
        submit(wire, launch(0, [1, 1, 1], [256, 1, 1]));
    }
    rig.settle(1000);
    rig.bench.borrow_mut().launched.clear();
    for wire in wires {
        wire.borrow_mut().completions.clear();
    }
}

#[test]
fn a_kernel_that_never_ran_begins_with_a_small_window() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    submit(&wire, launch(1, [1000, 1, 1], [256, 1, 1]));
    let _ = rig.dispatcher.turn();
    rig.turn();
    let first = rig.bench.borrow().grids();
    assert_eq!(first, [1], "a quarter of a block per SM");
    rig.settle(1000);
    let all: u32 = rig.bench.borrow().grids().iter().sum();
    assert_eq!(all, 1000);
    assert!(
        rig.bench.borrow().launched.len() < 6,
        "and goes on in large ones"
    );
}

#[test]
fn fifo_launches_whole_and_in_order_of_arrival() {
    let mut rig = Rig::new("fifo");
    let first = rig.join(0, 1);
    let second = rig.join(1, 1);
    learn(&mut rig, &[&first, &second]);
    submit(&first, launch(1, [1000, 1, 1], [256, 1, 1]));
    submit(&second, launch(2, [8, 1, 1], [256, 1, 1]));
    rig.settle(1000);
    let grids = rig.bench.borrow().grids();
    assert_eq!(grids, [1000, 8]);
}

#[test]
fn a_stream_runs_one_operation_after_another() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    for cookie in 0..5 {
        submit(&wire, launch(cookie, [4, 1, 1], [32, 1, 1]));
    }
    rig.settle(1000);
    let wire = wire.borrow();
    assert_eq!(wire.cookies(), [0, 1, 2, 3, 4]);
    for pair in wire.completions.windows(2) {
        assert!(
            pair[0].end_ns <= pair[1].start_ns,
            "operations of one stream overlapped"
        );
    }
}

#[test]
fn refusals_name_their_reason_and_keep_their_place() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    let bad = |entry: SubmissionEntry| submit(&wire, entry);
    bad(launch(1, [0, 1, 1], [32, 1, 1]));
    bad(launch(2, [1, 70_000, 1], [32, 1, 1]));
    bad(launch(3, [1, 1, 1], [1025, 1, 1]));
    bad(on_stream(9, 4, Operation::Barrier));
    let copy = gridmux_channel::ring::Copy {
        iova: 0x1000,
        address: 0,
        len: 1,
    };
    bad(on_stream(0, 5, Operation::CopyToDevice(copy)));
    bad(launch(6, [1, 1, 1], [32, 1, 1]));
    rig.settle(1000);
    let statuses: Vec<u32> = wire.borrow().completions.iter().map(|c| c.status).collect();
    let expected = [
        CompletionStatus::BadShape,
        CompletionStatus::BadShape,
        CompletionStatus::BadShape,
        CompletionStatus::BadStream,
        CompletionStatus::BadIova,
        CompletionStatus::Ok,
    ];
    assert_eq!(statuses, expected.map(|status| status as u32));
    let mut reasons = 0;
    while let Some(notice) = rig.control.notices.pop() {
        assert!(matches!(notice, Notice::Refused { .. }));
        reasons += 1;
    }
    assert_eq!(reasons, 5);
}

#[test]
fn a_failed_slice_kills_the_rest_of_its_launch_only() {
    let mut rig = Rig::new("smk-p");
    let bad = rig.join(0, 1);
    let good = rig.join(1, 1);
    submit(&bad, launch(1, [4_000_000, 1, 1], [256, 1, 1]));
    rig.policy.run();
    for _ in 0..3 {
        let _ = rig.dispatcher.turn();
        rig.policy.run();
    }
    rig.bench.borrow_mut().outcome = Some(Outcome::Failed(CompletionStatus::MemoryFault));
    rig.settle(10_000);
    rig.bench.borrow_mut().outcome = None;
    submit(&good, launch(2, [64, 1, 1], [256, 1, 1]));
    rig.settle(10_000);
    assert_eq!(
        bad.borrow().completions[0].status,
        CompletionStatus::MemoryFault as u32
    );
    assert_eq!(
        good.borrow().completions[0].status,
        CompletionStatus::Ok as u32
    );
    let blocks: u32 = rig
        .bench
        .borrow()
        .launched
        .iter()
        .filter(|l| l.domain.0 == 0)
        .map(|l| l.grid[0])
        .sum();
    assert!(blocks < 4_000_000, "the launch went on after its failure");
    assert!(!rig.bench.borrow().killed.is_empty());
}

#[test]
fn a_tenant_that_leaves_is_drained_and_handed_back() {
    let mut rig = Rig::new("smk-p");
    let leaving = rig.join(0, 1);
    let staying = rig.join(1, 1);
    for cookie in 0..20 {
        submit(&leaving, launch(cookie, [100, 1, 1], [256, 1, 1]));
        submit(&staying, launch(cookie, [100, 1, 1], [256, 1, 1]));
    }
    rig.turns(20);
    rig.tell(Message::Leave(Slot(0)));
    rig.settle(100_000);
    assert_eq!(staying.borrow().completions.len(), 20);
    let gone = rig
        .notices()
        .filter(|n| matches!(n, Notice::Gone(Slot(0), _)));
    assert_eq!(gone.count(), 1);
    assert!(rig.bench.borrow().in_flight.is_empty());
}

#[test]
fn a_full_completion_ring_holds_up_its_own_tenant_only() {
    let mut rig = Rig::new("fifo");
    let lazy = rig.join(0, 1);
    let busy = rig.join(1, 1);
    lazy.borrow_mut().room = 1;
    for cookie in 0..4 {
        submit(&lazy, launch(cookie, [4, 1, 1], [32, 1, 1]));
        submit(&busy, launch(cookie, [4, 1, 1], [32, 1, 1]));
    }
    rig.settle(1000);
    assert_eq!(busy.borrow().completions.len(), 4);
    assert_eq!(lazy.borrow().completions.len(), 1);
    lazy.borrow_mut().room = 10;
    rig.settle(1000);
    assert_eq!(lazy.borrow().cookies(), [0, 1, 2, 3]);
}

#[test]
fn on_a_real_clock_the_policy_is_woken_once_when_its_time_has_come() {
    let wake_at = Some(Nanos(5000));
    let sleeper = Silent {
        wake_at,
        ..Silent::default()
    };
    let (policy, log) = Tapped::new(Box::new(sleeper));
    // Longer than the test's time: how long a plan took decides else when the next may be.
    let mut rig = Rig::woken_after(policy, 4096, Nanos(10_000));
    for (now, times) in [(0, 0), (4999, 0), (5000, 1), (9000, 0)] {
        rig.bench.borrow_mut().now = now;
        let _ = rig.dispatcher.turn();
        rig.policy.run();
        let events = log.take_events().into_iter();
        let woken = events.filter(|event| matches!(event, Event::Timer { .. }));
        assert_eq!(woken.count(), times, "at {now} ns");
    }
}

#[test]
fn a_stream_that_waits_goes_on_when_the_other_operation_has_completed() {
    for policy in ["fifo", "smk-p"] {
        let mut rig = Rig::new(policy);
        let wire = rig.join(0, 1);
        rig.tell(Message::AddStream(Slot(0), 1));
        for entry in [
            // What is waited for is a barrier behind two launches, which has begun nothing itself.
            launch_on(0, 1, 4),
            launch_on(0, 2, 4),
            on_stream(0, 3, Operation::Barrier),
            on_stream(1, 4, Operation::Wait { cookie: 3 }),
            launch_on(1, 5, 4),
            on_stream(1, 6, Operation::Wait { cookie: 77 }),
            on_stream(1, 7, Operation::Wait { cookie: 5 }),
        ] {
            submit(&wire, entry);
        }
        assert!(rig.settle(10_000) < 10_000, "{policy}: it comes to rest");
        let wire = wire.borrow();
        assert_eq!(wire.completions.len(), 7, "{policy}");
        let (start, end) = wire.times(5);
        assert!(wire.times(2).1 <= start, "{policy}: it overtook the wait");
        assert!(
            wire.times(3).1 >= wire.times(2).1,
            "{policy}: a barrier ends with what stands before it"
        );
        assert!(wire.times(4).1 >= wire.times(2).1, "{policy}");
        assert!(wire.times(7).1 >= end, "{policy}");
    }
}

#[test]
fn a_wait_whose_operation_completed_before_its_turn_is_over_at_once() {
    for policy in ["fifo", "smk-p"] {
        let mut rig = Rig::new(policy);
        let wire = rig.join(0, 1);
        rig.tell(Message::AddStream(Slot(0), 1));
        wire.borrow_mut().submissions.extend([
            launch_on(0, 1, 1),
            launch_on(1, 2, 1000),
            on_stream(1, 3, Operation::Wait { cookie: 1 }),
            on_stream(1, 4, Operation::Wait { cookie: 3 }),
            launch_on(1, 5, 1),
        ]);
        assert!(rig.settle(10_000) < 10_000, "{policy}: it comes to rest");
        let wire = wire.borrow();
        assert_eq!(wire.cookies(), [1, 2, 3, 4, 5], "{policy}");
        let (turn, over) = (wire.times(2).1, wire.times(3).1);
        assert!(wire.times(1).1 < turn && turn <= over, "{policy}");
    }
}

#[test]
fn a_wait_that_is_not_over_keeps_nobody_else_back() {
    let mut rig = Rig::new("fifo");
    let (first, second) = (rig.join(0, 1), rig.join(1, 1));
    rig.tell(Message::AddStream(Slot(0), 1));
    let wait = on_stream(1, 2, Operation::Wait { cookie: 1 });
    first
        .borrow_mut()
        .submissions
        .extend([launch(1, [4, 1, 1], [32, 1, 1]), wait]);
    submit(&second, launch(3, [4, 1, 1], [32, 1, 1]));
    rig.settle(10_000);
    let (started, _) = second.borrow().times(3);
    let (_, over) = first.borrow().times(2);
    assert!(
        started < over,
        "{started} is behind the wait's end at {over}"
    );
}

#[test]
fn memory_operations_on_the_device_are_carried_out_in_order() {
    use gridmux_channel::ring::{DeviceCopy, Memset, Width};
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    let copy = DeviceCopy {
        from: 0,
        to: 64,
        len: 64,
    };
    let memset = Memset {
        address: 0,
        len: 64,
        value: 7,
        width: Width::Two,
    };
    for entry in [
        on_stream(0, 1, Operation::Memset(memset)),
        on_stream(0, 2, Operation::CopyOnDevice(copy)),
    ] {
        submit(&wire, entry);
    }
    rig.settle(1000);
    let wire = wire.borrow();
    assert!(wire.times(1).1 <= wire.times(2).0);
}

fn notices(rig: &Rig) -> Vec<String> {
    let name = |notice| match notice {
        Notice::Gone(slot, _) => format!("gone {}", slot.0),
        Notice::Fenced(slot, number) => format!("fenced {} {number}", slot.0),
        Notice::StreamGone(slot, stream) => format!("stream {} {stream}", slot.0),
        Notice::Known(_)
        | Notice::Rows(_)
        | Notice::Corrupt(..)
        | Notice::Failed { .. }
        | Notice::Refused { .. } => "other".to_owned(),
    };
    rig.notices().map(name).collect()
}

#[test]
fn a_fence_is_answered_when_what_was_admitted_before_it_has_ended() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    let other = rig.join(1, 1);
    rig.settle(100);
    rig.tell(Message::Fence(Slot(0), 1));
    let _ = rig.dispatcher.turn();
    assert_eq!(notices(&rig), ["fenced 0 1"], "nothing is under way");

    wire.borrow_mut().room = 0;
    let submit = |wire: &std::cell::RefCell<crate::scripted::Wire>, cookie| {
        submit(wire, launch(cookie, [4, 1, 1], [32, 1, 1]));
    };
    submit(&wire, 1);
    submit(&other, 1);
    rig.settle(100);
    rig.tell(Message::Fence(Slot(0), 2));
    rig.tell(Message::Fence(Slot(1), 1));
    rig.settle(100);
    assert_eq!(
        notices(&rig),
        ["fenced 1 1"],
        "the other client has nothing under way, and this one's launch has not ended"
    );
    // What is admitted after the fence does not hold it up.
    wire.borrow_mut().room = 1;
    submit(&wire, 2);
    rig.settle(100);
    assert_eq!(notices(&rig), ["fenced 0 2"]);
    assert_eq!(wire.borrow().completions.len(), 1);
}

#[test]
fn a_stream_that_is_to_end_keeps_its_number_until_it_is_empty_and_takes_nothing_more() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    rig.tell(Message::AddStream(Slot(0), 3));
    rig.tell(Message::AddStream(Slot(0), 4));
    let on = |stream, cookie| {
        submit(&wire, on_stream(stream, cookie, Operation::Barrier));
    };
    wire.borrow_mut().room = 0;
    on(3, 1);
    rig.settle(100);
    rig.tell(Message::RemoveStream(Slot(0), 3));
    rig.tell(Message::RemoveStream(Slot(0), 4));
    rig.settle(100);
    assert_eq!(
        notices(&rig),
        ["stream 0 4"],
        "an empty stream ends at once"
    );
    on(3, 2);
    rig.settle(100);
    assert_eq!(notices(&rig), ["other"], "a submission is refused");
    wire.borrow_mut().room = 10;
    rig.settle(100);
    assert_eq!(notices(&rig), ["stream 0 3"]);
    let statuses: Vec<_> = wire
        .borrow()
        .completions
        .iter()
        .map(|c| (c.cookie, c.status))
        .collect();
    assert!(
        statuses.contains(&(1, CompletionStatus::Ok as u32)),
        "{statuses:?}"
    );
    assert!(
        statuses.contains(&(2, CompletionStatus::BadStream as u32)),
        "{statuses:?}"
    );
    rig.tell(Message::AddStream(Slot(0), 3));
    on(3, 3);
    rig.settle(100);
    assert_eq!(
        wire.borrow().completions.last().unwrap().status,
        CompletionStatus::Ok as u32
    );
}

#[test]
fn a_client_that_leaves_leaves_its_tenants_account_exactly() {
    let mut rig = Rig::new("smk-p");
    let counters = Arc::new(TenantCounters::default());
    let tenant = TenantId(9);
    let leaving = rig.join_as(0, tenant, 1, Arc::clone(&counters));
    let staying = rig.join_as(1, tenant, 1, Arc::clone(&counters));
    for cookie in 0..20 {
        for wire in [&leaving, &staying] {
            submit(wire, launch(cookie, [100, 1, 1], [256, 1, 1]));
        }
    }
    rig.turns(20);
    assert!(counters.read().pending > 20, "both have launches under way");
    rig.tell(Message::Leave(Slot(0)));
    rig.settle(100_000);
    assert_eq!(staying.borrow().completions.len(), 20);
    let usage = counters.read();
    assert_eq!(usage.pending, 0, "{usage:?}");
    assert_eq!(
        usage.submitted,
        usage.completed + usage.abandoned,
        "{usage:?}"
    );
    assert!(usage.abandoned > 0, "{usage:?}");

    // The policy's books are balanced: a newcomer in the same slot, of another tenant, gets all of the device.
    rig.tell(Message::Leave(Slot(1)));
    rig.settle(1000);
    let newcomer = rig.join(0, 1);
    submit(&newcomer, launch(1, [64, 1, 1], [512, 1, 1]));
    rig.settle(10_000);
    assert_eq!(newcomer.borrow().completions.len(), 1);
}

#[test]
fn more_clients_than_a_word_has_bits_are_served() {
    let mut rig = Rig::new("smk-p");
    let wires: Vec<_> = (0..200).map(|slot| rig.join(slot, 1)).collect();
    for wire in &wires {
        submit(wire, launch(1, [2, 1, 1], [64, 1, 1]));
    }
    rig.settle(100_000);
    for wire in &wires {
        assert_eq!(wire.borrow().completions.len(), 1);
    }
}
