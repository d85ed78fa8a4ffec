//! Contract: a hold keeps what stands behind it in its stream until its client releases it, and nothing else.

use crate::scripted::{Rig, Wire, launch_on, on_stream, submit};
use gridmux_channel::ring::{Operation, SubmissionEntry};
use gridmux_mediator::dispatch::ids::OPERATIONS_PER_CLIENT;
use gridmux_mediator::dispatch::{Message, Notice, Slot};
use std::cell::RefCell;

fn kernel_on(stream: u16, cookie: u64) -> SubmissionEntry {
    launch_on(stream, cookie, 4)
}

fn hold(stream: u16, count: u64, cookie: u64) -> SubmissionEntry {
    on_stream(stream, cookie, Operation::Hold { count })
}

fn order(wire: &RefCell<Wire>) -> Vec<u64> {
    wire.borrow().cookies()
}

fn rigs() -> [(&'static str, Rig); 4] {
    [
        ("fifo, lockstep", Rig::new("fifo")),
        ("smk-p, lockstep", Rig::new("smk-p")),
        ("fifo, live", Rig::live("fifo")),
        ("smk-p, live", Rig::live("smk-p")),
    ]
}

#[test]
fn what_stands_behind_a_hold_waits_for_its_release_in_every_stream() {
    for (name, mut rig) in rigs() {
        let wire = rig.join(0, 1);
        rig.tell(Message::AddStream(Slot(0), 1));
        rig.tell(Message::AddStream(Slot(0), 2));
        wire.borrow_mut().submissions.extend([
            kernel_on(0, 1),
            hold(0, 1, 2),
            kernel_on(0, 3),
            on_stream(1, 4, Operation::Wait { cookie: 3 }),
            kernel_on(1, 5),
            kernel_on(2, 6),
        ]);
        assert!(rig.settle(10_000) < 10_000, "{name}: it comes to rest");
        let mut before = order(&wire);
        before.sort_unstable();
        assert_eq!(before, [1, 6], "{name}: only what waits for nothing");
        wire.borrow_mut().released[0] = 1;
        assert!(rig.settle(10_000) < 10_000, "{name}");
        assert_eq!(order(&wire).len(), 6, "{name}");
        assert!(
            wire.borrow().times(1).1 <= wire.borrow().times(2).1,
            "{name}"
        );
        assert!(
            wire.borrow().times(2).1 <= wire.borrow().times(3).0,
            "{name}"
        );
        assert!(
            wire.borrow().times(3).1 <= wire.borrow().times(5).0,
            "{name}"
        );
    }
}

#[test]
fn a_release_ends_the_holds_up_to_its_count_and_no_other() {
    for (name, mut rig) in rigs() {
        let wire = rig.join(0, 1);
        // Released before the mediator knows of them.
        wire.borrow_mut().released[0] = 2;
        wire.borrow_mut().submissions.extend([
            kernel_on(0, 1),
            hold(0, 1, 2),
            hold(0, 2, 3),
            hold(0, 3, 4),
            kernel_on(0, 5),
        ]);
        assert!(rig.settle(10_000) < 10_000, "{name}");
        assert_eq!(order(&wire), [1, 2, 3], "{name}");
        wire.borrow_mut().released[1] = 3;
        assert!(rig.settle(10_000) < 10_000, "{name}");
        assert_eq!(order(&wire).len(), 3, "{name}: that was another stream's");
        wire.borrow_mut().released[0] = u64::MAX;
        assert!(rig.settle(10_000) < 10_000, "{name}");
        assert_eq!(order(&wire), [1, 2, 3, 4, 5], "{name}");
    }
}

#[test]
fn holds_that_nobody_releases_keep_no_other_client_and_no_clock() {
    for (name, mut rig) in rigs() {
        let (bad, good) = (rig.join(0, 1), rig.join(1, 1));
        let holds = (1..=500).map(|cookie| hold(0, u64::MAX, cookie));
        bad.borrow_mut().submissions.extend(holds);
        for cookie in 1..=50 {
            submit(&good, kernel_on(0, cookie));
        }
        assert!(rig.settle(100_000) < 100_000, "{name}: it comes to rest");
        assert_eq!(order(&good).len(), 50, "{name}");
        assert!(order(&bad).is_empty(), "{name}");
        let left = bad.borrow().submissions.len();
        assert_eq!(
            left,
            500 - OPERATIONS_PER_CLIENT,
            "{name}: one bound for all"
        );
        bad.borrow_mut().released[0] = u64::MAX;
        assert!(rig.settle(100_000) < 100_000, "{name}");
        assert_eq!(order(&bad).len(), 500, "{name}");
    }
}

#[test]
fn a_loop_of_holds_costs_its_client_virtual_time() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    wire.borrow_mut().released[0] = u64::MAX;
    let now = rig.bench.borrow().now;
    wire.borrow_mut()
        .submissions
        .extend((1..=1000).map(|cookie| hold(0, 1, cookie)));
    rig.settle(100_000);
    assert_eq!(order(&wire).len(), 1000);
    assert!(rig.bench.borrow().now > now);
}

#[test]
fn a_hold_ends_with_its_stream_and_with_its_client() {
    for (name, mut rig) in rigs() {
        let wire = rig.join(0, 1);
        rig.tell(Message::AddStream(Slot(0), 1));
        wire.borrow_mut().submissions.extend([
            hold(1, 1, 1),
            kernel_on(1, 2),
            hold(1, 2, 3),
            hold(0, 1, 4),
        ]);
        rig.settle(10_000);
        assert!(order(&wire).is_empty(), "{name}");
        rig.tell(Message::RemoveStream(Slot(0), 1));
        assert!(rig.settle(10_000) < 10_000, "{name}");
        assert_eq!(order(&wire), [1, 2, 3], "{name}");
        let gone = |notice| matches!(notice, Notice::StreamGone(Slot(0), 1));
        assert!(
            rig.notices().any(gone),
            "{name}: the stream's number is free"
        );
        rig.tell(Message::Leave(Slot(0)));
        assert!(rig.settle(10_000) < 10_000, "{name}");
        let gone = |notice| matches!(notice, Notice::Gone(Slot(0), _));
        assert!(rig.notices().any(gone), "{name}: the client is handed back");
    }
}
