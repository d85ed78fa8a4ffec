//! The dispatcher against a scripted device: slices, order, refusals, failures, departures.

mod common;

use common::{Rig, launch};
use gridmux_channel::ring::{CompletionStatus, Operation, SubmissionEntry};
use gridmux_mediator::device::Outcome;
use gridmux_mediator::dispatch::{Message, Notice, Slot};
use gridmux_policy::event::Event;
use gridmux_policy::units::Nanos;
use gridmux_policy::{Plan, Policy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn field(params: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(params[at..at + 4].try_into().unwrap())
}

#[test]
fn slices_cover_a_grid_once_and_in_order() {
    let mut rig = Rig::new("smk-p");
    let wire = rig.join(0, 1);
    wire.borrow_mut()
        .submissions
        .push_back(launch(7, [50, 3, 2], [256, 1, 1]));
    rig.settle(10_000);
    let bench = rig.bench.borrow();
    assert!(bench.launched.len() > 1, "the launch was not sliced");
    let mut next = 0;
    for slice in &bench.launched {
        let params = slice.params.as_slice();
        assert_eq!(
            &params[..16],
            &[0xa5; 16],
            "the tenant's own parameters stay"
        );
        let offset = [0, 4, 8].map(|at| field(params, 16 + at));
        assert_eq!([12, 16, 20].map(|at| field(params, 16 + at)), [50, 3, 2]);
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

#[test]
fn fifo_launches_whole_and_in_order_of_arrival() {
    let mut rig = Rig::new("fifo");
    let first = rig.join(0, 1);
    let second = rig.join(1, 1);
    first
        .borrow_mut()
        .submissions
        .push_back(launch(1, [1000, 1, 1], [256, 1, 1]));
    second
        .borrow_mut()
        .submissions
        .push_back(launch(2, [8, 1, 1], [256, 1, 1]));
    rig.settle(1000);
    let grids: Vec<u32> = rig
        .bench
        .borrow()
        .launched
        .iter()
        .map(|l| l.grid[0])
        .collect();
    assert_eq!(grids, [1000, 8]);
}

#[test]
fn a_stream_runs_one_operation_after_another() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    for cookie in 0..5 {
        wire.borrow_mut()
            .submissions
            .push_back(launch(cookie, [4, 1, 1], [32, 1, 1]));
    }
    rig.settle(1000);
    let wire = wire.borrow();
    let cookies: Vec<u64> = wire.completions.iter().map(|c| c.cookie).collect();
    assert_eq!(cookies, [0, 1, 2, 3, 4]);
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
    let bad = |entry: SubmissionEntry| wire.borrow_mut().submissions.push_back(entry);
    bad(launch(1, [0, 1, 1], [32, 1, 1]));
    bad(launch(2, [1, 70_000, 1], [32, 1, 1]));
    bad(launch(3, [1, 1, 1], [1025, 1, 1]));
    bad(SubmissionEntry::new(Operation::Barrier, 9, 4, 0));
    let copy = gridmux_channel::ring::Copy {
        iova: 0x1000,
        address: 0,
        len: 1,
    };
    bad(SubmissionEntry::new(Operation::CopyToDevice(copy), 0, 5, 0));
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
    bad.borrow_mut()
        .submissions
        .push_back(launch(1, [4000, 1, 1], [256, 1, 1]));
    rig.policy.run();
    for _ in 0..3 {
        let _ = rig.dispatcher.turn();
        rig.policy.run();
    }
    rig.bench.borrow_mut().outcome = Some(Outcome::Failed(CompletionStatus::MemoryFault));
    rig.settle(10_000);
    rig.bench.borrow_mut().outcome = None;
    good.borrow_mut()
        .submissions
        .push_back(launch(2, [64, 1, 1], [256, 1, 1]));
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
    assert!(blocks < 4000, "the launch went on after its failure");
    assert!(!rig.bench.borrow().killed.is_empty());
}

#[test]
fn a_tenant_that_leaves_is_drained_and_handed_back() {
    let mut rig = Rig::new("smk-p");
    let leaving = rig.join(0, 1);
    let staying = rig.join(1, 1);
    for cookie in 0..20 {
        leaving
            .borrow_mut()
            .submissions
            .push_back(launch(cookie, [100, 1, 1], [256, 1, 1]));
        staying
            .borrow_mut()
            .submissions
            .push_back(launch(cookie, [100, 1, 1], [256, 1, 1]));
    }
    for _ in 0..20 {
        rig.policy.run();
        let _ = rig.dispatcher.turn();
    }
    rig.tell(Message::Leave(Slot(0)));
    rig.settle(100_000);
    assert_eq!(staying.borrow().completions.len(), 20);
    let gone = std::iter::from_fn(|| rig.control.notices.pop())
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
        lazy.borrow_mut()
            .submissions
            .push_back(launch(cookie, [4, 1, 1], [32, 1, 1]));
        busy.borrow_mut()
            .submissions
            .push_back(launch(cookie, [4, 1, 1], [32, 1, 1]));
    }
    rig.settle(1000);
    assert_eq!(busy.borrow().completions.len(), 4);
    assert_eq!(lazy.borrow().completions.len(), 1);
    lazy.borrow_mut().room = 10;
    rig.settle(1000);
    let cookies: Vec<u64> = lazy.borrow().completions.iter().map(|c| c.cookie).collect();
    assert_eq!(cookies, [0, 1, 2, 3]);
}

/// A policy that wants to be woken once, and counts how often it is.
struct Sleeper(Arc<AtomicU32>);

impl Policy for Sleeper {
    fn name(&self) -> &'static str {
        "sleeper"
    }

    fn promises_weights(&self) -> bool {
        false
    }

    fn observe(&mut self, event: &Event) {
        if matches!(event, Event::Timer { .. }) {
            // Relaxed: one thread runs everything here.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn replan(&mut self, _now: Nanos) -> Option<Plan> {
        None
    }

    fn wake_at(&self) -> Option<Nanos> {
        Some(Nanos(5000))
    }
}

#[test]
fn on_a_real_clock_the_policy_is_woken_once_when_its_time_has_come() {
    let woken = Arc::new(AtomicU32::new(0));
    let mut rig = Rig::with_policy(Box::new(Sleeper(Arc::clone(&woken))));
    rig.bench.borrow_mut().has_real_clock = true;
    for (now, times) in [(0, 0), (4999, 0), (5000, 1), (9000, 1)] {
        rig.bench.borrow_mut().now = now;
        let _ = rig.dispatcher.turn();
        rig.policy.run();
        // Relaxed: as above.
        assert_eq!(woken.load(Ordering::Relaxed), times, "at {now} ns");
    }
}
